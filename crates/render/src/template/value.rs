//! The values that Go templates see, with the identity and the types that Go gives them.
//!
//! A Helm template can change a map (`set`, `merge`) and every holder of the map sees the change, so maps are
//! shared. Lists are shared and immutable too; only `sortAlpha` puts those of strings in order where they are.
//! Numbers keep their Go type, because `eq`, `typeOf` and `printf` tell `int`, `int64` and `float64` apart.

use super::budget;
pub use super::items::{Items, Room};
use super::stack::deeper;
use std::borrow::Cow;
use std::cell::{Cell, Ref, RefCell, RefMut};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// A Go string: bytes that are usually, but not always, UTF-8 (`b64dec` may make any bytes).
#[derive(Clone)]
pub struct Str(Bytes);

/// Long strings stay where they were made, which may be a file of the chart; short ones are nearer.
#[derive(Clone)]
enum Bytes {
    Short(Rc<[u8]>),
    Long(Arc<Vec<u8>>),
}

/// From how many bytes on a string is not copied.
const LONG: usize = 16 * 1024;

impl Str {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Short(bytes) => bytes,
            Bytes::Long(bytes) => bytes,
        }
    }
    /// The bytes, for whoever keeps them.
    pub(super) fn shared(&self) -> Arc<Vec<u8>> {
        match &self.0 {
            Bytes::Short(bytes) => Arc::new(bytes.to_vec()),
            Bytes::Long(bytes) => Arc::clone(bytes),
        }
    }
    /// The text, with U+FFFD in place of bytes that are not UTF-8.
    pub fn text(&self) -> Cow<'_, str> {
        match std::str::from_utf8(self.bytes()) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(self.bytes()),
        }
    }
    /// Whether the string has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }
    /// Length in bytes, as Go's `len`.
    pub fn len(&self) -> usize {
        self.bytes().len()
    }
    /// Whether nobody else holds it.
    pub(super) fn is_unshared(&self) -> bool {
        1 == match &self.0 {
            Bytes::Short(bytes) => Rc::strong_count(bytes),
            Bytes::Long(bytes) => Arc::strong_count(bytes),
        }
    }
}
impl PartialEq for Str {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}
impl Eq for Str {}
impl PartialOrd for Str {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Str {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}
impl Hash for Str {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}
impl From<&str> for Str {
    fn from(s: &str) -> Self {
        s.as_bytes().into()
    }
}
impl From<String> for Str {
    fn from(s: String) -> Self {
        s.into_bytes().into()
    }
}
impl From<&[u8]> for Str {
    fn from(s: &[u8]) -> Self {
        Self(Bytes::Short(Rc::from(s)))
    }
}
impl From<Vec<u8>> for Str {
    fn from(mut s: Vec<u8>) -> Self {
        Self(if s.len() < LONG {
            Bytes::Short(Rc::from(s))
        } else {
            s.shrink_to_fit();
            Bytes::Long(Arc::new(s))
        })
    }
}
impl From<&Arc<Vec<u8>>> for Str {
    fn from(s: &Arc<Vec<u8>>) -> Self {
        if s.len() < LONG { s.as_slice().into() } else { Self(Bytes::Long(Arc::clone(s))) }
    }
}
impl std::borrow::Borrow<[u8]> for Str {
    fn borrow(&self) -> &[u8] {
        self.bytes()
    }
}
impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text(), f)
    }
}

/// The Go integer types that templates can meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntType {
    /// `int`: literals of templates, results of most functions.
    Int,
    /// `int8`
    Int8,
    /// `int16`
    Int16,
    /// `int32`
    Int32,
    /// `int64`: numbers of `--set`, sprig's arithmetic.
    Int64,
    /// `uint`
    Uint,
    /// `uint8`: an indexed byte of a string.
    Uint8,
    /// `uint16`
    Uint16,
    /// `uint32`
    Uint32,
    /// `uint64`: parts of a semantic version. Values over `i64::MAX` keep their bits.
    Uint64,
    /// `time.Duration`, nanoseconds; of kind `int64`.
    Duration,
    /// `time.Month`; of kind `int`.
    Month,
    /// `time.Weekday`; of kind `int`.
    Weekday,
}

/// The static element type of a Go slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elem {
    /// `[]interface {}`
    Any,
    /// `[]string`
    Str,
    /// `[]int`
    Int,
    /// `[]uint8`: items are `Int(Uint8, _)`.
    Byte,
    /// A slice of objects; the name is the element's Go type (`*v2.Maintainer`).
    Object(&'static str),
}

/// A Go slice.
#[derive(Clone)]
pub struct List {
    /// The static element type.
    pub elem: Elem,
    /// The elements.
    pub items: Items,
}

/// The content that a list or map leaves behind when nothing refers to it.
#[expect(dead_code, reason = "it is kept only to be dropped")]
pub(super) enum Waste {
    List(Vec<Value>),
    Map(BTreeMap<Str, Value>),
}

/// Values nested deeper than this are not dropped one inside the other: that would use up the stack.
const MAX_DROP_DEPTH: u32 = 64;

thread_local! {
    /// Maps that templates put maps and lists into.
    static CHANGED: RefCell<Vec<Weak<Entries>>> = const { RefCell::new(Vec::new()) };
    /// How many drops are nested, and what waits for the outermost one.
    static DROPS: (Cell<u32>, RefCell<Vec<Waste>>) = const { (Cell::new(0), RefCell::new(Vec::new())) };
    /// The elements of every nil slice, known by their address.
    static NIL_ITEMS: Items = Items::default();
    /// The entries of every nil map, known by their address; nothing writes to them.
    static NIL_ENTRIES: Rc<Entries> = Rc::default();
}

/// Runs a function whose values nobody holds afterwards, and empties the maps that are left because they contain
/// themselves.
pub fn without_cycles<R>(run: impl FnOnce() -> R) -> R {
    struct Sweep;
    impl Drop for Sweep {
        fn drop(&mut self) {
            let changed = CHANGED.with_borrow_mut(std::mem::take);
            for map in changed.iter().filter_map(Weak::upgrade) {
                let entries = std::mem::take(&mut *map.0.borrow_mut());
                drop_later(Waste::Map(entries));
            }
        }
    }
    let _sweep = Sweep;
    run()
}

pub(super) fn drop_later(waste: Waste) {
    // While the thread ends there is nothing to count with; values that are dropped then are dropped directly.
    let mut waste = Some(waste);
    let _ = DROPS.try_with(|(depth, waiting)| {
        if depth.get() == MAX_DROP_DEPTH {
            waiting.borrow_mut().extend(waste.take());
            return;
        }
        depth.set(depth.get() + 1);
        drop(waste.take());
        depth.set(depth.get() - 1);
        while depth.get() == 0 {
            let Some(next) = waiting.borrow_mut().pop() else { break };
            depth.set(1);
            drop(next);
            depth.set(0);
        }
    });
}

impl List {
    /// A nil slice: as an empty one, but JSON shows it as `null` (`concat` of nothing, `regexFindAll` without a match).
    pub fn nil(elem: Elem) -> Self {
        Self { elem, items: NIL_ITEMS.with(Items::clone) }
    }
    /// A `[]uint8`.
    pub fn of_bytes(bytes: impl Into<Str>) -> Self {
        Self { elem: Elem::Byte, items: Items::of_bytes(bytes) }
    }
    /// The bytes of a `[]uint8`.
    pub fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        if self.elem != Elem::Byte {
            return None;
        }
        Some(match self.items.bytes() {
            Some(bytes) => Cow::Borrowed(bytes.bytes()),
            None => {
                self.items.iter().map(|item| if let Value::Int(_, i) = item { i.to_le_bytes()[0] } else { 0 }).collect()
            }
        })
    }
    /// Whether the slice was made by [`List::nil`].
    pub fn is_nil(&self) -> bool {
        self.items.is_empty() && NIL_ITEMS.with(|nil| nil.is_same(&self.items))
    }
}

/// The static type of a Go map with string keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// `map[string]interface {}`
    Any,
    /// `common.Values`: `.Values`, and the root object.
    Values,
    /// `map[string]string`: annotations of a chart, results of `urlParse`-like functions and `splitn`.
    Str,
}

/// A Go map: shared, mutable, iterated in the order of its keys.
#[derive(Clone)]
pub struct Map {
    /// The static type; the same map may be seen under two types, as `.Values.sub` and the subchart's `.Values` are.
    pub kind: MapType,
    cell: Rc<Entries>,
}

#[derive(Default)]
struct Entries(RefCell<BTreeMap<Str, Value>>);

impl Drop for Entries {
    fn drop(&mut self) {
        let entries = std::mem::take(self.0.get_mut());
        if !entries.is_empty() {
            drop_later(Waste::Map(entries));
        }
    }
}

impl Map {
    /// A new, empty map.
    pub fn new(kind: MapType) -> Self {
        Self { kind, cell: Rc::default() }
    }
    /// A nil map: as an empty one, but JSON shows it as `null`, and Go panics when it is written to.
    pub fn nil(kind: MapType) -> Self {
        Self { kind, cell: NIL_ENTRIES.with(Rc::clone) }
    }
    /// Whether the map was made by [`Map::nil`]. Code that writes to a map of a template must ask first.
    pub fn is_nil(&self) -> bool {
        self.is_empty() && NIL_ENTRIES.with(|nil| Rc::ptr_eq(nil, &self.cell))
    }
    /// The same map seen under another static type.
    #[must_use]
    pub fn with_type(&self, kind: MapType) -> Self {
        Self { kind, cell: Rc::clone(&self.cell) }
    }
    /// The value of a key, or `None` when the key is absent (a present `nil` is `Some(Value::Nil)`).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Value> {
        self.cell.0.borrow().get(key.as_ref()).cloned()
    }
    /// Sets a key; every holder of the map sees it.
    pub fn insert(&self, key: impl Into<Str>, value: impl Into<Value>) {
        self.cell.0.borrow_mut().insert(key.into(), value.into());
    }
    /// Removes a key.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Option<Value> {
        self.cell.0.borrow_mut().remove(key.as_ref())
    }
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.cell.0.borrow().len()
    }
    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.cell.0.borrow().is_empty()
    }
    /// The entries, sorted by key. Do not call a template function while holding it.
    pub fn borrow(&self) -> Ref<'_, BTreeMap<Str, Value>> {
        self.cell.0.borrow()
    }
    /// The entries, to be changed. Do not call a template function while holding it.
    pub fn borrow_mut(&self) -> RefMut<'_, BTreeMap<Str, Value>> {
        self.cell.0.borrow_mut()
    }
    /// A snapshot of the entries, safe to iterate while templates change the map.
    pub fn entries(&self) -> Vec<(Str, Value)> {
        self.cell.0.borrow().iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }
    /// Whether two values are the same map in memory.
    pub fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.cell, &other.cell)
    }
    /// Whether nobody else holds it.
    pub(super) fn is_unshared(&self) -> bool {
        Rc::strong_count(&self.cell) == 1
    }
    /// Records that a template put a value into the map: it may contain itself from now on.
    pub(super) fn note_change(&self, value: &Value) {
        if matches!(value, Value::Map(_) | Value::List(_)) {
            let cell = Rc::downgrade(&self.cell);
            CHANGED.with_borrow_mut(|changed| {
                if !changed.last().is_some_and(|last| last.ptr_eq(&cell)) {
                    changed.push(cell);
                }
            });
        }
    }
}

/// The name of Go's `reflect` for the kind of a value; `kindOf` prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are Go's")]
pub enum Kind {
    Invalid,
    Bool,
    Int,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float64,
    String,
    Slice,
    Map,
    Struct,
    Ptr,
    Func,
    Complex128,
}

/// A Go struct, pointer to struct, or map with methods: `.Chart`, `.Files`, `.Capabilities`, a version, a time.
pub trait Object {
    /// The Go type as `%T` prints it, such as `*semver.Version`.
    fn type_name(&self) -> &'static str;
    /// Its kind.
    fn kind(&self) -> Kind;
    /// An exported field, or for a map kind the value of a key.
    fn field(&self, name: &str) -> Option<Value>;
    /// The names of the fields in Go's order, for `%v`; of a map kind the sorted keys.
    fn fields(&self) -> Vec<Str>;
    /// The elements of a slice type.
    fn items(&self) -> Option<Items> {
        None
    }
    /// The same slice type with other elements.
    fn with_items(&self, _items: Items) -> Option<Value> {
        None
    }
    /// An exported method's parameters and variadic flag, or `None` when there is no such method.
    fn method(&self, _name: &str) -> Option<&'static [super::function::Param]> {
        None
    }
    /// Calls a method whose arguments the engine has checked against [`Object::method`].
    fn call(&self, _name: &str, _args: &[Value]) -> Result<Value, super::function::FnError> {
        Err("no such method".into())
    }
    /// The text of a type with a `String()` or `Error()` method, which Go's `fmt` prefers for `%v` and `%s`.
    fn display(&self) -> Option<String> {
        None
    }
    /// The text of a type with a `GoString` method, which Go's `fmt` prefers for `%#v`.
    fn go_string(&self) -> Option<String> {
        None
    }
    /// Whether it is a pointer to nothing.
    fn is_nil(&self) -> bool {
        false
    }
    /// Whether Go's `==` finds the other one, of the same type and in another place, equal.
    fn equals(&self, _other: &dyn Object) -> bool {
        false
    }
    /// As [`Object::display`], of a type whose pointer has the method: only an action that names the value itself, and
    /// no function it is given to, shows it so.
    fn addressed(&self) -> Option<String> {
        None
    }
    /// The value in an interface, as functions take it, if its pointer has methods: those are lost then.
    fn passed(&self) -> Option<Value> {
        None
    }
    /// The deep copy, if it differs: unexported fields are not copied.
    fn copied(&self) -> Option<Value> {
        None
    }
    /// Whether Go's `template` takes the value for true; structs always are, maps when not empty.
    fn truth(&self) -> bool {
        true
    }
    /// The value as JSON, as `toJson` and `toYaml` see it through `encoding/json`.
    fn json(&self) -> Value;
    /// The members of the value's JSON in the order of the fields, for a struct that is marshalled field by field.
    fn members(&self) -> Option<Vec<(&'static str, Value)>> {
        None
    }
    /// The fields as `%v` shows them where there is no text to show: unexported ones too.
    fn shown(&self) -> Vec<(Str, Value)> {
        let value = |name: &Str| self.field(&name.text()).unwrap_or(Value::Nil);
        self.fields().into_iter().map(|name| (name.clone(), value(&name))).collect()
    }
    /// For functions that need the Rust type behind it.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// A value of a template.
#[derive(Clone)]
pub enum Value {
    /// `nil`, an empty interface. A missing map key is this too (Helm sets `missingkey=zero`).
    Nil,
    /// `bool`
    Bool(bool),
    /// Any integer type.
    Int(IntType, i64),
    /// `float64`
    Float(f64),
    /// `string`
    Str(Str),
    /// A slice.
    List(List),
    /// A map with string keys.
    Map(Map),
    /// A struct, or a map with methods.
    Object(Rc<dyn Object>),
}

impl Value {
    /// A Go `int`.
    pub fn int(i: i64) -> Self {
        Self::Int(IntType::Int, i)
    }
    /// A `[]interface {}` that Go made by adding one element after the other, as it reads lists of JSON and YAML.
    pub fn grown(items: Vec<Value>) -> Self {
        Self::List(List { elem: Elem::Any, items: Items::with_room(items, Room::Grown(0)) })
    }
    /// A Go `string`.
    pub fn str(s: impl Into<Str>) -> Self {
        Self::Str(s.into())
    }
    /// A `[]interface {}`.
    pub fn list(items: Vec<Value>) -> Self {
        Self::List(List { elem: Elem::Any, items: items.into() })
    }
    /// A `[]string`.
    pub fn strings<S: Into<Str>>(items: impl IntoIterator<Item = S>) -> Self {
        Self::strings_in(items, Room::Exact)
    }
    /// A `[]string` with room for more.
    pub fn strings_in<S: Into<Str>>(items: impl IntoIterator<Item = S>, room: Room) -> Self {
        let items = Items::with_room(items.into_iter().map(|s| Self::Str(s.into())).collect(), room);
        Self::List(List { elem: Elem::Str, items })
    }
    /// A new `map[string]interface {}`.
    pub fn map(entries: impl IntoIterator<Item = (Str, Value)>) -> Self {
        let map = Map::new(MapType::Any);
        map.borrow_mut().extend(entries);
        Self::Map(map)
    }
    /// The kind, as Go's `reflect` names it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Nil => Kind::Invalid,
            Self::Bool(_) => Kind::Bool,
            Self::Int(t, _) => match t {
                IntType::Int | IntType::Month | IntType::Weekday => Kind::Int,
                IntType::Int8 => Kind::Int8,
                IntType::Int16 => Kind::Int16,
                IntType::Int32 => Kind::Int32,
                IntType::Int64 | IntType::Duration => Kind::Int64,
                IntType::Uint => Kind::Uint,
                IntType::Uint8 => Kind::Uint8,
                IntType::Uint16 => Kind::Uint16,
                IntType::Uint32 => Kind::Uint32,
                IntType::Uint64 => Kind::Uint64,
            },
            Self::Float(_) => Kind::Float64,
            Self::Str(_) => Kind::String,
            Self::List(_) => Kind::Slice,
            Self::Map(_) => Kind::Map,
            Self::Object(o) => o.kind(),
        }
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Self::Str(s.into())
    }
}
impl From<String> for Value {
    fn from(s: String) -> Self {
        Self::Str(s.into())
    }
}
impl From<Str> for Value {
    fn from(s: Str) -> Self {
        Self::Str(s)
    }
}
impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}
impl From<f64> for Value {
    fn from(f: f64) -> Self {
        Self::Float(f)
    }
}
impl From<Map> for Value {
    fn from(m: Map) -> Self {
        Self::Map(m)
    }
}

/// JSON as Helm holds values: a number with a fraction or exponent part, and every number that came out of YAML
/// (which `template::yaml` reads as floats, as Helm does), is a `float64`; an integer of `--set` or of a custom
/// resource is an `int64`. Every list is a `[]interface {}`.
impl From<&serde_json::Value> for Value {
    fn from(json: &serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Nil,
            serde_json::Value::Bool(b) => Self::Bool(*b),
            serde_json::Value::Number(n) => match n.as_i64() {
                Some(i) if !n.is_f64() => Self::Int(IntType::Int64, i),
                _ => Self::Float(n.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(s) => Self::str(s.as_str()),
            // The budget reports a refusal at the next step.
            serde_json::Value::Array(items) if budget::elements(items.len()).is_err() => Self::Nil,
            serde_json::Value::Object(entries) if budget::entries(entries.len()).is_err() => Self::Nil,
            serde_json::Value::Array(items) => deeper(|| Self::grown(items.iter().map(Self::from).collect())),
            serde_json::Value::Object(entries) => {
                deeper(|| Self::map(entries.iter().map(|(k, v)| (Str::from(k.as_str()), Self::from(v)))))
            }
        }
    }
}

//! The built-in functions of Go's `text/template`, and the names of those that need the engine.

use super::fmt::{print_value, sprint, sprintf, sprintln, type_name};
use super::{lex, quote};
use crate::template::function::{Context, FnError, FnResult, Function, Param};
use crate::template::value::{Elem, IntType, Kind, List, MapType, Value};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::rc::Rc;

/// A function of a template, found when the template was parsed.
#[derive(Clone, Copy)]
pub enum FuncRef {
    /// A function that works on its arguments only.
    Plain(&'static Function),
    /// A function that the engine itself performs.
    Engine(Engine, &'static Function),
}

/// The functions that need the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Evaluates no more arguments than it must.
    And,
    /// Evaluates no more arguments than it must.
    Or,
    /// Calls a function value, of which there are none.
    Call,
    /// Distinguishes a nil interface from no value at all.
    Len,
    /// Executes a template of the set.
    Include,
    /// Executes a text as a template.
    Tpl,
    /// Fails when a value is missing.
    Required,
    /// Fails.
    Fail,
    /// Asks the host for an object of the cluster.
    Lookup,
}

impl FuncRef {
    /// The function's name, parameters and whether the last one is variadic.
    pub fn signature(self) -> &'static Function {
        match self {
            Self::Plain(function) | Self::Engine(_, function) => function,
        }
    }

    /// The function's name.
    pub fn name(self) -> &'static str {
        self.signature().name
    }
}

impl std::fmt::Debug for FuncRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The functions that templates may call, by name.
pub struct Functions {
    all: HashMap<&'static [u8], FuncRef, foldhash::fast::RandomState>,
    /// Those of the program, beside Helm's.
    own: Vec<&'static Function>,
}

/// How many functions there are, about.
const ROOM: usize = 300;

impl Functions {
    /// Go's own functions, which those given hide, and Helm's own of the engine (`include`, `tpl`, `required`, `fail`,
    /// `lookup`), which hide all others.
    pub fn new(functions: impl IntoIterator<Item = &'static Function>) -> Self {
        // With room for all of them: every command makes this table once.
        let mut all = HashMap::with_capacity_and_hasher(ROOM, foldhash::fast::RandomState::default());
        all.extend(BUILTINS.iter().map(|f| (f.name.as_bytes(), FuncRef::Plain(f))));
        let engine = |(engine, f): &'static (Engine, Function)| (f.name.as_bytes(), FuncRef::Engine(*engine, f));
        all.extend(ENGINE.iter().map(engine));
        for function in functions {
            if !matches!(function.name, "include" | "tpl" | "required" | "fail" | "lookup") {
                all.insert(function.name.as_bytes(), FuncRef::Plain(function));
            }
        }
        Self { all, own: Vec::new() }
    }

    /// Adds functions of the program's own. They hide others of the same name, but not those of the engine.
    #[must_use]
    pub fn with_own(mut self, own: &[&'static Function]) -> Self {
        for &function in own {
            let is_of_engine = matches!(self.all.get(function.name.as_bytes()), Some(FuncRef::Engine(..)));
            if !is_of_engine {
                self.all.insert(function.name.as_bytes(), FuncRef::Plain(function));
            }
        }
        self.own = own.to_vec();
        self
    }

    /// Whether these are the program's own functions here.
    pub fn are_own(&self, own: &[&'static Function]) -> bool {
        self.own.len() == own.len() && self.own.iter().zip(own).all(|(one, other)| std::ptr::eq(*one, *other))
    }

    /// The names of all functions.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.all.values().map(|function| function.name())
    }

    /// The function of this name.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<FuncRef> {
        self.all.get(name.as_ref()).copied()
    }
}

const fn engine(name: &'static str, params: &'static [Param], variadic: bool) -> Function {
    Function { name, params, variadic, run: |_, _| Err("is performed by the engine".into()) }
}

const fn plain(
    name: &'static str,
    params: &'static [Param],
    variadic: bool,
    run: fn(&Context, &[Value]) -> FnResult,
) -> Function {
    Function { name, params, variadic, run }
}

const REFLECT1: &[Param] = &[Param::Reflect];
const REFLECT2: &[Param] = &[Param::Reflect, Param::Reflect];
const ANY: &[Param] = &[Param::Any];

static ENGINE: [(Engine, Function); 9] = [
    (Engine::And, engine("and", REFLECT2, true)),
    (Engine::Or, engine("or", REFLECT2, true)),
    (Engine::Call, engine("call", REFLECT2, true)),
    (Engine::Len, engine("len", REFLECT1, false)),
    (Engine::Include, engine("include", &[Param::Str, Param::Any], false)),
    (Engine::Tpl, engine("tpl", &[Param::Str, Param::Any], false)),
    (Engine::Required, engine("required", &[Param::Str, Param::Any], false)),
    (Engine::Fail, engine("fail", &[Param::Str], false)),
    (Engine::Lookup, engine("lookup", &[Param::Str; 4], false)),
];

static BUILTINS: [Function; 15] = [
    plain("html", ANY, true, |_, args| Ok(Value::str(html(&text(args)?)))),
    plain("index", REFLECT2, true, |_, args| index(args)),
    plain("slice", REFLECT2, true, |_, args| slice(args)),
    plain("js", ANY, true, |_, args| Ok(Value::str(js(&text(args)?)))),
    plain("not", REFLECT1, false, |_, args| Ok((!truth(&args[0])).into())),
    plain("print", ANY, true, |_, args| Ok(Value::str(sprint(args)?))),
    plain("printf", &[Param::Str, Param::Any], true, |_, args| match args {
        [Value::Str(format), args @ ..] => Ok(Value::str(sprintf(format.bytes(), args)?)),
        _ => Err("wrong type for value; expected string".into()),
    }),
    plain("println", ANY, true, |_, args| Ok(Value::str(sprintln(args)?))),
    plain("urlquery", ANY, true, |_, args| Ok(url_query(&text(args)?).into())),
    plain("eq", REFLECT2, true, |_, args| Ok(eq(args)?.into())),
    plain("ge", REFLECT2, false, |_, args| Ok((!lt(args)?).into())),
    plain("gt", REFLECT2, false, |_, args| Ok((!le(args)?).into())),
    plain("le", REFLECT2, false, |_, args| Ok(le(args)?.into())),
    plain("lt", REFLECT2, false, |_, args| Ok(lt(args)?.into())),
    plain("ne", REFLECT2, false, |_, args| Ok((!eq(args)?).into())),
];

/// Whether `if` treats a value as true: everything but the zero value of a type and empty collections.
pub fn truth(value: &Value) -> bool {
    match value {
        Value::Nil => false,
        Value::Bool(b) => *b,
        Value::Int(_, i) => *i != 0,
        Value::Float(f) => *f != 0.0,
        Value::Str(s) => !s.is_empty(),
        Value::List(l) => !l.items.is_empty(),
        Value::Map(m) => !m.is_empty(),
        Value::Object(o) => o.truth(),
    }
}

/// `len`.
///
/// # Errors
/// Go's, for a value without length.
pub fn length(value: &Value, is_nil_interface: bool) -> FnResult {
    let length = match value {
        Value::Nil if is_nil_interface => return Err("len of nil pointer".into()),
        Value::Nil => return Err("reflect: call of reflect.Value.Type on zero Value".into()),
        Value::Str(s) => s.len(),
        Value::List(l) => l.items.len(),
        Value::Map(m) => m.len(),
        Value::Object(o) if o.kind() == Kind::Map => o.fields().len(),
        Value::Object(o) if o.kind() == Kind::Slice => match o.json() {
            Value::List(l) => l.items.len(),
            _ => 0,
        },
        other => return Err(format!("len of type {}", type_name(other).trim_start_matches('*')).into()),
    };
    Ok(Value::int(i64::try_from(length).unwrap_or(i64::MAX)))
}

/// The text that `html`, `js` and `urlquery` work on.
fn text(args: &[Value]) -> Result<Vec<u8>, FnError> {
    let mut out = Vec::new();
    let mut after_string = true;
    for (i, arg) in args.iter().enumerate() {
        let is_string = matches!(arg, Value::Nil | Value::Str(_));
        if i > 0 && !is_string && !after_string {
            out.push(b' ');
        }
        after_string = is_string;
        let start = out.len();
        match arg {
            Value::Nil => out.extend_from_slice(b"<no value>"),
            _ => print_value(&mut out, arg)?,
        }
        // The target of a pointer.
        if matches!(arg, Value::Object(o) if o.kind() == Kind::Ptr) && out[start..].starts_with(b"&") {
            out.remove(start);
        }
    }
    Ok(out)
}

fn html(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &b in text {
        match b {
            0 => out.extend_from_slice("\u{fffd}".as_bytes()),
            b'"' => out.extend_from_slice(b"&#34;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            _ => out.push(b),
        }
    }
    out
}

fn js(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((c, width)) = lex::decode(rest) {
        match c {
            '\\' | '\'' | '"' => out.extend([b'\\', rest[0]]),
            '<' | '>' | '&' | '=' => out.extend(format!("\\u00{:02X}", u32::from(c)).bytes()),
            _ if c < ' ' => out.extend(format!("\\u00{:02X}", u32::from(c)).bytes()),
            // A byte that is not UTF-8 stays as it is.
            _ if c.is_ascii() || quote::is_print(c) => out.extend_from_slice(&rest[..width]),
            _ => out.extend(format!("\\u{:04X}", u32::from(c)).bytes()),
        }
        rest = &rest[width..];
    }
    out
}

fn url_query(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for &b in text {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(b as char),
            b' ' => out.push('+'),
            _ => {
                let _ = write!(out, "%{b:02X}");
            }
        }
    }
    out
}

fn index_arg(index: &Value, length: usize) -> Result<usize, FnError> {
    match index {
        Value::Int(_, i) => {
            usize::try_from(*i).ok().filter(|i| *i <= length).ok_or_else(|| format!("index out of range: {i}").into())
        }
        Value::Nil => Err("cannot index slice/array with nil".into()),
        other => Err(format!("cannot index slice/array with type {}", type_name(other)).into()),
    }
}

/// Go's message for an index that `index` lets through: it allows the length itself.
fn beyond(kind: &str) -> FnError {
    format!("reflect: {kind} index out of range").into()
}

fn index(args: &[Value]) -> FnResult {
    let (item, indexes) = args.split_first().ok_or("index of untyped nil")?;
    if matches!(item, Value::Nil) {
        return Err("index of untyped nil".into());
    }
    let mut item = item.clone();
    for index in indexes {
        item = match &item {
            Value::Nil => return Err("index of nil pointer".into()),
            Value::Str(s) => {
                let i = index_arg(index, s.len())?;
                let byte = s.bytes().get(i).ok_or_else(|| beyond("string"))?;
                Value::Int(IntType::Uint8, i64::from(*byte))
            }
            Value::List(l) => {
                let i = index_arg(index, l.items.len())?;
                l.items.get(i).cloned().ok_or_else(|| beyond("slice"))?
            }
            Value::Map(m) => {
                let key = map_key(index)?;
                match m.get(key.bytes()) {
                    Some(value) => value,
                    None if m.kind == MapType::Str => Value::str(""),
                    None => Value::Nil,
                }
            }
            Value::Object(o) if o.kind() == Kind::Map => o.field(&map_key(index)?.text()).unwrap_or(Value::Nil),
            Value::Object(o) if o.kind() == Kind::Slice => match o.json() {
                Value::List(l) => {
                    let i = index_arg(index, l.items.len())?;
                    l.items.get(i).cloned().ok_or_else(|| beyond("slice"))?
                }
                _ => Value::Nil,
            },
            other => {
                return Err(format!("can't index item of type {}", type_name(other).trim_start_matches('*')).into());
            }
        };
    }
    Ok(item)
}

fn map_key(index: &Value) -> Result<crate::template::value::Str, FnError> {
    match index {
        Value::Str(key) => Ok(key.clone()),
        Value::Nil => Err("value is nil; should be of type string".into()),
        other => Err(format!("value has type {}; should be string", type_name(other)).into()),
    }
}

fn slice(args: &[Value]) -> FnResult {
    let (item, indexes) = args.split_first().ok_or("slice of untyped nil")?;
    if indexes.len() > 3 {
        return Err(format!("too many slice indexes: {}", indexes.len()).into());
    }
    let length = match item {
        Value::Nil => return Err("slice of untyped nil".into()),
        Value::Str(_) if indexes.len() == 3 => return Err("cannot 3-index slice a string".into()),
        Value::Str(s) => s.len(),
        Value::List(l) => l.items.len(),
        other => return Err(format!("can't slice item of type {}", type_name(other).trim_start_matches('*')).into()),
    };
    let mut bounds = [0, length, length];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = index_arg(index, length)?;
    }
    let [from, to, max] = bounds;
    if from > to {
        return Err(format!("invalid slice index: {from} > {to}").into());
    }
    if to > max {
        return Err(format!("invalid slice index: {to} > {max}").into());
    }
    Ok(match item {
        Value::List(l) => Value::List(List { elem: l.elem, items: l.items[from..to].to_vec().into() }),
        Value::Str(s) => Value::str(&s.bytes()[from..to]),
        other => other.clone(),
    })
}

/// The kinds that can be compared with each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Basic {
    Bool,
    Int,
    Uint,
    Float,
    Complex,
    Str,
}

fn basic(value: &Value) -> Option<Basic> {
    Some(match value.kind() {
        Kind::Bool => Basic::Bool,
        Kind::Int | Kind::Int8 | Kind::Int16 | Kind::Int32 | Kind::Int64 => Basic::Int,
        Kind::Uint | Kind::Uint8 | Kind::Uint16 | Kind::Uint32 | Kind::Uint64 => Basic::Uint,
        Kind::Float64 => Basic::Float,
        Kind::Complex128 => Basic::Complex,
        Kind::String => Basic::Str,
        _ => return None,
    })
}

fn incompatible(a: &Value, b: &Value) -> FnError {
    format!("incompatible types for comparison: {} and {}", type_name(a), type_name(b)).into()
}

/// How two basic values of one kind, or two integers of any kind, compare.
fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Str(a), Value::Str(b)) => Some(a.cmp(b)),
        (Value::Object(a), Value::Object(b)) => Some(a.display().cmp(&b.display())),
        (Value::Int(_, i), Value::Int(_, j)) => {
            let wide = |value: &Value, i: i64| match basic(value) {
                Some(Basic::Uint) => i128::from(i.cast_unsigned()),
                _ => i128::from(i),
            };
            Some(wide(a, *i).cmp(&wide(b, *j)))
        }
        _ => None,
    }
}

fn is_integer_pair(a: Option<Basic>, b: Option<Basic>) -> bool {
    matches!((a, b), (Some(Basic::Int | Basic::Uint), Some(Basic::Int | Basic::Uint)))
}

fn eq(args: &[Value]) -> Result<bool, FnError> {
    let (first, others) = args.split_first().ok_or("missing argument for comparison")?;
    if others.is_empty() {
        return Err("missing argument for comparison".into());
    }
    let kind = basic(first);
    for other in others {
        let other_kind = basic(other);
        let equal = if kind != other_kind && !is_integer_pair(kind, other_kind) {
            if !matches!(first, Value::Nil) && !matches!(other, Value::Nil) {
                return Err(incompatible(first, other));
            }
            false
        } else if kind.is_some() {
            compare(first, other) == Some(Ordering::Equal)
        } else {
            eq_composite(first, other)?
        };
        if equal {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Equality of values that are not basic: nil equals nil, pointers equal themselves, the rest has no equality.
fn eq_composite(a: &Value, b: &Value) -> Result<bool, FnError> {
    // Go's message shows one operand with %s and the other with %v.
    let shown = |format: &[u8], value: &Value| -> Result<String, FnError> {
        Ok(String::from_utf8_lossy(&sprintf(format, std::slice::from_ref(value))?).into_owned())
    };
    match (a, b) {
        (Value::Nil, _) | (_, Value::Nil) => Ok(is_nil(a) && is_nil(b)),
        _ if a.kind() != b.kind() => Err(format!(
            "non-comparable types {}: {}, {}: {}",
            shown(b"%s", a)?,
            type_name(a),
            type_name(b),
            shown(b"%v", b)?
        )
        .into()),
        _ if is_nil(a) || is_nil(b) => Ok(is_nil(a) && is_nil(b)),
        (Value::Object(a), Value::Object(b)) if !matches!(b.kind(), Kind::Map | Kind::Slice | Kind::Func) => {
            Ok(Rc::ptr_eq(a, b) || a.type_name() == b.type_name() && a.equals(b.as_ref()))
        }
        _ => Err(format!("non-comparable type {}: {}", shown(b"%s", b)?, type_name(b)).into()),
    }
}

/// `reflect.Value.IsNil`, and no value at all.
fn is_nil(value: &Value) -> bool {
    match value {
        Value::Nil => true,
        Value::List(list) => list.is_nil(),
        Value::Map(map) => map.is_nil(),
        _ => false,
    }
}

fn lt(args: &[Value]) -> Result<bool, FnError> {
    const BAD: &str = "invalid type for comparison";
    let [a, b] = args else { return Err(BAD.into()) };
    let kinds = (basic(a), basic(b));
    match kinds {
        (None, _) | (_, None) => Err(BAD.into()),
        (a_kind, b_kind) if a_kind != b_kind && !is_integer_pair(a_kind, b_kind) => Err(incompatible(a, b)),
        (Some(Basic::Bool | Basic::Complex), _) => Err(BAD.into()),
        _ => Ok(compare(a, b) == Some(Ordering::Less)),
    }
}

fn le(args: &[Value]) -> Result<bool, FnError> {
    Ok(lt(args)? || eq(args)?)
}

/// Whether the elements of a list are interfaces, so that a nil among them is a nil *interface*.
pub fn has_interfaces(list: &List) -> bool {
    list.elem == Elem::Any
}

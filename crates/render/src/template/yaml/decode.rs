//! Meaning of a document: go-yaml v2's decoder, sigs.k8s.io/yaml's conversion to JSON, and encoding/json.

use super::gotype::{Target, ToGo};
use super::node::{Node, Tree, compose};
use super::parser::Tag;
use super::reader::Source;
use super::resolve::{Scalar, resolve};
use super::{Fallible, MAX_LEVELS, YamlError};
use crate::template::budget;
use crate::template::functions::text;
use crate::template::value::{Map, MapType, Str, Value};
use base64::Engine as _;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Number, Value as Json};
use std::borrow::Cow;

/// How deep a value may be nested. Go allows 10,000 levels; but values are compared, copied and dropped by functions
/// that call themselves, on threads whose stack is smaller than Go's.
const MAX_DEPTH: usize = 1000;

/// As Go's, which does not care for the last bits.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&base64::alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// The parts of a document: JSON for charts' values, template values for `fromYaml`.
pub(super) trait Build {
    type Node;
    type Map;
    type Key;
    fn scalar(scalar: Scalar, text: Cow<'_, str>) -> Self::Node;
    fn list(items: Vec<Self::Node>) -> Self::Node;
    fn new_map(capacity: usize) -> Self::Map;
    fn key(scalar: Scalar, text: Cow<'_, str>) -> Self::Key;
    fn insert(map: &mut Self::Map, key: Self::Key, node: Self::Node);
    fn map(map: Self::Map) -> Self::Node;
}

/// All numbers are `float64` behind encoding/json.
#[expect(clippy::cast_precision_loss, reason = "as in Go")]
fn number(scalar: Scalar) -> f64 {
    match scalar {
        Scalar::Int(i) => i as f64,
        Scalar::Uint(u) => u as f64,
        Scalar::Float(f) => f,
        _ => 0.0,
    }
}

/// A key as text: JSON has no other. Keys that cannot be one are an error later.
pub(super) fn key_text(scalar: Scalar, text: Cow<'_, str>) -> Cow<'_, str> {
    match scalar {
        Scalar::Int(i) => i.to_string().into(),
        Scalar::Bool(b) => b.to_string().into(),
        Scalar::Float(f) => float_key(f).into(),
        Scalar::Uint(_) | Scalar::Null => "".into(),
        Scalar::Text | Scalar::Timestamp => text,
    }
}

/// `strconv.FormatFloat(key, 'g', -1, 32)` with YAML's names for numbers that are not finite.
fn float_key(f: f64) -> String {
    let text = float32(f);
    match text.as_str() {
        "+Inf" => ".inf".into(),
        "-Inf" => "-.inf".into(),
        "NaN" => ".nan".into(),
        _ => text,
    }
}

/// `strconv.FormatFloat(f, 'g', -1, 32)`, which sigs.k8s.io/yaml uses where a text is wanted.
pub(super) fn float32(f: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "as in Go")]
    text::float32(f as f32)
}

enum ToJson {}
impl Build for ToJson {
    type Node = Json;
    type Map = serde_json::Map<String, Json>;
    type Key = String;
    fn scalar(scalar: Scalar, text: Cow<'_, str>) -> Json {
        match scalar {
            Scalar::Null => Json::Null,
            Scalar::Bool(b) => Json::Bool(b),
            Scalar::Int(_) | Scalar::Uint(_) | Scalar::Float(_) => {
                Number::from_f64(number(scalar)).map_or(Json::Null, Json::Number)
            }
            Scalar::Text | Scalar::Timestamp => Json::String(text.into_owned()),
        }
    }
    fn list(items: Vec<Json>) -> Json {
        Json::Array(items)
    }
    fn new_map(capacity: usize) -> Self::Map {
        serde_json::Map::with_capacity(capacity)
    }
    fn key(scalar: Scalar, text: Cow<'_, str>) -> String {
        key_text(scalar, text).into_owned()
    }
    fn insert(map: &mut Self::Map, key: String, node: Json) {
        map.insert(key, node);
    }
    fn map(map: Self::Map) -> Json {
        Json::Object(map)
    }
}

enum ToValue {}
impl Build for ToValue {
    type Node = Value;
    type Map = Map;
    type Key = Str;
    fn scalar(scalar: Scalar, text: Cow<'_, str>) -> Value {
        match scalar {
            Scalar::Null => Value::Nil,
            Scalar::Bool(b) => Value::Bool(b),
            Scalar::Int(_) | Scalar::Uint(_) | Scalar::Float(_) => Value::Float(number(scalar)),
            Scalar::Text | Scalar::Timestamp => Value::str(&*text),
        }
    }
    fn list(items: Vec<Value>) -> Value {
        Value::grown(items)
    }
    fn new_map(_: usize) -> Map {
        Map::new(MapType::Any)
    }
    fn key(scalar: Scalar, text: Cow<'_, str>) -> Str {
        Str::from(&*key_text(scalar, text))
    }
    fn insert(map: &mut Map, key: Str, node: Value) {
        map.insert(key, node);
    }
    fn map(map: Map) -> Value {
        Value::Map(map)
    }
}

/// Nothing is built; only errors are looked for.
enum ToNothing {}
impl Build for ToNothing {
    type Node = ();
    type Map = ();
    type Key = ();
    fn scalar(_: Scalar, _: Cow<'_, str>) {}
    fn list(_: Vec<()>) {}
    fn new_map(_: usize) {}
    fn key(_: Scalar, _: Cow<'_, str>) {}
    fn insert((): &mut (), (): (), (): ()) {}
    fn map((): ()) {}
}

/// The first document of a text as JSON, as `yaml.Unmarshal` of sigs.k8s.io/yaml gives it: all numbers are
/// floats, keys are strings, of duplicate keys the last wins. Errors are Go's, with their prefix
/// `error converting YAML to JSON: `. Nesting is limited to 1,000 levels.
pub fn parse(text: &[u8]) -> Result<Json, YamlError> {
    document::<ToJson>(text)
}

/// As [`parse`], but made of template values.
pub fn parse_value(text: &[u8]) -> Result<Value, YamlError> {
    document::<ToValue>(text)
}

/// An error that Go finds before it has JSON.
pub(super) fn in_conversion(problem: impl AsRef<str>) -> YamlError {
    YamlError(format!("error converting YAML to JSON: {}", problem.as_ref()))
}

fn document<B: Build>(text: &[u8]) -> Result<B::Node, YamlError> {
    let source = Source::new(text);
    let Some(tree) = compose(&source).map_err(in_conversion)? else {
        return Ok(B::scalar(Scalar::Null, "".into()));
    };
    Decoder::<B>::new(&tree, MAX_DEPTH).document(Target::Any).map_err(in_conversion)
}

/// Looks for the errors that Go finds before it has JSON. `target` is what Go decodes the JSON into; some types take
/// what others refuse. If the JSON is too deep for Go, the bracket is returned that opens one level too many.
pub(super) fn check(tree: &Tree, target: Target) -> Fallible<Option<char>> {
    let mut decoder = Decoder::<ToNothing>::new(tree, usize::MAX);
    decoder.document(target)?;
    Ok(decoder.too_deep)
}

/// A collection that is being read.
struct Level {
    kind: Kind,
    /// The collection.
    node: usize,
    /// The next node in it.
    at: usize,
    end: usize,
    /// Whether an alias led to it.
    is_aliased: bool,
    /// Whether it is the key of a mapping, which is an error once it is read.
    is_key: bool,
}

enum Kind {
    Sequence,
    Mapping,
    /// A mapping whose entries become part of the one around it.
    Merge,
    /// The value of `<<`, if it is a list: the rest of it.
    Merges(Vec<usize>),
}

/// The value of a collection that is being read.
enum Part<B: Build> {
    List(Vec<B::Node>),
    Map(B::Map, Option<B::Key>),
}

struct Decoder<'a, B: Build> {
    tree: &'a Tree<'a>,
    limit: usize,
    levels: Vec<Level>,
    parts: Vec<Part<B>>,
    result: Option<B::Node>,
    /// The aliases we are in.
    aliases: Vec<usize>,
    decoded: u64,
    aliased: u64,
    /// Whether something was found that JSON may not have.
    is_odd: bool,
    too_deep: Option<char>,
}

fn fail<T>(problem: &str) -> Fallible<T> {
    Err(format!("yaml: {problem}").into())
}

impl<'a, B: Build> Decoder<'a, B> {
    fn new(tree: &'a Tree<'a>, limit: usize) -> Self {
        Self {
            tree,
            limit,
            levels: Vec::new(),
            parts: Vec::new(),
            result: None,
            aliases: Vec::new(),
            decoded: 0,
            aliased: 0,
            is_odd: false,
            too_deep: None,
        }
    }

    fn document(&mut self, target: Target) -> Fallible<B::Node> {
        // The document counts as a node.
        self.decoded = 1;
        let node = self.run(0)?;
        if self.is_odd {
            Decoder::<ToGo>::new(self.tree, MAX_DEPTH).run(0)?.convert(target)?;
        }
        Ok(node)
    }

    fn run(&mut self, root: usize) -> Fallible<B::Node> {
        self.start(root)?;
        while let Some(level) = self.levels.last_mut() {
            if let Kind::Merges(left) = &mut level.kind {
                match left.pop() {
                    Some(node) => self.merge_one(node)?,
                    None => drop(self.levels.pop()),
                }
                continue;
            }
            let node = level.at;
            if node == level.end {
                self.finish()?;
                continue;
            }
            level.at = self.tree.behind(node);
            if matches!(level.kind, Kind::Sequence) {
                self.start(node)?;
            } else {
                self.entry(node)?;
            }
        }
        // A document has a root, which has been delivered.
        Ok(self.result.take().unwrap_or_else(|| B::scalar(Scalar::Null, "".into())))
    }

    /// go-yaml's guard against documents that grow by their aliases.
    fn count(&mut self) -> Fallible<()> {
        self.decoded += 1;
        // Text that is written once is counted when it is read.
        if !self.aliases.is_empty() {
            budget::node().map_err(|spent| String::from(spent).into_boxed_str())?;
        }
        if self.aliases.is_empty() {
            return Ok(());
        }
        self.aliased += 1;
        if self.aliased > 100 && self.decoded > 1000 {
            #[expect(clippy::cast_precision_loss, reason = "numbers of nodes")]
            let (aliased, decoded) = (self.aliased as f64, self.decoded as f64);
            // The share allowed falls from 99 % below 400,000 nodes to 10 % above 4,000,000.
            let over = decoded.clamp(400_000.0, 4_000_000.0) - 400_000.0;
            if aliased / decoded > 0.99 - 0.89 * (over / 3_600_000.0) {
                return fail("document contains excessive aliasing");
            }
        }
        Ok(())
    }

    /// Reads a value: a scalar at once, a collection in the steps that follow.
    fn start(&mut self, node: usize) -> Fallible<()> {
        self.count()?;
        match &self.tree.nodes[node] {
            Node::Alias { .. } => {
                let target = self.enter(node)?;
                self.count()?;
                self.value(target, true, false)
            }
            _ => self.value(node, false, false),
        }
    }

    fn value(&mut self, node: usize, is_aliased: bool, is_key: bool) -> Fallible<()> {
        match &self.tree.nodes[node] {
            Node::Scalar { value, tag, implicit } => {
                let (scalar, text) = meaning(value, *tag, *implicit)?;
                self.is_odd |= matches!(scalar, Scalar::Float(f) if !f.is_finite());
                self.leave(is_aliased);
                self.deliver(B::scalar(scalar, text));
            }
            Node::Sequence { length, .. } => {
                self.open(node, Kind::Sequence, is_aliased, is_key)?;
                self.deepen('[');
                self.parts.push(Part::List(Vec::with_capacity(*length)));
            }
            Node::Mapping { length, .. } => {
                self.open(node, Kind::Mapping, is_aliased, is_key)?;
                self.deepen('{');
                self.parts.push(Part::Map(B::new_map(*length), None));
            }
            // An alias has no anchor, so none leads to one.
            Node::Alias { .. } => {}
        }
        Ok(())
    }

    fn open(&mut self, node: usize, kind: Kind, is_aliased: bool, is_key: bool) -> Fallible<()> {
        if self.levels.len() >= self.limit {
            return fail(&format!("exceeded max depth of {MAX_LEVELS}"));
        }
        let end = self.tree.behind(node);
        self.levels.push(Level { kind, node, at: node + 1, end, is_aliased, is_key });
        Ok(())
    }

    fn deepen(&mut self, bracket: char) {
        if self.parts.len() >= MAX_LEVELS {
            self.too_deep.get_or_insert(bracket);
        }
    }

    /// Enters an alias, and returns its target.
    fn enter(&mut self, alias: usize) -> Fallible<usize> {
        let Node::Alias { target, name } = &self.tree.nodes[alias] else { return Ok(alias) };
        if self.aliases.contains(&alias) {
            return fail(&format!("anchor '{name}' value contains itself"));
        }
        self.aliases.push(alias);
        Ok(*target)
    }

    fn leave(&mut self, is_aliased: bool) {
        if is_aliased {
            self.aliases.pop();
        }
    }

    fn finish(&mut self) -> Fallible<()> {
        let Some(level) = self.levels.pop() else { return Ok(()) };
        self.leave(level.is_aliased);
        if matches!(level.kind, Kind::Merge) {
            return Ok(());
        }
        if level.is_key {
            let key = Decoder::<ToGo>::new(self.tree, MAX_DEPTH).run(level.node)?;
            return fail(&format!("invalid map key: {}", key.syntax()));
        }
        match self.parts.pop() {
            Some(Part::List(items)) => self.deliver(B::list(items)),
            Some(Part::Map(map, _)) => self.deliver(B::map(map)),
            None => {}
        }
        Ok(())
    }

    /// Hands a complete value to the collection around it.
    fn deliver(&mut self, node: B::Node) {
        match self.parts.last_mut() {
            None => self.result = Some(node),
            Some(Part::List(items)) => items.push(node),
            Some(Part::Map(map, key)) => {
                if let Some(key) = key.take() {
                    B::insert(map, key, node);
                }
            }
        }
    }

    /// Reads an entry of a mapping.
    fn entry(&mut self, key: usize) -> Fallible<()> {
        let value = self.tree.behind(key);
        if let Some(level) = self.levels.last_mut() {
            level.at = self.tree.behind(value);
        }
        if self.tree.is_merge(key) {
            return self.merge(value);
        }
        self.count()?;
        let (node, is_aliased) = match self.tree.nodes[key] {
            Node::Alias { .. } => {
                let target = self.enter(key)?;
                self.count()?;
                (target, true)
            }
            _ => (key, false),
        };
        let Node::Scalar { value: text, tag, implicit } = &self.tree.nodes[node] else {
            return self.value(node, is_aliased, true);
        };
        let (scalar, text) = meaning(text, *tag, *implicit)?;
        self.leave(is_aliased);
        self.is_odd |= matches!(scalar, Scalar::Null | Scalar::Uint(_));
        if let Some(Part::Map(_, pending)) = self.parts.last_mut() {
            *pending = Some(B::key(scalar, text));
        }
        self.start(value)
    }

    /// `<<: *anchor`: the entries are set at this place, so that they override the entries above.
    fn merge(&mut self, value: usize) -> Fallible<()> {
        let Node::Sequence { end, length } = self.tree.nodes[value] else { return self.merge_one(value) };
        let mut items = Vec::with_capacity(length);
        let mut item = value + 1;
        while item < end {
            items.push(item);
            item = self.tree.behind(item);
        }
        self.open(value, Kind::Merges(items), false, false)
    }

    fn merge_one(&mut self, value: usize) -> Fallible<()> {
        let (mapping, is_aliased) = match self.tree.nodes[value] {
            Node::Alias { target, .. } => (target, true),
            _ => (value, false),
        };
        if !matches!(self.tree.nodes[mapping], Node::Mapping { .. }) {
            return fail("map merge requires map or sequence of maps as the value");
        }
        self.count()?;
        if is_aliased {
            self.enter(value)?;
            self.count()?;
        }
        self.open(mapping, Kind::Merge, is_aliased, false)
    }
}

/// The meaning of a scalar with a tag (`resolve` and `decoder.scalar` of go-yaml v2).
pub(super) fn meaning(value: &str, tag: Tag, implicit: bool) -> Fallible<(Scalar, Cow<'_, str>)> {
    let (scalar, name) = match tag {
        Tag::None if implicit => return Ok((resolve(value, true), value.into())),
        Tag::None | Tag::Str | Tag::Merge | Tag::Other => return Ok((Scalar::Text, value.into())),
        Tag::Binary => {
            return match BASE64.decode(value.replace(['\n', '\r'], "")) {
                Ok(bytes) => Ok((Scalar::Text, text::valid(&bytes).into_owned().into())),
                Err(_) => fail("!!binary value contains invalid base64 data"),
            };
        }
        Tag::Bool => (resolve(value, false), "!!bool"),
        Tag::Int => (resolve(value, false), "!!int"),
        Tag::Float => (resolve(value, false), "!!float"),
        Tag::Null => (resolve(value, false), "!!null"),
        Tag::Timestamp => (resolve(value, true), "!!timestamp"),
    };
    let found = scalar.tag();
    if found == name {
        return Ok((scalar, value.into()));
    }
    match scalar {
        Scalar::Int(_) if tag == Tag::Float => Ok((Scalar::Float(number(scalar)), value.into())),
        _ => fail(&format!("cannot decode {found} `{value}` as a {name}")),
    }
}

//! Meaning of a document: go-yaml v2's decoder, sigs.k8s.io/yaml's conversion to JSON, and encoding/json.

use super::YamlError;
use super::node::{Document, Node, compose};
use super::resolve::{Scalar, resolve};
use crate::template::functions::text;
use crate::template::value::{Map, MapType, Str, Value};
use base64::Engine as _;
use serde_json::{Number, Value as Json};

/// What a document is built of: JSON for charts' values, template values for `fromYaml`.
trait Build {
    type Node;
    type Map;
    fn null() -> Self::Node;
    fn bool(b: bool) -> Self::Node;
    fn number(f: f64) -> Self::Node;
    fn text(s: String) -> Self::Node;
    fn list(items: Vec<Self::Node>) -> Self::Node;
    fn new_map(capacity: usize) -> Self::Map;
    fn insert(map: &mut Self::Map, key: String, node: Self::Node);
    fn map(map: Self::Map) -> Self::Node;
}

enum ToJson {}
impl Build for ToJson {
    type Node = Json;
    type Map = serde_json::Map<String, Json>;
    fn null() -> Json {
        Json::Null
    }
    fn bool(b: bool) -> Json {
        Json::Bool(b)
    }
    fn number(f: f64) -> Json {
        Number::from_f64(f).map_or(Json::Null, Json::Number)
    }
    fn text(s: String) -> Json {
        Json::String(s)
    }
    fn list(items: Vec<Json>) -> Json {
        Json::Array(items)
    }
    fn new_map(capacity: usize) -> Self::Map {
        serde_json::Map::with_capacity(capacity)
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
    fn null() -> Value {
        Value::Nil
    }
    fn bool(b: bool) -> Value {
        Value::Bool(b)
    }
    fn number(f: f64) -> Value {
        Value::Float(f)
    }
    fn text(s: String) -> Value {
        Value::str(s)
    }
    fn list(items: Vec<Value>) -> Value {
        Value::list(items)
    }
    fn new_map(_: usize) -> Map {
        Map::new(MapType::Any)
    }
    fn insert(map: &mut Map, key: String, node: Value) {
        map.insert(Str::from(key), node);
    }
    fn map(map: Map) -> Value {
        Value::Map(map)
    }
}

/// The first document of a text as JSON, as `yaml.Unmarshal` of sigs.k8s.io/yaml gives it: all numbers are
/// floats, keys are strings, of duplicate keys the last wins. Errors are Go's, with their prefix
/// `error converting YAML to JSON: `.
pub fn parse(text: &[u8]) -> Result<Json, YamlError> {
    document::<ToJson>(text)
}

/// As [`parse`], but made of template values.
pub fn parse_value(text: &[u8]) -> Result<Value, YamlError> {
    document::<ToValue>(text)
}

fn document<B: Build>(text: &[u8]) -> Result<B::Node, YamlError> {
    let in_conversion = |e: YamlError| YamlError(format!("error converting YAML to JSON: {}", e.0));
    let Some(document) = compose(text).map_err(in_conversion)? else { return Ok(B::null()) };
    let mut decoder = Decoder { document: &document, open: Vec::new(), decoded: 0, aliased: 0, later: None };
    let node = decoder.node::<B>(&document.root).map_err(in_conversion)?;
    match decoder.later {
        None => Ok(node),
        Some(problem) => Err(in_conversion(YamlError(problem))),
    }
}

struct Decoder<'a> {
    document: &'a Document,
    /// The aliases we are in.
    open: Vec<usize>,
    decoded: u64,
    aliased: u64,
    /// What only the conversion to JSON would find, after all else is decoded.
    later: Option<String>,
}

fn fail<T>(message: String) -> Result<T, YamlError> {
    Err(YamlError(format!("yaml: {message}")))
}

impl<'a> Decoder<'a> {
    /// go-yaml's guard against documents that grow by their aliases.
    fn count(&mut self) -> Result<(), YamlError> {
        self.decoded += 1;
        if self.open.is_empty() {
            return Ok(());
        }
        self.aliased += 1;
        if self.aliased > 100 && self.decoded > 1000 {
            let (aliased, decoded) = (self.aliased, self.decoded);
            // The share allowed falls from 99 % below 400,000 nodes to 10 % above 4,000,000.
            let over = decoded.clamp(400_000, 4_000_000) - 400_000;
            let percent = 99 * 3_600_000 - 89 * over;
            if aliased * 100 * 3_600_000 > percent * decoded {
                return fail("document contains excessive aliasing".into());
            }
        }
        Ok(())
    }

    fn node<B: Build>(&mut self, node: &'a Node) -> Result<B::Node, YamlError> {
        if let Node::Anchored(node) = node {
            return self.node::<B>(node);
        }
        self.count()?;
        match node {
            Node::Scalar { value, tag, implicit } => self.scalar::<B>(value, tag.as_deref(), *implicit),
            Node::Sequence(items) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    list.push(self.node::<B>(item)?);
                }
                Ok(B::list(list))
            }
            Node::Mapping(entries) => {
                let mut map = B::new_map(entries.len());
                self.fill::<B>(entries, &mut map)?;
                Ok(B::map(map))
            }
            Node::Anchored(inner) => self.node::<B>(inner),
            Node::Alias(id, name) => {
                let target = self.enter(*id, name)?;
                let value = self.node::<B>(target)?;
                self.open.pop();
                Ok(value)
            }
        }
    }

    fn enter(&mut self, id: usize, name: &str) -> Result<&'a Node, YamlError> {
        match self.document.anchors.get(id).and_then(Option::as_deref) {
            Some(target) if !self.open.contains(&id) => {
                self.open.push(id);
                Ok(target)
            }
            _ => fail(format!("anchor '{name}' value contains itself")),
        }
    }

    fn fill<B: Build>(&mut self, entries: &'a [(Node, Node)], map: &mut B::Map) -> Result<(), YamlError> {
        for (key, value) in entries {
            if is_merge(key) {
                self.merge::<B>(value, map)?;
                continue;
            }
            let key = self.key(key)?;
            let value = self.node::<B>(value)?;
            B::insert(map, key, value);
        }
        Ok(())
    }

    /// `<<: *anchor`: the entries are set where they stand, so that they override what is above them.
    fn merge<B: Build>(&mut self, node: &'a Node, map: &mut B::Map) -> Result<(), YamlError> {
        const WANT_MAP: &str = "map merge requires map or sequence of maps as the value";
        match node {
            Node::Anchored(inner) => self.merge::<B>(inner, map),
            Node::Mapping(entries) => {
                self.count()?;
                self.fill::<B>(entries, map)
            }
            Node::Alias(id, name) => {
                self.count()?;
                let target = self.enter(*id, name)?;
                let Node::Mapping(entries) = inner(target) else { return fail(WANT_MAP.into()) };
                self.count()?;
                self.fill::<B>(entries, map)?;
                self.open.pop();
                Ok(())
            }
            Node::Sequence(items) => {
                for item in items.iter().rev() {
                    match inner(item) {
                        Node::Mapping(_) | Node::Alias(..) => self.merge::<B>(item, map)?,
                        _ => return fail(WANT_MAP.into()),
                    }
                }
                Ok(())
            }
            Node::Scalar { .. } => fail(WANT_MAP.into()),
        }
    }

    /// A key as text: JSON has no other.
    fn key(&mut self, node: &'a Node) -> Result<String, YamlError> {
        match node {
            Node::Anchored(node) => self.key(node),
            Node::Alias(id, name) => {
                self.count()?;
                let target = self.enter(*id, name)?;
                let key = self.key(target)?;
                self.open.pop();
                Ok(key)
            }
            Node::Scalar { value, tag, implicit } => {
                self.count()?;
                let (scalar, text) = meaning(value, tag.as_deref(), *implicit)?;
                Ok(match scalar {
                    Scalar::Int(i) => i.to_string(),
                    Scalar::Bool(b) => b.to_string(),
                    Scalar::Float(f) => float_key(f),
                    Scalar::Uint(u) => {
                        self.unsupported("uint64", &format!("{u:#x}"));
                        String::new()
                    }
                    Scalar::Null => {
                        self.unsupported("%!s(<nil>)", "<nil>");
                        String::new()
                    }
                    Scalar::Text | Scalar::Merge | Scalar::Timestamp => text.into_owned(),
                })
            }
            Node::Sequence(_) | Node::Mapping(_) => {
                let mut shown = String::new();
                self.go_syntax(node, &mut shown)?;
                fail(format!("invalid map key: {shown}"))
            }
        }
    }

    fn unsupported(&mut self, kind: &str, key: &str) {
        if self.later.is_none() {
            self.later = Some(format!("unsupported map key of type: {kind}, key: {key}, value: "));
        }
    }

    /// A complex key as Go's `%#v` shows it.
    fn go_syntax(&mut self, node: &'a Node, out: &mut String) -> Result<(), YamlError> {
        match inner(node) {
            Node::Sequence(items) => {
                out.push_str("[]interface {}{");
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    self.go_syntax(item, out)?;
                }
                out.push('}');
            }
            Node::Mapping(entries) => {
                out.push_str("map[interface {}]interface {}{");
                for (i, (key, value)) in entries.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    self.go_syntax(key, out)?;
                    out.push(':');
                    self.go_syntax(value, out)?;
                }
                out.push('}');
            }
            Node::Alias(id, name) => {
                let target = self.enter(*id, name)?;
                self.go_syntax(target, out)?;
                self.open.pop();
            }
            Node::Scalar { value, tag, implicit } => {
                let (scalar, text) = meaning(value, tag.as_deref(), *implicit)?;
                out.push_str(&match scalar {
                    Scalar::Null => "interface {}(nil)".into(),
                    Scalar::Bool(b) => b.to_string(),
                    Scalar::Int(i) => i.to_string(),
                    Scalar::Uint(u) => format!("{u:#x}"),
                    Scalar::Float(f) => text::float(f),
                    _ => text::quoted(&text),
                });
            }
            Node::Anchored(..) => {}
        }
        Ok(())
    }

    fn scalar<B: Build>(&mut self, value: &str, tag: Option<&str>, implicit: bool) -> Result<B::Node, YamlError> {
        let (scalar, text) = meaning(value, tag, implicit)?;
        Ok(match scalar {
            Scalar::Null => B::null(),
            Scalar::Bool(b) => B::bool(b),
            #[expect(clippy::cast_precision_loss, reason = "encoding/json reads every number as a float64")]
            Scalar::Int(i) => B::number(i as f64),
            #[expect(clippy::cast_precision_loss, reason = "as above")]
            Scalar::Uint(u) => B::number(u as f64),
            Scalar::Float(f) => {
                if !f.is_finite() && self.later.is_none() {
                    self.later = Some(format!("json: unsupported value: {}", text::float(f)));
                }
                B::number(f)
            }
            Scalar::Text | Scalar::Merge | Scalar::Timestamp => B::text(text.into_owned()),
        })
    }
}

fn inner(mut node: &Node) -> &Node {
    while let Node::Anchored(next) = node {
        node = next;
    }
    node
}

const MERGE_TAG: &str = "tag:yaml.org,2002:merge";

fn is_merge(node: &Node) -> bool {
    matches!(inner(node), Node::Scalar { value, tag, implicit }
        if value == "<<" && (*implicit || tag.as_deref() == Some(MERGE_TAG)))
}

/// `strconv.FormatFloat(key, 'g', -1, 32)` with YAML's names for what is not finite.
fn float_key(f: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "sigs.k8s.io/yaml formats keys as float32")]
    let text = text::float32(f as f32);
    match text.as_str() {
        "+Inf" => ".inf".into(),
        "-Inf" => "-.inf".into(),
        "NaN" => ".nan".into(),
        _ => text,
    }
}

/// What a scalar with a tag means (`resolve` and `decoder.scalar` of go-yaml v2).
fn meaning<'v>(
    value: &'v str,
    tag: Option<&str>,
    implicit: bool,
) -> Result<(Scalar, std::borrow::Cow<'v, str>), YamlError> {
    let Some(tag) = tag.filter(|t| !t.is_empty()) else {
        return Ok((if implicit { resolve(value, true) } else { Scalar::Text }, value.into()));
    };
    let Some(short) = tag.strip_prefix("tag:yaml.org,2002:") else { return Ok((Scalar::Text, value.into())) };
    let scalar = match short {
        "str" => return Ok((Scalar::Text, value.into())),
        "binary" => {
            return match base64::engine::general_purpose::STANDARD.decode(value.replace(['\n', '\r'], "")) {
                Ok(bytes) => Ok((Scalar::Text, text::valid(&bytes).into_owned().into())),
                Err(_) => fail("!!binary value contains invalid base64 data".into()),
            };
        }
        "bool" | "int" | "float" | "null" => resolve(value, false),
        "timestamp" => resolve(value, true),
        _ => return Ok((Scalar::Text, value.into())),
    };
    let found = scalar.tag();
    if found[2..] == *short {
        return Ok((scalar, value.into()));
    }
    match scalar {
        #[expect(clippy::cast_precision_loss, reason = "Go converts in the same way")]
        Scalar::Int(i) if short == "float" => Ok((Scalar::Float(i as f64), value.into())),
        _ => fail(format!("cannot decode {found} `{value}` as a !!{short}")),
    }
}

//! A chart's values.schema.json as a structural schema.
//!
//! Helm checks the merged values with it; the API server sees the user's part alone. So rules that only the whole can
//! satisfy are left to the operator, which checks the merged values before anything is applied: `required`,
//! `minProperties`, and conditions. In the items of a list, which are never merged, the first two hold. The operator
//! also checks everything that a structural schema cannot express.

use super::fit;
use serde_json::{Map, Value, json};

/// How deep a schema may nest; `$ref`s may go round in circles.
const MAX_DEPTH: usize = 32;
/// How many nodes a schema may have; `$ref`s multiply what they refer to.
const MAX_NODES: usize = 50_000;
const KEEP: &str = "x-kubernetes-preserve-unknown-fields";

/// How a schema is converted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conversion<'v> {
    /// Each field takes a null, with which Helm's users delete a default. Where a field does not take one, the API server drops it
    /// silently, and the default stays.
    pub with_nulls: bool,
    /// A default of the schema is also a default of the CRD, if the CRD accepts it.
    pub with_defaults: bool,
    /// The custom resource must have each value that the schema requires and the chart's default values lack.
    pub with_required: bool,
    /// The chart's default values.
    pub beside: Option<&'v Value>,
}

/// Converts a schema.
pub fn structural(schema: &Value, how: Conversion<'_>) -> Value {
    let place = Place { in_list: false, default: how.beside, depth: 0 };
    Value::Object(Converter { root: schema, how, nodes: std::cell::Cell::new(0) }.node(schema, place))
}

/// Removes the properties that are read-only, which [`structural`] leaves as nulls so that nothing else is put in their place.
pub fn remove_read_only(schema: &mut Value) {
    let Value::Object(entries) = schema else { return };
    if let Some(Value::Object(properties)) = entries.get_mut("properties") {
        properties.retain(|_, schema| !schema.is_null());
        properties.values_mut().for_each(remove_read_only);
    }
    for key in ["items", "additionalProperties"] {
        entries.get_mut(key).into_iter().for_each(remove_read_only);
    }
}

/// Whether a schema says nothing of a value's type.
pub fn is_silent(schema: &Map<String, Value>) -> bool {
    schema.keys().all(|key| matches!(key.as_str(), "title" | "description" | "nullable" | "default" | KEEP))
}

/// Where a node of a schema is.
#[derive(Clone, Copy)]
struct Place<'v> {
    /// In the items of a list.
    in_list: bool,
    /// The chart's default there.
    default: Option<&'v Value>,
    depth: usize,
}

impl<'v> Place<'v> {
    fn same(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    fn key(self, key: &str) -> Self {
        Self { default: self.default.and_then(|default| default.get(key)), ..self.same() }
    }

    fn items(self) -> Place<'v> {
        Place { in_list: true, default: None, ..self.same() }
    }
}

struct Converter<'a> {
    root: &'a Value,
    how: Conversion<'a>,
    nodes: std::cell::Cell<usize>,
}

impl Converter<'_> {
    fn open_value(&self) -> Map<String, Value> {
        let mut open = Map::from_iter([(KEEP.to_owned(), Value::Bool(true))]);
        if self.how.with_nulls {
            open.insert("nullable".into(), true.into());
        }
        open
    }

    fn node(&self, schema: &Value, place: Place<'_>) -> Map<String, Value> {
        self.nodes.set(self.nodes.get() + 1);
        let Value::Object(source) = schema else { return self.open_value() };
        if place.depth > MAX_DEPTH || self.nodes.get() > MAX_NODES {
            return self.open_value();
        }
        if let Some(reference) = source.get("$ref").and_then(Value::as_str) {
            // Only references within the file are followed; any other is open.
            let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            let mut found = target.map_or_else(|| self.open_value(), |target| self.node(target, place.same()));
            if let Some(text) = source.get("description").filter(|text| text.is_string()) {
                found.insert("description".into(), text.clone());
            }
            return found;
        }
        if let Some(only) = or_null(source) {
            let mut found = self.node(only, place.same());
            found.insert("nullable".into(), true.into());
            if let Some(text) = source.get("description").filter(|text| text.is_string()) {
                found.insert("description".into(), text.clone());
            }
            return found;
        }
        let mut to = self.typed(source, place);
        // `allOf` adds the parts that the node itself does not have.
        if is_silent(&to) {
            for part in source.get("allOf").and_then(Value::as_array).into_iter().flatten() {
                let part = self.node(part, place.same());
                if !is_silent(&part) {
                    let texts =
                        ["title", "description"].iter().filter_map(|key| Some(((*key).to_owned(), to.remove(*key)?)));
                    let texts: Vec<_> = texts.collect();
                    to = part;
                    to.extend(texts);
                    break;
                }
            }
        }
        if let Some(default) = source.get("default").filter(|d| self.how.with_defaults && !d.is_null()) {
            let schema = Value::Object(to.clone());
            if fit::refusals(&schema, default).is_empty() {
                to.insert("default".into(), default.clone());
            }
        }
        to
    }

    fn typed(&self, source: &Map<String, Value>, place: Place<'_>) -> Map<String, Value> {
        let mut to = Map::new();
        for key in ["title", "description"] {
            if let Some(text @ Value::String(_)) = source.get(key) {
                to.insert(key.into(), text.clone());
            }
        }
        let (types, nullable) = types(source);
        let nullable = nullable || self.how.with_nulls;
        if nullable {
            to.insert("nullable".into(), Value::Bool(true));
        }
        let has = |kind: &str| types.contains(&kind);
        match types.as_slice() {
            ["object"] => self.object(source, &mut to, place),
            ["array"] => self.array(source, &mut to, place),
            ["string"] => scalar(source, &mut to, "string"),
            ["integer"] => scalar(source, &mut to, "integer"),
            ["number" | "integer", "integer" | "number"] | ["number"] => scalar(source, &mut to, "number"),
            ["boolean"] => scalar(source, &mut to, "boolean"),
            ["string", "integer"] | ["integer", "string"] => {
                to.insert("x-kubernetes-int-or-string".into(), Value::Bool(true));
            }
            _ => {
                to.insert(KEEP.into(), Value::Bool(true));
                // Of the types that a value may not have, none is taken but its empty one, which Helm takes for nothing.
                for (kind, limit) in [("object", "maxProperties"), ("array", "maxItems")] {
                    if !types.is_empty() && !has(kind) {
                        to.insert(limit.into(), 0.into());
                    }
                }
            }
        }
        if nullable && let Some(Value::Array(options)) = to.remove("enum") {
            // The API server refuses a null where there is an `enum`, even one with a null in it.
            to.extend(as_pattern(&options).map(|pattern| ("pattern".to_owned(), pattern.into())));
        }
        to
    }

    fn object(&self, source: &Map<String, Value>, to: &mut Map<String, Value>, place: Place<'_>) {
        to.insert("type".into(), "object".into());
        copy(source, to, if place.in_list { &["minProperties", "maxProperties"] } else { &["maxProperties"] });
        let closed = source.get("additionalProperties") == Some(&Value::Bool(false));
        if let Some(Value::Object(properties)) = source.get("properties") {
            // A read-only property is not a field of a custom resource: the API server drops it, and `overrideValues`
            // can set it.
            let is_read_only = |schema: &Value| schema.get("readOnly") == Some(&Value::Bool(true));
            let convert = |(name, schema): (&String, &Value)| {
                let converted = Value::Object(self.node(schema, place.key(name)));
                (name.clone(), if is_read_only(schema) { Value::Null } else { converted })
            };
            to.insert("properties".into(), Value::Object(properties.iter().map(convert).collect()));
            let required = self.required(source, &to["properties"], place);
            if !required.is_empty() {
                to.insert("required".into(), required.into());
            }
            // A structural schema with properties drops fields that it does not name, unless it keeps them explicitly.
            if !closed || source.contains_key("patternProperties") {
                to.insert(KEEP.into(), Value::Bool(true));
            }
            return;
        }
        match source.get("additionalProperties") {
            Some(items @ Value::Object(_)) if !source.contains_key("patternProperties") => {
                to.insert("additionalProperties".into(), Value::Object(self.node(items, place.key(super::ANY))));
            }
            _ if closed && !source.contains_key("patternProperties") => {}
            _ => {
                to.insert(KEEP.into(), Value::Bool(true));
            }
        }
    }

    fn array(&self, source: &Map<String, Value>, to: &mut Map<String, Value>, place: Place<'_>) {
        to.insert("type".into(), "array".into());
        copy(source, to, &["minItems", "maxItems"]);
        let items = source.get("items").filter(|i| i.is_object());
        to.insert(
            "items".into(),
            Value::Object(items.map_or_else(|| self.open_value(), |items| self.node(items, place.items()))),
        );
    }

    /// The part of `required` that the user's part has to have. A default that the schema refuses, such as an empty
    /// text, gives nothing.
    fn required(&self, source: &Map<String, Value>, properties: &Value, place: Place<'_>) -> Vec<Value> {
        if !place.in_list && !self.how.with_required {
            return Vec::new();
        }
        let fits = |key: &str, value: &Value| {
            !value.is_null() && properties.get(key).is_none_or(|schema| fit::refusals(schema, value).is_empty())
        };
        let default = |key: &str| place.default.and_then(|default| default.get(key));
        let is_given = |key: &str| !place.in_list && default(key).is_some_and(|value| fits(key, value));
        let required = source.get("required").and_then(Value::as_array).into_iter().flatten();
        required.filter(|key| key.as_str().is_some_and(|key| !is_given(key))).cloned().collect()
    }
}

/// Copies limits that are sizes.
fn copy(source: &Map<String, Value>, to: &mut Map<String, Value>, keys: &[&str]) {
    for key in keys {
        let size = source.get(*key).and_then(|value| value.as_u64().or_else(|| whole(value)));
        to.extend(size.map(|size| ((*key).to_owned(), size.into())));
    }
}

/// A size that was written as `1.0` or `1e2`.
fn whole(value: &Value) -> Option<u64> {
    let number = value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..=9e15).contains(number))?;
    format!("{number:.0}").parse().ok()
}

fn scalar(source: &Map<String, Value>, to: &mut Map<String, Value>, kind: &str) {
    to.insert("type".into(), kind.into());
    let is_number = matches!(kind, "integer" | "number");
    if kind == "string" {
        copy(source, to, &["minLength", "maxLength"]);
        // A pattern that Go cannot compile would make the whole CRD be refused.
        if let Some(Value::String(pattern)) = source.get("pattern")
            && regex::Regex::new(pattern).is_ok()
        {
            to.insert("pattern".into(), pattern.as_str().into());
        }
    }
    for key in ["minimum", "maximum", "multipleOf"] {
        if let Some(limit @ Value::Number(number)) = source.get(key).filter(|_| is_number)
            && (key != "multipleOf" || number.as_f64().is_some_and(|step| step > 0.0))
        {
            to.insert(key.into(), limit.clone());
        }
    }
    // Newer drafts write the bound itself, OpenAPI a flag next to the inclusive bound.
    for (exclusive, inclusive) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match source.get(exclusive).filter(|_| is_number) {
            Some(bound @ Value::Number(_)) => {
                to.insert(inclusive.into(), bound.clone());
                to.insert(exclusive.into(), Value::Bool(true));
            }
            Some(Value::Bool(true)) if to.contains_key(inclusive) => {
                to.insert(exclusive.into(), Value::Bool(true));
            }
            _ => {}
        }
    }
    let fits = |value: &&Value| match kind {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        _ => value.is_number(),
    };
    let allowed = match (source.get("enum"), source.get("const")) {
        (Some(Value::Array(options)), _) => options.iter().filter(fits).cloned().collect(),
        (_, Some(only)) if fits(&only) => vec![only.clone()],
        _ => Vec::new(),
    };
    if !allowed.is_empty() {
        to.insert("enum".into(), Value::Array(allowed));
    }
}

/// A pattern for some strings and no others. `None` when there are numbers among them.
fn as_pattern(options: &[Value]) -> Option<String> {
    let texts: Vec<String> = options.iter().map(|option| option.as_str().map(regex::escape)).collect::<Option<_>>()?;
    Some(format!("^({})$", texts.join("|")))
}

/// The types a schema allows, without null, and whether null is one of them. A schema that names none, but has
/// properties or items, means an object or an array. Alternatives of plain types are those types.
fn types(source: &Map<String, Value>) -> (Vec<&str>, bool) {
    let named: Vec<&str> = match source.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ if source.contains_key("properties") => vec!["object"],
        _ if source.contains_key("items") => vec!["array"],
        _ => alternatives(source).unwrap_or_default(),
    };
    let nullable = named.contains(&"null");
    let mut types: Vec<&str> = Vec::new();
    for kind in named {
        if kind != "null" && !types.contains(&kind) {
            types.push(kind);
        }
    }
    (types, nullable)
}

/// The only alternative besides null, of a schema that says nothing else about the type.
fn or_null(source: &Map<String, Value>) -> Option<&Value> {
    if source.contains_key("type") {
        return None;
    }
    let all = source.get("anyOf").or_else(|| source.get("oneOf"))?.as_array()?;
    let is_null = |schema: &&Value| schema.get("type").is_some_and(|kind| kind == "null");
    let mut others = all.iter().filter(|schema| !is_null(schema));
    let only = others.next()?;
    (others.next().is_none() && all.iter().any(|schema| is_null(&schema))).then_some(only)
}

/// The types of `anyOf` or `oneOf`, if each alternative names its own and at most one of them has more to say than a type.
fn alternatives(source: &Map<String, Value>) -> Option<Vec<&str>> {
    let alternatives = source.get("anyOf").or_else(|| source.get("oneOf"))?.as_array()?;
    let mut types = Vec::new();
    for alternative in alternatives {
        match alternative.get("type")? {
            Value::String(one) => types.push(one.as_str()),
            Value::Array(many) => types.extend(many.iter().filter_map(Value::as_str)),
            _ => return None,
        }
    }
    Some(types)
}

/// The schema of a Rust type, whose required fields are none for the API server.
pub fn of_type(schema: &Value) -> Value {
    let mut converted = structural(schema, Conversion::default());
    if let Some(entries) = converted.as_object_mut() {
        entries.remove("title");
    }
    converted
}

/// An object that takes everything.
pub fn open_object() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

#[cfg(test)]
mod tests {
    use super::{Conversion, remove_read_only, structural};
    use serde_json::{Value, json};

    fn convert(schema: &Value) -> Value {
        let mut converted = structural(schema, Conversion::default());
        remove_read_only(&mut converted);
        converted
    }

    #[test]
    fn every_field_of_a_custom_resource_takes_a_null() {
        let schema = json!({"type": "object", "properties": {
            "name": {"type": "string", "enum": ["a.b", "c"]}, "one": {"enum": [1, 2], "type": "integer"},
            "any": {}, "list": {"type": "array", "items": {"type": "string"}}}});
        assert_eq!(
            structural(&schema, Conversion { with_nulls: true, ..Conversion::default() })["properties"],
            json!({
                "name": {"type": "string", "nullable": true, "pattern": "^(a\\.b|c)$"},
                "one": {"type": "integer", "nullable": true},
                "any": {"nullable": true, "x-kubernetes-preserve-unknown-fields": true},
                "list": {"type": "array", "nullable": true, "items": {"type": "string", "nullable": true}},
            })
        );
    }

    #[test]
    fn a_json_schema_becomes_structural() {
        let converted = convert(&json!({
            "definitions": {"port": {"type": "integer", "exclusiveMinimum": 0}},
            "type": "object",
            "additionalProperties": false,
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "enum": ["a", "b", 3]},
                "port": {"$ref": "#/definitions/port"},
                "any": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "either": {"oneOf": [{"type": "string"}, {"type": "object"}]},
                "both": {"description": "B.", "allOf": [{"$ref": "#/definitions/port"}, {"minimum": 3}]},
                "amount": {"type": ["string", "integer"]},
                "share": {"type": ["string", "number"]},
                "maybe": {"type": ["string", "null"]},
                "else": {"anyOf": [{"$ref": "#/definitions/port"}, {"type": "null"}]},
                "labels": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}},
                "list": {"items": {"type": "boolean"}, "minItems": 1.0},
                "word": {"type": "string", "pattern": "^(?!x)"},
                "open": {"type": "object"},
                "remote": {"$ref": "https://example.org/schema.json"},
            },
        }));
        assert_eq!(
            converted,
            json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "enum": ["a", "b"]},
                    "port": {"type": "integer", "minimum": 0, "exclusiveMinimum": true},
                    "any": {"x-kubernetes-int-or-string": true},
                    "either": {"x-kubernetes-preserve-unknown-fields": true, "maxItems": 0},
                    "both": {"description": "B.", "type": "integer", "minimum": 0, "exclusiveMinimum": true},
                    "amount": {"x-kubernetes-int-or-string": true},
                    "share": {"x-kubernetes-preserve-unknown-fields": true, "maxProperties": 0, "maxItems": 0},
                    "maybe": {"type": "string", "nullable": true},
                    "else": {"type": "integer", "minimum": 0, "exclusiveMinimum": true, "nullable": true},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "list": {"type": "array", "items": {"type": "boolean"}, "minItems": 1},
                    "word": {"type": "string"},
                    "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "remote": {"x-kubernetes-preserve-unknown-fields": true},
                },
            })
        );
    }

    #[test]
    fn a_default_that_the_type_refuses_is_left_out() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "integer", "default": "1"}, "b": {"type": "integer", "default": 1}}});
        let converted =
            structural(&schema, Conversion { with_nulls: true, with_defaults: true, ..Conversion::default() });
        assert_eq!(converted["properties"]["a"].get("default"), None);
        assert_eq!(converted["properties"]["b"]["default"], 1);
        assert_eq!(
            structural(&schema, Conversion { with_nulls: true, ..Conversion::default() })["properties"]["b"]
                .get("default"),
            None
        );
    }

    #[test]
    fn what_the_defaults_may_give_is_not_required() {
        let schema = json!({"type": "object", "required": ["a", "b"], "properties": {
            "a": {"type": "string"}, "b": {"type": "array", "items": {
                "type": "object", "required": ["c"], "properties": {"c": {"type": "string"}}}}}});
        let converted = convert(&schema);
        assert_eq!(converted.get("required"), None);
        assert_eq!(converted["properties"]["b"]["items"]["required"], json!(["c"]));
        let required = |defaults: Value| {
            let how = Conversion { with_required: true, beside: Some(&defaults), ..Conversion::default() };
            structural(&schema, how)["required"].clone()
        };
        assert_eq!(required(json!({"a": null, "b": []})), json!(["a"]));
        assert_eq!(required(json!({"a": 1, "b": []})), json!(["a"]));
        assert_eq!(required(json!({"a": "x", "b": []})), json!(null));
    }

    #[test]
    fn what_is_only_read_is_no_field_of_the_custom_resource() {
        let schema = json!({"type": "object", "additionalProperties": false,
            "properties": {"size": {"type": "integer"}, "image": {"type": "string", "readOnly": true}}});
        let expected = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
        assert_eq!(convert(&schema), expected);
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let converted = convert(&json!({"type": "object", "properties": {"next": {"$ref": "#"}}}));
        assert!(converted["properties"]["next"]["properties"].is_object());
        let many = json!({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}});
        assert!(convert(&many).to_string().len() < 20_000_000);
    }
}

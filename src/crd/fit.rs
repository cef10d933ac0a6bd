//! Whether a schema of a CRD takes a value, as the API server decides it; and the same schema, opened where it does not.

use super::Path;
use regex::Regex;
use serde_json::{Map, Number, Value};

const KEEP: &str = "x-kubernetes-preserve-unknown-fields";

/// Why a schema does not take a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its type or a limit.
    Value,
    /// It would drop a key of a table.
    Keys,
    /// A required key of a table is missing.
    Missing,
}

/// A place at which a schema does not take a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// From the outermost value inwards.
    pub path: Path,
    /// Why.
    pub why: Why,
}

/// The places at which a schema refuses a value, or would drop a part of it. Below a value that is refused, nothing is looked at.
pub fn refusals(schema: &Value, value: &Value) -> Vec<Refusal> {
    let mut found = Vec::new();
    walk(schema, value, &mut Path::new(), &mut found);
    found
}

fn walk(schema: &Value, value: &Value, path: &mut Path, found: &mut Vec<Refusal>) {
    let Value::Object(schema) = schema else { return };
    if !takes(schema, value) {
        found.push(Refusal { path: path.clone(), why: Why::Value });
        return;
    }
    for (holds, why) in [(keeps(schema, value), Why::Keys), (has_required(schema, value), Why::Missing)] {
        if !holds {
            found.push(Refusal { path: path.clone(), why });
        }
    }
    let mut step = |key: &str, below: &Value, value: &Value, found: &mut Vec<Refusal>| {
        path.push(key.into());
        walk(below, value, path, found);
        path.pop();
    };
    match value {
        Value::Object(entries) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (key, value) in entries {
                match (properties.and_then(|p| p.get(key)), schema.get("additionalProperties")) {
                    (Some(below), _) => step(key, below, value, found),
                    (None, Some(below @ Value::Object(_))) => step(super::ANY, below, value, found),
                    _ => {}
                }
            }
        }
        Value::Array(items) => {
            if let Some(below) = schema.get("items") {
                for item in items {
                    step(super::ANY, below, item, found);
                }
            }
        }
        _ => {}
    }
}

/// Whether the node itself takes the value, whatever is in it.
fn takes(schema: &Map<String, Value>, value: &Value) -> bool {
    let is = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    if value.is_null() {
        return is("nullable");
    }
    let kind = schema.get("type").and_then(Value::as_str);
    let is_whole = |number: &Number| number.as_f64().is_some_and(|number| number.fract() == 0.0);
    let fits = match (kind, value) {
        (Some("object"), _) => value.is_object(),
        (Some("array"), _) => value.is_array(),
        (Some("string"), _) => value.is_string(),
        (Some("boolean"), _) => value.is_boolean(),
        (Some("number"), _) => value.is_number(),
        (Some("integer"), Value::Number(number)) => is_whole(number),
        (Some("integer"), _) => false,
        (_, Value::Number(number)) if is("x-kubernetes-int-or-string") => is_whole(number),
        (_, value) if is("x-kubernetes-int-or-string") => value.is_string(),
        _ => true,
    };
    fits && within(schema, value)
}

/// Whether the limits of the value's type hold.
fn within(schema: &Map<String, Value>, value: &Value) -> bool {
    let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
    let between = |size: f64, least: &str, most: &str| {
        limit(least).is_none_or(|least| size >= least) && limit(most).is_none_or(|most| size <= most)
    };
    let is = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    let one_of = || match schema.get("enum") {
        Some(Value::Array(options)) => options.iter().any(|option| same(option, value)),
        _ => true,
    };
    #[expect(clippy::cast_precision_loss, reason = "sizes of values are small")]
    let holds = match value {
        Value::Object(entries) => between(entries.len() as f64, "minProperties", "maxProperties"),
        Value::Array(items) => between(items.len() as f64, "minItems", "maxItems"),
        Value::String(text) => {
            let pattern = schema.get("pattern").and_then(Value::as_str);
            between(text.chars().count() as f64, "minLength", "maxLength")
                && pattern.is_none_or(|pattern| Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text)))
        }
        Value::Number(number) => number.as_f64().is_none_or(|number| {
            between(number, "minimum", "maximum")
                && !(is("exclusiveMinimum") && limit("minimum") == Some(number))
                && !(is("exclusiveMaximum") && limit("maximum") == Some(number))
                && limit("multipleOf").is_none_or(|step| (number / step).fract() == 0.0)
        }),
        Value::Bool(_) | Value::Null => true,
    };
    holds && one_of()
}

fn same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other).is_eq(),
        _ => one == other,
    }
}

/// Whether no key of a table is dropped.
fn keeps(schema: &Map<String, Value>, value: &Value) -> bool {
    let Value::Object(entries) = value else { return true };
    if schema.get(KEEP) == Some(&Value::Bool(true)) || schema.contains_key("additionalProperties") {
        return true;
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    entries.keys().all(|key| properties.is_some_and(|properties| properties.contains_key(key)))
}

fn has_required(schema: &Map<String, Value>, value: &Value) -> bool {
    let (Value::Object(entries), Some(Value::Array(required))) = (value, schema.get("required")) else { return true };
    required.iter().all(|key| key.as_str().is_none_or(|key| entries.contains_key(key)))
}

/// Opens a schema where it does not accept a value; the schema below stays for values that are tables.
pub fn open(schema: &mut Value, refusal: &Refusal) {
    open_at(schema, &refusal.path, refusal.why);
}

fn open_at(schema: &mut Value, path: &[Box<str>], why: Why) {
    let Value::Object(entries) = schema else { return };
    if let Some((first, rest)) = path.split_first() {
        let below = match &**first {
            super::ANY if entries.contains_key("items") => entries.get_mut("items"),
            super::ANY if entries.get("additionalProperties").is_some_and(Value::is_object) => {
                entries.get_mut("additionalProperties")
            }
            key => entries.get_mut("properties").and_then(|properties| properties.get_mut(key)),
        };
        if let Some(below) = below {
            open_at(below, rest, why);
        }
        return;
    }
    match why {
        Why::Value => {
            entries.retain(|key, _| matches!(key.as_str(), "description" | "title" | "properties" | "nullable"));
        }
        Why::Keys => {}
        Why::Missing => drop(entries.remove("required")),
    }
    entries.insert(KEEP.into(), true.into());
    if why == Why::Value {
        entries.insert("nullable".into(), true.into());
    }
}

#[cfg(test)]
mod tests {
    use super::{open, refusals};
    use serde_json::{Value, json};

    fn paths(schema: &Value, value: &Value) -> Vec<String> {
        refusals(schema, value).into_iter().map(|refusal| refusal.path.join(".")).collect()
    }

    #[test]
    fn a_value_is_refused_where_the_api_server_refuses_it() {
        for (schema, value, takes) in [
            (json!({"type": "string"}), json!(1), false),
            (json!({"type": "string"}), json!(null), false),
            (json!({"type": "string", "nullable": true}), json!(null), true),
            (json!({"type": "integer"}), json!(2.0), true),
            (json!({"type": "integer"}), json!(2.5), false),
            (json!({"x-kubernetes-int-or-string": true}), json!("50%"), true),
            (json!({"x-kubernetes-int-or-string": true}), json!(0.4), false),
            (json!({"maxProperties": 0, "x-kubernetes-preserve-unknown-fields": true}), json!({"a": 1}), false),
            (json!({"maxProperties": 0, "x-kubernetes-preserve-unknown-fields": true}), json!([1]), true),
            (json!({"type": "string", "pattern": "^(a|b)$"}), json!("c"), false),
            (json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}), json!(1), false),
            (json!({"type": "integer", "enum": [1, 2]}), json!(2.0), true),
            (json!({"type": "object", "properties": {"a": {}}}), json!({"b": 1}), false),
            (json!({"type": "object", "additionalProperties": {"type": "string"}}), json!({"b": "1"}), true),
        ] {
            assert_eq!(refusals(&schema, &value).is_empty(), takes, "{schema} {value}");
        }
    }

    #[test]
    fn a_schema_is_opened_where_it_refuses() {
        let mut schema = json!({"type": "object", "properties": {
            "a": {"type": "object", "description": "A.", "properties": {"b": {"type": "string"}}},
            "l": {"type": "array", "items": {"type": "string"}},
        }});
        let value = json!({"a": false, "l": ["x", 1]});
        assert_eq!(paths(&schema, &value), ["a", "l.*"]);
        for refusal in refusals(&schema, &value) {
            open(&mut schema, &refusal);
        }
        assert_eq!(paths(&schema, &value), [""; 0]);
        assert_eq!(schema["properties"]["a"]["properties"]["b"], json!({"type": "string"}));
        assert_eq!(schema["properties"]["a"]["description"], "A.");
    }
}

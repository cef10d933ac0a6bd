//! The types of a chart as a values.schema.json, for its author to edit and keep.

use super::defaults::plain;
use serde_json::{Map, Value, json};

/// The JSON schema (draft 2020-12, which Helm reads) of a structural schema. It takes nulls as the CRD does, and requires nothing.
pub fn json_schema(structural: &Value, title: &str) -> Value {
    let mut schema = Map::new();
    schema.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".into(), title.into());
    if let Value::Object(converted) = node(structural) {
        schema.extend(converted);
    }
    Value::Object(schema)
}

fn node(structural: &Value) -> Value {
    let Value::Object(source) = structural else { return json!({}) };
    let is = |key: &str| source.get(key) == Some(&Value::Bool(true));
    let mut schema = Map::new();
    let types: &[&str] = match source.get("type").and_then(Value::as_str) {
        Some(kind) => &[kind],
        None if is("x-kubernetes-int-or-string") => &["integer", "string"],
        None => &[],
    };
    let nullable = is("nullable").then_some("null");
    let types: Vec<&str> = types.iter().copied().chain(nullable.filter(|_| !types.is_empty())).collect();
    match types.as_slice() {
        [] => {}
        [one] => drop(schema.insert("type".into(), (*one).into())),
        many => drop(schema.insert("type".into(), many.into())),
    }
    for (key, value) in source {
        match key.as_str() {
            "description" | "title" | "default" | "pattern" | "enum" | "required" => {
                schema.insert(key.clone(), value.clone());
            }
            "exclusiveMinimum" | "exclusiveMaximum" => {
                // The newer drafts write the bound itself.
                let inclusive = if key == "exclusiveMinimum" { "minimum" } else { "maximum" };
                schema.extend(source.get(inclusive).map(|bound| (key.clone(), bound.clone())));
            }
            "minimum" if is("exclusiveMinimum") => {}
            "maximum" if is("exclusiveMaximum") => {}
            "minimum" | "maximum" | "multipleOf" | "minLength" | "maxLength" | "minItems" | "maxItems"
            | "minProperties" | "maxProperties" => drop(schema.insert(key.clone(), plain(value))),
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                let properties: Map<String, Value> =
                    properties.map(|(key, below)| (key.clone(), node(below))).collect();
                schema.insert(key.clone(), properties.into());
            }
            "items" | "additionalProperties" if value.is_object() => drop(schema.insert(key.clone(), node(value))),
            _ => {}
        }
    }
    let keeps = is("x-kubernetes-preserve-unknown-fields") || source.contains_key("additionalProperties");
    if source.get("type").is_some_and(|kind| kind == "object") && !keeps {
        schema.insert("additionalProperties".into(), false.into());
    }
    Value::Object(schema)
}

#[cfg(test)]
mod tests {
    use super::super::author::{Conversion, structural};
    use super::json_schema;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_as_the_same_types() {
        let keep = "x-kubernetes-preserve-unknown-fields";
        let types = json!({"type": "object", keep: true, "properties": {
            "a": {"type": "integer", "nullable": true, "minimum": 1, "exclusiveMinimum": true},
            "b": {"x-kubernetes-int-or-string": true, "nullable": true, "description": "B."},
            "c": {"type": "array", "nullable": true, "items": {keep: true, "nullable": true}},
            "d": {"type": "object", "nullable": true, "properties": {"e": {"type": "boolean", "nullable": true}}},
            "f": {keep: true, "nullable": true},
        }});
        let written = json_schema(&types, "web");
        assert_eq!(written["properties"]["a"], json!({"type": ["integer", "null"], "exclusiveMinimum": 1}));
        assert_eq!(written["properties"]["d"]["additionalProperties"], false);
        let mut again = structural(&written, Conversion { with_nulls: true, ..Conversion::default() });
        for key in ["title", "nullable"] {
            again.as_object_mut().unwrap().remove(key);
        }
        assert_eq!(again, types);
    }
}

//! Whole numbers that are meant as floats.
//!
//! Helm reads values from YAML, where every number is a float. An API server keeps `1.0` as `1`, which is an integer for a template, and a
//! template cannot compare an integer with a float. The chart shows which one is meant: its default has a fraction, or its schema
//! says `number`. Everything else stays an integer, as operators of helm-operator have it.

use super::{Chart, Values};
use serde_json::{Number, Value};

/// References that are followed from one schema.
const REFERENCES: usize = 8;

/// Converts integers to floats where the chart or a dependency expects floats.
pub fn restore(values: &mut Values, chart: &Chart) {
    let schema: Value = chart.schema.as_deref().and_then(|text| serde_json::from_slice(text).ok()).unwrap_or_default();
    Walk { root: &schema }.map(values, Some(&chart.values), &schema);
    for dependency in &chart.dependencies {
        let name = dependency.metadata.name.as_str();
        let declared = chart.metadata.dependencies.iter().filter(|declared| declared.name == name);
        let aliases = declared.map(|declared| declared.alias.as_str()).filter(|alias| !alias.is_empty());
        for name in aliases.chain([name]) {
            if let Some(Value::Object(below)) = values.get_mut(name) {
                restore(below, dependency);
            }
        }
    }
}

struct Walk<'s> {
    root: &'s Value,
}

impl<'s> Walk<'s> {
    fn map(&self, values: &mut Values, defaults: Option<&Values>, schema: &'s Value) {
        let schema = self.resolve(schema);
        let (named, others) = (schema.get("properties"), schema.get("additionalProperties"));
        for (key, value) in values {
            let below = named.and_then(|named| named.get(key)).or(others).unwrap_or(&Value::Null);
            self.value(value, defaults.and_then(|defaults| defaults.get(key)), below);
        }
    }

    fn value(&self, value: &mut Value, default: Option<&Value>, schema: &'s Value) {
        match value {
            Value::Object(values) => self.map(values, default.and_then(Value::as_object), schema),
            Value::Array(items) => {
                let schema = self.resolve(schema).get("items").unwrap_or(&Value::Null);
                for item in items {
                    self.value(item, None, schema);
                }
            }
            Value::Number(number) if !number.is_f64() => {
                let is_float = default.is_some_and(has_fraction) || is_number(self.resolve(schema));
                if let Some(float) = number.as_f64().and_then(Number::from_f64).filter(|_| is_float) {
                    *number = float;
                }
            }
            _ => {}
        }
    }

    /// A schema, or a target of its references in the same file.
    fn resolve(&self, schema: &'s Value) -> &'s Value {
        let mut schema = schema;
        for _ in 0..REFERENCES {
            let reference = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
            let Some(found) = reference.and_then(|pointer| self.root.pointer(pointer)) else { break };
            schema = found;
        }
        schema
    }
}

fn has_fraction(default: &Value) -> bool {
    default.as_f64().is_some_and(|number| number.fract() != 0.0)
}

/// Whether a schema takes numbers with a fraction, and says nothing of integers.
fn is_number(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "number",
        Some(Value::Array(kinds)) => {
            kinds.iter().any(|kind| kind == "number") && !kinds.iter().any(|kind| kind == "integer")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::restore;
    use crate::chart::{Chart, Dependency, Metadata, Values};
    use serde_json::{Value, json};

    fn map(value: Value) -> Values {
        let Value::Object(map) = value else { panic!("{value}") };
        map
    }

    #[test]
    fn the_default_or_the_schema_says_what_is_a_float() {
        let child = Chart {
            metadata: Metadata { name: "child".into(), ..Metadata::default() },
            values: map(json!({"ratio": 0.5})),
            ..Chart::default()
        };
        let schema = json!({"properties": {
            "size": {"type": ["number", "null"]}, "port": {"type": "integer"}, "both": {"type": ["number", "integer"]},
            "list": {"items": {"$ref": "#/definitions/share"}},
            "any": {"additionalProperties": {"type": "number"}},
            "round": {"$ref": "#/properties/round"},
        }, "definitions": {"share": {"properties": {"part": {"type": "number"}}}}});
        let chart = Chart {
            metadata: Metadata {
                dependencies: vec![Dependency { name: "child".into(), alias: "other".into(), ..Dependency::default() }],
                ..Metadata::default()
            },
            values: map(json!({"ratio": 0.5, "replicas": 1.0, "deep": {"ratio": 0.25}})),
            schema: Some(schema.to_string().into_bytes()),
            dependencies: vec![child],
            ..Chart::default()
        };
        let mut values = map(json!({
            "ratio": 1, "replicas": 2, "unknown": 3, "deep": {"ratio": 1}, "text": "1",
            "size": 1, "port": 80, "both": 1, "list": [{"part": 1, "other": 1}], "any": {"a": 1}, "round": 1,
            "child": {"ratio": 1}, "other": {"ratio": 1, "n": 1},
        }));
        restore(&mut values, &chart);
        let expected = json!({
            "ratio": 1.0, "replicas": 2, "unknown": 3, "deep": {"ratio": 1.0}, "text": "1",
            "size": 1.0, "port": 80, "both": 1, "list": [{"part": 1.0, "other": 1}], "any": {"a": 1.0}, "round": 1,
            "child": {"ratio": 1.0}, "other": {"ratio": 1.0, "n": 1},
        });
        assert_eq!(Value::Object(values).to_string(), expected.to_string());
    }
}

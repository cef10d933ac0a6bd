//! The existing custom resources that the types of a chart's next version break.

use super::{ANY, Path};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;

/// A difference that a custom resource may meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdChange {
    /// The place in the values.
    pub path: Path,
    /// The difference.
    pub what: What,
}

/// The difference at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Values of these types were accepted, and no longer are.
    Types(Vec<&'static str>),
    /// A limit is narrower: its keyword, and both bounds as JSON; nothing where there was none.
    Limit(String, Option<String>, String),
    /// A key has to be given that had not.
    Required(String),
    /// The chart no longer has the value: it is kept, and nothing reads it.
    Gone,
    /// The key is dropped, as is every one that the schema does not name.
    Dropped,
}

impl CrdChange {
    /// Whether a custom resource that was accepted may be refused, or lose a value.
    pub fn breaks(&self) -> bool {
        self.what != What::Gone
    }
}

impl fmt::Display for CrdChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: Vec<&str> = std::iter::once("spec").chain(self.path.iter().map(|key| &**key)).collect();
        write!(f, "{}: ", path.join("."))?;
        match &self.what {
            What::Types(types) => write!(f, "no longer accepts {}", types.join(", ")),
            What::Limit(keyword, Some(old), new) => write!(f, "{keyword} is {new} (it was {old})"),
            What::Limit(keyword, None, new) => write!(f, "{keyword} is {new} (there was none)"),
            What::Required(key) => write!(f, "{key} is required"),
            What::Gone => {
                f.write_str("the chart no longer has this value; a custom resource keeps it without an effect")
            }
            What::Dropped => f.write_str("the API server drops it"),
        }
    }
}

/// The changes from one schema to another.
pub fn changes(old: &Value, new: &Value) -> Vec<CrdChange> {
    let mut found = Vec::new();
    compare(old, new, &mut Path::new(), &mut found);
    found
}

fn compare(old: &Value, new: &Value, path: &mut Path, found: &mut Vec<CrdChange>) {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return };
    let mut add = |what| found.push(CrdChange { path: path.clone(), what });
    let (before, after) = (taken(old), taken(new));
    let lost: Vec<_> = before.difference(&after).copied().collect();
    if !lost.is_empty() {
        add(What::Types(lost));
    }
    for what in limits(old, new, &after) {
        add(what);
    }
    let required = |schema: &Map<String, Value>| -> BTreeSet<String> {
        let keys = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        keys.filter_map(|key| key.as_str().map(str::to_owned)).collect()
    };
    for key in required(new).difference(&required(old)) {
        add(What::Required(key.clone()));
    }
    let properties = |schema: &Map<String, Value>| schema.get("properties").and_then(Value::as_object).cloned();
    let (was, is) = (properties(old).unwrap_or_default(), properties(new).unwrap_or_default());
    let keeps = new.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    for (key, old) in &was {
        path.push(key.as_str().into());
        match (is.get(key), new.get("additionalProperties")) {
            (Some(new), _) | (None, Some(new)) => compare(old, new, path, found),
            (None, None) if !after.contains("object") => {}
            (None, None) => {
                found.push(CrdChange { path: path.clone(), what: if keeps { What::Gone } else { What::Dropped } });
            }
        }
        path.pop();
    }
    for key in ["items", "additionalProperties"] {
        if let (Some(old), Some(new)) = (old.get(key), new.get(key)) {
            path.push(ANY.into());
            compare(old, new, path, found);
            path.pop();
        }
    }
}

const ALL: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The types of values that a node takes, but for their empty ones.
fn taken(schema: &Map<String, Value>) -> BTreeSet<&'static str> {
    let is = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    let mut taken: BTreeSet<&'static str> = match schema.get("type").and_then(Value::as_str) {
        Some("number") => ["integer", "number"].into(),
        Some(kind) => ALL.iter().copied().filter(|one| *one == kind).collect(),
        None if is("x-kubernetes-int-or-string") => ["integer", "string"].into(),
        None => ALL.into(),
    };
    let is_zero = |key: &str| schema.get(key).and_then(Value::as_f64) == Some(0.0);
    for (limit, kinds) in [("maxProperties", "object"), ("maxItems", "array"), ("maxLength", "string")] {
        if schema.get("type").is_none() && is_zero(limit) {
            taken.remove(kinds);
        }
    }
    if schema.get("type").is_none() && is_zero("minimum") {
        taken.retain(|kind| !matches!(*kind, "integer" | "number"));
    }
    if is("nullable") {
        taken.insert("null");
    }
    taken
}

/// Limits that are narrower than before, of types that are still taken.
fn limits(old: &Map<String, Value>, new: &Map<String, Value>, after: &BTreeSet<&str>) -> Vec<What> {
    let counts = |key: &str| match key {
        "maxLength" | "minLength" | "pattern" => after.contains("string"),
        "maxItems" | "minItems" => after.contains("array"),
        "maxProperties" | "minProperties" => after.contains("object"),
        "maximum" | "minimum" | "multipleOf" | "exclusiveMaximum" | "exclusiveMinimum" => after.contains("integer"),
        _ => true,
    };
    let is_narrower = |key: &str, was: Option<&Value>, is: &Value| match (key, was) {
        ("enum", Some(Value::Array(was))) => {
            is.as_array().is_some_and(|is| was.iter().any(|option| !is.contains(option)))
        }
        (key, Some(was)) if key.starts_with("max") => is.as_f64() < was.as_f64(),
        (key, Some(was)) if key.starts_with("min") => is.as_f64() > was.as_f64(),
        (_, Some(was)) => is != was,
        (_, None) => true,
    };
    let keys = [
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
    ];
    let narrower = keys.iter().filter(|key| counts(key)).filter_map(|key| {
        let (was, is) = (old.get(*key), new.get(*key)?);
        let change = || What::Limit((*key).to_owned(), was.map(Value::to_string), is.to_string());
        is_narrower(key, was, is).then(change)
    });
    narrower.collect()
}

#[cfg(test)]
mod tests {
    use super::changes;
    use serde_json::json;

    #[test]
    fn what_a_custom_resource_may_meet_is_named() {
        let keep = "x-kubernetes-preserve-unknown-fields";
        let old = json!({"type": "object", keep: true, "properties": {
            "same": {"type": "string", "nullable": true},
            "port": {"x-kubernetes-int-or-string": true, "nullable": true},
            "open": {keep: true, "nullable": true},
            "size": {"type": "integer", "maximum": 9},
            "word": {"type": "string", "pattern": "^(a|b)$"},
            "gone": {"type": "string"},
            "map": {"type": "object", keep: true, "properties": {"a": {"type": "boolean"}}},
            "list": {"type": "array", "items": {"type": "object", keep: true}},
        }});
        let new = json!({"type": "object", keep: true, "properties": {
            "same": {keep: true, "nullable": true},
            "port": {"type": "integer", "nullable": true},
            "open": {keep: true, "nullable": true, "maxItems": 0, "maxProperties": 0},
            "size": {"type": "integer", "maximum": 7, "minimum": 1},
            "word": {"type": "string", "pattern": "^(a)$"},
            "map": {"type": "object", "properties": {}},
            "list": {"type": "array", "items": {"type": "object", keep: true, "required": ["name"]}},
            "added": {"type": "string"},
        }});
        let found: Vec<String> = changes(&old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "spec.port: no longer accepts string",
                "spec.open: no longer accepts array, object",
                "spec.size: maximum is 7 (it was 9)",
                "spec.size: minimum is 1 (there was none)",
                r#"spec.word: pattern is "^(a)$" (it was "^(a|b)$")"#,
                "spec.gone: the chart no longer has this value; a custom resource keeps it without an effect",
                "spec.map.a: the API server drops it",
                "spec.list.*: name is required",
            ]
        );
        assert_eq!(changes(&new, &new), []);
    }
}

//! The conditions of a custom resource.

use serde_json::Value;

/// A condition of a custom resource.
pub fn condition<'a>(cr: &'a Value, name: &str) -> Option<&'a Value> {
    let conditions = cr.pointer("/status/conditions").and_then(Value::as_array)?;
    conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(name))
}

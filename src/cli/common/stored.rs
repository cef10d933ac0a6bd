//! A custom resource as the API server stores it.

use serde_json::{Map, Value, json};

use super::error::CliError;
use super::line::line;
use super::target::Target;
use crate::cluster::client::{Cluster, Returned};

/// Writes the whole numbers of YAML as integers, which the API server wants.
pub fn whole_numbers(value: &mut Value) {
    /// The largest number of which a float has all whole numbers below it.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|n| number.is_f64() && n.fract() == 0.0 && n.abs() < EXACT) {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(map) => map.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The custom resource as the API server would store it, with its defaults.
pub async fn as_stored(
    changed: &Value,
    live: Option<&Value>,
    target: &Target,
    cluster: &Cluster,
) -> Result<Value, CliError> {
    let answer = if let Some(live) = live {
        let mut body = live.clone();
        body["spec"] = changed.get("spec").cloned().unwrap_or_else(|| json!({}));
        for part in ["annotations", "labels"] {
            let Some(Value::Object(own)) = changed.get("metadata").and_then(|m| m.get(part)) else { continue };
            match &mut body["metadata"][part] {
                Value::Object(map) => map.extend(own.clone()),
                other => *other = Value::Object(own.clone()),
            }
        }
        cluster.replace(&target.resource, &target.id, &body, true, Returned::Object).await
    } else {
        let mut body = changed.as_object().cloned().unwrap_or_default();
        let metadata = body.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let (Value::Object(metadata), Some(namespace)) = (metadata, &target.id.namespace) {
            metadata.insert("namespace".into(), Value::from(&**namespace));
        }
        cluster.apply_new(&target.resource, &target.id, &body, true).await
    };
    answer.map_err(|e| CliError(line(&e.whole())))
}

//! The fields that no patch is allowed to change: the identity of an object and its owner.
//!
//! The namespace, the owner and the finalizers of an object decide for which actions the operator's rights are used,
//! and which objects are deleted with a release. So only the chart and the operator set them.

use serde_json::{Map, Value};

/// Domains of the annotations and labels that name the owner of an object.
const MARKS: [&str; 4] = ["helm.sdk.operatorframework.io/", "meta.helm.sh/", "operator-sdk/", "tillerman.dev/"];

/// The first field that identifies an object or its owner, and that a patch changed.
pub fn changed(before: &Map<String, Value>, after: &Map<String, Value>) -> Option<String> {
    for key in ["apiVersion", "kind"] {
        if before.get(key) != after.get(key) {
            return Some(key.to_owned());
        }
    }
    let metadata = |body: &Map<String, Value>, key: &str| body.get("metadata").and_then(|m| m.get(key)).cloned();
    for key in ["name", "generateName", "namespace", "ownerReferences", "finalizers"] {
        if metadata(before, key) != metadata(after, key) {
            return Some(format!("metadata.{key}"));
        }
    }
    ["annotations", "labels"].into_iter().find_map(|of| {
        let (before, after) = (metadata(before, of), metadata(after, of));
        let keys = |of: &Option<Value>| -> Vec<String> {
            let keys = of.as_ref().and_then(Value::as_object).into_iter().flat_map(|map| map.keys().cloned());
            keys.filter(|key| MARKS.iter().any(|domain| key.starts_with(domain))).collect()
        };
        let value = |of: &Option<Value>, key: &str| of.as_ref().and_then(|map| map.get(key)).cloned();
        let marks = keys(&before).into_iter().chain(keys(&after));
        let mut differing = marks.filter(|key| value(&before, key) != value(&after, key));
        differing.next().map(|key| format!("metadata.{of} {key}"))
    })
}

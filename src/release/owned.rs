//! The digest of the fields of a live object that our field manager owns: the trigger of drift repair.
//!
//! `metadata.managedFields` lists the fields that a manager owns. The values of exactly those fields
//! are what we applied, as the API server defaulted and normalised them. So `1000m` and `1` are not drift if the digest
//! of the API server's answer is the reference (docs/design/applying.md C1).

use crate::names;
use serde_json::{Map, Value};

use super::digest::Hasher;

/// The field manager of everything that Tillerman applies from a chart.
pub const MANAGER: &str = "tillerman";

/// Annotation of a live StatefulSet with members: its driver. The operator changes the replicas step by step, so they are
/// not part of the digest.
pub const STEPPED: &str = names::STEPPED_BY;

/// Characters of the digest that are kept; it is a trigger, not a proof.
const LENGTH: usize = 16;

/// The digest of our fields, or `None` when the object has no entry of ours.
///
/// `managed` is the value of `metadata.managedFields`; `object` is the object, `metadata` included.
pub fn digest(managed: &[Value], object: &Map<String, Value>) -> Option<String> {
    let mut hasher = Hasher::default();
    let mut found = false;
    for entry in managed.iter().filter(|e| is_ours(e)) {
        if let Some(Value::Object(fields)) = entry.get("fieldsV1") {
            found = true;
            let stepped = object.get("metadata").is_some_and(steps_replicas).then(|| without_replicas(fields));
            let fields = stepped.as_ref().unwrap_or(fields);
            walk(fields, Some(&Value::Object(object.clone())), &mut hasher);
        }
    }
    found.then(|| hasher.finish_short(LENGTH))
}

/// Whether the object of this `metadata` has [`STEPPED`].
pub fn steps_replicas(metadata: &Value) -> bool {
    metadata.get("annotations").is_some_and(|a| a.get(STEPPED).is_some())
}

fn without_replicas(fields: &Map<String, Value>) -> Map<String, Value> {
    let mut fields = fields.clone();
    if let Some(Value::Object(spec)) = fields.get_mut("f:spec") {
        spec.remove("f:replicas");
    }
    fields
}

/// Whether an entry of `managedFields` is that of our applies.
pub fn is_ours(entry: &Value) -> bool {
    entry.get("manager").and_then(Value::as_str) == Some(MANAGER)
        && entry.get("operation").and_then(Value::as_str) == Some("Apply")
        && !has_subresource(entry)
}

/// Whether an entry is about a subresource.
pub fn has_subresource(entry: &Value) -> bool {
    entry.get("subresource").and_then(Value::as_str).is_some_and(|s| !s.is_empty())
}

/// Follows `fieldsV1` through the value: `f:NAME` is a field, `k:{…}` the list item with those keys, `v:…` an element of
/// a set, `.` the thing itself. A field without children is owned whole.
fn walk(fields: &Map<String, Value>, at: Option<&Value>, hasher: &mut Hasher) {
    let mut keys: Vec<&String> = fields.keys().collect();
    keys.sort_unstable();
    for key in keys {
        hasher.text(key);
        let value = step(key, at);
        match &fields[key] {
            Value::Object(children) if !children.is_empty() => walk(children, value, hasher),
            _ if key == "." => {
                hasher.text(if at.is_some() { "present" } else { "absent" });
            }
            _ => match value {
                Some(value) => {
                    hasher.json(value);
                }
                None => {
                    hasher.text("absent");
                }
            },
        }
    }
}

fn step<'a>(key: &str, at: Option<&'a Value>) -> Option<&'a Value> {
    if let Some(name) = key.strip_prefix("f:") {
        return at?.get(name);
    }
    if let Some(keys) = key.strip_prefix("k:") {
        let keys: Map<String, Value> = serde_json::from_str(keys).ok()?;
        return at?.as_array()?.iter().find(|item| keys.iter().all(|(k, v)| item.get(k) == Some(v)));
    }
    if let Some(element) = key.strip_prefix("v:") {
        let element: Value = serde_json::from_str(element).ok()?;
        return at?.as_array()?.iter().find(|item| **item == element);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::digest;
    use serde_json::{Map, Value, json};

    fn managed() -> Vec<Value> {
        json!([
            {"manager": "tillerman", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": {
                "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {
                    "k:{\"name\":\"web\"}": {".": {}, "f:image": {}, "f:name": {}}}}}},
                "f:metadata": {"f:finalizers": {"v:\"x\"": {}}}}},
            {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}},
        ])
        .as_array()
        .unwrap()
        .clone()
    }

    fn object(change: impl FnOnce(&mut Value)) -> Map<String, Value> {
        let mut value = json!({"metadata": {"finalizers": ["x"]}, "spec": {"replicas": 1, "paused": false, "template":
            {"spec": {"containers": [{"name": "web", "image": "a"}]}}}});
        change(&mut value);
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_change_of_an_owned_field_changes_the_digest_and_no_other_does() {
        let reference = digest(&managed(), &object(|_| ())).unwrap();
        let same: [fn(&mut Value); 3] = [
            |v| v["spec"]["paused"] = json!(true),
            |v| v["status"] = json!({"readyReplicas": 1}),
            |v| {
                v["spec"]["template"]["spec"]["containers"]
                    .as_array_mut()
                    .unwrap()
                    .insert(0, json!({"name": "sidecar", "image": "b"}));
            },
        ];
        for change in same {
            assert_eq!(digest(&managed(), &object(change)).unwrap(), reference);
        }
        let drift: [fn(&mut Value); 5] = [
            |v| v["spec"]["replicas"] = json!(2),
            |v| v["spec"]["template"]["spec"]["containers"][0]["image"] = json!("b"),
            |v| v["spec"]["template"]["spec"]["containers"] = json!([]),
            |v| v["metadata"]["finalizers"] = json!([]),
            |v| {
                v["spec"].as_object_mut().unwrap().remove("replicas");
            },
        ];
        for change in drift {
            assert_ne!(digest(&managed(), &object(change)).unwrap(), reference);
        }
    }

    #[test]
    fn losing_the_ownership_of_a_field_is_drift() {
        let mut fewer = managed();
        fewer[0]["fieldsV1"]["f:spec"].as_object_mut().unwrap().remove("f:replicas");
        assert_ne!(digest(&managed(), &object(|_| ())), digest(&fewer, &object(|_| ())));
    }

    #[test]
    fn replicas_that_are_stepped_are_no_part_of_the_digest() {
        let stepped = |change: fn(&mut Value)| {
            object(|v| {
                v["metadata"]["annotations"] = json!({"tillerman.dev/members": "jobs"});
                change(v);
            })
        };
        let reference = digest(&managed(), &stepped(|_| ())).unwrap();
        assert_eq!(digest(&managed(), &stepped(|v| v["spec"]["replicas"] = json!(7))).unwrap(), reference);
        let mut scaled = managed();
        scaled[0]["fieldsV1"]["f:spec"].as_object_mut().unwrap().remove("f:replicas");
        assert_eq!(digest(&scaled, &stepped(|_| ())).unwrap(), reference, "kubectl scale takes the field from us");
        let image = |v: &mut Value| v["spec"]["template"]["spec"]["containers"][0]["image"] = json!("b");
        assert_ne!(digest(&managed(), &stepped(image)).unwrap(), reference);
    }

    #[test]
    fn an_object_without_our_entry_has_no_digest() {
        assert_eq!(digest(&managed()[1..], &object(|_| ())), None);
    }
}

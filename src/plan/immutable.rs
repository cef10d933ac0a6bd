//! Immutable fields: which fields of an object cannot be changed, and what it would cost to recreate the object.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::kind::go_bool;
use crate::object::Gvk;

/// helm-operator's annotation: an object that cannot be changed is recreated.
pub const UPGRADE_FORCE: &str = "helm.sdk.operatorframework.io/upgrade-force";
/// The same in a rollback. Without it helm-operator recreates objects when it rolls back, and Tillerman does not.
const ROLLBACK_FORCE: &str = "helm.sdk.operatorframework.io/rollback-force";

/// Whether the annotations of a custom resource allow recreating what cannot be changed.
pub fn is_allowed(annotations: &BTreeMap<Box<str>, Box<str>>, rolls_back: bool) -> bool {
    let says = |name: &str| annotations.get(name).is_some_and(|text| go_bool(text) == Some(true));
    says(UPGRADE_FORCE) || rolls_back && says(ROLLBACK_FORCE)
}

/// How an object may be recreated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remake {
    /// It is deleted alone. Its dependents stay, and the new object adopts them.
    Orphan,
    /// It is deleted with its dependents.
    Delete,
    /// Not at all: too much would be lost.
    Never,
}

/// How an object of a kind may be recreated, and what would be lost.
pub fn remake(gvk: &Gvk) -> (Remake, &'static str) {
    match (&*gvk.group, &*gvk.kind) {
        ("apps", "StatefulSet") => (Remake::Orphan, "its pods and volumes would stay"),
        ("apps", _) | ("batch", "Job") => (Remake::Delete, "its pods would be stopped and created again"),
        ("batch", _) => (Remake::Delete, "its jobs would be stopped"),
        ("", "Pod") => (Remake::Delete, "it would be stopped"),
        ("", "Service") => (Remake::Delete, "its addresses and node ports would be lost"),
        ("", "PersistentVolumeClaim" | "PersistentVolume") => (Remake::Never, "the data on the volume would be lost"),
        ("", "Namespace") => (Remake::Never, "everything in it would be lost"),
        ("apiextensions.k8s.io", _) => (Remake::Never, "all custom resources of it would be lost"),
        _ => (Remake::Delete, "content that other clients wrote into it would be lost"),
    }
}

/// The fields below `field` that differ between `wanted` and `live`. `why` is the API server's sentence, which for some kinds
/// names in quotes what may be changed.
pub fn changed(live: &Value, wanted: &Value, field: &str, why: &str) -> Vec<String> {
    let parts = field.split(['.', '[', ']']).filter(|part| !part.is_empty());
    let pointer = parts.fold(String::new(), |pointer, part| pointer + "/" + part);
    let (Some(live), Some(Value::Object(fields))) = (live.pointer(&pointer), wanted.pointer(&pointer)) else {
        return vec![field.to_owned()];
    };
    let differs = |(name, value): &(&String, &Value)| {
        !why.contains(&format!("'{name}'")) && !live.get(name).is_some_and(|live| contains(live, value))
    };
    let changed: Vec<String> = fields.iter().filter(differs).map(|(name, _)| format!("{field}.{name}")).collect();
    if changed.is_empty() { vec![field.to_owned()] } else { changed }
}

/// The sizes that the claims of a StatefulSet are to have, by the names of their templates, if the templates differ in nothing else.
pub fn claim_sizes(live: &Value, wanted: &Value) -> Option<Vec<(String, String)>> {
    const SIZE: &str = "/spec/resources/requests/storage";
    let templates = |set: &Value| set.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array).cloned();
    let (old, new) = (templates(live)?, templates(wanted)?);
    let mut sizes = Vec::new();
    for (old, new) in old.iter().zip(&new) {
        let (from, to) = (old.pointer(SIZE)?, new.pointer(SIZE)?);
        let mut same = new.clone();
        *same.pointer_mut(SIZE)? = from.clone();
        if !contains(old, &same) {
            return None;
        }
        if from != to {
            let name = new.pointer("/metadata/name").and_then(Value::as_str)?;
            sizes.push((name.to_owned(), to.as_str().map_or_else(|| to.to_string(), str::to_owned)));
        }
    }
    (old.len() == new.len() && !sizes.is_empty()).then_some(sizes)
}

/// Whether the templates of claims differ only in labels and annotations. A StatefulSet that is recreated with them
/// loses nothing: its pods and claims stay, and those that are made later have the new labels.
pub fn differ_in_labels(live: &Value, wanted: &Value) -> bool {
    let templates = |set: &Value| set.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array).cloned();
    let (Some(old), Some(mut new)) = (templates(live), templates(wanted)) else { return false };
    for template in &mut new {
        if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| field != "labels" && field != "annotations");
        }
    }
    contains(&Value::Array(old), &Value::Array(new))
}

/// Whether `live` contains all of `wanted`, beside defaults.
fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| live.get(key).is_some_and(|live| contains(live, value)))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| contains(live, wanted))
        }
        _ => live == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::{ROLLBACK_FORCE, Remake, UPGRADE_FORCE, changed, claim_sizes, differ_in_labels, is_allowed, remake};
    use crate::object::Gvk;
    use serde_json::{Value, json};

    #[test]
    fn the_fields_that_differ_are_named() {
        let live = json!({"spec": {"replicas": 1, "serviceName": "db", "volumeClaimTemplates": [
            {"metadata": {"name": "data"}, "spec": {"volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}}}]}});
        let wanted = json!({"spec": {"replicas": 2, "serviceName": "db", "volumeClaimTemplates": [
            {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "2Gi"}}}}]}});
        let why = "updates to statefulset spec for fields other than 'replicas' and 'template' are forbidden";
        assert_eq!(changed(&live, &wanted, "spec", why), ["spec.volumeClaimTemplates"]);
        assert_eq!(changed(&live, &wanted, "spec.clusterIPs[0]", "may not change once set"), ["spec.clusterIPs[0]"]);
        assert_eq!(changed(&live, &live, "spec", ""), ["spec"]);
    }

    #[test]
    fn claims_are_enlarged_only_if_nothing_else_of_them_differs() {
        let template = |name: &str, size: &str, class: &str| json!({"metadata": {"name": name}, "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}}});
        let set = |templates: &[Value]| json!({"spec": {"volumeClaimTemplates": templates}});
        let mut data = template("data", "1Gi", "fast");
        data["spec"]["volumeMode"] = json!("Filesystem");
        let live = set(&[data, template("log", "1Gi", "fast")]);
        for (wanted, expected) in [
            (
                vec![template("data", "2Gi", "fast"), template("log", "1Gi", "fast")],
                Some(vec![("data".into(), "2Gi".into())]),
            ),
            (vec![template("data", "1Gi", "fast"), template("log", "1Gi", "fast")], None),
            (vec![template("data", "2Gi", "slow"), template("log", "1Gi", "fast")], None),
            (vec![template("data", "2Gi", "fast"), template("logs", "1Gi", "fast")], None),
            (vec![template("data", "2Gi", "fast")], None),
        ] {
            assert_eq!(claim_sizes(&live, &set(&wanted)), expected, "{wanted:?}");
        }
    }

    #[test]
    fn volumes_are_never_deleted_for_a_field() {
        assert_eq!(remake(&Gvk::new("", "v1", "PersistentVolumeClaim")).0, Remake::Never);
        assert_eq!(remake(&Gvk::new("apps", "v1", "StatefulSet")).0, Remake::Orphan);
        assert_eq!(remake(&Gvk::new("apps", "v1", "Deployment")).0, Remake::Delete);
    }

    #[test]
    fn an_object_is_recreated_only_by_the_annotation_for_what_is_done() {
        let annotated = |name: &str, text: &str| [(name.into(), text.into())].into();
        for (name, text, of_an_upgrade, of_a_rollback) in [
            (UPGRADE_FORCE, "True", true, true),
            (UPGRADE_FORCE, "yes", false, false),
            (ROLLBACK_FORCE, "true", false, true),
            (ROLLBACK_FORCE, "false", false, false),
        ] {
            let annotations = annotated(name, text);
            let allowed = (is_allowed(&annotations, false), is_allowed(&annotations, true));
            assert_eq!(allowed, (of_an_upgrade, of_a_rollback), "{name}: {text}");
        }
    }

    #[test]
    fn claims_that_differ_in_labels_alone_may_be_recreated() {
        let set = |labels: Value, size: &str| {
            json!({"spec": {"volumeClaimTemplates": [
                {"metadata": {"name": "data", "labels": labels}, "spec": {"resources": {"requests": {"storage": size}}}}]}})
        };
        let live = set(json!({"chart": "db-1.0.0"}), "1Gi");
        assert!(differ_in_labels(&live, &set(json!({"chart": "db-1.1.0"}), "1Gi")));
        assert!(differ_in_labels(&live, &set(json!({"chart": "db-1.0.0", "more": "x"}), "1Gi")));
        assert!(!differ_in_labels(&live, &set(json!({"chart": "db-1.1.0"}), "2Gi")));
        assert!(!differ_in_labels(&live, &json!({"spec": {"volumeClaimTemplates": []}})));
    }
}

//! The owner of an object that exists before we apply it.

use serde_json::Value;

use crate::kind::switches::TAKE_OWNERSHIP;
use crate::object::metadata;
use crate::release::managers;
use crate::release::owner::{Owner, PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE, RELEASE_NAME, RELEASE_NAMESPACE, marks};

/// Annotation by which Helm knows a hook.
const HELM_HOOK: &str = "helm.sh/hook";

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// It belongs to this release: Helm, helm-operator or we made it.
    Ours,
    /// It has no owner, and the custom resource asks to take it over.
    Adopted,
    /// It is not touched, for this reason.
    Refused(String),
}

/// The owner of an object, from its `metadata`. `is_live` returns whether a release of this namespace and name exists:
/// its objects are never taken over.
pub fn ownership(
    metadata: &Value,
    owner: &Owner,
    take_ownership: bool,
    is_live: impl Fn(&str, &str) -> bool,
) -> Ownership {
    let annotation = |name: &str| metadata.get("annotations").and_then(|a| a.get(name)).and_then(Value::as_str);
    let references = || metadata.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let text = |reference: &Value, key: &str| reference.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let refers = |reference: &Value| text(reference, "uid") == *owner.uid;
    // The owner was a custom resource of the same name that is gone. Its release is continued.
    let replaced = |r: &Value| {
        text(r, "kind") == *owner.gvk.kind
            && text(r, "name") == *owner.name
            && text(r, "apiVersion").split('/').next() == Some(&*owner.gvk.group)
    };
    let controller = references().find(|r| r.get("controller") == Some(&Value::Bool(true)));
    if references().any(refers) {
        return Ownership::Ours;
    }
    if let Some(other) = controller.filter(|r| !replaced(r)) {
        return Ownership::Refused(format!("it belongs to {} {}", text(other, "kind"), text(other, "name")));
    }
    if let (Some(kind), Some(name)) = (annotation(PRIMARY_RESOURCE_TYPE), annotation(PRIMARY_RESOURCE)) {
        return if kind == owner.gvk.kind_group() && name == owner.primary_resource() {
            Ownership::Ours
        } else {
            Ownership::Refused(format!("it belongs to {kind} {name}"))
        };
    }
    match (annotation(RELEASE_NAMESPACE), annotation(RELEASE_NAME)) {
        (Some(namespace), Some(name)) if namespace == &*owner.release_namespace && name == &*owner.release_name => {
            Ownership::Ours
        }
        (Some(namespace), Some(name)) if is_live(namespace, name) => {
            Ownership::Refused(format!("it belongs to Helm release {name} in namespace {namespace}"))
        }
        _ if take_ownership => Ownership::Adopted,
        (Some(namespace), Some(name)) => {
            Ownership::Refused(format!("it belongs to Helm release {name} in namespace {namespace}"))
        }
        _ => Ownership::Refused(format!(
            "it has no owner; set the annotation {TAKE_OWNERSHIP}: \"true\" on the custom resource to let this release take it over"
        )),
    }
}

/// Whether a hook of Helm made an object that names no owner: Helm marks the objects of hooks only with the annotations
/// that the chart gives them. `created` has the times at which those records of the release were written that name the
/// object as a hook. Helm writes a record before the hooks of its revision run, and the API server sets both times, so
/// an older object belongs to another client.
pub fn is_left_by_helm(object: &Value, created: &[&str]) -> bool {
    let at = |text: &str| text.parse::<jiff::Timestamp>().ok();
    let metadata = metadata(object);
    let is_hook = metadata.get("annotations").is_some_and(|annotations| annotations.get(HELM_HOOK).is_some());
    let managed = metadata.get("managedFields").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let made = metadata.get("creationTimestamp").and_then(Value::as_str).and_then(at);
    let is_younger = |made: jiff::Timestamp| created.iter().any(|text| at(text).is_some_and(|at| at <= made));
    is_hook && !managers::is_by_kubectl(managed) && made.is_some_and(is_younger)
}

/// Whether an object says, in its `metadata`, that it belongs to this custom resource: by an owner reference, or, where
/// none is possible, by the annotations that replace it. Only such an object is ever deleted.
pub fn is_marked(metadata: &Value, owner: &Owner) -> bool {
    let references = metadata.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let mut uids = references.filter_map(|reference| reference.get("uid").and_then(Value::as_str));
    uids.any(|uid| *uid == *owner.uid) || marks(metadata).is_some_and(|marks| marks == owner.marks())
}

#[cfg(test)]
mod tests {
    use super::{Ownership, is_left_by_helm, is_marked, ownership};
    use crate::release::owner::owner;
    use serde_json::{Value, json};

    #[test]
    fn metadata_shows_the_owner_of_an_object() {
        let owner = owner();
        let of = |uid: &str, name: &str| {
            json!({"ownerReferences": [{"apiVersion": "demo.example.com/v1", "kind": "Web", "name": name, "uid": uid,
                "controller": true}]})
        };
        let helm = |name: &str| json!({"annotations": {"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": "ns"}});
        let primary = |name: &str| {
            json!({"annotations": {"operator-sdk/primary-resource": name,
                "operator-sdk/primary-resource-type": "Web.demo.example.com"}})
        };
        let mut of_the_last = of("gone", "app");
        of_the_last["annotations"] = helm("app")["annotations"].clone();
        let refused = |why: &str| Ownership::Refused(why.to_owned());
        let nobody = "it has no owner; set the annotation tillerman.dev/take-ownership: \"true\" on the custom resource to \
                      let this release take it over";
        let live = helm("live");
        let table: [(Value, Ownership, Ownership); 9] = [
            (json!({}), refused(nobody), Ownership::Adopted),
            (of("uid", "app"), Ownership::Ours, Ownership::Ours),
            (of("x", "other"), refused("it belongs to Web other"), refused("it belongs to Web other")),
            (of_the_last, Ownership::Ours, Ownership::Ours),
            (helm("app"), Ownership::Ours, Ownership::Ours),
            (helm("else"), refused("it belongs to Helm release else in namespace ns"), Ownership::Adopted),
            (
                live,
                refused("it belongs to Helm release live in namespace ns"),
                refused("it belongs to Helm release live in namespace ns"),
            ),
            (primary("ns/app"), Ownership::Ours, Ownership::Ours),
            (
                primary("ns/b"),
                refused("it belongs to Web.demo.example.com ns/b"),
                refused("it belongs to Web.demo.example.com ns/b"),
            ),
        ];
        for (metadata, without, with) in table {
            let is_live = |namespace: &str, name: &str| (namespace, name) == ("ns", "live");
            assert_eq!(ownership(&metadata, &owner, false, is_live), without, "{metadata}");
            assert_eq!(ownership(&metadata, &owner, true, is_live), with, "{metadata}");
        }
    }

    #[test]
    fn only_what_names_its_owner_is_deleted() {
        let marked = |kind: &str, name: &str, release: &str| {
            json!({"annotations": {"operator-sdk/primary-resource": name, "operator-sdk/primary-resource-type": kind,
                "meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "ns"}})
        };
        for (metadata, expected) in [
            (json!({}), false),
            (json!({"ownerReferences": [{"uid": "uid"}]}), true),
            (json!({"ownerReferences": [{"uid": "other"}]}), false),
            (
                json!({"annotations": {"meta.helm.sh/release-name": "app", "meta.helm.sh/release-namespace": "ns"}}),
                false,
            ),
            (marked("Web.demo.example.com", "ns/app", "app"), true),
            (marked("Web.demo.example.com", "ns/app", "other"), false),
            (marked("Web.demo.example.com", "ns/other", "app"), false),
            (marked("Db.demo.example.com", "ns/app", "app"), false),
        ] {
            assert_eq!(is_marked(&metadata, &owner()), expected, "{metadata}");
        }
    }
    #[test]
    fn what_a_hook_of_helm_left_is_known_by_its_annotation_and_is_not_older_than_its_record() {
        let object = |created: &str, hook: bool, manager: &str| {
            let annotations = if hook { json!({"helm.sh/hook": "pre-install"}) } else { json!({}) };
            json!({"metadata": {"creationTimestamp": created, "annotations": annotations,
                "managedFields": [{"manager": manager, "operation": "Update", "fieldsV1": {"f:data": {}}}]}})
        };
        let (at, later) = ("2026-11-28T09:00:00Z", "2026-11-28T10:00:00Z");
        for (name, object, records, expected) in [
            ("Helm made it", object(at, true, "helm"), &[at][..], true),
            ("for an earlier revision", object(at, true, "helm"), &[later, at], true),
            ("it is older than the record", object(at, true, "helm"), &[later], false),
            ("no record names it", object(at, true, "helm"), &[], false),
            ("it is not a hook", object(at, false, "helm"), &[at], false),
            ("helm-operator under its own name", object(at, true, "nginx-operator"), &[at], true),
            ("somebody made it by hand", object(at, true, "kubectl-create"), &[at], false),
        ] {
            assert_eq!(is_left_by_helm(&object, records), expected, "{name}");
        }
    }
}

//! The fields that Tillerman adds to an object of a chart before it applies it: namespace, labels, annotations, owner.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use super::filled;
use crate::object::{Gvk, Object, ObjectId, child};
use crate::release::owner::{
    CHART_LABEL, Owner, PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE, RELEASE_NAME, RELEASE_NAMESPACE,
};

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// An object that is ready to be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Stamped {
    /// Which object.
    pub id: ObjectId,
    /// The body to send.
    pub body: Map<String, Value>,
    /// It stays when it leaves the chart or the release goes.
    pub kept: bool,
}

impl Stamped {
    /// Whether garbage collection deletes it with the custom resource.
    pub fn is_owned(&self) -> bool {
        self.body.get("metadata").is_some_and(|metadata| metadata.get("ownerReferences").is_some())
    }
}

/// Turns an object of a chart into one of this release.
pub fn stamp(object: &Object, namespaced: bool, owner: &Owner) -> Stamped {
    let kept = object.is_kept();
    let namespace: Option<Arc<str>> = namespaced
        .then(|| object.namespace.as_deref().map_or_else(|| Arc::clone(&owner.release_namespace), Into::into));
    let mut body = object.body.clone();
    // The status is written by controllers. Applying it would make us a co-owner of their fields (docs/design/applying.md B5).
    body.remove("status");
    if object.gvk.group.is_empty() && &*object.gvk.kind == "Secret" {
        encode_string_data(&mut body);
    }
    filled::leave_out(&object.gvk, &mut body);
    let metadata = child(&mut body, "metadata");
    metadata.remove("creationTimestamp");
    match &namespace {
        Some(namespace) => metadata.insert("namespace".into(), Value::from(&**namespace)),
        None => metadata.remove("namespace"),
    };
    let labels = child(metadata, "labels");
    labels.insert(MANAGED_BY.into(), "Helm".into());
    labels.insert(CHART_LABEL.into(), Value::from(&*owner.chart));
    let annotations = child(metadata, "annotations");
    annotations.insert(RELEASE_NAME.into(), Value::from(&*owner.release_name));
    annotations.insert(RELEASE_NAMESPACE.into(), Value::from(&*owner.release_namespace));
    // A mark that a template writes, from values, does not count.
    annotations.shift_remove(PRIMARY_RESOURCE);
    annotations.shift_remove(PRIMARY_RESOURCE_TYPE);
    let can_refer = owner.namespace.is_none() || owner.namespace == namespace;
    if !kept && !can_refer {
        annotations.insert(PRIMARY_RESOURCE.into(), owner.primary_resource().into());
        annotations.insert(PRIMARY_RESOURCE_TYPE.into(), owner.gvk.kind_group().into());
    }
    if !kept && can_refer {
        let reference = json!({
            "apiVersion": owner.gvk.api_version(), "kind": &*owner.gvk.kind, "name": &*owner.name, "uid": &*owner.uid,
            "controller": true, "blockOwnerDeletion": true,
        });
        metadata.insert("ownerReferences".into(), json!([reference]));
    }
    let id = ObjectId { gvk: object.gvk.clone(), namespace, name: object.name.as_str().into() };
    Stamped { id, body, kept }
}

/// Moves `stringData` into `data` in base64, as the API server does. If it were applied as it is, no manager would own
/// its fields, and neither drift nor the removal of a key would be seen (tried on 1.36).
fn encode_string_data(body: &mut Map<String, Value>) {
    let all_text = body.get("stringData").and_then(Value::as_object).is_some_and(|d| d.values().all(Value::is_string));
    if !all_text {
        return;
    }
    let Some(Value::Object(text)) = body.remove("stringData") else { return };
    let data = child(body, "data");
    for (key, value) in text {
        data.insert(key, BASE64.encode(value.as_str().unwrap_or_default()).into());
    }
}

/// Stamps all objects of a release. An object that is written twice counts once, in its last form at its first place: applying
/// both forms would never come to rest.
pub fn stamp_all(objects: &[Object], owner: &Owner, is_namespaced: impl Fn(&Gvk) -> bool) -> Vec<Stamped> {
    let mut all: indexmap::IndexMap<ObjectId, Stamped> = indexmap::IndexMap::new();
    for object in objects {
        let stamped = stamp(object, is_namespaced(&object.gvk), owner);
        all.insert(stamped.id.clone(), stamped);
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::{stamp, stamp_all};
    use crate::object::Object;
    use crate::release::owner::owner;
    use serde_json::{Value, json};

    fn object(metadata: &Value) -> Object {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "status": {}});
        Object::from_body(body.as_object().unwrap().clone()).unwrap()
    }

    #[test]
    fn an_object_in_the_same_namespace_gets_an_owner_reference() {
        let stamped = stamp(&object(&json!({"name": "a", "labels": {"x": "y"}})), true, &owner());
        let metadata = &stamped.body["metadata"];
        assert_eq!(metadata["namespace"], "ns");
        assert_eq!(metadata["ownerReferences"][0]["uid"], "uid");
        assert_eq!(metadata["labels"]["x"], "y");
        assert_eq!(metadata["labels"]["helm.sdk.operatorframework.io/chart"], "web");
        assert_eq!(metadata["labels"]["app.kubernetes.io/managed-by"], "Helm");
        assert_eq!(metadata["annotations"]["meta.helm.sh/release-name"], "app");
        assert_eq!(metadata["annotations"].get("operator-sdk/primary-resource"), None);
        assert_eq!(stamped.body.get("status"), None);
    }

    #[test]
    fn an_object_elsewhere_gets_annotations_instead() {
        for (namespaced, metadata) in
            [(true, json!({"name": "a", "namespace": "other"})), (false, json!({"name": "a"}))]
        {
            let stamped = stamp(&object(&metadata), namespaced, &owner());
            let metadata = &stamped.body["metadata"];
            assert_eq!(metadata.get("ownerReferences"), None);
            assert_eq!(metadata["annotations"]["operator-sdk/primary-resource"], "ns/app");
            assert_eq!(metadata["annotations"]["operator-sdk/primary-resource-type"], "Web.demo.example.com");
            assert_eq!(metadata.get("namespace").is_some(), namespaced);
        }
    }

    #[test]
    fn an_object_that_is_kept_has_no_owner() {
        let metadata = json!({"name": "a", "annotations": {"helm.sh/resource-policy": "keep"}});
        let stamped = stamp(&object(&metadata), true, &owner());
        assert!(stamped.kept);
        assert_eq!(stamped.body["metadata"].get("ownerReferences"), None);
        assert_eq!(stamped.body["metadata"]["annotations"].get("operator-sdk/primary-resource"), None);
    }

    #[test]
    fn string_data_of_a_secret_becomes_data() {
        let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"a": "eA==", "b": "eA=="},
            "stringData": {"a": "y"}});
        let secret = Object::from_body(body.as_object().unwrap().clone()).unwrap();
        let stamped = stamp(&secret, true, &owner());
        assert_eq!(stamped.body["data"], json!({"a": "eQ==", "b": "eA=="}));
        assert_eq!(stamped.body.get("stringData"), None);
    }

    #[test]
    fn labels_that_are_null_are_no_obstacle() {
        let stamped = stamp(&object(&json!({"name": "a", "labels": null, "annotations": null})), true, &owner());
        assert_eq!(stamped.body["metadata"]["labels"].as_object().unwrap().len(), 2);
    }

    #[test]
    fn an_object_that_is_written_twice_counts_once() {
        let objects = [
            object(&json!({"name": "a"})),
            object(&json!({"name": "b"})),
            object(&json!({"name": "a", "labels": {"x": "2"}})),
        ];
        let stamped = stamp_all(&objects, &owner(), |_| true);
        let names: Vec<_> = stamped.iter().map(|s| &*s.id.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(stamped[0].body["metadata"]["labels"]["x"], "2");
    }
}

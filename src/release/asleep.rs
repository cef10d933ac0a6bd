//! Objects of a release that sleeps: workloads without pods. Services, volumes, Jobs and all others stay as they are.

use serde_json::{Map, Value, json};

use crate::names::ASLEEP;
use crate::object::{Object, child};

/// Annotation that stops KEDA, which would scale a workload from zero by itself (keda.sh, *Pausing autoscaling*).
const KEDA_PAUSED: &str = "autoscaling.keda.sh/paused-replicas";

/// Changes an object of a chart into one that sleeps.
///
/// A `Deployment` or `StatefulSet` gets no replicas and the annotation [`ASLEEP`], a `CronJob` is suspended, and KEDA is paused. A
/// `StatefulSet` whose claims are deleted when it is scaled keeps them.
pub fn put_to_sleep(object: &mut Object) {
    let (group, kind) = (&*object.gvk.group, &*object.gvk.kind);
    match (group, kind) {
        ("apps", "Deployment" | "StatefulSet") => {
            let spec = child(&mut object.body, "spec");
            spec.insert("replicas".into(), 0.into());
            if let Some(Value::Object(policy)) = spec.get_mut("persistentVolumeClaimRetentionPolicy")
                && policy.get("whenScaled").is_some_and(|policy| policy == "Delete")
            {
                policy.insert("whenScaled".into(), "Retain".into());
            }
            annotate(&mut object.body, ASLEEP, "true");
        }
        ("batch", "CronJob") => drop(child(&mut object.body, "spec").insert("suspend".into(), true.into())),
        ("keda.sh", "ScaledObject") => annotate(&mut object.body, KEDA_PAUSED, "0"),
        _ => {}
    }
}

/// Whether an object has no replicas because its release sleeps.
pub fn is_asleep(body: &Map<String, Value>) -> bool {
    let annotations = body.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let is_marked = annotations.and_then(|all| all.get(ASLEEP)).is_some_and(|mark| mark == "true");
    is_marked && body.get("spec").and_then(|spec| spec.get("replicas")) == Some(&json!(0))
}

fn annotate(body: &mut Map<String, Value>, name: &str, value: &str) {
    child(child(body, "metadata"), "annotations").insert(name.into(), value.into());
}

#[cfg(test)]
mod tests {
    use super::{is_asleep, put_to_sleep};
    use crate::object::Object;
    use serde_json::{Value, json};

    fn asleep(object: &Value) -> Value {
        let mut object = Object::from_body(object.as_object().unwrap().clone()).unwrap();
        put_to_sleep(&mut object);
        Value::Object(object.body)
    }

    #[test]
    fn workloads_have_no_pods_and_keep_their_claims() {
        let metadata = json!({"name": "a"});
        let policy = json!({"whenScaled": "Delete", "whenDeleted": "Delete"});
        let spec = json!({"replicas": 3, "persistentVolumeClaimRetentionPolicy": policy});
        let set = asleep(&json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}));
        assert!(is_asleep(set.as_object().unwrap()), "{set}");
        assert_eq!(
            set["spec"],
            json!({"replicas": 0, "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Retain", "whenDeleted": "Delete"}})
        );
        let deployment = asleep(&json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}));
        assert_eq!(deployment["spec"], json!({"replicas": 0}));
        let job = asleep(&json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": {}}));
        assert_eq!(job["spec"], json!({"suspend": true}));
        let keda = asleep(&json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": metadata}));
        assert_eq!(keda["metadata"]["annotations"]["autoscaling.keda.sh/paused-replicas"], "0");
    }

    #[test]
    fn other_objects_stay_as_they_are() {
        for (version, kind) in
            [("v1", "Service"), ("batch/v1", "Job"), ("apps/v1", "DaemonSet"), ("x/v1", "Deployment")]
        {
            let object =
                json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": {"replicas": 1}});
            assert_eq!(asleep(&object), object);
        }
    }
}

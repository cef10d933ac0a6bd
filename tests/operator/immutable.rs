//! Fields that the API server does not let anybody change.

use crate::harness::{Space, eventually, kubectl};
use serde_json::{Value, json};

fn apply(space: &Space, force: bool, spec: &Value) {
    let mut annotations = json!({});
    if force {
        annotations["helm.sdk.operatorframework.io/upgrade-force"] = json!("true");
    }
    let body = json!({"apiVersion": "test.tillerman.dev/v1", "kind": "Web",
        "metadata": {"name": "app", "namespace": space.name, "annotations": annotations}, "spec": spec});
    kubectl(&["apply", "-f", "-"], Some(&body.to_string())).unwrap();
}

fn uid(space: &Space, object: &str) -> Value {
    space.get(object).unwrap()["metadata"]["uid"].clone()
}

/// Waits for a failure that says something.
fn wait_failure(space: &Space, words: &str) -> String {
    eventually(words, || {
        let message = space.condition("web/app", "ReleaseFailed")?["message"].to_string();
        if message.contains(words) { Ok(message.clone()) } else { Err(message) }
    })
}

/// docs/design/lessons.md pain 8.
#[test]
fn an_immutable_field_is_named_with_what_would_be_lost_and_changed_only_when_forced() {
    let space = Space::new("fixed");
    let operator = space.operator(&space.watches(&[("Web", "fixed")]), &[]);
    apply(&space, false, &json!({}));
    space.wait("web/app", "Deployed", "True");
    eventually("the pod and its claim are there", || space.get("pod/app-db-0").and(space.get("pvc/data-app-db-0")));
    let before = (uid(&space, "pod/app-db-0"), uid(&space, "pvc/data-app-db-0"));
    let set = uid(&space, "statefulset/app-db");

    apply(&space, false, &json!({"size": "2Gi"}));
    let message = wait_failure(&space, "StatefulSet");
    assert!(message.contains("spec.volumeClaimTemplates cannot be changed"), "{message}");
    assert!(message.contains("its pods and volumes would stay"), "{message}");
    assert!(message.contains("upgrade-force"), "{message}");
    assert_eq!(space.condition("web/app", "Ready").unwrap()["reason"], "ImmutableField");
    assert_eq!(uid(&space, "statefulset/app-db"), set);

    apply(&space, true, &json!({"size": "2Gi"}));
    space.wait_field("web/app", "/status/release/revision", &json!(2));
    assert_ne!(uid(&space, "statefulset/app-db"), set);
    let storage = "/spec/volumeClaimTemplates/0/spec/resources/requests/storage";
    assert_eq!(space.get("statefulset/app-db").unwrap().pointer(storage), Some(&json!("2Gi")));
    // Its successor owns the pod that never stopped.
    let successor = uid(&space, "statefulset/app-db");
    space.wait_field("pod/app-db-0", "/metadata/ownerReferences/0/uid", &successor);
    assert_eq!((uid(&space, "pod/app-db-0"), uid(&space, "pvc/data-app-db-0")), before);
    assert!(space.wait_event("ObjectRemade").contains("StatefulSet app-db"));
    assert!(!space.helm(&["history", "app"]).unwrap().contains("failed: apply StatefulSet app-db: its predecessor"));
    operator.settle();
}

#[test]
fn other_objects_are_recreated_but_never_a_claim() {
    let space = Space::new("fixed-others");
    let operator = space.operator(&space.watches(&[("Web", "fixed")]), &[]);
    apply(&space, true, &json!({"claim": "ReadWriteOnce"}));
    space.wait("web/app", "Deployed", "True");
    let (deployment, claim) = (uid(&space, "deployment/app-web"), uid(&space, "pvc/app-data"));
    apply(&space, true, &json!({"claim": "ReadWriteOnce", "label": "b"}));
    space.wait_field("deployment/app-web", "/spec/selector/matchLabels/label", &json!("b"));
    assert_ne!(uid(&space, "deployment/app-web"), deployment);
    operator.settle();
    apply(&space, true, &json!({"claim": "ReadWriteMany", "label": "b"}));
    let message = wait_failure(&space, "PersistentVolumeClaim");
    assert!(message.contains("spec.accessModes cannot be changed"), "{message}");
    assert!(message.contains("the data on the volume would be lost, so it never is"), "{message}");
    assert_eq!(uid(&space, "pvc/app-data"), claim);
}

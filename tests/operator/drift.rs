//! What others change comes back: only that, at once, and without a new revision.
//!
//! Codes in names are rules of docs/design/applying.md.

use crate::harness::{Space, eventually};
use serde_json::json;

#[test]
fn a_changed_field_is_repaired_without_a_new_revision() {
    let space = Space::new("drift");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait_web("app");
    operator.settle();
    let before = space.requests().len();
    space.kubectl(&["patch", "deployment/app-web", "--type=merge", "-p", r#"{"spec":{"replicas":7}}"#]).unwrap();
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(1));
    assert!(space.wait_event("DriftRepaired").contains("Deployment app-web"));
    operator.settle();
    // Only that object is applied; the record for it was seen when it was written, and nothing is rendered.
    let writes: Vec<String> = eventually("the audit log", || {
        let requests = space.requests();
        let writes: Vec<String> = requests[before..].iter().filter(|r| r.contains("deployments")).cloned().collect();
        if writes.is_empty() { Err("nothing yet") } else { Ok(writes) }
    });
    assert_eq!(writes, ["patch deployments"]);
    let others = space.requests()[before..].iter().any(|r| r.contains("services") || r.contains("configmaps"));
    assert!(!others, "{:?}", &space.requests()[before..]);
    let is_read = |before: usize| space.requests()[before..].iter().any(|r| r == "get secrets");
    assert!(!is_read(before), "{:?}", &space.requests()[before..]);
    // It is read when somebody else has written it.
    space.kubectl(&["label", "secret/sh.helm.release.v1.app.v1", "somebody=else"]).unwrap();
    operator.settle();
    let before = space.requests().len();
    space.kubectl(&["patch", "deployment/app-web", "--type=merge", "-p", r#"{"spec":{"replicas":8}}"#]).unwrap();
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(1));
    eventually("the audit log", || is_read(before).then_some(()).ok_or("nothing yet"));
    assert_eq!(space.helm(&["history", "app"]).unwrap().lines().count(), 2);
}

/// docs/design/lessons.md pain 17: a deleted object comes back at once.
#[test]
fn a_deleted_object_comes_back() {
    let space = Space::new("deleted");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    for object in ["deployment/app-web", "service/app-web", "configmap/app-config"] {
        let uid = space.get(object).unwrap()["metadata"]["uid"].clone();
        space.kubectl(&["delete", object, "--wait=false"]).unwrap();
        eventually("it comes back", || match space.get(object) {
            Ok(found) if found["metadata"]["uid"] != uid => Ok(()),
            Ok(_) => Err("it is the old one".to_owned()),
            Err(why) => Err(why),
        });
    }
}

/// A6.
#[test]
fn a_label_that_was_taken_away_comes_back() {
    let space = Space::new("label");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    space.kubectl(&["label", "configmap/app-config", "helm.sdk.operatorframework.io/chart-"]).unwrap();
    space.wait_field("configmap/app-config", "/metadata/labels/helm.sdk.operatorframework.io~1chart", &json!("web"));
}

#[test]
fn what_others_add_is_no_drift() {
    let space = Space::new("added");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait_web("app");
    operator.settle();
    let before = operator.sent();
    space.kubectl(&["annotate", "service/app-web", "somebody=else"]).unwrap();
    space.kubectl(&["patch", "configmap/app-config", "--type=merge", "-p", r#"{"data":{"more":"x"}}"#]).unwrap();
    assert_eq!(operator.settle(), before);
    assert_eq!(space.get("configmap/app-config").unwrap()["data"]["more"], "x");
}

#[test]
fn a_copy_of_an_object_by_a_user_is_not_pruned() {
    let space = Space::new("copy");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    let mut copy = space.get("configmap/app-config").unwrap();
    copy["metadata"] = json!({"name": "mine", "namespace": space.name, "labels": copy["metadata"]["labels"],
        "ownerReferences": copy["metadata"]["ownerReferences"]});
    crate::harness::kubectl(&["create", "-f", "-"], Some(&copy.to_string())).unwrap();
    operator.settle();
    space.get("configmap/mine").unwrap();
}

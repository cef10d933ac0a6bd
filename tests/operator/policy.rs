//! `deploy/members-policy.yaml`: nobody but the operator changes the replicas of a stateful set with members.

use serde_json::json;

use crate::harness::{Space, eventually, kubectl, repository};
use crate::kubelet::Kubelet;

/// The policy goes when the test ends.
struct Policy<'a>(&'a str);
impl Drop for Policy<'_> {
    fn drop(&mut self) {
        for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
            let _ = kubectl(&["delete", kind, self.0, "--wait=false"], None);
        }
    }
}

#[test]
fn only_the_operator_changes_the_replicas_of_a_stateful_set_with_members() {
    let space = Space::new("mempolicy");
    let text = std::fs::read_to_string(repository("deploy/members-policy.yaml")).unwrap();
    let shipped = "system:serviceaccount:tillerman-system:tillerman";
    assert!(text.contains(shipped));
    // Of this test alone.
    let text = text.replace(shipped, &space.name).replace("tillerman-members", &space.name);
    let only_here = format!(
        "  matchResources: {{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {}}}}}}}\n  paramRef:",
        space.name
    );
    kubectl(&["apply", "-f", "-"], Some(&text.replace("  paramRef:", &only_here))).unwrap();
    let _policy = Policy(&space.name);
    let _kubelet = Kubelet::of_members(&space, |_| (0, String::new()));
    let _operator = space.operator(&space.watches(&[("Web", "members")]), &[]);
    space.apply("Web", "a", &json!({"size": 1}));
    space.wait_field("web/a", "/status/members/db/replicas", &json!(1));
    let told = "has members that must be told before they come and go: set the size in the custom resource (Web a)";
    let refused = |args: &[&str]| match space.kubectl(args) {
        Ok(done) => Err(done),
        Err(e) if e.contains(told) => Ok(()),
        Err(e) => Err(e),
    };
    // The API server takes a policy into use a little after it was made.
    eventually("the policy is in use", || refused(&["scale", "statefulset/a-db", "--replicas=3"]));
    refused(&["scale", "statefulset/a-db", "--replicas=0"]).unwrap();
    refused(&["patch", "statefulset/a-db", "-p", r#"{"spec":{"replicas":2}}"#]).unwrap();
    let without = r#"{"metadata":{"annotations":{"tillerman.dev/members":null}},"spec":{"replicas":2}}"#;
    refused(&["patch", "statefulset/a-db", "-p", without]).unwrap();
    // Everything else of it may be changed, and so may the replicas of any other.
    space.kubectl(&["label", "statefulset/a-db", "example.com/team=x"]).unwrap();
    let other = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "other", "namespace": space.name},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "other"}}, "serviceName": "other", "template": {
            "metadata": {"labels": {"app": "other"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    });
    kubectl(&["apply", "-f", "-"], Some(&other.to_string())).unwrap();
    space.kubectl(&["scale", "statefulset/other", "--replicas=1"]).unwrap();
    // And the operator goes on stepping.
    space.apply("Web", "a", &json!({"size": 2}));
    space.wait_field("web/a", "/status/members/db/ready", &json!(2));
    space.apply("Web", "a", &json!({"size": 1}));
    space.wait_field("web/a", "/status/members/db/replicas", &json!(1));
}

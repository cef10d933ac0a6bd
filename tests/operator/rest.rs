//! At rest the operator sends no request, and after a restart it writes nothing.
//!
//! Codes in names are rules of docs/design/applying.md.

use crate::harness::{Space, eventually};
use crate::kubelet::Kubelet;
use crate::node::{Node, net};
use serde_json::json;

/// docs/design/lessons.md pain 1: releases at rest cost nothing, however many there are.
#[test]
fn a_settled_release_costs_no_request() {
    let space = Space::new("idle");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &["--reconcile-period=1s"]);
    for name in ["a", "b", "c"] {
        space.apply("Web", name, &json!({}));
        space.wait_web(name);
    }
    operator.rests(&space, 10);
}

/// A5.
#[test]
fn a_restart_writes_nothing_and_asks_by_kinds_and_not_by_objects() {
    let space = Space::new("restart");
    let watches = space.watches(&[("Web", "web")]);
    let operator = space.operator(&watches, &[]);
    for name in ["a", "b"] {
        space.apply("Web", name, &json!({}));
        space.wait_web(name);
    }
    operator.settle();
    assert!(operator.stop());
    let before = space.requests().len();
    let operator = space.operator(&watches, &[]);
    operator.settle();
    let requests = space.requests()[before..].to_vec();
    let written: Vec<_> = requests.iter().filter(|r| !r.starts_with("get /") && !r.starts_with("list")).collect();
    assert_eq!(written, Vec::<&String>::new());
    assert!(requests.len() < 10, "{requests:?}");
    // And it sees what happens.
    space.kubectl(&["delete", "deployment/a-web"]).unwrap();
    eventually("it comes back", || space.get("deployment/a-web"));
}

/// A1.
#[test]
fn what_happened_while_the_operator_was_down_is_repaired() {
    let space = Space::new("down");
    let watches = space.watches(&[("Web", "web")]);
    let operator = space.operator(&watches, &[]);
    for name in ["a", "b", "c"] {
        space.apply("Web", name, &json!({"extra": true}));
        space.wait(&format!("web/{name}"), "Deployed", "True");
    }
    operator.kill();
    space.kubectl(&["patch", "deployment/a-web", "--type=merge", "-p", r#"{"spec":{"replicas":7}}"#]).unwrap();
    space.kubectl(&["delete", "service/a-web"]).unwrap();
    space.delete("web/b");
    space.apply("Web", "c", &json!({"extra": false, "replicas": 2}));
    let _operator = space.operator(&watches, &[]);
    space.wait_field("deployment/a-web", "/spec/replicas", &json!(1));
    eventually("it comes back", || space.get("service/a-web"));
    space.wait_gone("web/b");
    space.wait_gone("deployment/b-web");
    space.wait_field("deployment/c-web", "/spec/replicas", &json!(2));
    space.wait_gone("configmap/c-extra");
}

#[test]
fn a_kill_in_the_middle_of_an_install_leaves_nothing_stuck() {
    let space = Space::new("killed");
    let watches = space.watches(&[("Web", "web")]);
    for round in 0..4 {
        let operator = space.operator(&watches, &[]);
        let name = format!("app-{round}");
        space.apply("Web", &name, &json!({"extra": true}));
        eventually("the record is there", || space.get(&format!("secret/sh.helm.release.v1.{name}.v1")));
        operator.kill();
    }
    let _operator = space.operator(&watches, &[]);
    for round in 0..4 {
        space.wait(&format!("web/app-{round}"), "Deployed", "True");
        let history = space.helm(&["history", &format!("app-{round}")]).unwrap();
        assert_eq!(history.lines().count(), 2, "{history}");
        assert!(history.contains("deployed"), "{history}");
    }
}

/// A release with members costs nothing either, once they are as they should be: its pods, claims and Jobs are watched.
#[test]
fn a_settled_release_with_members_costs_no_request() {
    let space = Space::new("idlemembers");
    let _kubelet = Kubelet::of_members(&space, |_| (0, String::new()));
    let operator = space.operator(&space.watches(&[("Web", "members")]), &["--reconcile-period=1s"]);
    space.apply("Web", "a", &json!({"size": 2}));
    space.wait_field("statefulset/a-db", "/spec/replicas", &json!(2));
    space.wait_field("web/a", "/status/plan/state", &json!("Complete"));
    space.wait("web/a", "Ready", "True");
    operator.rests(&space, 10);
}

/// Nor does one with a cluster of etcd: between passes only etcd is asked how it is.
#[test]
fn a_settled_release_with_a_cluster_of_etcd_costs_no_request() {
    let space = Space::new("idleetcd");
    let _node = Node::new(&space);
    let operator = space.operator(&space.watches(&[("Web", "etcd")]), &["--reconcile-period=1s"]);
    space.apply("Web", "a", &json!({"size": 1, "net": net(&space, "a")}));
    space.wait_field("web/a", "/status/plan/state", &json!("Complete"));
    space.wait("web/a", "Ready", "True");
    operator.rests(&space, 35);
}

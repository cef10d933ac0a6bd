//! `Status` documents: fields of the status that the chart names.

use crate::harness::{Space, established, eventually, kubectl, program, repository};
use crate::kubelet::Kubelet;
use serde_json::{Value, json};
use std::process::Command;

/// Gives a Service the address that a load balancer would give.
fn give_address(space: &Space, service: &str, ip: &str) {
    let patch = json!({"status": {"loadBalancer": {"ingress": [{"ip": ip}]}}}).to_string();
    space.kubectl(&["patch", service, "--subresource=status", "--type=merge", "-p", &patch]).unwrap();
}

#[test]
fn a_status_shows_values_live_objects_and_members_and_costs_nothing_at_rest() {
    let space = Space::new("statusfields");
    let _kubelet = Kubelet::of_members(&space, |_| (0, String::new()));
    let operator = space.operator(&space.watches(&[("Web", "database")]), &["--reconcile-period=1s"]);
    space.apply("Web", "a", &json!({}));
    space.wait_field("web/a", "/status/membersReady", &json!(1));
    space.wait_field("web/a", "/status/replicasReady", &json!(1));
    space.wait_field("web/a", "/status/pods", &json!(["a-db-0"]));
    space.wait("web/a", "Ready", "False");
    let status = space.get("web/a").unwrap()["status"].clone();
    let endpoint = format!("a-db.{}.svc:5432", space.name);
    assert_eq!((&status["endpoint"], &status["secretName"]), (&json!(endpoint), &json!("a-credentials")));
    assert_eq!(status.get("address"), None);
    give_address(&space, "service/a-db", "192.0.2.1");
    space.wait_field("web/a", "/status/address", &json!("192.0.2.1"));
    space.wait("web/a", "Ready", "True");
    operator.rests(&space, 5);
    // A new value, and a field that the chart no longer names.
    space.apply("Web", "a", &json!({"port": 5433}));
    space.wait_field("web/a", "/status/endpoint", &json!(endpoint.replace("5432", "5433")));
    space.kubectl(&["patch", "web/a", "--type=merge", "-p", r#"{"spec":{"size":2}}"#]).unwrap();
    space.wait_field("web/a", "/status/pods", &json!(["a-db-0", "a-db-1"]));
    let none = space.get("secret/sh.helm.release.v1.a.v1").unwrap()["metadata"]["annotations"].clone();
    assert!(none["tillerman.dev/status"].is_string(), "{none}");
    assert!(operator.stop());
}

#[test]
fn a_restart_costs_no_request_for_a_status_and_what_changed_meanwhile_is_shown() {
    let space = Space::new("statusrestart");
    let watches = space.watches(&[("Web", "database")]);
    let operator = space.operator(&watches, &[]);
    for name in ["a", "b"] {
        space.apply("Web", name, &json!({"members": false}));
        give_address_once(&space, name, "192.0.2.1");
    }
    operator.settle();
    assert!(operator.stop());
    let before = space.requests().len();
    let operator = space.operator(&watches, &[]);
    operator.settle();
    let requests = space.requests()[before..].to_vec();
    assert!(requests.iter().all(|r| r.starts_with("get /") || r.starts_with("list")), "{requests:?}");
    assert!(requests.len() < 12, "{requests:?}");
    assert!(operator.stop());
    give_address(&space, "service/a-db", "192.0.2.7");
    let operator = space.operator(&watches, &[]);
    space.wait_field("web/a", "/status/address", &json!("192.0.2.7"));
    // What the chart no longer names goes, and a mistake is named.
    space.apply("Web", "a", &json!({"members": false, "wrong": "conditions"}));
    let ready = eventually("the mistake is named", || {
        let ready = space.condition("web/a", "Ready")?;
        if ready["reason"] == "InvalidManifest" { Ok(ready) } else { Err(ready.to_string()) }
    });
    let expected = "Status database: fields.conditions: the operator itself writes status.conditions; use another name";
    assert!(ready["message"].as_str().unwrap().contains(expected), "{ready}");
    space.apply("Web", "a", &json!({"members": false, "wrong": "phase"}));
    space.wait_field("web/a", "/status/phase", &json!("a"));
    space.apply("Web", "a", &json!({"members": false}));
    space.wait_field("web/a", "/status/phase", &Value::Null);
    operator.settle();
    // A further path in an object that does not change: the object is read once.
    let before = space.requests().len();
    space.apply("Web", "a", &json!({"members": false, "showIP": true}));
    let ip = space.get("service/a-db").unwrap()["spec"]["clusterIP"].clone();
    space.wait_field("web/a", "/status/clusterIP", &ip);
    operator.settle();
    let services = space.requests()[before..].iter().filter(|r| *r == "get services").count();
    assert_eq!(services, 1);
}

fn give_address_once(space: &Space, name: &str, ip: &str) {
    let service = format!("service/{name}-db");
    eventually("the Service exists", || space.get(&service));
    give_address(space, &service, ip);
    space.wait_field(&format!("web/{name}"), "/status/address", &json!(ip));
}

/// A record is data: a document that the chart does not render shows nothing.
#[test]
fn a_document_that_somebody_wrote_into_a_record_shows_nothing() {
    let space = Space::new("statusforged");
    let watches = space.watches(&[("Web", "database"), ("Other", "web")]);
    let operator = space.operator(&watches, &[]);
    space.apply("Web", "a", &json!({"members": false, "wrong": "forged"}));
    space.wait_field("web/a", "/status/forged", &json!("a"));
    space.apply("Web", "b", &json!({"members": false}));
    space.wait_field("web/b", "/status/secretName", &json!("b-credentials"));
    operator.settle();
    let record = |name: &str| format!("secret/sh.helm.release.v1.{name}.v1");
    let of_a = space.get(&record("a")).unwrap()["metadata"]["annotations"]["tillerman.dev/status"].clone();
    let annotation = format!("tillerman.dev/status={}", of_a.as_str().unwrap());
    space.kubectl(&["annotate", "--overwrite", &record("b"), &annotation]).unwrap();
    let event = space.wait_event("RecordRejected");
    assert!(event.contains("the description of the status"), "{event}");
    operator.settle();
    let status = space.get("web/b").unwrap()["status"].clone();
    assert_eq!((status.get("forged"), &status["secretName"]), (None, &json!("b-credentials")));
}

#[test]
fn the_definition_of_a_chart_types_the_fields_and_prints_columns() {
    let space = Space::new("statuscolumns");
    let group = format!("{}.tillerman.dev", space.name);
    let args = ["crd", "tests/charts/database", "--group", &group, "--kind", "Database"];
    let output = Command::new(program()).args(args).current_dir(repository("")).output().unwrap();
    kubectl(&["apply", "-f", "-"], Some(&String::from_utf8_lossy(&output.stdout))).unwrap();
    established(&format!("crd/databases.{group}"));
    let chart = repository("tests/charts/database");
    let entry = format!("- group: {group}\n  version: v1alpha1\n  kind: Database\n  chart: {}\n", chart.display());
    let operator = space.operator(&space.file("watches.yaml", &entry), &[]);
    let object = json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "Database",
        "metadata": {"name": "d", "namespace": space.name}, "spec": {"members": false}});
    eventually("the API takes a custom resource", || kubectl(&["apply", "-f", "-"], Some(&object.to_string())));
    let resource = format!("databases.{group}");
    let endpoint = format!("d-db.{}.svc:5432", space.name);
    space.wait_field(&format!("{resource}/d"), "/status/endpoint", &json!(endpoint));
    let table = space.kubectl(&["get", &resource]).unwrap();
    let head: Vec<&str> = table.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(head, ["NAME", "ENDPOINT", "MEMBERSREADY", "READY", "STATUS", "REVISION", "VERSION", "AGE"], "{table}");
    assert!(table.contains(&endpoint), "{table}");
    let explained =
        eventually("kubectl explains it", || space.kubectl(&["explain", &format!("{resource}.status.endpoint")]));
    assert!(explained.contains("Where clients connect."), "{explained}");
    space.kubectl(&["delete", &resource, "d"]).unwrap();
    assert!(operator.stop());
    kubectl(&["delete", "crd", &format!("databases.{group}")], None).unwrap();
}

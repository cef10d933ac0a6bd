//! Results of pods in the status of their custom resource, and releases of two kinds with the same name.

use crate::harness::{Operator, Space, established, eventually, kubectl, repository};
use crate::kubelet::Kubelet;
use serde_json::{Value, json};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A namespace in a cluster that serves `EtcdBackup`, with an operator for it.
fn space(test: &str) -> (Space, Operator) {
    let space = Space::new(test);
    let crd = Command::new(env!("CARGO_BIN_EXE_tillerman"))
        .args(["crd", "charts/etcd-backup"])
        .current_dir(repository(""))
        .output()
        .unwrap();
    let crd = String::from_utf8(crd.stdout).unwrap();
    kubectl(&["apply", "--server-side", "-f", "-"], Some(&crd)).unwrap();
    let name = "crd/etcdbackups.etcd.database.coreos.com";
    established(name);
    eventually("the kind is served", || space.kubectl(&["get", "etcdbackups"]));
    let chart = repository("charts/etcd-backup");
    let entry = "- group: etcd.database.coreos.com\n  version: v1beta2\n  kind: EtcdBackup\n  chart:";
    let operator = space.operator(&space.file("watches.yaml", &format!("{entry} {}\n", chart.display())), &[]);
    (space, operator)
}

fn backup(space: &Space, name: &str, more: &Value) {
    let mut spec =
        json!({"etcdEndpoints": ["http://a:2379"], "storageType": "S3", "s3": {"path": "b/c", "awsSecret": "aws"}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let body = json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdBackup",
        "metadata": {"name": name, "namespace": space.name}, "spec": spec});
    kubectl(&["create", "-f", "-"], Some(&body.to_string())).unwrap();
}

/// What `tillerman snapshot save --report` writes.
fn report(revision: u64) -> String {
    let status = json!({"etcdRevision": revision, "etcdVersion": "3.6.16", "lastSuccessDate": "2026-11-22T04:03:19Z",
        "conditions": "none of its business"});
    json!({"name": "c", "record": {"state": "verified"}, "status": status}).to_string()
}

/// A backup is reported good only after it was verified, and a failure with its reason.
#[test]
fn the_status_of_a_backup_has_its_outcome() {
    let (space, operator) = space("results-once");
    let runs = AtomicUsize::new(0);
    let _kubelet = Kubelet::of_members(&space, move |_| match runs.fetch_add(1, Ordering::Relaxed) {
        0 => (1, "saving\nError: StoreFailed: s3://b: the bucket is not there\n".to_owned()),
        _ => (0, report(57)),
    });
    backup(&space, "once", &json!({}));
    let why = json!("Error: StoreFailed: s3://b: the bucket is not there");
    space.wait_field("etcdbackup/once", "/status/reason", &why);
    let status = &space.get("etcdbackup/once").unwrap()["status"];
    assert_eq!((&status["succeeded"], &status["Reason"]), (&json!(false), &why));
    assert_eq!(status["etcdRevision"], Value::Null);

    // The Job tries again.
    space.wait_field("etcdbackup/once", "/status/succeeded", &json!(true));
    let status = &space.get("etcdbackup/once").unwrap()["status"];
    assert_eq!((&status["reason"], &status["Reason"]), (&Value::Null, &Value::Null));
    assert_eq!((&status["etcdRevision"], &status["etcdVersion"]), (&json!(57), &json!("3.6.16")));
    assert_eq!(status["lastSuccessDate"], "2026-11-22T04:03:19Z");
    assert!(status["conditions"].is_array(), "what is the operator's own stays its own");
    space.wait("etcdbackup/once", "Ready", "True");

    // At rest it costs nothing, and a restart finds nothing new to say.
    let before = operator.settle();
    assert_eq!(operator.settle(), before);
    let version = space.get("etcdbackup/once").unwrap()["metadata"]["resourceVersion"].clone();
    assert!(operator.stop());
    let again = space.operator(&space.dir().join("watches.yaml"), &[]);
    again.settle();
    assert_eq!(space.get("etcdbackup/once").unwrap()["metadata"]["resourceVersion"], version);
}

#[test]
fn a_periodic_backup_reports_its_last_run_and_the_last_good_one() {
    let (space, _operator) = space("results-again");
    let _kubelet = Kubelet::with(&space, |pod| {
        let (minute, code, message) = match pod.metadata.name.as_deref().unwrap_or_default() {
            name if name.starts_with("first") => (1, 0, report(1)),
            name if name.starts_with("second") => (2, 1, "Error: EtcdFailed: no member answers".to_owned()),
            _ => (3, 0, report(3)),
        };
        let ended = json!({"exitCode": code, "message": message, "finishedAt": format!("2026-11-22T04:0{minute}:00Z")});
        let status = json!({"name": "save", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": ended}});
        Some(json!({"phase": if code == 0 { "Succeeded" } else { "Failed" }, "containerStatuses": [status]}))
    });
    backup(&space, "often", &json!({"backupPolicy": {"backupIntervalInSecond": 86400, "maxBackups": 4}}));
    eventually("its CronJob is there", || space.get("cronjob/often"));
    let run = |name: &str| space.kubectl(&["create", "job", name, "--from=cronjob/often"]).unwrap();
    let status = || space.get("etcdbackup/often").unwrap()["status"].clone();
    run("first");
    space.wait_field("etcdbackup/often", "/status/etcdRevision", &json!(1));
    run("second");
    space.wait_field("etcdbackup/often", "/status/succeeded", &json!(false));
    let told = status();
    assert_eq!((&told["Reason"], &told["etcdRevision"]), (&json!("Error: EtcdFailed: no member answers"), &json!(1)));
    run("third");
    space.wait_field("etcdbackup/often", "/status/etcdRevision", &json!(3));
    assert_eq!(status()["succeeded"], true);
}

/// Releases are Helm's, whose names are one set in a namespace: `releaseSuffix` lets two kinds have custom resources of one name.
#[test]
fn custom_resources_of_two_kinds_with_one_name_are_served_when_their_releases_differ() {
    let space = Space::new("suffix");
    let file = space.watches(&[("Web", "web"), ("Other", "objects")]);
    let text = std::fs::read_to_string(&file).unwrap() + "  releaseSuffix: -other\n";
    let watches = space.file("watches.yaml", &text);
    let operator = space.operator(&watches, &[]);
    let other = "other/app";
    space.apply("Web", "app", &json!({}));
    space.apply(
        "Other",
        "app",
        &json!({"objects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-other"}, "data": {"a": "b"}}]}),
    );
    space.wait_web("app");
    space.wait(other, "Ready", "True");
    space.wait_field(other, "/status/release/name", &json!("app-other"));
    assert!(space.get("secret/sh.helm.release.v1.app-other.v1").is_ok());

    // A restart finds both as they are; drift is repaired; an upgrade is one.
    operator.settle();
    assert!(operator.stop());
    let _operator = space.operator(&watches, &[]);
    space.kubectl(&["delete", "configmap/of-other"]).unwrap();
    eventually("it comes back", || space.get("configmap/of-other"));
    space.apply(
        "Other",
        "app",
        &json!({"objects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-other"}, "data": {"a": "c"}}]}),
    );
    space.wait_field("configmap/of-other", "/data/a", &json!("c"));
    assert!(space.get("secret/sh.helm.release.v1.app-other.v2").is_ok());

    // Each goes alone.
    space.kubectl(&["delete", other]).unwrap();
    space.wait_gone("configmap/of-other");
    space.wait_gone("secret/sh.helm.release.v1.app-other.v2");
    assert!(space.get("deployment/app-web").is_ok());
    assert!(space.get("secret/sh.helm.release.v1.app.v1").is_ok());
}

//! Releases are Helm releases: the real helm reads them, and the operator notices what a human does with it.
//!
//! Codes in names are rules of docs/design/applying.md.

use crate::harness::{Space, eventually, repository};
use serde_json::{Value, json};

#[test]
fn the_real_helm_reads_our_releases() {
    let space = Space::new("helm");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({"greeting": "one"}));
    space.wait("web/app", "Deployed", "True");
    space.apply("Web", "app", &json!({"greeting": "two"}));
    space.wait_field("web/app", "/status/release/revision", &json!(2));
    let list: Value = serde_json::from_str(&space.helm(&["list", "-o", "json"]).unwrap()).unwrap();
    assert_eq!(
        (&list[0]["name"], &list[0]["chart"], &list[0]["status"]),
        (&json!("app"), &json!("web-1.2.3"), &json!("deployed"))
    );
    let history: Value = serde_json::from_str(&space.helm(&["history", "app", "-o", "json"]).unwrap()).unwrap();
    let statuses: Vec<_> = history.as_array().unwrap().iter().map(|h| h["status"].clone()).collect();
    assert_eq!(statuses, ["superseded", "deployed"]);
    assert!(space.helm(&["get", "values", "app"]).unwrap().contains("greeting: two"));
    assert!(space.helm(&["get", "values", "app", "--revision", "1"]).unwrap().contains("greeting: one"));
    assert!(space.helm(&["get", "values", "app", "--all"]).unwrap().contains("image: web:1"));
    assert!(space.helm(&["get", "manifest", "app"]).unwrap().contains("# Source: web/templates/all.yaml"));
    assert!(space.helm(&["get", "notes", "app"]).unwrap().contains("Thank you for app: two."));
    assert!(space.helm(&["status", "app"]).unwrap().contains("STATUS: deployed"));
    assert!(space.helm(&["get", "metadata", "app"]).unwrap().contains("APP_VERSION: 9.8"));
    space.helm(&["get", "all", "app"]).unwrap();
}

#[test]
fn the_history_is_bounded() {
    let space = Space::new("bounded");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    for n in 1..=12 {
        space.apply("Web", "app", &json!({"greeting": format!("number {n}")}));
        space.wait_field("web/app", "/status/release/revision", &json!(n));
    }
    eventually("ten are kept", || {
        let text = space.helm(&["history", "app", "-o", "json"])?;
        let revisions: Vec<u64> = serde_json::from_str::<Value>(&text)
            .map_err(|e| e.to_string())?
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|h| h["revision"].as_u64())
            .collect();
        if revisions == (3..=12).collect::<Vec<u64>>() { Ok(()) } else { Err(format!("{revisions:?}")) }
    });
}

/// B4.
#[test]
fn what_a_human_upgrades_is_brought_back_and_reported() {
    let space = Space::new("human");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({"replicas": 2}));
    space.wait("web/app", "Deployed", "True");
    let chart = repository("tests/charts/web").display().to_string();
    let metadata = space.helm(&["get", "metadata", "app", "-o", "json"]).unwrap();
    assert!(metadata.contains(r#""applyMethod":"csa""#), "{metadata}");
    // No conflict that it would have to force.
    space.helm(&["upgrade", "app", &chart, "--set", "replicas=5"]).unwrap();
    space.wait_event("ReleaseChangedOutside");
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(2));
    space.wait_field("web/app", "/status/release/revision", &json!(3));
}

/// Status of each revision, oldest first.
fn statuses(space: &Space) -> Vec<String> {
    let list: Vec<Value> = serde_json::from_str(&space.helm(&["history", "app", "-o", "json"]).unwrap()).unwrap();
    list.iter().map(|r| r["status"].as_str().unwrap_or_default().to_owned()).collect()
}

/// B4.
#[test]
fn what_a_human_rolls_back_is_brought_forward_again_and_reported() {
    let space = Space::new("humanback");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({"replicas": 2}));
    space.wait("web/app", "Deployed", "True");
    space.apply("Web", "app", &json!({"replicas": 3}));
    space.wait_field("web/app", "/status/release/revision", &json!(2));
    space.helm(&["rollback", "app", "1"]).unwrap();
    space.wait_event("ReleaseChangedOutside");
    space.wait_field("web/app", "/status/release/revision", &json!(4));
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(3));
    operator.settle();
    assert_eq!(statuses(&space), ["superseded", "superseded", "superseded", "deployed"]);
}

/// docs/design/applying.md A2: `helm test` writes the record again, and our annotations are gone.
#[test]
fn helm_test_runs_the_tests_of_a_release_and_makes_no_revision() {
    let space = Space::new("humantest");
    let operator = space.operator(&space.watches(&[("Web", "hooks")]), &[]);
    space.apply("Web", "app", &json!({"hooks": [{"name": "check", "kind": "Pod", "events": "test"}]}));
    space.wait("web/app", "Deployed", "True");
    let annotation = |name: &str| {
        let secret = space.get("secret/sh.helm.release.v1.app.v1").unwrap();
        secret["metadata"]["annotations"][name].clone()
    };
    let before = (annotation("tillerman.dev/inputs"), annotation("tillerman.dev/inventory"));
    let tested = std::thread::scope(|scope| {
        let test = scope.spawn(|| space.helm(&["test", "app", "--timeout", "35s"]));
        let patch = r#"{"status":{"phase":"Succeeded"}}"#;
        eventually("the test ends", || {
            space.kubectl(&["patch", "pod/app-check", "--subresource=status", "--type=merge", "-p", patch])
        });
        test.join().unwrap()
    });
    assert!(tested.unwrap().contains("Phase:          Succeeded"));
    eventually("the annotations are there again", || {
        let after = (annotation("tillerman.dev/inputs"), annotation("tillerman.dev/inventory"));
        if after == before { Ok(()) } else { Err(format!("{after:?}")) }
    });
    operator.settle();
    assert_eq!(statuses(&space), ["deployed"]);
    let events = space.kubectl(&["get", "events", "-o", "name", "--field-selector=reason=ReleaseChangedOutside"]);
    assert_eq!(events.unwrap(), "");
}

#[test]
fn a_helm_at_work_is_left_alone_and_what_a_dead_one_left_pending_is_replaced() {
    let space = Space::new("deadhelm");
    let watches = space.watches(&[("Web", "web")]);
    let operator = space.operator(&watches, &[]);
    space.apply("Web", "app", &json!({"replicas": 2}));
    space.wait("web/app", "Deployed", "True");
    // It waits for pods that never come.
    let mut helm = std::process::Command::new("helm")
        .args(["-n", &space.name, "upgrade", "app", "--set=replicas=5", "--wait"])
        .arg(repository("tests/charts/web"))
        .env("KUBECONFIG", crate::harness::cluster_dir().join("admin.kubeconfig"))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(5));
    operator.settle();
    assert_eq!(space.get("deployment/app-web").unwrap()["spec"]["replicas"], 5);
    assert_eq!(statuses(&space), ["deployed", "pending-upgrade"]);
    helm.kill().unwrap();
    helm.wait().unwrap();
    assert!(operator.stop());
    // Helm's timeout goes by.
    let (secret, long_ago) = ("secret/sh.helm.release.v1.app.v2", ["createdAt=1000000000", "modifiedAt=1000000000"]);
    space.kubectl(&["label", "--overwrite", secret, long_ago[0], long_ago[1]]).unwrap();
    let operator = space.operator(&watches, &[]);
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(2));
    space.wait_field("web/app", "/status/release/revision", &json!(3));
    space.wait_event("ReleaseChangedOutside");
    operator.settle();
    assert_eq!(statuses(&space), ["superseded", "superseded", "deployed"]);
}

/// docs/design/lessons.md pain 4: nothing stays pending.
#[test]
fn what_a_crash_left_pending_is_finished_in_its_revision() {
    let space = Space::new("crash");
    let watches = space.watches(&[("Web", "web")]);
    let operator = space.operator(&watches, &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    space.apply("Web", "app", &json!({"replicas": 2}));
    space.wait_field("web/app", "/status/release/revision", &json!(2));
    operator.settle();
    operator.kill();
    let patch = json!({"metadata": {"labels": {"status": "pending-upgrade"},
        "annotations": {"tillerman.dev/inventory": null}}});
    let secret = "secret/sh.helm.release.v1.app.v2";
    space.kubectl(&["patch", secret, "--type=merge", "-p", &patch.to_string()]).unwrap();
    space.kubectl(&["delete", "configmap/app-config"]).unwrap();
    let operator = space.operator(&watches, &[]);
    space.wait_field(secret, "/metadata/labels/status", &json!("deployed"));
    space.get("configmap/app-config").unwrap();
    operator.settle();
    assert_eq!(statuses(&space), ["superseded", "deployed"]);
}

/// docs/design/lessons.md pain 2: charts with random functions, and those that print their revision or ask whether this is the
/// installation.
#[test]
fn a_chart_that_renders_to_something_else_each_time_settles_after_one_revision() {
    let space = Space::new("restless");
    let watches = space.watches(&[("Web", "restless")]);
    let operator = space.operator(&watches, &["--reconcile-period=1s"]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    let data = || space.get("configmap/app").unwrap()["data"].clone();
    let first = data();
    let before = operator.settle();
    assert_eq!(operator.settle(), before, "several periods go by");
    // A repair is made from the record, and not rendered again.
    space.kubectl(&["delete", "configmap/app", "configmap/app-install"]).unwrap();
    eventually("they come back", || space.get("configmap/app").and_then(|_| space.get("configmap/app-install")));
    assert_eq!(data(), first);
    operator.settle();
    assert!(operator.stop());
    let operator = space.operator(&watches, &["--reconcile-period=1s"]);
    operator.settle();
    assert_eq!(data(), first);
    assert_eq!(statuses(&space), ["deployed"]);
    // Other inputs make one more revision.
    space.apply("Web", "app", &json!({"greeting": "bye"}));
    space.wait_field("configmap/app", "/data/greeting", &json!("bye"));
    space.wait_gone("configmap/app-install");
    operator.settle();
    assert_eq!(data()["revision"], "2");
    assert_eq!(statuses(&space), ["superseded", "deployed"]);
}

#[test]
fn what_a_human_uninstalls_is_installed_again() {
    let space = Space::new("uninstall");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    space.helm(&["uninstall", "app"]).unwrap();
    assert!(space.wait_event("ReleaseChangedOutside").contains("another client uninstalled release"));
    eventually("it comes back", || {
        space.get("deployment/app-web")?;
        space.get("configmap/app-config")?;
        let status = space.helm(&["status", "app"])?;
        if status.contains("STATUS: deployed") { Ok(()) } else { Err(status) }
    });
}

#[test]
fn a_deleted_record_is_written_again_from_live_objects() {
    let space = Space::new("record");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    let uid = space.get("deployment/app-web").unwrap()["metadata"]["uid"].clone();
    space.kubectl(&["delete", "secret/sh.helm.release.v1.app.v1"]).unwrap();
    eventually("the record is there", || match space.helm(&["status", "app"]) {
        Ok(text) if text.contains("STATUS: deployed") => Ok(()),
        Ok(text) | Err(text) => Err(text),
    });
    assert_eq!(space.get("deployment/app-web").unwrap()["metadata"]["uid"], uid);
}

#[test]
fn a_corrupted_record_is_replaced_when_it_is_needed() {
    let space = Space::new("corrupt");
    let watches = space.watches(&[("Web", "web")]);
    let operator = space.operator(&watches, &[]);
    space.apply("Web", "app", &json!({"extra": true}));
    space.wait("web/app", "Deployed", "True");
    // Nobody remembers the record as it was.
    drop(operator);
    let patch = r#"{"data":{"release":"bm9uc2Vuc2U="}}"#;
    space.kubectl(&["patch", "secret/sh.helm.release.v1.app.v1", "--type=merge", "-p", patch]).unwrap();
    space.apply("Web", "app", &json!({"extra": false}));
    let _operator = space.operator(&watches, &[]);
    space.wait_event("ReleaseCorrupted");
    space.wait_field("web/app", "/status/release/revision", &json!(2));
    space.wait_gone("configmap/app-extra");
    // And a deletion works without any record that can be read.
    let patch = r#"{"data":{"release":"bm9uc2Vuc2U="}}"#;
    space.kubectl(&["patch", "secret/sh.helm.release.v1.app.v2", "--type=merge", "-p", patch]).unwrap();
    space.kubectl(&["delete", "web/app"]).unwrap();
    space.wait_gone("deployment/app-web");
}

/// The Secrets that hold chunks of records.
fn chunks(space: &Space) -> Vec<String> {
    let text = space
        .kubectl(&["get", "secrets", "--field-selector=type=tillerman.dev/release-chunk.v1", "-o", "name"])
        .unwrap();
    text.lines().map(str::to_owned).collect()
}

/// D4. docs/design/lessons.md pain 3: a release of more than a Secret.
#[test]
fn a_release_that_no_secret_can_hold_is_stored_in_chunks_that_go_with_it() {
    let space = Space::new("chunks");
    let operator = space.operator(&space.watches(&[("Web", &space.large_chart())]), &[]);
    let switch = json!({"tillerman.dev/max-history": "2"});
    space.apply_with("Web", "app", &switch, &json!({"greeting": "one"}));
    space.wait("web/app", "Deployed", "True");
    assert!(space.wait_event("ReleaseChunked").contains("helm itself cannot read it"));
    let first = chunks(&space);
    assert!(first.len() > 1, "{first:?}");
    assert!(!space.helm(&["list", "-q"]).unwrap().contains("app"));
    // The record can be read: a repair is made from it.
    space.kubectl(&["delete", "configmap/app"]).unwrap();
    eventually("it comes back", || space.get("configmap/app"));
    operator.settle();
    assert_eq!(chunks(&space), first);
    // As a crash leaves them between the chunks and the head.
    let orphan = json!({"apiVersion": "v1", "kind": "Secret", "type": "tillerman.dev/release-chunk.v1", "metadata": {
        "name": "orphan", "namespace": space.name, "labels": {"owner": "tillerman", "tillerman.dev/release": "app", "tillerman.dev/chunks": "x"}}});
    crate::harness::kubectl(&["create", "-f", "-"], Some(&orphan.to_string())).unwrap();
    for (revision, greeting) in [(2, "two"), (3, "three")] {
        space.apply_with("Web", "app", &switch, &json!({"greeting": greeting}));
        space.wait_field("web/app", "/status/release/revision", &json!(revision));
        space.wait_field("configmap/app", "/data/greeting", &json!(greeting));
    }
    operator.settle();
    let now = chunks(&space);
    assert_eq!(now.len(), 2 * first.len(), "those of two revisions, and no orphan: {now:?}");
    assert!(!now.contains(&first[0]));
    space.kubectl(&["delete", "web/app"]).unwrap();
    space.wait_gone("configmap/app");
    assert_eq!(chunks(&space), [""; 0]);
}

//! Releases are Helm releases: the real helm reads them, and what a human does with it is noticed.

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

#[test]
fn what_a_human_upgrades_is_brought_back_and_said() {
    let space = Space::new("human");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({"replicas": 2}));
    space.wait("web/app", "Deployed", "True");
    let chart = repository("tests/charts/web").display().to_string();
    space.helm(&["upgrade", "app", &chart, "--set", "replicas=5"]).unwrap();
    space.wait_event("ReleaseChangedOutside");
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(2));
    space.wait_field("web/app", "/status/release/revision", &json!(3));
}

#[test]
fn what_a_human_uninstalls_is_installed_again() {
    let space = Space::new("uninstall");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    space.helm(&["uninstall", "app"]).unwrap();
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
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({"extra": true}));
    space.wait("web/app", "Deployed", "True");
    let patch = r#"{"data":{"release":"bm9uc2Vuc2U="}}"#;
    space.kubectl(&["patch", "secret/sh.helm.release.v1.app.v1", "--type=merge", "-p", patch]).unwrap();
    space.apply("Web", "app", &json!({"extra": false}));
    space.wait_event("ReleaseCorrupted");
    space.wait_field("web/app", "/status/release/revision", &json!(2));
    space.wait_gone("configmap/app-extra");
    // And a deletion works without any record that can be read.
    let patch = r#"{"data":{"release":"bm9uc2Vuc2U="}}"#;
    space.kubectl(&["patch", "secret/sh.helm.release.v1.app.v2", "--type=merge", "-p", patch]).unwrap();
    space.kubectl(&["delete", "web/app"]).unwrap();
    space.wait_gone("deployment/app-web");
}

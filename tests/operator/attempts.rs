//! What fails: how often it is tried, what is rolled back, and that nothing loops (docs/design/applying.md A3; docs/design/lessons.md
//! pain 4 and pain 5).

use crate::harness::{Space, eventually};
use serde_json::{Value, json};

/// Revisions with their status, oldest first.
fn history(space: &Space) -> Result<Vec<(u64, String, String)>, String> {
    let text = space.helm(&["history", "app", "-o", "json"])?;
    let list: Vec<Value> = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let text = |r: &Value, key: &str| r[key].as_str().unwrap_or_default().to_owned();
    Ok(list
        .iter()
        .map(|r| (r["revision"].as_u64().unwrap_or_default(), text(r, "status"), text(r, "description")))
        .collect())
}

fn statuses(space: &Space) -> Vec<(u64, String)> {
    history(space).unwrap().into_iter().map(|(revision, status, _)| (revision, status)).collect()
}

fn expect(list: &[(u64, &str)]) -> Vec<(u64, String)> {
    list.iter().map(|(revision, status)| (*revision, (*status).to_owned())).collect()
}

/// A release whose second revision fails after it has changed an object: no Deployment can have -1 replicas.
fn bad() -> Value {
    json!({"greeting": "bad", "replicas": -1})
}

/// A3. docs/design/lessons.md pain 5: attempts and revisions are bounded.
#[test]
fn an_upgrade_that_fails_is_tried_a_few_times_in_one_revision_then_rolled_back_and_left_alone() {
    let space = Space::new("rollback");
    let watches = space.watches(&[("Web", "web")]);
    let operator = space.operator(&watches, &[]);
    space.apply("Web", "app", &json!({"greeting": "good"}));
    space.wait("web/app", "Deployed", "True");
    space.apply("Web", "app", &bad());
    let stalled = space.wait("web/app", "Stalled", "True");
    assert!(
        stalled["message"].as_str().unwrap().starts_with("given up after 5 attempts: apply Deployment"),
        "{stalled}"
    );
    assert!(space.wait_event("RolledBack").contains("rolled back to revision 1, as revision 3"));
    space.wait_field("configmap/app-config", "/data/greeting", &json!("good"));
    space.wait_field("web/app", "/status/release/revision", &json!(3));
    let list = history(&space).unwrap();
    assert_eq!(statuses(&space), expect(&[(1, "superseded"), (2, "failed"), (3, "deployed")]));
    assert_eq!(list[2].2, "Rollback to 1");
    assert!(list[1].2.starts_with("Upgrade \"app\" failed: "), "{}", list[1].2);
    assert_eq!(space.get("web/app").unwrap()["status"]["lastAttempted"]["attempts"], 5);
    let failed = space.condition("web/app", "ReleaseFailed").unwrap();
    assert_eq!((&failed["status"], &failed["reason"]), (&json!("True"), &json!("UpgradeError")));
    // Drift is still repaired, and nothing is tried again, not even by another process.
    operator.settle();
    assert!(operator.stop());
    let operator = space.operator(&watches, &[]);
    operator.settle();
    space.kubectl(&["delete", "service/app-web"]).unwrap();
    eventually("it comes back", || space.get("service/app-web"));
    operator.settle();
    assert_eq!(statuses(&space), expect(&[(1, "superseded"), (2, "failed"), (3, "deployed")]));
    assert_eq!(space.condition("web/app", "Stalled").unwrap()["status"], "True");
    // Other inputs are tried.
    space.apply("Web", "app", &json!({"greeting": "better"}));
    space.wait_field("configmap/app-config", "/data/greeting", &json!("better"));
    space.wait("web/app", "Stalled", "False");
    assert!(space.condition("web/app", "ReleaseFailed").is_err());
    assert_eq!(space.get("web/app").unwrap()["status"].get("lastAttempted"), None);
}

/// A3.
#[test]
fn the_spec_of_the_revision_that_came_back_needs_no_further_one() {
    let space = Space::new("takenback");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({"greeting": "good"}));
    space.wait("web/app", "Deployed", "True");
    space.apply("Web", "app", &bad());
    space.wait_event("RolledBack");
    space.apply("Web", "app", &json!({"greeting": "good"}));
    space.wait("web/app", "Stalled", "False");
    assert_eq!(statuses(&space), expect(&[(1, "superseded"), (2, "failed"), (3, "deployed")]));
}

#[test]
fn attempts_are_counted_over_a_restart() {
    let space = Space::new("counted");
    let watches = space.watches(&[("Web", "web")]);
    let operator = space.operator(&watches, &[]);
    space.apply("Web", "app", &bad());
    let attempts = || space.get("web/app").unwrap()["status"]["lastAttempted"]["attempts"].as_u64().unwrap_or(0);
    eventually("some attempts", || if attempts() >= 2 { Ok(()) } else { Err(attempts().to_string()) });
    operator.kill();
    let operator = space.operator(&watches, &[]);
    space.wait("web/app", "Stalled", "True");
    operator.settle();
    assert_eq!(attempts(), 5);
    assert_eq!(statuses(&space), expect(&[(1, "failed")]));
}

#[test]
fn with_keep_a_failed_upgrade_stays_and_reconcile_at_tries_it_again() {
    let space = Space::new("keepfailed");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply_with("Web", "app", &json!({"tillerman.dev/on-failure": "keep"}), &json!({"greeting": "good"}));
    space.wait("web/app", "Deployed", "True");
    space.apply_with("Web", "app", &json!({"tillerman.dev/on-failure": "keep"}), &bad());
    space.wait("web/app", "Stalled", "True");
    operator.settle();
    assert_eq!(space.get("configmap/app-config").unwrap()["data"]["greeting"], "bad");
    assert_eq!(statuses(&space), expect(&[(1, "deployed"), (2, "failed")]));
    let digest = || space.get("web/app").unwrap()["status"]["lastAttempted"]["digest"].clone();
    let before = digest();
    space.kubectl(&["annotate", "web/app", "tillerman.dev/reconcile-at=now"]).unwrap();
    eventually("it is tried again", || if digest() == before { Err("not yet") } else { Ok(()) });
    space.wait_field("web/app", "/status/lastAttempted/attempts", &json!(5));
    assert_eq!(statuses(&space), expect(&[(1, "deployed"), (2, "failed")]));
}

#[test]
fn with_uninstall_a_first_installation_that_fails_leaves_nothing() {
    let space = Space::new("abandon");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    let switch = json!({"tillerman.dev/on-failure": "uninstall"});
    space.apply_with("Web", "app", &switch, &bad());
    space.wait("web/app", "Stalled", "True");
    space.wait_event("Uninstalled");
    space.wait_gone("configmap/app-config");
    assert_eq!(space.helm(&["list", "-q"]).unwrap(), "");
    let failed = space.condition("web/app", "ReleaseFailed").unwrap();
    assert_eq!((&failed["status"], &failed["reason"]), (&json!("True"), &json!("InstallError")));
    space.apply_with("Web", "app", &switch, &json!({}));
    space.wait("web/app", "Deployed", "True");
    assert_eq!(statuses(&space), expect(&[(1, "deployed")]));
}

#[test]
fn a_rollback_that_a_crash_interrupted_is_finished() {
    let space = Space::new("midrollback");
    let watches = space.watches(&[("Web", "web")]);
    let operator = space.operator(&watches, &[]);
    space.apply("Web", "app", &json!({"greeting": "good"}));
    space.wait("web/app", "Deployed", "True");
    space.apply("Web", "app", &bad());
    space.wait_event("RolledBack");
    operator.settle();
    operator.kill();
    // As it was right after the record was written.
    let patch = json!({"metadata": {"labels": {"status": "pending-rollback"},
        "annotations": {"tillerman.dev/inventory": null}}});
    let secret = "secret/sh.helm.release.v1.app.v3";
    space.kubectl(&["patch", secret, "--type=merge", "-p", &patch.to_string()]).unwrap();
    space.kubectl(&["delete", "configmap/app-config"]).unwrap();
    let operator = space.operator(&watches, &[]);
    eventually("it is there again", || space.get("configmap/app-config"));
    space.wait_field(secret, "/metadata/labels/status", &json!("deployed"));
    operator.settle();
    assert_eq!(statuses(&space), expect(&[(1, "superseded"), (2, "failed"), (3, "deployed")]));
}

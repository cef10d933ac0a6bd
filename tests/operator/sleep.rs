//! Releases that sleep: `tillerman.dev/sleep`.

use crate::harness::{Space, eventually};
use serde_json::{Value, json};

/// The fields of the release `app` that sleep changes.
fn workloads(space: &Space) -> Value {
    let field = |object: &str, pointer: &str| space.get(object).unwrap().pointer(pointer).cloned().unwrap_or_default();
    json!([
        field("deployment/app-web", "/spec/replicas"),
        field("deployment/app-scaled", "/spec/replicas"),
        field("statefulset/app-data", "/spec/replicas"),
        field("statefulset/app-data", "/spec/persistentVolumeClaimRetentionPolicy/whenScaled"),
        field("cronjob/app-cron", "/spec/suspend"),
    ])
}

fn wait_workloads(space: &Space, expected: &Value) {
    eventually("the workloads", || match workloads(space) {
        found if found == *expected => Ok(()),
        found => Err(found.to_string()),
    });
}

fn sleep(space: &Space, text: &str) {
    space.kubectl(&["annotate", "--overwrite", "web/app", &format!("tillerman.dev/sleep={text}")]).unwrap();
}

fn wait_reason(space: &Space, is_it: impl Fn(&str) -> bool) -> String {
    eventually("the reason of Ready", || {
        let ready = space.condition("web/app", "Ready")?;
        if is_it(ready["reason"].as_str().unwrap_or_default()) {
            Ok(ready["message"].as_str().unwrap_or_default().to_owned())
        } else {
            Err(ready.to_string())
        }
    })
}

#[test]
fn a_release_sleeps_without_pods_and_wakes_as_it_was() {
    let space = Space::new("sleep");
    let operator = space.operator(&space.watches(&[("Web", "sleeper")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    let awake = json!([2, 1, 1, "Delete", false]);
    wait_workloads(&space, &awake);
    space.kubectl(&["scale", "deployment/app-scaled", "--replicas=4"]).unwrap();
    let digest = |space: &Space| space.get("web/app").unwrap()["status"]["release"]["digest"].clone();
    let before = digest(&space);
    let manifest = space.helm(&["get", "manifest", "app"]).unwrap();
    eventually("the claim is there", || space.get("pvc/data-app-data-0"));

    sleep(&space, "true");
    let asleep = json!([0, 0, 0, "Retain", true]);
    wait_workloads(&space, &asleep);
    assert_eq!(wait_reason(&space, |reason| reason == "Asleep"), "the release sleeps: its workloads have no pods");
    assert_eq!(space.condition("web/app", "Reconciling").unwrap()["status"], "False");
    assert_eq!(space.condition("web/app", "Stalled").unwrap()["status"], "False");
    assert!(space.get("configmap/app-hook").is_err(), "no hook runs");
    eventually("the pods are gone", || match space.list("pods")?.len() {
        0 => Ok(()),
        left => Err(format!("{left} pods")),
    });
    assert!(operator.metrics().contains("tillerman_releases{controller=\"web-controller\",state=\"asleep\"} 1"));
    // Drift is repaired to sleep, and it rests.
    space.kubectl(&["scale", "deployment/app-web", "deployment/app-scaled", "--replicas=3"]).unwrap();
    wait_workloads(&space, &asleep);
    operator.settle();
    let claim = space.get("pvc/data-app-data-0").unwrap();
    assert!(claim["metadata"].get("deletionTimestamp").is_none(), "{claim}");

    // A change arrives, and it still sleeps.
    space.kubectl(&["patch", "web/app", "--type=merge", "-p", r#"{"spec":{"greeting":"moin"}}"#]).unwrap();
    space.wait_field("configmap/app-config", "/data/greeting", &json!("moin"));
    assert_eq!(workloads(&space), asleep);
    assert!(space.get("configmap/app-hook").is_ok(), "the change has its hook");
    space.kubectl(&["patch", "web/app", "--type=merge", "-p", r#"{"spec":{"greeting":null}}"#]).unwrap();
    space.wait_field("configmap/app-config", "/data/greeting", &json!("hello"));
    space.kubectl(&["delete", "configmap/app-hook"]).unwrap();

    sleep(&space, "false");
    wait_workloads(&space, &awake);
    wait_reason(&space, |reason| reason != "Asleep");
    assert!(space.get("configmap/app-hook").is_err(), "no hook runs");
    assert_eq!(digest(&space), before);
    assert_eq!(space.helm(&["get", "manifest", "app"]).unwrap(), manifest);
    operator.settle();
}

#[test]
fn a_schedule_puts_all_releases_of_a_kind_to_sleep_and_an_annotation_wakes_one() {
    let space = Space::new("sleepschedule");
    // Always but for a minute of a day that is far away.
    let fields = "  sleep: 1 0 1 1 * until 0 0 1 1 *\n";
    let operator = space.operator(&space.watches_with(&[("Web", "sleeper")], fields), &[]);
    space.apply("Web", "app", &json!({}));
    wait_reason(&space, |reason| reason == "Asleep");
    wait_workloads(&space, &json!([0, 0, 0, "Retain", true]));
    operator.settle();
    sleep(&space, "false");
    wait_workloads(&space, &json!([2, 1, 1, "Delete", false]));
    sleep(&space, "at night");
    let stalled = space.wait("web/app", "Stalled", "True");
    assert!(stalled["message"].as_str().unwrap().contains("a pair of schedules"), "{stalled}");
}

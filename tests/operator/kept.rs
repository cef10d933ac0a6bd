//! What is kept when something fails (docs/explanation/what-is-kept.md): a failure never leads to less being kept, and somebody is asked.
//!
//! Codes in names are rules of docs/design/applying.md.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Operator, Space, eventually};
use crate::kubelet::Kubelet;

/// A chart of this test: a `ConfigMap` and a claim, and a hook Job before the deletion. Its version is in a label of the Job.
fn chart(space: &Space, version: &str, claim: bool, guard: &str) -> PathBuf {
    let folder = space.dir().join("guarded");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("templates")).unwrap();
    let metadata = format!("apiVersion: v2\nname: guarded\nversion: {version}\n");
    let config =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\ndata: {v: '{{ .Values.v }}'}\n";
    let volume = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: '{{ .Release.Name }}-data'}\nspec: {accessModes: \
        [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n";
    let hook = format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: '{{{{ .Release.Name }}}}-{guard}'\n  labels: {{helm.sh/chart: \
         guarded-{version}}}\n  annotations: {{helm.sh/hook: '{{{{ .Values.events }}}}'}}\nspec: {{backoffLimit: 0, template: {{spec: \
         {{restartPolicy: Never, containers: [{{name: guard, image: 'guard:1'}}]}}}}}}\n"
    );
    std::fs::write(folder.join("Chart.yaml"), metadata).unwrap();
    std::fs::write(folder.join("values.yaml"), "v: one\nevents: pre-delete\n").unwrap();
    std::fs::write(folder.join("templates/config.yaml"), config).unwrap();
    if claim {
        std::fs::write(folder.join("templates/claim.yaml"), volume).unwrap();
    }
    if !guard.is_empty() {
        std::fs::write(folder.join("templates/hook.yaml"), hook).unwrap();
    }
    folder
}

fn serve(space: &Space, chart: &Path) -> Operator {
    space.operator(&space.watches(&[("Web", &chart.display().to_string())]), &[])
}

fn installed(space: &Space, chart: &Path) -> Operator {
    let operator = serve(space, chart);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    operator
}

/// Waits until `Ready` is false for a reason, with these words.
fn says(space: &Space, reason: &str, words: &[&str]) -> Value {
    eventually(&format!("Ready says {reason} and {words:?}"), || {
        let ready = space.condition("web/app", "Ready")?;
        let message = ready["message"].as_str().unwrap_or_default();
        let is_it = ready["reason"] == reason && words.iter().all(|word| message.contains(word));
        if is_it { Ok(ready) } else { Err(ready.to_string()) }
    })
}

/// Asserts that nothing of the release is gone or about to go.
fn is_whole(space: &Space) {
    for object in ["configmap/app", "persistentvolumeclaim/app-data"] {
        let found = space.get(object).unwrap_or_else(|why| panic!("{object}: {why}"));
        assert!(found["metadata"]["deletionTimestamp"].is_null(), "{found}");
    }
    assert!(space.get("secret/sh.helm.release.v1.app.v1").is_ok() && space.get("web/app").is_ok());
}

fn attempts(space: &Space) -> u64 {
    space.get("web/app").unwrap()["status"]["lastAttempted"]["attempts"].as_u64().unwrap_or(0)
}

/// Says that the deletion needs no hooks, and waits for its end.
fn lets_go(space: &Space) {
    space.kubectl(&["annotate", "web/app", "tillerman.dev/hooks=off"]).unwrap();
    space.wait_gone("web/app");
    space.wait_gone("configmap/app");
    space.wait_gone("secret/sh.helm.release.v1.app.v1");
    assert!(!space.list("events").unwrap().iter().any(|event| event["reason"] == "HooksSkipped"));
}

/// D2.
#[test]
fn a_delete_hook_that_refuses_keeps_everything_and_says_how_to_go_on() {
    let space = Space::new("kept");
    let _kubelet = Kubelet::new(&space);
    let chart = chart(&space, "1.0.0", true, "bad");
    let operator = installed(&space, &chart);
    space.delete("web/app");
    let hook = "pre-delete hook Job app-bad failed, so nothing is deleted";
    says(&space, "HookFailed", &[hook, "tillerman.dev/hooks", "tillerman.dev/reconcile-at", "BackoffLimitExceeded"]);
    assert!(space.wait_event("HookFailed").contains(hook));
    // Five failures end an upgrade. A deletion is tried on and on, and the next attempts do not hide what the last one said.
    eventually("it is tried more often than an upgrade", || {
        let ready = space.condition("web/app", "Ready")?;
        assert_eq!(ready["reason"], "HookFailed", "{ready}");
        let attempts = attempts(&space);
        if attempts > 5 { Ok(()) } else { Err(attempts) }.map_err(|n| n.to_string())
    });
    is_whole(&space);
    // A restart forgets none of it.
    operator.kill();
    let _operator = serve(&space, &chart);
    space.kubectl(&["annotate", "web/app", "tillerman.dev/reconcile-at=now"]).unwrap();
    eventually("it is tried at once", || match attempts(&space) {
        n @ 1..=4 => Ok(n),
        n => Err(format!("{n} attempts")),
    });
    is_whole(&space);
    lets_go(&space);
}

/// D2.
#[test]
fn a_delete_hook_that_succeeds_at_last_lets_the_rest_go() {
    let space = Space::new("keptlater");
    let _operator = installed(&space, &chart(&space, "1.0.0", true, "guard"));
    space.delete("web/app");
    let end = |phase: &str| {
        let is_open =
            |pod: &Value| pod["status"]["phase"] == "Pending" && pod["metadata"]["deletionTimestamp"].is_null();
        eventually("a pod ends", || space.end_pod_of("app-guard", phase, is_open));
    };
    for _ in 0..2 {
        end("Failed");
    }
    says(&space, "HookFailed", &["pre-delete hook Job app-guard"]);
    is_whole(&space);
    end("Succeeded");
    space.wait_gone("web/app");
    space.wait_gone("configmap/app");
}

/// D2.
#[test]
fn a_hook_after_the_deletion_that_refuses_keeps_the_custom_resource_and_its_record() {
    let space = Space::new("keptafter");
    let _kubelet = Kubelet::new(&space);
    let _operator = serve(&space, &chart(&space, "1.0.0", true, "bad"));
    space.apply("Web", "app", &json!({"events": "post-delete"}));
    space.wait("web/app", "Deployed", "True");
    space.delete("web/app");
    says(&space, "HookFailed", &["post-delete hook Job app-bad failed, so the custom resource and its record stay"]);
    eventually("it is tried on and on", || match attempts(&space) {
        n if n > 5 => Ok(()),
        n => Err(format!("{n} attempts")),
    });
    assert!(space.get("secret/sh.helm.release.v1.app.v1").is_ok() && space.get("web/app").is_ok());
    assert!(space.get("configmap/app").is_err());
    lets_go(&space);
}

/// D2.
#[test]
fn a_delete_hook_that_the_api_server_refuses_keeps_everything() {
    let space = Space::new("keptrefused");
    let _operator = space.operator(&space.watches(&[("Web", "hooks")]), &[]);
    let hook =
        json!({"name": "del", "kind": "Nothing", "apiVersion": "nobody.tillerman.dev/v1", "events": "pre-delete"});
    space.apply("Web", "app", &json!({"hooks": [hook]}));
    space.wait("web/app", "Deployed", "True");
    space.delete("web/app");
    let words = ["pre-delete hook Nothing app-del failed", "the API server does not know", "tillerman.dev/hooks"];
    says(&space, "HookFailed", &words);
    eventually("it is tried on and on", || match attempts(&space) {
        n if n > 5 => Ok(()),
        n => Err(format!("{n} attempts")),
    });
    assert!(space.get("configmap/app").unwrap()["metadata"]["deletionTimestamp"].is_null());
    lets_go(&space);
}

/// D2.
#[test]
fn a_deletion_without_a_usable_chart_asks_before_anything_goes() {
    let space = Space::new("keptchart");
    let operator = installed(&space, &chart(&space, "1.0.0", true, "guard"));
    assert!(operator.stop());
    // The record is the one that the first operator wrote; the second cannot know that.
    let operator = space.operator(&space.watches(&[("Web", "broken")]), &[]);
    space.delete("web/app");
    says(&space, "HooksUnknown", &["the operator deletes nothing", "tillerman.dev/hooks", "Chart.yaml"]);
    is_whole(&space);
    assert!(space.get("job/app-guard").is_err());
    // With a chart it continues by itself.
    assert!(operator.stop());
    let _operator = serve(&space, &chart(&space, "1.0.0", true, "guard"));
    space.kubectl(&["annotate", "web/app", "tillerman.dev/reconcile-at=now"]).unwrap();
    eventually("the hook runs", || space.get("job/app-guard"));
    is_whole(&space);
    lets_go(&space);
}

/// D2.
#[test]
fn a_release_without_delete_hooks_goes_without_a_chart() {
    let space = Space::new("keptnone");
    let operator = installed(&space, &chart(&space, "1.0.0", true, ""));
    assert!(operator.stop());
    let _operator = space.operator(&space.watches(&[("Web", "broken")]), &[]);
    space.kubectl(&["delete", "web/app"]).unwrap();
    space.wait_gone("configmap/app");
}

/// D2.
#[test]
fn a_deletion_with_another_version_of_the_chart_runs_the_hook_of_that_version() {
    let space = Space::new("keptversion");
    let operator = installed(&space, &chart(&space, "1.0.0", true, "guard"));
    assert!(operator.stop());
    // It is still at the revision of the first version.
    space.kubectl(&["annotate", "web/app", "tillerman.dev/paused=true"]).unwrap();
    let _operator = serve(&space, &chart(&space, "2.0.0", true, "guard"));
    space.wait("web/app", "Paused", "True");
    space.delete("web/app");
    let job = eventually("the hook runs", || space.get("job/app-guard"));
    assert_eq!(job["metadata"]["labels"]["helm.sh/chart"], "guarded-2.0.0");
    is_whole(&space);
    let uid = job["metadata"]["uid"].clone();
    eventually("its end is seen", || {
        space.end_pod_of("app-guard", "Succeeded", |pod| pod["status"]["phase"] == "Pending")
    });
    space.wait_gone("web/app");
    space.wait_gone("configmap/app");
    let made = |entry: &&Value| {
        let of_jobs = entry["verb"] == "create" && entry["objectRef"]["resource"] == "jobs";
        of_jobs && entry["stage"] == "ResponseComplete" && entry["responseStatus"]["code"] == 201
    };
    assert_eq!(space.audited().iter().filter(made).count(), 1, "{uid} ran once");
}

/// D2.
#[test]
fn a_deletion_with_a_record_that_is_gone_or_cannot_be_read_asks_before_anything_goes() {
    for (name, how) in [("keptunread", "unreadable"), ("keptgone", "gone")] {
        let space = Space::new(name);
        let guarded = chart(&space, "1.0.0", true, "guard");
        let operator = installed(&space, &guarded);
        assert!(operator.stop());
        let secret = "secret/sh.helm.release.v1.app.v1";
        if how == "gone" {
            space.kubectl(&["delete", secret]).unwrap();
        } else {
            space.kubectl(&["patch", secret, "--type=merge", "-p", r#"{"data": {"release": "bm8="}}"#]).unwrap();
        }
        space.delete("web/app");
        let operator = serve(&space, &guarded);
        let words =
            ["the operator deletes nothing", "the release record cannot be read", "has hooks that run at a deletion"];
        says(&space, "HooksUnknown", &words);
        assert!(space.get("configmap/app").unwrap()["metadata"]["deletionTimestamp"].is_null(), "{how}");
        assert!(space.get("web/app").is_ok());
        lets_go(&space);
        assert!(operator.stop());
    }
}

#[test]
fn a_rollback_keeps_what_the_present_chart_no_longer_renders() {
    let space = Space::new("keptback");
    let _kubelet = Kubelet::new(&space);
    let operator = installed(&space, &chart(&space, "1.0.0", true, ""));
    let uid = || space.get("persistentvolumeclaim/app-data").map(|claim| claim["metadata"]["uid"].clone());
    let before = uid().unwrap();
    assert!(operator.stop());
    // The new version has no claim, and a hook before the upgrade that fails.
    let chart = chart(&space, "2.0.0", false, "bad");
    std::fs::write(chart.join("values.yaml"), "v: two\nevents: pre-upgrade\n").unwrap();
    let operator = serve(&space, &chart);
    space.wait_event("RolledBack");
    space.wait("web/app", "Stalled", "True");
    operator.settle();
    assert_eq!(uid().unwrap(), before);
    assert_eq!(space.get("configmap/app").unwrap()["data"]["v"], "one");
    // Nor is it a stray for the next operator, or when something else is repaired.
    assert!(operator.stop());
    let operator = serve(&space, &chart);
    space.kubectl(&["delete", "configmap/app"]).unwrap();
    eventually("it is repaired", || space.get("configmap/app"));
    operator.settle();
    assert_eq!(uid().unwrap(), before);
    let history = space.helm(&["history", "app"]).unwrap();
    assert!(history.contains("failed") && history.contains("Rollback to 1"), "{history}");
}

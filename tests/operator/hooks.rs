//! Hooks (docs/design/applying.md D3). There is no kubelet: the tests write how a pod ended, and the controller of Jobs does the rest.

use crate::harness::{Space, eventually};
use serde_json::{Value, json};

/// A chart's values with hooks: name, kind, events, policy.
fn values(greeting: &str, hooks: &[(&str, &str, &str, &str)]) -> Value {
    let hook = |(name, kind, events, policy): &(&str, &str, &str, &str)| json!({"name": name, "kind": kind, "events": events, "policy": policy});
    json!({"greeting": greeting, "hooks": hooks.iter().map(hook).collect::<Vec<_>>()})
}

/// Ends the next pod of a Job that has not ended, as a kubelet would.
fn end(space: &Space, job: &str, phase: &str) {
    eventually(&format!("a pod of {job} becomes {phase}"), || {
        space.end_pod_of(job, phase, |pod| {
            pod["status"]["phase"] == "Pending" && pod["metadata"].get("deletionTimestamp").is_none()
        })
    });
}

/// How the hooks of a release stand by the real helm.
fn phases(space: &Space) -> Vec<(String, String)> {
    let status: Value = serde_json::from_str(&space.helm(&["status", "app", "-o", "json"]).unwrap()).unwrap();
    let hooks = status["hooks"].as_array().cloned().unwrap_or_default();
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let mut phases: Vec<_> = hooks.iter().map(|h| (text(&h["name"]), text(&h["last_run"]["phase"]))).collect();
    phases.sort();
    phases
}

fn statuses(space: &Space) -> Vec<String> {
    let text = space.helm(&["history", "app", "-o", "json"]).unwrap();
    let list: Vec<Value> = serde_json::from_str(&text).unwrap();
    list.iter().map(|r| r["status"].as_str().unwrap_or_default().to_owned()).collect()
}

fn waits(space: &Space, what: &str) {
    eventually(&format!("it waits for {what}"), || {
        let ready = space.condition("web/app", "Ready")?;
        let expected = format!("waiting for {what}");
        if ready["message"] == expected.as_str() { Ok(()) } else { Err(ready.to_string()) }
    });
}

/// D3.
#[test]
fn hooks_run_before_and_after_and_nobody_waits_for_them_but_their_release() {
    let space = Space::new("hooks");
    let operator =
        space.operator(&space.watches(&[("Web", "hooks"), ("Other", "web")]), &["--max-concurrent-reconciles=1"]);
    let hooks = [
        ("first", "ConfigMap", "pre-install,pre-upgrade", ""),
        ("pre", "Job", "pre-install", ""),
        ("post", "Job", "post-install", "hook-succeeded"),
        ("up", "Job", "pre-upgrade", ""),
        ("test", "Pod", "test", ""),
    ];
    space.apply("Web", "app", &values("one", &hooks));
    waits(&space, "pre-install hook Job app-pre");
    space.get("configmap/app-first").unwrap();
    assert!(space.get("configmap/app").is_err());
    assert!(space.helm(&["status", "app"]).unwrap().contains("STATUS: pending-install"));
    // The only worker is free.
    space.apply("Other", "app2", &json!({}));
    space.wait("other/app2", "Deployed", "True");
    operator.settle();
    end(&space, "app-pre", "Succeeded");
    waits(&space, "post-install hook Job app-post");
    space.get("configmap/app").unwrap();
    assert!(space.condition("web/app", "Deployed").is_err());
    end(&space, "app-post", "Succeeded");
    assert_eq!(space.wait("web/app", "Deployed", "True")["reason"], "InstallSuccessful");
    space.wait_gone("job/app-post");
    space.get("job/app-pre").unwrap();
    for never in ["job/app-up", "pod/app-test"] {
        assert!(space.get(never).is_err(), "{never}");
    }
    space.wait("web/app", "Ready", "True");
    let run = |name: &str, phase: &str| (name.to_owned(), phase.to_owned());
    let expected = [
        run("app-first", "Succeeded"),
        run("app-post", "Succeeded"),
        run("app-pre", "Succeeded"),
        run("app-test", ""),
        run("app-up", ""),
    ];
    assert_eq!(phases(&space), expected);
    assert!(space.helm(&["get", "hooks", "app"]).unwrap().contains("name: app-post"));
    let before = operator.settle();
    assert_eq!(operator.settle(), before);
    // An upgrade has its own hooks, and a hook's object that is not a Job is recreated.
    let uid = |object: &str| space.get(object).unwrap()["metadata"]["uid"].clone();
    let first = uid("configmap/app-first");
    space.apply("Web", "app", &values("two", &hooks));
    waits(&space, "pre-upgrade hook Job app-up");
    assert_ne!(uid("configmap/app-first"), first);
    assert_eq!(space.get("configmap/app").unwrap()["data"]["greeting"], "one");
    end(&space, "app-up", "Succeeded");
    space.wait_field("configmap/app", "/data/greeting", &json!("two"));
    space.wait_field("web/app", "/status/release/revision", &json!(2));
    assert_eq!(statuses(&space), ["superseded", "deployed"]);
}

/// D3.
#[test]
fn a_hook_that_fails_is_tried_as_often_as_an_upgrade_and_then_rolled_back() {
    let space = Space::new("hookfails");
    let operator = space.operator(&space.watches(&[("Web", "hooks")]), &[]);
    space.apply("Web", "app", &values("one", &[("back", "ConfigMap", "pre-rollback", "")]));
    space.wait("web/app", "Deployed", "True");
    space.apply("Web", "app", &values("two", &[("up", "Job", "pre-upgrade", "before-hook-creation,hook-failed")]));
    for _ in 0..5 {
        end(&space, "app-up", "Failed");
    }
    let stalled = space.wait("web/app", "Stalled", "True");
    assert_eq!(stalled["reason"], "HookFailed");
    let message = stalled["message"].as_str().unwrap();
    assert!(message.contains("pre-upgrade hook Job app-up failed: BackoffLimitExceeded"), "{message}");
    space.wait_event("RolledBack");
    space.wait_gone("job/app-up");
    assert_eq!(space.get("configmap/app").unwrap()["data"]["greeting"], "one");
    // The hooks of a rollback are those of the revision that comes back.
    space.get("configmap/app-back").unwrap();
    operator.settle();
    assert_eq!(statuses(&space), ["superseded", "failed", "deployed"]);
}

/// D3.
#[test]
fn an_outcome_counts_also_when_nobody_was_there_and_one_that_vanished_does_not() {
    let space = Space::new("hookcrash");
    let watches = space.watches(&[("Web", "hooks")]);
    let operator = space.operator(&watches, &[]);
    space.apply("Web", "app", &values("one", &[("pre", "Job", "pre-install", "")]));
    waits(&space, "pre-install hook Job app-pre");
    let uid = || space.get("job/app-pre").map(|job| job["metadata"]["uid"].clone());
    let first = uid().unwrap();
    operator.kill();
    space.kubectl(&["delete", "job/app-pre"]).unwrap();
    let operator = space.operator(&watches, &[]);
    let second = eventually("it runs again", uid);
    assert_ne!(second, first);
    waits(&space, "pre-install hook Job app-pre");
    operator.kill();
    end(&space, "app-pre", "Succeeded");
    eventually("the Job is complete", || {
        let job = space.get("job/app-pre")?;
        if job["status"]["succeeded"] == 1 { Ok(()) } else { Err(job["status"].to_string()) }
    });
    let _operator = space.operator(&watches, &[]);
    space.wait("web/app", "Deployed", "True");
    assert_eq!(uid().unwrap(), second);
}

/// D3. docs/design/lessons.md pain 10: a hook runs once.
#[test]
fn a_restart_while_a_hook_runs_does_not_start_it_again() {
    let space = Space::new("hookrestart");
    let watches = space.watches(&[("Web", "hooks")]);
    let operator = space.operator(&watches, &[]);
    space.apply("Web", "app", &values("one", &[("pre", "Pod", "pre-install", "")]));
    waits(&space, "pre-install hook Pod app-pre");
    let uid = space.get("pod/app-pre").unwrap()["metadata"]["uid"].clone();
    operator.kill();
    let operator = space.operator(&watches, &[]);
    operator.settle();
    assert_eq!(space.get("pod/app-pre").unwrap()["metadata"]["uid"], uid);
    space.end_pod("app-pre", "Succeeded").unwrap();
    space.wait("web/app", "Deployed", "True");
    assert_eq!(phases(&space), [("app-pre".to_owned(), "Succeeded".to_owned())]);
}

/// D3.
#[test]
fn a_change_of_the_spec_waits_for_the_hook_that_runs() {
    let space = Space::new("hookchange");
    let operator = space.operator(&space.watches(&[("Web", "hooks")]), &[]);
    let hooks = [("pre", "Job", "pre-install", "")];
    space.apply("Web", "app", &values("one", &hooks));
    waits(&space, "pre-install hook Job app-pre");
    let uid = space.get("job/app-pre").unwrap()["metadata"]["uid"].clone();
    space.apply("Web", "app", &values("two", &hooks));
    operator.settle();
    assert_eq!(space.get("job/app-pre").unwrap()["metadata"]["uid"], uid);
    end(&space, "app-pre", "Succeeded");
    // Nothing was deployed, so the next revision is an installation with its own run of the hook.
    eventually("it runs for the new spec", || {
        if space.get("job/app-pre")?["metadata"]["uid"] == uid { Err("not yet") } else { Ok(()) }.map_err(str::to_owned)
    });
    end(&space, "app-pre", "Succeeded");
    space.wait("web/app", "Deployed", "True");
    assert_eq!(space.get("configmap/app").unwrap()["data"]["greeting"], "two");
    assert_eq!(statuses(&space), ["superseded", "deployed"]);
}

#[test]
fn a_hook_that_takes_longer_than_the_timeout_has_failed() {
    let space = Space::new("hooktimeout");
    let _operator = space.operator(&space.watches(&[("Web", "hooks")]), &[]);
    space.apply_with(
        "Web",
        "app",
        &json!({"tillerman.dev/timeout": "3s"}),
        &values("one", &[("pre", "Job", "pre-install", "")]),
    );
    let stalled = space.wait("web/app", "Stalled", "True");
    assert_eq!(stalled["message"], "pre-install hook Job app-pre failed: it did not end within 3 seconds");
    assert_eq!(statuses(&space), ["failed"]);
    assert_eq!(phases(&space), [("app-pre".to_owned(), "Failed".to_owned())]);
}

#[test]
fn with_hooks_off_none_runs() {
    let space = Space::new("hooksoff");
    let _operator = space.operator(&space.watches(&[("Web", "hooks")]), &[]);
    let hooks = [("pre", "Job", "pre-install", ""), ("del", "Job", "pre-delete", "")];
    space.apply_with("Web", "app", &json!({"tillerman.dev/hooks": "off"}), &values("one", &hooks));
    space.wait("web/app", "Deployed", "True");
    assert!(space.get("job/app-pre").is_err());
    space.kubectl(&["delete", "web/app"]).unwrap();
    space.wait_gone("configmap/app");
    assert!(space.get("job/app-del").is_err());
}

/// D2.
#[test]
fn a_custom_resource_goes_after_its_delete_hooks() {
    let space = Space::new("hookdelete");
    let _operator = space.operator(&space.watches(&[("Web", "hooks")]), &[]);
    space.apply("Web", "app", &values("one", &[("del", "Job", "pre-delete", ""), ("last", "Job", "post-delete", "")]));
    space.wait("web/app", "Deployed", "True");
    space.delete("web/app");
    waits(&space, "pre-delete hook Job app-del");
    space.get("configmap/app").unwrap();
    assert!(space.helm(&["status", "app"]).unwrap().contains("STATUS: uninstalling"));
    end(&space, "app-del", "Succeeded");
    waits(&space, "post-delete hook Job app-last");
    space.wait_gone("configmap/app");
    end(&space, "app-last", "Succeeded");
    space.wait_gone("web/app");
    assert_eq!(space.helm(&["list", "-q"]).unwrap(), "");
}

/// D2.
#[test]
fn in_a_namespace_that_goes_hooks_are_skipped() {
    let space = Space::new("hookterminating");
    let _operator = space.operator(&space.watches(&[("Web", "hooks")]), &[]);
    space.apply("Web", "app", &values("one", &[("del", "Job", "pre-delete", "")]));
    space.wait("web/app", "Deployed", "True");
    crate::harness::kubectl(&["delete", "namespace", &space.name, "--wait=false"], None).unwrap();
    eventually("the namespace is gone", || {
        match crate::support::api::get(&format!("/api/v1/namespaces/{}", space.name)) {
            Err(why) if why.contains("NotFound") => Ok(()),
            Err(why) => Err(why),
            Ok(_) => Err("it is there".to_owned()),
        }
    });
}

#[test]
fn with_a_timeout_a_release_that_is_not_ready_in_it_has_failed() {
    let space = Space::new("readytimeout");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    // No pod ever runs, so with replicas it is never ready, and without replicas at once.
    let switch = json!({"tillerman.dev/timeout": "4s"});
    space.apply_with("Web", "app", &switch, &json!({"replicas": 0}));
    space.wait("web/app", "Deployed", "True");
    space.apply_with("Web", "app", &switch, &json!({"replicas": 1}));
    let waiting = "waiting for Deployment app-web: 0 of 1 replicas are available";
    eventually("it waits", || {
        let ready = space.condition("web/app", "Ready")?;
        if ready["message"] == waiting { Ok(()) } else { Err(ready.to_string()) }
    });
    let stalled = space.wait("web/app", "Stalled", "True");
    assert_eq!(stalled["reason"], "NotReady");
    assert_eq!(stalled["message"], "not ready in time: Deployment app-web: 0 of 1 replicas are available");
    space.wait_event("RolledBack");
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(0));
    operator.settle();
    assert_eq!(statuses(&space), ["superseded", "failed", "deployed"]);
}

/// D6.
#[test]
fn a_hook_takes_no_object_of_somebody_else() {
    let space = Space::new("hooktheirs");
    let operator = space.operator(&space.watches_with(&[("Web", "hooks")], "  allow: [takeOwnership]\n"), &[]);
    space.kubectl(&["create", "configmap", "app-first", "--from-literal=of=nobody"]).unwrap();
    let before = space.get("configmap/app-first").unwrap();
    let policy = "before-hook-creation,hook-succeeded,hook-failed";
    let spec = values("one", &[("first", "ConfigMap", "pre-install,pre-delete", policy)]);
    space.apply("Web", "app", &spec);
    let stalled = space.wait("web/app", "Stalled", "True");
    assert_eq!(stalled["reason"], "HookFailed");
    let message = stalled["message"].as_str().unwrap();
    for words in
        ["pre-install hook ConfigMap app-first failed", "it has no owner", "take-ownership", "delete or rename"]
    {
        assert!(message.contains(words), "{message}");
    }
    operator.settle();
    let same = || assert_eq!(space.get("configmap/app-first").unwrap(), before);
    same();
    // Nor does a deletion.
    space.kubectl(&["delete", "web/app", "--wait=false"]).unwrap();
    eventually("the deletion is held or over", || match space.get("web/app") {
        Err(_) => Ok(()),
        Ok(web) => {
            let failed = web["status"]["conditions"].to_string().contains("pre-delete hook ConfigMap app-first failed");
            if failed { Ok(()) } else { Err(web["status"].to_string()) }
        }
    });
    same();
    let _ = space.kubectl(&["annotate", "web/app", "tillerman.dev/hooks=off"]);
    space.wait_gone("web/app");
    same();
    // A mark of a hook is not a mark of an owner.
    let marked =
        json!({"metadata": {"annotations": {"helm.sh/hook": "pre-install", "tillerman.dev/hook": "1 pre-install 0"}}});
    space.kubectl(&["patch", "configmap/app-first", "--type=merge", "-p", &marked.to_string()]).unwrap();
    let before = space.get("configmap/app-first").unwrap();
    space.apply("Web", "app", &spec);
    space.wait("web/app", "Stalled", "True");
    operator.settle();
    assert_eq!(space.get("configmap/app-first").unwrap(), before);
    // Where the kind allows it, a user can give it to the release.
    space.apply_with("Web", "app", &json!({"tillerman.dev/take-ownership": "true"}), &spec);
    space.wait("web/app", "Deployed", "True");
    space.wait_gone("configmap/app-first");
}

/// D6.
#[test]
fn a_hook_replaces_what_a_hook_of_helm_left() {
    let space = Space::new("hookhelms");
    let chart = crate::harness::repository("tests/charts/hooks").display().to_string();
    let spec = values("one", &[("first", "ConfigMap", "pre-install,pre-upgrade", "")]);
    let file = space.file("values.json", &spec.to_string());
    space.apply("Web", "app", &spec);
    space.helm(&["install", "app", &chart, "-f", file.to_str().unwrap()]).unwrap();
    let uid = || space.get("configmap/app-first").map(|found| found["metadata"]["uid"].clone());
    let made = uid().unwrap();
    // As helm-operator does: its records name their custom resource, and its hooks do not.
    let reference = json!([{"apiVersion": "test.tillerman.dev/v1", "kind": "Web", "name": "app", "controller": true,
        "uid": space.get("web/app").unwrap()["metadata"]["uid"]}]);
    let patch = json!({"metadata": {"ownerReferences": reference}}).to_string();
    space.kubectl(&["patch", "secret/sh.helm.release.v1.app.v1", "--type=merge", "-p", &patch]).unwrap();
    let operator = space.operator(&space.watches(&[("Web", "hooks")]), &[]);
    space.apply("Web", "app", &values("two", &[("first", "ConfigMap", "pre-install,pre-upgrade", "")]));
    space.wait_field("configmap/app", "/data/greeting", &json!("two"));
    operator.settle();
    assert_ne!(uid().unwrap(), made);
    assert_eq!(space.get("configmap/app-first").unwrap()["metadata"]["ownerReferences"][0]["kind"], "Web");
}

/// As Helm 4.3.1 with server-side apply, which updates the object.
#[test]
fn a_hook_without_before_hook_creation_updates_what_its_last_run_left() {
    let space = Space::new("hookupdate");
    let _operator = space.operator(&space.watches(&[("Web", "hooks")]), &[]);
    let spec = |greeting: &str| values(greeting, &[("up", "ConfigMap", "pre-install,pre-upgrade", "never")]);
    space.apply("Web", "app", &spec("one"));
    space.wait("web/app", "Deployed", "True");
    let before = space.get("configmap/app-up").unwrap();
    assert_eq!(before["data"], json!({"revision": "1"}));
    let added = json!({"data": {"of": "somebody"}}).to_string();
    space.kubectl(&["patch", "configmap/app-up", "--type=merge", "-p", &added]).unwrap();
    for (revision, greeting) in ["two", "three"].iter().enumerate() {
        space.apply("Web", "app", &spec(greeting));
        space.wait_field("configmap/app", "/data/greeting", &json!(greeting));
        space.wait_field("web/app", "/status/release/revision", &json!(revision + 2));
        let after = space.get("configmap/app-up").unwrap();
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
        assert_eq!(after["data"], json!({"revision": (revision + 2).to_string(), "of": "somebody"}));
    }
    space.wait("web/app", "Ready", "True");
    space.kubectl(&["delete", "web/app"]).unwrap();
    space.wait_gone("configmap/app-up");
}

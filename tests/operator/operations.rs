//! Operations (docs/how-to/operations.md): hooks named `operation/NAME`, begun by an annotation of the custom resource or by their schedule. There
//! is no node: the tests write the status of pods as a kubelet would, and the controller of Jobs does the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Operator, Space, eventually, kubectl};
use crate::kubelet::Kubelet;

const BACKUP: &str = "operation/backup";

/// A chart's values with hooks: name, kind, events, annotations.
fn values(greeting: &str, hooks: &[(&str, &str, &str, Value)]) -> Value {
    let hook = |(name, kind, events, annotations): &(&str, &str, &str, Value)| json!({"name": name, "kind": kind, "events": events, "annotations": annotations});
    json!({"greeting": greeting, "hooks": hooks.iter().map(hook).collect::<Vec<_>>()})
}

fn backup(annotations: Value) -> Value {
    values("one", &[("backup", "Job", BACKUP, annotations)])
}

/// Asks for an operation as a user does.
fn ask(space: &Space, request: &str) {
    let annotation = format!("tillerman.dev/operation={request}");
    space.kubectl(&["annotate", "--overwrite", "webs.test.tillerman.dev", "app", &annotation]).unwrap();
}

/// Waits until a request is done; how it came out.
fn wait_done(space: &Space, request: &str) -> Value {
    space.wait_field("web/app", "/status/lastHandledOperation", &json!(request));
    let name = request.split('@').next().unwrap();
    let status = space.get("web/app").unwrap()["status"].clone();
    assert_eq!(status.get("operation"), None, "{status}");
    assert_eq!(status["operations"][name]["request"], request);
    status["operations"][name]["result"].clone()
}

/// The names of the Jobs that this test's operator ever made, in order.
fn made(space: &Space) -> Vec<String> {
    let of_ours = |entry: &Value| -> Option<String> {
        let created = entry["verb"] == "create" && entry.pointer("/objectRef/resource")? == "jobs";
        let code = entry.pointer("/responseStatus/code").and_then(Value::as_u64)?;
        // 504: the operator was killed before the answer to what the API server carried out.
        let wrote = created && entry["stage"] == "ResponseComplete" && (code < 300 || code == 504);
        wrote.then(|| entry.pointer("/objectRef/name")?.as_str().map(str::to_owned)).flatten()
    };
    space.audited().iter().filter_map(of_ours).collect()
}

/// The Jobs that are there.
fn jobs(space: &Space) -> Vec<String> {
    let text = space.kubectl(&["get", "jobs", "-o", "name"]).unwrap();
    text.lines().map(|line| line.trim_start_matches("job.batch/").to_owned()).collect()
}

/// The Job that runs once there is one.
fn wait_job(space: &Space) -> String {
    eventually("a Job", || jobs(space).pop().ok_or("there is none"))
}

/// Ends the pod of a Job, as a kubelet would.
fn end(space: &Space, job: &str) {
    eventually(&format!("the pod of {job} ends"), || space.end_pod_of(job, "Succeeded", |_| true));
}

fn installed(space: &Space, chart: &str, spec: &Value) -> Operator {
    let operator = space.operator(&space.watches(&[("Web", chart)]), &[]);
    space.apply("Web", "app", spec);
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    operator
}

/// It runs when the annotation requests it, once for each text. Helm does not see it.
#[test]
fn an_operation_runs_once_for_each_text_of_its_annotation() {
    let space = Space::new("opasked");
    let _kubelet = Kubelet::new(&space);
    let operator = installed(&space, "hooks", &backup(json!({})));
    assert_eq!(made(&space), Vec::<String>::new(), "it is no part of the release");
    for (what, word) in [("hooks", "backup"), ("manifest", "Job")] {
        let text = space.helm(&["get", what, "app"]).unwrap();
        assert!(!text.contains(word), "{what}: {text}");
    }
    assert!(space.helm(&["list"]).unwrap().contains("deployed"));

    ask(&space, "backup");
    assert_eq!(wait_done(&space, "backup"), "Succeeded");
    let first = jobs(&space);
    assert!(first.len() == 1 && first[0].starts_with("app-backup-") && first == made(&space), "{first:?}");
    let status = space.get("web/app").unwrap()["status"].clone();
    let plan = json!({"operation": "backup", "request": "backup", "state": "Complete"});
    for key in ["operation", "request", "state"] {
        assert_eq!(status["plan"][key], plan[key], "{status}");
    }
    assert_eq!(status["plan"]["phases"], json!([{"name": "Job app-backup", "state": "Complete"}]));
    assert_eq!(space.wait_event("OperationSucceeded"), "operation backup is done");

    // The same text requests nothing new. Another text does, and the Job of the previous run is deleted by its policy.
    let spec = backup(json!({}));
    space.apply_with("Web", "app", &json!({"tillerman.dev/operation": "backup"}), &spec);
    operator.settle();
    assert_eq!(made(&space).len(), 1);
    ask(&space, "backup@2");
    assert_eq!(wait_done(&space, "backup@2"), "Succeeded");
    space.wait_gone(&format!("job/{}", first[0]));
    assert_eq!((made(&space).len(), jobs(&space).len()), (2, 1));
    // Who takes the annotation away may ask for the same again.
    space.kubectl(&["annotate", "webs.test.tillerman.dev", "app", "tillerman.dev/operation-"]).unwrap();
    eventually("it is forgotten", || match space.get("web/app")?["status"].get("lastHandledOperation") {
        None => Ok(()),
        Some(handled) => Err(handled.to_string()),
    });
    ask(&space, "backup@2");
    wait_done(&space, "backup@2");
    eventually("it ran again", || if made(&space).len() == 3 { Ok(()) } else { Err(format!("{:?}", made(&space))) });

    // No revision came of it, Helm's view is as before, and a deletion takes all of it.
    assert_eq!(space.helm(&["history", "app"]).unwrap().lines().count(), 2);
    space.kubectl(&["delete", "web/app"]).unwrap();
    eventually("its Jobs go", || if jobs(&space).is_empty() { Ok(()) } else { Err(format!("{:?}", jobs(&space))) });
}

/// Plain Helm skips them: the chart stays installable.
#[test]
fn helm_installs_a_chart_with_operations_and_makes_none() {
    let space = Space::new("ophelm");
    let chart = crate::harness::repository("tests/charts/hooks").display().to_string();
    let file = space.file("values.json", &backup(json!({})).to_string()).display().to_string();
    space.helm(&["install", "plain", &chart, "-f", &file]).unwrap();
    assert_eq!(jobs(&space), Vec::<String>::new());
    assert!(!space.helm(&["get", "hooks", "plain"]).unwrap().contains("Job"));
    assert!(!space.helm(&["template", "plain", &chart, "-f", &file]).unwrap().contains("Job"));
}

/// In a minijinja chart likewise.
#[test]
fn a_minijinja_chart_has_operations_too() {
    let space = Space::new("opjinja");
    let _kubelet = Kubelet::new(&space);
    let _operator = installed(&space, "operations-jinja", &json!({}));
    ask(&space, "check@now");
    assert_eq!(wait_done(&space, "check@now"), "Succeeded");
    assert_eq!(made(&space).len(), 1);
}

/// Several objects run one after the other, an object that is not a Job keeps its name, and each delete policy counts.
#[test]
fn its_objects_run_in_their_order_and_go_by_their_policies() {
    let space = Space::new("oporder");
    let _kubelet = Kubelet::new(&space);
    let mut spec = values(
        "one",
        &[
            ("zero", "ConfigMap", BACKUP, json!({})),
            ("second", "Job", BACKUP, json!({})),
            ("first", "Job", BACKUP, json!({"helm.sh/hook-delete-policy": "hook-succeeded"})),
            ("other", "Job", "operation/check", json!({})),
        ],
    );
    spec["hooks"][0]["weight"] = json!(-5);
    spec["hooks"][1]["weight"] = json!(5);
    let _operator = installed(&space, "hooks", &spec);
    for request in ["backup@1", "backup@2"] {
        ask(&space, request);
        assert_eq!(wait_done(&space, request), "Succeeded");
        space.get("configmap/app-zero").unwrap();
    }
    let heads: Vec<String> = made(&space).iter().map(|job| job[..job.len() - 9].to_owned()).collect();
    assert_eq!(heads, ["app-first", "app-second", "app-first", "app-second"]);
    eventually("only the second is left", || match jobs(&space).as_slice() {
        [one] if one.starts_with("app-second-") => Ok(()),
        left => Err(format!("{left:?}")),
    });
}

/// On schedule, without an annotation. One that was missed, however often, runs once.
#[test]
fn a_schedule_that_was_missed_runs_once() {
    let space = Space::new("opmissed");
    let _kubelet = Kubelet::new(&space);
    let schedule = json!({"tillerman.dev/schedule": "0 0 * * *", "tillerman.dev/time-zone": "Europe/Berlin"});
    let operator = installed(&space, "hooks", &backup(schedule));
    let known = space.get("web/app").unwrap()["status"]["operations"]["backup"].clone();
    assert_eq!((&known["schedule"], &known["timeZone"]), (&json!("0 0 * * *"), &json!("Europe/Berlin")));
    assert_eq!(made(&space), Vec::<String>::new(), "what was due before it was known is not made up for");
    operator.kill();
    // As if the operator had been away for a year.
    let long_ago =
        json!({"status": {"operations": {"backup": {"scheduledSince": "2025-01-01T12:00:00Z"}}}}).to_string();
    space.kubectl(&["patch", "web/app", "--subresource=status", "--type=merge", "-p", &long_ago]).unwrap();
    let operator = space.operator(&space.watches(&[("Web", "hooks")]), &[]);
    space.wait_field("web/app", "/status/operations/backup/result", &json!("Succeeded"));
    operator.settle();
    let status = space.get("web/app").unwrap()["status"].clone();
    let last = status["operations"]["backup"]["lastScheduleTime"].as_str().unwrap();
    let due: jiff::Timestamp = last.parse().unwrap();
    let midnight = due.to_zoned(jiff::tz::TimeZone::get("Europe/Berlin").unwrap());
    let age = jiff::Timestamp::now().as_second() - due.as_second();
    assert!(midnight.hour() == 0 && midnight.minute() == 0 && (0..=25 * 3600).contains(&age), "{last}");
    assert_eq!(made(&space).len(), 1);
    assert!(status.get("lastHandledOperation").is_none() && status["plan"]["state"] == "Complete", "{status}");
    operator.kill();
    let operator = space.operator(&space.watches(&[("Web", "hooks")]), &[]);
    operator.settle();
    assert_eq!(made(&space).len(), 1, "what is done is done");
}

/// A schedule is due while nothing else happens.
#[test]
fn a_schedule_comes_due_by_itself_again_and_again() {
    let space = Space::new("opschedule");
    let _kubelet = Kubelet::new(&space);
    let _operator = installed(&space, "hooks", &backup(json!({"tillerman.dev/schedule": "@every 3s"})));
    eventually("it ran three times", || {
        let made = made(&space);
        if made.len() >= 3 { Ok(()) } else { Err(format!("{made:?}")) }
    });
    // Switched off, nothing runs, and an event answers the request.
    let off = json!({"tillerman.dev/hooks": "off", "tillerman.dev/operation": "backup"});
    space.apply_with("Web", "app", &off, &backup(json!({"tillerman.dev/schedule": "@every 3s"})));
    let pending = space.wait("web/app", "OperationPending", "True");
    assert_eq!(pending["reason"], "HooksOff");
    let before = made(&space).len();
    // The point is that nothing happens, through three times at which it is due.
    std::thread::sleep(Duration::from_secs(10));
    assert_eq!(made(&space).len(), before);
}

/// At rest: a schedule costs no request while it is not due, nor does what a run left.
#[test]
fn a_schedule_that_is_not_due_costs_no_request() {
    let space = Space::new("opidle");
    let _kubelet = Kubelet::of_members(&space, |_| (0, String::new()));
    let operator =
        space.operator(&space.watches(&[("Web", "hooks"), ("Other", "members")]), &["--reconcile-period=1s"]);
    space.apply("Web", "app", &backup(json!({"tillerman.dev/schedule": "0 0 29 2 *"})));
    space.apply("Other", "db", &json!({"size": 1, "operation": true}));
    space.wait("web/app", "Ready", "True");
    ask(&space, "backup");
    wait_done(&space, "backup");
    space.wait_field("other/db", "/status/plan/state", &json!("Complete"));
    space.kubectl(&["annotate", "others.test.tillerman.dev", "db", "tillerman.dev/operation=check"]).unwrap();
    space.wait_field("other/db", "/status/operations/check/result", &json!("Succeeded"));
    operator.rests(&space, 10);
}

/// A request for an unknown operation gets the list of known ones.
#[test]
fn an_unknown_operation_is_reported_with_the_known_ones() {
    let space = Space::new("opunknown");
    let _kubelet = Kubelet::new(&space);
    let hooks = [("backup", "Job", BACKUP, json!({})), ("check", "Job", "operation/check", json!({}))];
    let _operator = installed(&space, "hooks", &values("one", &hooks));
    ask(&space, "bakcup@1");
    let said = space.wait("web/app", "OperationFailed", "True");
    let expected = "there is no operation \"bakcup\"; the chart has backup, check";
    assert_eq!((&said["reason"], &said["message"]), (&json!("UnknownOperation"), &json!(expected)));
    assert_eq!(space.wait_event("UnknownOperation"), expected);
    space.wait("web/app", "Ready", "True");
    ask(&space, "check");
    assert_eq!(wait_done(&space, "check"), "Succeeded");
    assert!(space.condition("web/app", "OperationFailed").is_err());
}

/// A failure is reported with the last words of its pod, until a run succeeds. Exit code 75 asks again, and 64 refuses.
#[test]
fn a_failure_is_reported_with_the_last_line_until_a_run_succeeds() {
    let space = Space::new("opfails");
    let runs = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&runs);
    let _kubelet = Kubelet::of_members(&space, move |_| match seen.fetch_add(1, Ordering::SeqCst) {
        0 => (1, "dialing\nconnection refused\n".to_owned()),
        1 => (64, "first line\nanother backup runs\n".to_owned()),
        2 => (75, "still copying".to_owned()),
        _ => (0, String::new()),
    });
    let _operator = installed(&space, "hooks", &backup(json!({})));
    ask(&space, "backup@1");
    assert_eq!(wait_done(&space, "backup@1"), "Failed");
    let failed = space.wait("web/app", "OperationFailed", "True");
    let (reason, message) = (&failed["reason"], failed["message"].as_str().unwrap());
    assert!(reason == "HookFailed" && message.starts_with("operation backup: Job app-backup-"), "{failed}");
    assert!(
        message.contains("BackoffLimitExceeded") && message.ends_with("its last line: connection refused"),
        "{failed}"
    );
    assert_eq!(space.wait_event("OperationFailed"), message);
    space.wait_field("web/app", "/status/plan/state", &json!("Failed"));
    // What is deployed is as well as before.
    space.wait("web/app", "Ready", "True");
    ask(&space, "backup@2");
    assert_eq!(wait_done(&space, "backup@2"), "Refused");
    let refused = space.wait("web/app", "OperationFailed", "True");
    assert_eq!(refused["reason"], "HookRefused");
    assert!(refused["message"].as_str().unwrap().ends_with("refused: another backup runs"), "{refused}");
    ask(&space, "backup@3");
    assert_eq!(wait_done(&space, "backup@3"), "Succeeded");
    assert_eq!(runs.load(Ordering::SeqCst), 4, "it was asked again once");
    assert!(space.condition("web/app", "OperationFailed").is_err());
    assert_eq!(jobs(&space).len(), 1);
}

/// An operation that times out has failed, and nothing of it runs on.
#[test]
fn an_operation_that_takes_longer_than_its_timeout_is_ended() {
    let space = Space::new("optimeout");
    let hooks = [("backup-hang", "Job", BACKUP, json!({"tillerman.dev/timeout": "3s"}))];
    let _kubelet = Kubelet::new(&space);
    let _operator = installed(&space, "hooks", &values("one", &hooks));
    ask(&space, "backup");
    assert_eq!(wait_done(&space, "backup"), "Failed");
    let failed = space.wait("web/app", "OperationFailed", "True");
    assert!(failed["message"].as_str().unwrap().contains("it did not end within 3 seconds"), "{failed}");
    assert_eq!(jobs(&space), Vec::<String>::new());
    assert_eq!(space.kubectl(&["get", "pods", "-o", "name"]).unwrap(), "");
}

/// One plan in flight: an upgrade waits for the operation that runs, and an operation for the upgrade.
#[test]
fn nothing_else_is_begun_while_an_operation_runs() {
    let space = Space::new("opalone");
    let _kubelet = Kubelet::new(&space);
    let hooks = [("backup-hang", "Job", BACKUP, json!({})), ("up-hang", "Job", "pre-upgrade", json!({}))];
    let operator = installed(&space, "hooks", &values("one", &hooks));
    ask(&space, "backup");
    let job = wait_job(&space);
    space.wait_field("web/app", "/status/operation/name", &json!("backup"));
    space.wait("web/app", "Ready", "True");
    space.apply_with("Web", "app", &json!({"tillerman.dev/operation": "backup"}), &values("two", &hooks));
    eventually("the upgrade waits", || {
        let ready = space.condition("web/app", "Ready")?;
        if ready["message"] == "waiting for the end of operation backup" { Ok(()) } else { Err(ready.to_string()) }
    });
    operator.settle();
    assert_eq!(space.get("configmap/app").unwrap()["data"]["greeting"], "one");
    assert_eq!((made(&space).len(), space.helm(&["history", "app"]).unwrap().lines().count()), (1, 2));
    end(&space, &job);
    assert_eq!(wait_done(&space, "backup"), "Succeeded");

    // The upgrade is begun, and the next operation waits for it.
    eventually("the upgrade has begun", || space.get("job/app-up-hang"));
    ask(&space, "backup@2");
    let pending = space.wait("web/app", "OperationPending", "True");
    assert_eq!(pending["message"], "operation backup waits: waiting for pre-upgrade hook Job app-up-hang", "{pending}");
    assert_eq!(made(&space).len(), 2);
    end(&space, "app-up-hang");
    space.wait_field("configmap/app", "/data/greeting", &json!("two"));
    let next = eventually("the operation begins", || {
        let other = |name: &String| name.starts_with("app-backup-hang-") && *name != job;
        jobs(&space).into_iter().find(other).ok_or("not yet")
    });
    assert!(space.condition("web/app", "OperationPending").is_err());
    end(&space, &next);
    assert_eq!(wait_done(&space, "backup@2"), "Succeeded");
}

/// Members wait, too.
#[test]
fn no_member_comes_while_an_operation_runs() {
    let space = Space::new("opmembers");
    let _kubelet = Kubelet::with(&space, |pod| {
        let of_job = pod.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("job-name"));
        let hangs = pod.metadata.name.as_deref().is_some_and(|name| name.contains("-check-"));
        match (of_job, hangs) {
            (_, true) => None,
            (true, _) => Some(json!({"phase": "Succeeded"})),
            _ => Some(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})),
        }
    });
    let operator = installed(&space, "members", &json!({"size": 1, "operation": true}));
    space.wait_field("web/app", "/status/plan/state", &json!("Complete"));
    ask(&space, "check");
    let job = eventually("the Job", || jobs(&space).into_iter().find(|job| job.contains("-check-")).ok_or("none"));
    space.apply_with(
        "Web",
        "app",
        &json!({"tillerman.dev/operation": "check"}),
        &json!({"size": 2, "operation": true}),
    );
    eventually("it waits", || {
        let ready = space.condition("web/app", "Ready")?;
        if ready["message"] == "waiting for the end of operation check" { Ok(()) } else { Err(ready.to_string()) }
    });
    operator.settle();
    space.wait_field("statefulset/app-db", "/spec/replicas", &json!(1));
    end(&space, &job);
    space.wait_field("statefulset/app-db", "/spec/replicas", &json!(2));
    assert_eq!(wait_done(&space, "check"), "Succeeded");
}

/// A crash neither loses nor repeats: killed while it runs, and while it ends with nobody there.
#[test]
fn an_operator_that_is_killed_goes_on_with_what_runs() {
    let space = Space::new("opkilled");
    let _kubelet = Kubelet::new(&space);
    let watches = space.watches(&[("Web", "hooks")]);
    let hooks = [("backup-hang", "Job", BACKUP, json!({}))];
    let operator = installed(&space, "hooks", &values("one", &hooks));
    // As soon as it says that one runs, and as soon as there is a Job.
    ask(&space, "backup@1");
    space.wait_field("web/app", "/status/operation/name", &json!("backup"));
    operator.kill();
    let operator = space.operator(&watches, &[]);
    let job = wait_job(&space);
    operator.kill();
    let operator = space.operator(&watches, &[]);
    operator.settle();
    assert_eq!(jobs(&space), [job.as_str()]);
    operator.kill();
    end(&space, &job);
    space.wait_field(&format!("job/{job}"), "/status/succeeded", &json!(1));
    let operator = space.operator(&watches, &[]);
    assert_eq!(wait_done(&space, "backup@1"), "Succeeded");
    operator.kill();
    // Its objects are gone. The status still has the outcome.
    space.kubectl(&["delete", "job", &job]).unwrap();
    let operator = space.operator(&watches, &[]);
    operator.settle();
    assert_eq!(made(&space), [job]);
}

/// Without the right to read release records the operator does not know the operations. A running one continues when it can read them
/// again.
#[test]
fn one_that_runs_is_not_lost_while_the_records_cannot_be_read() {
    let space = Space::new("opblind");
    let _kubelet = Kubelet::new(&space);
    let operator = installed(&space, "hooks", &values("one", &[("backup-hang", "Job", BACKUP, json!({}))]));
    ask(&space, "backup@1");
    let job = wait_job(&space);
    operator.kill();
    space.restrict(&[
        "--verb=get,list,watch,create,update,patch,delete",
        "--resource=webs.test.tillerman.dev,webs.test.tillerman.dev/status,configmaps,jobs.batch,pods,events",
    ]);
    let operator = space.operator(&space.watches(&[("Web", "hooks")]), &[]);
    eventually("the missing right is told", || {
        let ready = space.condition("web/app", "Ready")?;
        if ready["reason"] == "Forbidden" { Ok(()) } else { Err(ready.to_string()) }
    });
    let status = space.get("web/app").unwrap()["status"].clone();
    assert_eq!(status["operation"]["name"], "backup", "{status}");
    operator.kill();
    let (role, user) = ("--clusterrole=cluster-admin", format!("--user={}", space.name));
    let binding = format!("{}-more", space.name);
    kubectl(&["create", "clusterrolebinding", &binding, role, &user], None).unwrap();
    let _operator = space.operator(&space.watches(&[("Web", "hooks")]), &[]);
    end(&space, &job);
    assert_eq!(wait_done(&space, "backup@1"), "Succeeded");
    kubectl(&["delete", "clusterrolebinding", &binding], None).unwrap();
}

#[test]
fn an_operation_takes_no_object_of_somebody_else() {
    let space = Space::new("optheirs");
    let policy = json!({"helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"});
    let operator = installed(&space, "hooks", &values("one", &[("list", "ConfigMap", BACKUP, policy)]));
    space.kubectl(&["create", "configmap", "app-list", "--from-literal=of=nobody"]).unwrap();
    let before = space.get("configmap/app-list").unwrap();
    ask(&space, "backup@1");
    assert_eq!(wait_done(&space, "backup@1"), "Failed");
    let message = space.wait("web/app", "OperationFailed", "True")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("ConfigMap app-list") && message.contains("delete or rename that object"), "{message}");
    operator.settle();
    assert_eq!(space.get("configmap/app-list").unwrap(), before);
    space.kubectl(&["delete", "configmap/app-list"]).unwrap();
    ask(&space, "backup@2");
    assert_eq!(wait_done(&space, "backup@2"), "Succeeded");
}

//! No internal failure stops the operator silently: a panic of a pass is a failure of its custom resource, a panic of a task
//! ends the process, and `/healthz` reports a task that hangs.

use crate::harness::{Operator, Space, eventually, eventually_within};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The program that was built with these tests: no other has points at which it can be harmed.
const PROGRAM: &str = env!("CARGO_BIN_EXE_tillerman");

/// A file that says what harm is done, and the operator that reads it.
fn harmed(space: &mut Space, harm: &str, more: &[&str]) -> (PathBuf, Operator) {
    let file = space.file("harm", harm);
    space.env.push(("TILLERMAN_HARM", file.clone()));
    let watches = space.watches(&[("Web", "web")]);
    let operator = space.program_with(PROGRAM, &watches, &space.kubeconfig(None), more);
    (file, operator)
}

fn value_of(metrics: &str, start: &str) -> u64 {
    let line = metrics.lines().find(|l| l.starts_with(start));
    line.and_then(|l| l.rsplit(' ').next()).and_then(|v| v.parse().ok()).unwrap_or(0)
}

#[test]
fn a_period_longer_than_any_clock_is_as_good_as_never() {
    let space = Space::new("century");
    // Each would take a worker with it.
    let operator = space.operator(&space.watches(&[("Web", "web")]), &["--max-concurrent-reconciles=2"]);
    let annotations = json!({"helm.sdk.operatorframework.io/reconcile-period": "5000000000000000h"});
    for name in ["a", "b", "c"] {
        space.apply_with("Web", name, &annotations, &json!({}));
        space.wait_web(name);
    }
    space.apply_with("Web", "a", &annotations, &json!({"greeting": "again"}));
    space.wait_field("configmap/a-config", "/data/greeting", &json!("again"));
    for name in ["a", "b", "c"] {
        space.delete(&format!("web/{name}"));
        space.wait_gone(&format!("web/{name}"));
    }
    // One that cannot be read counts as none, as in helm-operator.
    let annotations = json!({"helm.sdk.operatorframework.io/reconcile-period": "soon"});
    space.apply_with("Web", "d", &annotations, &json!({}));
    space.wait_web("d");
    assert!(operator.stop());
}

#[test]
fn a_pass_that_panics_is_a_failure_of_its_custom_resource_alone() {
    let mut space = Space::new("panic");
    let (harm, operator) = harmed(&mut space, "panic pass bad\n", &["--max-concurrent-reconciles=1"]);
    space.apply("Web", "bad", &json!({}));
    let ready = space.wait("web/bad", "Ready", "False");
    assert_eq!(ready["reason"], "Panic", "{ready}");
    let message = ready["message"].as_str().unwrap();
    assert!(message.contains("src/harm.rs:"), "{message}");
    assert!(space.wait_event("Panic").contains("src/harm.rs:"));
    let failures = "tillerman_failures_total{controller=\"web-controller\",reason=\"Panic\"}";
    eventually("it is counted, and tried again", || match value_of(&operator.metrics(), failures) {
        0 | 1 => Err("not yet"),
        _ => Ok(()),
    });
    // Its worker continues.
    space.apply("Web", "good", &json!({}));
    space.wait_web("good");
    assert!(operator.log().contains("panic: a fault of the operator"), "{}", operator.log());
    std::fs::write(harm, "").unwrap();
    space.wait_web("bad");
    assert!(space.condition("web/bad", "Irreconcilable").is_err(), "it is as if it had not been");
    space.delete("web/bad");
    space.wait_gone("web/bad");
    assert!(operator.stop());
}

/// Runs an operator until it ends; its exit code and its log.
fn ends(space: &Space, watches: &Path, kubeconfig: &Path, harm: &str) -> (Option<i32>, String) {
    let (harm, log) = (space.file("harm", harm), space.dir().join("ends.log"));
    let mut child = Command::new(PROGRAM)
        .args([
            "run",
            "--metrics-bind-address=127.0.0.1:0",
            "--health-probe-bind-address=127.0.0.1:0",
            "--leader-elect",
        ])
        .arg("--watches-file")
        .arg(watches)
        .env("KUBECONFIG", kubeconfig)
        .env("WATCH_NAMESPACE", &space.name)
        .env("TILLERMAN_HARM", harm)
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let since = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if since.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    (status, std::fs::read_to_string(log).unwrap())
}

#[test]
fn a_task_that_panics_or_ends_ends_the_process_with_the_reason() {
    let space = Space::new("tasks");
    let watches = space.watches(&[("Web", "web"), ("Failing", "failing")]);
    let kubeconfig = space.kubeconfig(None);
    let operator = space.program_with(PROGRAM, &watches, &kubeconfig, &[]);
    space.apply("Web", "app", &json!({}));
    space.wait_web("app");
    assert!(operator.stop());
    for task in [
        "charts",
        "clock",
        "custom resources of test.tillerman.dev/v1, Kind=Web",
        "end of watches",
        "kinds in use",
        "lease",
        "sender of events",
        "server of metrics",
        "server of probes",
        "watch of apps/v1, Kind=Deployment",
        "watch of release records",
        "watch of test.tillerman.dev/v1, Kind=Failing",
        "worker",
    ] {
        for (harm, says) in [("panic", "panicked at src/harm.rs:"), ("end", "ended, and should not have")] {
            let may_end =
                ["charts", "kinds in use"].contains(&task) || task.starts_with("watch of") && task.contains("Kind");
            if harm == "end" && may_end {
                continue;
            }
            let (code, log) = ends(&space, &watches, &kubeconfig, &format!("{harm} task {task}\n"));
            assert_eq!(code, Some(1), "{harm} {task}: {log}");
            let reason = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let reason = reason.filter_map(|line| line["why"].as_str().map(str::to_owned)).collect::<Vec<_>>();
            let expected = format!("the task {task:?} {says}");
            assert!(reason.iter().any(|why| why.starts_with(&expected)), "{expected} is not in {log}");
        }
    }
}

#[test]
fn healthz_reports_a_task_that_hangs() {
    for (harm, says) in [
        ("hang pass app\n", "the pass over Web NAMESPACE/app has made no progress for "),
        ("block pass app 20\n", "the task \"worker\" has kept a thread for "),
    ] {
        let mut space = Space::new("still");
        space.env.push(("TILLERMAN_HARM_LIMIT", "3000".into()));
        let (_, operator) = harmed(&mut space, harm, &[]);
        space.apply("Web", "app", &json!({}));
        let says = says.replace("NAMESPACE", &space.name);
        eventually_within(60, "it is told", || match operator.healthy() {
            Err(why) if why.starts_with("HTTP/1.1 500") && why.contains(&says) => Ok(()),
            other => Err(format!("{other:?}")),
        });
        operator.kill();
    }
}

#[test]
fn a_lease_is_kept_while_passes_keep_every_thread() {
    let mut space = Space::new("blocked");
    // The main runtime has two threads; a lease that is not renewed for 15 seconds is another's.
    let harm = "block pass one 20\nblock pass two 20\nblock pass three 20\nblock pass four 20\n";
    let (harm, first) = harmed(&mut space, harm, &["--leader-elect"]);
    eventually("it leads", || if first.log().contains("this instance leads") { Ok(()) } else { Err("not yet") });
    space.env.clear();
    let watches = space.watches(&[("Web", "web")]);
    let second = space.operator(&watches, &["--leader-elect"]);
    eventually("it waits", || if second.log().contains("another instance leads") { Ok(()) } else { Err("not yet") });
    let renewed = || space.get("lease/tillerman").unwrap()["spec"]["renewTime"].clone();
    let began = Instant::now();
    for name in ["one", "two", "three", "four"] {
        space.apply("Web", name, &json!({}));
    }
    let (mut last, mut at, mut longest) = (renewed(), Instant::now(), Duration::ZERO);
    while began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(200));
        let now = renewed();
        if now != last {
            (last, at) = (now, Instant::now());
        }
        longest = longest.max(at.elapsed());
    }
    assert!(longest < Duration::from_secs(8), "not renewed for {longest:?}");
    std::fs::write(harm, "").unwrap();
    for name in ["one", "two", "three", "four"] {
        space.wait_web(name);
    }
    assert!(!second.log().contains("this instance leads"), "{}", second.log());
    assert_eq!(space.get("lease/tillerman").unwrap()["spec"]["leaseTransitions"], 0);
    assert!(first.stop());
}

//! The operator is killed after each single write of an operation, while an upgrade waits for it: the operation is done once, and the
//! upgrade follows.
//!
//! Codes in names are rules of docs/design/applying.md.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::Space;
use crate::killed::Sweep;
use crate::kubelet::Kubelet;
use crate::proxy::{Proxy, ProxyFault};
use crate::release::Sight;

/// Nothing of a run is deleted when it went well, so that each run is seen.
fn spec(greeting: &str) -> Value {
    let hook = |name: &str, kind: &str, weight: i64| json!({"name": name, "kind": kind, "events": "operation/backup", "weight": weight, "policy": "hook-failed"});
    let mut room = hook("room", "ConfigMap", -1);
    room["policy"] = json!("before-hook-creation");
    json!({"greeting": greeting, "hooks": [hook("dump", "Job", 0), hook("ship", "Job", 1), room]})
}

fn put(space: &Space, name: &str, annotations: &Value, greeting: &str) {
    space.apply_with("Web", name, annotations, &spec(greeting));
}

fn is_at(sight: &Sight, name: &str, greeting: &str, revisions: usize) -> Result<(), String> {
    sight.is_deployed(name)?;
    let (found, settled) = (sight.field("ConfigMap", name, "/data/greeting")?, sight.is_settled(name)?);
    if found == greeting && settled == revisions { Ok(()) } else { Err(format!("{found}, {settled} revisions")) }
}

fn sweep(test: &str) -> Sweep<'_> {
    Sweep {
        test,
        chart: "hooks",
        lanes: 4,
        prepare: (&|space, name| put(space, name, &json!({}), "one"), &|sight, name| is_at(sight, name, "one", 1)),
        act: &|space, name| {
            let asked = json!({"tillerman.dev/operation": "backup@1"});
            put(space, name, &asked, "one");
            // Whoever was killed before that has not begun: then the upgrade comes first.
            let begun = |at: &str| Sight::of(space).and_then(|sight| sight.field("Web", name, at));
            let since = Instant::now();
            while since.elapsed() < Duration::from_secs(4)
                && ["/status/operation", "/status/lastHandledOperation"]
                    .iter()
                    .all(|at| begun(at).is_ok_and(|v| v.is_null()))
            {
                std::thread::sleep(Duration::from_millis(50));
            }
            put(space, name, &asked, "two");
        },
        end: &|sight, name| {
            let field = |at: &str| sight.field("Web", name, at);
            if field("/status/lastHandledOperation")? != "backup@1" || !field("/status/operation")?.is_null() {
                return Err(field("/status")?.to_string());
            }
            if field("/status/operations/backup/result")? != "Succeeded" {
                return Err(field("/status/operations")?.to_string());
            }
            for (hook, kind) in [("dump-", "Job"), ("ship-", "Job"), ("room", "ConfigMap")] {
                let made = sight.names(kind, &format!("{name}-{hook}"));
                if made.len() != 1 {
                    return Err(format!("{made:?}"));
                }
            }
            is_at(sight, name, "two", 2)
        },
    }
}

#[test]
fn after_each_write_of_an_operation_and_the_upgrade_that_waits_for_it() {
    assert!(sweep("kill-operation").run() > 10);
}

/// The write is not done: what was to be remembered is not.
#[test]
fn before_each_write_of_an_operation_and_the_upgrade_that_waits_for_it() {
    assert!(sweep("kill-before-op").run_with(ProxyFault::FreezeBefore) > 10);
}

/// A6. The answer to the deletion of a Job comes after the watch has seen it go: it does not bring it back, to be waited for for ever.
#[test]
fn a_deletion_that_is_answered_after_its_object_has_gone_is_over() {
    let space = Space::new("overtaken");
    let proxy = Proxy::new(&space.kubeconfig(None));
    let kubeconfig = space.kubeconfig(Some(&format!("http://127.0.0.1:{}", proxy.port)));
    let _kubelet = Kubelet::new(&space);
    let operator = space.operator_with(&space.watches(&[("Web", "hooks")]), &kubeconfig, &[]);
    let annotations = json!({"tillerman.dev/timeout": "2s"});
    let hook = json!({"name": "dump-hang", "kind": "Job", "events": "operation/backup", "annotations": annotations});
    let spec = json!({"hooks": [hook]});
    space.apply("Web", "app", &spec);
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    proxy.judge(|request| {
        (request.method == "DELETE" && request.target.contains("/jobs/")).then_some(ProxyFault::Delay)
    });
    space.apply_with("Web", "app", &json!({"tillerman.dev/operation": "backup"}), &spec);
    let failed = space.wait("web/app", "OperationFailed", "True");
    assert!(failed["message"].as_str().unwrap().contains("did not end within 2 seconds"), "{failed}");
    assert_eq!(proxy.faults(), 1);
}

//! The status, step by step.

use super::{StepState, failed, finished, over, plan, proven};
use crate::plan::operations::document::Operations;
use crate::plan::operations::document::tests::job;
use crate::plan::operations::state::{Ended, OperationResult, Running, StoredOperations};
use crate::render;
use serde_json::json;

fn operations() -> Operations {
    let hooks =
        [job("first", "operation/backup", &[]), render::Hook { weight: 1, ..job("second", "operation/backup", &[]) }];
    Operations::read(&hooks, &[]).unwrap().unwrap()
}

fn running(done: u32) -> Running {
    let start_time = "1970-01-01T00:00:09Z".into();
    Running { name: "backup".into(), request: Some("backup@1".into()), start_time, done, ..Running::default() }
}

#[test]
fn the_plan_has_a_phase_for_each_object_and_the_step_that_is_done_now() {
    let now = plan(&operations(), &running(1), "Job second-1", StepState::Waiting);
    let expected = json!({
        "operation": "backup", "request": "backup@1", "state": "InProgress", "since": 9,
        "phases": [
            {"name": "Job first", "state": "Complete"},
            {"name": "Job second", "state": "InProgress", "steps": [{"name": "Job second-1", "state": "Waiting"}]},
        ],
    });
    assert_eq!(now, expected);
    let ended = Ended { result: OperationResult::Failed, message: "no".into() };
    let last = plan(&operations(), &Running { ended: Some(ended.clone()), ..running(0) }, "", StepState::Done);
    assert_eq!(
        last["phases"],
        json!([{"name": "Job first", "state": "Failed"}, {"name": "Job second", "state": "Pending"}])
    );
    let done = finished(Some(&last), &running(0), &ended);
    assert_eq!((&done["state"], &done["phases"]), (&json!("Failed"), &last["phases"]));
    assert_eq!(finished(Some(&json!({"members": "db"})), &running(0), &ended)["phases"], json!([]));
}

#[test]
fn a_failure_is_reported_until_the_same_operation_succeeds() {
    let mut kept = StoredOperations::default();
    let ended = |result, message: &str| Ended { result, message: message.into() };
    over(&mut kept, &running(0), &ended(OperationResult::Refused, "a backup runs"), "2026-01-01T00:00:00Z".into());
    assert_eq!(kept.handled.as_deref(), Some("backup@1"));
    assert_eq!(failed(&kept), Some(("HookRefused", "operation backup: a backup runs".into())));
    let other = Running { name: "check".into(), request: None, ..running(0) };
    over(&mut kept, &other, &ended(OperationResult::Failed, "no"), "2026-01-02T00:00:00Z".into());
    assert_eq!(kept.handled.as_deref(), Some("backup@1"));
    assert_eq!(failed(&kept), Some(("HookFailed", "operation check: no".into())));
    over(&mut kept, &other, &ended(OperationResult::Succeeded, ""), "2026-01-03T00:00:00Z".into());
    assert_eq!(failed(&kept), Some(("HookRefused", "operation backup: a backup runs".into())));
    over(&mut kept, &running(2), &ended(OperationResult::Succeeded, ""), "2026-01-04T00:00:00Z".into());
    assert_eq!(failed(&kept), None);
}

#[test]
fn the_last_drill_that_ended_proves_a_restore_or_not() {
    let mut all = operations();
    let mut kept = StoredOperations::default();
    let at = |day| format!("2026-01-0{day}T00:00:00Z");
    let mut ends = |result, message: &str, day, all: &Operations| {
        over(&mut kept, &running(0), &Ended { result, message: message.into() }, at(day));
        proven(all, &kept)
    };
    assert_eq!(ends(OperationResult::Succeeded, "12 tables", 1, &all), None, "the operation is not a drill");
    all.hooks[0].proves_restore = true;
    let restored = Some((true, "Restored", "operation backup succeeded at 2026-01-02T00:00:00Z: 12 tables".to_owned()));
    assert_eq!(ends(OperationResult::Succeeded, "12 tables", 2, &all), restored);
    let harmed =
        Some((false, "RestoreFailed", "operation backup failed at 2026-01-03T00:00:00Z: a log is gone".to_owned()));
    assert_eq!(ends(OperationResult::Failed, "a log is gone", 3, &all), harmed);
    assert_eq!(ends(OperationResult::Refused, "another drill runs", 4, &all), None);
}

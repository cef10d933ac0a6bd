//! A row for each way in which an operation begins, waits or does not.

use super::super::document::Operations;
use super::super::document::tests::job;
use super::{Begin, begin, due, see, unknown};
use crate::plan::operations::state::{Running, StoredOperations, seconds, time};

const NOW: i64 = 1_700_000_000;

fn operations() -> Operations {
    let hooks =
        [job("a", "operation/backup", &[("tillerman.dev/schedule", "0 * * * *")]), job("b", "operation/check", &[])];
    Operations::read(&hooks, &[]).unwrap().unwrap()
}

/// The state after operations were seen at a time.
fn seen(at: i64) -> StoredOperations {
    let mut kept = StoredOperations::default();
    see(&mut kept, &operations(), None, at);
    kept
}

fn asked(name: &str, request: &str) -> Running {
    Running { name: name.into(), request: Some(request.into()), start_time: time(NOW), ..Running::default() }
}

#[test]
fn a_request_begins_once_for_each_text() {
    let (operations, mut kept) = (operations(), seen(NOW));
    let at = |kept: &StoredOperations, request| begin(&operations, kept, request, false, NOW);
    assert_eq!(at(&kept, None), Begin::Nothing);
    assert_eq!(at(&kept, Some("check")), Begin::Starts(asked("check", "check")));
    kept.handled = Some("check".into());
    assert_eq!(at(&kept, Some("check")), Begin::Nothing);
    assert_eq!(at(&kept, Some("check@2")), Begin::Starts(asked("check", "check@2")));
    // Without the annotation it is forgotten, and may come again.
    see(&mut kept, &operations, None, NOW);
    assert_eq!(at(&kept, Some("check")), Begin::Starts(asked("check", "check")));
}

#[test]
fn it_waits_while_something_else_is_done() {
    assert_eq!(begin(&operations(), &seen(NOW), Some("check@2"), true, NOW), Begin::Waits("check".into()));
    assert_eq!(begin(&operations(), &seen(NOW - 7200), None, true, NOW), Begin::Waits("backup".into()));
}

#[test]
fn a_request_for_what_there_is_not_says_what_there_is_and_holds_up_no_schedule() {
    let said = |operations: &Operations, request| unknown(operations, &StoredOperations::default(), request);
    let expected = "there is no operation \"chekc\"; the chart has backup, check";
    assert_eq!(said(&operations(), Some("chekc@1")).as_deref(), Some(expected));
    assert_eq!(said(&operations(), Some("check@1")), None);
    let none = Operations::default();
    assert_eq!(said(&none, Some("x")).as_deref(), Some("there is no operation \"x\": the chart has none"));
    let begun = begin(&operations(), &seen(NOW - 7200), Some("chekc"), false, NOW);
    assert!(matches!(begun, Begin::Starts(running) if running.name == "backup"));
}

#[test]
fn a_schedule_that_was_missed_many_times_is_made_up_for_once() {
    let mut kept = seen(NOW - 100_000);
    let Begin::Starts(running) = begin(&operations(), &kept, None, false, NOW) else { panic!("it is due") };
    let at = running.schedule_time.as_deref().and_then(seconds).unwrap();
    assert!(at <= NOW && at > NOW - 3600 && at % 3600 == 0, "{running:?}");
    kept.operations.get_mut("backup").unwrap().last_schedule_time = running.schedule_time;
    assert_eq!(begin(&operations(), &kept, None, false, NOW), Begin::Nothing);
    assert_eq!(due(&operations(), &kept), Some(at + 3600));
}

#[test]
fn what_was_due_before_a_schedule_was_known_is_not_made_up_for() {
    let kept = seen(NOW);
    assert_eq!(begin(&operations(), &kept, None, false, NOW), Begin::Nothing);
    assert_eq!(due(&operations(), &kept), Some((NOW / 3600 + 1) * 3600));
    // Nor after it changed.
    let hooks = [job("a", "operation/backup", &[("tillerman.dev/schedule", "30 * * * *")])];
    let other = Operations::read(&hooks, &[]).unwrap().unwrap();
    let mut kept = seen(NOW - 100_000);
    see(&mut kept, &other, None, NOW);
    assert_eq!(begin(&other, &kept, None, false, NOW), Begin::Nothing);
    // An operation that the chart no longer has is forgotten.
    see(&mut kept, &Operations::default(), None, NOW);
    assert_eq!(kept, StoredOperations::default());
}

#[test]
fn what_is_remembered_survives_the_status() {
    let mut kept = seen(NOW);
    kept.running = Some(Running { done: 1, attempt: 2, not_before: Some(3), ..asked("check", "check@1") });
    kept.handled = Some("check".into());
    let mut status = serde_json::Map::new();
    kept.write(&mut status);
    assert_eq!(StoredOperations::read(&status), kept);
    StoredOperations::default().write(&mut status);
    assert!(status.is_empty());
}

//! A row for each state of the operation that runs, and the next step.

use serde_json::json;

use super::super::document::tests::job;
use super::super::document::{Hook, Operations};
use super::{OperationStep, PodsSaid, Trouble, View, finish, judge, next};
use crate::mask::Text;
use crate::plan::operations::run::{Mark, Objects, Placed};
use crate::plan::operations::state::{Ended, OperationResult, Running};
use crate::release::hook_run::{HookOutcome, HookRun};
use crate::release::live::Live;
use crate::release::owner::owner;
use crate::render;
use crate::runs::Exit;

const CREATED: i64 = 1000;

fn operations() -> Operations {
    let policy = |policy: &str| vec![policy.to_owned()];
    let hooks = [
        render::Hook { delete_policies: policy("hook-succeeded"), ..job("first", "operation/backup", &[]) },
        render::Hook { weight: 1, ..job("second", "operation/backup", &[]) },
    ];
    Operations::read(&hooks, &[]).unwrap().unwrap()
}

fn running() -> Running {
    Running { name: "backup".into(), request: Some("backup".into()), start_time: "t".into(), ..Running::default() }
}

fn place(hooks: &[Hook], running: &Running) -> Vec<Placed> {
    hooks.iter().map(|hook| Placed::new(hook, running, 3, &owner(), true).unwrap()).collect()
}

/// The object of a hook of a run.
fn live(running: &Running, hook: usize, outcome: HookOutcome, deleting: bool) -> (Placed, Live) {
    let placed = place(&operations().hooks, running).swap_remove(hook);
    let text = placed.body["metadata"]["annotations"]["tillerman.dev/hook"].as_str().unwrap();
    let words: Vec<&str> = text.split(' ').collect();
    assert_eq!((words[0], words[1]), ("3", "operation/backup"));
    let run = HookRun { revision: 3, event: words[1].into(), digest: words[2].into(), created: CREATED, outcome };
    let live = Live { deleting, hook: Some(Box::new(run)), ..Live::example() };
    (placed, live)
}

fn objects(all: Vec<(Placed, Live)>) -> Objects {
    all.into_iter().map(|(placed, live)| (placed.id, live)).collect()
}

fn step(running: &Running, live: &Objects, now: i64) -> OperationStep {
    let operations = operations();
    let placed = place(&operations.hooks, running);
    next(&View { operations: &operations, running, placed: &placed, live, timeout: 300, now })
}

#[test]
fn its_objects_are_made_one_after_the_other_and_each_is_waited_for() {
    let first = running();
    assert_eq!(step(&first, &Objects::new(), CREATED), OperationStep::Start(0));
    let runs = objects(vec![live(&first, 0, HookOutcome::Running, false)]);
    let OperationStep::Wait { why, until } = step(&first, &runs, CREATED + 1) else { panic!("it runs") };
    assert!(why.starts_with("Job first-") && until == CREATED + 31, "{why} {until}");
    let done = objects(vec![live(&first, 0, HookOutcome::Succeeded, false)]);
    let second = Running { done: 1, ..first.clone() };
    assert_eq!(step(&first, &done, CREATED), OperationStep::Remember(second.clone()));
    assert_eq!(step(&second, &done, CREATED), OperationStep::Start(1));
    // An object that is done is not created again when somebody deletes it.
    assert_eq!(step(&second, &Objects::new(), CREATED), OperationStep::Start(1));
    let over = Running { done: 2, ..first.clone() };
    let ended = Some(Ended { result: OperationResult::Succeeded, message: String::new() });
    assert_eq!(step(&over, &done, CREATED), OperationStep::Remember(Running { ended, ..over.clone() }));
    let last = objects(vec![live(&second, 1, HookOutcome::Succeeded, false)]);
    assert_eq!(step(&second, &last, CREATED), OperationStep::Finish(1));
    let ended = Some(Ended { result: OperationResult::Succeeded, message: "7 rows".into() });
    assert_eq!(finish(&second, "7 rows".into()), Running { ended, ..over.clone() });
}

#[test]
fn what_fails_or_takes_too_long_is_looked_at() {
    let trouble = |step| match step {
        OperationStep::Judge(Trouble { why, late, .. }) => (why, late),
        step => panic!("{step:?}"),
    };
    let failed = objects(vec![live(&running(), 0, HookOutcome::Failed("no".into()), false)]);
    assert_eq!(trouble(step(&running(), &failed, CREATED)), ("no".into(), false));
    let runs = objects(vec![live(&running(), 0, HookOutcome::Running, false)]);
    assert!(matches!(step(&running(), &runs, CREATED + 299), OperationStep::Wait { .. }));
    assert_eq!(trouble(step(&running(), &runs, CREATED + 300)), (Text::own("it did not end within 300 seconds"), true));
    let gone = next(&View {
        operations: &Operations::default(),
        running: &running(),
        placed: &[],
        live: &runs,
        timeout: 300,
        now: CREATED,
    });
    assert!(matches!(
        gone,
        OperationStep::Remember(Running { ended: Some(Ended { result: OperationResult::Failed, .. }), .. })
    ));
}

#[test]
fn an_exit_code_says_what_follows() {
    let (operations, running) = (operations(), running());
    let placed = place(&operations.hooks, &running);
    let live = Objects::new();
    let view =
        |now| View { operations: &operations, running: &running, placed: &placed, live: &live, timeout: 300, now };
    let trouble = |late| Trouble { hook: 0, why: "DeadlineExceeded".into(), late, created: CREATED };
    let said = |code: Option<i64>| PodsSaid {
        why: "DeadlineExceeded".into(),
        exit: code.map(Exit::of),
        message: "why".into(),
        lines: "; the last lines".into(),
    };
    let again = judge(&view(CREATED + 10), &trouble(false), &said(Some(75)));
    let expected =
        Running { attempt: 1, first_attempt: Some(CREATED), not_before: Some(CREATED + 15), ..running.clone() };
    assert_eq!(again, expected);
    let ended = |running: Running| running.ended.map(|ended| (ended.result, ended.message)).unwrap();
    let name = placed[0].id.to_string();
    let table = [
        (Some(75), false, 295, OperationResult::Failed, ": not yet, for 300 seconds: why"),
        (Some(64), false, 10, OperationResult::Refused, ": refused: why"),
        (Some(1), false, 10, OperationResult::Failed, ": DeadlineExceeded; the last lines"),
        (None, false, 10, OperationResult::Failed, ": DeadlineExceeded; the last lines"),
        (Some(64), true, 10, OperationResult::Failed, ": DeadlineExceeded; the last lines"),
    ];
    for (code, late, after, result, text) in table {
        let judged = judge(&view(CREATED + after), &trouble(late), &said(code));
        assert_eq!(ended(judged), (result, format!("{name}{text}")), "{code:?} {late}");
    }
}

#[test]
fn the_next_attempt_is_another_object_and_the_one_before_goes_first() {
    let again = Running { attempt: 1, first_attempt: Some(CREATED), not_before: Some(CREATED + 15), ..running() };
    let old = live(&running(), 0, HookOutcome::Failed("not yet".into()), false);
    let id = old.0.id.clone();
    let left = objects(vec![old]);
    assert_eq!(step(&again, &left, CREATED + 10), OperationStep::Delete { id, uid: "u".into(), runs: false });
    assert!(
        matches!(step(&again, &Objects::new(), CREATED + 10), OperationStep::Wait { until, .. } if until == CREATED + 15)
    );
    assert_eq!(step(&again, &Objects::new(), CREATED + 15), OperationStep::Start(0));
    assert_ne!(place(&operations().hooks, &again)[0].id, place(&operations().hooks, &running())[0].id);
}

#[test]
fn what_an_earlier_run_left_goes_before_by_its_policy() {
    let earlier = Running { start_time: "before".into(), ..running() };
    let second = live(&earlier, 1, HookOutcome::Succeeded, false);
    let id = second.0.id.clone();
    assert_eq!(
        step(&running(), &objects(vec![second]), CREATED),
        OperationStep::Delete { id, uid: "u".into(), runs: false }
    );
    // The first has another policy alone.
    let first = objects(vec![live(&earlier, 0, HookOutcome::Failed("no".into()), false)]);
    assert_eq!(step(&running(), &first, CREATED), OperationStep::Start(0));
}

#[test]
fn nothing_runs_any_more_when_it_is_over_and_policies_say_what_stays() {
    let ended = Ended { result: OperationResult::Failed, message: "late".into() };
    let over = Running { done: 1, ended: Some(ended.clone()), ..running() };
    let first = live(&over, 0, HookOutcome::Succeeded, false);
    let id = first.0.id.clone();
    let all = |deleting| objects(vec![live(&over, 1, HookOutcome::Running, deleting)]);
    assert!(matches!(step(&over, &all(false), CREATED), OperationStep::Delete { runs: true, .. }));
    assert!(matches!(step(&over, &all(true), CREATED), OperationStep::Wait { .. }));
    assert_eq!(step(&over, &objects(vec![first]), CREATED), OperationStep::Delete { id, uid: "u".into(), runs: false });
    let failed = objects(vec![live(&over, 1, HookOutcome::Failed("no".into()), false)]);
    assert_eq!(step(&over, &failed, CREATED), OperationStep::Over(ended));
}

#[test]
fn a_job_stays_until_its_end_was_seen_and_shows_its_last_lines() {
    let placed = place(&operations().hooks, &running()).swap_remove(0);
    assert!(placed.id.name.len() <= 63 && placed.body["metadata"]["name"] == *placed.id.name);
    assert_eq!(placed.body["spec"].get("ttlSecondsAfterFinished"), None);
    let container = &placed.body["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["terminationMessagePolicy"], "FallbackToLogsOnError");
    let (_, live) = live(&running(), 0, HookOutcome::Running, false);
    assert!(Mark::of(&running()).made(&live).is_some());
    assert!(Mark::of(&Running { start_time: "later".into(), ..running() }).is_earlier(&live));

    // A Pod has its containers elsewhere.
    let mut pod = operations().hooks.swap_remove(0);
    let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "first"}, "spec": {"containers": [{"name": "run"}]}});
    pod.body = body.as_object().unwrap().clone();
    let placed = place(&[pod], &running()).swap_remove(0);
    assert_eq!(placed.body["spec"]["containers"][0]["terminationMessagePolicy"], "FallbackToLogsOnError");
}

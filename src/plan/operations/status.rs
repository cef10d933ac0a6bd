//! The part of the status about operations. It follows from the stored state and the actions of the pass. Nothing is
//! decided from it.

use serde_json::{Map, Value, json};

use super::document::Operations;
use super::next::named;
use super::state::{Ended, Last, OperationResult, Running, StoredOperations, seconds};
use crate::object::conditions::bound;

/// For the status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationsStatus {
    /// The state to store.
    pub kept: StoredOperations,
    /// `status.plan`; none: as before.
    pub plan: Option<Value>,
    /// Why one failed: reason and message.
    pub failed: Option<(&'static str, String)>,
    /// Whether the last run of an operation that proves a restore succeeded, with its reason and message.
    pub proven: Option<(bool, &'static str, String)>,
    /// Why an operation waits before it begins: reason and message.
    pub pending: Option<(&'static str, String)>,
    /// Other work that waits until the operation is over.
    pub holds: bool,
}

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum StepState {
    Done,
    Waiting,
}

/// Enters it in a status, without the conditions.
pub fn enter(status: &mut Map<String, Value>, told: &OperationsStatus) {
    told.kept.write(status);
    if let Some(plan) = &told.plan {
        status.insert("plan".into(), plan.clone());
    }
}

/// The plan of the operation that runs, with the finished steps of the present phase.
pub fn plan(operations: &Operations, running: &Running, step: &str, state: StepState) -> Value {
    let phase = |(at, hook): (usize, _)| {
        let (name, at) = (named(hook), u32::try_from(at).unwrap_or(u32::MAX));
        match &running.ended {
            _ if at < running.done => json!({"name": name, "state": "Complete"}),
            _ if at > running.done => json!({"name": name, "state": "Pending"}),
            Some(ended) => json!({"name": name, "state": word(ended.result)}),
            None => {
                let state = if state == StepState::Done { "Done" } else { "Waiting" };
                json!({"name": name, "state": "InProgress", "steps": [{"name": step, "state": state}]})
            }
        }
    };
    let phases: Vec<Value> = operations.of(&running.name).enumerate().map(phase).collect();
    let mut plan = json!({
        "operation": running.name, "state": "InProgress", "since": seconds(&running.start_time), "phases": phases,
    });
    if let Some(request) = &running.request {
        plan["request"] = request.as_str().into();
    }
    plan
}

/// The plan of an operation that is over; `plan` is the earlier plan.
pub fn finished(plan: Option<&Value>, running: &Running, ended: &Ended) -> Value {
    let of = |plan: &&Value| plan["operation"] == running.name.as_str();
    let mut plan = plan
        .filter(of)
        .cloned()
        .unwrap_or_else(|| json!({"operation": running.name, "since": seconds(&running.start_time), "phases": []}));
    plan["state"] = word(ended.result).into();
    plan
}

fn word(result: OperationResult) -> &'static str {
    match result {
        OperationResult::Succeeded => "Complete",
        OperationResult::Failed | OperationResult::Refused => "Failed",
    }
}

/// Remembers that the operation that runs is over.
pub fn over(kept: &mut StoredOperations, running: &Running, ended: &Ended, now: String) {
    let last = kept.operations.entry(running.name.clone()).or_default();
    let before = std::mem::take(last);
    *last = Last {
        schedule: before.schedule,
        scheduled_since: before.scheduled_since,
        last_schedule_time: running.schedule_time.clone().or(before.last_schedule_time),
        request: running.request.clone(),
        start_time: Some(running.start_time.clone()),
        completion_time: Some(now),
        result: Some(ended.result),
        message: Some(bound(&ended.message)).filter(|message| !message.is_empty()),
    };
    if let Some(request) = &running.request {
        kept.handled = Some(request.clone());
    }
    kept.running = None;
}

/// The last operation that failed and has not succeeded since: reason and message.
pub fn failed(kept: &StoredOperations) -> Option<(&'static str, String)> {
    let bad = kept.operations.iter().filter(|(_, last)| last.result.is_some_and(|r| r != OperationResult::Succeeded));
    let (name, last) = bad.max_by_key(|(_, last)| last.completion_time.as_deref())?;
    let reason = if last.result == Some(OperationResult::Refused) { "HookRefused" } else { "HookFailed" };
    Some((reason, format!("operation {name}: {}", last.message.as_deref().unwrap_or_default())))
}

/// The last run of an operation that shows whether a backup can be restored. One that was refused shows nothing.
pub fn proven(operations: &Operations, kept: &StoredOperations) -> Option<(bool, &'static str, String)> {
    let proves = operations.hooks.iter().filter(|hook| hook.proves_restore).flat_map(|hook| &hook.operations);
    let runs = proves.filter_map(|name| Some((name, kept.operations.get(name)?)));
    let ended =
        runs.filter(|(_, last)| matches!(last.result, Some(OperationResult::Succeeded | OperationResult::Failed)));
    let (name, last) = ended.max_by_key(|(_, last)| last.completion_time.as_deref())?;
    let (at, said) = (last.completion_time.as_deref().unwrap_or_default(), last.message.as_deref().unwrap_or_default());
    Some(match last.result {
        Some(OperationResult::Succeeded) => (true, "Restored", format!("operation {name} succeeded at {at}: {said}")),
        _ => (false, "RestoreFailed", format!("operation {name} failed at {at}: {said}")),
    })
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;

//! The next step of the operation that runs. The first row that fits counts.

use super::document::{Hook, Operations};
use super::run::{Mark, Objects, Placed, is_of};
use super::state::{Ended, OperationResult, Running};
use crate::mask::Text;
use crate::object::ObjectId;
use crate::plan::hooks::DeletePolicy;
use crate::release::hook_run::HookOutcome;
use crate::runs::Exit;

/// Seconds until an object that said "not yet" is created again.
const LATER: i64 = 5;
/// An event comes when something changes; this is for events that are lost.
const LOOK: i64 = 30;

/// Everything that a decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The operations of the release.
    pub operations: &'a Operations,
    /// The one that runs.
    pub running: &'a Running,
    /// Its objects in their order; empty when the release no longer has it.
    pub placed: &'a [Placed],
    /// The objects of the release as they are.
    pub live: &'a Objects,
    /// Seconds that each of its objects may take.
    pub timeout: i64,
    /// Now, in seconds since 1970.
    pub now: i64,
}

impl View<'_> {
    fn timeout_of(&self, hook: &Hook) -> i64 {
        hook.timeout.unwrap_or(self.timeout)
    }
}

/// The one step of a pass.
#[derive(Clone, Debug, PartialEq)]
pub enum OperationStep {
    /// Makes an object: its index.
    Start(usize),
    /// Deletes an object, and only the one with this uid.
    Delete {
        /// Which.
        id: ObjectId,
        uid: Box<str>,
        /// It runs, and is gone only when its pods are gone.
        runs: bool,
    },
    /// Nothing.
    Wait {
        /// For what, in words.
        why: String,
        /// When to look again, when no event comes before, in seconds since 1970.
        until: i64,
    },
    /// The status remembers this.
    Remember(Running),
    /// The last object succeeded, by its index: [`finish`] keeps its last words.
    Finish(usize),
    /// An object failed: [`judge`] decides the next step, after a look at its pods.
    Judge(Trouble),
    /// It is over.
    Over(Ended),
}

/// An object that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Its index.
    pub hook: usize,
    /// Its own message.
    pub why: Text,
    /// It timed out.
    pub late: bool,
    /// When it was made, in seconds since 1970.
    pub created: i64,
}

/// The state of its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodsSaid {
    /// The object's own message, masked like the rest.
    pub why: String,
    /// How the container that counts came out.
    pub exit: Option<Exit>,
    /// The last line of its termination message.
    pub message: String,
    /// The last lines of its log, with an introduction; empty when they are unknown.
    pub lines: String,
}

/// The next step.
pub fn next(view: &View<'_>) -> OperationStep {
    match &view.running.ended {
        Some(ended) => clear(view, ended),
        None => forward(view),
    }
}

fn forward(view: &View<'_>) -> OperationStep {
    let View { running, placed, live, now, .. } = *view;
    if placed.is_empty() {
        let why = format!("the release no longer has an operation {}", running.name);
        return OperationStep::Remember(ended(running, OperationResult::Failed, why));
    }
    if let Some(step) = outdated(view) {
        return step;
    }
    let hook = running.done as usize;
    let Some(present) = placed.get(hook) else {
        return OperationStep::Remember(ended(running, OperationResult::Succeeded, String::new()));
    };
    let id = &present.id;
    let timeout = view.timeout_of(&present.hook);
    if let Some(until) = running.not_before.filter(|until| now < *until) {
        return OperationStep::Wait { why: format!("{}: not yet", named(&present.hook)), until };
    }
    let found = live.get(id);
    let Some((live, run)) = found.and_then(|live| Some((live, Mark::of(running).made(live)?))) else {
        return OperationStep::Start(hook);
    };
    let trouble = |why: Text, late| OperationStep::Judge(Trouble { hook, why, late, created: run.created });
    match &run.outcome {
        HookOutcome::Succeeded if hook + 1 == placed.len() => OperationStep::Finish(hook),
        HookOutcome::Succeeded => OperationStep::Remember(Running {
            done: running.done + 1,
            attempt: 0,
            first_attempt: None,
            not_before: None,
            ..running.clone()
        }),
        HookOutcome::Failed(why) => trouble(why.clone(), false),
        HookOutcome::Running if live.deleting => OperationStep::Wait { why: format!("{id} to go"), until: now + LOOK },
        HookOutcome::Running => {
            let until = running.first_attempt.unwrap_or(run.created).saturating_add(timeout);
            if now >= until {
                trouble(Text::own(format!("it did not end within {timeout} seconds")), true)
            } else {
                OperationStep::Wait { why: id.to_string(), until: until.min(now + LOOK) }
            }
        }
    }
}

/// Objects that earlier runs of this operation left, and earlier attempts of this run.
fn outdated(view: &View<'_>) -> Option<OperationStep> {
    let mark = Mark::of(view.running);
    let goes = |hook: &Hook| hook.has_policy(DeletePolicy::BeforeCreation);
    let present = view.placed.get(view.running.done as usize);
    view.live.iter().filter(|(_, live)| !live.deleting).find_map(|(id, live)| {
        let of = view.placed.iter().find(|placed| is_of(&placed.hook, id));
        // Nothing else removes an object that the chart no longer has.
        let earlier = mark.is_earlier(live) && of.is_none_or(|of| of.hook.is_a_run() && goes(&of.hook));
        let again =
            mark.made(live).is_some() && of.is_some_and(|of| of.hook.is_a_run() && present == Some(of) && of.id != *id);
        (earlier || again).then(|| OperationStep::Delete { id: id.clone(), uid: live.uid.clone(), runs: false })
    })
}

/// No part of it runs now. Its delete policies decide which objects are deleted.
fn clear(view: &View<'_>, ended: &Ended) -> OperationStep {
    let mark = Mark::of(view.running);
    for (id, live) in view.live {
        let Some(run) = mark.made(live) else { continue };
        let runs = run.outcome == HookOutcome::Running;
        if runs && live.deleting {
            return OperationStep::Wait { why: format!("{id} to go"), until: view.now + LOOK };
        }
        let hook = view.operations.of(&view.running.name).find(|hook| is_of(hook, id));
        let policy = match run.outcome {
            HookOutcome::Succeeded => DeletePolicy::Succeeded,
            _ => DeletePolicy::Failed,
        };
        if !live.deleting && (runs || hook.is_some_and(|hook| hook.has_policy(policy))) {
            return OperationStep::Delete { id: id.clone(), uid: live.uid.clone(), runs };
        }
    }
    OperationStep::Over(ended.clone())
}

fn ended(running: &Running, result: OperationResult, message: String) -> Running {
    Running { ended: Some(Ended { result, message }), not_before: None, ..running.clone() }
}

/// The result of an operation whose last object succeeded.
pub fn finish(running: &Running, message: String) -> Running {
    let running = Running { done: running.done + 1, attempt: 0, first_attempt: None, ..running.clone() };
    ended(&running, OperationResult::Succeeded, message)
}

/// The part of a failed object that is stored.
pub fn judge(view: &View<'_>, trouble: &Trouble, said: &PodsSaid) -> Running {
    let running = view.running;
    let placed = view.placed.get(trouble.hook);
    let name = placed.map(|placed| placed.id.to_string()).unwrap_or_default();
    let timeout = placed.map_or(view.timeout, |placed| view.timeout_of(&placed.hook));
    let told = if said.message.is_empty() { String::new() } else { format!(": {}", said.message) };
    match said.exit.filter(|_| !trouble.late) {
        Some(Exit::Later) => {
            let first = running.first_attempt.unwrap_or(trouble.created);
            if view.now + LATER >= first.saturating_add(timeout) {
                let why = format!("{name}: not yet, for {timeout} seconds{told}");
                return ended(running, OperationResult::Failed, why);
            }
            Running {
                attempt: running.attempt + 1,
                first_attempt: Some(first),
                not_before: Some(view.now + LATER),
                ..running.clone()
            }
        }
        Some(Exit::Refused) => ended(running, OperationResult::Refused, format!("{name}: refused{told}")),
        _ => ended(running, OperationResult::Failed, format!("{name}: {}{}", said.why, said.lines)),
    }
}

/// A hook as its chart names it.
pub fn named(hook: &Hook) -> String {
    format!("{} {}", hook.gvk().kind, hook.name)
}

#[cfg(test)]
#[path = "next_tests.rs"]
mod tests;

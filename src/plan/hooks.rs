//! Hooks without waiting. The release record shows which hooks have run, the live object shows which one runs, and both show which one
//! is next (docs/design/applying.md D3).
//!
//! Order, events and delete policies are Helm's (`pkg/action/hooks.go`, Helm 4.3). A hook runs at least once: when its object
//! vanished before anybody saw the outcome, it is created again.

use std::fmt;

use serde_json::{Map, Value};

use super::PlanStep;
use super::situation::{RevisionKind, SituationFacts};
use super::stamp::stamp;
use crate::mask::Text;
use crate::object::{Gvk, ObjectId};
use crate::release::digest::Hasher;
use crate::release::hook_run::{HOOK, HookOutcome, HookRun};
use crate::release::live::Live;
use crate::release::owner::{Owner, PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE};
use crate::release::record::{HookRecord, Phase};

/// When hooks run. Only Helm runs `test` hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are Helm's")]
pub enum HookEvent {
    PreInstall,
    PostInstall,
    PreUpgrade,
    PostUpgrade,
    PreRollback,
    PostRollback,
    PreDelete,
    PostDelete,
}

impl HookEvent {
    /// Helm's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreInstall => "pre-install",
            Self::PostInstall => "post-install",
            Self::PreUpgrade => "pre-upgrade",
            Self::PostUpgrade => "post-upgrade",
            Self::PreRollback => "pre-rollback",
            Self::PostRollback => "post-rollback",
            Self::PreDelete => "pre-delete",
            Self::PostDelete => "post-delete",
        }
    }
    /// Before the objects of an operation.
    pub fn before(operation: RevisionKind) -> Self {
        match operation {
            RevisionKind::Install => Self::PreInstall,
            RevisionKind::Upgrade => Self::PreUpgrade,
            RevisionKind::Rollback => Self::PreRollback,
        }
    }
    /// After them.
    pub fn after(operation: RevisionKind) -> Self {
        match operation {
            RevisionKind::Install => Self::PostInstall,
            RevisionKind::Upgrade => Self::PostUpgrade,
            RevisionKind::Rollback => Self::PostRollback,
        }
    }
    /// Whether it is the one before an operation, by Helm's word for that.
    fn is_before(self, operation: &str) -> bool {
        self.as_str().strip_prefix("pre-") == Some(operation)
    }
    /// Whether it is part of a deletion.
    pub fn is_deletion(self) -> bool {
        matches!(self, Self::PreDelete | Self::PostDelete)
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// When a hook's object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletePolicy {
    /// Before it is created; the default.
    BeforeCreation,
    /// When all hooks of the event succeeded.
    Succeeded,
    /// When it failed.
    Failed,
}

impl DeletePolicy {
    /// Helm's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BeforeCreation => "before-hook-creation",
            Self::Succeeded => "hook-succeeded",
            Self::Failed => "hook-failed",
        }
    }
}

/// A hook of a revision; its index in [`Desired::hooks`](super::Desired::hooks) is that in the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    /// Its object.
    pub id: ObjectId,
    /// The object, without what [`Hook::body`] adds.
    body: Map<String, Value>,
    /// Digest of its manifest.
    digest: String,
    /// Its state in the record.
    record: HookRecord,
}

impl Hook {
    /// From the record. Errors say what is wrong with the manifest.
    pub fn read(record: HookRecord, owner: &Owner, is_namespaced: impl Fn(&Gvk) -> bool) -> Result<Self, String> {
        let object = record
            .object()
            .and_then(|o| o.ok_or_else(|| "it is empty".to_owned()))
            .map_err(|e| format!("hook {}: {e}", record.path))?;
        let stamped = stamp(&object, is_namespaced(&object.gvk), owner);
        let mut hasher = Hasher::default();
        hasher.text(&record.manifest);
        Ok(Self { id: stamped.id, body: stamped.body, digest: hasher.finish_short(16), record })
    }

    /// The object that is sent for a run. With an owner reference, garbage collection would delete the object as soon as somebody deletes
    /// the custom resource in the foreground. Then an annotation names the owner instead.
    pub fn body(&self, revision: u64, event: HookEvent, owner: &Owner, foreground: bool) -> Map<String, Value> {
        let mut body = self.body.clone();
        let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) else { return body };
        if event.is_deletion() && foreground {
            metadata.remove("ownerReferences");
        }
        let refers = metadata.contains_key("ownerReferences");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.insert(HOOK.into(), format!("{revision} {event} {}", self.digest).into());
            if !refers {
                annotations.insert(PRIMARY_RESOURCE.into(), owner.primary_resource().into());
                annotations.insert(PRIMARY_RESOURCE_TYPE.into(), owner.gvk.kind_group().into());
            }
        }
        body
    }

    /// Whether the object is of this run of the hook.
    pub fn is_run(&self, run: &HookRun, revision: u64, event: HookEvent) -> bool {
        run.revision == revision && &*run.event == event.as_str() && *run.digest == *self.digest
    }

    /// Whether it has to run to completion. For most kinds it is enough that the object exists.
    pub fn is_awaited(&self) -> bool {
        let Gvk { group, kind, .. } = &self.id.gvk;
        matches!((&**group, &**kind), ("batch", "Job") | ("", "Pod")) || self.is_definition()
    }

    /// Whether only its outcome is lost with its object.
    pub fn is_a_run(&self) -> bool {
        self.is_awaited() && !self.is_definition()
    }

    /// Definitions are never deleted, as in Helm: their objects would go with them.
    fn is_definition(&self) -> bool {
        &*self.id.gvk.kind == "CustomResourceDefinition"
    }

    /// Whether the chart's delete policy deletes its object then.
    pub fn has_policy(&self, policy: DeletePolicy) -> bool {
        let policies = &self.record.delete_policies;
        let default = policies.is_empty() && policy == DeletePolicy::BeforeCreation;
        !self.is_definition() && (default || policies.iter().any(|p| p == policy.as_str()))
    }

    fn runs_at(&self, event: HookEvent) -> bool {
        self.record.events.iter().any(|e| e == event.as_str())
    }

    fn phase(&self, event: HookEvent) -> Phase {
        let last = &self.record.last_run;
        match last.event.as_deref() {
            Some(of) if of == event.as_str() => last.phase,
            // Helm's record has only the last run of a hook. One that runs behind an operation has run before it.
            Some(of) if of.strip_prefix("post-").is_some_and(|operation| event.is_before(operation)) => {
                Phase::Succeeded
            }
            _ => Phase::None,
        }
    }
}

/// The progress of the hooks of an event.
#[derive(Debug, PartialEq)]
pub struct Progress {
    /// The steps that come now.
    pub steps: Vec<PlanStep>,
    /// With these steps all hooks have run.
    pub done: bool,
}

/// The hooks of an event, in the order in which they run.
pub fn of_event(hooks: &[Hook], event: HookEvent) -> Vec<&Hook> {
    order(hooks, event).into_iter().map(|at| &hooks[at]).collect()
}

fn order(hooks: &[Hook], event: HookEvent) -> Vec<usize> {
    let mut order: Vec<usize> = (0..hooks.len()).filter(|i| hooks[*i].runs_at(event)).collect();
    // The record has them sorted by kind, and Helm's sort by weight is stable.
    order.sort_by(|a, b| {
        let key = |i: usize| (hooks[i].record.weight, hooks[i].record.name.as_str());
        key(*a).cmp(&key(*b))
    });
    order
}

/// The next steps of an event of a revision.
pub fn next(facts: &SituationFacts, hooks: &[Hook], revision: u64, event: HookEvent) -> Progress {
    let order = order(hooks, event);
    let mut steps = Vec::new();
    let mut started = Vec::new();
    for hook in order.iter().copied() {
        let phase = hooks[hook].phase(event);
        let run = run(facts, &hooks[hook], revision, event);
        match (phase, run.map(|run| (run, &run.outcome))) {
            (Phase::Succeeded, _) => continue,
            (Phase::Running, Some((_, HookOutcome::Succeeded))) => {
                steps.push(PlanStep::FinishHook { hook, event });
                continue;
            }
            (Phase::Running, Some((_, HookOutcome::Failed(why)))) => {
                steps.push(PlanStep::FailHook { hook, event, why: why.clone(), timeout: false });
            }
            (Phase::Running, Some((run, HookOutcome::Running))) => {
                let timeout = facts.switches.hook_timeout();
                let until = run.created.saturating_add(timeout.as_secs().cast_signed());
                if facts.now >= until {
                    let why = Text::own(format!("it did not end within {} seconds", timeout.as_secs()));
                    steps.push(PlanStep::FailHook { hook, event, why, timeout: true });
                } else {
                    steps.push(PlanStep::AwaitHook { hook, event, until });
                }
            }
            (phase, _) => {
                // Only the object of a failed run blocks the next run. Any other object was created and not seen yet.
                steps.push(PlanStep::StartHook { hook, event, again: phase == Phase::Failed });
                started.push(hook);
                if !hooks[hook].is_awaited() {
                    continue;
                }
            }
        }
        return Progress { steps, done: false };
    }
    for hook in order.into_iter().rev().filter(|hook| hooks[*hook].has_policy(DeletePolicy::Succeeded)) {
        if started.contains(&hook) || run(facts, &hooks[hook], revision, event).is_some() {
            steps.push(PlanStep::DeleteHook(hook));
        }
    }
    Progress { steps, done: true }
}

/// The objects that are deleted after a hook failed: its own, and those of earlier hooks that succeeded, by their policies.
pub fn after_failure(
    facts: &SituationFacts,
    hooks: &[Hook],
    revision: u64,
    event: HookEvent,
    failed: usize,
) -> Vec<usize> {
    let is_live = |hook: &Hook| run(facts, hook, revision, event).is_some();
    let succeeded = |hook: &Hook| hook.phase(event) == Phase::Succeeded && is_live(hook);
    let goes = |(i, hook): &(usize, &Hook)| {
        if *i == failed {
            hook.has_policy(DeletePolicy::Failed)
        } else {
            hook.has_policy(DeletePolicy::Succeeded) && succeeded(hook)
        }
    };
    hooks.iter().enumerate().filter(goes).map(|(i, _)| i).collect()
}

/// Whether a hook of the newest revision runs, and how long a change of the inputs waits for it.
pub fn running(facts: &SituationFacts) -> Option<i64> {
    let newest = facts.history.last()?.revision;
    let timeout = facts.switches.hook_timeout().as_secs().cast_signed();
    let runs = facts.live.values().filter_map(|live| live.hook.as_deref());
    runs.filter(|run| run.revision == newest && run.outcome == HookOutcome::Running)
        .map(|run| run.created.saturating_add(timeout))
        .filter(|until| *until > facts.now)
        .max()
}

/// Whether the release has a hook that runs at its deletion.
pub fn has_deletion_hooks(hooks: &[Hook]) -> bool {
    hooks.iter().any(|hook| hook.runs_at(HookEvent::PreDelete) || hook.runs_at(HookEvent::PostDelete))
}

/// Whether any hook runs at an event.
pub fn has(hooks: &[Hook], event: HookEvent) -> bool {
    hooks.iter().any(|hook| hook.runs_at(event))
}

fn run<'a>(facts: &'a SituationFacts, hook: &Hook, revision: u64, event: HookEvent) -> Option<&'a HookRun> {
    let live: &Live = facts.live.get(&hook.id)?;
    live.hook.as_deref().filter(|run| hook.is_run(run, revision, event))
}

#[cfg(test)]
#[path = "hooks_tests.rs"]
mod tests;

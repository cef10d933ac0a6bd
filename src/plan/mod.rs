//! Decisions: what situation a release is in, and which writes follow from it.
//!
//! Both functions are pure. [`situation`] names the state of the release from what the caches know, and so what has to be read
//! or rendered. [`plan`] turns that and the rendering into a list of steps. Neither asks the API server or the clock, so a plan
//! can be printed, compared in a test, and executed.

pub mod attempts;
pub mod claim;
pub mod contest;
pub mod crds;
pub mod dependencies;
pub mod fields;
pub mod filled;
pub mod hooks;
pub mod immutable;
pub mod leave;
pub mod object_run;
pub mod objects;
pub mod operations;
pub mod reasons;
pub mod renewal;
pub mod reshape;
pub mod results;
pub mod rollout;
pub mod situation;
pub mod stamp;
pub mod status;
pub mod tolerate;
pub mod unknown_hooks;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::kind::switches::DeletionPolicy;
use crate::mask::Text;
use crate::members::document::Members;
use crate::object::{Gvk, ObjectId};
use crate::release::live::Live;
use crate::release::record::Status;
use crate::release::secret::{MAX_KINDS, Revision};
use crate::release::status_fields::StatusFields;
use crds::Definition;
use hooks::{Hook, HookEvent};
use objects::{applies, is_ours, is_own_namespace, is_same, prune, repair};
use operations::document::Operations;
use situation::{RevisionKind, Situation, SituationFacts, is_only_sleep, newest_operation, operation};
use stamp::Stamped;

/// The intended content of the release.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    /// The objects in the order of installation.
    pub objects: Vec<Stamped>,
    /// The objects of the last record, when it was read.
    pub previous: Option<Vec<Stamped>>,
    /// The hooks of the revision, as its record has them.
    pub hooks: Vec<Hook>,
    /// Whether the hooks equal those of the last record.
    pub hooks_equal: bool,
    /// Definitions of the chart's `crds/` that must be written, or served, first.
    pub crds: Vec<Definition>,
    /// Objects that the record of the revision names and that do not count, see `reconcile/trust.rs`. They are not applied, and they stay:
    /// an object that the present chart no longer renders can be the only remaining copy of the data.
    pub left_out: BTreeSet<ObjectId>,
    /// The chart's description of stateful sets with members.
    pub members: Option<Arc<Members>>,
    /// The chart's description of operations.
    pub operations: Option<Arc<Operations>>,
    /// The fields of the status that the chart names.
    pub status_fields: Option<Arc<StatusFields>>,
}

impl Desired {
    /// The kinds of its objects, with the namespaces in which it has them.
    pub fn kinds(&self) -> BTreeSet<(Gvk, Option<Arc<str>>)> {
        self.objects.iter().map(|o| (o.id.gvk.clone(), o.id.namespace.clone())).collect()
    }
}

/// The purpose of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Nothing is to be done.
    Rest,
    /// The first revision, or one after an uninstall.
    Install,
    /// A further revision.
    Upgrade,
    /// The same revision once more: a crash or an error stopped it.
    Resume,
    /// Objects of the deployed revision drifted.
    Repair,
    /// The inputs changed, but not the objects.
    Note,
    /// Custom resource definitions of the chart come first.
    CreateCrds,
    /// An upgrade failed permanently, and the last deployed revision is restored.
    RollBack,
    /// The first installation failed for good, and is removed.
    Abandon,
    /// The custom resource is going.
    Uninstall,
}

/// One write, or a few for one purpose.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanStep {
    /// Adds the finalizer: before the first write of a release.
    Finalize,
    /// Writes the chart's custom resource definitions.
    CreateCrds,
    /// Creates the record of a revision. The API server lets only one operator do it (docs/design/applying.md A8).
    CreateRecord {
        /// Revision.
        revision: u64,
        /// `pending-install` or `pending-upgrade`; `deployed` for a revision that is recorded after it was applied.
        status: Status,
    },
    /// Creates the record of a revision that rolls back to an earlier one.
    CreateRollback {
        /// Revision.
        revision: u64,
        /// The revision whose objects it has.
        to: u64,
    },
    /// Applies an object: its index in [`Desired::objects`].
    Apply {
        /// Index.
        object: usize,
        /// The object is ours: conflicts with other managers are forced. Without it, an object of another owner is
        /// refused.
        force: bool,
    },
    /// Keeps an object of the previous revision in this one without a request: its index in [`Desired::objects`].
    Keep(usize),
    /// Records that a hook runs, and creates its object. If the hook has to run to completion, this is the last step of a plan.
    StartHook {
        /// Index in [`Desired::hooks`].
        hook: usize,
        /// The purpose.
        event: HookEvent,
        /// The previous run failed, and its object blocks this one.
        again: bool,
    },
    /// Nothing: the hook runs until it ends or this time comes, in seconds since 1970.
    AwaitHook {
        /// Index.
        hook: usize,
        /// The purpose.
        event: HookEvent,
        /// Deadline.
        until: i64,
    },
    /// Records that a hook succeeded.
    FinishHook {
        /// Index.
        hook: usize,
        /// The purpose.
        event: HookEvent,
    },
    /// Records that a hook failed, and with it the operation.
    FailHook {
        /// Index.
        hook: usize,
        /// The purpose.
        event: HookEvent,
        /// A sentence.
        why: Text,
        /// It timed out, and is not tried again.
        timeout: bool,
    },
    /// Deletes the object of a hook that succeeded.
    DeleteHook(usize),
    /// Writes the inventory of a revision that still waits for something.
    MarkApplied(u64),
    /// Nothing: the objects have until this time to get ready.
    AwaitReady {
        /// Deadline, in seconds since 1970.
        until: i64,
        /// The first object that is not, and why.
        what: Text,
    },
    /// The objects did not get ready in time, and with that the operation failed.
    FailReady(Text),
    /// Deletes an object that the revision no longer has.
    Prune {
        /// Which.
        id: ObjectId,
        /// The uid of the only object that may be deleted; `None` if it must be read first.
        uid: Option<Box<str>>,
    },
    /// Removes the custom resource from an object's owners, so that the object survives it.
    Orphan(ObjectId),
    /// Marks a revision superseded.
    Supersede(u64),
    /// Marks the revision deployed and writes its inventory, in one request.
    MarkDeployed(u64),
    /// Writes inputs and inventory to the record of a revision whose content stays.
    Note(u64),
    /// Deletes the record of an old revision.
    Forget(u64),
    /// Removes the finalizer.
    Unfinalize,
}

/// The writes for a release, and their purpose.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The purpose.
    pub verb: Verb,
    /// The revision that it makes or works on.
    pub revision: u64,
    /// The writes in their order.
    pub steps: Vec<PlanStep>,
}

impl Plan {
    fn new(verb: Verb, revision: u64, steps: Vec<PlanStep>) -> Self {
        Self { verb, revision, steps }
    }

    /// Whether the record of the revision comes after its objects.
    pub fn is_recorded_last(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, PlanStep::CreateRecord { status: Status::Deployed, .. }))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?} revision {}", self.verb, self.revision)?;
        for step in &self.steps {
            match step {
                PlanStep::Prune { id, .. } => writeln!(f, "  prune {id}")?,
                step => writeln!(f, "  {step:?}")?,
            }
        }
        Ok(())
    }
}

impl Plan {
    /// The changes that the plan would make, in a sentence: for `dry-run`.
    pub fn describe(&self, desired: &Desired) -> String {
        let before: BTreeMap<&ObjectId, &Stamped> = desired.previous.iter().flatten().map(|o| (&o.id, o)).collect();
        let (mut create, mut change, mut delete) = (Vec::new(), Vec::new(), Vec::new());
        for step in &self.steps {
            match step {
                PlanStep::Apply { object, .. } => {
                    let object = &desired.objects[*object];
                    match before.get(&object.id) {
                        None if desired.previous.is_none() && self.verb != Verb::Install => change.push(&object.id),
                        None => create.push(&object.id),
                        Some(old) if old.body != object.body => change.push(&object.id),
                        Some(_) => {}
                    }
                }
                PlanStep::Prune { id, .. } => delete.push(id),
                _ => {}
            }
        }
        let mut text = format!("{:?}, revision {}", self.verb, self.revision);
        for (what, ids) in [("create", create), ("change", change), ("delete", delete)] {
            if !ids.is_empty() {
                let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
                text.extend(["; ", what, " ", &ids.join(", ")]);
            }
        }
        text
    }
}

/// The writes that follow from a situation.
pub fn plan(facts: &SituationFacts, situation: &Situation, desired: &Desired) -> Plan {
    let head = facts.history.last();
    let newest = head.map_or(0, |r| r.revision);
    match situation {
        // It was left by a definition of its chart, and is served again.
        Situation::Settled if !facts.finalized => Plan::new(Verb::Note, newest, vec![PlanStep::Finalize]),
        Situation::Settled
        | Situation::Blocked
        | Situation::Refused(_)
        | Situation::Awaiting(_)
        | Situation::Leave
        | Situation::Paused(_)
        | Situation::Waiting => Plan::new(Verb::Rest, newest, Vec::new()),
        Situation::Uninstall => uninstall(facts, desired),
        Situation::Abandoned => {
            let forget = facts.history.iter().map(|r| PlanStep::Forget(r.revision));
            let steps = remove_all(facts, desired).into_iter().chain(forget).collect();
            Plan::new(Verb::Abandon, newest, steps)
        }
        _ if !desired.crds.is_empty() => {
            let steps = finalizer(facts).chain([PlanStep::CreateCrds]).collect();
            Plan::new(Verb::CreateCrds, newest, steps)
        }
        Situation::Finished => Plan::new(Verb::Note, newest, vec![PlanStep::Note(newest)]),
        Situation::New => begin(facts, desired, RevisionKind::Install),
        Situation::RollBack(to) => {
            let revision = newest + 1;
            let steps = finalizer(facts)
                .chain([PlanStep::CreateRollback { revision, to: *to }])
                .chain(finish(facts, desired, revision, RevisionKind::Rollback))
                .collect();
            Plan::new(Verb::RollBack, revision, steps)
        }
        Situation::Unfinished => {
            let operation = newest_operation(&facts.history);
            let back = facts.spent && operation == RevisionKind::Rollback;
            let steps = finalizer(facts).chain(finish(facts, desired, newest, operation)).collect();
            Plan::new(if back { Verb::RollBack } else { Verb::Resume }, newest, steps)
        }
        Situation::Changed => changed(facts, desired, newest),
        Situation::Drifted(drift) => {
            let steps = finalizer(facts).chain(repair(desired, drift, newest)).collect();
            Plan::new(Verb::Repair, newest, steps)
        }
    }
}

/// The inputs differ from those of the newest revision, or those are unknown.
fn changed(facts: &SituationFacts, desired: &Desired, newest: u64) -> Plan {
    let head = facts.history.last();
    let deployed = head.is_some_and(|r| r.status == Status::Deployed);
    if deployed && desired.hooks_equal && is_same(desired) {
        // The annotations were removed, as `helm test` does. Nothing is known of the objects, so all are applied again.
        let unknown = head.is_none_or(|r| r.inventory.is_none());
        let applies = if unknown { applies(facts, desired) } else { Vec::new() };
        let steps = finalizer(facts).chain(applies).chain([PlanStep::Note(newest)]).collect();
        return Plan::new(if unknown { Verb::Repair } else { Verb::Note }, newest, steps);
    }
    begin(facts, desired, operation(&facts.history))
}

/// A new revision.
fn begin(facts: &SituationFacts, desired: &Desired, operation: RevisionKind) -> Plan {
    let revision = facts.history.last().map_or(0, |r| r.revision) + 1;
    let verb = if operation == RevisionKind::Install { Verb::Install } else { Verb::Upgrade };
    if operation == RevisionKind::Install && is_recorded_last(facts, desired) {
        let deployed = PlanStep::CreateRecord { revision, status: Status::Deployed };
        let steps = finalizer(facts).chain(applies(facts, desired)).chain([deployed]).collect();
        return Plan::new(verb, revision, steps);
    }
    let steps = finalizer(facts)
        .chain([PlanStep::CreateRecord { revision, status: operation.pending() }])
        .chain(finish(facts, desired, revision, operation))
        .collect();
    Plan::new(verb, revision, steps)
}

/// Whether the record of a first revision can be one write, after its objects, instead of one before and one after them. Then only the
/// objects show that an attempt was cut off. So all of them must name their owner, none may have to be waited for, and the kinds to
/// search must be written with the finalizer, in the same plan. If another custom resource wants the same release name, the record comes
/// first.
fn is_recorded_last(facts: &SituationFacts, desired: &Desired) -> bool {
    let mut waits = [HookEvent::before(RevisionKind::Install), HookEvent::after(RevisionKind::Install)].into_iter();
    facts.history.is_empty()
        && !facts.finalized
        && !facts.rivals
        && facts.switches.timeout.is_none()
        && desired.members.is_none()
        && desired.operations.is_none()
        && desired.kinds().len() <= MAX_KINDS
        && !(facts.switches.hooks && waits.any(|event| hooks::has(&desired.hooks, event)))
        && desired.objects.iter().all(|object| object.is_owned() && is_here(facts, object))
}

/// Whether an object is in the namespace of the release, where an attempt that was cut off is searched for.
fn is_here(facts: &SituationFacts, object: &Stamped) -> bool {
    object.id.namespace.as_deref() == Some(&*facts.release_namespace)
}

/// Brings a revision whose record exists to `deployed`, or as far as is possible now.
fn finish(facts: &SituationFacts, desired: &Desired, revision: u64, operation: RevisionKind) -> Vec<PlanStep> {
    let hooks = if facts.switches.hooks && !is_only_sleep(facts) { desired.hooks.as_slice() } else { &[] };
    let before = hooks::next(facts, hooks, revision, HookEvent::before(operation));
    let mut steps = before.steps;
    if !before.done {
        return steps;
    }
    let after = HookEvent::after(operation);
    let pending = |r: &&Revision| r.revision == revision && r.status == operation.pending();
    let applied = facts.history.last().filter(pending).filter(|r| r.inventory.is_some());
    if applied.is_none() {
        steps.extend(objects::upgrade(facts, desired));
        steps.extend(prune(facts, desired));
        if hooks::has(hooks, after) || facts.switches.timeout.is_some() {
            steps.push(PlanStep::MarkApplied(revision));
        }
    }
    if let Some(timeout) = facts.switches.timeout {
        let timeout = timeout.as_secs().cast_signed();
        match applied {
            // The caches know the objects in the next pass, which is due at once.
            None => steps.push(PlanStep::AwaitReady { until: facts.now, what: "the objects were applied".into() }),
            Some(head) => match not_ready(facts, head) {
                Some(what) if facts.now >= head.at + timeout => steps.push(PlanStep::FailReady(what)),
                Some(what) => steps.push(PlanStep::AwaitReady { until: head.at + timeout, what }),
                None => {}
            },
        }
        if matches!(steps.last(), Some(PlanStep::AwaitReady { .. } | PlanStep::FailReady(_))) {
            return steps;
        }
    }
    let after = hooks::next(facts, hooks, revision, after);
    steps.extend(after.steps);
    if !after.done {
        return steps;
    }
    let older = || facts.history.iter().filter(|r| r.revision < revision);
    // A revision that was left unfinished for other inputs is over, too.
    let over = |r: &&Revision| {
        matches!(r.status, Status::Deployed | Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback)
    };
    steps.extend(older().filter(over).map(|r| PlanStep::Supersede(r.revision)));
    // Before it is deployed: of a deployed revision only drift is repaired.
    steps.extend(trim(facts.switches.max_history, &older().collect::<Vec<_>>()));
    steps.push(PlanStep::MarkDeployed(revision));
    steps
}

/// The first object of a revision that is not ready, and why.
fn not_ready(facts: &SituationFacts, head: &Revision) -> Option<Text> {
    head.inventory.iter().flat_map(|i| i.0.keys()).find_map(|id| match facts.live.get(id) {
        None if head.inventory.as_ref().is_some_and(|i| i.0[id].finished) => None,
        None => Some(Text::own(format!("{id}: it does not exist"))),
        Some(live) if live.health.is_ready() => None,
        Some(live) => Some(Text::own(format!("{id}: ")).and(live.health.text())),
    })
}

fn uninstall(facts: &SituationFacts, desired: &Desired) -> Plan {
    let newest = facts.history.last().map_or(0, |r| r.revision);
    if facts.switches.deletion_policy == DeletionPolicy::Orphan {
        let owned = facts.live.iter().filter(|(_, live)| is_ours(facts, live) && live.owner_uid.is_some());
        let steps = owned.map(|(id, _)| PlanStep::Orphan(id.clone())).chain([PlanStep::Unfinalize]).collect();
        return Plan::new(Verb::Uninstall, newest, steps);
    }
    // Hooks that cannot run, or have nothing that they belong to, do not hold up the rest (docs/design/applying.md D2).
    let runs_hooks = facts.switches.hooks && !facts.namespace_goes && facts.foreign.is_none();
    let hooks = if runs_hooks { desired.hooks.as_slice() } else { &[] };
    let before = hooks::next(facts, hooks, newest, HookEvent::PreDelete);
    let mut steps = before.steps;
    if !before.done {
        return Plan::new(Verb::Uninstall, newest, steps);
    }
    steps.extend(remove_all(facts, desired));
    let after = hooks::next(facts, hooks, newest, HookEvent::PostDelete);
    steps.extend(after.steps);
    if !after.done {
        return Plan::new(Verb::Uninstall, newest, steps);
    }
    let goes = |(id, live): (&ObjectId, &Live)| !live.kept && is_ours(facts, live) && !is_own_namespace(facts, id);
    let waits = facts.wait_for_deletion && facts.live.iter().any(goes);
    if !waits {
        steps.extend(facts.history.iter().filter(|_| facts.foreign.is_none()).map(|r| PlanStep::Forget(r.revision)));
        steps.push(PlanStep::Unfinalize);
    }
    Plan::new(Verb::Uninstall, newest, steps)
}

/// Deletes the objects that the release has or had, in the reverse order of its installation.
fn remove_all(facts: &SituationFacts, desired: &Desired) -> Vec<PlanStep> {
    let recorded: BTreeMap<&ObjectId, &Stamped> =
        desired.previous.iter().flatten().chain(&desired.objects).map(|o| (&o.id, o)).collect();
    let mut steps = Vec::new();
    // Our objects that no record names: a crash left them, or the record is gone (docs/design/applying.md D1, D2).
    for (id, live) in &facts.live {
        if !recorded.contains_key(id) && is_ours(facts, live) && !live.deleting && !is_own_namespace(facts, id) {
            steps.push(PlanStep::Prune { id: id.clone(), uid: Some(live.uid.clone()) });
        }
    }
    let mut seen = BTreeSet::new();
    for object in desired.objects.iter().rev().chain(desired.previous.iter().flatten().rev()) {
        if object.kept || is_own_namespace(facts, &object.id) || !seen.insert(&object.id) {
            continue;
        }
        match facts.live.get(&object.id) {
            Some(live) if live.kept || live.deleting => {}
            Some(live) if is_ours(facts, live) => {
                steps.push(PlanStep::Prune { id: object.id.clone(), uid: Some(live.uid.clone()) });
            }
            // It is read before it is deleted.
            _ => steps.push(PlanStep::Prune { id: object.id.clone(), uid: None }),
        }
    }
    steps
}

fn finalizer(facts: &SituationFacts) -> impl Iterator<Item = PlanStep> + use<> {
    (!facts.finalized).then_some(PlanStep::Finalize).into_iter()
}

/// Old revisions beyond the limit, but never the last deployed one.
fn trim(limit: usize, older: &[&Revision]) -> Vec<PlanStep> {
    let last_deployed = older.iter().rev().find(|r| r.status == Status::Deployed).map(|r| r.revision);
    let excess = if limit == 0 { 0 } else { (older.len() + 1).saturating_sub(limit) };
    older
        .iter()
        .take(excess)
        .filter(|r| Some(r.revision) != last_deployed)
        .map(|r| PlanStep::Forget(r.revision))
        .collect()
}

#[cfg(test)]
mod tests;

//! The state of a release, from the facts in the caches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::hooks;
use super::objects::{drift, has_finished};
use crate::kind::switches::{OnFailure, Switches};
use crate::object::{Gvk, ObjectId};
use crate::release::live::Live;
use crate::release::record::Status;
use crate::release::secret::Revision;

/// Everything that a decision depends on.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a separate fact, and the table of situations reads them one by one"
)]
pub struct SituationFacts {
    /// uid of the custom resource.
    pub uid: Box<str>,
    /// Namespace of the custom resource.
    pub namespace: Box<str>,
    /// Namespace of the release.
    pub release_namespace: Box<str>,
    /// The marks of objects that cannot refer to it; see [`Owner::marks`](crate::release::owner::Owner::marks).
    pub marks: Box<str>,
    /// Now, in seconds since 1970.
    pub now: i64,
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// It has our finalizer.
    pub finalized: bool,
    /// `helm.sdk.operatorframework.io/uninstall-wait`: the custom resource stays until its objects are gone.
    pub wait_for_deletion: bool,
    /// The switches of the custom resource.
    pub switches: Switches,
    /// `reconcile-at` has a text that no pass has handled yet.
    pub asked: bool,
    /// Why the chart cannot be rendered, whatever the values are.
    pub refusal: Option<Refusal>,
    /// The custom resource that it waits for as long as its values are not known. The deployed objects stay as they
    /// are.
    pub awaits: Option<Refusal>,
    /// The custom resource that a change of an installed release waits for. The deployed objects stay and are repaired.
    pub holds: Option<Refusal>,
    /// The release belongs to another owner: a sentence that names it.
    pub foreign: Option<String>,
    /// Other custom resources want the same release name, or may want it: not all of them are known yet.
    pub rivals: bool,
    /// Another tool works on the release (`helm upgrade`, `helm uninstall`): it began a moment ago and has not finished.
    pub busy: bool,
    /// The revisions, oldest first.
    pub history: Vec<Revision>,
    /// Digest of the inputs of a rendering of the release; `None` when there is no usable chart.
    pub inputs: Option<Box<str>>,
    /// The same digest if the release slept and does not, and the other way round; `None` if the release is up to date, too.
    pub inputs_otherwise: Option<Box<str>>,
    /// Whether the release sleeps.
    pub asleep: bool,
    /// The attempts for these inputs are spent: nothing is tried again until they change (docs/design/applying.md A3).
    pub spent: bool,
    /// The namespace is being deleted, so that nothing can be created in it: hooks cannot run.
    pub namespace_goes: bool,
    /// The last attempt failed, and the pause until the next one is not over.
    pub pausing: bool,
    /// Contested objects, which are left alone for a while.
    pub contested: BTreeSet<ObjectId>,
    /// The objects that are ours, or that the newest revision lists.
    pub live: BTreeMap<ObjectId, Live>,
    /// Jobs and Pods that had finished when they were deleted, with their uids.
    pub ended: BTreeMap<ObjectId, Box<str>>,
    /// Kinds, per namespace, whose objects the caches do not know completely yet: no object of them counts as missing.
    pub unsynced: BTreeSet<(Gvk, Option<Arc<str>>)>,
}

/// Why a custom resource is not acted on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason of the conditions.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// The state of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Situation {
    /// The custom resource is being deleted, and its objects with it.
    Uninstall,
    /// It is being deleted, and the operator has nothing to do.
    Leave,
    /// It cannot be handled.
    Refused(Refusal),
    /// It waits for another custom resource, which is not ready.
    Awaiting(Refusal),
    /// The decision needs caches that are not complete yet, or another tool works on the release.
    Waiting,
    /// The deployed objects are up to date.
    Settled,
    /// As `Settled`, and a Job or a Pod has finished since that was recorded.
    Finished,
    /// The inputs cannot work, and the deployed revision is intact.
    Blocked,
    /// The custom resource is paused. These objects have drifted meanwhile.
    Paused(Vec<Drift>),
    /// The newest revision failed permanently: the release rolls back to this one.
    RollBack(u64),
    /// The first installation failed permanently, and is uninstalled.
    Abandoned,
    /// Objects differ from the deployed revision.
    Drifted(Vec<Drift>),
    /// The newest revision is for these inputs and is not finished.
    Unfinished,
    /// There is no release yet.
    New,
    /// The newest revision is for other inputs, or another client made it.
    Changed,
}

impl Situation {
    /// Whether the chart has to be rendered.
    pub fn needs_render(&self) -> bool {
        matches!(self, Self::New | Self::Changed)
    }
    /// Whether writes about the release are allowed, even if none is needed.
    pub fn is_acted_on(&self) -> bool {
        !matches!(
            self,
            Self::Leave | Self::Refused(_) | Self::Awaiting(_) | Self::Waiting | Self::Paused(_) | Self::Uninstall
        )
    }
    /// Whether the newest record has to be read.
    pub fn needs_record(&self) -> bool {
        matches!(
            self,
            Self::Uninstall | Self::Abandoned | Self::RollBack(_) | Self::Drifted(_) | Self::Unfinished | Self::Changed
        )
    }
}

/// The difference between an object and its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drift {
    /// It is gone.
    Missing(ObjectId),
    /// It is another object, or our fields differ from the API server's answer to our apply.
    Changed(ObjectId),
    /// It is ours and the revision does not list it.
    Stray(ObjectId, Box<str>),
}

/// The name for the writing of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionKind {
    /// Nothing was ever deployed, or it was uninstalled since.
    Install,
    /// Something is or was deployed.
    Upgrade,
    /// An earlier revision once more.
    Rollback,
}

impl RevisionKind {
    /// The status of a revision while it is being written.
    pub fn pending(self) -> Status {
        match self {
            Self::Install => Status::PendingInstall,
            Self::Upgrade => Status::PendingUpgrade,
            Self::Rollback => Status::PendingRollback,
        }
    }
}

/// The operation that led, or leads, to the revision after these.
pub fn operation(older: &[Revision]) -> RevisionKind {
    let told = older.iter().rev().find_map(|r| match r.status {
        Status::Deployed | Status::Superseded => Some(RevisionKind::Upgrade),
        Status::Uninstalled | Status::Uninstalling => Some(RevisionKind::Install),
        _ => None,
    });
    told.unwrap_or(RevisionKind::Install)
}

/// The operation of the newest revision.
pub fn newest_operation(history: &[Revision]) -> RevisionKind {
    match history.split_last() {
        Some((head, _)) if head.rollback.is_some() => RevisionKind::Rollback,
        Some((_, older)) => operation(older),
        None => RevisionKind::Install,
    }
}

impl Situation {
    /// Whether an object of the release is to be repaired.
    pub fn repairs(&self, object: &ObjectId) -> bool {
        let of = |d: &Drift| matches!(d, Drift::Missing(id) | Drift::Changed(id) if id == object);
        matches!(self, Self::Drifted(drift) if drift.iter().any(of))
    }
}

/// Whether the newest revision only puts the release to sleep or wakes it, or the next one does: its hooks do not run.
pub fn is_only_sleep(facts: &SituationFacts) -> bool {
    let Some((head, older)) = facts.history.split_last() else { return false };
    let before = if head.inputs == facts.inputs { older.last() } else { Some(head) };
    facts.inputs_otherwise.is_some() && before.is_some_and(|before| before.inputs == facts.inputs_otherwise)
}

/// The first row that fits wins; the order is the safety argument.
pub fn situation(facts: &SituationFacts) -> Situation {
    let head = facts.history.last();
    let same_inputs = head.is_some_and(|r| r.inputs.is_some() && r.inputs == facts.inputs);
    let status = head.map(|r| r.status);
    let gone = matches!(status, None | Some(Status::Uninstalled | Status::Uninstalling));
    // A record that another client overwrote has no inventory, so it decides nothing.
    let judged = status == Some(Status::Deployed) && head.is_some_and(|r| r.inventory.is_some());
    let asked = facts.asked || head.is_some_and(|r| r.is_due(facts.now));
    // It does not touch the deployed objects, and steps that have begun are finished.
    let waited_for = facts.holds.as_ref().filter(|_| !same_inputs && !gone && !is_pending(status));
    let stays =
        facts.refusal.is_some() || facts.awaits.is_some() || waited_for.is_some() || facts.spent || facts.pausing;
    match () {
        // A delete hook failed a moment ago.
        () if facts.deleting && facts.finalized && facts.pausing => Situation::Waiting,
        () if facts.deleting && facts.finalized => Situation::Uninstall,
        () if facts.deleting => Situation::Leave,
        () if facts.foreign.is_some() => {
            let message = facts.foreign.clone().unwrap_or_default();
            Situation::Refused(Refusal { reason: "ReleaseConflict", message })
        }
        () if facts.switches.paused => Situation::Paused(if judged { drift(facts) } else { Vec::new() }),
        () if facts.busy => Situation::Waiting,
        () if judged && (same_inputs && !asked || stays) => match drift(facts) {
            drift if !drift.is_empty() => Situation::Drifted(drift),
            _ => match &facts.refusal {
                Some(refusal) => Situation::Refused(refusal.clone()),
                None if let Some(awaits) = &facts.awaits => Situation::Awaiting(awaits.clone()),
                None if facts.spent => Situation::Blocked,
                None if facts.pausing => Situation::Waiting,
                None if let Some(waited_for) = waited_for => Situation::Awaiting(waited_for.clone()),
                None if has_finished(facts) => Situation::Finished,
                None => Situation::Settled,
            },
        },
        () if facts.refusal.is_some() => facts.refusal.clone().map_or(Situation::Settled, Situation::Refused),
        () if let Some(awaits) = &facts.awaits => Situation::Awaiting(awaits.clone()),
        () if facts.spent => given_up(facts),
        () if facts.pausing => Situation::Waiting,
        () if gone => Situation::New,
        () if let Some(waited_for) = waited_for => Situation::Awaiting(waited_for.clone()),
        // A change of the inputs does not interrupt a hook that runs (docs/design/applying.md D3).
        () if !same_inputs && is_pending(status) && hooks::running(facts).is_some() => Situation::Waiting,
        () if same_inputs && status != Some(Status::Deployed) && status != Some(Status::Superseded) => {
            Situation::Unfinished
        }
        () => Situation::Changed,
    }
}

fn is_pending(status: Option<Status>) -> bool {
    matches!(status, Some(Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback))
}

/// The attempts are spent, and the newest revision is not a good one.
fn given_up(facts: &SituationFacts) -> Situation {
    let Some((head, older)) = facts.history.split_last() else { return Situation::Blocked };
    let half_done = matches!(
        head.status,
        Status::Failed | Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback
    );
    // A release with members is not rolled back: that may be a downgrade of their data.
    let keeps = facts.switches.on_failure == OnFailure::Keep || head.members.is_some();
    if !half_done || head.inputs.is_none() || keeps {
        return Situation::Blocked;
    }
    if head.rollback.is_some() {
        return Situation::Unfinished;
    }
    let last = |status| older.iter().rev().find(|r| r.status == status);
    match (operation(older), last(Status::Deployed).or_else(|| last(Status::Superseded))) {
        (RevisionKind::Upgrade, Some(good)) => Situation::RollBack(good.revision),
        _ if facts.switches.on_failure == OnFailure::Uninstall => Situation::Abandoned,
        _ => Situation::Blocked,
    }
}

//! How a release stands: one word, from what the caches know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::hooks;
use super::objects::{drift, has_finished};
use crate::kind::switches::{OnFailure, Switches};
use crate::release::live::Live;
use crate::release::object::{Gvk, ObjectId};
use crate::release::record::Status;
use crate::release::secret::Revision;

/// Everything that a decision depends on.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and the table of situations reads them one by one"
)]
pub struct Facts {
    /// uid of the custom resource.
    pub uid: Box<str>,
    /// Namespace of the custom resource.
    pub namespace: Box<str>,
    /// What its objects say that cannot refer to it; see [`Owner::marks`](crate::release::owner::Owner::marks).
    pub marks: Box<str>,
    /// Now, in seconds since 1970.
    pub now: i64,
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// It has our finalizer.
    pub finalized: bool,
    /// `helm.sdk.operatorframework.io/uninstall-wait`: it stays until its objects are gone.
    pub wait_for_deletion: bool,
    /// The switches of the custom resource.
    pub switches: Switches,
    /// `reconcile-at` has a text that no pass has answered yet.
    pub asked: bool,
    /// Why nothing can be rendered, whatever the values are.
    pub refusal: Option<Refusal>,
    /// The release belongs to somebody else: a sentence that names them.
    pub foreign: Option<String>,
    /// Other custom resources would give their release the same name, or may: not all are known yet.
    pub rivals: bool,
    /// Somebody else's operation on the release (`helm upgrade`, `helm uninstall`) began a moment ago and is not finished.
    pub busy: bool,
    /// The revisions, oldest first.
    pub history: Vec<Revision>,
    /// Digest of what the release would be rendered from; `None` when there is no usable chart.
    pub inputs: Option<Box<str>>,
    /// These inputs were tried as often as they may be: nothing is tried again until they change (docs/design/applying.md A3).
    pub spent: bool,
    /// They failed a moment ago, and the pause until the next attempt is not over.
    pub pausing: bool,
    /// Objects that somebody changes as often as we repair them: left for a while.
    pub paused: BTreeSet<ObjectId>,
    /// The objects that are ours, or that the newest revision lists.
    pub live: BTreeMap<ObjectId, Live>,
    /// Jobs and Pods that had come to their end when they went, with their uids.
    pub ended: BTreeMap<ObjectId, Box<str>>,
    /// Kinds, per namespace, of which the caches do not know all objects yet: nothing is judged missing there.
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

/// How a release stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Situation {
    /// The custom resource is going, and its objects with it.
    Uninstall,
    /// It is going and is not ours to finish.
    Leave,
    /// It cannot be served.
    Refused(Refusal),
    /// Caches that are needed for the decision are not complete yet, or somebody else works on the release.
    Waiting,
    /// What is deployed is what it should be.
    Settled,
    /// What is deployed is what it should be, and a Job or a Pod of it has come to its end since that was noted.
    Finished,
    /// Its inputs can not work, and what was deployed before is intact.
    Blocked,
    /// The custom resource says that nothing is to be done. How its objects have drifted meanwhile.
    Paused(Vec<Drift>),
    /// The newest revision failed for good: the release goes back to this one.
    RollBack(u64),
    /// The first installation failed for good, and is uninstalled.
    Abandoned,
    /// Objects are not what the deployed revision says.
    Drifted(Vec<Drift>),
    /// The newest revision is for these inputs and was not finished.
    Unfinished,
    /// There is no release yet.
    New,
    /// The newest revision is for other inputs, or somebody else made it.
    Changed,
}

impl Situation {
    /// Whether the chart has to be rendered.
    pub fn needs_render(&self) -> bool {
        matches!(self, Self::New | Self::Changed)
    }
    /// Whether anything may be written about the release, be it that nothing has to.
    pub fn is_acted_on(&self) -> bool {
        !matches!(self, Self::Leave | Self::Refused(_) | Self::Waiting | Self::Paused(_) | Self::Uninstall)
    }
    /// Whether the newest record has to be read.
    pub fn needs_record(&self) -> bool {
        matches!(
            self,
            Self::Uninstall | Self::Abandoned | Self::RollBack(_) | Self::Drifted(_) | Self::Unfinished | Self::Changed
        )
    }
}

/// How one object differs from its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drift {
    /// It is gone.
    Missing(ObjectId),
    /// It is another object, or our fields of it are not as the API server answered.
    Changed(ObjectId),
    /// It is ours and the revision does not list it.
    Stray(ObjectId, Box<str>),
}

/// What the writing of a revision is called.
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

/// The operation that a revision after these is, or was.
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

/// The first row that fits wins; the order is the safety argument.
pub fn situation(facts: &Facts) -> Situation {
    let head = facts.history.last();
    let same_inputs = head.is_some_and(|r| r.inputs.is_some() && r.inputs == facts.inputs);
    let status = head.map(|r| r.status);
    let gone = matches!(status, None | Some(Status::Uninstalled | Status::Uninstalling));
    // A record that somebody else wrote over lacks the inventory, and then nothing can be judged by it.
    let judged = status == Some(Status::Deployed) && head.is_some_and(|r| r.inventory.is_some());
    let asked = facts.asked || head.is_some_and(|r| r.is_due(facts.now));
    let stays = facts.refusal.is_some() || facts.spent || facts.pausing;
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
                None if facts.spent => Situation::Blocked,
                None if facts.pausing => Situation::Waiting,
                None if has_finished(facts) => Situation::Finished,
                None => Situation::Settled,
            },
        },
        () if facts.refusal.is_some() => facts.refusal.clone().map_or(Situation::Settled, Situation::Refused),
        () if facts.spent => given_up(facts),
        () if facts.pausing => Situation::Waiting,
        () if gone => Situation::New,
        // What runs is not interrupted by a change of the inputs (docs/design/applying.md D3).
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
fn given_up(facts: &Facts) -> Situation {
    let Some((head, older)) = facts.history.split_last() else { return Situation::Blocked };
    let half_done = matches!(
        head.status,
        Status::Failed | Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback
    );
    // With members nothing goes back: it may be a downgrade of what they hold.
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

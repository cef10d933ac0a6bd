//! How a release stands: one word, from what the caches know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::live::Live;
use super::objects::drift;
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
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// It has our finalizer.
    pub finalized: bool,
    /// `helm.sdk.operatorframework.io/uninstall-wait`: it stays until its objects are gone.
    pub wait_for_deletion: bool,
    /// Why nothing can be rendered, whatever the values are.
    pub refusal: Option<Refusal>,
    /// The release belongs to somebody else: a sentence that names them.
    pub foreign: Option<String>,
    /// Somebody else's operation on the release (`helm upgrade`, `helm uninstall`) began a moment ago and is not finished.
    pub busy: bool,
    /// The revisions, oldest first.
    pub history: Vec<Revision>,
    /// Digest of what the release would be rendered from; `None` when there is no usable chart.
    pub inputs: Option<Box<str>>,
    /// These inputs were tried and can not work: nothing is tried again until they change (apply.md A3).
    pub spent: bool,
    /// Objects that somebody changes as often as we repair them: left for a while.
    pub paused: BTreeSet<ObjectId>,
    /// The objects that are ours, or that the newest revision lists.
    pub live: BTreeMap<ObjectId, Live>,
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
    /// Its inputs can not work, and what was deployed before is intact.
    Blocked,
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
    /// Whether the newest record has to be read.
    pub fn needs_record(&self) -> bool {
        matches!(self, Self::Uninstall | Self::Drifted(_) | Self::Unfinished | Self::Changed)
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
    let stays = facts.refusal.is_some() || facts.spent;
    match () {
        () if facts.deleting && facts.finalized => Situation::Uninstall,
        () if facts.deleting => Situation::Leave,
        () if facts.foreign.is_some() => {
            let message = facts.foreign.clone().unwrap_or_default();
            Situation::Refused(Refusal { reason: "ReleaseConflict", message })
        }
        () if facts.busy => Situation::Waiting,
        () if judged && (same_inputs || stays) => match drift(facts) {
            drift if !drift.is_empty() => Situation::Drifted(drift),
            _ => match &facts.refusal {
                Some(refusal) => Situation::Refused(refusal.clone()),
                None if facts.spent => Situation::Blocked,
                None => Situation::Settled,
            },
        },
        () if facts.refusal.is_some() => facts.refusal.clone().map_or(Situation::Settled, Situation::Refused),
        () if facts.spent => Situation::Blocked,
        () if gone => Situation::New,
        () if same_inputs && status != Some(Status::Deployed) && status != Some(Status::Superseded) => {
            Situation::Unfinished
        }
        () => Situation::Changed,
    }
}

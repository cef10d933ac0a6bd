//! The caches' knowledge of a live object: a summary, not the object.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::mask::Text;

/// The health of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It works. For most kinds: it exists.
    Ready,
    /// In progress; the text says what is still missing.
    Progressing(Text),
    /// It will not get ready by waiting; the text says why.
    Failed(Text),
}

impl Health {
    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        *self == Self::Ready
    }
    /// One word for `status.resources`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Progressing(_) => "Progressing",
            Self::Failed(_) => "Failed",
        }
    }
    /// The missing or wrong part; `None` when ready.
    pub fn message(&self) -> Option<&Text> {
        match self {
            Self::Ready => None,
            Self::Progressing(text) | Self::Failed(text) => Some(text),
        }
    }

    /// The message about it.
    pub fn text(&self) -> Text {
        self.message().cloned().unwrap_or_else(|| self.word().into())
    }
}

/// Without texts of others.
impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

/// The summary of a live object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate fact")]
pub struct Live {
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.resourceVersion` as a number; API servers that know streaming lists promise that it can be compared.
    pub resource_version: u64,
    /// Digest of the fields that we own; `None` when we own none.
    pub digest: Option<Box<str>>,
    /// The owners of its fields must be read before the next apply: some wait to be taken over from Helm (docs/design/applying.md B1), or
    /// its replicas are set through the subresource `scale` (docs/design/applying.md C4). It is not drift.
    pub shared: bool,
    /// uid in the owner reference that made it ours, if it has one.
    pub owner_uid: Option<Box<str>>,
    /// [`Marks`](super::owner::Owner::marks) of an object without such a reference.
    pub marks: Option<Box<str>>,
    /// `helm.sh/resource-policy: keep`.
    pub kept: bool,
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// It is a Job or a Pod that has finished.
    pub finished: bool,
    /// The hook that made it.
    pub hook: Option<Box<super::hook_run::HookRun>>,
    pub health: Health,
    /// `spec.replicas` of a StatefulSet with members: the digest leaves it out, because the operator changes it step by step.
    pub replicas: Option<u32>,
    /// The label selector of its pods, when it is a workload and not ready.
    pub pods: Option<Box<str>>,
    /// The part of it that a status shows.
    pub shown: Shown,
}

/// The part of an object that a status shows, besides its health.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The report of the subresource `scale` of a workload that can be scaled.
    pub scale: Option<Box<Scale>>,
    /// The values at the paths that a [`Status`](super::status_fields) document of its release names, by the text of the path; `None`
    /// for a path that leads nowhere. A path without an entry was not looked at.
    pub fields: BTreeMap<Box<str>, Option<Value>>,
}

/// The size of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The number of pods.
    pub replicas: u32,
    /// The label selector of the pods.
    pub selector: Box<str>,
}

/// The effects of a change between two summaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveChange {
    /// Nothing of the release, only its status.
    None,
    /// Only the health of the object.
    Health,
    /// The object itself.
    Content,
}

impl Live {
    /// The effects of the change to a later summary.
    pub fn change(&self, other: &Self) -> LiveChange {
        let Self {
            uid,
            resource_version: _,
            shared: _,
            digest,
            owner_uid,
            marks,
            kept,
            deleting,
            finished,
            hook,
            health,
            replicas,
            pods: _,
            shown,
        } = self;
        let content = *uid != other.uid
            || *digest != other.digest
            || *owner_uid != other.owner_uid
            || *marks != other.marks
            || *kept != other.kept
            || *deleting != other.deleting
            || *hook != other.hook
            || *replicas != other.replicas;
        match () {
            () if content => LiveChange::Content,
            () if *health != other.health || *finished != other.finished || *shown != other.shown => LiveChange::Health,
            () => LiveChange::None,
        }
    }
}

#[cfg(test)]
impl Live {
    /// A summary that is ready and belongs to the release, for tests.
    pub fn example() -> Self {
        Self {
            uid: "u".into(),
            resource_version: 1,
            digest: None,
            shared: false,
            owner_uid: Some("cr".into()),
            marks: None,
            kept: false,
            deleting: false,
            finished: false,
            hook: None,
            health: Health::Ready,
            replicas: None,
            pods: None,
            shown: Shown::default(),
        }
    }
}

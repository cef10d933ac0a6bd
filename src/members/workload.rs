//! What is seen of a StatefulSet with members, by ordinals.

use crate::names;
use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A StatefulSet as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name; pod `k` is `NAME-k`.
    pub name: Arc<str>,
    /// `metadata.resourceVersion` of a live read in this pass: every write of `replicas` carries it.
    pub resource_version: Box<str>,
    /// `spec.replicas`.
    pub replicas: u32,
    /// `spec.ordinals.start`: 0, but while only one of several members may run.
    pub start: u32,
    /// `status.updateRevision`: the revision that pods of the present template have; empty until the StatefulSet's controller has
    /// seen what was last written.
    pub update_revision: Box<str>,
    /// Its pods by ordinal.
    pub pods: BTreeMap<u32, Pod>,
    /// Pods of its names that it does not own: those of an earlier StatefulSet of this name that is still going.
    pub earlier: Vec<Arc<str>>,
    /// The claims of its claim templates by ordinal, also of ordinals that have no pod.
    pub claims: BTreeMap<u32, Vec<VolumeClaim>>,
}

impl Workload {
    /// What is still there of an earlier StatefulSet of this name, and is waited for before the first member comes: its members would
    /// answer under the names of the new ones.
    pub fn predecessor(&self) -> Option<String> {
        let pod = self.earlier.first().map(|name| format!("pod {name} of an earlier StatefulSet to go"));
        let going = |claim: &&VolumeClaim| claim.terminating;
        let claim = self.claims.values().flatten().find(going).map(|claim| format!("claim {} to go", claim.name));
        pod.or(claim)
    }

    /// Whether a pod has another template than the present one; false while that is unknown.
    pub fn is_outdated(&self, pod: &Pod) -> bool {
        !self.update_revision.is_empty() && pod.revision != self.update_revision
    }
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// Label `controller-revision-hash`.
    pub revision: Box<str>,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// How it is.
    pub phase: PodPhase,
    /// Its condition `Ready`.
    pub ready: bool,
    /// It has a deletionTimestamp.
    pub terminating: bool,
    /// How often its containers were started again.
    pub restarts: u32,
    /// How its first container ended last, if it ever did.
    pub exit: Option<Exit>,
    /// Why it is not ready, for people: `ImagePullBackOff: …`, `Unschedulable: …`; empty when it is.
    pub reason: Box<str>,
    /// Whether it takes clients by TLS alone, as its own template says, which may be an older one; None when that says nothing.
    pub secure: Option<bool>,
}

impl Pod {
    /// It is ready, and was not asked to end.
    pub fn stays_ready(&self) -> bool {
        self.ready && !self.terminating
    }
}

/// `status.phase`, with a value of its own for a pod that no node takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPhase {
    /// Not on a node.
    Unscheduled,
    /// On a node, and its containers have not all been started.
    Pending,
    /// Started.
    Running,
    /// Over, well or not; the StatefulSet controller replaces it.
    Ended,
    /// Its node does not answer.
    Unknown,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its code.
    pub code: i32,
    /// Its termination message, which is the end of its log when the chart asks for that.
    pub message: Box<str>,
    /// When it was started again, in seconds since 1970, if it runs now.
    pub running_since: Option<i64>,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeClaim {
    /// Its name.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// It has a deletionTimestamp.
    pub terminating: bool,
    /// `status.phase` is `Lost`: its volume is gone.
    pub lost: bool,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// How many members (D).
    pub size: u32,
    /// Whether it is to be brought about.
    pub mode: Mode,
    /// Claims of members that left go too.
    pub delete_claims: bool,
    /// Claims that are there before the first member was: adopted, or a reason to stop.
    pub adopt_claims: bool,
    /// What the user said about a quorum that is lost for good.
    pub recover: Option<Box<str>>,
}

/// Whether what is wanted is to be brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Yes.
    Run,
    /// Nothing is changed, only reported.
    Paused,
    /// The custom resource is going: nobody leaves, all of it goes.
    Deleting,
}

/// The annotation with the uids of those for which the data of a cluster was replaced, the last first. Whoever writes it has taken away
/// all there was before.
pub const REPLACED: &str = names::REPLACED_FOR;
/// A claim that is at most so many seconds older than its pod was made for it, by the StatefulSet's controller.
const MADE: i64 = 60;
/// How many of them are remembered.
const REMEMBERED: usize = 10;

/// What nobody but the status of the custom resource remembers. Every driver finds here what it wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Latch {
    /// The first member was there once: from then on nothing starts a new cluster.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bootstrapped: bool,
    /// `replicas` as the operator wrote it last (`S_last`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// The identity that the application gave itself, such as etcd's cluster ID in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// How far its data was when it was last looked at, such as etcd's revision: it never goes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Since when an ordinal is unhealthy or has not joined, in seconds since 1970.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub since: BTreeMap<u32, i64>,
    /// Uids of the claims and the pod that an ordinal had when its member was found to have left: they must be gone before another
    /// member of that ordinal joins, and what has another uid is fresh.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stale: BTreeMap<u32, Vec<String>>,
    /// Uids of the claims that the members of an ordinal have or had, as long as those are there. No other claim is deleted: one that
    /// has the name and was restored, or is somebody else's, is nobody's to delete.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<u32, Vec<String>>,
    /// For whom the data was replaced that this is about, by uid ([`REPLACED`]); None: it is the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced: Option<String>,
    /// For whom it was replaced before, the last first: an annotation that names one of these as the last is an old one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced_before: Vec<String>,
    /// A quorum is lost for good, and one member goes on alone: the user said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// What the user said the last time: the same is not done twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovered: Option<String>,
    /// How space was reclaimed last, or is just now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaimed: Option<Reclaimed>,
    /// The member that comes, goes or is started again just now, for a driver that cannot ask the application which it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moving: Option<Move>,
}

impl Latch {
    /// What a status says that is about the present data. `replaced` is the value of [`REPLACED`].
    ///
    /// A pass that began before the data was replaced may write down afterwards what it knew; of that nothing counts. It would be a
    /// cluster that is there, and no member could begin the new one. But an annotation that is gone, or an old one, was dropped or put
    /// back by whoever wrote the custom resource (`kubectl replace`, a restore of it): then all that is remembered counts.
    pub fn of(stored: Option<&serde_json::Value>, replaced: Option<&str>) -> Self {
        let mut stored: Self = stored.and_then(|stored| Self::deserialize(stored).ok()).unwrap_or_default();
        let said: Vec<String> = replaced.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        let Some((newest, before)) = said.split_first() else { return stored };
        let known = stored.replaced.iter().chain(&stored.replaced_before);
        let is_known = known.clone().any(|uid| uid == newest);
        let mut past: Vec<String> = Vec::new();
        for uid in before.iter().chain(known) {
            let is_present = if is_known { stored.replaced.as_ref() == Some(uid) } else { uid == newest };
            if !is_present && !past.contains(uid) {
                past.push(uid.clone());
            }
        }
        past.truncate(REMEMBERED);
        if is_known {
            stored.replaced_before = past;
            return stored;
        }
        Self { replaced: Some(newest.clone()), replaced_before: past, ..Self::default() }
    }

    /// The claims that members have or had, with those of these ordinals, which have a member now, and those that were made for pods of
    /// the StatefulSet, which somebody may have scaled up.
    pub fn claims_with(&self, workload: &Workload, members: impl Iterator<Item = u32>) -> BTreeMap<u32, Vec<String>> {
        let mut claims = self.claims.clone();
        let mut note = |ordinal: u32, since: i64| {
            let known = claims.entry(ordinal).or_default();
            let there = workload.claims.get(&ordinal).into_iter().flatten();
            for claim in there.filter(|claim| !claim.terminating && claim.created >= since) {
                if !known.iter().any(|uid| **uid == *claim.uid) {
                    known.push(claim.uid.to_string());
                }
            }
        };
        members.for_each(|ordinal| note(ordinal, i64::MIN));
        workload.pods.iter().for_each(|(ordinal, pod)| note(*ordinal, pod.created.saturating_sub(MADE)));
        claims.retain(|ordinal, known| {
            let there = workload.claims.get(ordinal).map_or(&[][..], Vec::as_slice);
            known.retain(|uid| there.iter().any(|claim| **uid == *claim.uid));
            !known.is_empty()
        });
        claims
    }

    /// Whether a claim is that of a member, or of one that left.
    pub fn knows(&self, ordinal: u32, claim: &VolumeClaim) -> bool {
        self.claims.get(&ordinal).is_some_and(|known| known.iter().any(|uid| **uid == *claim.uid))
    }

    /// Why a claim is in the way of a member that is to join, and stays.
    pub fn orphan(&self, ordinal: u32, claim: &VolumeClaim) -> String {
        let name = &claim.name;
        if self.knows(ordinal, claim) {
            format!(
                "claim {name} of a member that left is kept (volumes.onRemove); delete it, and the next member begins with an empty one"
            )
        } else {
            format!(
                "claim {name} is there and no member is known to have had it: somebody made or restored it, and it is not deleted; delete \
                 it, and the next member begins with an empty one"
            )
        }
    }
}

/// One member goes on alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Recovery {
    /// What the user said.
    pub statement: String,
    /// The ordinal of the one that goes on.
    pub survivor: u32,
    /// The uid of the pod that it had before it started alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
}

/// How space was reclaimed after files had reached their quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Reclaimed {
    /// When it began, in seconds since 1970.
    pub since: i64,
    /// There is no history before this position any more.
    pub before: u64,
    /// How often the file of an ordinal was rewritten since then.
    pub written: BTreeMap<u32, u32>,
    /// Writes are allowed again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub over: bool,
}

/// A member that comes, goes or is started again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// Which of the three.
    pub kind: MoveKind,
    /// Its ordinal.
    pub ordinal: u32,
    /// Since when, in seconds since 1970: it distinguishes this move from an earlier one of the same ordinal.
    pub since: i64,
}

/// What a member does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "the names say it")]
pub enum MoveKind {
    Join,
    Leave,
    Restart,
}

#[cfg(test)]
impl Workload {
    /// One without pods, for tests.
    pub fn example(replicas: u32) -> Self {
        Self {
            namespace: "ns".into(),
            name: "db".into(),
            resource_version: "1".into(),
            replicas,
            start: 0,
            update_revision: "r1".into(),
            pods: BTreeMap::new(),
            earlier: Vec::new(),
            claims: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
impl Pod {
    /// One that is ready, for tests.
    pub fn example() -> Self {
        Self {
            uid: "pod".into(),
            revision: "r1".into(),
            created: 1,
            phase: PodPhase::Running,
            ready: true,
            terminating: false,
            restarts: 0,
            exit: None,
            reason: Box::default(),
            secure: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Latch;
    use serde_json::json;

    #[test]
    fn what_was_known_of_data_that_was_replaced_does_not_count() {
        let old = json!({"bootstrapped": true, "cluster": "c1", "replicas": 3});
        assert_eq!(Latch::of(Some(&old), None).replicas, Some(3));
        // Written by a pass that began before.
        let begun = Latch::of(Some(&old), Some("u2 u1"));
        let before = vec!["u1".into()];
        assert_eq!(begun, Latch { replaced: Some("u2".into()), replaced_before: before, ..Latch::default() });
        assert_eq!(Latch::of(None, Some("u2 u1")), begun);
        let grown = Latch { bootstrapped: true, replicas: Some(1), ..begun };
        let stored = serde_json::to_value(&grown).unwrap();
        assert_eq!(Latch::of(Some(&stored), Some("u2 u1")), grown);
        let again = Latch::of(Some(&stored), Some("u3 u2 u1"));
        assert!(!again.bootstrapped, "and again");
        assert_eq!(again.replaced_before, ["u2", "u1"]);
        assert!(!Latch::of(Some(&stored), Some("u3")).bootstrapped, "also when the annotation was dropped before");
    }

    #[test]
    fn an_annotation_that_was_dropped_or_put_back_resets_nothing() {
        let stored = json!({"bootstrapped": true, "replicas": 3, "replaced": "u2", "replacedBefore": ["u1"]});
        for annotation in [None, Some(""), Some("u2 u1"), Some("u2"), Some("u1")] {
            let latch = Latch::of(Some(&stored), annotation);
            assert_eq!((latch.bootstrapped, latch.replicas, latch.replaced.as_deref()), (true, Some(3), Some("u2")));
            assert_eq!(latch.replaced_before, ["u1"], "{annotation:?}");
        }
    }
}

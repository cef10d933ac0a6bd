//! The observed state of a StatefulSet with members, by ordinals.

use crate::names;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The observed state of a StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    pub namespace: Arc<str>,
    /// Its name; pod `k` is `NAME-k`.
    pub name: Arc<str>,
    /// `metadata.resourceVersion` as read from the API server in this pass: every write of `replicas` contains it.
    pub resource_version: Box<str>,
    /// `spec.replicas`.
    pub replicas: u32,
    /// `spec.ordinals.start`: 0, except while only one of several members may run.
    pub start: u32,
    /// `status.updateRevision`: the revision of pods from the current template. It is empty until the StatefulSet's
    /// controller has observed the last write.
    pub update_revision: Box<str>,
    /// Its pods by ordinal.
    pub pods: BTreeMap<u32, Pod>,
    /// Pods with its names that it does not own: those of an earlier StatefulSet of this name that still terminate.
    pub earlier: Vec<Arc<str>>,
    /// The claims of its claim templates by ordinal, including those of ordinals without a pod.
    pub claims: BTreeMap<u32, Vec<VolumeClaim>>,
}

impl Workload {
    /// The remains of an earlier StatefulSet of this name. The first member has to wait for it: the old members would
    /// answer under the names of the new ones.
    pub fn predecessor(&self) -> Option<String> {
        let pod = self.earlier.first().map(|name| format!("pod {name} of an earlier StatefulSet to be deleted"));
        let going = |claim: &&VolumeClaim| claim.terminating;
        let claim = self.claims.values().flatten().find(going).map(|claim| format!("claim {} to go", claim.name));
        pod.or(claim)
    }

    /// Whether a pod has an outdated template; `false` while this is unknown.
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
    pub phase: PodPhase,
    /// Whether its condition `Ready` is true.
    pub ready: bool,
    /// Whether it has a deletionTimestamp.
    pub terminating: bool,
    /// How often its containers were restarted.
    pub restarts: u32,
    /// How its first container ended last, if it ever ended.
    pub exit: Option<Exit>,
    /// Why it is not ready, for people: `ImagePullBackOff: …`, `Unschedulable: …`; empty if it is ready.
    pub reason: Box<str>,
    /// The role that the operator gave it by a label.
    pub role: Option<Box<str>>,
    /// Whether it accepts clients only over TLS, by its own template, which may be outdated; `None` if the template
    /// does not show it.
    pub secure: Option<bool>,
}

impl Pod {
    /// Whether it is ready and not being deleted.
    pub fn stays_ready(&self) -> bool {
        self.ready && !self.terminating
    }
}

/// `status.phase`, with a separate value for a pod without a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPhase {
    /// It has no node.
    Unscheduled,
    /// It has a node, but not all of its containers have been started.
    Pending,
    /// It has been started.
    Running,
    /// It has ended, successfully or not. The StatefulSet controller replaces it.
    Ended,
    /// Its node does not answer.
    Unknown,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code.
    pub code: i32,
    /// Its termination message, which is the end of its log if the chart asks for that.
    pub message: Box<str>,
    /// When it was restarted, in seconds since 1970, if it runs now.
    pub running_since: Option<i64>,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeClaim {
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Whether it has a deletionTimestamp.
    pub terminating: bool,
    /// Whether `status.phase` is `Lost`: its volume is gone.
    pub lost: bool,
    pub size: ClaimSize,
}

/// The size of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimSize {
    /// The name of its template in the StatefulSet.
    pub template: Box<str>,
    /// The bytes that it requests.
    pub requested: u64,
    /// The bytes that its volume has; 0 while it has none.
    pub capacity: u64,
    /// When the operator requested a larger volume by itself last, in seconds since 1970.
    pub grown: Option<i64>,
}

/// The wanted state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadTarget {
    /// The number of members (D).
    pub size: u32,
    /// Whether the operator may act.
    pub mode: Mode,
    /// Whether the members sleep: none has a pod.
    pub asleep: bool,
    /// Whether the claims of members that left are deleted.
    pub delete_claims: bool,
    /// Whether claims that exist before the first member are adopted; if not, they are a reason to stop.
    pub adopt_claims: bool,
    /// The user's statement about a quorum that is lost for good.
    pub recover: Option<Box<str>>,
    /// The user's request that another member becomes the primary.
    pub switch_over: Option<Box<str>>,
}

impl WorkloadTarget {
    /// This number of members, whose claims are deleted with them, and no request of a user.
    pub fn of(size: u32) -> Self {
        Self {
            size,
            mode: Mode::Run,
            asleep: false,
            delete_claims: true,
            adopt_claims: false,
            recover: None,
            switch_over: None,
        }
    }
}

/// Whether the operator may act on the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It acts.
    Run,
    /// Something else about the release is under way, or fails: no member comes, goes or is restarted. A driver keeps the members at
    /// work, such as by a fail-over.
    Keep,
    /// It changes nothing and only reports.
    Paused,
    /// The custom resource is being deleted: no member leaves, since all of them are deleted.
    Deleting,
}

/// The annotation with the uids of the objects for which the data of a cluster was replaced, with the newest first.
/// The program that writes it has removed all earlier data.
pub const REPLACED: &str = names::REPLACED_FOR;
/// The StatefulSet's controller created a claim for a pod if the claim is at most this many seconds older than the pod.
const MADE: i64 = 60;
/// The maximum number of uids to remember.
const REMEMBERED: usize = 10;

/// The facts of a driver in a latch, as the status has them.
pub type StoredFacts = Map<String, Value>;

/// The facts of a driver that has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoFacts {}

/// The facts that only the status of the custom resource keeps. `O` has those of the driver; a driver gets them with their
/// types ([`MemberDriver::Facts`](super::driver::MemberDriver)), and in the status they are next to the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Latch<O = StoredFacts> {
    /// The first member has existed. After that, nothing is allowed to start a new cluster.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bootstrapped: bool,
    /// The last `replicas` that the operator wrote (`S_last`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// The number of replicas to which members that sleep return.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asleep: Option<u32>,
    /// The identity that the application gave itself, such as etcd's cluster ID in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The position of the data when it was last observed, such as etcd's revision. It never decreases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// When an ordinal was first found unhealthy or not joined, in seconds since 1970.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub since: BTreeMap<u32, i64>,
    /// Uids of the claims and the pod that an ordinal had when its member was found to have left. They have to be
    /// deleted before another member of that ordinal joins; objects with other uids are fresh.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stale: BTreeMap<u32, Vec<String>>,
    /// Uids of the claims that the members of an ordinal have or had, as long as these exist. No other claim is
    /// deleted: a claim of the same name that was restored, or that has another owner, must not be deleted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<u32, Vec<String>>,
    /// Uids of the claims with which the member of an ordinal has answered, also of those that are gone. The claim of a member whose volume
    /// was lost has another uid until it has answered with it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub answered: BTreeMap<u32, Vec<String>>,
    /// The uid ([`REPLACED`]) of the object for which the current data replaced earlier data; `None` if it is the first
    /// data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced: Option<String>,
    /// The uids of earlier replacements, with the newest first. An annotation that names one of these as the newest is
    /// outdated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced_before: Vec<String>,
    /// The facts of the driver.
    #[serde(flatten)]
    pub own: O,
    /// The member that is being added, removed or restarted, for a driver that cannot ask the application which one it
    /// is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moving: Option<Move>,
}

impl Latch {
    /// With the types of the driver's facts; `None` if these have a different form.
    pub fn typed<O: DeserializeOwned>(&self) -> Option<Latch<O>> {
        // `flatten` cannot read maps whose keys are numbers.
        let own = O::deserialize(Value::Object(self.own.clone())).ok()?;
        Some(self.clone().with(own))
    }

    /// The latch of a status, as far as it is about the current data. `replaced` is the value of [`REPLACED`].
    ///
    /// A pass that began before the data was replaced may store its outdated facts afterwards, and they must not count:
    /// it would claim that a cluster exists, and no member could start the new one. But if the annotation is missing or
    /// outdated, a client that wrote the custom resource has dropped it or put it back (`kubectl replace`, a restored
    /// backup). Then everything that is stored counts.
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
}

impl<O: Serialize> Latch<O> {
    /// As the status has it.
    pub fn untyped(self) -> Latch {
        let own = serde_json::to_value(&self.own).ok().and_then(|own| own.as_object().cloned()).unwrap_or_default();
        self.with(own)
    }
}

impl<O> Latch<O> {
    /// With other facts of the driver.
    fn with<P>(self, own: P) -> Latch<P> {
        let Self {
            bootstrapped,
            replicas,
            asleep,
            cluster,
            position,
            since,
            stale,
            claims,
            answered,
            replaced,
            replaced_before,
            own: _,
            moving,
        } = self;
        Latch {
            bootstrapped,
            replicas,
            asleep,
            cluster,
            position,
            since,
            stale,
            claims,
            answered,
            replaced,
            replaced_before,
            own,
            moving,
        }
    }

    /// The claims that members have or had, plus the claims of these ordinals, which have a member now, and the claims
    /// that were created for pods of the StatefulSet, which somebody may have scaled up.
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

    /// The claims with which members have answered, with those of the members that answer now. `members` have an ordinal; those that have
    /// left are forgotten. The pod has to be ready, as a process of an earlier pod may still answer under its name, and
    /// to be younger than its claims, because an earlier pod may use the volume of a claim that is gone.
    pub fn answered_with(&self, workload: &Workload, members: &BTreeMap<u32, bool>) -> BTreeMap<u32, Vec<String>> {
        let of = |(ordinal, answers): (&u32, &bool)| {
            let claims = workload.claims.get(ordinal).filter(|claims| !claims.is_empty());
            let pod = workload.pods.get(ordinal).filter(|pod| *answers && pod.stays_ready());
            let used = claims
                .zip(pod)
                .filter(|(claims, pod)| claims.iter().all(|claim| !claim.terminating && claim.created <= pod.created));
            let uids = match used {
                Some((claims, _)) => claims.iter().map(|claim| claim.uid.to_string()).collect(),
                None => self.answered.get(ordinal)?.clone(),
            };
            Some((*ordinal, uids))
        };
        members.iter().filter_map(of).collect()
    }

    /// Whether a claim with which the member of an ordinal has answered is gone, and its data with it.
    pub fn has_lost(&self, workload: &Workload, ordinal: u32) -> bool {
        let there = workload.claims.get(&ordinal).map_or(&[][..], Vec::as_slice);
        let is_gone = |uid: &String| there.iter().all(|claim| *claim.uid != **uid);
        self.answered.get(&ordinal).is_some_and(|answered| answered.iter().any(is_gone))
    }

    /// Whether a claim belongs to a member, or to one that left.
    pub fn knows(&self, ordinal: u32, claim: &VolumeClaim) -> bool {
        self.claims.get(&ordinal).is_some_and(|known| known.iter().any(|uid| **uid == *claim.uid))
    }

    /// Why a claim is in the way of a member that is about to join, and is not deleted.
    pub fn orphan(&self, ordinal: u32, claim: &VolumeClaim) -> String {
        let name = &claim.name;
        if self.knows(ordinal, claim) {
            format!(
                "claim {name} of a member that left is kept (volumes.onRemove); delete it, and the next member begins with an empty one"
            )
        } else {
            format!(
                "claim {name} exists, and no member is known to have had it: somebody made or restored it, so the \
                 operator does not delete it; delete it, and the next member begins with an empty one"
            )
        }
    }
}

/// A member that is being added, removed or restarted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// The kind of the change.
    pub kind: MoveKind,
    pub ordinal: u32,
    /// When it began, in seconds since 1970. This distinguishes it from an earlier change of the same ordinal.
    pub since: i64,
}

/// The kind of a member's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum MoveKind {
    Join,
    Leave,
    Restart,
}

#[cfg(test)]
impl Workload {
    /// A workload without pods, for tests.
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
    /// A ready pod, for tests.
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
            role: None,
            secure: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ClaimSize, Latch, Pod, VolumeClaim, Workload};
    use crate::members::drivers::Drivers;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    /// Which claims of member 1, which had `a` and `b`, are remembered, and whether one was lost.
    #[test]
    fn a_claim_counts_as_a_members_when_it_has_answered_with_it() {
        let claim = |uid: &str, created, terminating| VolumeClaim {
            name: format!("{uid}-db-1").into(),
            uid: uid.into(),
            created,
            terminating,
            lost: false,
            size: ClaimSize::default(),
        };
        let pod = |ready, terminating| Pod { created: 10, ready, terminating, ..Pod::example() };
        let (there, other) =
            ([claim("a", 5, false), claim("b", 5, false)], [claim("a", 5, false), claim("c", 9, false)]);
        let going = [claim("a", 5, false), claim("b", 5, true)];
        let younger = [claim("a", 5, false), claim("c", 11, false)];
        for (claims, pod, answers, remembered, lost) in [
            (&there[..], pod(true, false), true, Some("a b"), false),
            // It was made again, and its member has not answered yet; its earlier process may still answer.
            (&other, pod(false, false), false, Some("a b"), true),
            (&other, pod(false, false), true, Some("a b"), true),
            (&other, pod(true, true), true, Some("a b"), true),
            (&other, pod(true, false), true, Some("a c"), false),
            (&going, pod(true, false), true, Some("a b"), false),
            (&younger, pod(true, false), true, Some("a b"), true),
            (&[], pod(true, false), true, Some("a b"), true),
        ] {
            let workload = Workload {
                claims: BTreeMap::from([(1, claims.to_vec())]),
                pods: BTreeMap::from([(1, pod)]),
                ..Workload::example(2)
            };
            let had = BTreeMap::from([(1, vec!["a".to_owned(), "b".to_owned()])]);
            let before: Latch = Latch { answered: had, ..Latch::default() };
            let answered = before.answered_with(&workload, &BTreeMap::from([(1, answers)]));
            assert_eq!(answered.get(&1).map(|uids| uids.join(" ")).as_deref(), remembered, "{claims:?}");
            let after: Latch = Latch { answered, ..Latch::default() };
            assert_eq!(after.has_lost(&workload, 1), lost, "{claims:?}");
            assert_eq!(before.answered_with(&workload, &BTreeMap::new()), BTreeMap::new(), "it has left");
        }
        let empty: Latch = Latch::default();
        assert!(!empty.has_lost(&Workload::example(2), 1), "nothing is known of it");
    }

    /// Clusters have these texts in their status.
    #[test]
    fn the_form_in_the_status_stays_the_same() {
        let etcd = concat!(
            r#"{"bootstrapped":true,"replicas":3,"cluster":"c","position":9,"since":{"1":5},"stale":{"1":["a"]},"#,
            r#""claims":{"0":["b"]},"answered":{"0":["b"]},"replaced":"u2","replacedBefore":["u1"],"#,
            r#""recovery":{"statement":"s","survivor":1,"pod":"p"},"recovered":"r","#,
            r#""reclaimed":{"since":1,"before":2,"written":{"0":3},"over":true}}"#
        );
        let primary = concat!(
            r#"{"primary":{"ordinal":1,"epoch":4,"number":2,"ackers":[0,2],"acks":1,"starts":{"1":"s"},"#,
            r#""returning":{"2":{"start":"t","position":"p"}},"change":{"kind":"FailOver","from":0,"to":1,"since":7,"why":"w"},"#,
            r#""leaving":{"ordinal":2,"position":"p"},"left":{"0":3},"last":{"kind":"SwitchOver","since":6,"why":"v"},"#,
            r#""requested":{"text":"x","result":"GivenUp","why":"y"},"notBefore":8}}"#
        );
        let jobs = r#"{"moving":{"kind":"Join","ordinal":2,"since":1}}"#;
        let drivers = Drivers::new();
        for (name, text) in [("etcd", etcd), ("primary", primary), ("jobs", jobs)] {
            let stored: Value = serde_json::from_str(text).unwrap();
            let driver = drivers.get(name).unwrap();
            let annotation = stored.get("replaced").map(|_| "u2 u1");
            let latch = driver.latch(Some(&stored), annotation);
            assert_eq!(serde_json::to_string(&latch).unwrap(), text);
            let mut other = stored.clone();
            other["unknown"] = 1.into();
            assert_eq!(driver.latch(Some(&other), annotation), latch, "facts of others do not count");
        }
    }

    #[test]
    fn what_was_known_of_data_that_was_replaced_does_not_count() {
        let old = json!({"bootstrapped": true, "cluster": "c1", "replicas": 3});
        assert_eq!(Latch::of(Some(&old), None).replicas, Some(3));
        // Written by a pass that began earlier.
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

//! What is seen of a StatefulSet with members, by ordinals.

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
    /// `status.updateRevision`: the revision that pods of the present template have.
    pub update_revision: Box<str>,
    /// Its pods by ordinal.
    pub pods: BTreeMap<u32, Pod>,
    /// The claims of its claim templates by ordinal, also of ordinals that have no pod.
    pub claims: BTreeMap<u32, Vec<Claim>>,
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
}

/// `status.phase`, with a pod that no node takes told apart.
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
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
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
}

/// Whether what is wanted is to be brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Yes.
    Run,
    /// Nothing is changed, only told.
    Paused,
    /// The custom resource is going: nobody leaves, all of it goes.
    Deleting,
}

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
    /// Name of the snapshot that is being restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restoring: Option<String>,
    /// The member that comes, goes or is started again just now, for a driver that cannot ask the application which it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moving: Option<Move>,
}

/// A member that comes, goes or is started again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// Which of the three.
    pub kind: MoveKind,
    /// Its ordinal.
    pub ordinal: u32,
    /// Since when, in seconds since 1970: it tells this move from an earlier one of the same ordinal.
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

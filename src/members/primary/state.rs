//! The observed state of a cluster, the latched state, and the actions.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::agent::contract::{MemberState, Verb};
use crate::members::driver::MemberStep;
use crate::members::url::Pattern;
use crate::members::workload::Latch;

/// The step of a pass over a database.
pub type PrimaryStep = MemberStep<PrimaryAction, PrimaryFacts>;

/// The latch of a database.
pub type PrimaryLatch = Latch<PrimaryFacts>;

/// The facts of a database that only the status keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrimaryFacts {
    /// The member that takes writes, and those that acknowledge them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<Latched>,
}

impl PrimaryFacts {
    /// Of a cluster with this latched state.
    pub fn of(held: Latched) -> Self {
        Self { primary: Some(held) }
    }
}

/// The settings of a cluster in the Members document.
#[derive(Clone, Debug)]
pub struct PrimarySettings {
    /// The URL of the agent of a pod. Its host is the one at which replicas reach the database.
    pub agent_url: Pattern,
    /// How many acknowledgements the database can wait for; with MariaDB 1.
    pub acks: u32,
    /// Seconds of silence after which the primary counts as lost.
    pub lost_after: i64,
    /// Seconds of silence after which a member may no longer acknowledge.
    pub silent_after: i64,
    /// Seconds after which a member whose volume is lost is replaced.
    pub dead_after: i64,
    /// Seconds that a replica may lag behind and still serve, and be chosen.
    pub lag: f64,
    /// The reaction when too few members can acknowledge.
    pub on_replica_lost: OnReplicaLost,
    /// The treatment of a member that has writes that no other member has.
    pub on_diverged: OnDiverged,
}

/// The reaction when too few members can acknowledge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnReplicaLost {
    /// Writes wait.
    #[default]
    Block,
    /// Writes continue without acknowledgements. Until a replica is back, there is no fail-over by itself.
    Degrade,
}

/// The treatment of a member that has writes that no other member has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDiverged {
    /// It is seeded again. No client was ever acknowledged these writes.
    #[default]
    Reseed,
    /// It stays as it is.
    Keep,
}

/// The latched state of a cluster, in the status. It is written before anything that depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Latched {
    /// The ordinal of the primary (P); `None` while one is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<u32>,
    /// The epoch (E), which increases with each new primary.
    pub epoch: u64,
    /// The number of the orders of this decision. It increases with each decision that takes something back, so that an agent can tell
    /// an older order from a newer one.
    #[serde(skip_serializing_if = "is_zero")]
    pub number: u64,
    /// The members that may acknowledge (N).
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub ackers: BTreeSet<u32>,
    /// On how many members of N each acknowledged write is at least (W). The primary may wait for more acknowledgements already.
    pub acks: u32,
    /// The `start` that the primary had when it took writes, and an acker when it received. After another start, an acker may have
    /// lost what it had acknowledged.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub starts: BTreeMap<u32, String>,
    /// Ackers that have started again, and are not heard until they have received what they may have lost.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub returning: BTreeMap<u32, Returning>,
    /// The primary is being replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<PrimaryChange>,
    /// An acker is being taken out of N.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaving: Option<Leaving>,
    /// Members that were taken out of N in this epoch, with the number of the order from which on they acknowledge no more. Before that,
    /// an older order may still let them acknowledge.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub left: BTreeMap<u32, u64>,
    /// The last replacement of the primary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<PrimaryChange>,
    /// The last switch-over that somebody requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested: Option<Request>,
    /// No switch-over begins before this time, in seconds since 1970: one was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<i64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// An acker that has started again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Returning {
    /// Its new `start`.
    pub start: String,
    /// The position of the primary afterwards.
    pub position: String,
}

/// A replacement of the primary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrimaryChange {
    /// How.
    pub kind: ChangeKind,
    /// The ordinal of the primary before; `None` if it was unknown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from: Option<u32>,
    /// The ordinal of the primary after.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub to: Option<u32>,
    /// When it began, in seconds since 1970.
    pub since: i64,
    /// Why, in words.
    pub why: String,
}

/// A switch-over that somebody requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The text of the request, cut. The same text is not done twice.
    pub text: String,
    pub result: RequestResult,
    /// Why it was refused or given up, in words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestResult {
    /// The primary hands over.
    Started,
    /// The member is the primary.
    Succeeded,
    /// Nothing was done.
    Refused,
    /// It did not succeed. The primary continues, or was lost meanwhile.
    GivenUp,
}

impl RequestResult {
    /// Its name in the status.
    pub fn name(self) -> &'static str {
        match self {
            Self::Started => "Started",
            Self::Succeeded => "Succeeded",
            Self::Refused => "Refused",
            Self::GivenUp => "GivenUp",
        }
    }
}

/// How a primary is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeKind {
    /// It was lost.
    FailOver,
    /// It hands over.
    SwitchOver,
}

/// An acker that is being taken out of N.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Leaving {
    pub ordinal: u32,
    /// The position of the primary when this member could no longer acknowledge. The others need all of it before N is
    /// smaller.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub position: Option<String>,
}

/// The observed state of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedPrimary {
    /// The content of the `ConfigMap` of roles; an error if it could not be read.
    pub roles: Result<Option<Roles>, String>,
    /// The answers of the agents by ordinal. The primary was asked last, so it has everything that a replica has.
    pub answers: BTreeMap<u32, MemberState>,
    /// Why an agent gave no answer, by ordinal.
    pub silent: BTreeMap<u32, String>,
    /// The orders that members refused a short while ago, by ordinal and name of the verb. They are not repeated yet, so that one
    /// member does not stop the others.
    pub refused: BTreeMap<(u32, &'static str), Refused>,
}

/// An order that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The words of the agent.
    pub why: String,
    /// Whether it may succeed without anybody's help.
    pub passing: bool,
}

/// The data that a pod reads when its container starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// `PRIMARY`: the name of the primary's pod; empty while there is none.
    pub primary: String,
    /// `EPOCH`.
    pub epoch: u64,
    /// `ACKS`: how many acknowledgements a commit waits for.
    pub acks: u32,
    /// `DATA`: the identity of the data. While it is empty, the primary may create it.
    pub data: String,
}

/// The actions of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrimaryAction {
    /// Writes the `ConfigMap` of roles.
    WriteRoles(Roles),
    /// Sends a verb to the agent of an ordinal.
    Tell { ordinal: u32, verb: Verb },
}

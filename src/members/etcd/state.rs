//! The observed state of a cluster of etcd, and the actions on it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::members::driver::MemberStep;
use crate::members::url::Pattern;
use crate::members::workload::{Latch, Workload};

/// The step of a pass over a cluster of etcd.
pub type EtcdStep = MemberStep<EtcdAction, EtcdFacts>;

/// The latch of a cluster of etcd.
pub type EtcdLatch = Latch<EtcdFacts>;

/// The facts of a cluster that only the status keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdFacts {
    /// A quorum is lost for good, and one member continues alone, as the user requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// The user's last statement. The same statement is not acted on twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovered: Option<String>,
    /// The last or current attempt to reclaim space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaimed: Option<Reclaimed>,
}

/// A member that continues alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Recovery {
    /// The user's statement.
    pub statement: String,
    /// The ordinal of the member that continues.
    pub survivor: u32,
    /// The uid of the pod that it had before it was started as the only member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
}

/// How space was reclaimed after files had reached their quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reclaimed {
    /// When it began, in seconds since 1970.
    pub since: i64,
    /// The history before this position is deleted.
    pub before: u64,
    /// How often the file of an ordinal has been rewritten since then.
    pub written: BTreeMap<u32, u32>,
    /// Writes are allowed again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub over: bool,
}

/// The settings of a cluster in the Members document.
#[derive(Clone, Debug)]
pub struct EtcdSettings {
    /// The URL at which a member listens for other members.
    pub peer_url: Pattern,
    /// The URL at which a member listens for clients.
    pub client_url: Pattern,
    /// Seconds after which a learner that has not joined is removed again.
    pub join_deadline: i64,
    /// Seconds after which a member that cannot return is replaced.
    pub dead_after: i64,
    /// The version of etcd in the pod template, such as `3.6.16`. If it is set, upgrades by more than one minor version
    /// are refused.
    pub version: Option<Version>,
    /// When files with holes are defragmented; `None` means never.
    pub defragmentation: Option<Defragmentation>,
    /// The reaction when a member has reached its quota.
    pub no_space: NoSpace,
    /// The quota in bytes, for versions of etcd that do not report it.
    pub quota: Option<u64>,
    /// Whether members join as learners, if their version supports it.
    pub learners: bool,
}

/// When a file with holes is defragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defragmentation {
    /// The minimum percentage of holes in the file.
    pub fragmented_percent: u64,
    /// The minimum size of the file in bytes.
    pub minimum_size: u64,
}

/// The reaction when a member has reached its quota, and writes are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoSpace {
    /// Delete the history and rewrite the files. If that is enough, writes are allowed again.
    #[default]
    Reclaim,
    /// Report it in a condition.
    Report,
}

/// A version of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 3 in 3.6.16.
    pub major: u32,
    /// 6 in 3.6.16.
    pub minor: u32,
    /// 16 in 3.6.16.
    pub patch: u32,
}

impl Version {
    /// Parses `3.6.16`, with or without a prefix `v` and a suffix such as `-rc.0`.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.strip_prefix('v').unwrap_or(text).split(['-', '+']).next()?;
        let mut numbers = numbers.split('.').map(|number| number.parse().ok());
        Some(Self { major: numbers.next()??, minor: numbers.next()??, patch: numbers.next()?? })
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The initial cluster that a member without data reads when it starts. A member with data ignores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitialCluster {
    /// `ETCD_INITIAL_CLUSTER_STATE`.
    pub state: ClusterState,
    /// `ETCD_INITIAL_CLUSTER`: `NAME=PEER-URL`, separated by commas.
    pub members: String,
}

/// Whether a member without data starts a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// It starts a cluster. This is only allowed until the first member has answered: a member that loses its data
    /// would start a second cluster with the same ID.
    New,
    /// It joins the cluster that already has it as a member, or exits.
    Existing,
    /// A member with data continues as the only member of its cluster. This is only allowed while no other pod can
    /// start.
    Forced,
}

/// The observed state of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedEtcd {
    /// The content of the `ConfigMap`; an error if it could not be read.
    pub initial: Result<Option<InitialCluster>, String>,
    /// The list of members, read after a linearizable read on the same member. `None` without such a read: then there
    /// is no quorum.
    pub members: Option<Vec<ListedMember>>,
    /// The answers of the members, each from its own endpoint, by ordinal.
    pub answers: BTreeMap<u32, MemberAnswer>,
}

/// A member as in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedMember {
    /// Its ID, which is never reused.
    pub id: u64,
    /// Its name, which is empty until it has started for the first time.
    pub name: String,
    /// The URLs at which it listens for other members.
    pub peer_urls: Vec<String>,
    /// Whether it is a learner, which has no vote.
    pub learner: bool,
}

impl ListedMember {
    /// Whether it has ever started. This does not mean that it is running.
    pub fn started(&self) -> bool {
        !self.name.is_empty()
    }
}

/// A member's report about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberAnswer {
    /// The ID of its cluster.
    pub cluster: u64,
    /// Its own ID.
    pub member: u64,
    /// Whether a linearizable read on its own endpoint succeeded: then it is a voter, and has a quorum.
    pub linearizable: bool,
    /// The ID of the leader that it knows; 0 for none.
    pub leader: u64,
    /// Its current term.
    pub term: u64,
    /// The index of its log.
    pub index: u64,
    /// The revision of its data.
    pub revision: u64,
    /// Whether it is a learner.
    pub learner: bool,
    pub version: Option<Version>,
    /// The alarms of all members.
    pub alarms: Vec<Alarm>,
    /// The size of its file in bytes.
    pub size: u64,
    /// The used bytes of the file, as of the last write: there are no writes while they are refused.
    pub used: u64,
    /// Its quota in bytes, for versions that report it (3.6 and later).
    pub quota: Option<u64>,
}

impl EtcdSettings {
    /// The URL at which clients reach the pod of an ordinal. A pod of an older template keeps its scheme until it is
    /// replaced.
    pub fn client_url(&self, ordinal: u32, workload: &Workload) -> String {
        match workload.pods.get(&ordinal).and_then(|pod| pod.secure) {
            Some(secure) => self.client_url.url_by(ordinal, secure),
            None => self.client_url.url(ordinal),
        }
    }
}

impl MemberAnswer {
    /// Whether an alarm reports that its own data is corrupt.
    pub fn is_corrupt(&self) -> bool {
        self.alarms.contains(&Alarm { member: self.member, kind: AlarmKind::Corrupt })
    }
}

/// An alarm: writes are refused until it is disarmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// The ID of the member that it is about; 0 if unknown.
    pub member: u64,
    /// The fault.
    pub kind: AlarmKind,
}

/// The subject of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmKind {
    /// A file has reached its quota.
    NoSpace,
    /// Data differs from that of the other members.
    Corrupt,
}

impl Alarm {
    /// Parses `memberID:1050 alarm:CORRUPT `, as in a member's status.
    pub fn parse(text: &str) -> Option<Self> {
        // etcd does not print a member ID of 0.
        let (member, kind) = text.trim().split_once("alarm:")?;
        let kind = match kind {
            "NOSPACE" => AlarmKind::NoSpace,
            "CORRUPT" => AlarmKind::Corrupt,
            _ => return None,
        };
        let member = match member.trim().strip_prefix("memberID:") {
            Some(id) => id.parse().ok()?,
            None => 0,
        };
        Some(Self { member, kind })
    }
}

/// The actions of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtcdAction {
    /// Writes the `ConfigMap`.
    WriteInitialCluster(InitialCluster),
    /// Sends a call to the cluster.
    Call {
        call: Call,
        /// The ordinal of the member to call: a voter that has a quorum.
        via: u32,
        /// The URL of this member.
        url: String,
        /// The URLs of other voters. They are called if the first one reports that it is not connected to enough
        /// others.
        others: Vec<String>,
        /// The ID of the cluster that the member must belong to.
        cluster: u64,
    },
}

/// A call to the cluster that changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A learner joins.
    AddLearner {
        ordinal: u32,
        /// Its peer URL.
        peer_url: String,
    },
    /// A voter joins: etcd before 3.4 has no learners. Its vote counts before it has started.
    AddVoter {
        ordinal: u32,
        /// Its peer URL.
        peer_url: String,
    },
    /// A learner gets a vote.
    Promote {
        ordinal: u32,
        /// Its ID.
        member: u64,
    },
    /// The others reach a voter at another URL from now on. This is never a learner: etcd would give it a vote
    /// (#21694).
    Update {
        ordinal: u32,
        /// Its ID.
        member: u64,
        /// Its peer URL.
        peer_url: String,
    },
    /// A member leaves.
    Remove {
        ordinal: u32,
        /// Its ID.
        member: u64,
    },
    /// Another member becomes the leader.
    MoveLeader {
        /// The ordinal of the new leader.
        to: u32,
        /// Its ID.
        member: u64,
    },
    /// A member's file is rewritten without holes. The member answers no requests in the meantime.
    Defragment {
        ordinal: u32,
        /// Its ID.
        member: u64,
    },
    /// The history before a revision is deleted.
    Compact { revision: u64 },
    /// An alarm is disarmed, and writes are allowed again if there is no other alarm.
    Disarm(Alarm),
}

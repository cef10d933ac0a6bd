//! What is seen of a cluster of etcd, and what can be done to it.

use std::collections::BTreeMap;

use super::url::Pattern;
use crate::members::workload::Workload;

/// What the Members document says of a cluster.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where members listen for each other.
    pub peer_url: Pattern,
    /// Where members listen for clients.
    pub client_url: Pattern,
    /// Seconds after which a learner that has not joined is taken out again.
    pub join_deadline: i64,
    /// Seconds after which a member that cannot come back is replaced.
    pub dead_after: i64,
    /// The version of etcd in the pod template, such as `3.6.16`. With it, upgrades of more than a minor version are refused.
    pub version: Option<Version>,
    /// When files with holes are defragmented; none: never.
    pub defragmentation: Option<Defragmentation>,
    /// What is done when a member has reached its quota.
    pub no_space: NoSpace,
    /// The quota in bytes, for versions of etcd that do not report it.
    pub quota: Option<u64>,
    /// Members join as learners, where their version has them.
    pub learners: bool,
}

/// When a file with holes is defragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defragmentation {
    /// Hundredths of the file that are holes.
    pub fragmented_percent: u64,
    /// Bytes that a file has at least.
    pub minimum_size: u64,
}

/// What is done when a member has reached its quota, and writes are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoSpace {
    /// The history goes and the files are rewritten; if that is enough, writes are allowed again.
    #[default]
    Reclaim,
    /// A condition says so.
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
    /// Reads `3.6.16`, also with `v` before or a suffix such as `-rc.0` behind.
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

/// What a member without data reads when it starts. One with data ignores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitialCluster {
    /// `ETCD_INITIAL_CLUSTER_STATE`.
    pub state: ClusterState,
    /// `ETCD_INITIAL_CLUSTER`: `NAME=PEER-URL`, with commas between.
    pub members: String,
}

/// Whether a member without data starts a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// It does. Only until the first member has answered: a member that loses its data would start a second cluster with the same ID.
    New,
    /// It joins the cluster whose member it already is, or ends.
    Existing,
    /// One with data goes on as the only member of its cluster. Only while no other pod can start.
    Forced,
}

/// What is seen of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// What the `ConfigMap` says; an error when it could not be read.
    pub initial: Result<Option<InitialCluster>, String>,
    /// The list of members, read after a linearizable read on the same member. None without such a read: then there is no quorum.
    pub members: Option<Vec<Member>>,
    /// What those said that answered, each on its own endpoint, by ordinal.
    pub answers: BTreeMap<u32, Answer>,
}

/// A member as the list has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its ID, which is never used again.
    pub id: u64,
    /// Its name; empty until it has started for the first time.
    pub name: String,
    /// Where it listens for the others.
    pub peer_urls: Vec<String>,
    /// It has no vote yet.
    pub learner: bool,
}

impl Member {
    /// It has started once. That does not say that it is alive.
    pub fn started(&self) -> bool {
        !self.name.is_empty()
    }
}

/// What a member says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The ID of its cluster.
    pub cluster: u64,
    /// Its own ID.
    pub member: u64,
    /// A linearizable read on its own endpoint succeeded: it is a voter that is with a quorum.
    pub linearizable: bool,
    /// The ID of the leader it knows; 0 for none.
    pub leader: u64,
    /// The term it is in.
    pub term: u64,
    /// The index of its log.
    pub index: u64,
    /// The revision of its data.
    pub revision: u64,
    /// It is a learner.
    pub learner: bool,
    /// Its version.
    pub version: Option<Version>,
    /// The alarms of all members.
    pub alarms: Vec<Alarm>,
    /// Bytes that its file has.
    pub size: u64,
    /// Bytes of it that are in use, as of the last write: none is written while writes are refused.
    pub used: u64,
    /// How many it may have, for versions that report it (from 3.6 on).
    pub quota: Option<u64>,
}

impl Settings {
    /// Where the pod of an ordinal is reached by clients. One of an older template keeps its scheme until it is replaced.
    pub fn client_url(&self, ordinal: u32, workload: &Workload) -> String {
        match workload.pods.get(&ordinal).and_then(|pod| pod.secure) {
            Some(secure) => self.client_url.url_by(ordinal, secure),
            None => self.client_url.url(ordinal),
        }
    }
}

impl Answer {
    /// An alarm says that its own data is corrupt.
    pub fn is_corrupt(&self) -> bool {
        self.alarms.contains(&Alarm { member: self.member, kind: AlarmKind::Corrupt })
    }
}

/// An alarm: writes are refused until it is disarmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// The ID of the member that it is about; 0 when nobody knows.
    pub member: u64,
    /// What is wrong.
    pub kind: AlarmKind,
}

/// What an alarm is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmKind {
    /// A file has reached its quota.
    NoSpace,
    /// Data differs from that of the others.
    Corrupt,
}

impl Alarm {
    /// Reads `memberID:1050 alarm:CORRUPT `, as a member's status has it.
    pub fn parse(text: &str) -> Option<Self> {
        // A member of 0 is not printed.
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

/// What the driver does itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes the `ConfigMap`.
    WriteInitialCluster(InitialCluster),
    /// Calls the cluster.
    Call {
        /// The call.
        call: Call,
        /// The ordinal of the member that is called: a voter that is with a quorum.
        via: u32,
        /// Where that is reached.
        url: String,
        /// Where other voters are reached, to be asked when that one says that it is not connected to enough others.
        others: Vec<String>,
        /// The ID of the cluster that it must belong to.
        cluster: u64,
    },
}

/// A call to the cluster that changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A learner joins.
    AddLearner {
        /// Its ordinal.
        ordinal: u32,
        /// Its peer URL.
        peer_url: String,
    },
    /// A voter joins: etcd before 3.4 has no learners. Its vote counts before it has started.
    AddVoter {
        /// Its ordinal.
        ordinal: u32,
        /// Its peer URL.
        peer_url: String,
    },
    /// A learner gets a vote.
    Promote {
        /// Its ordinal.
        ordinal: u32,
        /// Its ID.
        member: u64,
    },
    /// The others find a voter at another URL from now on. Never a learner: etcd would give it a vote (#21694).
    Update {
        /// Its ordinal.
        ordinal: u32,
        /// Its ID.
        member: u64,
        /// Its peer URL.
        peer_url: String,
    },
    /// A member leaves.
    Remove {
        /// Its ordinal.
        ordinal: u32,
        /// Its ID.
        member: u64,
    },
    /// Another member leads.
    MoveLeader {
        /// The ordinal of the new leader.
        to: u32,
        /// Its ID.
        member: u64,
    },
    /// A member's file is rewritten without holes. It answers nobody meanwhile.
    Defragment {
        /// Its ordinal.
        ordinal: u32,
        /// Its ID.
        member: u64,
    },
    /// The history before a revision goes.
    Compact {
        /// The revision.
        revision: u64,
    },
    /// An alarm ends, and writes are allowed again if there is no other.
    Disarm(Alarm),
}

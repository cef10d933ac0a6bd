//! The facts about a backup: a small JSON file next to it, and its name.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::inspect::{Contents, Sum};
use crate::agent::position::Position;
use crate::agent::stored::Form;

/// Behind the name of a backup, the name of its record.
pub const SUFFIX: &str = ".json";
/// Digits of a hash that are part of a name, so that two backups of one name are one and the same.
const DIGITS: usize = 12;

/// Whether a backup may be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackupState {
    /// It is being stored, or whoever stored it was ended.
    Unverified,
    /// It was read back, and is what was stored.
    Verified,
}

/// The facts about a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Whether it may be relied on.
    pub state: BackupState,
    /// When the snapshot was taken.
    pub time: Timestamp,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of all bytes, in hexadecimal digits.
    pub sha256: String,
    /// The subject of the backup.
    #[serde(flatten)]
    pub of: Of,
}

/// The subject of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Of {
    /// A snapshot of etcd.
    Etcd(Etcd),
    /// A copy of a database with one primary and replicas.
    Copy(Copy),
    /// Writes of such a database.
    Log(Log),
}

/// The content of a snapshot of etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Etcd {
    /// The revision of the data.
    pub revision: u64,
    /// Keys at that revision.
    pub keys: u64,
    /// CRC-32C of the data, as `etcdutl snapshot status` prints it, in hexadecimal digits.
    pub hash: String,
    /// The version of the member that it is from.
    pub etcd_version: String,
    /// The version of the layout, from etcd 3.6 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_version: Option<String>,
    /// The ID of the cluster, in hexadecimal digits as etcd prints it.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
}

/// A copy that an agent gave (docs/design/primary.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Copy {
    /// How it was made.
    pub form: Form,
    /// The identity of the data.
    pub data: String,
    /// The version of the database.
    pub database_version: String,
    /// The member that it is from.
    pub member: String,
    /// Writes that it has. It may have more, which were made while it was copied.
    pub position: Position,
    /// The latest writes that it can have: those of the member when the copy was complete.
    pub reached: Position,
    /// When it was complete: it has no later write.
    pub ended: Timestamp,
    /// The headers of the answer, which the agent needs to restore it.
    pub headers: BTreeMap<String, String>,
}

/// Writes that an agent gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Log {
    /// The identity of the data.
    pub data: String,
    /// The writes that have to exist before them.
    pub after: Position,
    /// Which they are.
    pub writes: Position,
    /// The lowest of their times.
    pub first: Timestamp,
    /// The highest of their times.
    pub last: Timestamp,
}

impl Record {
    /// Of a snapshot that was taken and is not stored yet.
    pub fn new(time: Timestamp, sum: &Sum, contents: &Contents, version: &str, cluster: u64) -> Self {
        let of = Of::Etcd(Etcd {
            revision: contents.revision,
            keys: contents.keys,
            hash: format!("{:08x}", contents.hash),
            etcd_version: version.into(),
            storage_version: contents.storage_version.clone(),
            cluster_id: format!("{cluster:x}"),
        });
        Self { state: BackupState::Unverified, time, size: sum.size, sha256: sum.sha256.clone(), of }
    }

    /// Of what is stored while it comes: its sum is not known yet.
    pub fn begun(time: Timestamp, of: Of) -> Self {
        Self { state: BackupState::Unverified, time, size: 0, sha256: String::new(), of }
    }

    /// The content of a snapshot of etcd.
    pub fn etcd(&self) -> Option<&Etcd> {
        if let Of::Etcd(etcd) = &self.of { Some(etcd) } else { None }
    }

    /// The facts about a copy.
    pub fn copy(&self) -> Option<&Copy> {
        if let Of::Copy(copy) = &self.of { Some(copy) } else { None }
    }

    /// The facts about a log.
    pub fn log(&self) -> Option<&Log> {
        if let Of::Log(log) = &self.of { Some(log) } else { None }
    }

    /// The identity of the data.
    pub fn cluster(&self) -> &str {
        match &self.of {
            Of::Etcd(etcd) => &etcd.cluster_id,
            Of::Copy(copy) => &copy.data,
            Of::Log(log) => &log.data,
        }
    }

    /// How many writes the data has seen: the revision of etcd, or the number of the newest write.
    pub fn revision(&self) -> u64 {
        let newest = |position: &Position| position.newest().map(|(_, number)| number).max().unwrap_or_default();
        match &self.of {
            Of::Etcd(etcd) => etcd.revision,
            Of::Copy(copy) => newest(&copy.position),
            Of::Log(log) => newest(&log.writes),
        }
    }

    /// The name of a backup: `PREFIX_vREVISION_TIME_HASH`, after coreos's `PATH_vREVISION_TIME`. A backup that is
    /// stored while it arrives has a hash of its data's identity and the exact time.
    pub fn name(&self, prefix: &str) -> String {
        let time = self.time.strftime("%Y-%m-%d-%H-%M-%S");
        let hash = if self.sha256.is_empty() {
            let exact = format!("{}@{}", self.cluster(), self.time.as_nanosecond());
            data_encoding::HEXLOWER.encode(&Sha256::digest(exact))
        } else {
            self.sha256.clone()
        };
        let hash: String = hash.chars().take(DIGITS).collect();
        match &self.of {
            Of::Log(log) => format!(
                "{}{}_{}_{hash}",
                log_stem(prefix, &log.data),
                self.time.strftime("%Y-%m-%d-%H-%M-%S.%3f"),
                self.revision()
            ),
            _ => format!("{}{}_{time}_{hash}", stem(prefix), self.revision()),
        }
    }
}

/// The prefix of the names of logs of some data.
pub fn log_stem(prefix: &str, data: &str) -> String {
    let data: String = data.chars().take(DIGITS).collect();
    format!("{prefix}_log_{data}_")
}

/// The beginning of the names of a prefix.
pub fn stem(prefix: &str) -> String {
    format!("{prefix}_v")
}

//! What is known of a backup: a small JSON beside it, and its name.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::inspect::{Contents, Sum};

/// Behind the name of a backup, the name of its record.
pub const SUFFIX: &str = ".json";
/// Digits of the hash that are part of a name, so that two backups of one name are one and the same.
const DIGITS: usize = 12;

/// Whether a backup may be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is being stored, or whoever stored it was ended.
    Unverified,
    /// It was read back, and is what was stored.
    Verified,
}

/// What is known of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Whether it may be relied on.
    pub state: State,
    /// When the snapshot was taken.
    pub time: Timestamp,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of all bytes, in hexadecimal digits.
    pub sha256: String,
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

impl Record {
    /// Of a snapshot that was taken and is not stored yet.
    pub fn new(time: Timestamp, sum: &Sum, contents: &Contents, version: &str, cluster: u64) -> Self {
        Self {
            state: State::Unverified,
            time,
            size: sum.size,
            sha256: sum.sha256.clone(),
            revision: contents.revision,
            keys: contents.keys,
            hash: format!("{:08x}", contents.hash),
            etcd_version: version.into(),
            storage_version: contents.storage_version.clone(),
            cluster_id: format!("{cluster:x}"),
        }
    }

    /// What a backup is called: `PREFIX_vREVISION_TIME_HASH`, after coreos's `PATH_vREVISION_TIME`.
    pub fn name(&self, prefix: &str) -> String {
        let time = self.time.strftime("%Y-%m-%d-%H-%M-%S");
        let hash: String = self.sha256.chars().take(DIGITS).collect();
        format!("{}{}_{time}_{hash}", stem(prefix), self.revision)
    }
}

/// What names of a prefix begin with.
pub fn stem(prefix: &str) -> String {
    format!("{prefix}_v")
}

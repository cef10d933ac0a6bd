//! The revisions of a release, read for a person.

use std::sync::Arc;

use serde_json::Value;

use super::records::decode;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::release::record::Record;
use crate::release::secret::Revision;

/// The newest records that are read. A user who can write Secrets can create more of them than memory holds.
const MOST: usize = 100;
/// The bytes of records after which no more is read.
const MOST_BYTES: usize = 256 << 20;

/// A revision that is kept.
pub struct Kept {
    /// The facts from the labels and annotations of its Secret.
    pub revision: Revision,
    /// Its record, or why it cannot be read.
    pub record: Result<Record, String>,
}

/// The revisions of a release, oldest first. The name must be valid in a label selector.
///
/// # Errors
/// The Secrets cannot be listed.
pub async fn history(namespace: &str, release: &str, cluster: &Cluster) -> Result<Vec<Kept>, ApiError> {
    let secrets = cluster.list(&Resource::secrets(), namespace, &format!("owner=helm,name={release}")).await?;
    let namespace: Arc<str> = namespace.into();
    let read = |secret: &Value| secret.get("metadata").and_then(Revision::read).map(|(_, revision)| revision);
    let mut found: Vec<(Revision, &Value)> =
        secrets.iter().filter_map(|secret| Some((read(secret)?, secret))).collect();
    found.sort_by_key(|(revision, _)| std::cmp::Reverse(revision.revision));
    let (mut all, mut bytes) = (Vec::with_capacity(found.len()), 0);
    for (revision, secret) in found {
        let record = if all.len() >= MOST || bytes >= MOST_BYTES {
            Err("there are too many".to_owned())
        } else {
            decode(secret, &namespace, release, cluster).await.map_err(|e| e.text().whole())
        };
        bytes += record.as_ref().map_or(0, Record::bytes);
        all.push(Kept { revision, record });
    }
    all.sort_by_key(|kept| kept.revision.revision);
    Ok(all)
}

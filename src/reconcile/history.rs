//! The revisions of a release, read for a person.

use std::sync::Arc;

use super::observe::records::decode;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::release::record::Record;
use crate::release::secret::Revision;

/// A revision that is kept.
pub struct Kept {
    /// What the labels and annotations of its Secret say.
    pub revision: Revision,
    /// Its record, or why it cannot be read.
    pub record: Result<Record, String>,
}

/// The revisions of a release, oldest first. The name must be one that can stand in a label selector.
///
/// # Errors
/// The Secrets cannot be listed.
pub async fn history(namespace: &str, release: &str, cluster: &Cluster) -> Result<Vec<Kept>, ApiError> {
    let secrets = cluster.list(&Resource::secrets(), namespace, &format!("owner=helm,name={release}")).await?;
    let namespace: Arc<str> = namespace.into();
    let mut all = Vec::with_capacity(secrets.len());
    for secret in &secrets {
        let Some((_, revision)) = secret.get("metadata").and_then(Revision::read) else { continue };
        let record = decode(secret, &namespace, release, cluster).await.map_err(|e| e.text().whole());
        all.push(Kept { revision, record });
    }
    all.sort_by_key(|kept| kept.revision.revision);
    Ok(all)
}

//! Reads release records.

use std::sync::Arc;

use base64::Engine as _;
use serde_json::Value;

use crate::cluster::client::Cluster;
use crate::cluster::discovery::Resource;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::release::object::ObjectId;
use crate::release::owner::Owner;
use crate::release::record::{Record, RecordError};
use crate::release::{chunks, secret};

/// Reads the record of a revision. Returns `None` if its Secret is gone. Sends no request if the record is remembered
/// in the version that the caches have.
pub async fn read_record(owner: &Owner, revision: u64, ctx: &Context) -> Result<Option<Record>, Error> {
    let release = (Arc::clone(&owner.release_namespace), Arc::clone(&owner.release_name));
    let known = ctx.cache.history(&release.0, &release.1).into_iter().find(|r| r.revision == revision);
    if let Some(record) = known.and_then(|r| ctx.memory.records.get(&release, &r.uid, &r.resource_version)) {
        return Ok(Some(record));
    }
    let id = secret_id(owner, revision);
    let Some(secret) = ctx.cluster.get(&Resource::secrets(), &id).await? else { return Ok(None) };
    ctx.memory.records.put(&release, &secret);
    decode(&secret, &owner.release_namespace, &owner.release_name, &ctx.cluster).await.map(Some)
}

/// Reads the record in a Secret of a release, with one request for each part that does not fit into it.
pub async fn decode(secret: &Value, namespace: &Arc<str>, release: &str, cluster: &Cluster) -> Result<Record, Error> {
    if let Some(release) = secret_data(secret, "release")? {
        return Ok(Record::decode(&release)?);
    }
    let head = secret_data(secret, "head")?.ok_or(RecordError::Corrupted("no data"))?;
    let annotations = secret.pointer("/metadata/annotations");
    let annotation = annotations.and_then(|a| a.get(chunks::CHUNKS)).and_then(Value::as_str);
    let (digest, count) =
        annotation.and_then(chunks::parse).ok_or(RecordError::Corrupted("its chunks are not named"))?;
    let mut text = String::new();
    for index in 0..count {
        let name = chunks::name(release, digest, index).into();
        let id = ObjectId { gvk: Resource::secrets().gvk, namespace: Some(Arc::clone(namespace)), name };
        let chunk = cluster.get(&Resource::secrets(), &id).await?.ok_or(RecordError::Corrupted("a chunk is gone"))?;
        let part = secret_data(&chunk, chunks::KEY)?.ok_or(RecordError::Corrupted("a chunk is empty"))?;
        text.push_str(&String::from_utf8_lossy(&part));
    }
    Ok(Record::join(&head, &text, digest)?)
}

fn secret_data(secret: &Value, key: &str) -> Result<Option<Vec<u8>>, RecordError> {
    let Some(data) = secret.get("data").and_then(|d| d.get(key)).and_then(Value::as_str) else { return Ok(None) };
    let data = base64::engine::general_purpose::STANDARD.decode(data);
    data.map(Some).map_err(|_| RecordError::Corrupted("not base64"))
}

/// The Secret of a revision.
pub fn secret_id(owner: &Owner, revision: u64) -> ObjectId {
    let name = secret::name(&owner.release_name, revision).into();
    ObjectId { gvk: Resource::secrets().gvk, namespace: Some(Arc::clone(&owner.release_namespace)), name }
}

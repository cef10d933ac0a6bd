//! Reads release records.

use std::sync::Arc;

use base64::Engine as _;
use serde_json::Value;

use crate::bounds;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Resource;
use crate::object::ObjectId;
use crate::reconcile::blocking::off;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::release::owner::Owner;
use crate::release::record::{Packed, Record, RecordError};
use crate::release::{chunks, secret};

/// Bytes of an unpacked record that is read on the thread of a pass. Larger ones are read elsewhere.
const QUICK: usize = 256 << 10;

/// Reads the record of a revision. Returns `None` if its Secret is gone. Sends no request if the record is remembered
/// in the version that the caches have.
pub async fn read_record(owner: &Owner, revision: u64, ctx: &Context) -> Result<Option<Record>, Error> {
    let release = (Arc::clone(&owner.release_namespace), Arc::clone(&owner.release_name));
    let known = ctx.cache.history(&release.0, &release.1).into_iter().find(|r| r.revision == revision);
    let remembered = known.and_then(|r| ctx.memory.records.get(&release, &r.uid, &r.resource_version));
    let parts = if let Some(head) = remembered {
        Parts { head, chunks: None }
    } else {
        let id = secret_id(owner, revision);
        let Some(secret) = ctx.cluster.get(&Resource::secrets(), &id).await? else { return Ok(None) };
        ctx.memory.records.put(&release, &secret);
        Parts::of(&secret, &release.0, &release.1, &ctx.cluster).await?
    };
    let bytes = parts.bytes()?;
    let room = ctx.memory.room.take(bytes)?;
    let mut record = if bytes <= QUICK { parts.decode() } else { off(move || parts.decode()).await? }?;
    if let Some(room) = room {
        record.hold(Arc::new(room));
    }
    Ok(Some(record))
}

/// Reads the record in a Secret of a release, with one request for each part that does not fit into it.
pub async fn decode(secret: &Value, namespace: &Arc<str>, release: &str, cluster: &Cluster) -> Result<Record, Error> {
    Ok(Parts::of(secret, namespace, release, cluster).await?.decode()?)
}

/// The data of a record.
struct Parts {
    head: Vec<u8>,
    /// The text and the digest of its chunks.
    chunks: Option<(String, String)>,
}

impl Parts {
    async fn of(secret: &Value, namespace: &Arc<str>, release: &str, cluster: &Cluster) -> Result<Self, Error> {
        if let Some(head) = secret_data(secret, "release")? {
            return Ok(Self { head, chunks: None });
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
            let chunk =
                cluster.get(&Resource::secrets(), &id).await?.ok_or(RecordError::Corrupted("a chunk is gone"))?;
            let part = secret_data(&chunk, chunks::KEY)?.ok_or(RecordError::Corrupted("a chunk is empty"))?;
            text.push_str(&String::from_utf8_lossy(&part));
        }
        Ok(Self { head, chunks: Some((text, digest.to_owned())) })
    }

    /// Bytes of the record when it is unpacked.
    fn bytes(&self) -> Result<usize, RecordError> {
        let head = Packed::read(&self.head, bounds::RECORD)?.bytes();
        let chunks = self.chunks.as_ref().map(|(text, _)| Packed::read(text.as_bytes(), bounds::CHUNKS)).transpose()?;
        Ok(head + chunks.map_or(0, |chunks| chunks.bytes()))
    }

    fn decode(&self) -> Result<Record, RecordError> {
        match &self.chunks {
            Some((text, digest)) => Record::join(&self.head, text, digest),
            None => Record::decode(&self.head),
        }
    }
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

//! Records that no Secret can hold. The large parts go into Secrets of their own, named by their digest. The rest stays
//! in Helm's Secret (docs/design/applying.md D4). Helm cannot read such a release.
//!
//! The large parts never change after a revision is begun, so neither a change of its status nor a rollback writes them again.

use crate::names;
use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::digest::Hasher;
use super::record::{MAX_ENCODED, Packed, Record, RecordError, pack};
use crate::bounds;

/// Type of the Secrets.
pub const TYPE: &str = names::CHUNK_TYPE;
/// Label: name of the release.
pub const RELEASE: &str = names::CHUNK_RELEASE;
/// Label of a chunk: digest of the parts. Annotation of the Secret of a revision: that, and how many chunks they are in.
pub const CHUNKS: &str = names::CHUNKS;
/// Key of the data of a chunk.
pub const KEY: &str = "chunk";

/// Value of the label `owner`, where the Secret of a revision has Helm's: Helm sees no chunk, and one watch sees both.
const OWNER: &str = "tillerman";

/// The fields of a record that are large.
const LARGE: [&str; 3] = ["chart", "config", "manifest"];
/// Chunks of one record. Sixteen hold four times what a rendering may print, and compressed a good deal more.
const MAX_CHUNKS: usize = 16;
/// Room for the text that a revision's status adds to a record after it was found to fit.
const ROOM: usize = 50_000;

/// The large parts of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks {
    pub digest: String,
    /// Their text, cut.
    pub parts: Vec<String>,
}

impl Chunks {
    /// The annotation of the revision's Secret.
    pub fn annotation(&self) -> String {
        format!("{} {}", self.digest, self.parts.len())
    }
}

/// Name of the Secret of a chunk.
pub fn name(release: &str, digest: &str, index: usize) -> String {
    format!("tillerman.release.v1.{release}.{digest}.{index}")
}

/// The labels of the Secret of a chunk.
pub fn labels(release: &str, digest: &str) -> BTreeMap<&'static str, String> {
    [("owner", OWNER.to_owned()), (RELEASE, release.to_owned()), (CHUNKS, digest.to_owned())].into()
}

/// Release, name and digest of a chunk, from the `metadata` of its Secret; `None` of any other.
pub fn read(metadata: &Value) -> Option<(&str, &str, &str)> {
    let labels = metadata.get("labels")?;
    let label = |name: &str| labels.get(name)?.as_str();
    let name = metadata.get("name")?.as_str()?;
    (label("owner")? == OWNER).then_some((label(RELEASE)?, name, label(CHUNKS)?))
}

/// The digest and the number of chunks that an annotation names.
pub fn parse(annotation: &str) -> Option<(&str, usize)> {
    let (digest, count) = annotation.split_once(' ')?;
    Some((digest, count.parse().ok().filter(|n| *n <= MAX_CHUNKS)?))
}

impl Record {
    /// Cuts a new record when it does not fit into a Secret. After that, [`Record::encode`] writes the rest alone.
    pub fn cut(&mut self) -> Result<Option<Chunks>, RecordError> {
        self.is_cut = false;
        // A record that fits unpacked need not be packed to see that: deflate adds less than a thousandth.
        let plain = self.bytes();
        if (plain + plain / 1000) / 3 * 4 + 2 * ROOM <= MAX_ENCODED {
            return Ok(None);
        }
        match self.encode() {
            Ok(whole) if whole.len() + ROOM <= MAX_ENCODED => return Ok(None),
            Ok(_) | Err(RecordError::TooLarge(_)) => {}
            Err(error) => return Err(error),
        }
        let large: BTreeMap<&str, &RawValue> =
            LARGE.iter().filter_map(|key| Some((*key, &**self.fields.get(*key)?))).collect();
        let text = pack(&large);
        let parts: Vec<String> =
            text.as_bytes().chunks(MAX_ENCODED).map(|part| String::from_utf8_lossy(part).into_owned()).collect();
        if parts.len() > MAX_CHUNKS {
            return Err(RecordError::TooLarge(text.len()));
        }
        self.is_cut = true;
        let mut hasher = Hasher::default();
        hasher.text(&text);
        Ok(Some(Chunks { digest: hasher.finish(), parts }))
    }

    /// Joins a record. `head` is what [`Record::encode`] wrote, `text` the chunks one after the other.
    pub fn join(head: &[u8], text: &str, digest: &str) -> Result<Self, RecordError> {
        let mut hasher = Hasher::default();
        hasher.text(text);
        if hasher.finish() != digest {
            return Err(RecordError::Corrupted("the chunks do not belong to the revision"));
        }
        let mut record = Self::decode(head)?;
        record.fields.extend(Packed::read(text.as_bytes(), bounds::CHUNKS)?.unpack()?);
        record.is_cut = true;
        Ok(record)
    }

    /// Key of the Secret's data for what [`Record::encode`] writes. Helm reads `release` only, and must not find an
    /// incomplete record there.
    pub fn key(&self) -> &'static str {
        if self.is_cut { "head" } else { "release" }
    }
}

/// Whether a field is in the chunks.
pub(super) fn is_large(field: &str) -> bool {
    LARGE.contains(&field)
}

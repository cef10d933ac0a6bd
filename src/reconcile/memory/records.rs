//! The last records that were written or read, in the form of their Secrets, so that the next passes need not read them
//! again.
//!
//! # Guarantees
//! - The cache returns a record only for the uid and the resourceVersion of its Secret: a later write of another client
//!   is never mistaken for the old content.
//! - It takes no more memory than [`MAX_BYTES`]. It drops the least recently used record first.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::object::metadata;

/// Enough for a thousand records of small charts, or a few of large ones.
const MAX_BYTES: usize = 4 << 20;
/// The size of a record in addition to its text.
const OVERHEAD: usize = 300;

/// Namespace and name of a release. Only the last record of each release is kept.
type Release = (Arc<str>, Arc<str>);

/// The cache of records.
#[derive(Default)]
pub struct Records(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    records: HashMap<Release, Packed>,
    /// The releases in the order of their last use.
    order: BTreeMap<u64, Release>,
    used: u64,
    bytes: usize,
}

struct Packed {
    uid: Box<str>,
    version: Box<str>,
    /// The data without Helm's base64.
    data: Box<[u8]>,
    used: u64,
}

impl Records {
    /// Stores the Secret of a record, as the API server returned it.
    pub fn put(&self, release: &Release, secret: &Value) {
        let mut inner = self.lock();
        inner.remove(release);
        if let Some(packed) = Packed::read(secret).filter(|packed| packed.len() <= MAX_BYTES) {
            inner.insert(release, packed);
        }
    }

    /// The record in the Secret with this uid, in this version, as [`Record::decode`] reads it.
    pub fn get(&self, release: &Release, uid: &str, version: &str) -> Option<Vec<u8>> {
        let mut inner = self.lock();
        let found = inner.records.get(release).filter(|found| *found.uid == *uid && *found.version == *version);
        let data = STANDARD.encode(&found?.data).into_bytes();
        inner.touch(release);
        Some(data)
    }

    /// Drops the record of a deleted release.
    pub fn forget(&self, release: &Release) {
        self.lock().remove(release);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Packed {
    /// Returns `None` for a record that is in chunks, and for anything else.
    fn read(secret: &Value) -> Option<Self> {
        let text = |key: &str| metadata(secret).get(key)?.as_str();
        let data = STANDARD.decode(secret.get("data")?.get("release")?.as_str()?).ok()?;
        let data = STANDARD.decode(data).ok()?.into();
        Some(Self { uid: text("uid")?.into(), version: text("resourceVersion")?.into(), data, used: 0 })
    }

    fn len(&self) -> usize {
        self.data.len() + OVERHEAD
    }
}

impl Inner {
    fn insert(&mut self, release: &Release, packed: Packed) {
        self.bytes += packed.len();
        self.records.insert(release.clone(), packed);
        self.touch(release);
        while self.bytes > MAX_BYTES
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.remove(&oldest);
        }
    }

    fn touch(&mut self, release: &Release) {
        let Some(packed) = self.records.get_mut(release) else { return };
        self.order.remove(&packed.used);
        self.used += 1;
        packed.used = self.used;
        self.order.insert(self.used, release.clone());
    }

    fn remove(&mut self, release: &Release) {
        if let Some(packed) = self.records.remove(release) {
            self.bytes -= packed.len();
            self.order.remove(&packed.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_BYTES, Records, Release};
    use crate::release::record::Record;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use flate2::{Compression, write::GzEncoder};
    use serde_json::{Value, json};
    use std::io::Write as _;

    fn release(name: &str) -> Release {
        ("ns".into(), name.into())
    }

    /// A record of about this many bytes.
    fn secret(version: &str, revision: u64, bytes: usize) -> Value {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
        let record = json!({"version": revision, "info": {}, "manifest": "x".repeat(bytes)});
        gzip.write_all(record.to_string().as_bytes()).unwrap();
        let data = STANDARD.encode(STANDARD.encode(gzip.finish().unwrap()));
        json!({"metadata": {"uid": "u", "resourceVersion": version}, "data": {"release": data}})
    }

    fn revision(record: Option<Vec<u8>>) -> Option<u64> {
        record.map(|data| Record::decode(&data).unwrap().revision())
    }

    #[test]
    fn a_record_is_told_only_of_the_secret_that_it_was_seen_in() {
        let (kept, a) = (Records::default(), release("a"));
        kept.put(&a, &secret("7", 1, 10));
        assert_eq!(revision(kept.get(&a, "u", "7")), Some(1));
        assert_eq!(revision(kept.get(&a, "u", "8")), None, "somebody has written it since");
        assert_eq!(revision(kept.get(&a, "v", "7")), None, "it is another Secret");
        assert_eq!(revision(kept.get(&release("b"), "u", "7")), None);
        kept.put(&a, &secret("9", 2, 10));
        assert_eq!(revision(kept.get(&a, "u", "9")), Some(2));
        // A record in chunks replaces the one that was there.
        kept.put(&a, &json!({"metadata": {"uid": "u", "resourceVersion": "10"}, "data": {"head": "eA=="}}));
        assert_eq!(revision(kept.get(&a, "u", "9")), None);
        kept.put(&a, &secret("11", 3, 10));
        kept.forget(&a);
        assert_eq!(revision(kept.get(&a, "u", "11")), None);
        let inner = kept.lock();
        assert_eq!((inner.bytes, inner.order.len()), (0, 0));
    }

    #[test]
    fn what_was_used_least_goes_first_when_there_is_too_much() {
        let kept = Records::default();
        let third = MAX_BYTES / 3;
        for name in ["a", "b"] {
            kept.put(&release(name), &secret("1", 1, third));
        }
        assert!(kept.get(&release("a"), "u", "1").is_some());
        kept.put(&release("c"), &secret("1", 1, third));
        let left = ["a", "b", "c"].map(|name| kept.get(&release(name), "u", "1").is_some());
        assert_eq!(left, [true, false, true]);
        assert!(kept.lock().bytes <= MAX_BYTES);
        // A record that is too large for the cache.
        kept.put(&release("e"), &secret("1", 1, MAX_BYTES));
        assert!(kept.get(&release("e"), "u", "1").is_none());
        assert!(kept.get(&release("c"), "u", "1").is_some());
    }
}

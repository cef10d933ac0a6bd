//! The content of a snapshot of etcd, read from the file itself.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Seek};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::bolt::{Bolt, Damage, Found, damage};

/// Bytes of the SHA-256 that etcd appends to a snapshot that it sends.
const SUM: usize = 32;
/// Databases are a multiple of it, so that what is left over is the sum (`hasChecksum` of etcdutl).
const SECTOR: u64 = 512;
/// Castagnoli's polynomial, reflected.
const CASTAGNOLI: u32 = 0x82F6_3B78;

/// The sums of a snapshot that comes in pieces.
pub struct Sums {
    whole: Sha256,
    body: Sha256,
    tail: Vec<u8>,
    size: u64,
}

/// A snapshot whose appended checksum matches the content before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// Bytes, with the appended sum.
    pub size: u64,
    /// SHA-256 of all bytes, in hexadecimal digits, as `sha256sum` prints it.
    pub sha256: String,
}

impl Default for Sums {
    fn default() -> Self {
        Self { whole: Sha256::new(), body: Sha256::new(), tail: Vec::with_capacity(SUM), size: 0 }
    }
}

impl Sums {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.whole.update(bytes);
        self.size += bytes.len() as u64;
        // The last bytes may be the sum, which is not part of itself.
        let (body, tail) = bytes.split_at(bytes.len().saturating_sub(SUM));
        let over = (self.tail.len() + tail.len()).saturating_sub(SUM);
        self.body.update(&self.tail[..over]);
        self.tail.drain(..over);
        if body.is_empty() {
            self.tail.extend_from_slice(tail);
        } else {
            self.body.update(&self.tail);
            self.body.update(body);
            self.tail.clear();
            self.tail.extend_from_slice(tail);
        }
    }

    /// The checksum of a snapshot that has none appended.
    pub fn plain(self) -> Sum {
        Sum { size: self.size, sha256: data_encoding::HEXLOWER.encode(&self.whole.finalize()) }
    }

    /// Compares the appended sum.
    pub fn finish(self) -> Result<Sum, Damage> {
        if self.size % SECTOR != SUM as u64 {
            return damage(format!(
                "has no checksum at its end: it is cut short, or is not a snapshot ({} bytes)",
                self.size
            ));
        }
        if self.body.finalize().as_slice() != self.tail {
            return damage("is damaged: its content does not match the checksum at its end");
        }
        Ok(Sum { size: self.size, sha256: data_encoding::HEXLOWER.encode(&self.whole.finalize()) })
    }
}

/// The content of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The revision of the data: of the last change, or of a compaction that left nothing of it. 1 is that of no data.
    pub revision: u64,
    /// Keys that are there at that revision. (etcdutl 3.5 counts all entries of all buckets instead.)
    pub keys: u64,
    /// CRC-32C over all buckets, as `etcdutl snapshot status` prints it.
    pub hash: u32,
    /// The version of the layout, such as `3.6.0`; etcd writes it from 3.6 on.
    pub storage_version: Option<String>,
}

/// Verifies a snapshot's sum and reads what it holds.
pub fn inspect(path: &Path) -> Result<(Sum, Contents), Damage> {
    let mut file = File::open(path)?;
    let mut sums = Sums::default();
    let mut bytes = vec![0; 1 << 20];
    loop {
        match file.read(&mut bytes)? {
            0 => break,
            read => sums.update(&bytes[..read]),
        }
    }
    let sum = sums.finish()?;
    let contents = contents(file, sum.size - SUM as u64)?;
    Ok((sum, contents))
}

/// Reads what a database of `length` bytes holds.
pub fn contents(file: impl Read + Seek, length: u64) -> Result<Contents, Damage> {
    let mut bolt = Bolt::open(file, length)?;
    let mut hash = Castagnoli::default();
    let mut live = Keys::default();
    let mut bucket = Vec::new();
    let (mut last, mut compacted, mut storage_version) = (0, 0, None);
    bolt.walk(&mut |found| {
        let (key, value) = match found {
            Found::Bucket(name) => {
                hash.update(name);
                bucket = name.to_vec();
                return Ok(());
            }
            Found::Pair(key, value) => (key, value),
        };
        hash.update(key);
        hash.update(value);
        match (bucket.as_slice(), key) {
            (b"key", key) => {
                let (revision, tombstone) = revision(key)?;
                last = revision;
                live.seen(key_of(value)?, tombstone);
            }
            (b"meta", b"finishedCompactRev") => compacted = revision(value)?.0,
            (b"meta", b"storageVersion") => storage_version = Some(String::from_utf8_lossy(value).into_owned()),
            _ => {}
        }
        Ok(())
    })?;
    let keys = live.0.len() as u64;
    Ok(Contents { revision: last.max(compacted).max(1), keys, hash: hash.finish(), storage_version })
}

/// A key of the bucket `key`: the revision in eight bytes, `_`, which change of it in eight, and `t` when the key was deleted.
fn revision(key: &[u8]) -> Result<(u64, bool), Damage> {
    let main = key.get(..8).and_then(|main| main.try_into().ok()).map(u64::from_be_bytes);
    let tombstone = key.get(17..) == Some(b"t");
    match main {
        Some(main) if key.get(8) == Some(&b'_') && (key.len() == 17 || tombstone) && i64::try_from(main).is_ok() => {
            Ok((main, tombstone))
        }
        _ => damage("has a key that is not a revision"),
    }
}

/// The first field of a `mvccpb.KeyValue`: the key as clients know it.
fn key_of(mut message: &[u8]) -> Result<&[u8], Damage> {
    let mut key: &[u8] = &[];
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        match tag & 7 {
            0 => drop(varint(&mut message)?),
            2 => {
                let size = usize::try_from(varint(&mut message)?).ok().filter(|size| *size <= message.len());
                let Some(size) = size else { return damage("has a value that ends early") };
                let (field, rest) = message.split_at(size);
                message = rest;
                if tag >> 3 == 1 {
                    key = field;
                }
            }
            _ => return damage("has a value that is not a key and value of etcd"),
        }
    }
    Ok(key)
}

fn varint(message: &mut &[u8]) -> Result<u64, Damage> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let Some((byte, rest)) = message.split_first() else { break };
        *message = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    damage("has a value that ends early")
}

/// Which keys are there, distinguished by 128 bits of hashes with secret seeds, so that many keys need little memory.
#[derive(Default)]
struct Keys(HashSet<(u64, u64)>, RandomState, RandomState);

impl Keys {
    fn seen(&mut self, key: &[u8], tombstone: bool) {
        let hash = (self.1.hash_one(key), self.2.hash_one(key));
        if tombstone {
            self.0.remove(&hash);
        } else {
            self.0.insert(hash);
        }
    }
}

/// CRC-32C.
struct Castagnoli {
    table: [u32; 256],
    sum: u32,
}

impl Default for Castagnoli {
    fn default() -> Self {
        let mut table = [0; 256];
        for (byte, entry) in (0_u32..).zip(&mut table) {
            *entry = (0..8).fold(byte, |sum, _| if sum & 1 == 1 { sum >> 1 ^ CASTAGNOLI } else { sum >> 1 });
        }
        Self { table, sum: !0 }
    }
}

impl Castagnoli {
    fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let low = self.sum.to_le_bytes()[0];
            self.sum = self.table[usize::from(low ^ byte)] ^ (self.sum >> 8);
        }
    }

    fn finish(self) -> u32 {
        !self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::Castagnoli;

    #[test]
    fn the_hash_is_crc_32c() {
        let mut hash = Castagnoli::default();
        hash.update(b"1234");
        hash.update(b"56789");
        assert_eq!(hash.finish(), 0xe306_9283);
    }
}

//! A host for renderings that is the same every time.

use crate::template::function::{FnResult, Host, KeptKeys};
use crate::template::value::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// A [`Host`] without a clock, randomness, network or cluster. Random values come from a seed, and the time is always the
/// same. Two renderings with fresh hosts of the same seed are equal, passwords and keys of the chart included.
///
/// Anybody who knows the seed can compute the values made from it. For real passwords, use a host with the
/// randomness of the operating system.
#[derive(Debug, Default)]
pub struct Fixed {
    now: i128,
    stream: Mutex<Stream>,
    keeps_keys: bool,
}

/// The keys of [`Fixed::for_a_look`].
static KEYS: KeptKeys = KeptKeys::new(BTreeMap::new());

/// The SHA-256 of the seed and a number, for one number after the other.
#[derive(Debug, Default)]
struct Stream {
    seed: u64,
    block: u64,
}

impl Fixed {
    /// A host with this seed, at this time in nanoseconds since the Unix epoch.
    pub fn new(seed: u64, now: i128) -> Self {
        Self { now, stream: Mutex::new(Stream { seed, block: 0 }), keeps_keys: false }
    }

    /// The same host, for renderings that are only looked at: all RSA keys of a size are the same one.
    #[must_use]
    pub fn with_kept_keys(self) -> Self {
        Self { keeps_keys: true, ..self }
    }

    /// A host for renderings that are only looked at: all RSA keys of a size are the same one.
    pub fn for_a_look() -> Self {
        Self::default().with_kept_keys()
    }
}

impl Host for Fixed {
    fn random(&self, buffer: &mut [u8]) {
        let mut stream = self.stream.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for part in buffer.chunks_mut(32) {
            let mut hash = Sha256::new();
            hash.update(stream.seed.to_le_bytes());
            hash.update(stream.block.to_le_bytes());
            stream.block += 1;
            part.copy_from_slice(&hash.finalize()[..part.len()]);
        }
    }
    fn now(&self) -> i128 {
        self.now
    }
    fn lookup(&self, _api_version: &str, _kind: &str, _namespace: &str, _name: &str) -> FnResult {
        Ok(Value::map([]))
    }
    fn resolve(&self, _name: &str) -> String {
        String::new()
    }
    fn kept_keys(&self) -> Option<&KeptKeys> {
        self.keeps_keys.then_some(&KEYS)
    }
}

#[cfg(test)]
mod tests {
    use super::{Fixed, Host};

    #[test]
    fn a_seed_gives_the_same_bytes_again_and_others_later() {
        let draw = |host: &Fixed| {
            let mut bytes = [0; 40];
            host.random(&mut bytes);
            bytes
        };
        let (a, b) = (Fixed::new(7, 0), Fixed::new(7, 0));
        let first = draw(&a);
        assert_eq!(first, draw(&b));
        assert_ne!(first, draw(&a));
        assert_ne!(first, draw(&Fixed::new(8, 0)));
    }
}

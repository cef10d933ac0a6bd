//! One value for each release, behind a lock.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cluster::cache::ReleaseKey;

/// One value for each release.
pub struct PerRelease<T, K = ReleaseKey>(Mutex<HashMap<K, T>>);

impl<T, K> Default for PerRelease<T, K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T, K: Hash + Eq> PerRelease<T, K> {
    /// Drops the value of a release, which is deleted or has started again.
    pub fn forget(&self, key: &K) {
        self.lock().remove(key);
    }

    /// The values of all releases.
    pub fn lock(&self) -> MutexGuard<'_, HashMap<K, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

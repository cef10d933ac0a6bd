//! Releases that need an object which belongs to another release. They go on as soon as it is free, whatever pause their failures
//! have earned.
//!
//! Two releases that exchange names wait for each other: each would delete the object that the other one needs only after it has
//! its own. Of such a pair, the object is deleted first.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cluster::cache::ReleaseKey;
use crate::release::object::ObjectId;

/// Who waits for what, until the next attempt.
#[derive(Default)]
pub struct Waits {
    waits: Mutex<HashMap<ReleaseKey, Wait>>,
}

struct Wait {
    id: ObjectId,
    /// The releases that it may belong to.
    holders: Vec<ReleaseKey>,
    is_free: bool,
}

impl Waits {
    /// A release could not have an object that belongs to one of the holders.
    pub fn begin(&self, key: &ReleaseKey, id: &ObjectId, holders: Vec<ReleaseKey>) {
        self.lock().insert(key.clone(), Wait { id: id.clone(), holders, is_free: false });
    }

    /// A release tries again, or is gone.
    pub fn end(&self, key: &ReleaseKey) {
        self.lock().remove(key);
    }

    /// An object is gone: who waited for it.
    pub fn free(&self, id: &ObjectId) -> Vec<ReleaseKey> {
        let mut waits = self.lock();
        let waiting = waits.iter_mut().filter(|(_, wait)| wait.id == *id);
        waiting
            .map(|(key, wait)| {
                wait.is_free = true;
                key.clone()
            })
            .collect()
    }

    /// Whether what a release waited for is free.
    pub fn is_over(&self, key: &ReleaseKey) -> bool {
        self.lock().get(key).is_some_and(|wait| wait.is_free)
    }

    /// Whether a release waits for another one that waits for this object.
    pub fn is_mutual(&self, key: &ReleaseKey, id: &ObjectId) -> bool {
        let waits = self.lock();
        let Some(wait) = waits.get(key) else { return false };
        wait.holders.iter().filter_map(|holder| waits.get(holder)).any(|other| other.id == *id)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ReleaseKey, Wait>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

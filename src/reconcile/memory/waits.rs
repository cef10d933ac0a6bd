//! Releases that need an object which belongs to another release. They continue as soon as the object is free, even if
//! they are in a pause after failures.
//!
//! Two releases that exchange names wait for each other: each would delete the object that the other one needs only
//! after it has got its own. For such a pair, the object is deleted first.

use super::store::PerRelease;
use crate::cluster::cache::ReleaseKey;
use crate::object::ObjectId;

/// Which release waits for which object, until its next attempt.
pub type Waits = PerRelease<Wait>;

/// One release waits for an object.
pub struct Wait {
    id: ObjectId,
    /// The releases that the object may belong to.
    holders: Vec<ReleaseKey>,
    is_free: bool,
}

impl PerRelease<Wait> {
    /// Enters that a release needs an object that belongs to one of the holders.
    pub fn begin(&self, key: &ReleaseKey, id: &ObjectId, holders: Vec<ReleaseKey>) {
        self.lock().insert(key.clone(), Wait { id: id.clone(), holders, is_free: false });
    }

    /// Enters that an object is deleted, and returns the releases that waited for it.
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

    /// Whether the object that a release waited for is free.
    pub fn is_over(&self, key: &ReleaseKey) -> bool {
        self.lock().get(key).is_some_and(|wait| wait.is_free)
    }

    /// Whether a release waits for another release that waits for this object.
    pub fn is_mutual(&self, key: &ReleaseKey, id: &ObjectId) -> bool {
        let waits = self.lock();
        let Some(wait) = waits.get(key) else { return false };
        wait.holders.iter().filter_map(|holder| waits.get(holder)).any(|other| other.id == *id)
    }
}

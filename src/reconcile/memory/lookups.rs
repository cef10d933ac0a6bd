//! What releases looked up when they were rendered.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::cluster::cache::ReleaseKey;
use crate::release::lookups::Lookups;
use crate::release::object::ObjectId;

/// What releases looked up. After a restart their records say it.
#[derive(Default)]
pub struct LookedUp(Mutex<HashMap<ReleaseKey, KnownLookups>>);

#[derive(Default)]
pub struct KnownLookups {
    /// What the newest revision was made with.
    pub deployed: Lookups,
    /// What the last rendering read, whatever came of it, and when.
    pub tried: Option<(Lookups, Instant)>,
    /// What no watch sees as it was read last, and when.
    pub seen: Lookups,
    pub read: Option<Instant>,
}

impl LookedUp {
    /// A chart was rendered, well or not.
    pub fn tried(&self, key: &ReleaseKey, lookups: Lookups) {
        let (mut all, now) = (self.lock(), Instant::now());
        let known = all.entry(key.clone()).or_default();
        known.seen = lookups.clone();
        known.read = Some(now);
        known.tried = Some((lookups, now));
    }

    /// What was rendered is the newest revision.
    pub fn deployed(&self, key: &ReleaseKey, lookups: &Lookups) {
        if let Some(known) = self.lock().get_mut(key) {
            known.deployed = lookups.clone();
        }
    }

    /// Whether the release was rendered since the operator started.
    pub fn has_tried(&self, key: &ReleaseKey) -> bool {
        self.lock().get(key).is_some_and(|known| known.tried.is_some())
    }

    /// A release is gone.
    pub fn forget(&self, key: &ReleaseKey) {
        self.lock().remove(key);
    }

    /// All of them.
    pub fn lock(&self) -> MutexGuard<'_, HashMap<ReleaseKey, KnownLookups>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownLookups {
    /// All that is followed.
    pub fn ids(&self) -> BTreeSet<&ObjectId> {
        let tried = self.tried.iter().flat_map(|(lookups, _)| lookups.iter());
        self.deployed.iter().chain(tried).map(|(id, _)| id).collect()
    }
}

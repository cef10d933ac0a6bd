//! The lookups of the templates of releases during rendering.

use std::collections::BTreeSet;
use std::time::Instant;

use super::store::PerRelease;
use crate::cluster::cache::ReleaseKey;
use crate::object::ObjectId;
use crate::release::lookups::Lookups;

/// The lookups of the templates of releases. After a restart this comes from their records.
pub type LookedUp = PerRelease<KnownLookups>;

#[derive(Default)]
pub struct KnownLookups {
    /// The lookups of the newest revision.
    pub deployed: Lookups,
    /// The lookups of the last rendering, successful or not, and its time.
    pub tried: Option<(Lookups, Instant)>,
    /// The last known versions of objects that no watch sees, and when they were read.
    pub seen: Lookups,
    pub read: Option<Instant>,
}

impl PerRelease<KnownLookups> {
    /// Enters the lookups of a rendering, successful or not.
    pub fn tried(&self, key: &ReleaseKey, lookups: Lookups) {
        let (mut all, now) = (self.lock(), Instant::now());
        let known = all.entry(key.clone()).or_default();
        known.seen = lookups.clone();
        known.read = Some(now);
        known.tried = Some((lookups, now));
    }

    /// Enters that the rendering has become the newest revision.
    pub fn deployed(&self, key: &ReleaseKey, lookups: &Lookups) {
        if let Some(known) = self.lock().get_mut(key) {
            known.deployed = lookups.clone();
        }
    }

    /// Whether the release was rendered since the operator started.
    pub fn has_tried(&self, key: &ReleaseKey) -> bool {
        self.lock().get(key).is_some_and(|known| known.tried.is_some())
    }
}

impl KnownLookups {
    /// The lookups of the last rendering.
    pub fn last(&self) -> &Lookups {
        self.tried.as_ref().map_or(&self.deployed, |(lookups, _)| lookups)
    }

    /// All objects whose changes matter.
    pub fn ids(&self) -> BTreeSet<&ObjectId> {
        let tried = self.tried.iter().flat_map(|(lookups, _)| lookups.iter());
        self.deployed.iter().chain(tried).map(|(id, _)| id).collect()
    }
}

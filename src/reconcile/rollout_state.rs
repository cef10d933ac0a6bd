//! The state of the roll-out of a kind's chart between two checks, in memory only.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, MutexGuard, PoisonError};

use super::charts::{Loaded, Served};
use crate::cluster::cache::ReleaseKey;
use crate::cluster::cr::Cr;

/// The state of the roll-out of a kind's chart, in memory only.
#[derive(Default)]
pub(super) struct RolloutState {
    /// The digest of the chart that is kept as the newest one.
    kept: Option<String>,
    /// The other charts that are kept, the oldest first.
    others: Vec<Arc<Loaded>>,
    /// The digests of charts that failed.
    withdrawn: BTreeSet<String>,
    /// Those that may move, since when, in seconds since 1970, until they have begun.
    granted: BTreeMap<ReleaseKey, i64>,
    /// Those whose record names no chart, and whose release is of the newest one all the same.
    current: BTreeSet<ReleaseKey>,
    /// Whether the newest chart takes the values of a custom resource.
    checks: HashMap<ReleaseKey, Check>,
}

/// A check: the state of the custom resource, the chart, and the result.
struct Check {
    uid: Arc<str>,
    generation: i64,
    digest: String,
    found: Checked,
}

/// Whether a chart takes the values of a custom resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// It is being found out.
    Begun,
    /// It does.
    Taken,
    /// It does not: why.
    Refused(String),
}

impl Served {
    fn rollout(&self) -> MutexGuard<'_, RolloutState> {
        self.rollout.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The chart that its custom resources should have: the newest that has not failed.
    ///
    /// # Errors
    /// Why there is none.
    pub fn goal(&self) -> Result<Arc<Loaded>, String> {
        let target = self.chart()?;
        let state = self.rollout();
        let works = |loaded: &&Arc<Loaded>| !state.withdrawn.contains(&loaded.digest);
        let other = state.others.iter().rev().find(works).filter(|_| !works(&&target)).cloned();
        Ok(other.unwrap_or(target))
    }

    /// A chart that is kept, by its digest.
    pub fn kept(&self, digest: &str) -> Option<Arc<Loaded>> {
        self.usable().into_iter().find(|loaded| loaded.digest == digest)
    }

    /// All charts that can be rendered, the oldest first.
    pub fn usable(&self) -> Vec<Arc<Loaded>> {
        let target = self.chart().ok();
        self.rollout().others.iter().cloned().chain(target).collect()
    }

    /// Whether the kept charts have been read.
    pub fn knows_kept(&self) -> bool {
        self.rollout().kept.is_some()
    }

    /// Whether a chart is kept as the newest one.
    pub fn has_kept(&self, digest: &str) -> bool {
        self.rollout().kept.as_deref() == Some(digest)
    }

    /// Whether there is a chart to roll back to.
    pub fn has_others(&self) -> bool {
        let state = self.rollout();
        state.others.iter().any(|other| !state.withdrawn.contains(&other.digest))
    }

    /// Notes which charts are kept, and which of them failed.
    pub fn set_kept(&self, target: &Loaded, others: Vec<Arc<Loaded>>, withdrawn: BTreeSet<String>) {
        target.forget_archive();
        *self.rollout() =
            RolloutState { kept: Some(target.digest.clone()), others, withdrawn, ..RolloutState::default() };
    }

    /// Notes that a chart failed: nobody gets it.
    pub fn withdraw(&self, digest: &str) {
        self.rollout().withdrawn.insert(digest.to_owned());
    }

    /// Whether a chart failed.
    pub fn is_withdrawn(&self, digest: &str) -> bool {
        self.rollout().withdrawn.contains(digest)
    }

    /// Lets a custom resource move, from a time in seconds since 1970.
    pub fn grant(&self, key: &ReleaseKey, now: i64) {
        self.rollout().granted.insert(key.clone(), now);
    }

    /// Whether a custom resource may move.
    pub fn is_granted(&self, key: &ReleaseKey) -> bool {
        self.rollout().granted.contains_key(key)
    }

    /// Since when a custom resource may move, in seconds since 1970.
    pub fn granted_at(&self, key: &ReleaseKey) -> Option<i64> {
        self.rollout().granted.get(key).copied()
    }

    /// Notes that the release of a custom resource, whose record names no chart, is of the newest one.
    pub fn set_current(&self, key: &ReleaseKey) {
        self.rollout().current.insert(key.clone());
    }

    /// Whether [`Served::set_current`] noted it.
    pub fn is_current(&self, key: &ReleaseKey) -> bool {
        self.rollout().current.contains(key)
    }

    /// Notes that a custom resource has moved.
    pub fn arrived(&self, key: &ReleaseKey) {
        self.rollout().granted.remove(key);
    }

    /// The result that [`Served::set_check`] noted for this state of a custom resource.
    pub fn check(&self, key: &ReleaseKey, cr: &Cr, digest: &str) -> Option<Checked> {
        let state = self.rollout();
        let check = state.checks.get(key)?;
        let fits = check.uid == cr.uid && check.generation == cr.generation && check.digest == digest;
        fits.then(|| check.found.clone())
    }

    /// Notes whether a chart takes the values of a custom resource.
    pub fn set_check(&self, key: &ReleaseKey, cr: &Cr, digest: &str, found: Checked) {
        let (uid, generation, digest) = (Arc::clone(&cr.uid), cr.generation, digest.to_owned());
        self.rollout().checks.insert(key.clone(), Check { uid, generation, digest, found });
    }

    /// Drops what is noted of a custom resource that is gone.
    pub fn forget(&self, key: &ReleaseKey) {
        let mut state = self.rollout();
        state.granted.remove(key);
        state.current.remove(key);
        state.checks.remove(key);
    }
}

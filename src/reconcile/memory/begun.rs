//! First installations that were cut off: there is no record of them yet, and the annotation `tillerman.dev/kinds` of the custom resource
//! names the kinds of which they may have left objects.
//!
//! Whoever edits the custom resource writes that annotation. So it proves nothing: each kind is listed once, in the namespace of
//! the custom resource, and only a kind is watched of which there is an object that names the custom resource as its owner.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cluster::cache::{ReleaseKey, WatchKey};
use crate::cluster::cr::Cr;
use crate::reconcile::shared::Shared;
use crate::release::object::Gvk;
use crate::release::owner::CHART_LABEL;

/// What was found of each.
#[derive(Default)]
pub struct Begun {
    found: Mutex<HashMap<ReleaseKey, Found>>,
}

/// The watches that see what an installation has left.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// Those that are needed.
    pub watches: BTreeSet<WatchKey>,
    /// The API server could not be asked for them.
    pub unknown: bool,
}

struct Found {
    uid: Arc<str>,
    kinds: Vec<Gvk>,
    watches: BTreeSet<WatchKey>,
}

impl Begun {
    /// What an installation without a record has left. The API server is asked once for each custom resource, and again when the
    /// annotation names other kinds.
    pub async fn watches(&self, key: &ReleaseKey, cr: &Cr, shared: &Shared) -> Left {
        let kinds: Vec<Gvk> = cr.first_kinds().collect();
        if kinds.is_empty() {
            return Left::default();
        }
        let known = |found: &&Found| found.uid == cr.uid && found.kinds == kinds;
        if let Some(found) = self.lock().get(key).filter(known) {
            return Left { watches: found.watches.clone(), unknown: false };
        }
        let mut watches = BTreeSet::new();
        for gvk in &kinds {
            // The API server is not asked again for a kind that it does not serve: it has no objects.
            let Some(resource) = shared.discovery.cached(gvk).filter(|resource| resource.namespaced) else { continue };
            match shared.cluster.has_owned(&resource, &key.namespace, CHART_LABEL, &cr.uid).await {
                Ok(true) => {
                    watches.insert(shared.cache.watch_key(gvk, Some(&key.namespace)));
                }
                Ok(false) => {}
                // What cannot be seen is not waited for.
                Err(error) if error.reason() == "Forbidden" || error.is_not_found() => {
                    tracing::warn!(kind = %gvk, %error, "what was left of an installation cannot be looked for");
                }
                Err(error) => {
                    tracing::debug!(kind = %gvk, %error, "what was left of an installation cannot be looked for yet");
                    return Left { unknown: true, ..Left::default() };
                }
            }
        }
        let found = Found { uid: Arc::clone(&cr.uid), kinds, watches: watches.clone() };
        self.lock().insert(key.clone(), found);
        Left { watches, unknown: false }
    }

    /// A custom resource is gone.
    pub fn forget(&self, key: &ReleaseKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ReleaseKey, Found>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Interrupted first installations. They have no record yet. The annotation `tillerman.dev/kinds` of the custom
//! resource names the kinds of objects that they may have left behind.
//!
//! Every user who can edit the custom resource can write this annotation, so it proves nothing. Each kind is listed
//! once, in the namespace of the release. The operator watches a kind only if there is an object that names the
//! custom resource as its owner.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::store::PerRelease;
use crate::cluster::cache::{ReleaseKey, WatchKey};
use crate::cluster::cr::Cr;
use crate::object::Gvk;
use crate::reconcile::shared::Shared;
use crate::release::owner::CHART_LABEL;

/// The findings for each custom resource.
pub type Begun = PerRelease<Found>;

/// The watches that show what an installation has left behind.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// The required watches.
    pub watches: BTreeSet<WatchKey>,
    /// Whether a request to the API server failed, so that the required watches are unknown.
    pub unknown: bool,
}

/// The findings for one custom resource.
pub struct Found {
    uid: Arc<str>,
    kinds: Vec<Gvk>,
    watches: BTreeSet<WatchKey>,
}

impl PerRelease<Found> {
    /// The objects that an installation without a record has left behind. Asks the API server once for each custom
    /// resource, and again if the annotation names other kinds.
    pub async fn watches(&self, key: &ReleaseKey, cr: &Cr, namespace: &Arc<str>, shared: &Shared) -> Left {
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
            // A kind that the API server does not serve has no objects.
            let Some(resource) = shared.discovery.cached(gvk).filter(|resource| resource.namespaced) else { continue };
            match shared.cluster.has_owned(&resource, namespace, CHART_LABEL, &cr.uid).await {
                Ok(true) => {
                    watches.insert(shared.cache.watch_key(gvk, Some(namespace)));
                }
                Ok(false) => {}
                // The release does not wait for objects that the operator cannot see.
                Err(error) if error.is_forbidden() || error.is_not_found() => {
                    tracing::warn!(kind = %gvk, %error, "cannot look for objects left by an unfinished installation");
                }
                Err(error) => {
                    tracing::debug!(kind = %gvk, %error, "cannot yet look for objects left by an unfinished \
                         installation");
                    return Left { unknown: true, ..Left::default() };
                }
            }
        }
        let found = Found { uid: Arc::clone(&cr.uid), kinds, watches: watches.clone() };
        self.lock().insert(key.clone(), found);
        Left { watches, unknown: false }
    }
}

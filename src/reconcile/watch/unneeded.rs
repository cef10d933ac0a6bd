//! Ends the watches that no release needs.

use std::sync::Arc;
use std::time::Duration;

use super::Watching;
use super::objects::grace;
use crate::harm;
use crate::reconcile::shared::Shared;

/// How often the operator searches for watches that no release needs.
const ROUND: Duration = Duration::from_secs(30);

/// Searches periodically for watches that no release needs, if something has changed since the last search.
pub async fn end_unneeded(shared: Arc<Shared>, watching: Arc<Watching>) {
    let stop = shared.tasks.stop().clone();
    let mut judged = None;
    while tokio::time::timeout(harm::setting("TILLERMAN_HARM_ROUND", ROUND), stop.cancelled()).await.is_err() {
        let Shared { cache, discovery, kinds, sources, .. } = &*shared;
        let changes = cache.changes();
        let is_known = |kind: usize| {
            cache.is_kind_synced(kind) || cache.is_retired(kind) || discovery.cached(kinds.get(kind).gvk()).is_none()
        };
        if judged == Some(changes) || !cache.is_history_synced() || !(0..kinds.count()).all(is_known) {
            continue;
        }
        let waits = watching.objects.end_unneeded(&cache.needed());
        let of_sources = watching.sources.end_unneeded(sources, grace());
        judged = Some(changes).filter(|_| !waits && !of_sources);
    }
}

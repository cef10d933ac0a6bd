//! Watches of the objects that releases are made from: the sources of values, and what templates look up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::Api;
use kube::core::{DynamicObject, PartialObjectMeta};
use tokio_util::sync::CancellationToken;

use crate::cluster::cache::WatchKey;
use crate::cluster::sources::{SourceSink, Sources};
use crate::cluster::watch::{End, watch};
use crate::object::Gvk;
use crate::reconcile::shared::Shared;

/// The watches: metadata only, one per kind and namespace, or one per kind for all namespaces. A watch starts when the
/// first release needs it, and ends when no release needs it.
pub struct SourceWatches {
    started: Arc<Mutex<HashMap<WatchKey, Started>>>,
    shared: Arc<Shared>,
}

impl SourceWatches {
    /// Starts without watches.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { started: Arc::default(), shared }
    }

    /// Makes sure that a watch runs if the API server serves the kind. A kind that is not served is blind, and the next
    /// call searches for it again.
    pub fn ensure(&self, watch: &WatchKey) {
        let end = self.shared.tasks.stop().child_token();
        {
            let mut started = lock(&self.started);
            if let Some(running) = started.get_mut(watch) {
                running.wanted = Instant::now();
                return;
            }
            started.insert(watch.clone(), Started { wanted: Instant::now(), end: end.clone() });
        }
        let (watch, started, shared) = (watch.clone(), Arc::clone(&self.started), Arc::clone(&self.shared));
        self.shared.tasks.spawn(format!("watch of sources {}", watch.0), async move {
            follow(&watch, &shared, &end).await;
            let mut started = lock(&started);
            started.remove(&watch);
            // A release that requests the watch later starts a new one. A release that has just requested it looks
            // again.
            if end.is_cancelled() {
                shared.sources.unwatch(&watch);
            }
        });
    }

    /// Ends the watches of objects that no release uses. Returns whether some of them were only kept because their
    /// grace period is not over.
    pub fn end_unneeded(&self, sources: &Sources, grace: Duration) -> bool {
        let mut wait = false;
        for (_, running) in lock(&self.started).iter().filter(|(watch, _)| !sources.is_used(watch)) {
            if running.wanted.elapsed() < grace {
                wait = true;
            } else {
                running.end.cancel();
            }
        }
        wait
    }

    /// The number of watches.
    pub fn count(&self) -> usize {
        lock(&self.started).len()
    }
}

/// A running watch.
struct Started {
    /// When a pass last requested it.
    wanted: Instant,
    /// Ends it.
    end: CancellationToken,
}

fn lock(started: &Mutex<HashMap<WatchKey, Started>>) -> MutexGuard<'_, HashMap<WatchKey, Started>> {
    started.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn follow(source: &WatchKey, shared: &Shared, stop: &CancellationToken) {
    let blind = |why: &str| shared.queue.add_all(shared.sources.set_blind(source, why));
    let resource = match shared.discovery.resolve(&source.0).await {
        Ok(Some(resource)) => resource,
        Ok(None) => return blind("the API server does not serve it"),
        Err(error) => return blind(&error.to_string()),
    };
    let (client, kind) = (shared.cluster.client(), resource.api_resource());
    let api: Api<PartialObjectMeta<DynamicObject>> = match source.1.as_deref().filter(|_| resource.namespaced) {
        Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    };
    // Release records are many and large, and no release is made from them.
    let selector = (source.0 == Gvk::new("", "v1", "Secret")).then_some("owner!=helm");
    let queue = Arc::clone(&shared.queue);
    let mut sink = SourceSink::new(source.clone(), Arc::clone(&shared.sources), move |keys| queue.add_all(keys));
    if watch(api, selector, shared.manner(), &mut sink, stop).await == End::Gone {
        shared.discovery.forget(&source.0);
        blind("the API server no longer serves it");
    }
}

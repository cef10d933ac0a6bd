//! The watches of the objects of releases: one per kind and namespace, or one per kind for all namespaces. A watch
//! starts when the first release needs it, and ends when no release needs it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::Api;
use kube::core::DynamicObject;
use kube::core::discovery::Scope;
use tokio_util::sync::CancellationToken;

use super::sinks::ObjectSink;
use crate::cluster::cache::WatchKey;
use crate::cluster::error::ApiError;
use crate::cluster::watch::{End, watch};
use crate::harm;
use crate::object::Gvk;
use crate::reconcile::shared::Shared;
use crate::release::owner::CHART_LABEL;

/// The pause between two searches for a kind that the API server does not serve: this one at first, growing to
/// [`LAST_SEARCH`].
pub const FIRST_SEARCH: Duration = Duration::from_secs(1);
/// See [`FIRST_SEARCH`].
pub const LAST_SEARCH: Duration = Duration::from_secs(20);
/// A pass that asks for a watch creates what the watch is for, an object or a record, within this time.
const GRACE: Duration = Duration::from_secs(60);

/// Starts and ends watches.
pub struct ObjectWatches {
    started: Mutex<HashMap<WatchKey, Started>>,
    shared: Arc<Shared>,
}

/// A running watch.
struct Started {
    /// When a pass last requested it.
    wanted: Instant,
    /// Ends it.
    end: CancellationToken,
}

impl ObjectWatches {
    /// Starts without watches.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { started: Mutex::default(), shared }
    }

    /// The number of watches.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Makes sure that the objects of a kind in a namespace are watched.
    pub fn ensure(self: &Arc<Self>, gvk: &Gvk, namespace: Option<&Arc<str>>) {
        self.ensure_key(self.shared.cache.watch_key(gvk, namespace));
    }

    /// Makes sure that a watch runs.
    pub fn ensure_key(self: &Arc<Self>, key: WatchKey) {
        let mut started = self.lock();
        if let Some(running) = started.get_mut(&key) {
            running.wanted = Instant::now();
            return;
        }
        let end = self.shared.tasks.stop().child_token();
        started.insert(key.clone(), Started { wanted: Instant::now(), end: end.clone() });
        drop(started);
        let watches = Arc::clone(self);
        self.shared.tasks.spawn(format!("watch of {}", key.0), async move {
            let mut end = end;
            while watches.follow(&key, &end).await == Ended::Unneeded {
                match watches.leave(&key) {
                    // A pass has requested the watch again.
                    Some(again) => end = again,
                    None => return,
                }
            }
        });
    }

    /// Removes a watch that has ended, and the objects that it has seen. Returns a new token if the watch has to
    /// continue after all.
    fn leave(&self, key: &WatchKey) -> Option<CancellationToken> {
        let mut started = self.lock();
        let running = started.get_mut(key)?;
        // This check needs the lock: a pass that requests the watch later starts a new one.
        if running.wanted.elapsed() < grace() || self.shared.cache.needed().contains(key) {
            running.end = self.shared.tasks.stop().child_token();
            return Some(running.end.clone());
        }
        started.remove(key);
        self.shared.cache.unwatch(key);
        tracing::debug!(kind = %key.0, "no release needs the watch now");
        None
    }

    /// Ends the watches that no release needs. Returns whether some of them were only kept because their grace period
    /// is not over.
    pub fn end_unneeded(&self, needed: &HashSet<WatchKey>) -> bool {
        let mut wait = false;
        for (_, running) in self.lock().iter().filter(|(key, _)| !needed.contains(*key)) {
            if running.wanted.elapsed() < grace() {
                wait = true;
            } else {
                running.end.cancel();
            }
        }
        wait
    }

    /// Watches while the API server serves the kind, and waits while it does not, as long as a release needs the watch.
    async fn follow(&self, key: &WatchKey, end: &CancellationToken) -> Ended {
        let Shared { discovery, cluster, queue, cache, .. } = &*self.shared;
        let mut pause = FIRST_SEARCH;
        loop {
            match discovery.resolve(&key.0).await {
                Ok(Some(resource)) => {
                    let scope = if resource.namespaced { Scope::Namespaced } else { Scope::Cluster };
                    let api: Api<DynamicObject> = Api::dynamic(cluster.client(), &resource.api_resource(), &scope);
                    let api = match &key.1 {
                        Some(namespace) => api.constrain(namespace),
                        None => api,
                    };
                    let mut sink = ObjectSink::new(key.clone(), &self.shared);
                    if watch(api, Some(CHART_LABEL), self.shared.manner(), &mut sink, end).await == End::Cancelled {
                        return self.ended();
                    }
                    pause = FIRST_SEARCH;
                    discovery.forget(&key.0);
                    if self.is_over(key) {
                        return Ended::Unneeded;
                    }
                }
                Ok(None) if self.is_over(key) => return Ended::Unneeded,
                // The server of this API may be down for good, so the releases that wait for it are informed.
                Err(error @ ApiError::Away { .. }) if pause == LAST_SEARCH => {
                    queue.add_all(cache.set_blind(key, &error.to_string()));
                }
                Ok(None) | Err(_) => {}
            }
            tokio::select! {
                () = end.cancelled() => return self.ended(),
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(LAST_SEARCH),
            }
        }
    }

    fn ended(&self) -> Ended {
        if self.shared.tasks.stop().is_cancelled() { Ended::Stopped } else { Ended::Unneeded }
    }

    /// Removes the objects of a kind whose definition is deleted. Returns whether no release needs to know when the
    /// kind is served again. No pass can create objects of such a kind, so there is no grace period.
    fn is_over(&self, key: &WatchKey) -> bool {
        let Shared { queue, cache, .. } = &*self.shared;
        queue.add_all(cache.sync_objects(key, &HashSet::new(), u64::MAX));
        if cache.needed().contains(key) {
            return false;
        }
        if let Some(running) = self.lock().get_mut(key) {
            running.wanted = running.wanted.checked_sub(grace()).unwrap_or(running.wanted);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WatchKey, Started>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`GRACE`].
pub fn grace() -> Duration {
    harm::setting("TILLERMAN_HARM_GRACE", GRACE)
}

/// Why a watch ended.
#[derive(PartialEq, Eq)]
enum Ended {
    /// Nobody needs it.
    Unneeded,
    /// The operator stops.
    Stopped,
}

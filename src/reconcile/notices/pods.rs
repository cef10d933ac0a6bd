//! The pods of namespaces in which a notice is about pods.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Api;
use kube::core::{ApiResource, DynamicObject};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::cluster::watch::{Sink, watch};
use crate::notices::pods::PodFacts;
use crate::reconcile::shared::Shared;

/// Watches of pods, one for each namespace.
#[derive(Clone, Default)]
pub struct PodWatches(Arc<Inner>);

#[derive(Default)]
struct Inner {
    namespaces: Mutex<HashMap<Arc<str>, Watched>>,
    /// Signals that pods of a namespace changed.
    changed: Notify,
}

struct Watched {
    stop: CancellationToken,
    pods: BTreeMap<String, PodFacts>,
    /// All pods are known.
    complete: bool,
    /// Something is new since it was last looked at.
    is_new: bool,
}

impl PodWatches {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Watched>> {
        self.0.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches the pods of exactly these namespaces.
    pub fn follow(&self, wanted: &HashSet<Arc<str>>, shared: &Arc<Shared>) {
        let mut all = self.lock();
        all.retain(|namespace, watched| {
            let stays = wanted.contains(namespace);
            if !stays {
                watched.stop.cancel();
            }
            stays
        });
        for namespace in wanted.iter().filter(|namespace| !all.contains_key(*namespace)).cloned().collect::<Vec<_>>() {
            let stop = shared.tasks.stop().child_token();
            let watched = Watched { stop: stop.clone(), pods: BTreeMap::new(), complete: false, is_new: false };
            all.insert(Arc::clone(&namespace), watched);
            let (all_watches, shared) = (self.clone(), Arc::clone(shared));
            let sink = PodSink {
                namespace: Arc::clone(&namespace),
                watches: all_watches,
                listed: HashSet::new(),
                stop: stop.clone(),
            };
            let tasks = shared.tasks.clone();
            tasks.spawn("watch of pods for notices", async move {
                let mut sink = sink;
                let pods = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
                let api: Api<DynamicObject> = Api::namespaced_with(shared.cluster.client(), &namespace, &pods);
                watch(api, None, shared.manner(), &mut sink, &stop).await;
            });
        }
    }

    /// The pods of a namespace, by name; `None` while not all of them are known.
    pub fn of(&self, namespace: &str) -> Option<BTreeMap<String, PodFacts>> {
        self.lock().get(namespace).filter(|watched| watched.complete).map(|watched| watched.pods.clone())
    }

    /// Waits until pods changed; their namespaces.
    pub async fn changed(&self) -> Vec<Arc<str>> {
        loop {
            let notified = self.0.changed.notified();
            let taken: Vec<_> = {
                let mut all = self.lock();
                let new = all.iter_mut().filter(|(_, watched)| watched.complete && watched.is_new);
                new.map(|(namespace, watched)| {
                    watched.is_new = false;
                    Arc::clone(namespace)
                })
                .collect()
            };
            if !taken.is_empty() {
                return taken;
            }
            notified.await;
        }
    }
}

struct PodSink {
    namespace: Arc<str>,
    watches: PodWatches,
    listed: HashSet<String>,
    stop: CancellationToken,
}

impl PodSink {
    fn enter(&self, act: impl FnOnce(&mut Watched) -> bool) {
        if self.stop.is_cancelled() {
            return;
        }
        let mut all = self.watches.lock();
        let Some(watched) = all.get_mut(&self.namespace) else { return };
        watched.is_new |= act(watched);
        if watched.is_new && watched.complete {
            drop(all);
            self.watches.0.changed.notify_one();
        }
    }
}

impl Sink<DynamicObject> for PodSink {
    fn begin(&mut self) {
        self.listed.clear();
    }

    fn put(&mut self, pod: DynamicObject, listed: bool) {
        let Some((name, facts)) = serde_json::to_value(pod).ok().as_ref().and_then(PodFacts::of) else { return };
        if listed {
            self.listed.insert(name.clone());
        }
        self.enter(|watched| {
            let is_new = watched.pods.get(&name) != Some(&facts);
            watched.pods.insert(name, facts);
            is_new
        });
    }

    fn remove(&mut self, pod: DynamicObject) {
        if let Some(name) = pod.metadata.name {
            self.enter(|watched| watched.pods.remove(&name).is_some());
        }
    }

    fn complete(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        self.enter(|watched| {
            watched.pods.retain(|name, _| listed.contains(name));
            watched.complete = true;
            true
        });
    }

    fn blind(&mut self, why: String) {
        tracing::warn!(namespace = %self.namespace, %why, "pods cannot be watched: notices report none");
    }
}

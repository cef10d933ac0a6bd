//! Results of pods: one watch of the pods that carry the label, started once a chart with such pods is served.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Api;
use kube::core::{ApiResource, DynamicObject};

use crate::cluster::cache::ReleaseKey;
use crate::cluster::cr::Cr;
use crate::cluster::watch::{Sink, watch};
use crate::plan::results::{Ended, LABEL};
use crate::reconcile::shared::Shared;

/// The latest results of pods, and the watches that observe them.
pub struct Results {
    newest: Arc<Newest>,
    shared: Arc<Shared>,
}

type Release = (Arc<str>, Arc<str>);

/// The results, by namespace and name of the release.
#[derive(Default)]
struct Newest {
    watched: AtomicBool,
    ended: Mutex<HashMap<Release, Ended>>,
}

impl Results {
    /// Starts without watches.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { newest: Arc::default(), shared }
    }

    /// How the last pod of a custom resource ended. The first call starts the watches; a result that arrives later
    /// triggers a pass. A pod that is older than the custom resource belongs to an earlier one of the same name.
    pub fn of(&self, key: &ReleaseKey, cr: &Cr) -> Option<Ended> {
        let cache = &self.shared.cache;
        if !self.newest.watched.swap(true, Ordering::Relaxed) {
            for scope in cache.scopes() {
                self.watch(scope);
            }
        }
        let release = cache.release_of(key);
        self.newest.lock().get(&release).filter(|ended| ended.created >= cr.created).cloned()
    }

    /// Drops the result of a deleted custom resource.
    pub fn forget(&self, release: &Release) {
        self.newest.lock().remove(release);
    }

    fn watch(&self, scope: Option<Arc<str>>) {
        let shared = Arc::clone(&self.shared);
        let mut sink = ResultSink { newest: Arc::clone(&self.newest), shared: Arc::clone(&shared) };
        let stop = self.shared.tasks.stop().child_token();
        self.shared.tasks.spawn("watch of pods with results", async move {
            let pods = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
            let api: Api<DynamicObject> = match &scope {
                Some(namespace) => Api::namespaced_with(shared.cluster.client(), namespace, &pods),
                None => Api::all_with(shared.cluster.client(), &pods),
            };
            watch(api, Some(LABEL), shared.manner(), &mut sink, &stop).await;
        });
    }
}

impl Newest {
    /// Stores a result. Returns whether it is new.
    fn put(&self, release: Release, ended: Ended) -> bool {
        let mut all = self.lock();
        let newer = all.get(&release).is_none_or(|known| ended.is_after(known));
        if newer {
            all.insert(release, ended);
        }
        newer
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Release, Ended>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct ResultSink {
    newest: Arc<Newest>,
    shared: Arc<Shared>,
}

impl Sink<DynamicObject> for ResultSink {
    fn begin(&mut self) {}

    fn put(&mut self, pod: DynamicObject, _listed: bool) {
        let named = pod.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL));
        let Some((name, namespace)) = named.zip(pod.metadata.namespace.as_ref()) else { return };
        let (namespace, name): Release = (namespace.as_str().into(), name.as_str().into());
        let Some(ended) = serde_json::to_value(pod).ok().as_ref().and_then(Ended::read) else { return };
        if self.newest.put((Arc::clone(&namespace), Arc::clone(&name)), ended) {
            self.shared.queue.add_all(self.shared.cache.keys_of_release_named(&namespace, &name));
        }
    }

    // The result of a deleted pod stays valid.
    fn remove(&mut self, _pod: DynamicObject) {}

    fn complete(&mut self) {}

    fn blind(&mut self, why: String) {
        tracing::warn!(%why, "pods with results cannot be watched: the status does not show their results");
    }
}

//! Results of pods: one watch of the pods that carry their label, once a chart with such pods is served, and nothing at all before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use kube::Api;
use kube::core::{ApiResource, DynamicObject};
use tokio_util::sync::CancellationToken;

use super::Context;
use super::tasks::Tasks;
use crate::cluster::cache::{Cache, ReleaseKey};
use crate::cluster::cr::Cr;
use crate::cluster::watch::{Sink, watch};
use crate::plan::results::{Ended, LABEL};

/// What the pods said last, and the watches that tell.
pub struct Results {
    inner: Mutex<Inner>,
    context: Weak<Context>,
    tasks: Tasks,
    stop: CancellationToken,
}

type Release = (Arc<str>, Arc<str>);

#[derive(Default)]
struct Inner {
    watched: bool,
    /// By namespace and name of the release.
    newest: HashMap<Release, Ended>,
}

impl Results {
    /// None yet. The context is the one that will hold this.
    pub fn new(context: Weak<Context>, tasks: Tasks, stop: CancellationToken) -> Self {
        Self { inner: Mutex::default(), context, tasks, stop }
    }

    /// How the last pod of a custom resource ended. From the first question on pods are watched; an answer that comes later brings a
    /// pass. What was made before the custom resource was another's of its name.
    pub fn of(&self, key: &ReleaseKey, cr: &Cr, cache: &Cache) -> Option<Ended> {
        let mut inner = self.lock();
        if !std::mem::replace(&mut inner.watched, true) {
            for scope in cache.scopes() {
                self.watch(scope);
            }
        }
        inner.newest.get(&release(key, cache)).filter(|ended| ended.created >= cr.created).cloned()
    }

    /// A custom resource is gone.
    pub fn forget(&self, key: &ReleaseKey, cache: &Cache) {
        self.lock().newest.remove(&release(key, cache));
    }

    fn watch(&self, scope: Option<Arc<str>>) {
        let context = Weak::clone(&self.context);
        let mut sink = ResultSink { context };
        let stop = self.stop.child_token();
        self.tasks.spawn("watch of pods with results", async move {
            let Some(ctx) = sink.context.upgrade() else { return };
            let pods = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
            let api: Api<DynamicObject> = match &scope {
                Some(namespace) => Api::namespaced_with(ctx.cluster.client(), namespace, &pods),
                None => Api::all_with(ctx.cluster.client(), &pods),
            };
            let manner = ctx.watches.manner();
            drop(ctx);
            watch(api, Some(LABEL), manner, &mut sink, &stop).await;
        });
    }

    /// Whether it is news.
    fn put(&self, release: Release, ended: Ended) -> bool {
        let mut inner = self.lock();
        let newer = inner.newest.get(&release).is_none_or(|known| ended.is_after(known));
        if newer {
            inner.newest.insert(release, ended);
        }
        newer
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn release(key: &ReleaseKey, cache: &Cache) -> Release {
    (Arc::clone(&key.namespace), cache.release_name(key))
}

struct ResultSink {
    context: Weak<Context>,
}

impl Sink<DynamicObject> for ResultSink {
    fn begin(&mut self) {}

    fn put(&mut self, pod: DynamicObject, _listed: bool) {
        let Some(ctx) = self.context.upgrade() else { return };
        let named = pod.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL));
        let Some((name, namespace)) = named.zip(pod.metadata.namespace.as_ref()) else { return };
        let (namespace, name): Release = (namespace.as_str().into(), name.as_str().into());
        let Some(ended) = serde_json::to_value(pod).ok().as_ref().and_then(Ended::read) else { return };
        if ctx.results.put((Arc::clone(&namespace), Arc::clone(&name)), ended) {
            ctx.queue.add_all(ctx.cache.keys_of_release_named(&namespace, &name));
        }
    }

    // What was said stays said.
    fn remove(&mut self, _pod: DynamicObject) {}

    fn complete(&mut self) {}

    fn blind(&mut self, why: String) {
        tracing::warn!(%why, "pods with results cannot be watched: the status does not say how they ended");
    }
}

//! Watches of the objects that releases are made from: those that values come from, and those that templates look up.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use kube::Api;
use kube::core::{DynamicObject, PartialObjectMeta};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Context;
use crate::cluster::cache::WatchKey;
use crate::cluster::sources::SourceSink;
use crate::cluster::watch::{End, watch};
use crate::release::object::Gvk;

/// The watches: metadata only, one per kind and namespace (or all), started when the first release needs it.
pub struct SourceWatches {
    started: Arc<Mutex<HashSet<WatchKey>>>,
    context: Weak<Context>,
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl SourceWatches {
    /// None yet. The context is the one that will hold this.
    pub fn new(context: Weak<Context>, tracker: TaskTracker, stop: CancellationToken) -> Self {
        Self { started: Arc::default(), context, tracker, stop }
    }

    /// Makes sure that a watch runs, if the API server serves the kind. One that is not served is blind, and is looked for again when this
    /// is called again.
    pub fn ensure(&self, watch: &WatchKey) {
        if !lock(&self.started).insert(watch.clone()) {
            return;
        }
        let (Some(ctx), stop) = (self.context.upgrade(), self.stop.clone()) else { return };
        let (watch, started) = (watch.clone(), Arc::clone(&self.started));
        self.tracker.spawn(async move {
            follow(&watch, ctx, stop).await;
            lock(&started).remove(&watch);
        });
    }
}

fn lock(started: &Mutex<HashSet<WatchKey>>) -> MutexGuard<'_, HashSet<WatchKey>> {
    started.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn follow(source: &WatchKey, ctx: Arc<Context>, stop: CancellationToken) {
    let blind = |ctx: &Context, why: &str| ctx.queue.add_all(ctx.sources.set_blind(source, why));
    let resource = match ctx.discovery.resolve(&source.0).await {
        Ok(Some(resource)) => resource,
        Ok(None) => return blind(&ctx, "the API server does not serve it"),
        Err(error) => return blind(&ctx, &error.to_string()),
    };
    let (client, kind) = (ctx.cluster.client(), resource.api_resource());
    let api: Api<PartialObjectMeta<DynamicObject>> = match source.1.as_deref().filter(|_| resource.namespaced) {
        Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    };
    // Release records are many and large, and nothing is made from them.
    let selector = (source.0 == Gvk::new("", "v1", "Secret")).then_some("owner!=helm");
    let queue = Arc::clone(&ctx.queue);
    let mut sink = SourceSink::new(source.clone(), Arc::clone(&ctx.sources), move |keys| queue.add_all(keys));
    let (manner, context) = (ctx.watches.manner(), Arc::downgrade(&ctx));
    drop(ctx);
    if watch(api, selector, manner, &mut sink, &stop).await == End::Gone
        && let Some(ctx) = context.upgrade()
    {
        ctx.discovery.forget(&source.0);
        blind(&ctx, "the API server does not serve it any more");
    }
}

//! The watches of objects of releases: one per kind and namespace (or all), started when the first release needs it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use kube::Api;
use kube::core::DynamicObject;
use kube::core::discovery::Scope;
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Context;
use super::sinks::ObjectSink;
use crate::cluster::cache::WatchKey;
use crate::cluster::error::ApiError;
use crate::cluster::watch::{End, Manner, watch};
use crate::plan::stamp::CHART_LABEL;
use crate::release::object::Gvk;

/// How long until a kind that the API server does not serve is looked for again: from the first pause to the last.
pub const FIRST_SEARCH: Duration = Duration::from_secs(1);
/// See [`FIRST_SEARCH`].
pub const LAST_SEARCH: Duration = Duration::from_secs(20);

/// Starts watches.
pub struct Watches {
    started: Mutex<HashSet<WatchKey>>,
    tracker: TaskTracker,
    stop: CancellationToken,
    context: Weak<Context>,
    streaming: AtomicBool,
    back: Receiver<()>,
}

impl Watches {
    /// None yet. The context is the one that will hold this; `back` is [`Cluster::back`](crate::cluster::client::Cluster::back).
    pub fn new(context: Weak<Context>, back: Receiver<()>, tracker: TaskTracker, stop: CancellationToken) -> Self {
        Self { started: Mutex::default(), tracker, stop, context, streaming: AtomicBool::new(false), back }
    }

    /// Whether lists may come as streams.
    pub fn set_streaming(&self, streaming: bool) {
        self.streaming.store(streaming, Ordering::Relaxed);
    }

    /// How watches are kept.
    pub fn manner(&self) -> Manner {
        Manner { streaming: self.streaming.load(Ordering::Relaxed), back: self.back.clone() }
    }

    /// Whether a watch was started.
    pub fn has(&self, key: &WatchKey) -> bool {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    /// Makes sure that the objects of a kind in a namespace are watched.
    pub fn ensure(&self, ctx: &Context, gvk: &Gvk, namespace: Option<&Arc<str>>) {
        self.ensure_key(ctx.cache.watch_key(gvk, namespace));
    }

    /// Makes sure that a watch runs.
    pub fn ensure_key(&self, key: WatchKey) {
        if !self.started.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone()) {
            return;
        }
        let (context, stop) = (Weak::clone(&self.context), self.stop.clone());
        self.tracker.spawn(async move {
            let mut pause = FIRST_SEARCH;
            while let Some(ctx) = context.upgrade() {
                let served = ctx.discovery.resolve(&key.0).await;
                if let Ok(Some(resource)) = served {
                    let scope = if resource.namespaced { Scope::Namespaced } else { Scope::Cluster };
                    let api: Api<DynamicObject> = Api::dynamic(ctx.cluster.client(), &resource.api_resource(), &scope);
                    let api = match &key.1 {
                        Some(namespace) => api.constrain(namespace),
                        None => api,
                    };
                    let manner = ctx.watches.manner();
                    let mut sink = ObjectSink::new(key.clone(), &ctx);
                    drop(ctx);
                    if watch(api, Some(CHART_LABEL), manner, &mut sink, &stop).await == End::Cancelled {
                        return;
                    }
                    pause = FIRST_SEARCH;
                    let Some(ctx) = context.upgrade() else { return };
                    ctx.discovery.forget(&key.0);
                    // The definition is gone, and its objects with it.
                    ctx.queue.add_all(ctx.cache.sync_objects(&key, &HashSet::new(), u64::MAX));
                } else if let Ok(None) = served {
                    ctx.queue.add_all(ctx.cache.sync_objects(&key, &HashSet::new(), u64::MAX));
                    drop(ctx);
                } else if let Err(error @ ApiError::Away { .. }) = served
                    && pause == LAST_SEARCH
                {
                    // Its server may be away for ever, and who waits for it is told.
                    ctx.queue.add_all(ctx.cache.set_blind(&key, &error.to_string()));
                    drop(ctx);
                }
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => pause = (pause * 2).min(LAST_SEARCH),
                }
            }
        });
    }
}

//! The watches of objects of releases: one per kind and namespace (or all), started when the first release needs it, and ended when
//! none does any more.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use kube::Api;
use kube::core::DynamicObject;
use kube::core::discovery::Scope;
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;

use super::Context;
use super::sinks::ObjectSink;
use super::tasks::Tasks;
use crate::cluster::cache::WatchKey;
use crate::cluster::error::ApiError;
use crate::cluster::watch::{End, Manner, watch};
use crate::harm;
use crate::release::object::Gvk;
use crate::release::owner::CHART_LABEL;

/// How long until a kind that the API server does not serve is looked for again: from the first pause to the last.
pub const FIRST_SEARCH: Duration = Duration::from_secs(1);
/// See [`FIRST_SEARCH`].
pub const LAST_SEARCH: Duration = Duration::from_secs(20);
/// How often is looked for watches that nobody needs.
const ROUND: Duration = Duration::from_secs(30);
/// A pass that asks for a watch writes what it is for within this time: an object, or a record.
const GRACE: Duration = Duration::from_secs(60);

/// Starts watches, and ends them.
pub struct Watches {
    started: Mutex<HashMap<WatchKey, Started>>,
    tasks: Tasks,
    stop: CancellationToken,
    context: Weak<Context>,
    streaming: AtomicBool,
    back: Receiver<()>,
}

/// A watch that runs.
struct Started {
    /// When a pass last asked for it.
    wanted: Instant,
    /// Ends it.
    end: CancellationToken,
}

impl Watches {
    /// None yet. The context is the one that will hold this; `back` is [`Cluster::back`](crate::cluster::client::Cluster::back).
    pub fn new(context: Weak<Context>, back: Receiver<()>, tasks: Tasks, stop: CancellationToken) -> Self {
        Self { started: Mutex::default(), tasks, stop, context, streaming: AtomicBool::new(false), back }
    }

    /// Whether lists may come as streams.
    pub fn set_streaming(&self, streaming: bool) {
        self.streaming.store(streaming, Ordering::Relaxed);
    }

    /// How watches are kept.
    pub fn manner(&self) -> Manner {
        Manner { streaming: self.streaming.load(Ordering::Relaxed), back: self.back.clone() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Makes sure that the objects of a kind in a namespace are watched.
    pub fn ensure(&self, ctx: &Context, gvk: &Gvk, namespace: Option<&Arc<str>>) {
        self.ensure_key(ctx.cache.watch_key(gvk, namespace));
    }

    /// Makes sure that a watch runs.
    pub fn ensure_key(&self, key: WatchKey) {
        let mut started = self.lock();
        if let Some(running) = started.get_mut(&key) {
            running.wanted = Instant::now();
            return;
        }
        let end = self.stop.child_token();
        started.insert(key.clone(), Started { wanted: Instant::now(), end: end.clone() });
        drop(started);
        let context = Weak::clone(&self.context);
        self.tasks.spawn(format!("watch of {}", key.0), async move {
            let mut end = end;
            while follow(&key, &context, &end).await == Ended::Unneeded {
                let Some(ctx) = context.upgrade() else { return };
                match ctx.watches.leave(&key, &ctx) {
                    // A pass has asked for it since.
                    Some(again) => end = again,
                    None => return,
                }
            }
        });
    }

    /// Removes a watch that has ended, and what it has seen; another token when it shall go on after all.
    fn leave(&self, key: &WatchKey, ctx: &Context) -> Option<CancellationToken> {
        let mut started = self.lock();
        let running = started.get_mut(key)?;
        // Looked at under the lock: whoever asks for it from now on starts another.
        if running.wanted.elapsed() < grace() || ctx.cache.needed().contains(key) {
            running.end = self.stop.child_token();
            return Some(running.end.clone());
        }
        started.remove(key);
        ctx.cache.unwatch(key);
        tracing::debug!(kind = %key.0, "no release needs the watch any more");
        None
    }

    /// Ends the watches that nobody needs; whether some only wait for their time.
    fn end_unneeded(&self, needed: &HashSet<WatchKey>) -> bool {
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

    fn lock(&self) -> MutexGuard<'_, HashMap<WatchKey, Started>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn grace() -> Duration {
    harm::setting("TILLERMAN_HARM_GRACE", GRACE)
}

/// Looks from time to time for watches that no release needs, when anything has changed.
pub async fn end_unneeded(context: Weak<Context>, stop: CancellationToken) {
    let mut judged = None;
    while tokio::time::timeout(harm::setting("TILLERMAN_HARM_ROUND", ROUND), stop.cancelled()).await.is_err() {
        let Some(ctx) = context.upgrade() else { return };
        let changes = ctx.cache.changes();
        let is_known =
            |kind: usize| ctx.cache.is_kind_synced(kind) || ctx.discovery.cached(ctx.kinds[kind].gvk()).is_none();
        if judged == Some(changes) || !ctx.cache.is_history_synced() || !(0..ctx.kinds.len()).all(is_known) {
            continue;
        }
        let waits = ctx.watches.end_unneeded(&ctx.cache.needed());
        let of_sources = ctx.source_watches.end_unneeded(&ctx.sources, grace());
        judged = Some(changes).filter(|_| !waits && !of_sources);
    }
}

/// Why a watch ended.
#[derive(PartialEq, Eq)]
enum Ended {
    /// Nobody needs it.
    Unneeded,
    /// The operator ends.
    Stopped,
}

/// Watches while the API server serves the kind, and waits for it while not, as long as somebody needs it.
async fn follow(key: &WatchKey, context: &Weak<Context>, end: &CancellationToken) -> Ended {
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
            let ended = watch(api, Some(CHART_LABEL), manner, &mut sink, end).await;
            let Some(ctx) = context.upgrade() else { break };
            if ended == End::Cancelled {
                return if ctx.watches.stop.is_cancelled() { Ended::Stopped } else { Ended::Unneeded };
            }
            pause = FIRST_SEARCH;
            ctx.discovery.forget(&key.0);
            if is_over(key, &ctx) {
                return Ended::Unneeded;
            }
        } else if let Ok(None) = served {
            if is_over(key, &ctx) {
                return Ended::Unneeded;
            }
        } else if let Err(error @ ApiError::Away { .. }) = served
            && pause == LAST_SEARCH
        {
            // Its server may be away for ever, and who waits for it is told.
            ctx.queue.add_all(ctx.cache.set_blind(key, &error.to_string()));
            drop(ctx);
        }
        tokio::select! {
            () = end.cancelled() => {
                let stopped = context.upgrade().is_none_or(|ctx| ctx.watches.stop.is_cancelled());
                return if stopped { Ended::Stopped } else { Ended::Unneeded };
            }
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LAST_SEARCH),
        }
    }
    Ended::Stopped
}

/// The definition of a kind is gone, and its objects with it. Whether nobody needs to know when it is back: no pass can make objects of
/// such a kind, so there is no grace.
fn is_over(key: &WatchKey, ctx: &Context) -> bool {
    ctx.queue.add_all(ctx.cache.sync_objects(key, &HashSet::new(), u64::MAX));
    if ctx.cache.needed().contains(key) {
        return false;
    }
    if let Some(running) = ctx.watches.lock().get_mut(key) {
        running.wanted = running.wanted.checked_sub(grace()).unwrap_or(running.wanted);
    }
    true
}

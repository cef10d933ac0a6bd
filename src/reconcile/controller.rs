//! What runs beside the passes: watches of custom resources and release records, the workers, start and stop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube::{Api, Config};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::annotations::Annotations;
use super::chart::Served;
use super::look::Looks;
use super::lookups::LookedUp;
use super::pods::Pods;
use super::queue::Queue;
use super::render::Renderer;
use super::results::Results;
use super::sinks::{CrSink, HistorySink};
use super::sources::SourceWatches;
use super::watches::{FIRST_SEARCH, LAST_SEARCH, Watches};
use super::{Context, Next, reconcile};
use crate::cluster::cache::{Cache, ReleaseKey};
use crate::cluster::client::Cluster;
use crate::cluster::cr::CrObject;
use crate::cluster::discovery::Discovery;
use crate::cluster::events::Events;
use crate::cluster::watch::{End, watch};
use crate::kind::Kind;
use crate::mask::Masks;
use crate::members::own::Drivers;
use crate::release::object::Gvk;
use crate::release::secret::SELECTOR;
use crate::server::collect::{CreatedAt, STATES, State};
use crate::server::metrics::{Metrics, PassResult};
use crate::server::spans;

/// Passes that run may take so long to end after the operator was told to stop.
const GRACE: Duration = Duration::from_secs(20);
/// A chart that could not be loaded is tried again so often.
const RETRY_CHARTS: Duration = Duration::from_secs(15);
/// The first minor version of Kubernetes whose API servers stream lists by default.
const STREAMING_SINCE: u32 = 34;

/// What the operator is to do.
pub struct Settings {
    /// The kinds that it serves.
    pub kinds: Vec<Kind>,
    /// The namespaces that it watches; none: all.
    pub namespaces: Vec<String>,
    /// Which custom resources are its own.
    pub scope: Scope,
    /// Passes that may run at once.
    pub workers: usize,
    /// How often a release is compared with the caches when nothing happens.
    pub period: Duration,
    /// Name in events.
    pub reporter: String,
    /// Events show no overridden values.
    pub hide_overrides: bool,
    /// The status shows what is deployed.
    pub show_manifest: bool,
    /// What must appear in no text; the log asks it too.
    pub masks: Arc<Masks<ReleaseKey>>,
    /// Drivers of members that the program brings.
    pub drivers: Drivers,
}

/// Which custom resources are an operator's, of charts whose custom resources say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All that it watches.
    #[default]
    Any,
    /// Those that say `clusterwide`.
    ClusterWide,
    /// Those that say nothing.
    Namespaced,
}

impl Scope {
    /// Whether a custom resource is the operator's, by what its annotation says (coreos' etcd-operator v0.9.4).
    pub fn has(self, said: Option<&str>) -> bool {
        match self {
            Self::Any => true,
            Self::ClusterWide => said == Some("clusterwide"),
            Self::Namespaced => said.is_none(),
        }
    }
}

/// The operator, ready to run.
pub struct Controller {
    ctx: Arc<Context>,
    workers: usize,
    tracker: TaskTracker,
    stop: CancellationToken,
    history_synced: Arc<Notify>,
}

impl Controller {
    /// Loads the charts; asks the cluster nothing yet.
    pub fn new(
        settings: Settings,
        config: Config,
        metrics: &Arc<Metrics>,
        stop: &CancellationToken,
    ) -> Result<Self, kube::Error> {
        let cluster = Cluster::new(config, metrics)?;
        let tracker = TaskTracker::new();
        let gvks: Vec<Gvk> = settings.kinds.iter().map(|k| k.gvk.clone()).collect();
        let namespaces = settings.namespaces.iter().map(|n| n.as_str().into()).collect();
        let queue = Arc::new(Queue::new(Arc::clone(metrics)));
        let work = Arc::clone(&queue);
        let (events, sending) = Events::new(
            cluster.clone(),
            settings.reporter,
            Arc::clone(&settings.masks),
            Arc::clone(metrics),
            move || work.is_busy(),
        );
        tracker.spawn(sending);
        let suffixes: Vec<Box<str>> = settings.kinds.iter().map(|k| k.release_suffix.clone()).collect();
        let kinds: Vec<Served> = settings.kinds.into_iter().map(Served::new).collect();
        for served in &kinds {
            metrics.set_workers(&served.controller, settings.workers);
            metrics.set_chart_usable(served.gvk(), served.chart().is_ok());
            if let Err(error) = served.chart()
                && !served.is_remote()
            {
                tracing::error!(kind = %served.gvk(), %error, "chart unusable");
            }
        }
        let ctx = Arc::new_cyclic(|context| Context {
            discovery: Arc::new(Discovery::new(cluster.clone())),
            watches: Watches::new(std::sync::Weak::clone(context), cluster.back(), tracker.clone(), stop.clone()),
            cluster,
            cache: Arc::new(Cache::new(&gvks, namespaces).with_suffixes(suffixes.into_iter())),
            kinds,
            pods: Pods::new(std::sync::Weak::clone(context), tracker.clone(), stop.clone()),
            looks: Looks::new(std::sync::Weak::clone(context), tracker.clone(), stop.clone()),
            drivers: settings.drivers,
            results: Results::new(std::sync::Weak::clone(context), tracker.clone(), stop.clone()),
            kept: super::kept::Kept::default(),
            sources: Arc::default(),
            source_watches: SourceWatches::new(std::sync::Weak::clone(context), tracker.clone(), stop.clone()),
            looked_up: LookedUp::default(),
            masks: Arc::clone(&settings.masks),
            renderer: Renderer::default(),
            annotations: Annotations::default(),
            events,
            queue,
            metrics: Arc::clone(metrics),
            contests: super::contests::Contests::default(),
            period: settings.period,
            scope: settings.scope,
            hide_overrides: settings.hide_overrides,
            show_manifest: settings.show_manifest,
        });
        let (cache, gvks) = (Arc::clone(&ctx.cache), gvks);
        metrics.register_created_at(move || created_at(&cache, &gvks));
        let (cache, names) =
            (Arc::clone(&ctx.cache), ctx.kinds.iter().map(|k| k.controller.clone()).collect::<Vec<_>>());
        metrics.register_states(move || states(&cache, &names));
        let queue = Arc::clone(&ctx.queue);
        metrics.register_queue(move || queue.age());
        Ok(Self { ctx, workers: settings.workers.max(1), tracker, stop: stop.clone(), history_synced: Arc::default() })
    }

    /// The cluster, for a lease.
    pub fn cluster(&self) -> Cluster {
        self.ctx.cluster.clone()
    }

    /// Runs until it is told to stop; then lets the passes that run end.
    pub async fn run(self) {
        if !self.discover().await {
            return;
        }
        self.watch_history();
        for kind in 0..self.ctx.kinds.len() {
            self.tracker.spawn(serve_kind(Arc::clone(&self.ctx), kind, self.stop.clone()));
        }
        self.tracker.spawn(watch_kinds_in_use(
            Arc::clone(&self.ctx),
            Arc::clone(&self.history_synced),
            self.stop.clone(),
        ));
        self.tracker.spawn(retry_charts(Arc::clone(&self.ctx), self.stop.clone()));
        self.tracker.spawn(follow(Arc::clone(&self.ctx), self.stop.clone()));
        let workers = TaskTracker::new();
        for _ in 0..self.workers {
            workers.spawn(work(Arc::clone(&self.ctx)));
        }
        workers.close();
        self.stop.cancelled().await;
        tracing::info!("stopping");
        self.ctx.queue.close();
        if tokio::time::timeout(GRACE, workers.wait()).await.is_err() {
            tracing::warn!("passes were still running after {} seconds", GRACE.as_secs());
        }
        let Self { ctx, tracker, .. } = self;
        // The last events are sent when the last sender is gone.
        drop(ctx);
        tracker.close();
        let _ = tokio::time::timeout(Duration::from_secs(2), tracker.wait()).await;
    }

    /// Asks for kinds and version until the API server answers. `false` when told to stop before.
    async fn discover(&self) -> bool {
        let mut pause = FIRST_SEARCH;
        loop {
            match self.ctx.discovery.refresh().await {
                Ok(()) => break,
                Err(error) => tracing::warn!(%error, "the API server does not answer"),
            }
            tokio::select! {
                () = self.stop.cancelled() => return false,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(LAST_SEARCH),
            }
        }
        let info = self.ctx.discovery.info();
        let minor = info.kube_version.split('.').nth(1).and_then(|m| m.parse::<u32>().ok());
        self.ctx.watches.set_streaming(minor.is_some_and(|m| m >= STREAMING_SINCE));
        tracing::info!(version = %info.kube_version, "connected to the API server");
        true
    }

    fn watch_history(&self) {
        for scope in self.ctx.cache.scopes() {
            let client = self.ctx.cluster.client();
            let api: Api<PartialObjectMeta<Secret>> = match &scope {
                Some(namespace) => Api::namespaced(client, namespace),
                None => Api::all(client),
            };
            let (cache, queue) = (Arc::clone(&self.ctx.cache), Arc::clone(&self.ctx.queue));
            let mut sink = HistorySink::new(scope, cache, queue, Arc::clone(&self.history_synced));
            let (stop, manner) = (self.stop.clone(), self.ctx.watches.manner());
            self.tracker.spawn(async move {
                // Secrets are always served; a 404 can only be a proxy's.
                while watch(api.clone(), Some(SELECTOR), manner.clone(), &mut sink, &stop).await == End::Gone {
                    tokio::time::sleep(LAST_SEARCH).await;
                }
            });
        }
    }
}

/// Once the release records are known, the objects of all releases are watched: no pass has to ask for it.
async fn watch_kinds_in_use(ctx: Arc<Context>, synced: Arc<Notify>, stop: CancellationToken) {
    loop {
        let notified = synced.notified();
        if ctx.cache.is_history_synced() {
            break;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = notified => {}
            () = tokio::time::sleep(FIRST_SEARCH) => {}
        }
    }
    let kinds: BTreeSet<_> = ctx.cache.kinds_in_use();
    tracing::info!(kinds = kinds.len(), "release records are known");
    for watch in kinds {
        ctx.watches.ensure_key(watch);
    }
    for kind in 0..ctx.kinds.len() {
        ctx.queue.add_all(ctx.cache.keys_of(kind));
    }
    ctx.metrics.set_synced();
}

/// Watches the custom resources of a kind while the API server serves it, and waits for it while not.
async fn serve_kind(ctx: Arc<Context>, kind: usize, stop: CancellationToken) {
    let gvk = ctx.kinds[kind].gvk().clone();
    let mut pause = FIRST_SEARCH;
    let mut said = false;
    loop {
        match ctx.discovery.resolve(&gvk).await {
            Ok(Some(resource)) => {
                tracing::info!(kind = %gvk, "watching custom resources");
                ctx.metrics.set_kind_available(&gvk, true);
                (pause, said) = (FIRST_SEARCH, false);
                let gone = CancellationToken::new();
                let watching = TaskTracker::new();
                let scopes = if resource.namespaced { ctx.cache.scopes() } else { vec![None] };
                for scope in scopes {
                    let api: Api<CrObject> = match &scope {
                        Some(namespace) => {
                            Api::namespaced_with(ctx.cluster.client(), namespace, &resource.api_resource())
                        }
                        None => Api::all_with(ctx.cluster.client(), &resource.api_resource()),
                    };
                    let mut sink = CrSink::new(kind, scope, &ctx, Arc::default());
                    let (gone, stop, selector) = (gone.clone(), stop.clone(), ctx.kinds[kind].kind.selector.clone());
                    let manner = ctx.watches.manner();
                    watching.spawn(async move {
                        let stopping = CancellationToken::new();
                        let watching = watch(api, selector.as_deref(), manner, &mut sink, &stopping);
                        tokio::select! {
                            _ = watching => gone.cancel(),
                            () = gone.cancelled() => {}
                            () = stop.cancelled() => {}
                        }
                    });
                }
                watching.close();
                watching.wait().await;
                if stop.is_cancelled() {
                    return;
                }
                ctx.discovery.forget(&gvk);
            }
            Ok(None) if !said => {
                tracing::warn!(kind = %gvk, "the API server does not serve this kind; waiting for its definition");
                ctx.metrics.set_kind_available(&gvk, false);
                said = true;
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(kind = %gvk, %error, "the kind cannot be looked up"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LAST_SEARCH),
        }
    }
}

/// Fetches the charts that come from elsewhere, and tries again those that cannot be used.
async fn retry_charts(ctx: Arc<Context>, stop: CancellationToken) {
    let mut pause = Duration::ZERO;
    while ctx.kinds.iter().any(|served| served.chart().is_err()) {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = RETRY_CHARTS,
        }
        for (kind, served) in ctx.kinds.iter().enumerate() {
            let changed = tokio::select! {
                () = stop.cancelled() => return,
                changed = retry_chart(Arc::clone(&ctx), kind) => changed,
            };
            if changed {
                ctx.metrics.set_chart_usable(served.gvk(), served.chart().is_ok());
                ctx.queue.add_all(ctx.cache.keys_of(kind));
            }
        }
    }
}

/// Tries a chart again where it may block: it may be a download.
async fn retry_chart(ctx: Arc<Context>, kind: usize) -> bool {
    tokio::task::spawn_blocking(move || ctx.kinds[kind].retry()).await.unwrap_or(false)
}

/// Passes that are due by the clock. A release at rest costs a look at the caches each period, and no pass.
async fn follow(ctx: Arc<Context>, stop: CancellationToken) {
    let look = |key: &ReleaseKey, seen: Option<u64>| {
        let seen = ctx.cache.is_as_recorded(key, jiff::Timestamp::now().as_second(), seen)?;
        ctx.metrics.looked(&ctx.kinds[key.kind].controller);
        Some(seen)
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = ctx.queue.follow(look) => {}
    }
}

/// A worker: takes a key, makes a pass, puts the key back.
async fn work(ctx: Arc<Context>) {
    while let Some(key) = ctx.queue.next().await {
        let controller = &ctx.kinds[key.kind].controller;
        ctx.metrics.pass_started(controller);
        let started = Instant::now();
        let span = spans::pass(&ctx.kinds[key.kind].gvk().kind, &key.namespace, &key.name);
        let result = match reconcile(&key, &ctx).instrument(span).await {
            Ok(Next::Event) => {
                ctx.queue.done(&key, None);
                PassResult::Success
            }
            Ok(Next::Rest { period, due }) => {
                ctx.queue.rest(&key, period, due);
                PassResult::RequeueAfter
            }
            Ok(Next::After(after)) => {
                ctx.queue.done(&key, Some(after));
                PassResult::RequeueAfter
            }
            Err(error) => {
                ctx.metrics.failed(controller, error.reason());
                ctx.queue.failed(&key);
                PassResult::Error
            }
        };
        ctx.metrics.pass_ended(controller, result, started.elapsed());
    }
}

/// How many custom resources are in each state, by their own conditions.
fn states(cache: &Cache, controllers: &[String]) -> Vec<(State, i64)> {
    let mut counts: BTreeMap<State, i64> = BTreeMap::new();
    for controller in controllers {
        counts.extend(STATES.map(|state| (State { controller: controller.clone(), state }, 0)));
    }
    for (key, cr) in cache.crs() {
        let status = cr.status();
        let conditions = status.get("conditions").and_then(|c| c.as_array()).map_or(&[][..], Vec::as_slice);
        let is = |name: &str| conditions.iter().any(|c| c["type"] == name && c["status"] == "True");
        let state = match () {
            () if cr.deleting => "uninstalling",
            () if is("Stalled") => "stalled",
            () if is("Ready") => "ready",
            () => "progressing",
        };
        *counts.entry(State { controller: controllers[key.kind].clone(), state }).or_default() += 1;
    }
    counts.into_iter().collect()
}

fn created_at(cache: &Cache, gvks: &[Gvk]) -> Vec<(CreatedAt, i64)> {
    let label = |(key, created): (crate::cluster::cache::ReleaseKey, i64)| {
        let gvk = &gvks[key.kind];
        let labels = CreatedAt {
            group: gvk.group.to_string(),
            version: gvk.version.to_string(),
            kind: gvk.kind.to_string(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
        };
        (labels, created)
    };
    cache.created_at().into_iter().map(label).collect()
}

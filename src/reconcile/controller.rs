//! Runs what surrounds the passes: the watches of custom resources and release records, the workers, start and stop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube::{Api, Config};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::charts::Served;
use super::context::Context;
use super::definitions::{self, Definitions};
use super::error::Error;
use super::journal::{self, Begun, Journal};
use super::kinds::Kinds;
use super::memory::Memory;
use super::memory::sights::Sights;
use super::notices::{self, Notices};
use super::panics::caught;
use super::pass::reconcile;
use super::queue::{Queue, Stuck};
use super::renderer::Renderer;
use super::report;
use super::report::next::Next;
use super::rollouts;
use super::scope::Scope;
use super::shared::Shared;
use super::tasks::Tasks;
use super::watch::Watching;
use super::watch::objects::{FIRST_SEARCH, LAST_SEARCH};
use super::watch::sinks::{CrSink, HistorySink};
use super::watch::unneeded::end_unneeded;
use crate::cluster::cache::{Cache, ReleaseKey, Releases};
use crate::cluster::client::Cluster;
use crate::cluster::cr::CrObject;
use crate::cluster::discovery::Discovery;
use crate::cluster::error::ApiError;
use crate::cluster::events::Events;
use crate::cluster::watch::{End, watch};
use crate::harm;
use crate::kind::Kind;
use crate::members::drivers::Drivers;
use crate::members::progress::is_asleep;
use crate::object::conditions::Conditions;
use crate::release::secret::SELECTOR;
use crate::telemetry::collect::{DatabaseSight, ReleaseState, ResourceLabels, STATES};
use crate::telemetry::metrics::{Metrics, PassResult};
use crate::telemetry::spans;

/// How long running passes may take to end after the operator received the signal to stop.
const GRACE: Duration = Duration::from_secs(20);

/// The pause between two attempts to load a chart that could not be loaded.
const RETRY_CHARTS: Duration = Duration::from_secs(15);

/// The first minor version of Kubernetes whose API servers stream lists by default.
const STREAMING_SINCE: u32 = 34;

/// The settings of the operator.
pub struct ControllerSettings {
    /// The kinds that it serves.
    pub kinds: Vec<Kind>,
    /// The namespaces that it watches; empty means all.
    pub namespaces: Vec<String>,
    /// Selects the custom resources that this operator manages.
    pub scope: Scope,
    /// How many passes may run at the same time.
    pub workers: usize,
    /// How often the operator compares a release with the caches when nothing happens.
    pub period: Duration,
    /// The reporter's name in events.
    pub reporter: String,
    /// Whether events hide overridden values.
    pub hide_overrides: bool,
    /// Whether the status shows the deployed manifest.
    pub show_manifest: bool,
    /// Drivers of members that the program registers.
    pub drivers: Drivers,
    /// The operator's own namespace, in which the charts of roll-outs are kept.
    pub home: String,
    /// Which definitions of charts are carried out.
    pub definitions: Option<definitions::DefinitionSettings>,
    /// How notices are carried out, if they are.
    pub notices: Option<notices::NoticeSettings>,
    /// The operator's current work, for the next process.
    pub journal: Journal,
}

/// The operator, ready to run.
pub struct Controller {
    ctx: Arc<Context>,
    workers: usize,
    tasks: Tasks,
    stop: CancellationToken,
    history_synced: Arc<Notify>,
    definitions: Option<definitions::DefinitionSettings>,
    notices: Option<notices::NoticeSettings>,
    home: String,
}

impl Controller {
    /// Loads the charts. Sends no request to the cluster yet.
    pub fn new(
        settings: ControllerSettings,
        config: Config,
        metrics: &Arc<Metrics>,
        tasks: &Tasks,
    ) -> Result<Self, kube::Error> {
        let cluster = Cluster::new(config, metrics)?;
        let (tasks, stop) = (tasks.clone(), tasks.stop().clone());
        let namespaces = settings.namespaces.iter().map(|n| n.as_str().into()).collect();
        let queue = Arc::new(Queue::new(Arc::clone(metrics)));
        let work = Arc::clone(&queue);
        let (events, sending) =
            Events::new(cluster.clone(), settings.reporter, Arc::clone(metrics), move || work.is_busy());
        tasks.base("sender of events", sending);
        let (cache, kinds) = (Cache::new(namespaces), Arc::<Kinds>::default());
        for kind in settings.kinds {
            cache.add_kind(&kind.gvk, Releases::of(&kind));
            kinds.add(Served::new(kind));
        }
        for served in kinds.all() {
            metrics.set_workers(&served.controller, settings.workers);
            metrics.set_chart_usable(served.gvk(), served.chart().is_ok());
            if let Err(error) = served.chart()
                && !served.is_remote()
            {
                tracing::error!(kind = %served.gvk(), %error, "chart unusable");
            }
        }
        let shared = Arc::new(Shared {
            discovery: Arc::new(Discovery::new(cluster.clone())),
            cache: Arc::new(cache),
            sources: Arc::default(),
            kinds,
            scope: settings.scope,
            queue,
            waits: Arc::default(),
            touched: Arc::default(),
            undelivered: Arc::default(),
            rollouts: Arc::default(),
            metrics: Arc::clone(metrics),
            tasks: tasks.clone(),
            streaming: AtomicBool::new(false),
            back: cluster.back(),
            cluster,
        });
        let ctx = Arc::new(Context {
            watching: Arc::new(Watching::new(&shared)),
            memory: Memory::default(),
            renderer: Renderer::default(),
            events,
            journal: settings.journal,
            drivers: settings.drivers,
            period: settings.period,
            hide_overrides: settings.hide_overrides,
            show_manifest: settings.show_manifest,
            shared,
        });
        let (cache, kinds) = (Arc::clone(&ctx.cache), Arc::clone(&ctx.kinds));
        metrics.register_created_at(move || created_at(&cache, &kinds));
        let (cache, kinds) = (Arc::clone(&ctx.cache), Arc::clone(&ctx.kinds));
        metrics.register_restores(move || restores(&cache, &kinds));
        let (cache, kinds) = (Arc::clone(&ctx.cache), Arc::clone(&ctx.kinds));
        metrics.register_states(move || states(&cache, &kinds));
        let (sights, kinds) = (Arc::clone(&ctx.memory.sights), Arc::clone(&ctx.kinds));
        metrics.register_databases(move || databases(&sights, &kinds));
        let queue = Arc::clone(&ctx.queue);
        metrics.register_queue(move || queue.age());
        register_health(&ctx, &tasks);
        let watching = Arc::downgrade(&ctx.watching);
        metrics.register_watches(move || watching.upgrade().map_or(0, |watching| watching.count()));
        let ControllerSettings { workers, definitions, notices, home, .. } = settings;
        let history_synced = Arc::default();
        Ok(Self { ctx, workers: workers.max(1), tasks, stop, history_synced, definitions, notices, home })
    }

    /// The cluster; the caller needs it for a lease.
    pub fn cluster(&self) -> Cluster {
        self.ctx.cluster.clone()
    }

    /// Runs until the stop signal, then waits for the running passes to end.
    pub async fn run(self) {
        if !self.discover().await {
            return;
        }
        self.watch();
        let Self { tasks, stop, .. } = &self;
        if let Some(settings) = &self.definitions {
            let definitions = Definitions::new(Arc::clone(&self.ctx), settings.clone());
            tasks.base("definitions of charts", definitions.run());
        }
        if let Some(settings) = &self.notices {
            tasks.base("notices", Notices::new(Arc::clone(&self.ctx), settings).run());
        } else {
            self.ctx.undelivered.know();
        }
        let synced = Arc::clone(&self.history_synced);
        tasks.spawn("kinds in use", watch_kinds_in_use(Arc::clone(&self.ctx), synced, stop.clone()));
        tasks.base("roll-outs", rollouts::run(Arc::clone(&self.ctx), self.home.clone()));
        tasks.spawn("charts", retry_charts(Arc::clone(&self.ctx), stop.clone()));
        tasks.base("served kinds", follow_served(Arc::clone(&self.ctx), stop.clone()));
        tasks.base("end of watches", end_unneeded(Arc::clone(&self.ctx.shared), Arc::clone(&self.ctx.watching)));
        tasks.base("clock", follow(Arc::clone(&self.ctx), stop.clone()));
        let workers = TaskTracker::new();
        for _ in 0..self.workers {
            workers.spawn(tasks.guarded("worker".into(), false, work(Arc::clone(&self.ctx))));
        }
        workers.close();
        self.stop.cancelled().await;
        tracing::info!("stopping");
        self.ctx.queue.close();
        if tokio::time::timeout(GRACE, workers.wait()).await.is_err() {
            tracing::warn!("passes were still running after {} seconds", GRACE.as_secs());
        }
        let Self { ctx, tasks, .. } = self;
        // The sender task sends the last events after the last sending handle is dropped.
        drop(ctx);
        let _ = tokio::time::timeout(Duration::from_secs(2), tasks.ended()).await;
    }

    /// The state that passes use.
    pub(super) fn context(&self) -> &Arc<Context> {
        &self.ctx
    }

    /// Starts the watches of records and of custom resources.
    pub(super) fn watch(&self) {
        for (kind, served) in self.ctx.kinds.all().into_iter().enumerate() {
            if let Some(resource) = self.ctx.discovery.cached(served.gvk()) {
                self.ctx.cache.set_scope(kind, resource.namespaced);
            }
        }
        self.watch_history();
        let Self { tasks, stop, .. } = self;
        for (kind, served) in self.ctx.kinds.all().into_iter().enumerate() {
            let task = serve_kind(Arc::clone(&self.ctx), kind, tasks.clone(), stop.clone(), || ());
            tasks.base(format!("custom resources of {}", served.gvk()), task);
        }
    }

    /// Asks once for the served kinds and the version.
    pub(super) async fn discover_once(&self) -> Result<(), ApiError> {
        self.ctx.discovery.refresh().await
    }

    /// Asks for the served kinds and the version until the API server answers. Returns `false` if the stop signal came
    /// first.
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
        self.ctx.streaming.store(minor.is_some_and(|m| m >= STREAMING_SINCE), Ordering::Relaxed);
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
            let (stop, manner) = (self.stop.clone(), self.ctx.manner());
            self.tasks.base("watch of release records", async move {
                // Every API server serves Secrets. A 404 can only come from a proxy.
                while watch(api.clone(), Some(SELECTOR), manner.clone(), &mut sink, &stop).await == End::Gone {
                    tokio::time::sleep(LAST_SEARCH).await;
                }
            });
        }
    }
}

/// Waits until the release records are known, then watches the kinds of all objects that releases list. No pass has to
/// start these watches.
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
        ctx.watching.objects.ensure_key(watch);
    }
    for kind in 0..ctx.kinds.count() {
        ctx.queue.add_all(ctx.cache.keys_of(kind));
    }
    ctx.metrics.set_synced();
}

/// Watches the custom resources of a kind while the API server serves the kind, and waits while it does not.
/// Reports each time that the API server stops serving it.
pub async fn serve_kind(
    ctx: Arc<Context>,
    kind: usize,
    tasks: Tasks,
    stop: CancellationToken,
    unserved: impl Fn() + Send,
) {
    let gvk = ctx.kinds.get(kind).gvk().clone();
    let mut pause = FIRST_SEARCH;
    let mut said = false;
    loop {
        match ctx.discovery.resolve(&gvk).await {
            Ok(Some(resource)) => {
                tracing::info!(kind = %gvk, "watching custom resources");
                ctx.metrics.set_kind_available(&gvk, true);
                ctx.cache.set_scope(kind, resource.namespaced);
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
                    let (gone, stop, selector) =
                        (gone.clone(), stop.clone(), ctx.kinds.get(kind).kind.selector.clone());
                    let manner = ctx.manner();
                    tasks.spawn_in(&watching, format!("watch of {gvk}"), async move {
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
                unserved();
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

/// Fetches remote charts, and retries charts that cannot be used.
async fn retry_charts(ctx: Arc<Context>, stop: CancellationToken) {
    let mut pause = Duration::ZERO;
    while ctx.kinds.all().iter().any(|served| served.chart().is_err()) {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = RETRY_CHARTS,
        }
        for (kind, served) in ctx.kinds.all().into_iter().enumerate() {
            let changed = tokio::select! {
                () = stop.cancelled() => return,
                changed = retry_chart(Arc::clone(&ctx), kind) => changed,
            };
            if changed {
                ctx.metrics.set_chart_usable(served.gvk(), served.chart().is_ok());
                ctx.queue.add_all(ctx.cache.keys_of(kind));
                ctx.rollouts.notify_one();
            }
        }
    }
}

/// Loads a chart again on a thread that may block, since this can download the chart.
async fn retry_chart(ctx: Arc<Context>, kind: usize) -> bool {
    tokio::task::spawn_blocking(move || ctx.kinds.get(kind).retry()).await.unwrap_or(false)
}

/// Starts the passes that are due by the clock. A release at rest costs one look at the caches per period, and no pass.
async fn follow(ctx: Arc<Context>, stop: CancellationToken) {
    let look = |key: &ReleaseKey, seen: Option<u64>| {
        let seen = ctx.cache.is_as_recorded(key, jiff::Timestamp::now().as_second(), seen)?;
        ctx.metrics.looked(&ctx.kinds.get(key.kind).controller);
        Some(seen)
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = ctx.queue.follow(look) => {}
    }
}

/// Asks once a period what the API server serves, if a chart reads that: no watch shows that somebody installed an API.
async fn follow_served(ctx: Arc<Context>, stop: CancellationToken) {
    let mut known = ctx.discovery.info();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(ctx.own_period()) => {}
        }
        let kinds = ctx.kinds.all().into_iter().enumerate();
        let readers: Vec<_> =
            kinds.filter(|(_, served)| served.chart().is_ok_and(|c| c.reads_kinds())).map(|(kind, _)| kind).collect();
        if readers.is_empty() {
            continue;
        }
        if let Err(error) = ctx.discovery.refresh().await {
            tracing::warn!(%error, "the served kinds are not known");
            continue;
        }
        let now = ctx.discovery.info();
        if now.api_versions != known.api_versions {
            for kind in readers {
                ctx.queue.add_all(ctx.cache.keys_of(kind));
            }
        }
        known = now;
    }
}

/// A worker: takes a key, runs a pass, returns the key.
async fn work(ctx: Arc<Context>) {
    while let Some(key) = ctx.queue.next().await {
        let served = ctx.kinds.get(key.kind);
        let controller = &served.controller;
        ctx.metrics.pass_started(controller);
        let started = Instant::now();
        let span = spans::pass(&served.gvk().kind, &key.namespace, &key.name);
        let begun = ctx.begin(&key);
        // The future of a pass is large, and most workers do not run one at a given time.
        let pass = Box::pin(async {
            harm::at("pass", &key.name).await;
            match begun {
                Begun::Goes(working) => journal::during(working, Box::pin(reconcile(&key, &ctx))).await,
                Begun::Waits => Ok(Next::After(journal::PAUSE)),
                Begun::SetAside => Err(Error::SetAside),
            }
        });
        let pass = ctx.queue.progress(&key).of(caught(pass).instrument(span));
        let result = match pass.await.unwrap_or_else(|place| Err(Error::Panic(place))) {
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
                if matches!(error, Error::Panic(_) | Error::SetAside) {
                    report::panic::report(&key, &error, &ctx).await;
                }
                if matches!(error, Error::SetAside) {
                    ctx.queue.done(&key, None);
                } else {
                    ctx.queue.failed(&key);
                }
                PassResult::Error
            }
        };
        ctx.metrics.pass_ended(controller, result, started.elapsed());
    }
}

/// Registers the checks of `/healthz`.
fn register_health(ctx: &Context, tasks: &Tasks) {
    let health = &ctx.metrics.health;
    let (tasks, queue) = (tasks.clone(), Arc::clone(&ctx.queue));
    health.register(move |limit| tasks.stuck(limit));
    let kinds = Arc::clone(&ctx.kinds);
    health.register(move |limit| {
        Some(match queue.stuck(limit)? {
            Stuck::Pass(ReleaseKey { kind, namespace, name }, age) => {
                let kind = Arc::clone(&kinds.get(kind).gvk().kind);
                format!("the pass over {kind} {namespace}/{name} has made no progress for {} seconds", age.as_secs())
            }
            Stuck::Workers(waiting, age) => format!(
                "{waiting} custom resources wait for a pass, and no pass has begun or ended for {} seconds",
                age.as_secs()
            ),
            Stuck::Clock(age) => format!("passes have been due for {} seconds, and do not begin", age.as_secs()),
        })
    });
}

/// Counts the custom resources in each state, as their conditions report it.
fn states(cache: &Cache, kinds: &Kinds) -> Vec<(ReleaseState, i64)> {
    let mut counts: BTreeMap<ReleaseState, i64> = BTreeMap::new();
    let kinds = kinds.all();
    for served in &kinds {
        counts.extend(STATES.map(|state| (ReleaseState { controller: served.controller.clone(), state }, 0)));
    }
    for (key, cr) in cache.crs() {
        let status = cr.status();
        let is = |name: &str| Conditions::of(&status).is_true(name);
        let state = match () {
            () if cr.deleting => "uninstalling",
            () if is("Stalled") => "stalled",
            () if is("Ready") => "ready",
            () if is_asleep(&Conditions::of(&status)) => "asleep",
            () => "progressing",
        };
        *counts.entry(ReleaseState { controller: kinds[key.kind].controller.clone(), state }).or_default() += 1;
    }
    counts.into_iter().collect()
}

fn databases(sights: &Sights, kinds: &Kinds) -> Vec<DatabaseSight> {
    let kinds = kinds.all();
    sights.all(|kind| kinds.get(kind).map_or_else(String::new, |served| served.controller.clone()))
}

fn labels(key: &ReleaseKey, kinds: &[Arc<Served>]) -> ResourceLabels {
    let gvk = kinds[key.kind].gvk();
    ResourceLabels {
        group: gvk.group.to_string(),
        version: gvk.version.to_string(),
        kind: gvk.kind.to_string(),
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
    }
}

fn created_at(cache: &Cache, kinds: &Kinds) -> Vec<(ResourceLabels, i64)> {
    let kinds = kinds.all();
    cache.created_at().into_iter().map(|(key, created)| (labels(&key, &kinds), created)).collect()
}

/// Whether the last drill of each custom resource restored its backup, where one has ended.
fn restores(cache: &Cache, kinds: &Kinds) -> Vec<(ResourceLabels, i64)> {
    let kinds = kinds.all();
    let crs = cache.crs();
    let proven = crs.iter().filter_map(|(key, cr)| {
        let status = cr.status();
        let proven = Conditions::of(&status).get("RestoreProven")?.is_true();
        Some((labels(key, &kinds), i64::from(proven)))
    });
    proven.collect()
}

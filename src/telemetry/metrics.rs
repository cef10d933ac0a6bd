//! The metrics, under the names that dashboards for controller-runtime and helm-operator use.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::collect::{DatabaseMember, DatabaseSight, MemberLabels, Process, Read, ReleaseState, ResourceLabels};
use super::health::Health;

/// How long the API server may be down before the operator reports that it is not ready.
const OUTAGE: Duration = Duration::from_secs(20);

/// Labels of a controller; one controller per kind, named as controller-runtime names them: `web-controller`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ControllerLabels {
    controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    controller: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    controller: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoticeLabels {
    target: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: &'static str,
}

/// The ages of the keys in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueAge {
    /// The age of the custom resource that has waited longest for a pass.
    pub oldest: Duration,
    /// The ages of all running passes, added up.
    pub unfinished: Duration,
    /// The age of the pass that has run longest.
    pub longest: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    code: String,
    host: String,
    method: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    verb: &'static str,
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PassLabels {
    controller: String,
    verb: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NameLabels {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    group: String,
    version: String,
    kind: String,
}

/// The result of a pass, in controller-runtime's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassResult {
    /// The pass succeeded.
    Success,
    /// The pass failed and will be retried.
    Error,
    /// The custom resource will be observed again after some time.
    RequeueAfter,
}

/// All metrics, and their data about the API server.
pub struct Metrics {
    /// Whether the operator makes progress.
    pub health: Health,
    registry: RwLock<Registry>,
    requests: Family<RequestLabels, Counter>,
    passes: Family<ResultLabels, Counter>,
    errors: Family<ControllerLabels, Counter>,
    failures: Family<ReasonLabels, Counter>,
    pass_time: Family<ControllerLabels, Histogram>,
    active: Family<ControllerLabels, Gauge>,
    workers: Family<ControllerLabels, Gauge>,
    depth: Family<QueueLabels, Gauge>,
    adds: Family<QueueLabels, Counter>,
    retries: Family<QueueLabels, Counter>,
    queue_time: Family<QueueLabels, Histogram>,
    work_time: Family<QueueLabels, Histogram>,
    verbs: Family<VerbLabels, Counter>,
    sent: AtomicU64,
    outcomes: Family<PassLabels, Counter>,
    repairs: Family<ControllerLabels, Counter>,
    events_left_out: Counter,
    notices: Family<NoticeLabels, Counter>,
    leader: Family<NameLabels, Gauge>,
    available: Family<KindLabels, Gauge>,
    chart_usable: Family<KindLabels, Gauge>,
    away_since: Mutex<Option<Instant>>,
    synced: AtomicBool,
    standby: AtomicBool,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

const QUEUE: QueueLabels = QueueLabels { name: "tillerman" };

impl Metrics {
    /// Creates the metrics with all values at zero.
    pub fn new() -> Self {
        // A part of controller-runtime's buckets.
        let buckets = || Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0]);
        let metrics = Self {
            health: Health::default(),
            registry: RwLock::default(),
            requests: Family::default(),
            passes: Family::default(),
            errors: Family::default(),
            failures: Family::default(),
            pass_time: Family::new_with_constructor(buckets),
            active: Family::default(),
            workers: Family::default(),
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            queue_time: Family::new_with_constructor(buckets),
            work_time: Family::new_with_constructor(buckets),
            verbs: Family::default(),
            sent: AtomicU64::new(0),
            outcomes: Family::default(),
            repairs: Family::default(),
            events_left_out: Counter::default(),
            notices: Family::default(),
            leader: Family::default(),
            available: Family::default(),
            chart_usable: Family::default(),
            away_since: Mutex::default(),
            synced: AtomicBool::new(false),
            standby: AtomicBool::new(false),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let r = &mut *registry;
        r.register("rest_client_requests", "Requests to the API server", self.requests.clone());
        r.register("controller_runtime_reconcile", "Passes per controller and result", self.passes.clone());
        r.register("controller_runtime_reconcile_errors", "Passes that failed", self.errors.clone());
        r.register_with_unit(
            "controller_runtime_reconcile_time",
            "Time that a pass took",
            Unit::Seconds,
            self.pass_time.clone(),
        );
        r.register("controller_runtime_active_workers", "Passes that run now", self.active.clone());
        r.register("controller_runtime_max_concurrent_reconciles", "Passes that can run at once", self.workers.clone());
        r.register("workqueue_depth", "Custom resources that wait for a pass", self.depth.clone());
        r.register("workqueue_adds", "Custom resources put into the queue", self.adds.clone());
        r.register("workqueue_retries", "Passes to be repeated after a failure", self.retries.clone());
        let (help, unit) = ("Time that a custom resource waited for a pass", Unit::Seconds);
        r.register_with_unit("workqueue_queue_duration", help, unit, self.queue_time.clone());
        let (help, unit) = ("Time that a pass took", Unit::Seconds);
        r.register_with_unit("workqueue_work_duration", help, unit, self.work_time.clone());
        r.register("leader_election_master_status", "1 if this instance leads", self.leader.clone());
        r.register("tillerman_api_requests", "Requests by Kubernetes' verb", self.verbs.clone());
        r.register("tillerman_passes", "Passes by purpose and result", self.outcomes.clone());
        r.register("tillerman_drift_repairs", "Objects restored to the state in their release", self.repairs.clone());
        r.register(
            "tillerman_events_left_out",
            "Events not written: there were too many",
            self.events_left_out.clone(),
        );
        r.register("tillerman_notices", "Attempts to send messages of notices", self.notices.clone());
        r.register_collector(Box::new(Process));
        r.register("tillerman_failures", "Failures by reason", self.failures.clone());
        r.register("tillerman_kind_available", "Whether the API server serves the kind", self.available.clone());
        r.register("tillerman_chart_usable", "Whether the kind's chart could be loaded", self.chart_usable.clone());
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let commit = option_env!("TILLERMAN_COMMIT").unwrap_or("unknown").to_owned();
        let info = Info::new(vec![("commit".to_owned(), commit), ("version".to_owned(), version)]);
        r.register("helm_operator_build", "Build of the operator", info);
    }

    /// Adds `resource_created_at_seconds`, which is computed when it is requested.
    pub fn register_created_at<F>(&self, source: F)
    where
        F: Fn() -> Vec<(ResourceLabels, i64)> + Send + Sync + 'static,
    {
        let help = "Timestamp at which a custom resource was created";
        let collector = Read::new("resource_created_at_seconds", help, source);
        self.registry.write().unwrap_or_else(PoisonError::into_inner).register_collector(collector);
    }

    /// Adds `tillerman_releases`, which is computed when it is requested.
    pub fn register_states<F>(&self, source: F)
    where
        F: Fn() -> Vec<(ReleaseState, i64)> + Send + Sync + 'static,
    {
        let collector = Read::new("tillerman_releases", "Releases by state", source);
        self.registry.write().unwrap_or_else(PoisonError::into_inner).register_collector(collector);
    }

    /// Adds `tillerman_watches`, which is computed when it is requested.
    pub fn register_watches(&self, source: impl Fn() -> usize + Send + Sync + 'static) {
        let count = move || vec![(QUEUE, i64::try_from(source()).unwrap_or(i64::MAX))];
        let collector =
            Read::new("tillerman_watches", "Watches of objects of releases, and of the sources of releases", count);
        self.registry.write().unwrap_or_else(PoisonError::into_inner).register_collector(collector);
    }

    /// Adds `tillerman_notices_waiting`, which is computed when it is requested.
    pub fn register_notices(&self, source: impl Fn() -> u64 + Send + Sync + 'static) {
        let count = move || vec![(QUEUE, i64::try_from(source()).unwrap_or(i64::MAX))];
        let collector =
            Read::new("tillerman_notices_waiting", "Messages of notices that their targets did not accept yet", count);
        self.registry.write().unwrap_or_else(PoisonError::into_inner).register_collector(collector);
    }

    /// Counts an attempt to send a message of a notice.
    pub fn notice_sent(&self, target: &'static str, taken: bool) {
        let result = if taken { "sent" } else { "failed" };
        self.notices.get_or_create(&NoticeLabels { target, result }).inc();
    }

    /// Adds `tillerman_restore_proven`, which is computed when it is requested.
    pub fn register_restores<F>(&self, source: F)
    where
        F: Fn() -> Vec<(ResourceLabels, i64)> + Send + Sync + 'static,
    {
        let help = "Whether the last drill of a custom resource restored its newest backup, if a drill has ended";
        let collector = Read::new("tillerman_restore_proven", help, source);
        self.registry.write().unwrap_or_else(PoisonError::into_inner).register_collector(collector);
    }

    /// Adds the metrics of databases with a primary, which are computed when they are requested.
    pub fn register_databases<F>(&self, source: F)
    where
        F: Fn() -> Vec<DatabaseSight> + Clone + Send + Sync + 'static,
    {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let mut of_all = |name, help, value: fn(&DatabaseSight) -> Option<i64>| {
            let source = source.clone();
            let values = move || source().iter().filter_map(|seen| Some((seen.labels.clone(), value(seen)?))).collect();
            registry.register_collector(Read::new(name, help, values));
        };
        let help = "Whether another member of a database can take over without a loss, if there is more than one";
        of_all("tillerman_primary_safe_to_fail_over", help, |seen| seen.safe.map(i64::from));
        let help = "Whether the primary takes writes, and enough members acknowledge them";
        of_all("tillerman_primary_takes_writes", help, |seen| Some(i64::from(seen.takes_writes)));
        let help = "Timestamp of the last fail-over or switch-over";
        of_all("tillerman_primary_last_change_seconds", help, |seen| seen.last_change);
        let help = "Whether the agent of a member answers";
        let up = of_members(&source, |member| Some(i64::from(member.answers)));
        registry.register_collector(Read::new("tillerman_member_up", help, up));
        let help = "How far a replica lags behind the primary";
        registry.register_collector(Read::new("tillerman_member_lag_seconds", help, of_members(&source, |m| m.lag)));
        let help = "Commits on a primary that wait for the acknowledgement of a replica";
        let waiting = of_members(&source, |member| member.waiting.map(i64::from));
        registry.register_collector(Read::new("tillerman_member_waiting_commits", help, waiting));
        let help = "The size of the volume of a member";
        let size = of_members(&source, |member| member.volume.map(|volume| volume.capacity.cast_signed()));
        registry.register_collector(Read::new("tillerman_member_volume_bytes", help, size));
        let help = "The bytes of the volume of a member that are used";
        let used = of_members(&source, |member| member.volume.map(|volume| volume.used.cast_signed()));
        registry.register_collector(Read::new("tillerman_member_volume_used_bytes", help, used));
    }

    /// Adds the ages of the queue, which are computed when they are requested: client-go's two, and how long the first
    /// key has waited.
    pub fn register_queue<F>(&self, source: F)
    where
        F: Fn() -> QueueAge + Clone + Send + Sync + 'static,
    {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let mut register = |name, help, of: fn(QueueAge) -> Duration| {
            let source = source.clone();
            registry.register_collector(Read::new(name, help, move || vec![(QUEUE, of(source()).as_secs_f64())]));
        };
        register("workqueue_unfinished_work_seconds", "Time of all passes that run, added up", |age| age.unfinished);
        register("workqueue_longest_running_processor_seconds", "Time of the pass that runs longest", |age| {
            age.longest
        });
        register("tillerman_queue_oldest_seconds", "Time that the first in the queue has waited", |age| age.oldest);
    }

    /// The metrics in the text format of Prometheus.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner);
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("writing to a string does not fail");
        text
    }

    /// How many requests were sent to the API server.
    pub fn requests_sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Counts a request; `code` is `None` if there was no answer.
    pub fn request(&self, code: Option<u16>, host: &str, method: &str, verb: &'static str) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let text = code.map_or_else(|| "<error>".to_owned(), |c| c.to_string());
        self.verbs.get_or_create(&VerbLabels { verb, code: text.clone() }).inc();
        let labels = RequestLabels { code: text, host: host.to_owned(), method: method.to_owned() };
        self.requests.get_or_create(&labels).inc();
        let away = code.is_none_or(|c| c == 429 || c >= 500);
        let mut since = self.away_since.lock().unwrap_or_else(PoisonError::into_inner);
        if away {
            since.get_or_insert_with(Instant::now);
        } else {
            *since = None;
        }
    }

    /// The caches are complete for the first time.
    pub fn set_synced(&self) {
        self.synced.store(true, Ordering::Release);
    }

    /// Sets whether another instance leads. An instance that waits for the lease is ready: if it were not, a rollout of
    /// a new version, which waits for the new pod before it stops the old one, would never end.
    pub fn set_standby(&self, standby: bool) {
        self.standby.store(standby, Ordering::Release);
    }

    /// Why the operator is not ready.
    pub fn unready(&self) -> Option<String> {
        let since = *self.away_since.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = since.filter(|s| s.elapsed() > OUTAGE) {
            return Some(format!("the API server has been away for {} seconds", since.elapsed().as_secs()));
        }
        if self.standby.load(Ordering::Acquire) {
            return None;
        }
        (!self.synced.load(Ordering::Acquire)).then(|| "the caches are not complete yet".to_owned())
    }

    /// Counts a pass that begins.
    pub fn pass_started(&self, controller: &str) {
        self.active.get_or_create(&ControllerLabels { controller: controller.to_owned() }).inc();
    }

    /// Counts a pass that ended.
    pub fn pass_ended(&self, controller: &str, result: PassResult, took: Duration) {
        let labels = ControllerLabels { controller: controller.to_owned() };
        self.active.get_or_create(&labels).dec();
        self.pass_time.get_or_create(&labels).observe(took.as_secs_f64());
        self.work_time.get_or_create(&QUEUE).observe(took.as_secs_f64());
        if result == PassResult::Error {
            self.errors.get_or_create(&labels).inc();
        }
        let result = match result {
            PassResult::Success => "success",
            PassResult::Error => "error",
            PassResult::RequeueAfter => "requeue_after",
        };
        self.passes.get_or_create(&ResultLabels { controller: controller.to_owned(), result }).inc();
    }

    /// Counts a check of a release at rest that found no change. Where helm-operator runs a pass, this counts as one.
    pub fn looked(&self, controller: &str) {
        let labels = ResultLabels { controller: controller.to_owned(), result: "requeue_after" };
        self.passes.get_or_create(&labels).inc();
    }

    /// Counts a pass by its purpose and its outcome: `success`, or the reason of its failure.
    pub fn outcome(&self, controller: &str, verb: &str, outcome: &'static str) {
        let labels = PassLabels { controller: controller.to_owned(), verb: verb.to_lowercase(), outcome };
        self.outcomes.get_or_create(&labels).inc();
    }

    /// Counts objects that a repair restored.
    pub fn repaired(&self, controller: &str, objects: usize) {
        let labels = ControllerLabels { controller: controller.to_owned() };
        self.repairs.get_or_create(&labels).inc_by(objects as u64);
    }

    /// Counts an event that was not written.
    pub fn event_left_out(&self) {
        self.events_left_out.inc();
    }

    /// Sets whether this instance holds a lease.
    pub fn set_leader(&self, lease: &str, leads: bool) {
        self.leader.get_or_create(&NameLabels { name: lease.to_owned() }).set(i64::from(leads));
    }

    /// Records how long a custom resource waited for its pass.
    pub fn waited(&self, time: Duration) {
        self.queue_time.get_or_create(&QUEUE).observe(time.as_secs_f64());
    }

    /// Counts a failure by its reason.
    pub fn failed(&self, controller: &str, reason: &'static str) {
        self.failures.get_or_create(&ReasonLabels { controller: controller.to_owned(), reason }).inc();
    }

    /// Sets how many passes may run at the same time.
    pub fn set_workers(&self, controller: &str, workers: usize) {
        let labels = ControllerLabels { controller: controller.to_owned() };
        self.workers.get_or_create(&labels).set(i64::try_from(workers).unwrap_or(i64::MAX));
    }

    /// Records a change of the queue.
    pub fn queue(&self, depth: usize, added: bool, retried: bool) {
        self.depth.get_or_create(&QUEUE).set(i64::try_from(depth).unwrap_or(i64::MAX));
        if added {
            self.adds.get_or_create(&QUEUE).inc();
        }
        if retried {
            self.retries.get_or_create(&QUEUE).inc();
        }
    }

    /// Sets whether the API server serves a kind.
    pub fn set_kind_available(&self, gvk: &crate::object::Gvk, available: bool) {
        self.available.get_or_create(&kind_labels(gvk)).set(i64::from(available));
    }

    /// Sets whether a kind's chart can be used.
    pub fn set_chart_usable(&self, gvk: &crate::object::Gvk, usable: bool) {
        self.chart_usable.get_or_create(&kind_labels(gvk)).set(i64::from(usable));
    }
}

fn kind_labels(gvk: &crate::object::Gvk) -> KindLabels {
    KindLabels { group: gvk.group.to_string(), version: gvk.version.to_string(), kind: gvk.kind.to_string() }
}

/// Reads a value of each member of the databases that has it.
fn of_members<F, V: 'static>(
    source: &F,
    value: fn(&DatabaseMember) -> Option<V>,
) -> impl Fn() -> Vec<(MemberLabels, V)> + Send + Sync + 'static
where
    F: Fn() -> Vec<DatabaseSight> + Clone + Send + Sync + 'static,
{
    let source = source.clone();
    move || {
        let all = source().into_iter().flat_map(|seen| seen.members);
        all.filter_map(|member| Some((member.labels.clone(), value(&member)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Metrics, PassResult, ResourceLabels};
    use std::time::Duration;

    #[test]
    fn the_names_are_those_that_dashboards_use() {
        let metrics = Metrics::new();
        metrics.request(Some(200), "host", "GET", "list");
        metrics.pass_started("web-controller");
        metrics.pass_ended("web-controller", PassResult::Success, Duration::from_millis(3));
        metrics.pass_started("web-controller");
        metrics.pass_ended("web-controller", PassResult::Error, Duration::from_millis(3));
        metrics.queue(3, true, false);
        metrics.register_created_at(|| {
            let text = |s: &str| s.to_owned();
            let labels = ResourceLabels {
                group: text("g"),
                version: text("v"),
                kind: text("K"),
                namespace: text("n"),
                name: text("a"),
            };
            vec![(labels, 1_700_000_000)]
        });
        let text = metrics.encode();
        for line in [
            "rest_client_requests_total{code=\"200\",host=\"host\",method=\"GET\"} 1",
            "controller_runtime_reconcile_total{controller=\"web-controller\",result=\"success\"} 1",
            "controller_runtime_reconcile_errors_total{controller=\"web-controller\"} 1",
            "controller_runtime_reconcile_time_seconds_count{controller=\"web-controller\"} 2",
            "controller_runtime_active_workers{controller=\"web-controller\"} 0",
            "workqueue_depth{name=\"tillerman\"} 3",
            "workqueue_work_duration_seconds_count{name=\"tillerman\"} 2",
            "tillerman_api_requests_total{verb=\"list\",code=\"200\"} 1",
            "process_cpu_seconds_total ",
            "process_resident_memory_bytes ",
            "resource_created_at_seconds{group=\"g\",version=\"v\",kind=\"K\",namespace=\"n\",name=\"a\"} 1700000000",
            "helm_operator_build_info{commit=",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn an_instance_that_waits_for_its_turn_is_ready() {
        let metrics = Metrics::new();
        metrics.set_standby(true);
        assert_eq!(metrics.unready(), None);
        metrics.set_standby(false);
        assert!(metrics.unready().is_some());
    }

    #[test]
    fn the_operator_is_not_ready_before_its_caches_are() {
        let metrics = Metrics::new();
        assert!(metrics.unready().is_some());
        metrics.set_synced();
        metrics.request(None, "host", "GET", "list");
        assert_eq!(metrics.unready(), None);
    }
}

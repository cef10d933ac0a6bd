//! The metrics, under the names that dashboards for controller-runtime and helm-operator use.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

/// The API server may be away for so long before the operator says that it is not ready.
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
struct QueueLabels {
    name: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    code: String,
    host: String,
    method: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    group: String,
    version: String,
    kind: String,
}

/// A custom resource for `resource_created_at_seconds`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[expect(missing_docs, reason = "the labels are helm-operator's")]
pub struct CreatedAt {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// How a pass ended, in controller-runtime's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassResult {
    /// Done.
    Success,
    /// It failed and is tried again.
    Error,
    /// It is looked at again at a time.
    RequeueAfter,
}

/// All metrics, and with them what they tell about the API server.
pub struct Metrics {
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
    available: Family<KindLabels, Gauge>,
    chart_usable: Family<KindLabels, Gauge>,
    away_since: Mutex<Option<Instant>>,
    synced: std::sync::atomic::AtomicBool,
    standby: std::sync::atomic::AtomicBool,
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
    /// All at zero.
    pub fn new() -> Self {
        // controller-runtime's buckets, thinned.
        let buckets = || Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0]);
        let metrics = Self {
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
            available: Family::default(),
            chart_usable: Family::default(),
            away_since: Mutex::default(),
            synced: std::sync::atomic::AtomicBool::new(false),
            standby: std::sync::atomic::AtomicBool::new(false),
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
        r.register("controller_runtime_max_concurrent_reconciles", "Passes that may run at once", self.workers.clone());
        r.register("workqueue_depth", "Custom resources that wait for a pass", self.depth.clone());
        r.register("workqueue_adds", "Custom resources put into the queue", self.adds.clone());
        r.register("workqueue_retries", "Passes to be repeated after a failure", self.retries.clone());
        r.register("tillerman_failures", "Failures by reason", self.failures.clone());
        r.register("tillerman_kind_available", "Whether the API server serves the kind", self.available.clone());
        r.register("tillerman_chart_usable", "Whether the kind's chart could be loaded", self.chart_usable.clone());
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let commit = option_env!("TILLERMAN_COMMIT").unwrap_or("unknown").to_owned();
        let info = Info::new(vec![("commit".to_owned(), commit), ("version".to_owned(), version)]);
        r.register("helm_operator_build", "Build of the operator", info);
    }

    /// Adds `resource_created_at_seconds`, read when it is asked for.
    pub fn register_created_at<F>(&self, source: F)
    where
        F: Fn() -> Vec<(CreatedAt, i64)> + Send + Sync + 'static,
    {
        let collector = Box::new(CreatedAtCollector(Arc::new(source)));
        self.registry.write().unwrap_or_else(PoisonError::into_inner).register_collector(collector);
    }

    /// The text that Prometheus reads.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner);
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("writing to a string does not fail");
        text
    }

    /// A request was answered, or not.
    pub fn request(&self, code: Option<u16>, host: &str, method: &str) {
        let labels = RequestLabels {
            code: code.map_or_else(|| "<error>".to_owned(), |c| c.to_string()),
            host: host.to_owned(),
            method: method.to_owned(),
        };
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
        self.synced.store(true, std::sync::atomic::Ordering::Release);
    }

    /// Another instance leads, or none does any more. One that waits for its turn is ready: else the roll-out of a new version,
    /// which waits for its pod before it stops the old one, would never end.
    pub fn set_standby(&self, standby: bool) {
        self.standby.store(standby, std::sync::atomic::Ordering::Release);
    }

    /// Why the operator is not ready.
    pub fn unready(&self) -> Option<String> {
        let since = *self.away_since.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = since.filter(|s| s.elapsed() > OUTAGE) {
            return Some(format!("the API server has been away for {} seconds", since.elapsed().as_secs()));
        }
        if self.standby.load(std::sync::atomic::Ordering::Acquire) {
            return None;
        }
        (!self.synced.load(std::sync::atomic::Ordering::Acquire)).then(|| "the caches are not complete yet".to_owned())
    }

    /// A pass begins.
    pub fn pass_started(&self, controller: &str) {
        self.active.get_or_create(&ControllerLabels { controller: controller.to_owned() }).inc();
    }

    /// A pass ended.
    pub fn pass_ended(&self, controller: &str, result: PassResult, took: Duration) {
        let labels = ControllerLabels { controller: controller.to_owned() };
        self.active.get_or_create(&labels).dec();
        self.pass_time.get_or_create(&labels).observe(took.as_secs_f64());
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

    /// Something failed for a reason.
    pub fn failed(&self, controller: &str, reason: &'static str) {
        self.failures.get_or_create(&ReasonLabels { controller: controller.to_owned(), reason }).inc();
    }

    /// How many passes may run at once.
    pub fn set_workers(&self, controller: &str, workers: usize) {
        let labels = ControllerLabels { controller: controller.to_owned() };
        self.workers.get_or_create(&labels).set(i64::try_from(workers).unwrap_or(i64::MAX));
    }

    /// The queue has changed.
    pub fn queue(&self, depth: usize, added: bool, retried: bool) {
        self.depth.get_or_create(&QUEUE).set(i64::try_from(depth).unwrap_or(i64::MAX));
        if added {
            self.adds.get_or_create(&QUEUE).inc();
        }
        if retried {
            self.retries.get_or_create(&QUEUE).inc();
        }
    }

    /// Whether the API server serves a kind.
    pub fn set_kind_available(&self, gvk: &crate::release::object::Gvk, available: bool) {
        self.available.get_or_create(&kind_labels(gvk)).set(i64::from(available));
    }

    /// Whether a kind's chart can be used.
    pub fn set_chart_usable(&self, gvk: &crate::release::object::Gvk, usable: bool) {
        self.chart_usable.get_or_create(&kind_labels(gvk)).set(i64::from(usable));
    }
}

fn kind_labels(gvk: &crate::release::object::Gvk) -> KindLabels {
    KindLabels { group: gvk.group.to_string(), version: gvk.version.to_string(), kind: gvk.kind.to_string() }
}

type CreatedAtSource = Arc<dyn Fn() -> Vec<(CreatedAt, i64)> + Send + Sync>;

struct CreatedAtCollector(CreatedAtSource);

impl fmt::Debug for CreatedAtCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CreatedAtCollector")
    }
}

impl Collector for CreatedAtCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Timestamp at which a custom resource was created";
        let mut metric = encoder.encode_descriptor("resource_created_at_seconds", help, None, MetricType::Gauge)?;
        for (labels, seconds) in (self.0)() {
            ConstGauge::new(seconds).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{CreatedAt, Metrics, PassResult};
    use std::time::Duration;

    #[test]
    fn the_names_are_those_that_dashboards_use() {
        let metrics = Metrics::new();
        metrics.request(Some(200), "host", "GET");
        metrics.pass_started("web-controller");
        metrics.pass_ended("web-controller", PassResult::Success, Duration::from_millis(3));
        metrics.pass_started("web-controller");
        metrics.pass_ended("web-controller", PassResult::Error, Duration::from_millis(3));
        metrics.queue(3, true, false);
        metrics.register_created_at(|| {
            let text = |s: &str| s.to_owned();
            let labels = CreatedAt {
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
        metrics.request(None, "host", "GET");
        assert_eq!(metrics.unready(), None);
    }
}

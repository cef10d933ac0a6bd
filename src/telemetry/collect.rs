//! Metrics that are computed when they are requested: the custom resources, the states of releases, the process.

use std::fmt;
use std::sync::Arc;

use crate::agent::contract::VolumeSpace;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// A custom resource, for `resource_created_at_seconds` and `tillerman_restore_proven`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[expect(missing_docs, reason = "the labels are helm-operator's")]
pub struct ResourceLabels {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// A state of releases for `tillerman_releases`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub struct ReleaseState {
    /// Controller of the kind.
    pub controller: String,
    /// `ready`, `progressing`, `stalled` or `uninstalling`.
    pub state: &'static str,
}

/// A database with a primary.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DatabaseLabels {
    /// Controller of the kind.
    pub controller: String,
    /// The namespace of the custom resource.
    pub namespace: String,
    pub name: String,
    /// The name of the Members document.
    pub members: String,
}

/// A member of a database with a primary.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct MemberLabels {
    /// Controller of the kind.
    pub controller: String,
    /// The namespace of the custom resource.
    pub namespace: String,
    pub name: String,
    pub pod: String,
    /// Its role, as in the status.
    pub role: &'static str,
}

/// The last known state of a database with a primary.
#[derive(Clone, Debug, PartialEq)]
pub struct DatabaseSight {
    /// Which one.
    pub labels: DatabaseLabels,
    /// Whether another member can take over; `None` if there is only one.
    pub safe: Option<bool>,
    /// Whether the primary takes writes, and as many members acknowledge as commits wait for.
    pub takes_writes: bool,
    /// When another member became the primary, in seconds since 1970.
    pub last_change: Option<i64>,
    /// The members.
    pub members: Vec<DatabaseMember>,
}

/// The last known state of a member of a database.
#[derive(Clone, Debug, PartialEq)]
pub struct DatabaseMember {
    /// Which one.
    pub labels: MemberLabels,
    /// Whether it answers.
    pub answers: bool,
    /// How many seconds a replica lags behind.
    pub lag: Option<f64>,
    /// Commits on the primary that wait for an acknowledgement.
    pub waiting: Option<u32>,
    /// How full its volume is; `None` if that is unknown.
    pub volume: Option<VolumeSpace>,
}

/// The states that a release can be in.
pub const STATES: [&str; 5] = ["ready", "asleep", "progressing", "stalled", "uninstalling"];

type Source<L, V> = Arc<dyn Fn() -> Vec<(L, V)> + Send + Sync>;

/// A gauge whose values are read from a source.
pub struct Read<L, V> {
    name: &'static str,
    help: &'static str,
    source: Source<L, V>,
}

impl<L, V> Read<L, V> {
    /// Creates the gauge with this name.
    pub fn new(
        name: &'static str,
        help: &'static str,
        source: impl Fn() -> Vec<(L, V)> + Send + Sync + 'static,
    ) -> Box<Self> {
        Box::new(Self { name, help, source: Arc::new(source) })
    }
}

impl<L, V> fmt::Debug for Read<L, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<L, V> Collector for Read<L, V>
where
    L: EncodeLabelSet + Send + Sync + 'static,
    V: EncodeGaugeValue + 'static,
    ConstGauge<V>: EncodeMetric,
{
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut metric = encoder.encode_descriptor(self.name, self.help, None, MetricType::Gauge)?;
        for (labels, value) in (self.source)() {
            ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// The operating system's data about this process, under the names that all Prometheus clients use. Empty on systems
/// without `/proc`.
#[derive(Debug)]
pub struct Process;

/// Clock ticks per second: Linux reports 100 to programs on every platform.
const TICKS: f64 = 100.0;
/// The page size in bytes on the supported platforms.
const PAGE: i64 = 4096;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return Ok(()) };
        // These fields follow the program's name, which may contain anything: they are fields 3 and later of proc(5).
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).and_then(|f| f.parse::<i64>().ok()).unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "of ticks since the start")]
        let seconds = (field(14) + field(15)) as f64 / TICKS;
        let help = "Processor time used";
        let counter = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
        ConstCounter::new(seconds).encode(counter)?;
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Memory in use", field(24) * PAGE),
            ("process_open_fds", "Open file descriptors", i64::try_from(open).unwrap_or(0)),
        ] {
            let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(gauge)?;
        }
        Ok(())
    }
}

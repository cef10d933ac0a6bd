//! What passes and watches share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch::Receiver;

use super::charts::Served;
use super::memory::waits::Waits;
use super::queue::Queue;
use super::scope::Scope;
use super::tasks::Tasks;
use crate::cluster::cache::{Cache, ReleaseKey};
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Discovery;
use crate::cluster::sources::Sources;
use crate::cluster::watch::Manner;
use crate::kind::allow::Allow;
use crate::telemetry::metrics::Metrics;

/// What passes and watches share: the cluster, and what is known of it.
pub struct Shared {
    /// The API server.
    pub cluster: Cluster,
    /// The kinds that it serves.
    pub discovery: Arc<Discovery>,
    /// What the watches saw.
    pub cache: Arc<Cache>,
    /// What is known of the objects that releases are made from.
    pub sources: Arc<Sources>,
    /// The kinds of custom resources, with their charts.
    pub kinds: Vec<Served>,
    /// Which custom resources are this operator's.
    pub scope: Scope,
    /// Releases that deserve a pass.
    pub queue: Arc<Queue>,
    /// Releases that wait for an object of another one.
    pub waits: Arc<Waits>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// The tasks of the operator; they end with it.
    pub tasks: Tasks,
    /// Whether lists may come as streams.
    pub streaming: AtomicBool,
    /// Says that the API server answers again, see [`Cluster::back`].
    pub back: Receiver<()>,
}

impl Shared {
    /// How watches are kept.
    pub fn manner(&self) -> Manner {
        Manner { streaming: self.streaming.load(Ordering::Relaxed), back: self.back.clone() }
    }

    /// Which annotations of a custom resource count.
    pub fn allow(&self, key: &ReleaseKey) -> &Allow {
        &self.kinds[key.kind].kind.allow
    }
}

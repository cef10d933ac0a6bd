//! The state that passes and watches share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tokio::sync::watch::Receiver;

use super::kinds::Kinds;
use super::memory::waits::Waits;
use super::notices::touched::Touched;
use super::notices::undelivered::Undelivered;
use super::queue::Queue;
use super::scope::Scope;
use super::tasks::Tasks;
use crate::cluster::cache::{Cache, ReleaseKey};
use crate::cluster::client::Cluster;
use crate::cluster::cr::Cr;
use crate::cluster::discovery::Discovery;
use crate::cluster::sources::Sources;
use crate::cluster::watch::Manner;
use crate::kind::allow::Allow;
use crate::telemetry::metrics::Metrics;

/// The state that passes and watches share: access to the cluster, and what the operator knows about it.
pub struct Shared {
    /// The API server.
    pub cluster: Cluster,
    /// The kinds that the API server serves.
    pub discovery: Arc<Discovery>,
    /// The objects that the watches observed.
    pub cache: Arc<Cache>,
    /// The Secrets and `ConfigMap`s that releases take values from, and the objects that templates look up.
    pub sources: Arc<Sources>,
    /// The kinds of custom resources that the operator serves, with their charts.
    pub kinds: Arc<Kinds>,
    /// Selects the custom resources that this operator manages.
    pub scope: Scope,
    /// Releases that need a pass.
    pub queue: Arc<Queue>,
    /// Releases that wait for an object that belongs to another release.
    pub waits: Arc<Waits>,
    /// The custom resources that notices have to look at again.
    pub touched: Arc<Touched>,
    /// The custom resources about which messages wait because their targets do not accept them.
    pub undelivered: Arc<Undelivered>,
    /// Signals that a roll-out can continue.
    pub rollouts: Arc<Notify>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// The tasks of the operator. They end when the operator stops.
    pub tasks: Tasks,
    /// Whether the API server can send lists as streams.
    pub streaming: AtomicBool,
    /// Signals that the API server answers again, see [`Cluster::back`].
    pub back: Receiver<()>,
}

impl Shared {
    /// The settings with which watches run.
    pub fn manner(&self) -> Manner {
        Manner { streaming: self.streaming.load(Ordering::Relaxed), back: self.back.clone() }
    }

    /// Enters a custom resource from an answer of the API server. Returns whether it needs a pass. Those that need it get one if it may
    /// matter to them.
    pub fn enter_cr(&self, key: ReleaseKey, cr: Cr) -> bool {
        let touched = key.clone();
        let (concerns, users) = self.cache.put_cr(key, cr);
        self.touched.touch(&touched);
        self.queue.add_all(users);
        concerns
    }

    /// The annotations of a custom resource that its kind allows.
    pub fn allow(&self, key: &ReleaseKey) -> Allow {
        self.kinds.get(key.kind).kind.allow.clone()
    }
}

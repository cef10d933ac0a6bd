//! What every pass uses.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::memory::Memory;
use super::renderer::Renderer;
use super::shared::Shared;
use super::watch::Watching;
use crate::cluster::cache::ReleaseKey;
use crate::cluster::events::Events;
use crate::kind::switches::Switches;
use crate::members::drivers::Drivers;

/// What every pass uses. What watches use, too, is in [`Shared`], to which this dereferences.
pub struct Context {
    /// The cluster, and what is known of it.
    pub shared: Arc<Shared>,
    /// The watches.
    pub watching: Arc<Watching>,
    /// What is remembered of releases between their passes.
    pub memory: Memory,
    /// Renders charts off the workers.
    pub renderer: Renderer,
    /// Kubernetes events.
    pub events: Events,
    /// Drivers of members that the program brings.
    pub drivers: Drivers,
    /// How often a release is compared with the caches when nothing happens.
    pub period: Duration,
    /// Events show no overridden values.
    pub hide_overrides: bool,
    /// The status shows what is deployed.
    pub show_manifest: bool,
}

impl Deref for Context {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Context {
    /// A custom resource is gone, and what is kept for it goes too.
    pub fn forget(&self, key: &ReleaseKey) {
        let release = (Arc::clone(&key.namespace), self.cache.release_name(key));
        self.watching.forget(key, &release);
        self.memory.forget(key, &release);
        self.sources.set_used(key, Vec::new());
        self.waits.end(key);
        self.renderer.forget(key);
    }

    /// How often a release is compared with the caches, in helm-operator's order: the custom resource's annotation, the entry of
    /// watches.yaml, the flag.
    pub fn period(&self, switches: &Switches, key: &ReleaseKey) -> Duration {
        let of_kind = self.kinds[key.kind].kind.reconcile_period;
        let period = switches.reconcile_period.or(of_kind).unwrap_or(self.period);
        // A period of 0 means never in helm-operator; here it costs nothing, so a long one is as good.
        if period.is_zero() { Duration::from_secs(3600) } else { period.max(Duration::from_secs(1)) }
    }
}

//! The state that every pass uses.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::journal::{self, Begun, Journal, Working};
use super::memory::Memory;
use super::renderer::Renderer;
use super::shared::Shared;
use super::watch::Watching;
use crate::cluster::cache::ReleaseKey;
use crate::cluster::events::Events;
use crate::kind::switches::Switches;
use crate::members::drivers::Drivers;

/// The state that every pass uses. The part that watches use as well is in [`Shared`], to which this type dereferences.
pub struct Context {
    /// The state that passes share with watches.
    pub shared: Arc<Shared>,
    /// The watches.
    pub watching: Arc<Watching>,
    /// The facts about releases that the operator keeps in memory between passes.
    pub memory: Memory,
    /// Renders charts outside the workers.
    pub renderer: Renderer,
    /// Sends Kubernetes events.
    pub events: Events,
    /// The operator's current work, for the next process.
    pub journal: Journal,
    /// Drivers of members that the program registers.
    pub drivers: Drivers,
    /// How often the operator compares a release with the caches when nothing happens.
    pub period: Duration,
    /// Whether events hide overridden values.
    pub hide_overrides: bool,
    /// Whether the status shows the deployed manifest.
    pub show_manifest: bool,
}

impl Deref for Context {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Context {
    /// A custom resource, as the journal calls it.
    pub fn subject(&self, key: &ReleaseKey) -> String {
        let served = self.kinds.get(key.kind);
        let (gvk, name) = (served.gvk(), format!("{}/{}", key.namespace, key.name));
        journal::subject(&[&format!("{}.{}", gvk.kind, gvk.group), &name])
    }

    /// Notes that a pass over a custom resource begins. Its input is written by editors of the custom resource; a new
    /// text in `tillerman.dev/reconcile-at` represents a change of anything else, such as its release record.
    pub fn begin(&self, key: &ReleaseKey) -> Begun {
        let Some(cr) = self.cache.cr(key) else { return Begun::Goes(Working::default()) };
        let (generation, deleting) = (cr.generation.to_string(), cr.deleting.to_string());
        let texts = cr.annotations.iter().flat_map(|(key, value)| [&**key, &**value]);
        let parts = [&*cr.uid, &*generation, &*deleting].into_iter().chain(texts);
        self.journal.begin(&self.subject(key), &journal::input(parts))
    }

    /// Drops everything that is kept for a custom resource after the custom resource is gone.
    pub fn forget(&self, key: &ReleaseKey) {
        let release = self.cache.release_of(key);
        // Before the custom resources are listed, one that the records name is not known yet.
        if self.cache.is_kind_synced(key.kind) {
            self.journal.forget(&self.subject(key));
        }
        self.watching.forget(key, &release);
        self.memory.forget(key, &release);
        self.sources.set_used(key, Vec::new());
        self.waits.forget(key);
        self.cache.forget_needs(key);
        self.renderer.forget(key);
        self.kinds.get(key.kind).forget(key);
    }

    /// How often the operator compares a release with the caches. The precedence is that of helm-operator: the
    /// annotation of the custom resource, then the entry in watches.yaml, then the flag.
    pub fn period(&self, switches: &Switches, key: &ReleaseKey) -> Duration {
        let of_kind = self.kinds.get(key.kind).kind.reconcile_period;
        bounded(switches.reconcile_period.or(of_kind).unwrap_or(self.period))
    }

    /// How often the operator looks at what concerns all releases.
    pub fn own_period(&self) -> Duration {
        bounded(self.period)
    }
}

/// In helm-operator, a period of 0 disables the comparison. Here a comparison costs almost nothing, so a long period serves as well.
fn bounded(period: Duration) -> Duration {
    if period.is_zero() { Duration::from_secs(3600) } else { period.max(Duration::from_secs(1)) }
}

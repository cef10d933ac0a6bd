//! Drivers that a program registers for databases of its own: `examples/custom-driver` is such a program.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::document::{Set, is_own};
use super::driver::{ActionOutcome, MemberDriver, MemberStep};
use super::workload::{Latch, Workload, WorkloadTarget};

type Make = dyn Fn(&Set) -> Result<OwnDriver, String> + Send + Sync;

/// The drivers of a program, by the names in `spec.driver` of a Members document.
#[derive(Clone, Default)]
pub struct Drivers(BTreeMap<&'static str, Arc<Make>>);

impl Drivers {
    /// No drivers except the built-in ones.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a driver. `make` creates it for one stateful set, from the settings in its document ([`Set::settings`]).
    /// The error of `make` is a sentence for the condition; `make` is called again when the chart changes.
    ///
    /// # Panics
    /// When the name is not a domain and a name, as in `example.com/database`.
    #[must_use]
    pub fn with<D>(
        mut self,
        name: &'static str,
        make: impl Fn(&Set) -> Result<D, String> + Send + Sync + 'static,
    ) -> Self
    where
        D: MemberDriver<Observed: 'static, Action: 'static> + 'static,
    {
        assert!(is_own(name), "the name of a driver is a domain and a name, as in example.com/database, not {name:?}");
        self.0.insert(name, Arc::new(move |set| Ok(OwnDriver(Box::new(make(set)?)))));
        self
    }

    /// The names of the drivers.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.keys().copied()
    }

    /// The driver of this name for a stateful set. The error is a sentence.
    pub fn make(&self, name: &str, set: &Set) -> Result<OwnDriver, String> {
        let make = self.0.get(name).ok_or_else(|| format!("this program has no driver {name}"))?;
        make(set).map_err(|e| format!("driver {name}: {e}"))
    }
}

impl fmt::Debug for Drivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A driver whose types only the program knows.
pub struct OwnDriver(Box<dyn Erased>);

type Unknown = Box<dyn Any + Send>;

/// [`MemberDriver`] without its types.
trait Erased: Send + Sync {
    fn observe<'a>(&'a self, workload: &'a Workload, latch: &'a Latch) -> BoxFuture<'a, Unknown>;
    fn decide(
        &self,
        workload: &Workload,
        seen: &Unknown,
        target: &WorkloadTarget,
        latch: &Latch,
        now: i64,
    ) -> MemberStep<Unknown>;
    fn act(&self, action: Unknown) -> BoxFuture<'_, ActionOutcome>;
    fn describe(&self, action: &Unknown) -> String;
}

const ITS_OWN: &str = "a driver gets the document that it read";

impl<D: MemberDriver<Observed: 'static, Action: 'static>> Erased for D {
    fn observe<'a>(&'a self, workload: &'a Workload, latch: &'a Latch) -> BoxFuture<'a, Unknown> {
        Box::pin(async { Box::new(MemberDriver::observe(self, workload, latch).await) as Unknown })
    }
    fn decide(
        &self,
        workload: &Workload,
        seen: &Unknown,
        target: &WorkloadTarget,
        latch: &Latch,
        now: i64,
    ) -> MemberStep<Unknown> {
        let seen = seen.downcast_ref::<D::Observed>().expect(ITS_OWN);
        MemberDriver::decide(self, workload, seen, target, latch, now).map(|action| Box::new(action) as Unknown)
    }
    fn act(&self, action: Unknown) -> BoxFuture<'_, ActionOutcome> {
        let action = *action.downcast::<D::Action>().expect(ITS_OWN);
        Box::pin(MemberDriver::act(self, action))
    }
    fn describe(&self, action: &Unknown) -> String {
        MemberDriver::describe(self, action.downcast_ref::<D::Action>().expect(ITS_OWN))
    }
}

impl MemberDriver for OwnDriver {
    type Observed = Unknown;
    type Action = Unknown;

    async fn observe(&self, workload: &Workload, latch: &Latch) -> Unknown {
        self.0.observe(workload, latch).await
    }
    fn decide(
        &self,
        workload: &Workload,
        seen: &Unknown,
        target: &WorkloadTarget,
        latch: &Latch,
        now: i64,
    ) -> MemberStep<Unknown> {
        self.0.decide(workload, seen, target, latch, now)
    }
    async fn act(&self, action: Unknown) -> ActionOutcome {
        self.0.act(action).await
    }
    fn describe(&self, action: &Unknown) -> String {
        self.0.describe(action)
    }
}

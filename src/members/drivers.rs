//! The drivers that a program has: the built-in ones, and those that it registers for databases of its own, as
//! `examples/custom-driver` does.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::driver::{
    ActionOutcome, Connection, DriverEvent, DriverNeeds, DriverProfile, Happened, MemberDriver, MemberStep, Sight,
};
use super::driver_name::is_own;
use super::etcd::driver::Etcd;
use super::jobs::driver::{DeletionHooks, Jobs};
use super::operator::Operator;
use super::primary::driver::Primary;
use super::workload::{Latch, Workload, WorkloadTarget};
use crate::agent::contract::VolumeSpace;

/// The profiles of the built-in drivers, in the order of messages.
pub const BUILT_IN: [&DriverProfile; 3] = [&Etcd::PROFILE, &Jobs::PROFILE, &Primary::PROFILE];

/// The drivers of a program, by the names in `spec.driver` of a Members document.
#[derive(Clone)]
pub struct Drivers(BTreeMap<&'static str, Arc<dyn AnyDriver>>);

impl Default for Drivers {
    fn default() -> Self {
        Self(BTreeMap::new()).and::<Etcd>().and::<Jobs>().and::<Primary>()
    }
}

impl Drivers {
    /// The built-in drivers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a driver.
    ///
    /// # Panics
    /// When its name is not a domain and a name, as in `example.com/database`.
    #[must_use]
    pub fn with<D: MemberDriver>(self) -> Self {
        let name = D::PROFILE.name;
        assert!(is_own(name), "the name of a driver is a domain and a name, as in example.com/database, not {name:?}");
        self.and::<D>()
    }

    fn and<D: MemberDriver>(mut self) -> Self {
        self.0.insert(D::PROFILE.name, Arc::new(Erased::<D>(PhantomData)));
        self
    }

    /// The driver of this name; `None` if the program lacks it.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn AnyDriver>> {
        self.0.get(name)
    }

    /// The driver of this name. The error is a sentence.
    pub(crate) fn find(&self, name: &str) -> Result<&Arc<dyn AnyDriver>, String> {
        let own = self.0.keys().filter(|name| is_own(name));
        let known = || own.chain(self.0.keys().filter(|name| !is_own(name))).copied().collect::<Vec<_>>().join(", ");
        self.get(name).ok_or_else(|| format!("this program has no driver {name}; it has {}", known()))
    }

    /// The facts about applications that a `Status` document can show.
    pub fn facts(&self) -> impl Iterator<Item = &'static str> {
        self.0.values().flat_map(|driver| driver.profile().facts).copied()
    }
}

impl fmt::Debug for Drivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Runs the hooks before a deletion, which are Jobs, whichever driver a stateful set has.
pub(crate) fn deletion_hooks() -> Arc<dyn AnyDriver> {
    Arc::new(Erased::<DeletionHooks>(PhantomData))
}

/// A value whose type only the driver knows.
pub(crate) type Unknown = Box<dyn Any + Send + Sync>;
/// What the operator keeps of a stateful set between passes.
pub(crate) type AnyMemory = Arc<dyn Any + Send + Sync>;

/// [`MemberDriver`] without its types.
pub(crate) trait AnyDriver: Send + Sync {
    fn profile(&self) -> &'static DriverProfile;
    fn needs(&self, settings: &Map<String, Value>, stateful_set: &str) -> Result<DriverNeeds, String>;
    fn memory(&self) -> AnyMemory;
    fn latch(&self, stored: Option<&Value>, replaced: Option<&str>) -> Latch;
    fn recovery(&self, stateful_set: &str, latch: &Latch) -> Option<String>;
    fn connect(&self, with: &Connection, memory: AnyMemory) -> Result<Box<dyn Connected>, String>;
}

/// The driver of one stateful set, without its types.
pub(crate) trait Connected: Send + Sync {
    fn observe<'a>(
        &'a self,
        workload: &'a Workload,
        latch: &'a Latch,
        operator: &'a dyn Operator,
    ) -> BoxFuture<'a, Unknown>;
    fn decide(
        &self,
        workload: &Workload,
        seen: &Unknown,
        target: &WorkloadTarget,
        latch: &Latch,
        now: i64,
    ) -> MemberStep<Unknown>;
    fn act<'a>(&'a self, action: &'a Unknown, operator: &'a dyn Operator) -> BoxFuture<'a, ActionOutcome>;
    fn describe(&self, action: &Unknown) -> String;
    fn describe_facts(&self, before: &Latch, after: &Latch) -> Option<String>;
    fn report(&self, workload: &Workload, seen: &Unknown, latch: &Latch) -> Option<Map<String, Value>>;
    fn sight(&self, workload: &Workload, seen: &Unknown, latch: &Latch) -> Option<Sight>;
    fn volumes(&self, workload: &Workload, seen: &Unknown) -> BTreeMap<u32, VolumeSpace>;
    fn events(&self, happened: Happened<'_, Unknown>) -> Vec<DriverEvent>;
    fn is_disturbed<'a>(&'a self, latch: &'a Latch, within: Duration) -> BoxFuture<'a, bool>;
}

struct Erased<D>(PhantomData<fn() -> D>);

impl<D: MemberDriver> AnyDriver for Erased<D> {
    fn profile(&self) -> &'static DriverProfile {
        &D::PROFILE
    }
    fn needs(&self, settings: &Map<String, Value>, stateful_set: &str) -> Result<DriverNeeds, String> {
        D::read(settings, stateful_set).map(|settings| D::needs(&settings))
    }
    fn memory(&self) -> AnyMemory {
        Arc::new(D::Memory::default())
    }
    /// Facts of other drivers do not count, and none count if one has a different form.
    fn latch(&self, stored: Option<&Value>, replaced: Option<&str>) -> Latch {
        let has_facts = |stored: &&Value| D::Facts::deserialize(*stored).is_ok();
        typed::<D>(&Latch::of(stored.filter(has_facts), replaced)).untyped()
    }
    fn recovery(&self, stateful_set: &str, latch: &Latch) -> Option<String> {
        D::recovery(stateful_set, &typed::<D>(latch))
    }
    fn connect(&self, with: &Connection, memory: AnyMemory) -> Result<Box<dyn Connected>, String> {
        let settings = D::read(&with.set.settings.fields(), &with.set.target)?;
        let memory = memory.downcast::<D::Memory>().unwrap_or_default();
        Ok(Box::new(D::connect(settings, with, memory)?))
    }
}

/// A value of a driver, which gets back what it returned.
fn its_own<T: 'static>(value: &Unknown) -> &T {
    value.downcast_ref().expect("a driver gets what it returned")
}

/// A latch for its driver.
fn typed<D: MemberDriver>(latch: &Latch) -> Latch<D::Facts> {
    latch.typed().unwrap_or_default()
}

impl<D: MemberDriver> Connected for D {
    fn observe<'a>(
        &'a self,
        workload: &'a Workload,
        latch: &'a Latch,
        operator: &'a dyn Operator,
    ) -> BoxFuture<'a, Unknown> {
        Box::pin(async move {
            let latch = typed::<D>(latch);
            Box::new(MemberDriver::observe(self, workload, &latch, operator).await) as Unknown
        })
    }
    fn decide(
        &self,
        workload: &Workload,
        seen: &Unknown,
        target: &WorkloadTarget,
        latch: &Latch,
        now: i64,
    ) -> MemberStep<Unknown> {
        MemberDriver::decide(self, workload, its_own(seen), target, &typed::<D>(latch), now)
            .untyped(|action| Box::new(action) as Unknown)
    }
    fn act<'a>(&'a self, action: &'a Unknown, operator: &'a dyn Operator) -> BoxFuture<'a, ActionOutcome> {
        Box::pin(MemberDriver::act(self, its_own(action), operator))
    }
    fn describe(&self, action: &Unknown) -> String {
        MemberDriver::describe(self, its_own(action))
    }
    fn describe_facts(&self, before: &Latch, after: &Latch) -> Option<String> {
        MemberDriver::describe_facts(self, &typed::<D>(before), &typed::<D>(after))
    }
    fn report(&self, workload: &Workload, seen: &Unknown, latch: &Latch) -> Option<Map<String, Value>> {
        MemberDriver::report(self, workload, its_own(seen), &typed::<D>(latch))
    }
    fn sight(&self, workload: &Workload, seen: &Unknown, latch: &Latch) -> Option<Sight> {
        MemberDriver::sight(self, workload, its_own(seen), &typed::<D>(latch))
    }
    fn volumes(&self, workload: &Workload, seen: &Unknown) -> BTreeMap<u32, VolumeSpace> {
        MemberDriver::volumes(self, workload, its_own(seen))
    }
    fn events(&self, happened: Happened<'_, Unknown>) -> Vec<DriverEvent> {
        match happened {
            Happened::Acted(action) => MemberDriver::events(self, Happened::Acted(its_own(action))),
            Happened::Latched { before, after } => {
                let (before, after) = (&typed::<D>(before), &typed::<D>(after));
                MemberDriver::events(self, Happened::Latched { before, after })
            }
            Happened::Reported { before, now } => MemberDriver::events(self, Happened::Reported { before, now }),
        }
    }
    fn is_disturbed<'a>(&'a self, latch: &'a Latch, within: Duration) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let latch = typed::<D>(latch);
            MemberDriver::is_disturbed(self, &latch, within).await
        })
    }
}

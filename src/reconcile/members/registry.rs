//! The drivers of members, registered alike: those that are built in, and those that the program brings.

use std::time::Duration;

use futures::future::BoxFuture;
use kube::core::ApiResource;

use super::etcd::EtcdDriver;
use super::executor::{STOPPED, SetPass};
use super::jobs::JobsDrivers;
use crate::members::document::{DriverName, Set};
use crate::members::drivers::Drivers;
use crate::members::progress::Doing;
use crate::members::workload::Latch;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::observe::observed::Observed;

/// What a driver did in a pass, when the next look is due, and what is remembered from now on.
pub type Passed = (Doing, Option<Duration>, Latch);

/// What a driver makes beside the StatefulSet: the kind, and the label whose value is the name of the release.
pub type Made = (ApiResource, &'static str);

/// A driver as the operator uses it.
pub trait Registered: Send + Sync {
    /// What it makes: a change of such an object brings a pass.
    fn makes(&self) -> Option<Made> {
        None
    }

    /// One step of one stateful set.
    fn pass<'a>(&'a self, pass: &'a SetPass<'a>) -> BoxFuture<'a, Result<Passed, Error>>;

    /// The custom resource goes, and the objects of its release stay: so does what the driver made.
    fn leave_behind<'a>(
        &'a self,
        _observed: &'a Observed,
        _set: &'a Set,
        _ctx: &'a Context,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }
}

/// The drivers that are built in, by name.
const BUILT_IN: [(&str, fn() -> Box<dyn Registered>); 2] =
    [("etcd", || Box::new(EtcdDriver)), ("jobs", || Box::new(JobsDrivers))];

/// The driver of this name: a built-in one, or one that the program brings. The error is a sentence.
pub fn driver(name: &DriverName, brought: &Drivers) -> Result<Box<dyn Registered>, String> {
    if let Some((_, make)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name.as_str()) {
        return Ok(make());
    }
    if let Some(name) = brought.names().find(|known| *known == name.as_str()) {
        return Ok(Box::new(Brought { name, drivers: brought.clone() }));
    }
    let known = brought.names().chain(BUILT_IN.iter().map(|(name, _)| *name));
    Err(format!("this program has no driver {}; it has {}", name.as_str(), known.collect::<Vec<_>>().join(", ")))
}

/// One that the program brings.
struct Brought {
    name: &'static str,
    drivers: Drivers,
}

impl Registered for Brought {
    fn pass<'a>(&'a self, pass: &'a SetPass<'a>) -> BoxFuture<'a, Result<Passed, Error>> {
        Box::pin(async move {
            match self.drivers.make(self.name, pass.set) {
                Ok(driver) => pass.drive(&driver).await,
                Err(why) => Ok(pass.wrong(why)),
            }
        })
    }
}

impl SetPass<'_> {
    /// Nothing is done until the document says something else.
    pub fn wrong(&self, why: String) -> Passed {
        (Doing::Stopped { reason: "InvalidMembers", why }, Some(STOPPED), self.latch.clone())
    }
}

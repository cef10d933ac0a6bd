//! The drivers of members. Built-in drivers and those of the program are registered in the same way.

use futures::future::BoxFuture;

use super::etcd::EtcdDriver;
use super::executor::SetPass;
use super::jobs::JobsDrivers;
use super::primary::PrimaryDriver;
use super::registered::{Passed, Registered};
use crate::members::document::DriverName;
use crate::members::drivers::Drivers;
use crate::reconcile::error::Error;

type Make = fn() -> Box<dyn Registered>;

/// The built-in drivers, by name.
const BUILT_IN: [(&str, Make); 3] =
    [("etcd", || Box::new(EtcdDriver)), ("jobs", || Box::new(JobsDrivers)), ("primary", || Box::new(PrimaryDriver))];

/// The driver of this name: a built-in one, or one of the program's own. The error is a sentence.
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

/// A driver of the program's own.
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

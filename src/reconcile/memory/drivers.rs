//! What drivers of members keep of their stateful sets between passes.

use std::collections::HashMap;
use std::sync::Arc;

use super::store::PerRelease;
use crate::cluster::cache::ReleaseKey;
use crate::members::drivers::{AnyDriver, AnyMemory};

/// The memories of drivers, by stateful set and name of the driver.
pub type OfRelease = HashMap<(String, &'static str), AnyMemory>;

/// The memories of drivers, by custom resource.
pub type DriverMemories = PerRelease<OfRelease>;

impl PerRelease<OfRelease> {
    /// What a driver keeps of a stateful set.
    pub(crate) fn of(&self, key: &ReleaseKey, set: &str, driver: &dyn AnyDriver) -> AnyMemory {
        let mut all = self.lock();
        let of_set = (set.to_owned(), driver.profile().name);
        Arc::clone(all.entry(key.clone()).or_default().entry(of_set).or_insert_with(|| driver.memory()))
    }
}

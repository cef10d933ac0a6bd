//! What drivers of members keep of their stateful sets between passes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::cluster::cache::ReleaseKey;
use crate::members::drivers::{AnyDriver, AnyMemory};

/// The memories of drivers, by stateful set and name of the driver.
type OfRelease = HashMap<(String, &'static str), AnyMemory>;

/// The memories of drivers, by custom resource.
#[derive(Default)]
pub struct DriverMemories(Mutex<HashMap<ReleaseKey, OfRelease>>);

impl DriverMemories {
    /// What a driver keeps of a stateful set.
    pub(crate) fn of(&self, key: &ReleaseKey, set: &str, driver: &dyn AnyDriver) -> AnyMemory {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_set = (set.to_owned(), driver.profile().name);
        Arc::clone(all.entry(key.clone()).or_default().entry(of_set).or_insert_with(|| driver.memory()))
    }

    /// Drops the facts about a deleted custom resource.
    pub fn forget(&self, key: &ReleaseKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

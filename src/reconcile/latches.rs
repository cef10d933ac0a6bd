//! The state of members and operations that the status of a custom resource keeps.

use serde_json::{Map, Value};

use super::observed::Observed;
use crate::cluster::cr::Cr;
use crate::members::drivers::AnyDriver;
use crate::members::workload::{Latch, REPLACED};
use crate::plan::operations::state::{Running, StoredOperations};

/// The state of a stateful set with members that the status keeps.
pub fn latch(cr: &Cr, name: &str) -> Latch {
    Latch::of(stored(&cr.status(), name), cr.annotations.get(REPLACED).map(|uids| &**uids))
}

/// The same for its driver, with the facts of this driver alone.
pub(crate) fn latch_of_driver(cr: &Cr, name: &str, driver: &dyn AnyDriver) -> Latch {
    driver.latch(stored(&cr.status(), name), cr.annotations.get(REPLACED).map(|uids| &**uids))
}

pub fn stored<'a>(status: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    status.get("members")?.get(name)?.get("latch")
}

/// The operation that runs.
pub fn running(observed: &Observed) -> Option<Running> {
    StoredOperations::read(&observed.cr.status()).running
}

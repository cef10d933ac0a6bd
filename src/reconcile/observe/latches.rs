//! What the status of a custom resource remembers about members and operations.

use serde_json::{Map, Value};

use super::observed::Observed;
use crate::cluster::cr::Cr;
use crate::members::workload::{Latch, REPLACED};
use crate::plan::operations::state::{Running, StoredOperations};

/// What the status remembers about a stateful set with members.
pub fn latch(cr: &Cr, name: &str) -> Latch {
    Latch::of(stored(&cr.status(), name), cr.annotations.get(REPLACED).map(|uids| &**uids))
}

pub fn stored<'a>(status: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    status.get("members")?.get(name)?.get("latch")
}

/// The operation that runs.
pub fn running(observed: &Observed) -> Option<Running> {
    StoredOperations::read(&observed.cr.status()).running
}

//! What is remembered of releases between their passes. All of it is memory only: a restart begins without it, and what must survive
//! stands in the release record or in the status.

pub mod annotations;
pub mod begun;
pub mod contests;
pub mod lookups;
pub mod records;
pub mod trusted;
pub mod waits;

use std::sync::Arc;

use crate::cluster::cache::ReleaseKey;
use crate::mask::Masks;
use annotations::Annotations;
use begun::Begun;
use contests::Contests;
use lookups::LookedUp;
use records::Records;
use trusted::Trusted;

/// What is remembered of releases between their passes.
#[derive(Default)]
pub struct Memory {
    /// What others change as often as we repair it.
    pub contests: Contests,
    /// What first installations that were cut off have left.
    pub begun: Begun,
    /// The annotations of custom resources that hold lists, read.
    pub annotations: Annotations,
    /// The records that were read or written last.
    pub records: Records,
    /// The records that count as they are.
    pub trusted: Trusted,
    /// What releases looked up when they were rendered.
    pub looked_up: LookedUp,
    /// What must appear in no text.
    pub masks: Arc<Masks<ReleaseKey>>,
}

impl Memory {
    /// A custom resource is gone; its release has this namespace and name.
    pub fn forget(&self, key: &ReleaseKey, release: &(Arc<str>, Arc<str>)) {
        self.contests.forget(key);
        self.begun.forget(key);
        self.annotations.forget(key);
        self.records.forget(release);
        self.trusted.forget(release);
        self.looked_up.forget(key);
        self.masks.forget(key);
    }
}

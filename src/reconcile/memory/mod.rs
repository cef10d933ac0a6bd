//! The facts about releases that the operator keeps in memory between passes. It is kept in memory only and lost at a
//! restart. Data that must survive a restart is in the release record or in the status.

pub mod annotations;
pub mod begun;
pub mod contests;
pub mod drivers;
pub mod lookups;
pub mod records;
pub mod room;
pub mod sights;
pub mod store;
pub mod trusted;
pub mod waits;

use std::sync::Arc;

use crate::cluster::cache::ReleaseKey;
use crate::mask::Masks;
use annotations::Annotations;
use begun::Begun;
use contests::Contests;
use drivers::DriverMemories;
use lookups::LookedUp;
use records::Records;
use room::Room;
use sights::Sights;
use trusted::Trusted;

/// The facts about releases that the operator keeps in memory between passes.
#[derive(Default)]
pub struct Memory {
    /// Objects that others change as often as the operator repairs them.
    pub contests: Contests,
    /// The objects that interrupted first installations have left behind.
    pub begun: Begun,
    /// The parsed annotations of custom resources that contain lists.
    pub annotations: Annotations,
    /// The last records that were read or written.
    pub records: Records,
    /// The room for large records.
    pub room: Room,
    /// What drivers of members keep of their stateful sets.
    pub drivers: DriverMemories,
    /// The last reports of members.
    pub sights: Arc<Sights>,
    /// The records that count as they are, without a comparison.
    pub trusted: Trusted,
    /// The lookups of releases during rendering.
    pub looked_up: LookedUp,
    /// Secrets that must not appear in any text.
    pub masks: Arc<Masks<ReleaseKey>>,
}

impl Memory {
    /// Drops the facts about a deleted custom resource, whose release has this namespace and name.
    pub fn forget(&self, key: &ReleaseKey, release: &(Arc<str>, Arc<str>)) {
        self.contests.forget(key);
        self.begun.forget(key);
        self.annotations.forget(key);
        self.records.forget(release);
        self.drivers.forget(key);
        self.sights.forget(key);
        self.trusted.forget(release);
        self.looked_up.forget(key);
        self.masks.forget(key);
    }
}

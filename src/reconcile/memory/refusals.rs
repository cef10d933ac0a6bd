//! Orders that members of databases refused a short while ago. They are not repeated at once, so that one member does not stop the
//! others; after a restart of the operator they are.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cluster::cache::ReleaseKey;
use crate::members::primary::state::Refused;

/// How long an order is not repeated that may succeed soon.
const PASSING: Duration = Duration::from_secs(3);
/// How long one is not repeated that fails until somebody does something.
const LASTING: Duration = Duration::from_secs(15);

/// The orders of a stateful set that are not repeated yet, by ordinal and name of the verb.
type OfSet = BTreeMap<(u32, &'static str), (Refused, Instant)>;

/// The refused orders, by custom resource and stateful set.
#[derive(Default)]
pub struct Refusals {
    all: Mutex<HashMap<ReleaseKey, HashMap<String, OfSet>>>,
}

impl Refusals {
    /// The orders that the members of a stateful set refused.
    pub fn of(&self, key: &ReleaseKey, set: &str) -> BTreeMap<(u32, &'static str), Refused> {
        let mut all = self.lock();
        let Some(of_set) = all.get_mut(key).and_then(|sets| sets.get_mut(set)) else { return BTreeMap::new() };
        let now = Instant::now();
        of_set.retain(|_, (_, until)| *until > now);
        of_set.iter().map(|(order, (refused, _))| (*order, refused.clone())).collect()
    }

    /// Remembers what is refused now. An order that was already known keeps its time.
    pub fn note(&self, key: &ReleaseKey, set: &str, refused: BTreeMap<(u32, &'static str), Refused>) {
        if refused.is_empty() {
            return;
        }
        let mut all = self.lock();
        let of_set = all.entry(key.clone()).or_default().entry(set.to_owned()).or_default();
        for (order, refused) in refused {
            let until = Instant::now() + if refused.passing { PASSING } else { LASTING };
            of_set.entry(order).or_insert((refused, until));
        }
    }

    /// Drops what is remembered of a deleted custom resource.
    pub fn forget(&self, key: &ReleaseKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ReleaseKey, HashMap<String, OfSet>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

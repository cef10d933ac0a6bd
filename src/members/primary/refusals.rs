//! Orders that members refused a short while ago. They are not repeated at once, so that one member does not stop the
//! others; after a restart of the operator they are.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::state::Refused;

/// How long an order is not repeated that may succeed soon.
const PASSING: Duration = Duration::from_secs(3);
/// How long an order that keeps failing without help is not repeated.
const LASTING: Duration = Duration::from_secs(15);

/// An order: the ordinal of the member, and the name of the verb.
pub type OrderKey = (u32, &'static str);

/// The orders of a stateful set that are not repeated yet.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<BTreeMap<OrderKey, (Refused, Instant)>>);

impl Refusals {
    /// The orders that are not repeated now.
    pub fn now(&self) -> BTreeMap<OrderKey, Refused> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        all.retain(|_, (_, until)| *until > now);
        all.iter().map(|(order, (refused, _))| (*order, refused.clone())).collect()
    }

    /// Notes a refusal. An order that is known already keeps its time.
    pub fn note(&self, order: OrderKey, refused: Refused) {
        let until = Instant::now() + if refused.passing { PASSING } else { LASTING };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(order).or_insert((refused, until));
    }
}

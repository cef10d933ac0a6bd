//! Writes only while we lead: a check right before each, without a request (apply.md A8).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long after a renewal of the lease began writes may be sent. Another instance takes the lease 15 seconds after it saw that renewal;
/// the rest is for a request's way.
const VALID: Duration = Duration::from_secs(12);

/// Until when writes may be sent; always, where no lease is held.
#[derive(Clone, Debug, Default)]
pub struct Fence(Arc<Mutex<Option<Instant>>>);

impl Fence {
    /// The lease was renewed by an attempt that began then.
    pub fn renewed(&self, began: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(began);
    }

    /// Whether a write may be sent.
    pub fn is_open(&self, now: Instant) -> bool {
        let renewed = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        renewed.is_none_or(|renewed| now.saturating_duration_since(renewed) < VALID)
    }
}

#[cfg(test)]
mod tests {
    use super::{Fence, VALID};
    use std::time::{Duration, Instant};

    #[test]
    fn a8_writes_stop_before_another_instance_can_take_the_lease() {
        let (fence, now) = (Fence::default(), Instant::now());
        assert!(fence.is_open(now), "no lease is held");
        let shared = fence.clone();
        shared.renewed(now);
        assert!(fence.is_open(now + VALID / 2));
        assert!(!fence.is_open(now + VALID));
        shared.renewed(now + Duration::from_secs(5));
        assert!(fence.is_open(now + VALID));
    }
}

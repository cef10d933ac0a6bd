//! Whether the operator makes progress, for `/healthz`: the kubelet restarts it when the probe fails.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::harm;

/// How long something may be stuck. The longest step of a pass is a defragmentation of etcd with three minutes; a
/// rendering takes up to one.
const LIMIT: Duration = Duration::from_secs(300);

type Check = Box<dyn Fn(Duration) -> Option<String> + Send + Sync>;

/// The checks for anything that can be stuck.
#[derive(Default)]
pub struct Health {
    checks: Mutex<Vec<Check>>,
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Health")
    }
}

impl Health {
    /// Adds a check, which returns a sentence if something has been stuck for this long.
    pub fn register(&self, check: impl Fn(Duration) -> Option<String> + Send + Sync + 'static) {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(check));
    }

    /// The work that is stuck, in sentences; `None` if nothing is.
    pub fn trouble(&self) -> Option<String> {
        let limit = harm::setting("TILLERMAN_HARM_LIMIT", LIMIT);
        let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let found: Vec<String> = checks.iter().filter_map(|check| check(limit)).collect();
        (!found.is_empty()).then(|| found.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::Health;

    #[test]
    fn all_that_stands_still_is_told() {
        let health = Health::default();
        assert_eq!(health.trouble(), None);
        health.register(|limit| (limit.as_secs() == 300).then(|| "one".to_owned()));
        health.register(|_| None);
        health.register(|_| Some("two".to_owned()));
        assert_eq!(health.trouble().as_deref(), Some("one; two"));
    }
}

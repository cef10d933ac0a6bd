//! Whether the operator gets on, for `/healthz`: a probe that fails has it started again.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::harm;

/// So long nothing may stand still. The longest step of a pass is a defragmentation of etcd, three minutes; a rendering takes one.
const LIMIT: Duration = Duration::from_secs(300);

type Check = Box<dyn Fn(Duration) -> Option<String> + Send + Sync>;

/// What can stand still.
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
    /// Adds a check: it answers with a sentence when something has stood still for this long.
    pub fn register(&self, check: impl Fn(Duration) -> Option<String> + Send + Sync + 'static) {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(check));
    }

    /// What stands still, in sentences; `None` when nothing does.
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

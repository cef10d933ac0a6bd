//! The custom resources about which messages wait because their targets do not accept them. Passes report it in the
//! status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::sink::Id;
use crate::cluster::cache::ReleaseKey;

/// By notice: the custom resources about which it has messages that wait.
#[derive(Default)]
pub struct Undelivered {
    is_known: AtomicBool,
    by_notice: Mutex<BTreeMap<Id, BTreeSet<ReleaseKey>>>,
}

impl Undelivered {
    /// The names of the notices whose messages about a custom resource wait; `None` before all notices were seen, since after a restart
    /// the status is right until more is known.
    pub fn of(&self, key: &ReleaseKey) -> Option<Vec<String>> {
        let all = self.by_notice.lock().unwrap_or_else(PoisonError::into_inner);
        let found: Vec<String> =
            all.iter().filter(|(_, keys)| keys.contains(key)).map(|((_, name), _)| name.to_string()).collect();
        (self.is_known.load(Ordering::Acquire) || !found.is_empty()).then_some(found)
    }

    /// Enters all custom resources of a notice; those for which that is news.
    pub fn set(&self, notice: &Id, keys: BTreeSet<ReleaseKey>) -> Vec<ReleaseKey> {
        let mut all = self.by_notice.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.remove(notice).unwrap_or_default();
        let news = before.symmetric_difference(&keys).cloned().collect();
        if !keys.is_empty() {
            all.insert(notice.clone(), keys);
        }
        news
    }

    /// Enters that all notices were seen, or that there are none. Returns whether that is news.
    pub fn know(&self) -> bool {
        !self.is_known.swap(true, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use super::Undelivered;
    use crate::cluster::cache::ReleaseKey;

    fn key(name: &str) -> ReleaseKey {
        ReleaseKey { kind: 0, namespace: "shop".into(), name: name.into() }
    }

    #[test]
    fn what_changes_is_news_and_nothing_is_said_before_all_is_known() {
        let (undelivered, ops) = (Undelivered::default(), ("shop".into(), "ops".into()));
        assert_eq!(undelivered.of(&key("a")), None);
        assert_eq!(undelivered.set(&ops, [key("a")].into()), [key("a")]);
        assert_eq!(undelivered.of(&key("a")), Some(vec!["ops".to_owned()]), "this much is known");
        assert!(undelivered.know() && !undelivered.know());
        assert_eq!(undelivered.of(&key("b")), Some(vec![]));
        assert_eq!(undelivered.set(&ops, [key("a"), key("b")].into()), [key("b")]);
        assert_eq!(undelivered.set(&ops, [key("a"), key("b")].into()), []);
        assert_eq!(undelivered.set(&ops, [].into()), [key("a"), key("b")]);
        assert_eq!(undelivered.of(&key("a")), Some(vec![]));
    }
}

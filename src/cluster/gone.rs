//! The deletions that watches have observed. The answer to one of our own requests may arrive after a watch has
//! reported the deletion of the object. It must not bring the object back, since no event would remove it again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Twice the timeout of a request: no answer arrives later.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The recently deleted objects by uid, with the version of their deletion.
#[derive(Default)]
pub struct Gone {
    known: HashMap<Arc<str>, (u64, Instant)>,
    order: VecDeque<(Instant, Arc<str>)>,
}

impl Gone {
    /// Enters that an object was deleted, or no longer matches a watch's selector, in this version.
    pub fn enter(&mut self, uid: &str, version: u64) {
        self.enter_at(uid, version, Instant::now());
    }

    fn enter_at(&mut self, uid: &str, version: u64, now: Instant) {
        while self.order.front().is_some_and(|(at, _)| is_over(*at, now)) {
            let Some((_, uid)) = self.order.pop_front() else { break };
            // The object may have been deleted again since.
            if self.known.get(&uid).is_some_and(|(_, at)| is_over(*at, now)) {
                self.known.remove(&uid);
            }
        }
        let version = self.known.get(uid).map_or(version, |(known, _)| version.max(*known));
        let uid: Arc<str> = uid.into();
        self.known.insert(Arc::clone(&uid), (version, now));
        self.order.push_back((now, uid));
    }

    /// Whether an object in this version was deleted since. An object that only did not match the selector returns in a
    /// later version.
    pub fn has(&self, uid: &str, version: u64) -> bool {
        self.has_at(uid, version, Instant::now())
    }

    fn has_at(&self, uid: &str, version: u64, now: Instant) -> bool {
        self.known.get(uid).is_some_and(|(gone, at)| *gone >= version && !is_over(*at, now))
    }
}

fn is_over(at: Instant, now: Instant) -> bool {
    now.duration_since(at) > REMEMBERED
}

#[cfg(test)]
mod tests {
    use super::{Gone, REMEMBERED};
    use std::time::{Duration, Instant};

    #[test]
    fn what_went_is_known_up_to_its_version_and_for_a_while() {
        let (mut gone, start) = (Gone::default(), Instant::now());
        gone.enter_at("a", 5, start);
        let has = |gone: &Gone, uid: &str, version: u64| gone.has_at(uid, version, start);
        assert!(has(&gone, "a", 4) && has(&gone, "a", 5) && !has(&gone, "a", 6) && !has(&gone, "b", 1));
        // It returned and was deleted again; older versions change nothing.
        let again = start + Duration::from_secs(1);
        gone.enter_at("a", 9, again);
        gone.enter_at("a", 7, again);
        assert!(has(&gone, "a", 9) && !has(&gone, "a", 10));
        // Its time counts from its last deletion.
        let late = start + REMEMBERED + Duration::from_millis(1);
        gone.enter_at("b", 1, late);
        assert!(gone.has_at("a", 9, late) && !gone.has_at("a", 9, again + REMEMBERED + Duration::from_millis(1)));
        gone.enter_at("c", 1, late + REMEMBERED);
        assert!(gone.has_at("b", 1, late + REMEMBERED));
        assert_eq!((gone.known.len(), gone.order.len()), (2, 2));
    }
}

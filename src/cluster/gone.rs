//! What watches have seen go. The answer to one of our own requests may come later than a watch's word that its object is gone; it
//! must not bring the object back, which no event would ever take away again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Twice as long as a request may take: no answer comes later.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The objects that went lately, by their uid, with the version in which they went.
#[derive(Default)]
pub struct Gone {
    known: HashMap<Arc<str>, (u64, Instant)>,
    order: VecDeque<(Instant, Arc<str>)>,
}

impl Gone {
    /// An object went, or left what a watch selects, in this version.
    pub fn enter(&mut self, uid: &str, version: u64) {
        self.enter_at(uid, version, Instant::now());
    }

    fn enter_at(&mut self, uid: &str, version: u64, now: Instant) {
        while self.order.front().is_some_and(|(at, _)| is_over(*at, now)) {
            let Some((_, uid)) = self.order.pop_front() else { break };
            // It may have gone again since.
            if self.known.get(&uid).is_some_and(|(_, at)| is_over(*at, now)) {
                self.known.remove(&uid);
            }
        }
        let version = self.known.get(uid).map_or(version, |(known, _)| version.max(*known));
        let uid: Arc<str> = uid.into();
        self.known.insert(Arc::clone(&uid), (version, now));
        self.order.push_back((now, uid));
    }

    /// Whether an object in this version is one that went since. One that only left what a watch selects comes back in a later one.
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
        // It came back and went again; what is older changes nothing.
        let again = start + Duration::from_secs(1);
        gone.enter_at("a", 9, again);
        gone.enter_at("a", 7, again);
        assert!(has(&gone, "a", 9) && !has(&gone, "a", 10));
        // Its time counts from the last time that it went.
        let late = start + REMEMBERED + Duration::from_millis(1);
        gone.enter_at("b", 1, late);
        assert!(gone.has_at("a", 9, late) && !gone.has_at("a", 9, again + REMEMBERED + Duration::from_millis(1)));
        gone.enter_at("c", 1, late + REMEMBERED);
        assert!(gone.has_at("b", 1, late + REMEMBERED));
        assert_eq!((gone.known.len(), gone.order.len()), (2, 2));
    }
}

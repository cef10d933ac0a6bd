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
    versions: HashMap<Arc<str>, u64>,
    order: VecDeque<(Instant, Arc<str>)>,
}

impl Gone {
    /// An object went, or left what a watch selects, in this version.
    pub fn enter(&mut self, uid: &str, version: u64) {
        self.enter_at(uid, version, Instant::now());
    }

    fn enter_at(&mut self, uid: &str, version: u64, now: Instant) {
        while self.order.front().is_some_and(|(at, _)| now.duration_since(*at) > REMEMBERED) {
            if let Some((_, uid)) = self.order.pop_front() {
                self.versions.remove(&uid);
            }
        }
        if let Some(known) = self.versions.get_mut(uid) {
            *known = version.max(*known);
            return;
        }
        let uid: Arc<str> = uid.into();
        self.versions.insert(Arc::clone(&uid), version);
        self.order.push_back((now, uid));
    }

    /// Whether an object in this version is one that went since. One that only left what a watch selects comes back in a later one.
    pub fn has(&self, uid: &str, version: u64) -> bool {
        self.versions.get(uid).is_some_and(|gone| *gone >= version)
    }
}

#[cfg(test)]
mod tests {
    use super::{Gone, REMEMBERED};
    use std::time::{Duration, Instant};

    #[test]
    fn what_went_is_known_up_to_its_version_and_for_a_while() {
        let (mut gone, start) = (Gone::default(), Instant::now());
        gone.enter_at("a", 5, start);
        assert_eq!(
            (gone.has("a", 4), gone.has("a", 5), gone.has("a", 6), gone.has("b", 1)),
            (true, true, false, false)
        );
        // It came back and went again; what is older changes nothing.
        gone.enter_at("a", 9, start);
        gone.enter_at("a", 7, start);
        assert_eq!((gone.has("a", 9), gone.has("a", 10)), (true, false));
        gone.enter_at("b", 1, start + REMEMBERED);
        assert!(gone.has("a", 9));
        gone.enter_at("c", 1, start + REMEMBERED + Duration::from_nanos(1));
        assert_eq!((gone.has("a", 9), gone.has("b", 1), gone.versions.len(), gone.order.len()), (false, true, 2, 2));
    }
}

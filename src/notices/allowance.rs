//! How many people the notices of one namespace, and all notices, can write to in an hour. Each notice has a limit of its own
//! (`maxPerHour`), but nothing limits how many notices somebody makes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Recipients of one namespace in an hour, by default.
pub const PER_NAMESPACE: usize = 1000;
/// How many times that all namespaces have together.
const NAMESPACES: usize = 10;
const HOUR: i64 = 3600;

/// The messages of the last hour.
#[derive(Debug)]
pub struct Allowance {
    per_namespace: usize,
    /// When how many recipients got a message, by namespace.
    sent: BTreeMap<Arc<str>, VecDeque<(i64, usize)>>,
}

impl Allowance {
    /// An allowance of so many recipients for each namespace.
    pub fn new(per_namespace: usize) -> Self {
        Self { per_namespace, sent: BTreeMap::new() }
    }

    /// Enters that a message was taken for so many recipients.
    pub fn note(&mut self, namespace: &Arc<str>, recipients: usize, now: i64) {
        let sent = self.sent.entry(Arc::clone(namespace)).or_default();
        match sent.back_mut().filter(|(at, _)| *at == now) {
            Some((_, count)) => *count += recipients,
            None => sent.push_back((now, recipients)),
        }
    }

    /// To how many recipients messages of a namespace can go now, if attempts for so many run in it and in all.
    ///
    /// # Errors
    /// When there is room again: seconds since 1970. Nothing can be sent now.
    pub fn room(&mut self, namespace: &str, (of_namespace, of_all): (usize, usize), now: i64) -> Result<usize, i64> {
        self.sent.values_mut().for_each(|sent| {
            while sent.front().is_some_and(|(at, _)| *at <= now - HOUR) {
                sent.pop_front();
            }
        });
        self.sent.retain(|_, sent| !sent.is_empty());
        let count = |sent: &VecDeque<(i64, usize)>| sent.iter().map(|(_, count)| count).sum::<usize>();
        let all: usize = self.sent.values().map(count).sum::<usize>() + of_all;
        let own = self.sent.get(namespace).map_or(0, count) + of_namespace;
        let left_of_all = (self.per_namespace * NAMESPACES).saturating_sub(all);
        let left = self.per_namespace.saturating_sub(own).min(left_of_all);
        if left > 0 {
            return Ok(left);
        }
        let oldest = |sent: &VecDeque<(i64, usize)>| sent.front().map(|(at, _)| at + HOUR);
        let first = if left_of_all == 0 {
            self.sent.values().filter_map(oldest).min()
        } else {
            self.sent.get(namespace).and_then(oldest)
        };
        // Nothing was taken yet, and what runs takes all: it ends soon.
        Err(first.unwrap_or(now + 1))
    }

    /// The limit of one namespace.
    pub fn per_namespace(&self) -> usize {
        self.per_namespace
    }
}

#[cfg(test)]
mod tests {
    use super::Allowance;

    #[test]
    fn a_namespace_and_all_have_a_limit_for_an_hour() {
        let mut allowance = Allowance::new(100);
        let (a, b) = ("a".into(), "b".into());
        assert_eq!(allowance.room("a", (0, 0), 0), Ok(100));
        allowance.note(&a, 60, 0);
        allowance.note(&a, 30, 10);
        assert_eq!(allowance.room("a", (0, 0), 10), Ok(10));
        assert_eq!(allowance.room("a", (10, 10), 10), Err(3600), "attempts that run count");
        assert_eq!(allowance.room("b", (0, 10), 10), Ok(100), "others go on");
        allowance.note(&a, 10, 20);
        assert_eq!(allowance.room("a", (0, 0), 20), Err(3600));
        assert_eq!(allowance.room("a", (0, 0), 3600), Ok(60));
        assert_eq!(allowance.room("c", (100, 100), 3600), Err(3601));
        for at in 0..10 {
            allowance.note(&b, 100, 4000 + at);
        }
        assert_eq!(allowance.room("c", (0, 0), 4010), Err(7600), "all together have ten times as much");
    }
}

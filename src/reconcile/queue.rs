//! The queue of releases that wait for a pass, as client-go's workqueue: a key waits at most once, no key has two passes at
//! once, and one that failed comes back after its own, growing pause.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::cluster::cache::ReleaseKey;
use crate::plan::attempts;
use crate::server::metrics::{Metrics, QueueAge};

/// The queue.
pub struct Queue {
    state: Mutex<State>,
    wake: Notify,
    metrics: Arc<Metrics>,
    /// Seconds are counted from here.
    started: Instant,
}

const SECOND: Duration = Duration::from_secs(1);

#[derive(Default)]
struct State {
    ready: VecDeque<ReleaseKey>,
    /// Since when each key of `ready` waits.
    waiting: HashMap<ReleaseKey, Instant>,
    /// Since when each pass runs.
    running: HashMap<ReleaseKey, Instant>,
    /// Keys that something happened to while their pass ran.
    again: HashSet<ReleaseKey>,
    /// When a key is due; an entry of the heap that says otherwise is outdated.
    due: HashMap<ReleaseKey, Instant>,
    heap: BinaryHeap<Reverse<(Instant, ReleaseKey)>>,
    failures: HashMap<ReleaseKey, u32>,
    /// Keys to which nothing happened since their pass found nothing to do, their period, and when a schedule of theirs is due.
    resting: HashMap<ReleaseKey, (Duration, Option<i64>)>,
    closed: bool,
}

impl Queue {
    /// An empty queue.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { state: Mutex::default(), wake: Notify::new(), metrics, started: Instant::now() }
    }

    /// A key deserves a pass now.
    pub fn add(&self, key: ReleaseKey) {
        let mut state = self.lock();
        if state.add(key) {
            self.metrics.queue(state.ready.len(), true, false);
            drop(state);
            self.wake.notify_one();
        }
    }

    /// Some keys deserve a pass now.
    pub fn add_all(&self, keys: impl IntoIterator<Item = ReleaseKey>) {
        for key in keys {
            self.add(key);
        }
    }

    /// The next key; `None` when the queue is closed.
    pub async fn next(&self) -> Option<ReleaseKey> {
        loop {
            let woken = self.wake.notified();
            let pause = {
                let mut state = self.lock();
                if state.closed {
                    return None;
                }
                let pause = state.release_due(Instant::now());
                if let Some((key, since)) = state.take() {
                    self.metrics.waited(since.elapsed());
                    self.metrics.queue(state.ready.len(), false, false);
                    if !state.ready.is_empty() {
                        self.wake.notify_one();
                    }
                    return Some(key);
                }
                pause
            };
            match pause {
                Some(pause) => {
                    // Whoever wakes takes what is due; the others find nothing and sleep on.
                    let _ = tokio::time::timeout(pause, woken).await;
                }
                None => woken.await,
            }
        }
    }

    /// The pass over a key ended well; the next is due after a time, or when something happens.
    pub fn done(&self, key: &ReleaseKey, after: Option<Duration>) {
        let mut state = self.lock();
        state.failures.remove(key);
        state.resting.remove(key);
        self.finish(state, key, after);
    }

    /// The pass over a key found nothing to do; the next look is due when its period is over, or up to a second later: what is
    /// due in the same second is looked at in one go, or a thousand releases at rest would wake the process all the time. A
    /// schedule is `due` by the clock, in seconds since 1970.
    pub fn rest(&self, key: &ReleaseKey, period: Duration, due: Option<i64>) {
        let mut state = self.lock();
        state.failures.remove(key);
        state.resting.insert(key.clone(), (period, due));
        let over = (self.started.elapsed() + period).as_secs_f64();
        let late = if period < SECOND { 0.0 } else { over.ceil() - over };
        let after = period + Duration::from_secs_f64(late);
        let left = due.and_then(|due| u64::try_from(due - jiff::Timestamp::now().as_second()).ok());
        self.finish(state, key, Some(left.map_or(after, |left| after.min(Duration::from_secs(left)))));
    }

    /// The period of a key to which nothing has happened since its last pass found nothing to do, and when a schedule is due.
    pub fn at_rest(&self, key: &ReleaseKey) -> Option<(Duration, Option<i64>)> {
        self.lock().resting.get(key).copied()
    }

    /// Whether more passes wait than can be made.
    pub fn is_busy(&self) -> bool {
        !self.lock().ready.is_empty()
    }

    /// The pass over a key failed; it comes back after a pause.
    pub fn failed(&self, key: &ReleaseKey) {
        let mut state = self.lock();
        state.resting.remove(key);
        let failures = state.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        let pause = with_jitter(attempts::pause(u64::from(*failures)));
        self.metrics.queue(state.ready.len(), false, true);
        self.finish(state, key, Some(pause));
    }

    /// Lets the workers end after their pass.
    pub fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_waiters();
        // A worker between its look and its sleep takes this one.
        self.wake.notify_one();
    }

    /// How old what waits and runs is.
    pub fn age(&self) -> QueueAge {
        let state = self.lock();
        let running = || state.running.values().map(Instant::elapsed);
        let first = state.ready.front().and_then(|key| state.waiting.get(key));
        QueueAge {
            oldest: first.map(Instant::elapsed).unwrap_or_default(),
            unfinished: running().sum(),
            longest: running().max().unwrap_or_default(),
        }
    }

    fn finish(&self, mut state: MutexGuard<'_, State>, key: &ReleaseKey, after: Option<Duration>) {
        state.running.remove(key);
        if let Some(after) = after {
            let at = Instant::now() + after;
            state.due.insert(key.clone(), at);
            state.heap.push(Reverse((at, key.clone())));
        }
        if state.again.remove(key) {
            state.add(key.clone());
        }
        drop(state);
        // The sleepers' pause may have changed.
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, key: ReleaseKey) -> bool {
        self.resting.remove(&key);
        self.push(key)
    }

    fn push(&mut self, key: ReleaseKey) -> bool {
        if self.closed {
            return false;
        }
        if self.running.contains_key(&key) {
            self.again.insert(key);
            return false;
        }
        if self.waiting.contains_key(&key) {
            return false;
        }
        self.waiting.insert(key.clone(), Instant::now());
        self.ready.push_back(key);
        true
    }

    fn take(&mut self) -> Option<(ReleaseKey, Instant)> {
        let key = self.ready.pop_front()?;
        let since = self.waiting.remove(&key).unwrap_or_else(Instant::now);
        self.due.remove(&key);
        self.running.insert(key.clone(), Instant::now());
        Some((key, since))
    }

    /// Moves what is due to the ready ones; answers how long until the next is.
    fn release_due(&mut self, now: Instant) -> Option<Duration> {
        while let Some(Reverse((at, key))) = self.heap.peek() {
            let current = self.due.get(key) == Some(at);
            if current && *at > now {
                return Some(*at - now);
            }
            let Some(Reverse((_, key))) = self.heap.pop() else { break };
            if current {
                self.due.remove(&key);
                self.push(key);
            }
        }
        None
    }
}

/// A pause and up to half as much again, so that what failed together does not come back together.
pub fn with_jitter(pause: Duration) -> Duration {
    pause.mul_f64(1.0 + f64::from(crate::cluster::watch::fastrand_percent()) / 200.0)
}

#[cfg(test)]
mod tests {
    use super::{Queue, with_jitter};
    use crate::cluster::cache::ReleaseKey;
    use crate::server::metrics::{Metrics, QueueAge};
    use std::sync::Arc;
    use std::time::Duration;

    fn key(name: &str) -> ReleaseKey {
        ReleaseKey { kind: 0, namespace: "ns".into(), name: name.into() }
    }

    fn queue() -> Queue {
        Queue::new(Arc::new(Metrics::new()))
    }

    async fn is_empty(queue: &Queue) -> bool {
        tokio::time::timeout(Duration::from_millis(20), queue.next()).await.is_err()
    }

    #[tokio::test]
    async fn a_key_waits_at_most_once() {
        let queue = queue();
        queue.add_all([key("a"), key("a"), key("b")]);
        assert_eq!((queue.next().await, queue.next().await), (Some(key("a")), Some(key("b"))));
        assert!(is_empty(&queue).await);
    }

    #[tokio::test]
    async fn a_key_whose_pass_runs_comes_back_after_it() {
        let queue = queue();
        queue.add(key("a"));
        queue.next().await;
        queue.add(key("a"));
        assert!(is_empty(&queue).await);
        queue.done(&key("a"), None);
        assert_eq!(queue.next().await, Some(key("a")));
    }

    #[tokio::test]
    async fn a_key_comes_back_when_it_is_due_and_only_then() {
        let queue = queue();
        queue.add(key("a"));
        queue.next().await;
        queue.done(&key("a"), Some(Duration::from_millis(60)));
        assert!(is_empty(&queue).await);
        assert_eq!(queue.next().await, Some(key("a")));
        queue.done(&key("a"), None);
        assert!(is_empty(&queue).await);
    }

    #[tokio::test]
    async fn what_rests_does_so_until_something_happens_to_it() {
        let (queue, period) = (queue(), Duration::from_millis(1));
        queue.add(key("a"));
        let a = queue.next().await.unwrap();
        assert_eq!(queue.at_rest(&a), None);
        queue.rest(&a, period, Some(7));
        assert_eq!(queue.next().await.unwrap(), a);
        assert_eq!(queue.at_rest(&a), Some((period, Some(7))), "its period is over, and nothing has happened");
        queue.rest(&a, period, None);
        queue.add(a.clone());
        assert_eq!(queue.next().await.unwrap(), a);
        assert_eq!(queue.at_rest(&a), None);
        // A pass that its period brought about finds something to do.
        queue.rest(&a, period, None);
        assert_eq!(queue.next().await.unwrap(), a);
        queue.done(&a, Some(period));
        assert_eq!(queue.next().await.unwrap(), a);
        assert_eq!(queue.at_rest(&a), None);
        // Something happens while it is looked at.
        queue.add(a.clone());
        queue.rest(&a, period, None);
        assert_eq!(queue.next().await.unwrap(), a);
        assert_eq!(queue.at_rest(&a), None);
    }

    #[tokio::test]
    async fn it_tells_how_old_what_waits_and_what_runs_is() {
        let queue = queue();
        assert_eq!(queue.age(), QueueAge::default());
        queue.add_all([key("a"), key("b"), key("c")]);
        assert!(queue.age().oldest > Duration::ZERO);
        queue.next().await;
        queue.next().await;
        let age = queue.age();
        assert!(age.unfinished > age.longest && age.longest > Duration::ZERO && age.oldest > Duration::ZERO, "{age:?}");
        queue.next().await;
        for name in ["a", "b", "c"] {
            queue.done(&key(name), None);
        }
        assert_eq!(queue.age(), QueueAge::default());
    }

    #[tokio::test]
    async fn a_closed_queue_lets_the_workers_end() {
        let queue = Arc::new(queue());
        let waiting = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { queue.next().await }
        });
        tokio::task::yield_now().await;
        queue.close();
        assert_eq!(waiting.await.unwrap(), None);
    }

    #[test]
    fn jitter_makes_a_pause_longer_by_half_at_most() {
        let pause = Duration::from_secs(2);
        for _ in 0..100 {
            let longer = with_jitter(pause);
            assert!(longer >= pause && longer <= pause * 3 / 2, "{longer:?}");
        }
    }
}

//! The queue of releases that wait for a pass. It works like client-go's workqueue: a key waits at most once, a key
//! never has two passes at the same time, and a key that failed returns after its own, growing pause.
//!
//! One task, [`Queue::follow`], handles what is due by the clock. Workers have no timers: a thousand releases at rest
//! do not wake any worker.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::cluster::cache::ReleaseKey;
use crate::cluster::progress::Progress;
use crate::kind::duration::MAX;
use crate::plan::attempts;
use crate::telemetry::metrics::{Metrics, QueueAge};

/// The queue.
pub struct Queue {
    state: Mutex<State>,
    wake: Notify,
    /// Notified when a key becomes due earlier than all others.
    sooner: Notify,
    metrics: Arc<Metrics>,
    /// The start of the clock.
    started: Instant,
}

const SECOND: Duration = Duration::from_secs(1);
/// The number of releases at rest to check before other tasks get their turn.
const LOOKS: usize = 100;

#[derive(Default)]
struct State {
    ready: VecDeque<ReleaseKey>,
    /// When each key of `ready` began to wait.
    waiting: HashMap<ReleaseKey, Instant>,
    /// The progress of each running pass.
    running: HashMap<ReleaseKey, Progress>,
    /// When a pass last began or ended.
    moved: Option<Instant>,
    /// Keys for which something happened while their pass ran.
    again: HashSet<ReleaseKey>,
    /// When a key is due. An entry of the heap with another time is outdated.
    due: HashMap<ReleaseKey, Instant>,
    heap: BinaryHeap<Reverse<(Instant, ReleaseKey)>>,
    failures: HashMap<ReleaseKey, u32>,
    /// Keys for which nothing has happened since their pass found nothing to do.
    resting: HashMap<ReleaseKey, Resting>,
    /// When these keys are checked. An entry is outdated if the key rests until another time, or no longer rests.
    looks: BTreeMap<Instant, Vec<ReleaseKey>>,
    closed: bool,
}

/// Something that has made no progress for a long time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// The pass over a custom resource.
    Pass(ReleaseKey, Duration),
    /// This many custom resources wait, and no pass begins or ends.
    Workers(usize, Duration),
    /// Keys that are due by the clock are not added to the queue.
    Clock(Duration),
}

/// How long a release stays at rest.
#[derive(Clone, Copy)]
struct Resting {
    period: Duration,
    /// When the release is checked.
    until: Instant,
    /// When one of its schedules is due, in seconds since 1970.
    due: Option<i64>,
    /// The result of its last check.
    seen: Option<u64>,
}

impl Queue {
    /// An empty queue.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { state: Mutex::default(), wake: Notify::new(), sooner: Notify::new(), metrics, started: Instant::now() }
    }

    /// Adds a key that needs a pass now.
    pub fn add(&self, key: ReleaseKey) {
        let mut state = self.lock();
        if state.add(key) {
            self.metrics.queue(state.ready.len(), true, false);
            drop(state);
            self.wake.notify_one();
        }
    }

    /// Adds keys that need a pass now.
    pub fn add_all(&self, keys: impl IntoIterator<Item = ReleaseKey>) {
        for key in keys {
            self.add(key);
        }
    }

    /// The next key. Returns `None` when the queue is closed.
    pub async fn next(&self) -> Option<ReleaseKey> {
        loop {
            let woken = self.wake.notified();
            {
                let mut state = self.lock();
                if state.closed {
                    return None;
                }
                if let Some((key, since)) = state.take() {
                    self.metrics.waited(since.elapsed());
                    self.metrics.queue(state.ready.len(), false, false);
                    if !state.ready.is_empty() {
                        self.wake.notify_one();
                    }
                    return Some(key);
                }
            }
            woken.await;
        }
    }

    /// Adds keys when they are due, for as long as the future is polled. A release at rest is only checked by `look`.
    /// If nothing has changed, `look` returns a value for its next call, and the release stays at rest.
    pub async fn follow(&self, look: impl Fn(&ReleaseKey, Option<u64>) -> Option<u64>) {
        loop {
            let sooner = self.sooner.notified();
            let now = Instant::now();
            let (due, looks, next) = {
                let mut state = self.lock();
                (state.release_due(now), state.release_looks(now), state.first())
            };
            if due.is_empty() && looks.is_empty() {
                match next {
                    Some(next) => drop(tokio::time::timeout_at(next.into(), sooner).await),
                    None => sooner.await,
                }
                continue;
            }
            self.add_all(due);
            let clock = jiff::Timestamp::now().as_second();
            let keys = looks.into_iter().flat_map(|(until, keys)| keys.into_iter().map(move |key| (until, key)));
            for (looked_at, (until, key)) in keys.enumerate() {
                self.look(key, until, clock, &look);
                // Passes must not wait for the check of ten thousand releases.
                if looked_at % LOOKS == LOOKS - 1 {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Checks a release that rests `until` then, if it still does.
    fn look(
        &self,
        key: ReleaseKey,
        until: Instant,
        clock: i64,
        look: impl Fn(&ReleaseKey, Option<u64>) -> Option<u64>,
    ) {
        let resting = |state: &State| state.resting.get(&key).copied().filter(|resting| resting.until == until);
        let Some(before) = resting(&self.lock()) else { return };
        let is_due = before.due.is_some_and(|due| due <= clock);
        let Some(seen) = (if is_due { None } else { look(&key, before.seen) }) else { return self.add(key) };
        let after = Resting { seen: Some(seen), until: self.until(before.period, before.due), ..before };
        let mut state = self.lock();
        // Something may have happened to the release in the meantime.
        if resting(&state).is_some() {
            state.rest(key, after);
        }
    }

    /// The pass over a key succeeded. The next one is due after a time, or when something happens.
    pub fn done(&self, key: &ReleaseKey, after: Option<Duration>) {
        let mut state = self.lock();
        state.failures.remove(key);
        state.resting.remove(key);
        let sooner = after.is_some_and(|after| state.set_due(key, later(after)));
        self.finish(state, key, sooner);
    }

    /// The pass over a key found nothing to do. The next check is due when the period is over, or up to a twelfth of it
    /// later: checks that are due together run in one go, because separate checks of a thousand releases would wake the
    /// process all the time. `due` is the time of a schedule, in seconds since 1970.
    pub fn rest(&self, key: &ReleaseKey, period: Duration, due: Option<i64>) {
        let until = self.until(period, due);
        let mut state = self.lock();
        state.failures.remove(key);
        let sooner = state.rest(key.clone(), Resting { period, until, due, seen: None });
        self.finish(state, key, sooner);
    }

    /// When a release that comes to rest now is checked: the same time for all releases that do so within a twelfth of
    /// the period.
    fn until(&self, period: Duration, due: Option<i64>) -> Instant {
        let period = period.min(MAX);
        let over = self.started.elapsed() + period;
        let step = (period / 12).max(SECOND).as_nanos();
        let late = if period < SECOND { 0 } else { over.as_nanos().next_multiple_of(step) - over.as_nanos() };
        let until = self.started + over + Duration::from_nanos(u64::try_from(late).unwrap_or_default());
        let left = due.and_then(|due| u64::try_from(due.saturating_sub(jiff::Timestamp::now().as_second())).ok());
        left.map_or(until, |left| until.min(later(Duration::from_secs(left))))
    }

    /// Whether keys wait because all workers are busy.
    pub fn is_busy(&self) -> bool {
        !self.lock().ready.is_empty()
    }

    /// The pass over a key failed. The key returns after a pause.
    pub fn failed(&self, key: &ReleaseKey) {
        let mut state = self.lock();
        state.resting.remove(key);
        let failures = state.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        let pause = with_jitter(attempts::pause(u64::from(*failures)));
        self.metrics.queue(state.ready.len(), false, true);
        let sooner = state.set_due(key, later(pause));
        self.finish(state, key, sooner);
    }

    /// The number of failed passes over a key in a row.
    pub fn failures(&self, key: &ReleaseKey) -> u32 {
        self.lock().failures.get(key).copied().unwrap_or_default()
    }

    /// Lets the workers end after their current passes.
    pub fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_waiters();
        // A worker between its check of the queue and its sleep receives this one.
        self.wake.notify_one();
    }

    /// The progress of the pass over a key, where the pass records its steps.
    pub fn progress(&self, key: &ReleaseKey) -> Progress {
        self.lock().running.get(key).cloned().unwrap_or_default()
    }

    /// The work that has made no progress for this long.
    pub fn stuck(&self, limit: Duration) -> Option<Stuck> {
        let state = self.lock();
        let now = Instant::now();
        let age = |since: Instant| now.saturating_duration_since(since);
        let slowest = state.running.iter().min_by_key(|(_, progress)| progress.last());
        if let Some((key, progress)) = slowest.filter(|(_, progress)| age(progress.last()) >= limit) {
            return Some(Stuck::Pass(key.clone(), age(progress.last())));
        }
        // A running pass is making progress, so the workers are not stuck.
        let oldest = state.ready.front().and_then(|key| state.waiting.get(key)).copied();
        if let Some(oldest) = oldest.filter(|_| state.running.is_empty()) {
            let since = oldest.max(state.moved.unwrap_or(oldest));
            if age(since) >= limit {
                return Some(Stuck::Workers(state.ready.len(), age(since)));
            }
        }
        state.first().map(age).filter(|late| *late >= limit).map(Stuck::Clock)
    }

    /// The ages of waiting and running keys.
    pub fn age(&self) -> QueueAge {
        let state = self.lock();
        let now = Instant::now();
        let age = |since: &Instant| now.duration_since(*since);
        let running = || state.running.values().map(|progress| age(&progress.began()));
        let first = state.ready.front().and_then(|key| state.waiting.get(key));
        QueueAge {
            oldest: first.map(age).unwrap_or_default(),
            unfinished: running().sum(),
            longest: running().max().unwrap_or_default(),
        }
    }

    fn finish(&self, mut state: MutexGuard<'_, State>, key: &ReleaseKey, sooner: bool) {
        state.running.remove(key);
        state.moved = Some(Instant::now());
        let again = state.again.remove(key) && state.add(key.clone());
        drop(state);
        if sooner {
            self.sooner.notify_one();
        }
        if again {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, key: ReleaseKey) -> bool {
        self.resting.remove(&key);
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
        self.running.insert(key.clone(), Progress::default());
        self.moved = Some(Instant::now());
        Some((key, since))
    }

    /// Sets when a key is due. Returns whether that is earlier than all others.
    fn set_due(&mut self, key: &ReleaseKey, at: Instant) -> bool {
        let sooner = self.first().is_none_or(|first| at < first);
        self.due.insert(key.clone(), at);
        self.heap.push(Reverse((at, key.clone())));
        sooner
    }

    /// Sets when a key at rest is checked. Returns whether that is earlier than all others.
    fn rest(&mut self, key: ReleaseKey, resting: Resting) -> bool {
        let sooner = self.first().is_none_or(|first| resting.until < first);
        self.resting.insert(key.clone(), resting);
        self.looks.entry(resting.until).or_default().push(key);
        sooner
    }

    /// When the next key is due or checked.
    fn first(&self) -> Option<Instant> {
        let due = self.heap.peek().map(|Reverse((at, _))| *at);
        let look = self.looks.keys().next().copied();
        due.into_iter().chain(look).min()
    }

    /// Removes and returns the keys that are due.
    fn release_due(&mut self, now: Instant) -> Vec<ReleaseKey> {
        let mut released = Vec::new();
        while let Some(Reverse((at, key))) = self.heap.peek() {
            let current = self.due.get(key) == Some(at);
            if current && *at > now {
                break;
            }
            let Some(Reverse((_, key))) = self.heap.pop() else { break };
            if current {
                self.due.remove(&key);
                released.push(key);
            }
        }
        released
    }

    /// Removes and returns the keys to check, with the times of their checks.
    fn release_looks(&mut self, now: Instant) -> Vec<(Instant, Vec<ReleaseKey>)> {
        let mut released = Vec::new();
        while let Some(group) = self.looks.first_entry().filter(|group| *group.key() <= now) {
            released.push(group.remove_entry());
        }
        released
    }
}

/// The time after this duration. Times come from users and records, and one that is too late for an [`Instant`] would
/// panic.
fn later(after: Duration) -> Instant {
    Instant::now() + after.min(MAX)
}

/// A pause plus up to half of it, so that keys that failed together do not return together.
pub fn with_jitter(pause: Duration) -> Duration {
    pause.min(MAX).mul_f64(1.0 + f64::from(crate::cluster::watch::fastrand_percent()) / 200.0)
}

#[cfg(test)]
mod tests {
    use super::{MAX, Queue, Stuck, with_jitter};
    use crate::cluster::cache::ReleaseKey;
    use crate::telemetry::metrics::{Metrics, QueueAge};
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

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

    /// Follows the clock beside the test. Returns what the checks of resting keys answer.
    fn follow(queue: &Arc<Queue>, looks: &Arc<AtomicUsize>, is_as_it_should_be: bool) {
        let (queue, looks) = (Arc::clone(queue), Arc::clone(looks));
        tokio::spawn(async move {
            let look = |_: &ReleaseKey, seen: Option<u64>| {
                // The answer of the last check, and `None` at first.
                assert_eq!(seen.unwrap_or_default(), looks.fetch_add(1, Ordering::Relaxed) as u64);
                is_as_it_should_be.then(|| looks.load(Ordering::Relaxed) as u64)
            };
            queue.follow(look).await;
        });
    }

    /// A queue whose clock is followed, with these keys, whose passes run.
    async fn running(names: &[&str], looks: &Arc<AtomicUsize>, is_as_it_should_be: bool) -> Arc<Queue> {
        let queue = Arc::new(queue());
        follow(&queue, looks, is_as_it_should_be);
        queue.add_all(names.iter().map(|name| key(name)));
        for name in names {
            assert_eq!(queue.next().await, Some(key(name)));
        }
        queue
    }

    #[tokio::test]
    async fn a_key_comes_back_when_it_is_due_and_only_then() {
        let queue = running(&["a", "b"], &Arc::default(), true).await;
        queue.done(&key("b"), Some(Duration::from_secs(3600)));
        // Waits until the clock is followed up to this time.
        assert!(is_empty(&queue).await);
        // Earlier than the one that was the first.
        queue.done(&key("a"), Some(Duration::from_millis(60)));
        assert!(is_empty(&queue).await);
        assert_eq!(queue.next().await, Some(key("a")));
        queue.done(&key("a"), None);
        assert!(is_empty(&queue).await);
    }

    #[tokio::test]
    async fn what_rests_is_looked_at_and_no_worker_hears_of_it() {
        let looks = Arc::default();
        let queue = running(&["a", "b"], &looks, true).await;
        queue.rest(&key("a"), Duration::from_millis(1), None);
        // Its time has not come yet.
        queue.rest(&key("b"), Duration::from_secs(3600), None);
        while looks.load(Ordering::Relaxed) < 10 {
            assert!(is_empty(&queue).await);
        }
        let a = key("a");
        let rests = |queue: &Queue, key: &ReleaseKey| queue.lock().resting.contains_key(key);
        assert!(rests(&queue, &a) && rests(&queue, &key("b")));
        // An event for the key ends its rest.
        queue.add(a.clone());
        assert_eq!(queue.next().await, Some(a.clone()));
        queue.done(&a, None);
        assert!(is_empty(&queue).await);
        let before = looks.load(Ordering::Relaxed);
        assert!(is_empty(&queue).await && !rests(&queue, &a));
        assert_eq!(looks.load(Ordering::Relaxed), before);
    }

    #[tokio::test]
    async fn what_rests_for_one_period_is_looked_at_in_one_go() {
        let queue = queue();
        for seconds in [1, 12, 60, 3600] {
            let period = Duration::from_secs(seconds);
            let untils: BTreeSet<_> = (0..100).map(|_| queue.until(period, None)).collect();
            // The step may be over in the meantime.
            assert!(untils.len() <= 2, "{seconds}: {untils:?}");
            let rest = *untils.last().unwrap() - queue.started;
            assert!(
                rest >= period && rest <= period + (period / 12).max(Duration::from_secs(2)),
                "{seconds}: {rest:?}"
            );
        }
    }

    #[tokio::test]
    async fn what_rests_and_is_not_as_it_should_be_gets_a_pass() {
        let looks = Arc::default();
        let queue = running(&["a"], &looks, false).await;
        queue.rest(&key("a"), Duration::from_millis(1), None);
        assert_eq!(queue.next().await, Some(key("a")));
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        // Something happens while the pass runs.
        queue.add(key("a"));
        queue.rest(&key("a"), Duration::from_secs(3600), None);
        assert_eq!(queue.next().await, Some(key("a")));
        assert_eq!(looks.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn what_rests_gets_a_pass_when_a_schedule_of_it_is_due() {
        let looks = Arc::default();
        let queue = running(&["a"], &looks, true).await;
        queue.rest(&key("a"), Duration::from_secs(3600), Some(jiff::Timestamp::now().as_second()));
        assert_eq!(queue.next().await, Some(key("a")));
        assert_eq!(looks.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_release_that_something_happened_to_while_it_was_looked_at_does_not_rest_on() {
        let queue = queue();
        for name in ["a", "b"] {
            queue.add(key(name));
            queue.next().await;
            queue.rest(&key(name), Duration::from_secs(3600), None);
        }
        let until = *queue.lock().looks.keys().next().unwrap();
        let b = key("b");
        queue.add(b.clone());
        // An event for the key that is being checked.
        queue.look(key("a"), until, 0, |a, _| {
            queue.add(a.clone());
            Some(0)
        });
        // A key with an earlier event is not checked.
        queue.look(b, until, 0, |_, _| panic!());
        assert!(queue.lock().resting.is_empty());
    }

    #[tokio::test]
    async fn a_release_that_comes_to_rest_again_is_looked_at_once() {
        let queue = queue();
        for _ in 0..3 {
            queue.add(key("a"));
            queue.next().await;
            queue.rest(&key("a"), Duration::from_secs(1), None);
        }
        let until = queue.lock().resting[&key("a")].until;
        tokio::time::sleep_until(until.into()).await;
        let looks = queue.lock().release_looks(Instant::now());
        let looked = std::cell::Cell::new(0);
        for (until, keys) in looks {
            for key in keys {
                queue.look(key, until, 0, |_, _| {
                    looked.set(looked.get() + 1);
                    Some(0)
                });
            }
        }
        assert_eq!(looked.get(), 1);
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

    #[tokio::test]
    async fn what_does_not_get_on_is_named() {
        let (queue, long) = (queue(), Duration::from_secs(300));
        assert_eq!(queue.stuck(Duration::ZERO), None);
        queue.add(key("a"));
        assert!(matches!(queue.stuck(Duration::ZERO), Some(Stuck::Workers(1, _))));
        assert_eq!(queue.stuck(long), None);
        queue.next().await;
        assert!(matches!(queue.stuck(Duration::ZERO), Some(Stuck::Pass(name, _)) if name == key("a")));
        assert_eq!(queue.stuck(long), None);
        // While one pass makes progress, other keys may wait.
        queue.add(key("b"));
        assert_eq!(queue.stuck(long), None);
        queue.done(&key("a"), Some(Duration::ZERO));
        queue.next().await;
        queue.done(&key("b"), None);
        // Nobody follows the clock of this queue.
        assert!(matches!(queue.stuck(Duration::ZERO), Some(Stuck::Clock(_))));
        assert_eq!(queue.stuck(long), None);
    }

    #[tokio::test]
    async fn no_time_is_too_far_away() {
        let queue = queue();
        for (period, due) in
            [(Duration::MAX, None), (Duration::MAX, Some(i64::MAX)), (Duration::from_secs(60), Some(i64::MIN))]
        {
            queue.add(key("a"));
            queue.next().await;
            queue.rest(&key("a"), period, due);
            queue.add(key("a"));
            queue.next().await;
            queue.done(&key("a"), Some(period));
            assert!(with_jitter(period) >= period.min(MAX));
        }
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

//! The tasks of an operator. A task that panics, or ends unexpectedly, ends the process with the reason: an operator
//! with half of its tasks looks healthy and does nothing, while an ended process is restarted by its supervisor.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::panics::caught;
use crate::harm;

/// The tasks of one operator.
#[derive(Clone)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    fault: Arc<Mutex<Option<String>>>,
    steps: Steps,
}

impl Tasks {
    /// Starts without tasks. The token ends the operator; a task that fails cancels it.
    pub fn new(stop: CancellationToken) -> Self {
        Self { tracker: TaskTracker::new(), stop, fault: Arc::default(), steps: Steps::default() }
    }

    /// The token that ends the operator.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Runs a task that the operator cannot work without, until the stop signal.
    pub fn base(&self, name: impl Into<Arc<str>>, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(self.guarded(name.into(), false, task));
    }

    /// Runs a task that ends when it is no longer needed.
    pub fn spawn(&self, name: impl Into<Arc<str>>, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(self.guarded(name.into(), true, task));
    }

    /// Runs such a task in a group that the caller can wait for.
    pub fn spawn_in(
        &self,
        group: &TaskTracker,
        name: impl Into<Arc<str>>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        group.spawn(self.guarded(name.into(), true, task));
    }

    /// Wraps a task so that the operator ends if the task panics, or if it ends and must not end.
    pub fn guarded(
        &self,
        name: Arc<str>,
        may_end: bool,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let tasks = self.clone();
        let step = self.steps.enter(&name);
        let task = Box::pin(task);
        async move {
            let task = async {
                if !harm::at("task", &name).await {
                    task.await;
                }
            };
            let why = match caught(Stepwise { step: &step, task: pin!(task) }).await {
                Err(place) => format!("panicked at {place}"),
                Ok(()) if may_end || tasks.stop.is_cancelled() => return,
                Ok(()) => "ended, and should not have".to_owned(),
            };
            tasks.fail(format!("the task {name:?} {why}"));
        }
    }

    /// Stops an operator that cannot continue. [`Tasks::fault`] has the reason.
    pub fn fail(&self, why: String) {
        tracing::error!(%why, "the operator ends, to be started again");
        lock(&self.fault).get_or_insert(why);
        self.stop.cancel();
    }

    /// Why the operator had to stop.
    pub fn fault(&self) -> Option<String> {
        lock(&self.fault).clone()
    }

    /// Waits until all tasks have ended.
    pub async fn ended(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// A task that has not returned from one poll for longer than this, so that it blocks a thread.
    pub fn stuck(&self, limit: Duration) -> Option<String> {
        let (name, since) = self.steps.longest()?;
        let text = || format!("the task {name:?} has kept a thread for {} seconds", since.as_secs());
        (since >= limit).then(text)
    }
}

/// When each task began its current poll, for tasks that are being polled.
#[derive(Clone)]
struct Steps {
    started: Instant,
    all: Arc<Mutex<HashMap<u64, Arc<Step>>>>,
    next: Arc<AtomicU64>,
}

struct Step {
    name: Arc<str>,
    /// Milliseconds since [`Steps::started`], plus one; 0 between polls.
    since: AtomicU64,
}

impl Default for Steps {
    fn default() -> Self {
        Self { started: Instant::now(), all: Arc::default(), next: Arc::default() }
    }
}

impl Steps {
    fn enter(&self, name: &Arc<str>) -> Entered {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let step = Arc::new(Step { name: Arc::clone(name), since: AtomicU64::new(0) });
        lock(&self.all).insert(number, Arc::clone(&step));
        Entered { steps: self.clone(), number, step }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn longest(&self) -> Option<(Arc<str>, Duration)> {
        let steps = lock(&self.all);
        let since = |step: &Arc<Step>| step.since.load(Ordering::Acquire).checked_sub(1);
        let (since, name) = steps.values().filter_map(|step| Some((since(step)?, &step.name))).min()?;
        Some((Arc::clone(name), Duration::from_millis(self.now().saturating_sub(since))))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The entry of a task in [`Steps`], for as long as the task lives.
struct Entered {
    steps: Steps,
    number: u64,
    step: Arc<Step>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        lock(&self.steps.all).remove(&self.number);
    }
}

/// Records when each poll of a future begins and ends.
struct Stepwise<'a, F> {
    step: &'a Entered,
    task: Pin<&'a mut F>,
}

impl<F: Future> Future for Stepwise<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Entered { steps, step, .. } = self.step;
        step.since.store(steps.now() + 1, Ordering::Release);
        let polled = self.task.as_mut().poll(cx);
        step.since.store(0, Ordering::Release);
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::Tasks;
    use std::time::Duration;
    use tokio_util::sync::CancellationToken;

    #[tokio::test]
    async fn a_task_that_panics_or_ends_stops_the_operator_and_is_named() {
        for (may_end, panics, expected) in [
            (false, false, Some("the task \"clock\" ended, and should not have")),
            (true, false, None),
            (true, true, Some("the task \"clock\" panicked at ")),
            (false, true, Some("the task \"clock\" panicked at ")),
        ] {
            let tasks = Tasks::new(CancellationToken::new());
            tasks.guarded("clock".into(), may_end, async move { assert!(!panics, "the test panics") }).await;
            let fault = tasks.fault();
            assert_eq!(fault.is_some(), expected.is_some(), "{fault:?}");
            assert!(fault.unwrap_or_default().starts_with(expected.unwrap_or_default()));
            assert_eq!(tasks.stop().is_cancelled(), expected.is_some());
        }
    }

    #[tokio::test]
    async fn a_task_ends_in_peace_when_the_operator_does() {
        let tasks = Tasks::new(CancellationToken::new());
        let stop = tasks.stop().clone();
        tasks.base("clock", async move { stop.cancelled().await });
        tasks.stop().cancel();
        tasks.ended().await;
        assert_eq!(tasks.fault(), None);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_task_that_keeps_its_thread_is_named_and_one_that_waits_is_not() {
        let tasks = Tasks::new(CancellationToken::new());
        let (entered, blocked) = std::sync::mpsc::channel();
        let (free, freed) = std::sync::mpsc::channel::<()>();
        tasks.spawn("waits", std::future::pending());
        tasks.spawn("blocks", async move {
            entered.send(()).unwrap();
            let _ = freed.recv();
        });
        blocked.recv().unwrap();
        assert!(tasks.stuck(Duration::ZERO).unwrap().starts_with("the task \"blocks\" has kept a thread for "));
        assert_eq!(tasks.stuck(Duration::from_secs(300)), None);
        free.send(()).unwrap();
        while tasks.stuck(Duration::ZERO).is_some() {
            tokio::task::yield_now().await;
        }
    }
}

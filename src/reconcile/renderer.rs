//! Renders charts outside the workers, within limits.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

use super::error::Error;
use super::journal;
use crate::cluster::cache::ReleaseKey;
use crate::cluster::progress;
use crate::render::Stop;

/// How long a chart may render before it is stopped. kube-prometheus-stack takes 50 milliseconds.
const DEADLINE: Duration = Duration::from_secs(60);

/// How long a rendering may hold one of the shared slots.
const QUICK: Duration = Duration::from_secs(5);

/// How long a stopped rendering may take to notice. It checks every millisecond, unless it searches in a long text.
const NOTICE: Duration = Duration::from_secs(5);

/// Renders charts outside the workers, as many at a time as there are cores.
///
/// A chart can take long in many ways. Its steps, values and output are limited, but the time that its requests to the
/// API server take is not, nor is the effect of a busy machine. Custom resources with slow charts must not block the
/// rendering of others, so there are two kinds of slots. A rendering starts in a shared slot. If it has not ended after
/// [`QUICK`], it moves to a slot for slow renderings, and starts there the next time. If none of these is free, the
/// rendering is stopped and retried later. At the [`DEADLINE`] the rendering is stopped: the budget that counts its
/// steps checks for the stop.
///
/// Alternatives: a process per rendering could be killed at any moment, but it costs more than the rendering itself,
/// and all lookups of a template would have to go through a pipe. A thread cannot be killed from outside, so everything
/// that may loop has to check the budget; template functions do that anyway. With slots per kind, one custom resource
/// could block all others of its kind.
pub struct Renderer {
    quick: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    /// Custom resources whose last rendering was slow.
    known: Mutex<HashSet<ReleaseKey>>,
    /// How long a rendering may stay in a shared slot.
    share: Duration,
    /// How long a rendering may take.
    deadline: Duration,
}

impl Default for Renderer {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self::new(cores, QUICK, DEADLINE)
    }
}

/// The slot of a rendering, which changes while it runs. The rendering holds the slot until it ends, even if no pass
/// waits for it now.
type Held = Arc<Mutex<Option<OwnedSemaphorePermit>>>;

impl Renderer {
    fn new(places: usize, share: Duration, deadline: Duration) -> Self {
        let places = || Arc::new(Semaphore::new(places));
        Self { quick: places(), slow: places(), known: Mutex::default(), share, deadline }
    }

    /// Runs a rendering in a slot, and stops it at its deadline.
    pub async fn run<T: Send + 'static>(
        &self,
        key: &ReleaseKey,
        run: impl FnOnce(&Stop) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let busy = || {
            Error::Busy(
                "slow renderings use all the threads that they are allowed; the operator tries again".to_owned(),
            )
        };
        let was_slow = self.known().contains(key);
        let permit = if was_slow {
            // A pass does not wait for slow renderings of others, since each may take a minute.
            Arc::clone(&self.slow).try_acquire_owned().map_err(|_| busy())?
        } else {
            let permit = Arc::clone(&self.quick).acquire_owned();
            progress::in_line(permit).await.map_err(|e| Error::Renderer(e.to_string()))?
        };
        let stop = Stop::default();
        let place: Held = Arc::new(Mutex::new(Some(permit)));
        let (stopped, held) = (stop.clone(), Arc::clone(&place));
        let working = journal::current();
        let mut rendering = tokio::task::spawn_blocking(move || {
            let _working = working;
            let made = run(&stopped);
            drop(held.lock().unwrap_or_else(PoisonError::into_inner).take());
            made
        });
        let ended = |made: Result<Result<T, Error>, JoinError>| {
            made.unwrap_or_else(|_| Err(Error::Renderer("rendering failed with an internal error".to_owned())))
        };
        if let Ok(made) = tokio::time::timeout(self.share, &mut rendering).await {
            self.known().remove(key);
            return ended(made);
        }
        self.known().insert(key.clone());
        if !was_slow {
            let Ok(slow) = Arc::clone(&self.slow).try_acquire_owned() else {
                stop.stop();
                // It may wait for the API server, and others do not wait for that.
                drop(place.lock().unwrap_or_else(PoisonError::into_inner).take());
                return Err(busy());
            };
            let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
            // `None` here means that the rendering has just ended.
            if place.is_some() {
                *place = Some(slow);
            }
        }
        if let Ok(made) = tokio::time::timeout(self.deadline.saturating_sub(self.share), &mut rendering).await {
            return ended(made);
        }
        stop.stop();
        let _ = tokio::time::timeout(NOTICE, &mut rendering).await;
        Err(Error::Renderer(format!("rendering took more than {} seconds", self.deadline.as_secs())))
    }

    /// Drops what is remembered of a deleted custom resource.
    pub fn forget(&self, key: &ReleaseKey) {
        self.known().remove(key);
    }

    fn known(&self) -> MutexGuard<'_, HashSet<ReleaseKey>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Renderer;
    use crate::cluster::cache::ReleaseKey;
    use crate::reconcile::error::Error;
    use crate::template::budget;
    use crate::template::budget::{Budget, Limits, Stop};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(600);

    fn key(name: &str) -> ReleaseKey {
        ReleaseKey { kind: 0, namespace: "ns".into(), name: name.into() }
    }

    /// A template that never ends by itself.
    #[expect(clippy::unnecessary_wraps, reason = "the type of a rendering")]
    fn endless(stop: &Stop, end: &AtomicBool) -> Result<(), Error> {
        let run = || while budget::work(1).is_ok() && !end.load(Ordering::Relaxed) {};
        Budget::new(Limits::default()).until(Some(stop)).run(run);
        Ok(())
    }

    #[tokio::test]
    async fn what_renders_for_ever_keeps_nobody_from_being_rendered() {
        let renderer = Arc::new(Renderer::new(2, Duration::from_millis(50), LONG));
        let end = Arc::new(AtomicBool::new(false));
        let run = |name: &str| {
            let (renderer, key, end) = (Arc::clone(&renderer), key(name), Arc::clone(&end));
            async move { renderer.run(&key, move |stop| endless(stop, &end)).await }
        };
        let bad = [tokio::spawn(run("bad-0")), tokio::spawn(run("bad-1"))];
        while renderer.slow.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(renderer.run(&key("good"), |_| Ok(1)).await.ok(), Some(1));
        assert_eq!((renderer.quick.available_permits(), renderer.slow.available_permits()), (2, 0));
        assert!(bad.iter().all(|bad| !bad.is_finished()));
        // A rendering that is known to be slow does not take a shared slot again, and a new one returns its slot.
        assert!(matches!(run("bad-0").await, Err(Error::Busy(_))));
        assert!(matches!(run("bad-2").await, Err(Error::Busy(_))));
        while renderer.quick.available_permits() < 2 {
            tokio::task::yield_now().await;
        }
        end.store(true, Ordering::Relaxed);
        for bad in bad {
            assert!(bad.await.unwrap().is_ok());
        }
        // A rendering that is quick again is no longer remembered as slow.
        assert_eq!(renderer.run(&key("bad-0"), |_| Ok(2)).await.ok(), Some(2));
        assert!(!renderer.known().contains(&key("bad-0")));
    }

    #[tokio::test]
    async fn a_rendering_that_is_stopped_gives_its_slot_back_before_it_notices() {
        let renderer = Arc::new(Renderer::new(1, Duration::from_millis(10), LONG));
        let end = Arc::new(AtomicBool::new(false));
        let run = |name: &str| {
            let (renderer, key, end) = (Arc::clone(&renderer), key(name), Arc::clone(&end));
            // It waits for an answer, and does not look at the stop.
            let waits = move |_: &Stop| {
                while !end.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                Ok(())
            };
            async move { renderer.run(&key, waits).await }
        };
        let slow = tokio::spawn(run("bad-0"));
        while renderer.slow.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let (second, free) = (run("bad-1").await, renderer.quick.available_permits());
        // Both end before anything is asserted: the runtime waits for them.
        end.store(true, Ordering::Relaxed);
        assert!(matches!(second, Err(Error::Busy(_))));
        assert_eq!(free, 1);
        assert!(slow.await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_rendering_that_is_past_its_time_ends() {
        let renderer = Renderer::new(2, Duration::from_millis(10), Duration::from_millis(50));
        let made = renderer.run(&key("bad"), |stop| endless(stop, &AtomicBool::new(false))).await;
        assert!(made.unwrap_err().to_string().starts_with("rendering took more than"));
        // The rendering has ended; it was not only abandoned.
        assert_eq!((renderer.quick.available_permits(), renderer.slow.available_permits()), (2, 2));
    }
}

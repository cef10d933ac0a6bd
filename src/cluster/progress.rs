//! Records the progress of a pass: every answer of the API server counts, whatever it is. There is no fixed limit for
//! the duration of a pass: it may apply a thousand objects to a slow API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

tokio::task_local! {
    static PASS: Progress;
}

/// When a pass last made progress.
#[derive(Clone, Debug)]
pub struct Progress {
    began: Instant,
    /// Milliseconds after `began`.
    at: Arc<AtomicU64>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { began: Instant::now(), at: Arc::default() }
    }
}

impl Progress {
    /// When the pass began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// When the pass last made progress.
    pub fn last(&self) -> Instant {
        self.began + Duration::from_millis(self.at.load(Ordering::Acquire))
    }

    fn note(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.at.store(now, Ordering::Release);
    }

    /// Runs a pass. Its calls of [`note`] are recorded here.
    pub async fn of<F: Future>(self, pass: F) -> F::Output {
        PASS.scope(self, pass).await
    }
}

/// Records that the current pass makes progress. Has no effect outside of a pass.
pub fn note() {
    let _ = PASS.try_with(Progress::note);
}

/// The maximum number of rounds of a wait that count as progress.
const LONGEST: u32 = 30;
/// The duration of a round.
const ROUND: Duration = Duration::from_secs(30);

/// Waits for something that others hold for a while each. For a quarter of an hour, this counts as progress.
pub async fn in_line<F: Future>(turn: F) -> F::Output {
    let mut turn = std::pin::pin!(turn);
    for _ in 0..LONGEST {
        if let Ok(came) = tokio::time::timeout(ROUND, &mut turn).await {
            note();
            return came;
        }
        note();
    }
    turn.await
}

#[cfg(test)]
mod tests {
    use super::{Progress, note};

    #[tokio::test]
    async fn what_a_pass_notes_is_its_own() {
        let (one, other) = (Progress::default(), Progress::default());
        let noting = async {
            // Waits until the clock has advanced.
            while one.last() == one.began() {
                note();
                tokio::task::yield_now().await;
            }
        };
        one.clone().of(noting).await;
        note();
        assert_eq!(other.last(), other.began());
    }
}

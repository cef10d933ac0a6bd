//! Whether a pass gets on: it notes each answer of the API server, whatever it says. A pass has no other end that can be known
//! beforehand: it may apply a thousand objects to an API server that is slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

tokio::task_local! {
    static PASS: Progress;
}

/// When a pass last got on.
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
    /// When it began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// When it last got on.
    pub fn last(&self) -> Instant {
        self.began + Duration::from_millis(self.at.load(Ordering::Acquire))
    }

    fn note(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.at.store(now, Ordering::Release);
    }

    /// Runs a pass, whose [`note`]s are entered here.
    pub async fn of<F: Future>(self, pass: F) -> F::Output {
        PASS.scope(self, pass).await
    }
}

/// The pass that runs got on. Outside of passes nothing is noted.
pub fn note() {
    let _ = PASS.try_with(Progress::note);
}

/// The longest wait in a line of others.
const LONGEST: u32 = 30;
/// How often one who waits in a line is counted as getting on.
const ROUND: Duration = Duration::from_secs(30);

/// Waits for what others hold for a while each: for a quarter of an hour that is no standing still.
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
            // Until the clock has moved on.
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

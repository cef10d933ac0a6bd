//! The text of `/metrics`: with ten thousand custom resources it is more than a megabyte, and to make it takes a while. Whoever asks again
//! within a second is given the same.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::metrics::Metrics;
use crate::harm;

/// So long a text is given to whoever asks.
const FRESH: Duration = Duration::from_secs(1);

/// The text, and when it was made.
pub struct Page {
    metrics: Arc<Metrics>,
    made: Mutex<Option<(Instant, axum::body::Bytes)>>,
}

impl Page {
    /// None yet.
    pub fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { metrics, made: Mutex::default() })
    }

    /// The text, not older than a second. One at a time makes it, on a thread of its own; the others wait for that.
    pub async fn text(&self) -> axum::body::Bytes {
        let mut made = self.made.lock().await;
        let fresh = harm::setting("TILLERMAN_HARM_PAGE", FRESH);
        if let Some((_, text)) = made.as_ref().filter(|(at, _)| at.elapsed() < fresh) {
            return text.clone();
        }
        let (began, metrics) = (Instant::now(), Arc::clone(&self.metrics));
        let text = tokio::task::spawn_blocking(move || metrics.encode()).await.unwrap_or_default();
        let text = axum::body::Bytes::from(text);
        *made = Some((began, text.clone()));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Page;
    use crate::server::metrics::Metrics;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    #[tokio::test]
    async fn whoever_asks_within_a_second_is_given_the_same() {
        let (metrics, made) = (Arc::new(Metrics::new()), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&made);
        metrics.register_watches(move || count.fetch_add(1, Ordering::Relaxed));
        let page = Page::new(metrics);
        let began = Instant::now();
        let asking = (0..100).map(|_| page.text());
        let texts = futures::future::join_all(asking).await;
        assert!(texts.iter().all(|text| text.len() > 100));
        while began.elapsed() < Duration::from_millis(500) {
            page.text().await;
        }
        // A slow machine may be over the second before the last of them.
        assert!(made.load(Ordering::Relaxed) <= 1 + usize::try_from(began.elapsed().as_secs()).unwrap());
        while made.load(Ordering::Relaxed) < 2 {
            page.text().await;
            tokio::task::yield_now().await;
        }
        assert!(began.elapsed() >= Duration::from_secs(1));
    }
}

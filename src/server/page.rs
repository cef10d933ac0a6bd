//! The text of `/metrics`. With ten thousand custom resources it is larger than a megabyte and takes a while to create,
//! so requests within a second get the same text.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use futures::stream;
use tokio::sync::Mutex;

use super::connections::pieces;
use crate::harm;
use crate::telemetry::metrics::Metrics;

/// How long a text is reused.
const FRESH: Duration = Duration::from_secs(1);

/// The text, and when it was created.
pub struct Page {
    metrics: Arc<Metrics>,
    made: Arc<Mutex<Option<(Instant, Bytes)>>>,
}

impl Page {
    /// Starts without a text.
    pub fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { metrics, made: Arc::default() })
    }

    /// The text, at most a second old. Only one request at a time creates it, on a separate thread; the others wait for
    /// the result.
    pub async fn text(&self) -> Bytes {
        let mut made = Arc::clone(&self.made).lock_owned().await;
        let fresh = harm::setting("TILLERMAN_HARM_PAGE", FRESH);
        if let Some((_, text)) = made.as_ref().filter(|(at, _)| at.elapsed() < fresh) {
            return text.clone();
        }
        let (began, metrics) = (Instant::now(), Arc::clone(&self.metrics));
        // A separate task: if the client disconnects, the text is still completed, and no other one is started before.
        let making = tokio::spawn(async move {
            let text = tokio::task::spawn_blocking(move || metrics.encode()).await.unwrap_or_default();
            let text = Bytes::from(text);
            *made = Some((began, text.clone()));
            text
        });
        making.await.unwrap_or_default()
    }
}

/// A body of parts that share the memory of the text.
pub fn body(text: Bytes) -> Body {
    Body::from_stream(stream::iter(pieces(text).map(Ok::<_, Infallible>)))
}

#[cfg(test)]
mod tests {
    use super::Page;
    use crate::telemetry::metrics::Metrics;
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
        // Clients that disconnect before they get their answer.
        for _ in 0..100 {
            let _ = futures::poll!(std::pin::pin!(page.text()));
            tokio::task::yield_now().await;
        }
        let asking = (0..100).map(|_| page.text());
        let texts = futures::future::join_all(asking).await;
        assert!(texts.iter().all(|text| text.len() > 100));
        while began.elapsed() < Duration::from_millis(500) {
            page.text().await;
        }
        // On a slow machine the second may be over before the last request.
        assert!(made.load(Ordering::Relaxed) <= 1 + usize::try_from(began.elapsed().as_secs()).unwrap());
        while made.load(Ordering::Relaxed) < 2 {
            page.text().await;
            tokio::task::yield_now().await;
        }
        assert!(began.elapsed() >= Duration::from_secs(1));
    }
}

//! The text of `/metrics`: with ten thousand custom resources it is more than a megabyte, and to make it takes a while. Whoever asks again
//! within a second is given the same.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use futures::stream;
use tokio::sync::Mutex;

use crate::harm;
use crate::telemetry::metrics::Metrics;

/// So long a text is given to whoever asks.
const FRESH: Duration = Duration::from_secs(1);

/// Bytes of a piece of the text. A connection copies what it is about to send: of a client that does not read, one piece and not all.
const PIECE: usize = 16 << 10;

/// The text, and when it was made.
pub struct Page {
    metrics: Arc<Metrics>,
    made: Arc<Mutex<Option<(Instant, Bytes)>>>,
}

impl Page {
    /// None yet.
    pub fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { metrics, made: Arc::default() })
    }

    /// The text, not older than a second. One at a time makes it, on a thread of its own; the others wait for that.
    pub async fn text(&self) -> Bytes {
        let mut made = Arc::clone(&self.made).lock_owned().await;
        let fresh = harm::setting("TILLERMAN_HARM_PAGE", FRESH);
        if let Some((_, text)) = made.as_ref().filter(|(at, _)| at.elapsed() < fresh) {
            return text.clone();
        }
        let (began, metrics) = (Instant::now(), Arc::clone(&self.metrics));
        // Of its own: when the client goes meanwhile, the text is made to its end, and no other is begun before.
        let making = tokio::spawn(async move {
            let text = tokio::task::spawn_blocking(move || metrics.encode()).await.unwrap_or_default();
            let text = Bytes::from(text);
            *made = Some((began, text.clone()));
            text
        });
        making.await.unwrap_or_default()
    }
}

/// A text in pieces that share its memory.
pub fn body(text: Bytes) -> Body {
    Body::from_stream(stream::iter(pieces(text).map(Ok::<_, Infallible>)))
}

fn pieces(mut text: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || (!text.is_empty()).then(|| text.split_to(text.len().min(PIECE))))
}

#[cfg(test)]
mod tests {
    use super::{Bytes, PIECE, Page, pieces};
    use crate::telemetry::metrics::Metrics;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    #[test]
    fn a_text_is_sent_in_pieces_that_are_no_copies() {
        let text = Bytes::from("metric 1\n".repeat(100_000));
        let pieces: Vec<Bytes> = pieces(text.clone()).collect();
        assert!(pieces.iter().all(|piece| (1..=PIECE).contains(&piece.len())));
        assert_eq!(pieces.concat(), text);
        let mut at = text.as_ptr();
        for piece in pieces {
            assert_eq!(piece.as_ptr(), at);
            at = at.wrapping_add(piece.len());
        }
    }

    #[tokio::test]
    async fn whoever_asks_within_a_second_is_given_the_same() {
        let (metrics, made) = (Arc::new(Metrics::new()), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&made);
        metrics.register_watches(move || count.fetch_add(1, Ordering::Relaxed));
        let page = Page::new(metrics);
        let began = Instant::now();
        // Clients that go before they have their answer.
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
        // A slow machine may be over the second before the last of them.
        assert!(made.load(Ordering::Relaxed) <= 1 + usize::try_from(began.elapsed().as_secs()).unwrap());
        while made.load(Ordering::Relaxed) < 2 {
            page.text().await;
            tokio::task::yield_now().await;
        }
        assert!(began.elapsed() >= Duration::from_secs(1));
    }
}

//! The connections of a port. Any client can reach it, so the number of connections and their lifetime are limited, and
//! no connection waits for another connection: not for a slow handshake, not for slow headers, and not for a client
//! that reads slowly.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The maximum number of open connections. One more closes the oldest: a new client has its request ready, while the
/// oldest one may only occupy a slot.
const CONNECTIONS: usize = 256;
/// The timeout of the handshake, and of the request's headers.
const HEADERS: Duration = Duration::from_secs(10);
/// The lifetime of a connection of the operator: one and a half times as long as Prometheus waits. Each second of it may cost the memory of one more text of the metrics.
const LIFETIME: Duration = Duration::from_secs(15);
/// The maximum size of a request's headers in bytes. A token of a service account has two thousand.
const HEADER_BYTES: usize = 16 << 10;
/// The maximum number of concurrent requests on one connection of HTTP/2.
const STREAMS: u32 = 8;
/// The pause after an error of the listener: perhaps all file descriptors are in use.
const PAUSE: Duration = Duration::from_millis(100);
/// How long current answers may take after the operator was stopped.
const FAREWELL: Duration = Duration::from_secs(2);

/// The size of a part of a body in bytes. A connection copies what it is about to send: for a client that does not
/// read, this is one part and not the whole text.
const PIECE: usize = 16 << 10;

/// How a port is served.
#[derive(Clone)]
pub struct Service {
    /// Accepts handshakes, if TLS is used.
    pub tls: Option<TlsAcceptor>,
    /// Whether HTTP/2 is offered.
    pub http2: bool,
    /// The lifetime of a connection, which also limits the time to read the answer.
    pub lifetime: Duration,
}

impl Default for Service {
    fn default() -> Self {
        Self { tls: None, http2: false, lifetime: LIFETIME }
    }
}

/// The parts of a body, which share its memory.
pub fn pieces(mut text: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || (!text.is_empty()).then(|| text.split_to(text.len().min(PIECE))))
}

/// Serves HTTP/1.1 with one request per connection, and HTTP/2 if the service offers it, until cancelled. Current
/// answers are then completed.
pub async fn serve(listener: TcpListener, service: Service, app: Router, stop: CancellationToken) {
    let (open, serving) = (Arc::new(Open::default()), TaskTracker::new());
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let place = Open::enter(&open);
        let (service, app, stop) = (service.clone(), app.clone(), stop.clone());
        serving.spawn(async move {
            let connection =
                tokio::time::timeout(service.lifetime, connection(stream, service.tls, app, service.http2, &stop));
            tokio::select! {
                () = place.closed.cancelled() => {}
                _ = connection => {}
            }
        });
    }
    serving.close();
    let _ = tokio::time::timeout(FAREWELL, serving.wait()).await;
}

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, app: Router, http2: bool, stop: &CancellationToken) {
    let Some(tls) = tls else { return answer(stream, app, http2, stop).await };
    match tokio::time::timeout(HEADERS, tls.accept(stream)).await {
        Ok(Ok(stream)) => answer(stream, app, http2, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
        Err(_) => {}
    }
}

async fn answer(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    app: Router,
    http2: bool,
    stop: &CancellationToken,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    let mut one = builder.http1();
    one.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(HEADER_BYTES).keep_alive(false);
    let mut two = builder.http2();
    two.timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
    two.max_header_list_size(u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX));
    let builder = if http2 { builder } else { builder.http1_only() };
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(io), TowerToHyperService::new(app)));
    let mut stopping = false;
    loop {
        tokio::select! {
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended");
                }
                return;
            }
        }
    }
}

/// The open connections, oldest first.
#[derive(Default)]
struct Open(Mutex<VecDeque<CancellationToken>>);

impl Open {
    /// Adds a connection. Closes the oldest one if there are too many.
    fn enter(open: &Arc<Self>) -> Place {
        let closed = CancellationToken::new();
        let mut places = open.lock();
        if places.len() >= CONNECTIONS
            && let Some(oldest) = places.pop_front()
        {
            oldest.cancel();
        }
        places.push_back(closed.clone());
        Place { open: Arc::clone(open), closed }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Place {
    open: Arc<Open>,
    closed: CancellationToken,
}

impl Drop for Place {
    fn drop(&mut self) {
        // A closed connection has already been removed.
        if !self.closed.is_cancelled() {
            self.closed.cancel();
            self.open.lock().retain(|place| !place.is_cancelled());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, CONNECTIONS, Open, PIECE, pieces};
    use std::sync::Arc;

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

    #[test]
    fn the_oldest_connection_gives_way() {
        let open = Arc::new(Open::default());
        let mut places: Vec<_> = (0..CONNECTIONS).map(|_| Open::enter(&open)).collect();
        places.remove(1);
        places.push(Open::enter(&open));
        assert!(!places.iter().any(|place| place.closed.is_cancelled()));
        places.push(Open::enter(&open));
        let closed: Vec<bool> = places.iter().map(|place| place.closed.is_cancelled()).collect();
        assert!(closed[0] && !closed[1..].contains(&true));
        drop(places);
        assert!(open.lock().is_empty());
    }
}

//! The connections of a port. Any client can reach it, so the number of connections and their lifetime are limited, and
//! no connection waits for another connection: not for a slow handshake, not for slow headers, and not for a client
//! that reads slowly.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tillerman_agent::connections::{Limits, Stream, accept};
use tokio::net::TcpListener;
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
/// How long current answers may take after the operator was stopped.
const FAREWELL: Duration = Duration::from_secs(2);

/// The size of a part of a body in bytes. A connection copies what it is about to send: for a client that does not
/// read, this is one part and not the whole text.
const PIECE: usize = 16 << 10;

/// How a port is served.
#[derive(Clone)]
pub struct Service {
    /// The certificate and protocols of TLS, if it is used.
    pub tls: Option<Arc<ServerConfig>>,
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
    let Service { tls, http2, lifetime } = service;
    let limits = Limits { connections: CONNECTIONS, handshake: HEADERS, lifetime: Some(lifetime) };
    let serving = TaskTracker::new();
    let exchange = {
        let (stop, serving) = (stop.clone(), serving.clone());
        // No connection counts as one that has asked: a client that reads slowly has to give way, too.
        move |stream, _| serving.track_future(answer(stream, app.clone(), http2, stop.clone()))
    };
    tokio::select! {
        () = stop.cancelled() => {}
        never = accept(listener, limits, || tls.clone(), exchange) => match never {},
    }
    serving.close();
    let _ = tokio::time::timeout(FAREWELL, serving.wait()).await;
}

async fn answer(stream: Box<dyn Stream>, app: Router, http2: bool, stop: CancellationToken) {
    let mut builder = Builder::new(TokioExecutor::new());
    let mut one = builder.http1();
    one.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(HEADER_BYTES).keep_alive(false);
    let mut two = builder.http2();
    two.timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
    two.max_header_list_size(u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX));
    let builder = if http2 { builder } else { builder.http1_only() };
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app)));
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

#[cfg(test)]
mod tests {
    use super::{Bytes, PIECE, pieces};

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
}

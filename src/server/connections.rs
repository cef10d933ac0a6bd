//! The connections of a port. Strangers reach it, so there are so many and no more, each lives for so long and no longer, and none waits
//! for another: not for a slow client's handshake, not for its headers, and not until it has read its answer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections at one time. When there is one more, the oldest is closed: who has just come has its request ready, and who has been here
/// for longest may be here to take a place.
const CONNECTIONS: usize = 256;
/// How long a client may take for its handshake, and again for the headers of its request.
const HEADERS: Duration = Duration::from_secs(10);
/// How long a connection lives, so also how long a client may take to read its answer: as long as Prometheus waits, and a half. Each
/// second of it may be the memory of one more text of the metrics.
const LIFETIME: Duration = Duration::from_secs(15);
/// Bytes of the headers of a request. A token of a service account has two thousand.
const HEADER_BYTES: usize = 16 << 10;
/// Requests at one time on one connection of HTTP/2.
const STREAMS: u32 = 8;
/// After an error of the listener: there may be no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);
/// How long what is being answered may take when the operator ends.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves HTTP/1.1, one request for each connection, and HTTP/2 too if it is wanted, until cancelled; what is being answered then is
/// answered.
pub async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, app: Router, http2: bool, stop: CancellationToken) {
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
        let (tls, app, stop) = (tls.clone(), app.clone(), stop.clone());
        serving.spawn(async move {
            let connection = tokio::time::timeout(LIFETIME, connection(stream, tls, app, http2, &stop));
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
    /// A place for one more; the oldest loses its own when there are too many.
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
        // Who has lost its place is there no more.
        if !self.closed.is_cancelled() {
            self.closed.cancel();
            self.open.lock().retain(|place| !place.is_cancelled());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CONNECTIONS, Open};
    use std::sync::Arc;

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

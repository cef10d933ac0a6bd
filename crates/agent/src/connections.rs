//! The connections of a port. Any client that reaches it can open some, so their number and the time of a handshake are
//! limited, and no connection waits for another connection. A new connection closes the oldest one that has not asked yet.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

/// The pause after an error of the listener: perhaps all file descriptors are in use.
const PAUSE: Duration = Duration::from_millis(100);

/// The bytes of a connection, with or without TLS.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The limits of a port.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum number of open connections.
    pub connections: usize,
    /// The timeout of a handshake of TLS.
    pub handshake: Duration,
    /// The lifetime of a connection; `None` if only its exchange ends it.
    pub lifetime: Option<Duration>,
}

/// An open connection.
#[derive(Debug, Default)]
pub struct Visit {
    closed: Notify,
    asked: AtomicBool,
}

impl Visit {
    /// Its request is complete: no newer connection takes its place.
    pub fn asks(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }
}

/// Accepts connections until the task is dropped, and runs `exchange` for each. `tls` is read for each connection, so
/// that a new certificate counts at once; `None` means plain text.
pub async fn accept<E>(
    listener: TcpListener,
    limits: Limits,
    tls: impl Fn() -> Option<Arc<ServerConfig>>,
    exchange: impl Fn(Box<dyn Stream>, Arc<Visit>) -> E + Clone + Send + Sync + 'static,
) -> Infallible
where
    E: Future<Output = ()> + Send,
{
    let open = Arc::new(Open::default());
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(place) = Open::enter(&open, limits.connections) else { continue };
        let (tls, exchange) = (tls(), exchange.clone());
        tokio::spawn(async move {
            let connection = async {
                if let Some(stream) = secured(stream, tls, limits.handshake).await {
                    exchange(stream, Arc::clone(&place.visit)).await;
                }
            };
            tokio::select! {
                () = place.visit.closed.notified() => {}
                () = within(limits.lifetime, connection) => {}
            }
        });
    }
}

async fn within(limit: Option<Duration>, connection: impl Future<Output = ()>) {
    match limit {
        Some(limit) => drop(tokio::time::timeout(limit, connection).await),
        None => connection.await,
    }
}

/// The connection after its handshake; `None` if that fails.
async fn secured(stream: TcpStream, tls: Option<Arc<ServerConfig>>, limit: Duration) -> Option<Box<dyn Stream>> {
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return Some(Box::new(stream)) };
    match tokio::time::timeout(limit, TlsAcceptor::from(tls).accept(stream)).await {
        Ok(Ok(stream)) => Some(Box::new(stream)),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a handshake failed");
            None
        }
        Err(_) => None,
    }
}

/// The open connections, oldest first.
#[derive(Default)]
struct Open(Mutex<VecDeque<Arc<Visit>>>);

impl Open {
    /// Adds a connection. If there are too many, it closes the oldest one that has not asked; if all have, there is no
    /// place.
    fn enter(open: &Arc<Self>, limit: usize) -> Option<Place> {
        let mut visits = open.lock();
        if visits.len() >= limit {
            let oldest = visits.iter().position(|visit| !visit.asked.load(Ordering::Relaxed))?;
            visits.remove(oldest)?.closed.notify_one();
        }
        let visit = Arc::new(Visit::default());
        visits.push_back(Arc::clone(&visit));
        Some(Place { open: Arc::clone(open), visit })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Visit>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of an open connection, which is free again when this is dropped.
struct Place {
    open: Arc<Open>,
    visit: Arc<Visit>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.lock().retain(|visit| !Arc::ptr_eq(visit, &self.visit));
    }
}

#[cfg(test)]
mod tests {
    use super::{Open, Place};
    use std::sync::Arc;

    #[test]
    fn the_oldest_that_has_not_asked_gives_way() {
        let open = Arc::new(Open::default());
        let places: Vec<_> = (0..8).map(|_| Open::enter(&open, 8).unwrap()).collect();
        places[0].visit.asks();
        let more = Open::enter(&open, 8).unwrap();
        let kept = |place: &Place| open.lock().iter().any(|visit| Arc::ptr_eq(visit, &place.visit));
        assert!(kept(&places[0]) && !kept(&places[1]) && kept(&places[2]) && kept(&more));
        places.iter().chain([&more]).for_each(|place| place.visit.asks());
        assert!(Open::enter(&open, 8).is_none());
        drop((places, more));
        assert!(open.lock().is_empty());
    }
}

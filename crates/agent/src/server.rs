//! The connections of an agent. Any client that reaches the port can open some, so their number is limited, and so is
//! the time until a request is complete. A new connection closes the oldest of which no request is complete.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio_rustls::TlsAcceptor;

use super::contract::LIMIT;

/// The maximum number of open connections.
const CONNECTIONS: usize = 128;
/// The time for the handshake, and then for the whole request.
const REQUEST: Duration = Duration::from_secs(10);
/// The maximum size of a request's headers in bytes.
const HEADERS: usize = 16 << 10;
/// The pause after an error of the listener.
const PAUSE: Duration = Duration::from_millis(100);

/// A body, in parts.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A complete request.
#[derive(Debug)]
pub struct Asked {
    /// The method.
    pub method: Method,
    /// The path.
    pub path: String,
    /// The text after the question mark; empty if there is none.
    pub query: String,
    /// The body; `None` if it is larger than [`LIMIT`].
    pub body: Option<Bytes>,
}

/// Answers requests.
pub trait Answers: Send + Sync + 'static {
    /// Answers one.
    fn answer(self: Arc<Self>, asked: Asked) -> impl Future<Output = Response<Body>> + Send;
}

/// A body that is complete.
pub fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A body whose parts come one after the other. It breaks off after an error.
pub fn in_parts(parts: mpsc::Receiver<io::Result<Bytes>>) -> Body {
    Parts(parts).boxed_unsync()
}

struct Parts(mpsc::Receiver<io::Result<Bytes>>);

impl hyper::body::Body for Parts {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(context).map(|part| part.map(|part| part.map(Frame::data)))
    }
}

/// Serves until the task is dropped. `tls` is read for each connection, so that a new certificate counts at once.
pub async fn serve<A: Answers>(
    listener: TcpListener,
    tls: impl Fn() -> Option<Arc<ServerConfig>> + Send + 'static,
    answers: Arc<A>,
) {
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
        let Some(place) = Open::enter(&open) else { continue };
        let (tls, answers) = (tls(), Arc::clone(&answers));
        tokio::spawn(async move {
            let visit = Arc::clone(&place.visit);
            tokio::select! {
                () = visit.closed.notified() => {}
                () = connection(stream, tls, answers, &visit) => {}
            }
        });
    }
}

async fn connection<A: Answers>(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    answers: Arc<A>,
    visit: &Arc<Visit>,
) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return exchange(stream, answers, visit).await };
    match tokio::time::timeout(REQUEST, TlsAcceptor::from(tls).accept(stream)).await {
        Ok(Ok(stream)) => exchange(stream, answers, visit).await,
        Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
        Err(_) => {}
    }
}

async fn exchange<A: Answers>(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    answers: Arc<A>,
    visit: &Arc<Visit>,
) {
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(REQUEST).max_buf_size(HEADERS).keep_alive(false);
    let service = service_fn(move |request: Request<Incoming>| {
        let (answers, visit) = (Arc::clone(&answers), Arc::clone(visit));
        async move {
            let (head, body) = request.into_parts();
            let body = tokio::time::timeout(REQUEST, Limited::new(body, LIMIT).collect()).await;
            let body = match body {
                Ok(Ok(body)) => Some(body.to_bytes()),
                Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => None,
                Ok(Err(error)) => return Err(io::Error::other(error)),
                Err(_) => return Err(io::Error::from(io::ErrorKind::TimedOut)),
            };
            visit.asked.store(true, Ordering::Relaxed);
            let (path, query) = (head.uri.path().to_owned(), head.uri.query().unwrap_or_default().to_owned());
            Ok(answers.answer(Asked { method: head.method, path, query, body }).await)
        }
    });
    if let Err(error) = builder.serve_connection(TokioIo::new(io), service).await {
        tracing::debug!(%error, "a connection ended");
    }
}

/// The open connections, oldest first.
#[derive(Default)]
struct Open(Mutex<VecDeque<Arc<Visit>>>);

#[derive(Default)]
struct Visit {
    closed: Notify,
    asked: AtomicBool,
}

impl Open {
    /// Adds a connection. Of too many it closes the oldest that has not asked; if all have, there is no place.
    fn enter(open: &Arc<Self>) -> Option<Place> {
        let mut visits = open.lock();
        if visits.len() >= CONNECTIONS {
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
    use super::{CONNECTIONS, Open};
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    #[test]
    fn the_oldest_that_has_not_asked_gives_way() {
        let open = Arc::new(Open::default());
        let places: Vec<_> = (0..CONNECTIONS).map(|_| Open::enter(&open).unwrap()).collect();
        places[0].visit.asked.store(true, Ordering::Relaxed);
        let more = Open::enter(&open).unwrap();
        let kept = |place: &super::Place| open.lock().iter().any(|visit| Arc::ptr_eq(visit, &place.visit));
        assert!(kept(&places[0]) && !kept(&places[1]) && kept(&places[2]) && kept(&more));
        places.iter().chain([&more]).for_each(|place| place.visit.asked.store(true, Ordering::Relaxed));
        assert!(Open::enter(&open).is_none());
        drop((places, more));
        assert!(open.lock().is_empty());
    }
}

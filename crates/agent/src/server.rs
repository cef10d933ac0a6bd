//! The port of an agent: one request per connection, with limits of its size and of the time until it is complete.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
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
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::connections::{Limits, Stream, Visit, accept};
use super::contract::LIMIT;

/// The maximum number of open connections.
const CONNECTIONS: usize = 128;
/// The time for the handshake, and then for the whole request.
const REQUEST: Duration = Duration::from_secs(10);
/// The maximum size of a request's headers in bytes.
const HEADERS: usize = 16 << 10;

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
    let limits = Limits { connections: CONNECTIONS, handshake: REQUEST, lifetime: None };
    match accept(listener, limits, tls, move |stream, visit| exchange(stream, Arc::clone(&answers), visit)).await {}
}

async fn exchange<A: Answers>(stream: Box<dyn Stream>, answers: Arc<A>, visit: Arc<Visit>) {
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(REQUEST).max_buf_size(HEADERS).keep_alive(false);
    let service = service_fn(move |request: Request<Incoming>| {
        let (answers, visit) = (Arc::clone(&answers), Arc::clone(&visit));
        async move {
            let (head, body) = request.into_parts();
            let body = tokio::time::timeout(REQUEST, Limited::new(body, LIMIT).collect()).await;
            let body = match body {
                Ok(Ok(body)) => Some(body.to_bytes()),
                Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => None,
                Ok(Err(error)) => return Err(io::Error::other(error)),
                Err(_) => return Err(io::Error::from(io::ErrorKind::TimedOut)),
            };
            visit.asks();
            let (path, query) = (head.uri.path().to_owned(), head.uri.query().unwrap_or_default().to_owned());
            Ok(answers.answer(Asked { method: head.method, path, query, body }).await)
        }
    });
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection ended");
    }
}

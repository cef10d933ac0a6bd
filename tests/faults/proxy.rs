//! A proxy between an operator and the API server that can disturb a request.

use std::convert::Infallible;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper_util::rt::TokioIo;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::watch;

/// How late a delayed answer is.
const DELAY: Duration = Duration::from_secs(1);

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyFault {
    /// It is answered with this status, and the API server never sees it.
    Answer(u16),
    /// The connection is cut before the API server sees it.
    CutBefore,
    /// The API server carries it out. The connection is cut before the answer comes.
    CutAfter,
    /// The API server does what it says; no answer ever comes.
    Hang,
    /// The API server carries it out. The answer comes long after the watches have reported it.
    Delay,
    /// The API server carries it out. After that, nothing passes.
    Freeze,
    /// The API server never sees it, and after that, nothing passes.
    FreezeBefore,
    /// The watch that it begins says that its version is too old.
    Gone,
}

/// A request on its way.
pub struct Seen<'a> {
    /// GET, PATCH …
    pub method: &'a http::Method,
    /// Path and query.
    pub target: &'a str,
    /// Body, as text.
    pub body: &'a str,
}

impl Seen<'_> {
    /// Whether it changes something that a release consists of: events and leases do not count.
    pub fn is_write(&self) -> bool {
        let aside = self.target.contains("/events") || self.target.contains("/leases");
        !aside && *self.method != http::Method::GET
    }

    /// Whether it begins a watch.
    pub fn is_watch(&self) -> bool {
        self.target.contains("watch=true")
    }
}

type Judge = Box<dyn FnMut(&Seen<'_>) -> Option<ProxyFault> + Send>;

struct State {
    client: kube::Client,
    judge: Mutex<Judge>,
    /// Nothing passes.
    frozen: watch::Sender<bool>,
    /// What froze it is done.
    is_still: AtomicBool,
    /// Counts up when all connections are cut.
    cut: watch::Sender<u64>,
    /// Faults done.
    done: Mutex<u64>,
}

/// A running proxy.
pub struct Proxy {
    /// Its port on loopback.
    pub port: u16,
    state: Arc<State>,
    _runtime: tokio::runtime::Runtime,
}

impl Proxy {
    /// A proxy to the API server of a kubeconfig, which lets everything pass at first.
    pub fn new(kubeconfig: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (state, listener) = runtime.block_on(async {
            let config = Kubeconfig::read_from(kubeconfig).unwrap();
            let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
            let state = State {
                client: kube::Client::try_from(config).unwrap(),
                judge: Mutex::new(Box::new(|_| None)),
                frozen: watch::Sender::new(false),
                is_still: AtomicBool::new(false),
                cut: watch::Sender::new(0),
                done: Mutex::new(0),
            };
            (Arc::new(state), tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap())
        });
        let port = listener.local_addr().unwrap().port();
        runtime.spawn(accept(listener, Arc::clone(&state)));
        Self { port, state, _runtime: runtime }
    }

    /// Asks `judge` of each request from now on, and lets frozen ones be forgotten.
    pub fn judge(&self, judge: impl FnMut(&Seen<'_>) -> Option<ProxyFault> + Send + 'static) {
        *self.state.judge.lock().unwrap() = Box::new(judge);
        self.state.frozen.send_replace(false);
        self.state.is_still.store(false, Ordering::Relaxed);
    }

    /// Whether a request froze it, and is done: its sender may be killed.
    pub fn is_frozen(&self) -> bool {
        self.state.is_still.load(Ordering::Relaxed)
    }

    /// Whether a request froze it, which may still be on its way.
    pub fn is_freezing(&self) -> bool {
        *self.state.frozen.borrow()
    }

    /// Cuts all connections.
    pub fn cut_all(&self) {
        self.state.cut.send_modify(|n| *n += 1);
    }

    /// How many faults it has done.
    pub fn faults(&self) -> u64 {
        *self.state.done.lock().unwrap()
    }
}

async fn accept(listener: tokio::net::TcpListener, state: Arc<State>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let mut cut = state.cut.subscribe();
            let service = hyper::service::service_fn(|request| pass(request, Arc::clone(&state)));
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                // An error of the service, which stands for a fault, ends the connection without an answer.
                _ = connection => {}
                _ = cut.changed() => {}
            }
        });
    }
}

/// The connection is to be cut.
#[derive(Debug, thiserror::Error)]
#[error("cut")]
struct Cut;

async fn pass(request: Request<Incoming>, state: Arc<State>) -> Result<Response<Answer>, Cut> {
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
    if *state.frozen.borrow() {
        std::future::pending::<Infallible>().await;
    }
    let target = parts.uri.path_and_query().map_or("/", |p| p.as_str()).to_owned();
    let text = String::from_utf8_lossy(&body);
    let seen = Seen { method: &parts.method, target: &target, body: &text };
    let watches = seen.is_watch();
    let fault = (state.judge.lock().unwrap())(&seen);
    if fault.is_some() {
        *state.done.lock().unwrap() += 1;
    }
    match fault {
        Some(ProxyFault::Answer(status)) => return Ok(refusal(status)),
        Some(ProxyFault::CutBefore) => return Err(Cut),
        Some(ProxyFault::FreezeBefore) => {
            state.frozen.send_replace(true);
            state.is_still.store(true, Ordering::Relaxed);
            std::future::pending::<Infallible>().await;
        }
        Some(ProxyFault::Gone) if watches => return Ok(gone()),
        _ => {}
    }
    if fault == Some(ProxyFault::Freeze) {
        // What is on its way at the same time passes too; nothing after it does.
        state.frozen.send_replace(true);
    }
    // The client has its own connection, and says itself who it acts as.
    parts.headers.remove(header::HOST);
    parts.headers.remove(header::CONNECTION);
    let impersonation: Vec<_> =
        parts.headers.keys().filter(|k| k.as_str().starts_with("impersonate-")).cloned().collect();
    for name in impersonation {
        parts.headers.remove(name);
    }
    parts.uri = target.parse().map_err(|_| Cut)?;
    let request = Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
    let answer = state.client.send(request).await;
    if answer.is_err() && fault == Some(ProxyFault::Freeze) {
        state.is_still.store(true, Ordering::Relaxed);
    }
    let answer = answer.map_err(|_| Cut)?;
    let (mut parts, body) = answer.into_parts();
    parts.headers.remove(header::CONNECTION);
    parts.headers.remove(header::TRANSFER_ENCODING);
    if fault == Some(ProxyFault::Delay) {
        tokio::time::sleep(DELAY).await;
    }
    match fault {
        Some(ProxyFault::CutAfter) => Err(Cut),
        Some(ProxyFault::Hang | ProxyFault::Freeze) => {
            // It is carried out only when the whole answer is there.
            let _ = body.collect().await;
            if fault == Some(ProxyFault::Freeze) {
                state.is_still.store(true, Ordering::Relaxed);
            }
            std::future::pending::<Infallible>().await;
            Err(Cut)
        }
        _ => Ok(Response::from_parts(parts, Answer::Passed(Box::pin(body)))),
    }
}

/// A status of the API server.
fn refusal(status: u16) -> Response<Answer> {
    let reason = match status {
        409 => "Conflict",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let body = serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("a fault of the test: {status}"), "reason": reason, "code": status});
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    if status == 429 {
        headers.insert(header::RETRY_AFTER, "1".parse().unwrap());
    }
    let mut response = Response::new(Answer::Made(Some(body.to_string().into())));
    *response.status_mut() = status.try_into().unwrap();
    *response.headers_mut() = headers;
    response
}

/// The event with which a watch says that the versions since have been compacted.
fn gone() -> Response<Answer> {
    let event = serde_json::json!({"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "message": "too old resource version", "reason": "Expired", "code": 410}});
    let mut response = Response::new(Answer::Made(Some(format!("{event}\n").into())));
    response.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    response
}

/// The body of an answer.
enum Answer {
    Passed(Pin<Box<kube::client::Body>>),
    Made(Option<Bytes>),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match &mut *self {
            Self::Passed(body) => body.as_mut().poll_frame(cx).map(|frame| frame.map(|f| f.map_err(|_| Cut))),
            Self::Made(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }
}

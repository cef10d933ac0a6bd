//! The layers of a connection to the API server: retries if a command asks for them, a count and a span of each request, and
//! whether the API server answers.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use tokio::sync::watch;
use tower::retry::RetryLayer;
use tower::{BoxError, Layer, Service, ServiceBuilder};

use super::identity::one_user;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::spans;

/// If no request is answered for this long, the API server was down. A shorter gap may be one interrupted connection.
const AWAY: Duration = Duration::from_secs(1);

/// Connects to an API server. Each request is counted.
pub fn client(config: Config, count: &CountLayer) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        return Ok(ClientBuilder::try_from(config)?.with_layer(count).build());
    }
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp())?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let retries = config.default_retry.then(|| RetryLayer::new(RetryPolicy::server_retry()));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_request(one_user)
        .option_layer(retries)
        .map_err(BoxError::from)
        .service(legacy::Client::builder(TokioExecutor::new()).build(connector));
    Ok(ClientBuilder::new(service, config.default_namespace).with_layer(count).build())
}

/// Connections without Nagle's algorithm, which kube's have. With it, the first request of a connection waits until the
/// API server has acknowledged the end of the handshake, which takes 40 milliseconds.
fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp
}

/// The Kubernetes verb of a request.
fn verb<B>(request: &http::Request<B>) -> &'static str {
    let parts: Vec<&str> = request.uri().path().split('/').filter(|p| !p.is_empty()).collect();
    let rest = match parts.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => &["", ""],
    };
    let named = match rest {
        ["namespaces", _, _, rest @ ..] | [_, rest @ ..] => !rest.is_empty(),
        [] => true,
    };
    let has = |part: &str| request.uri().query().is_some_and(|q| q.split('&').any(|p| p == part));
    let content = request.headers().get(http::header::CONTENT_TYPE).map_or(&b""[..], |v| v.as_bytes());
    match request.method().as_str() {
        "GET" if has("watch=true") || has("watch=1") => "watch",
        "GET" if named => "get",
        "GET" => "list",
        "POST" => "create",
        "PATCH" if content.starts_with(b"application/apply-patch") => "apply",
        "PATCH" => "patch",
        "DELETE" if named => "delete",
        "DELETE" => "deletecollection",
        _ => "update",
    }
}

/// Whether the API server is up. Any answer counts: a 503 may come from the server of an extension, which may be down
/// for long.
#[derive(Default)]
pub struct Presence {
    missed_since: Mutex<Option<Instant>>,
    /// Changes when the API server is up again.
    pub back: watch::Sender<()>,
}

impl Presence {
    fn request(&self, answered: bool, now: Instant) {
        let mut since = self.missed_since.lock().unwrap_or_else(PoisonError::into_inner);
        if !answered {
            since.get_or_insert(now);
        } else if since.take().is_some_and(|since| now - since >= AWAY) {
            self.back.send_replace(());
        }
    }
}

/// Counts requests, creates a span for each of them, and notices when the API server goes down and comes back.
#[derive(Clone)]
pub struct CountLayer {
    pub metrics: Arc<Metrics>,
    /// The API server's host and port.
    pub host: Arc<str>,
    pub presence: Arc<Presence>,
}

impl<S> Layer<S> for CountLayer {
    type Service = Count<S>;
    fn layer(&self, inner: S) -> Count<S> {
        Count { inner, layer: self.clone() }
    }
}

#[derive(Clone)]
pub struct Count<S> {
    inner: S,
    layer: CountLayer,
}

impl<S, B> Service<http::Request<Body>> for Count<S>
where
    S: Service<http::Request<Body>, Response = http::Response<B>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = request.method().to_string();
        let verb = verb(&request);
        let span = spans::request(verb, request.uri().path());
        let answer = self.inner.call(request);
        let CountLayer { metrics, host, presence } = self.layer.clone();
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().ok().map(|response| response.status().as_u16());
            metrics.request(code, &host, &method, verb);
            presence.request(code.is_some(), Instant::now());
            spans::answered(&span, code);
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{AWAY, Presence, tcp, verb};
    use crate::cluster::client::Cluster;
    use crate::telemetry::metrics::Metrics;
    use kube::Config;
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
    use tower::Service as _;

    #[test]
    fn the_api_server_is_back_when_anybody_is_answered_after_a_while() {
        let (presence, now) = (Presence::default(), Instant::now());
        let mut back = presence.back.subscribe();
        let mut told = |answers: &[(bool, Duration)]| {
            for (answered, after) in answers {
                presence.request(*answered, now + *after);
            }
            back.has_changed().unwrap().then(|| back.mark_unchanged()).is_some()
        };
        assert!(!told(&[(true, Duration::ZERO), (true, AWAY)]), "it was never away");
        assert!(!told(&[(false, Duration::ZERO), (true, AWAY / 2)]), "a connection was cut");
        assert!(told(&[(false, Duration::ZERO), (false, AWAY / 2), (true, AWAY)]));
        assert!(!told(&[(true, AWAY * 3)]), "once");
    }

    #[tokio::test]
    async fn a_connection_sends_at_once() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let uri = format!("https://{}", listener.local_addr().unwrap()).parse().unwrap();
        let stream = tcp().call(uri).await.unwrap();
        assert!(stream.inner().nodelay().unwrap());
    }

    /// An API server that asks to wait, and then answers.
    #[tokio::test]
    async fn a_command_waits_if_it_is_asked_to_and_the_operator_does_not() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = |address| Config::new(format!("http://{address}").parse().unwrap());
        let wait = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
        let well = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        let ask = async |cluster: Cluster| {
            cluster.client().request_text(http::Request::get("/version").body(vec![]).unwrap()).await
        };

        let address = answering([wait, wait, well]).await;
        assert_eq!(ask(Cluster::of_command(config(address)).unwrap()).await.unwrap(), "{}");
        let address = answering([wait, well, well]).await;
        let of_operator = Cluster::new(config(address), &Arc::new(Metrics::new())).unwrap();
        ask(of_operator).await.expect_err("its queue waits");
    }

    async fn answering(answers: [&'static str; 3]) -> std::net::SocketAddr {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut stream = tokio::io::BufReader::new(listener.accept().await.unwrap().0);
            for answer in answers {
                let mut line = String::new();
                while stream.read_line(&mut line).await.unwrap() > "\r\n".len() {
                    line.clear();
                }
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        address
    }

    #[test]
    fn requests_have_kubernetes_verbs() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/namespaces/a/secrets?labelSelector=x", "list"),
            ("GET", "/api/v1/namespaces/a/secrets?watch=true&x=y", "watch"),
            ("GET", "/api/v1/namespaces/a/secrets/b", "get"),
            ("GET", "/api/v1/namespaces/a", "get"),
            ("GET", "/apis/apps/v1/deployments", "list"),
            ("GET", "/apis/g/v1/namespaces/a/webs/b/status", "get"),
            ("GET", "/version", "get"),
            ("POST", "/api/v1/namespaces/a/events", "create"),
            ("PATCH", "/api/v1/namespaces/a/secrets/b", "patch"),
            ("DELETE", "/api/v1/namespaces/a/secrets/b", "delete"),
        ] {
            let request = http::Request::builder().method(method).uri(uri).body(()).unwrap();
            assert_eq!(verb(&request), expected, "{method} {uri}");
        }
        let apply = http::Request::builder().method("PATCH").uri("/api/v1/pods/a");
        let apply = apply.header("Content-Type", "application/apply-patch+yaml").body(()).unwrap();
        assert_eq!(verb(&apply), "apply");
    }
}

//! The endpoints of the operator: `/healthz`, `/readyz`, `/metrics`.

pub mod connections;
pub mod guard;
mod page;
pub mod tls;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::telemetry::metrics::Metrics;
use connections::Service;
use guard::Guard;
use page::Page;
use tls::Certificate;

/// Serves the probes until cancelled. Alive means that nothing is stuck; ready means that the API server was reached
/// recently.
pub async fn serve_probes(listener: TcpListener, metrics: Arc<Metrics>, stop: CancellationToken) {
    let app = Router::new().route("/healthz", get(healthz)).route("/readyz", get(readyz)).with_state(metrics);
    connections::serve(listener, Service::default(), app, stop).await;
}

/// How the metrics are served.
#[derive(Default)]
pub struct Security {
    /// The certificate, if TLS is used.
    pub certificate: Option<Arc<Certificate>>,
    /// Allows only authorized clients, if set.
    pub guard: Option<Arc<Guard>>,
    /// Whether to serve HTTP/2. As in helm-operator it is off by default: clients have exhausted servers with its
    /// streams (CVE-2023-44487).
    pub http2: bool,
}

/// Serves the metrics until cancelled.
pub async fn serve_metrics(listener: TcpListener, metrics: Arc<Metrics>, security: Security, stop: CancellationToken) {
    let mut app = Router::new().route("/metrics", get(metrics_text)).with_state(Page::new(metrics));
    if let Some(guard) = security.guard {
        app = app.layer(axum::middleware::from_fn_with_state(guard, guard::guard));
    }
    let tls = security.certificate.map(|certificate| certificate.config(security.http2));
    let service = Service { tls, http2: security.http2, ..Service::default() };
    connections::serve(listener, service, app, stop).await;
}

/// A text that is not an address to listen on.
#[derive(Debug, thiserror::Error)]
#[error("invalid address {0:?}: expected HOST:PORT, :PORT or 0")]
pub struct ListenError(String);

/// Parses an address as controller-runtime does: `:8080`, `127.0.0.1:8080`; `0` disables the server.
pub fn parse_address(text: &str) -> Result<Option<SocketAddr>, ListenError> {
    if text == "0" || text.is_empty() {
        return Ok(None);
    }
    let full =
        if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.replacen("localhost", "127.0.0.1", 1) };
    full.parse().map(Some).map_err(|_| ListenError(text.to_owned()))
}

async fn readyz(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    match metrics.unready() {
        None => (StatusCode::OK, "ok".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
    }
}

async fn healthz(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    match metrics.health.trouble() {
        None => (StatusCode::OK, "ok".to_owned()),
        Some(what) => (StatusCode::INTERNAL_SERVER_ERROR, what),
    }
}

async fn metrics_text(State(page): State<Arc<Page>>) -> impl IntoResponse {
    let text = page.text().await;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8".to_owned();
    ([(CONTENT_TYPE, kind), (CONTENT_LENGTH, text.len().to_string())], page::body(text))
}

#[cfg(test)]
mod tests {
    use super::parse_address;

    #[test]
    fn addresses_are_read_as_controller_runtime_reads_them() {
        for (text, expected) in [(":8080", Some("0.0.0.0:8080")), ("127.0.0.1:1", Some("127.0.0.1:1")), ("0", None)] {
            assert_eq!(parse_address(text).unwrap().map(|a| a.to_string()).as_deref(), expected);
        }
        assert!(parse_address("nowhere").is_err());
    }
}

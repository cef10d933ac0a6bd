//! The client of HTTP under `object_store`: hyper with rustls, as kube has it, instead of a second one with its own crypto provider.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as Tcp;
use hyper_util::rt::TokioExecutor;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody,
    HttpService,
};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;

use crate::source::http::Tls;
use crate::source::tls::client_config;

const CONNECT: Duration = Duration::from_secs(10);
/// The time for a part of ten megabytes on a slow line.
const ANSWER: Duration = Duration::from_secs(120);

/// Makes clients that trust the system's authorities, or those of a file.
#[derive(Debug)]
pub(super) struct Connector {
    pub authorities: PathBuf,
    /// The store has no TLS: no authority is needed, and the image may have none.
    pub plain: bool,
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let tls = if self.plain {
            Ok(trusting_nobody())
        } else {
            client_config(&Tls { ca_file: self.authorities.clone(), ..Tls::default() })
        };
        let tls = tls.map_err(|error| object_store::Error::Generic { store: "TLS", source: Box::new(error) })?;
        let mut tcp = Tcp::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.set_nodelay(true);
        let https =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(tcp);
        Ok(HttpClient::new(Service(Client::builder(TokioExecutor::new()).build(https))))
    }
}

fn trusting_nobody() -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("the provider has TLS 1.2 and 1.3");
    builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
}

#[derive(Debug)]
struct Service(Client<HttpsConnector<Tcp>, HttpRequestBody>);

impl HttpService for Service {
    // The form that `async_trait` gives `async fn call(&self, request: HttpRequest) -> Result<HttpResponse,
    // HttpError>`.
    fn call<'life0, 'async_trait>(
        &'life0 self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            let answer = timeout(ANSWER, self.0.request(request)).await;
            let answer = answer.map_err(|late| HttpError::new(HttpErrorKind::Timeout, late))?;
            let answer = answer.map_err(|error| {
                let kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Interrupted };
                HttpError::new(kind, error)
            })?;
            Ok(answer.map(|body| {
                HttpResponseBody::new(body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error)))
            }))
        })
    }
}

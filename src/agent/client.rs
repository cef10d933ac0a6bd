//! Asks an agent.

use std::sync::Arc;
use std::time::Duration;

use http::header::HOST;
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::contract::{COPY, LIMIT, Refusal, STATE, State, Verb};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// Asks agents. Without TLS it asks those of `http` URLs only.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// TLS with the certificate of the client.
    pub tls: Option<Arc<ClientConfig>>,
}

/// Why there is no answer that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The agent refuses.
    #[error("{0}")]
    Refused(Refusal),
    /// It cannot be reached, or does not keep to the contract. A sentence.
    #[error("{0}")]
    Failed(String),
}

/// An answer without its meaning.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body, at most [`LIMIT`].
    pub body: Bytes,
}

impl Client {
    /// The state of a member.
    pub async fn state(&self, url: &str, within: Duration) -> Result<State, ClientError> {
        understood(&self.ask(url, Method::GET, STATE, Vec::new(), within).await?)
    }

    /// Gives an order.
    pub async fn order(&self, url: &str, verb: &Verb, within: Duration) -> Result<State, ClientError> {
        understood(&self.ask(url, Method::POST, &verb.path(), verb.body(), within).await?)
    }

    /// A copy of the data.
    pub async fn copy(&self, url: &str, within: Duration) -> Result<Response<Incoming>, ClientError> {
        self.stream(url, COPY, within).await
    }

    /// An answer that is read in parts. Only its beginning has to come in time.
    pub async fn stream(&self, url: &str, path: &str, within: Duration) -> Result<Response<Incoming>, ClientError> {
        let asked = tokio::time::timeout(within, self.send(url, Method::GET, path, Vec::new())).await;
        let answer = asked.map_err(|_| failed(url, "it does not answer in time"))??;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), LIMIT).collect().await;
        let body = body.map_err(|error| failed(url, &error.to_string()))?.to_bytes();
        Err(understood::<State>(&Answer { status, body }).err().unwrap_or_else(|| failed(url, "it does not copy")))
    }

    /// Sends a request, and reads the answer.
    pub async fn ask(
        &self,
        url: &str,
        method: Method,
        path: &str,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<Answer, ClientError> {
        let asks = async {
            let answer = self.send(url, method, path, body).await?;
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), LIMIT).collect().await;
            let body = body.map_err(|error| failed(url, &error.to_string()))?.to_bytes();
            Ok(Answer { status, body })
        };
        tokio::time::timeout(within, asks).await.map_err(|_| failed(url, "it does not answer in time"))?
    }

    async fn send(
        &self,
        url: &str,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, ClientError> {
        let wrong = |what: &str| failed(url, what);
        let uri: Uri = url.parse().map_err(|_| wrong("this is no URL"))?;
        let (scheme, host) = (uri.scheme_str().unwrap_or_default(), uri.host().unwrap_or_default().to_owned());
        let secure = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(wrong("this is no URL of http or https")),
        };
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let base = uri.path().trim_end_matches('/');
        let request = Request::builder().method(method).uri(format!("{base}{path}"));
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        let request = request.header(HOST, authority).header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| wrong(&error.to_string()))?;
        let server = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let connects = async {
            let stream = TcpStream::connect((server.as_str(), port)).await.map_err(|e| wrong(&e.to_string()))?;
            stream.set_nodelay(true).map_err(|e| wrong(&e.to_string()))?;
            if !secure {
                return exchange(url, stream, request).await;
            }
            let tls = self.tls.clone().ok_or_else(|| wrong("there is no certificate to ask it with"))?;
            let name = ServerName::try_from(server.clone()).map_err(|_| wrong("this host is no name of a server"))?;
            let stream = TlsConnector::from(tls).connect(name, stream).await.map_err(|e| wrong(&e.to_string()))?;
            exchange(url, stream, request).await
        };
        connects.await
    }
}

async fn exchange(
    url: &str,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, ClientError> {
    let connected = tokio::time::timeout(CONNECT, hyper::client::conn::http1::handshake(TokioIo::new(stream))).await;
    let connected = connected.map_err(|_| failed(url, "it does not answer in time"))?;
    let (mut sender, connection) = connected.map_err(|error| failed(url, &error.to_string()))?;
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(|error| failed(url, &error.to_string()))
}

fn failed(url: &str, what: &str) -> ClientError {
    ClientError::Failed(format!("{url}: {what}"))
}

fn understood<T: serde::de::DeserializeOwned>(answer: &Answer) -> Result<T, ClientError> {
    if answer.status >= 400 {
        let refusal = serde_json::from_slice(&answer.body);
        return Err(match refusal {
            Ok(refusal) => ClientError::Refused(refusal),
            Err(_) => ClientError::Failed(format!("it answers with status {} and no reason", answer.status)),
        });
    }
    serde_json::from_slice(&answer.body)
        .map_err(|error| ClientError::Failed(format!("its answer is not understood: {error}")))
}

//! Requests to agents (docs/design/primary.md#requests). The answers of an agent are not trusted: an answer that is
//! large, slow or not of the contract is an error of that request alone. No redirect is followed.

use std::error::Error as _;
use std::io;
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

use super::contract::{CONTINUED, COPY, LIMIT, MemberState, Refusal, STATE, Verb, state_while};
use super::position::Position;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// The largest head of an answer that is a state, in bytes.
const HEAD: usize = 32 << 10;
/// The longest identity of data, and the longest `start`, in bytes: the operator latches both in a status.
pub const MAX_NAME: usize = 128;
/// The longest text of a position, in bytes: the operator latches some in a status.
const MAX_POSITION: usize = 16 << 10;
/// The highest epoch, and the highest number of an order: numbers up to here are the same in every reader of JSON.
const MAX_EPOCH: u64 = 1 << 53;
/// Characters of a text for people, before secrets are masked in it: half of a secret would not be found.
const MAX_TEXT: usize = 4096;

/// Asks agents: those of `https` URLs with TLS, and those of `http` URLs without.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// TLS with the certificate of the client.
    pub tls: Option<Arc<ClientConfig>>,
}

/// Why there is no valid answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The agent refuses.
    #[error("{0}")]
    Refused(Refusal),
    /// It cannot be reached, or does not keep to the contract. It is unknown whether it obeyed: the next state shows
    /// it.
    #[error("{url}: {why}")]
    Failed {
        /// The URL.
        url: String,
        /// A few words, without anything of the answer.
        why: String,
    },
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
    pub async fn state(&self, url: &str, within: Duration) -> Result<MemberState, ClientError> {
        self.understood(url, Method::GET, STATE, Vec::new(), within).await
    }

    /// The state of a member, as soon as its start differs from `start`, and after `within` at the latest. An agent may
    /// answer earlier. `None` if there is no such question for this start.
    pub async fn state_while(
        &self,
        url: &str,
        start: &str,
        within: Duration,
    ) -> Option<Result<MemberState, ClientError>> {
        let path = state_while(start, within)?;
        Some(self.understood(url, Method::GET, &path, Vec::new(), within + CONNECT).await)
    }

    /// Gives an order.
    pub async fn order(&self, url: &str, verb: &Verb, within: Duration) -> Result<MemberState, ClientError> {
        self.understood(url, Method::POST, &verb.path(), verb.body(), within).await
    }

    async fn understood(
        &self,
        url: &str,
        method: Method,
        path: &str,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<MemberState, ClientError> {
        let answer = self.ask(url, method, path, body, within).await?;
        if answer.status != 200 {
            return Err(refused(url, &answer));
        }
        let state = serde_json::from_slice(&answer.body).map_err(|_| failed(url, "its answer is not a state"))?;
        checked(state).map_err(|why| failed(url, &why))
    }

    /// A copy of the data.
    pub async fn copy(&self, url: &str, within: Duration) -> Result<Response<Incoming>, ClientError> {
        self.stream(url, COPY, within).await
    }

    /// An answer that is read in parts. Only its beginning has to come in time.
    pub async fn stream(&self, url: &str, path: &str, within: Duration) -> Result<Response<Incoming>, ClientError> {
        let asked = tokio::time::timeout(within, self.send(url, Method::GET, path, Vec::new(), None)).await;
        let answer = asked.map_err(|_| late(url, within))??;
        if answer.status().is_success() {
            return Ok(answer);
        }
        Err(refused(url, &whole(url, answer).await?))
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
        let asks = async { whole(url, self.send(url, method, path, body, Some(HEAD)).await?).await };
        tokio::time::timeout(within, asks).await.map_err(|_| late(url, within))?
    }

    async fn send(
        &self,
        url: &str,
        method: Method,
        path: &str,
        body: Vec<u8>,
        head: Option<usize>,
    ) -> Result<Response<Incoming>, ClientError> {
        let wrong = |what: &str| failed(url, what);
        let uri: Uri = url.parse().map_err(|_| wrong("this is not a URL"))?;
        let (scheme, host) = (uri.scheme_str().unwrap_or_default(), uri.host().unwrap_or_default().to_owned());
        let secure = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(wrong("this is not a URL of http or https")),
        };
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let base = uri.path().trim_end_matches('/');
        let request = Request::builder().method(method).uri(format!("{base}{path}"));
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        let request = request.header(HOST, authority).header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(body))).map_err(|_| wrong("this is not a URL"))?;
        let server = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let connects = async {
            let unreached =
                |error: &io::Error| wrong(&of_io(error).unwrap_or_else(|| "it cannot be reached".to_owned()));
            let stream = TcpStream::connect((server.as_str(), port)).await.map_err(|error| unreached(&error))?;
            stream.set_nodelay(true).map_err(|error| unreached(&error))?;
            match (secure, self.tls.clone()) {
                (false, None) => exchange(url, stream, request, head).await,
                (false, Some(_)) => Err(wrong("certificates need an agent with https")),
                (true, None) => Err(wrong("no certificate is given to ask it with")),
                (true, Some(tls)) => {
                    let name = ServerName::try_from(server.clone())
                        .map_err(|_| wrong("this host is not a valid name of a server"))?;
                    let stream =
                        TlsConnector::from(tls).connect(name, stream).await.map_err(|error| unreached(&error))?;
                    exchange(url, stream, request, head).await
                }
            }
        };
        connects.await
    }
}

async fn exchange(
    url: &str,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
    head: Option<usize>,
) -> Result<Response<Incoming>, ClientError> {
    let mut builder = hyper::client::conn::http1::Builder::new();
    if let Some(head) = head {
        builder.max_buf_size(head);
    }
    let connected = tokio::time::timeout(CONNECT, builder.handshake(TokioIo::new(stream))).await;
    let (mut sender, connection) = connected.map_err(|_| late(url, CONNECT))?.map_err(|error| broken(url, &error))?;
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(|error| broken(url, &error))
}

/// An answer with its body.
async fn whole(url: &str, answer: Response<Incoming>) -> Result<Answer, ClientError> {
    let status = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), LIMIT).collect().await;
    let body = body.map_err(|error| {
        let is_long = error.is::<http_body_util::LengthLimitError>();
        failed(url, if is_long { "its answer is too long" } else { "its answer broke off" })
    })?;
    Ok(Answer { status, body: body.to_bytes() })
}

fn failed(url: &str, why: &str) -> ClientError {
    ClientError::Failed { url: url.to_owned(), why: why.to_owned() }
}

fn late(url: &str, within: Duration) -> ClientError {
    failed(url, &format!("no answer within {} seconds", within.as_secs()))
}

/// The error of a connection, without the text that the other side sent.
fn broken(url: &str, error: &hyper::Error) -> ClientError {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(words) = error.downcast_ref::<io::Error>().and_then(of_io) {
            return failed(url, &words);
        }
        source = error.source();
    }
    failed(url, "the connection broke off")
}

/// The words of an error of a socket, which may wrap another error.
fn of_io(error: &io::Error) -> Option<String> {
    let Some(inner) = error.get_ref() else { return Some(error.kind().to_string()) };
    if let Some(tls) = inner.downcast_ref::<rustls::Error>() {
        return Some(in_words(tls));
    }
    inner.downcast_ref::<io::Error>().and_then(of_io)
}

fn in_words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(_) => "its certificate is not valid for this host and authority".to_owned(),
        rustls::Error::AlertReceived(_) => "it does not accept the certificate of the client".to_owned(),
        _ => "it does not speak TLS".to_owned(),
    }
}

fn refused(url: &str, answer: &Answer) -> ClientError {
    let refusal = serde_json::from_slice::<Refusal>(&answer.body).ok().filter(|_| answer.status >= 400);
    match refusal {
        Some(refusal) => ClientError::Refused(Refusal { message: in_line(&refusal.message), ..refusal }),
        None => failed(url, &format!("it answers with the status {}", answer.status)),
    }
}

/// A state that can be used, with texts that are bounded.
fn checked(mut state: MemberState) -> Result<MemberState, String> {
    let is_name = |text: &str| text.len() <= MAX_NAME && text.chars().all(|c| c.is_ascii_graphic());
    if !is_name(&state.start) || !state.data.as_deref().is_none_or(|data| is_name(data) && !data.is_empty()) {
        return Err(format!("its start or the identity of its data does not have 1 to {MAX_NAME} characters of ASCII"));
    }
    let starts = &state.continues;
    if starts.len() > CONTINUED || !starts.iter().all(|start| is_name(start) && !start.is_empty()) {
        return Err(format!(
            "it continues more than {CONTINUED} starts, or one that does not have 1 to {MAX_NAME} characters of ASCII"
        ));
    }
    let is_long = |position: &&Position| position.to_string().len() > MAX_POSITION;
    if [&state.got, &state.has, &state.purged].iter().any(is_long) {
        return Err(format!("a position in its state has more than {MAX_POSITION} bytes"));
    }
    if state.epoch > MAX_EPOCH || state.number.is_some_and(|number| number > MAX_EPOCH) {
        return Err("its epoch or its number is too high".to_owned());
    }
    state.lag = state.lag.filter(|lag| lag.is_finite() && *lag >= 0.0);
    state.problem = state.problem.map(|text| in_line(&text));
    state.version = state.version.map(|text| in_line(&text));
    if let Some(busy) = &mut state.busy {
        busy.work = in_line(&busy.work);
    }
    Ok(state)
}

/// A text for people: bounded, in one line.
fn in_line(text: &str) -> String {
    text.chars().take(MAX_TEXT).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;

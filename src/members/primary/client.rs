//! Requests to agents (docs/primary.md#requests). What an agent answers is not trusted: an answer that is large, slow, or no
//! answer of the contract is an error of that request alone.

use std::io::{self, Cursor};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;

use crate::agent::contract::{LIMIT, Refusal, STATE, State, Verb};
use crate::agent::position::Position;
use crate::members::secret::Tls;

/// How long an agent may take for its state. It answers within two seconds, also when its database hangs.
const ANSWER: Duration = Duration::from_secs(3);
/// How long an agent may take to obey.
const OBEY: Duration = Duration::from_secs(10);
/// How long an agent may take beyond the time that an order gives it.
const MORE: Duration = Duration::from_secs(3);
/// The largest head of an answer, in bytes.
const HEAD: usize = 32 << 10;
/// The longest identity of data, and the longest `start`, in bytes: both are latched in the status.
const MAX_NAME: usize = 128;
/// The longest text of a position, in bytes: some are latched in the status.
const MAX_POSITION: usize = 16 << 10;
/// The highest epoch, and the highest number of an order: numbers up to here are the same in every reader of JSON.
const MAX_EPOCH: u64 = 1 << 53;
/// Characters of a text for people, before secrets are masked in it: half of a secret would not be found.
const MAX_TEXT: usize = 4096;

type Http = Client<HttpsConnector<HttpConnector>, Full<Cursor<Vec<u8>>>>;

/// The agents of a cluster.
pub struct Agents {
    http: Http,
}

/// Why an agent did not obey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// It refused.
    Refused(Refusal),
    /// Nobody knows whether it obeyed. The next state shows it.
    Unknown(String),
}

impl Agents {
    /// For agents of `https` with these certificates, or for those of `http`. The error says which certificate is wrong.
    pub fn new(tls: Option<&Tls>) -> Result<Self, String> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(ANSWER));
        tcp.set_nodelay(true);
        let builder = HttpsConnectorBuilder::new();
        let connector = match tls {
            Some(tls) => builder.with_tls_config(config(tls)?).https_only().enable_http1().wrap_connector(tcp),
            None => builder.with_tls_config(trusting_nobody()).https_or_http().enable_http1().wrap_connector(tcp),
        };
        let http = Client::builder(TokioExecutor::new())
            .http1_max_buf_size(HEAD)
            .pool_max_idle_per_host(1)
            .pool_idle_timeout(Duration::from_secs(20))
            .build(connector);
        Ok(Self { http })
    }

    /// Asks the agent at a URL for the state of its member, which has this name. The error is a few words without anything of the
    /// answer.
    pub async fn state(&self, url: &str, member: &str) -> Result<State, String> {
        match self.send(Method::GET, &format!("{url}{STATE}"), Vec::new(), ANSWER, member).await {
            Ok(state) => Ok(state),
            Err(Failed::Unknown(why)) => Err(why),
            Err(Failed::Refused(refusal)) => Err(format!("it gives no state: {:?}", refusal.reason)),
        }
    }

    /// Sends an order.
    pub async fn order(&self, url: &str, member: &str, verb: &Verb) -> Result<State, Failed> {
        let patience = match verb {
            Verb::Demote(order) => Duration::from_millis(order.within) + MORE,
            _ => OBEY,
        };
        self.send(Method::POST, &format!("{url}{}", verb.path()), verb.body(), patience, member).await
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        body: Vec<u8>,
        patience: Duration,
        member: &str,
    ) -> Result<State, Failed> {
        let unknown = |why: &str| Failed::Unknown(why.to_owned());
        let request = Request::builder()
            .method(method)
            .uri(url)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Cursor::new(body)))
            .map_err(|_| unknown("its URL is wrong"))?;
        let answered = timeout(patience, async {
            let answer = self.http.request(request).await.map_err(|error| Failed::Unknown(words(&error)))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), LIMIT).collect().await;
            let body = body.map_err(|error| {
                let is_long = error.is::<http_body_util::LengthLimitError>();
                unknown(if is_long { "its answer is too long" } else { "its answer broke off" })
            })?;
            Ok((status, body.to_bytes()))
        });
        let late = || Failed::Unknown(format!("no answer within {} seconds", patience.as_secs()));
        let (status, body) = answered.await.map_err(|_| late())??;
        if status == StatusCode::OK {
            let state = serde_json::from_slice::<State>(&body).map_err(|_| unknown("its answer is no state"))?;
            return checked(state, member).map_err(Failed::Unknown);
        }
        let refusal = serde_json::from_slice::<Refusal>(&body).ok().filter(|_| status.as_u16() >= 400);
        match refusal {
            Some(refusal) => Err(Failed::Refused(Refusal { message: in_line(&refusal.message), ..refusal })),
            None => Err(Failed::Unknown(format!("it answers with the status {}", status.as_u16()))),
        }
    }
}

/// What went wrong with a request, without what the other side sent.
fn words(error: &hyper_util::client::legacy::Error) -> String {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(words) = error.downcast_ref::<io::Error>().and_then(of_io) {
            return words;
        }
        source = error.source();
    }
    if error.is_connect() { "it cannot be reached".to_owned() } else { "the connection broke off".to_owned() }
}

/// The words of an error of a socket, which may hold another one.
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
        rustls::Error::AlertReceived(_) => "it does not accept the certificate of the operator".to_owned(),
        _ => "it does not speak TLS".to_owned(),
    }
}

/// A state that can be used, with texts that are bounded.
fn checked(mut state: State, member: &str) -> Result<State, String> {
    if state.member != member {
        return Err("it is the agent of another member".to_owned());
    }
    let is_name = |text: &str| text.len() <= MAX_NAME && text.chars().all(|c| c.is_ascii_graphic());
    if !is_name(&state.start) || !state.data.as_deref().is_none_or(|data| is_name(data) && !data.is_empty()) {
        return Err(format!("its start or the identity of its data is not of 1 to {MAX_NAME} characters of ASCII"));
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

fn config(tls: &Tls) -> Result<ClientConfig, String> {
    let certificates = |key: &str, pem: &[u8]| {
        let read: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(pem).collect();
        read.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| format!("{key} has no certificate"))
    };
    let mut roots = RootCertStore::empty();
    for authority in certificates("ca.crt", &tls.ca)? {
        roots.add(authority).map_err(|_| "ca.crt has something else than a certificate".to_owned())?;
    }
    let (chain, key) = tls.identity.as_ref().ok_or("tls.crt and tls.key are missing: agents ask for a certificate")?;
    let chain = certificates("tls.crt", chain)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "tls.key has no private key".to_owned())?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|_| "TLS is not to be had".to_owned())?;
    let builder = builder.with_root_certificates(roots);
    builder.with_client_auth_cert(chain, key).map_err(|_| "tls.key does not belong to tls.crt".to_owned())
}

fn trusting_nobody() -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("the provider has TLS 1.2 and 1.3");
    builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;

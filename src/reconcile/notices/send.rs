//! Sends one message.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::AsyncTokioStream;
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::answers::{Answers, Secured};
use super::connect::{certificates, client_config, connect, is_shown, resolve};
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Resource;
use crate::harm;
use crate::names;
use crate::notices::document::{Goal, Notice, Smtp, SmtpTls, Webhook};
use crate::notices::mail::{address, mail};
use crate::notices::message::Message;
use crate::notices::status::bound;
use crate::notices::webhook::{KEY, SIGNATURE, Url, body, signature};
use crate::object::ObjectId;

/// Bytes that the head of an answer to a webhook can have.
const HEAD: usize = 16 << 10;
/// How long one message can take, from the name of the host to the last answer.
const DEADLINE: Duration = Duration::from_secs(30);

/// The error that the author of a notice reads about a host that perhaps only the operator can reach.
const HIDDEN: &str = "the target did not accept the message. The reason is in the operator's log, and not here, \
                      because other users may not be able to reach this host; tillerman notice test tries it from your \
                      machine, and with --notice-hosts the operator shows the reasons for the named hosts";

/// Why a message was not taken.
#[derive(Clone, Debug)]
pub struct Failure {
    /// In a sentence, without secrets.
    pub text: String,
    /// It is about this message or this notice, so that other messages may still be taken.
    pub is_permanent: bool,
    /// It is about the notice and the Secrets that it names: nothing in it came from the network.
    pub is_of_notice: bool,
}

impl Failure {
    /// One that the next attempt may not meet.
    pub fn for_now(text: String) -> Self {
        Self { text, is_permanent: false, is_of_notice: false }
    }

    /// One that the next attempt meets too, unless somebody changes something.
    pub fn for_good(text: String) -> Self {
        Self { text, is_permanent: true, is_of_notice: false }
    }

    /// The same, about the notice and the Secrets that it names.
    pub fn of_notice(text: String) -> Self {
        Self { text, is_permanent: true, is_of_notice: true }
    }
}

/// How messages are sent.
#[derive(Clone)]
pub struct Sender {
    /// The API server, for the Secrets of targets.
    pub cluster: Cluster,
    /// Hosts and addresses that are allowed although their addresses are refused; `None` allows all, for a person's own machine.
    pub hosts: Option<Arc<[String]>>,
}

impl Sender {
    /// Sends a message to the target of a notice of this namespace. Returns the server's answer.
    ///
    /// A host that only the operator may be able to reach gives one answer for whatever failed, after the same time.
    pub async fn send(&self, namespace: &str, notice: &Notice, message: &Message) -> Result<String, Failure> {
        let deadline = harm::setting("TILLERMAN_NOTICE_DEADLINE", DEADLINE);
        let ends = tokio::time::Instant::now() + deadline;
        let shown = AtomicBool::new(self.hosts.is_none());
        let sending = async {
            match &notice.target {
                Goal::Smtp(smtp, port) => self.smtp(namespace, smtp, *port, message, &shown).await,
                Goal::Webhook(webhook) => self.webhook(namespace, webhook, message, &shown).await,
            }
        };
        let late = || {
            Failure::for_now(format!("the target did not accept the message within {} seconds", deadline.as_secs_f32()))
        };
        let result = tokio::time::timeout_at(ends, sending).await.unwrap_or_else(|_| Err(late()));
        match result {
            Err(failure) if !failure.is_of_notice && !shown.load(Ordering::Relaxed) => {
                tracing::info!(
                    namespace,
                    message = message.id,
                    error = bound(&failure.text),
                    "the target did not accept a notice"
                );
                tokio::time::sleep_until(ends).await;
                Err(Failure::for_now(HIDDEN.to_owned()))
            }
            result => result,
        }
    }

    /// The addresses of a host, and whether what comes of connections to it is shown.
    async fn reach(&self, host: &str, port: u16, shown: &AtomicBool) -> Result<Vec<SocketAddr>, Failure> {
        let allowed = self.hosts.as_deref();
        let addresses = resolve(host, port, allowed).await?;
        shown.store(is_shown(host, &addresses, allowed), Ordering::Relaxed);
        Ok(addresses)
    }

    async fn smtp(
        &self,
        namespace: &str,
        smtp: &Smtp,
        port: u16,
        message: &Message,
        shown: &AtomicBool,
    ) -> Result<String, Failure> {
        let (envelope, bytes) = mail(message, smtp).map_err(Failure::of_notice)?;
        let from = address(&smtp.from).map_err(Failure::of_notice)?;
        let hello = ClientId::Domain(from.email.domain().to_owned());
        let login = match &smtp.auth {
            Some(auth) => {
                let wanted = Wanted { keys: &["username", "password"], host: Some(&smtp.host) };
                let login = self.data(namespace, &auth.secret_name, &wanted).await?.map(String::from_utf8);
                let [Ok(username), Ok(password)] = login else {
                    return Err(Failure::of_notice(unusable(&auth.secret_name, wanted.keys, wanted.host)));
                };
                Some(Credentials::new(username, password))
            }
            None => None,
        };
        let authority = self.authority(namespace, smtp.ca_secret.as_deref()).await?;
        let addresses = self.reach(&smtp.host, port, shown).await?;
        let stream = Answers::new(connect(&addresses).await?);
        let stream: Box<dyn AsyncTokioStream> = if smtp.tls == SmtpTls::Tls {
            let more = authority.as_deref().map(certificates).transpose()?.unwrap_or_default();
            Box::new(Secured(secure(stream, &smtp.host, more).await?))
        } else {
            Box::new(stream)
        };
        let mut connection = AsyncSmtpConnection::connect_with_transport(stream, &hello).await.map_err(|e| said(&e))?;
        if smtp.tls == SmtpTls::Starttls {
            if !connection.can_starttls() {
                let why =
                    format!("{} does not offer STARTTLS, so it gets no message; see spec.target.smtp.tls", smtp.host);
                return Err(Failure::for_good(why));
            }
            connection.starttls(tls(&smtp.host, authority.as_deref())?, &hello).await.map_err(|e| said(&e))?;
        }
        if smtp.tls == SmtpTls::Starttls && !connection.is_encrypted() {
            return Err(Failure::for_good("the connection is not encrypted".to_owned()));
        }
        if let Some(login) = &login {
            connection.auth(&[Mechanism::Plain, Mechanism::Login], login).await.map_err(|e| said(&e))?;
        }
        let answer = connection.send(&envelope, &bytes).await.map_err(|e| said(&e))?;
        let words: Vec<&str> = answer.message().collect();
        let answer = format!("{} {}", answer.code(), words.join(" "));
        // The message was taken. Nobody waits for the end of the conversation: the message has to be removed at once.
        tokio::spawn(async move { drop(tokio::time::timeout(Duration::from_secs(2), connection.quit()).await) });
        Ok(answer)
    }

    async fn webhook(
        &self,
        namespace: &str,
        webhook: &Webhook,
        message: &Message,
        shown: &AtomicBool,
    ) -> Result<String, Failure> {
        let url = match (&webhook.url, &webhook.url_secret) {
            (Some(url), _) => {
                Url::read(url.trim(), webhook.tls).map_err(|e| Failure::of_notice(format!("url: {e}")))?
            }
            (None, Some(name)) => {
                let unusable = || Failure::of_notice(unusable(name, &["url"], Some("the host of the url")));
                let object = self.secret(namespace, name).await?;
                let link = object.as_ref().and_then(|object| text(object, "url")).ok_or_else(unusable)?;
                let url = Url::read(link.trim(), webhook.tls).map_err(|_| unusable())?;
                object.filter(|object| is_for(object, &url.host)).ok_or_else(unusable)?;
                url
            }
            (None, None) => return Err(Failure::of_notice("there is no url".to_owned())),
        };
        let body = body(message, webhook.format);
        let mut request = Request::post(&url.path)
            .header(http::header::HOST, url.authority())
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(http::header::USER_AGENT, concat!("tillerman/", env!("CARGO_PKG_VERSION")))
            .header(http::header::CONNECTION, "close")
            .header(KEY, &message.id);
        if let Some(name) = &webhook.hmac_secret {
            let wanted = Wanted { keys: &["key"], host: Some(&url.host) };
            let [key] = self.data(namespace, name, &wanted).await?;
            request = request.header(SIGNATURE, signature(&key, &body).map_err(Failure::of_notice)?);
        }
        let request = request.body(Full::new(Bytes::from(body)));
        let request = request.map_err(|e| Failure::of_notice(format!("the request cannot be written: {e}")))?;
        let authority = self.authority(namespace, webhook.ca_secret.as_deref()).await?;
        let more = authority.as_deref().map(certificates).transpose()?.unwrap_or_default();
        let stream = connect(&self.reach(&url.host, url.port, shown).await?).await?;
        if !url.secure {
            return post(stream, request).await;
        }
        let stream = secure(stream, &url.host, more).await?;
        post(stream, request).await
    }

    async fn authority(&self, namespace: &str, name: Option<&str>) -> Result<Option<Vec<u8>>, Failure> {
        match name {
            // The content that is read is sent nowhere.
            Some(name) => {
                let [pem] = self.data(namespace, name, &Wanted { keys: &["ca.crt"], host: None }).await?;
                certificates(&pem).map_err(|_| Failure::of_notice(unusable(name, &["ca.crt"], None)))?;
                Ok(Some(pem))
            }
            None => Ok(None),
        }
    }

    /// Keys of a Secret, each as bytes.
    async fn data<const N: usize>(
        &self,
        namespace: &str,
        name: &str,
        wanted: &Wanted<'_, N>,
    ) -> Result<[Vec<u8>; N], Failure> {
        let object = self.secret(namespace, name).await?.filter(|object| wanted.host.is_none_or(|h| is_for(object, h)));
        let read = object.map(|object| wanted.keys.map(|key| bytes(&object, key)));
        let whole =
            read.filter(|read| read.iter().all(Option::is_some)).map(|read| read.map(Option::unwrap_or_default));
        whole.ok_or_else(|| Failure::of_notice(unusable(name, wanted.keys, wanted.host)))
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Value>, Failure> {
        let resource = Resource::secrets();
        let id = ObjectId { gvk: resource.gvk.clone(), namespace: Some(namespace.into()), name: name.into() };
        let found = self.cluster.get(&resource, &id).await;
        found.map_err(|e| Failure {
            is_of_notice: true,
            ..Failure::for_now(format!("Secret {name} cannot be read: {e}"))
        })
    }
}

/// The data that is read from a Secret. Data for a host is read only if the Secret's own annotation names that host: a
/// user who can write notices cannot necessarily read Secrets.
struct Wanted<'w, const N: usize> {
    keys: &'w [&'static str; N],
    host: Option<&'w str>,
}

/// Why a Secret is not used. All cases get the same answer, so that the author of a notice does not learn which Secrets
/// exist and which keys they have.
fn unusable(name: &str, keys: &[&str], host: Option<&str>) -> String {
    let keys = keys.join(" and ");
    let what = if keys == "ca.crt" { " with certificates in PEM" } else { "" };
    let annotation = host.map(|host| format!(", and its annotation {} has to name {host}", names::NOTICE_HOSTS));
    format!("Secret {name} cannot be used: it has to exist and to have {keys}{what}{}", annotation.unwrap_or_default())
}

/// Whether the annotation of a Secret names a host.
fn is_for(object: &Value, host: &str) -> bool {
    let annotation = object["metadata"]["annotations"][names::NOTICE_HOSTS].as_str().unwrap_or_default();
    annotation.split(',').any(|allowed| allowed.trim().eq_ignore_ascii_case(host))
}

fn bytes(object: &Value, key: &str) -> Option<Vec<u8>> {
    let data = object["data"][key].as_str()?;
    STANDARD.decode(data).ok().filter(|read| !read.is_empty())
}

fn text(object: &Value, key: &str) -> Option<String> {
    String::from_utf8(bytes(object, key)?).ok()
}

/// Begins with TLS on a connection.
async fn secure<S>(stream: S, host: &str, more: Vec<CertificateDer<'static>>) -> Result<TlsStream<S>, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let name = ServerName::try_from(host.to_owned());
    let name =
        name.map_err(|e| Failure::of_notice(format!("the host has no name that a certificate can have: {e}")))?;
    let connector = TlsConnector::from(Arc::new(client_config(more)?));
    connector.connect(name, stream).await.map_err(|e| Failure::for_now(format!("TLS: {e}")))
}

fn tls(host: &str, authority: Option<&[u8]>) -> Result<TlsParameters, Failure> {
    let wrong = |e: SmtpError| Failure::of_notice(format!("TLS cannot be used: {e}"));
    let mut builder = TlsParameters::builder(host.to_owned());
    if let Some(pem) = authority {
        for certificate in certificates(pem)? {
            builder = builder.add_root_certificate(Certificate::from_der(certificate.to_vec()).map_err(wrong)?);
        }
    }
    builder.build_rustls().map_err(wrong)
}

/// Why a server of mail did not take a message. Its own words are in it only if it speaks SMTP: another server is not quoted.
fn said(error: &SmtpError) -> Failure {
    let mut text = if error.status().is_some() || error.is_client() || error.is_tls() {
        error.to_string()
    } else if error.is_timeout() {
        "the server did not answer in time".to_owned()
    } else if error.is_response() {
        "the server that answered does not speak SMTP".to_owned()
    } else {
        "the connection failed".to_owned()
    };
    if let Some(cause) = std::error::Error::source(error).filter(|_| error.is_tls()) {
        text.extend([format!(": {cause}")]);
    }
    Failure { text, is_permanent: error.is_permanent() || error.is_client(), is_of_notice: false }
}

/// Sends a request. The body of the answer is not read: it would show data that only the operator can reach.
async fn post<S>(stream: S, request: Request<Full<Bytes>>) -> Result<String, Failure>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let failed = |e: hyper::Error| Failure::for_now(format!("the request failed: {e}"));
    let mut client = hyper::client::conn::http1::Builder::new();
    let (mut sender, connection) = client.max_buf_size(HEAD).handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let (mut connection, mut answer) = (std::pin::pin!(connection), std::pin::pin!(sender.send_request(request)));
    let response = tokio::select! {
        response = &mut answer => response,
        // The connection may end in the step that brings the answer.
        ended = &mut connection => {
            ended.map_err(failed)?;
            answer.await
        }
    };
    let response = response.map_err(failed)?;
    let status = response.status();
    let text = format!("HTTP status {}", status.as_u16());
    match status.as_u16() {
        200..=299 => Ok(text),
        300..=399 => Err(Failure::for_good(format!("{text}: redirects are not followed"))),
        408 | 429 | 500.. => Err(Failure::for_now(text)),
        _ => Err(Failure::for_good(text)),
    }
}

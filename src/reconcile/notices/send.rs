//! Sends one message.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio_rustls::TlsConnector;

use super::connect::{certificates, client_config, connect, resolve};
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Resource;
use crate::harm;
use crate::names;
use crate::notices::document::{Goal, Notice, Smtp, SmtpTls, Webhook};
use crate::notices::mail::{address, mail};
use crate::notices::message::Message;
use crate::notices::webhook::{KEY, SIGNATURE, Url, body, signature};
use crate::release::object::ObjectId;

/// How long one message may take, from the name of the host to the last answer.
const DEADLINE: Duration = Duration::from_secs(30);

/// Why a message was not taken.
#[derive(Clone, Debug)]
pub struct Failure {
    /// In a sentence, without secrets.
    pub text: String,
    /// It is about this message or this notice, so that other messages may still be taken.
    pub is_permanent: bool,
}

impl Failure {
    /// One that the next attempt may not meet.
    pub fn for_now(text: String) -> Self {
        Self { text, is_permanent: false }
    }

    /// One that the next attempt meets too, unless somebody changes something.
    pub fn for_good(text: String) -> Self {
        Self { text, is_permanent: true }
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
    pub async fn send(&self, namespace: &str, notice: &Notice, message: &Message) -> Result<String, Failure> {
        let deadline = harm::setting("TILLERMAN_NOTICE_DEADLINE", DEADLINE);
        let sending = async {
            match &notice.target {
                Goal::Smtp(smtp, port) => self.smtp(namespace, smtp, *port, message).await,
                Goal::Webhook(webhook) => self.webhook(namespace, webhook, message).await,
            }
        };
        let late = || {
            Failure::for_now(format!("the target did not take the message within {} seconds", deadline.as_secs_f32()))
        };
        tokio::time::timeout(deadline, sending).await.unwrap_or_else(|_| Err(late()))
    }

    async fn smtp(&self, namespace: &str, smtp: &Smtp, port: u16, message: &Message) -> Result<String, Failure> {
        let (envelope, bytes) = mail(message, smtp).map_err(Failure::for_good)?;
        let from = address(&smtp.from).map_err(Failure::for_good)?;
        let hello = ClientId::Domain(from.email.domain().to_owned());
        let login = match &smtp.auth {
            Some(auth) => {
                let secret = self.secret(namespace, &auth.secret_name, Some(&smtp.host)).await?;
                Some(Credentials::new(secret.text("username")?, secret.text("password")?))
            }
            None => None,
        };
        let authority = self.authority(namespace, smtp.ca_secret.as_deref()).await?;
        let addresses = resolve(&smtp.host, port, self.hosts.as_deref()).await?;
        let mut connection = match smtp.tls {
            SmtpTls::Tls => over_tls(&addresses, &hello, &tls(&smtp.host, authority.as_deref())?).await?,
            SmtpTls::Starttls | SmtpTls::None => {
                let stream = connect(&addresses).await?;
                AsyncSmtpConnection::connect_with_transport(Box::new(stream), &hello).await.map_err(|e| said(&e))?
            }
        };
        if smtp.tls == SmtpTls::Starttls {
            if !connection.can_starttls() {
                let why =
                    format!("{} does not offer STARTTLS, so it gets no message; see spec.target.smtp.tls", smtp.host);
                return Err(Failure::for_good(why));
            }
            connection.starttls(tls(&smtp.host, authority.as_deref())?, &hello).await.map_err(|e| said(&e))?;
        }
        if smtp.tls != SmtpTls::None && !connection.is_encrypted() {
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

    async fn webhook(&self, namespace: &str, webhook: &Webhook, message: &Message) -> Result<String, Failure> {
        let link = match (&webhook.url, &webhook.url_secret) {
            (Some(url), _) => url.clone(),
            (None, Some(name)) => self.secret(namespace, name, None).await?.text("url")?,
            (None, None) => return Err(Failure::for_good("there is no url".to_owned())),
        };
        let url = Url::read(link.trim(), webhook.tls).map_err(|e| Failure::for_good(format!("url: {e}")))?;
        if let Some(name) = &webhook.url_secret {
            self.secret(namespace, name, Some(&url.host)).await?;
        }
        let body = body(message, webhook.format);
        let mut request = Request::post(&url.path)
            .header(http::header::HOST, url.authority())
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(http::header::USER_AGENT, concat!("tillerman/", env!("CARGO_PKG_VERSION")))
            .header(http::header::CONNECTION, "close")
            .header(KEY, &message.id);
        if let Some(name) = &webhook.hmac_secret {
            let key = self.secret(namespace, name, Some(&url.host)).await?.bytes("key")?;
            request = request.header(SIGNATURE, signature(&key, &body).map_err(Failure::for_good)?);
        }
        let request = request.body(Full::new(Bytes::from(body)));
        let request = request.map_err(|e| Failure::for_good(format!("the request cannot be written: {e}")))?;
        let authority = self.authority(namespace, webhook.ca_secret.as_deref()).await?;
        let stream = connect(&resolve(&url.host, url.port, self.hosts.as_deref()).await?).await?;
        if !url.secure {
            return post(stream, request).await;
        }
        let more = authority.as_deref().map(certificates).transpose()?.unwrap_or_default();
        let name = ServerName::try_from(url.host.clone());
        let name =
            name.map_err(|e| Failure::for_good(format!("the host has no name that a certificate can have: {e}")))?;
        let connector = TlsConnector::from(Arc::new(client_config(more)?));
        let stream = connector.connect(name, stream).await.map_err(|e| Failure::for_now(format!("TLS: {e}")))?;
        post(stream, request).await
    }

    async fn authority(&self, namespace: &str, name: Option<&str>) -> Result<Option<Vec<u8>>, Failure> {
        match name {
            // What is read of it is sent nowhere.
            Some(name) => Ok(Some(self.secret(namespace, name, None).await?.bytes("ca.crt")?)),
            None => Ok(None),
        }
    }

    /// A Secret. What is to reach a host is given only if the Secret's own annotation names the host: who may write notices need not be
    /// one who may read Secrets.
    async fn secret(&self, namespace: &str, name: &str, host: Option<&str>) -> Result<Secret, Failure> {
        let resource = Resource::secrets();
        let id = ObjectId { gvk: resource.gvk.clone(), namespace: Some(namespace.into()), name: name.into() };
        let found = self.cluster.get(&resource, &id).await;
        let found = found.map_err(|e| Failure::for_now(format!("Secret {name} cannot be read: {e}")))?;
        let object = found.ok_or_else(|| Failure::for_good(format!("Secret {name} does not exist")))?;
        if let Some(host) = host {
            let annotation = object["metadata"]["annotations"][names::NOTICE_HOSTS].as_str().unwrap_or_default();
            if !annotation.split(',').any(|allowed| allowed.trim().eq_ignore_ascii_case(host)) {
                return Err(Failure::for_good(format!(
                    "Secret {name} is not for {host}: its annotation {} must name that host",
                    names::NOTICE_HOSTS
                )));
            }
        }
        Ok(Secret { name: name.to_owned(), object })
    }
}

struct Secret {
    name: String,
    object: Value,
}

impl Secret {
    fn bytes(&self, key: &str) -> Result<Vec<u8>, Failure> {
        let data = self.object["data"][key].as_str();
        let read = data.and_then(|data| STANDARD.decode(data).ok()).filter(|read| !read.is_empty());
        read.ok_or_else(|| Failure::for_good(format!("Secret {} has no key {key}", self.name)))
    }

    fn text(&self, key: &str) -> Result<String, Failure> {
        let wrong = || Failure::for_good(format!("key {key} of Secret {} is no text", self.name));
        String::from_utf8(self.bytes(key)?).map_err(|_| wrong())
    }
}

fn tls(host: &str, authority: Option<&[u8]>) -> Result<TlsParameters, Failure> {
    let wrong = |e: SmtpError| Failure::for_good(format!("TLS cannot be used: {e}"));
    let mut builder = TlsParameters::builder(host.to_owned());
    if let Some(pem) = authority {
        for certificate in certificates(pem)? {
            builder = builder.add_root_certificate(Certificate::from_der(certificate.to_vec()).map_err(wrong)?);
        }
    }
    builder.build_rustls().map_err(wrong)
}

/// A connection to the first address that answers.
async fn over_tls(
    addresses: &[SocketAddr],
    hello: &ClientId,
    tls: &TlsParameters,
) -> Result<AsyncSmtpConnection, Failure> {
    let mut last = None;
    for address in addresses {
        let each = DEADLINE / 3;
        match AsyncSmtpConnection::connect_tokio1(*address, Some(each), hello, Some(tls.clone()), None).await {
            Ok(connection) => return Ok(connection),
            Err(error) => last = Some(said(&error)),
        }
    }
    Err(last.unwrap_or_else(|| Failure::for_now("there is no address".to_owned())))
}

/// Why a server of mail did not take a message. Its own words are in it only if it speaks SMTP: another server is not quoted.
fn said(error: &SmtpError) -> Failure {
    let mut text = if error.status().is_some() || error.is_client() || error.is_tls() {
        error.to_string()
    } else if error.is_timeout() {
        "the server did not answer in time".to_owned()
    } else if error.is_response() {
        "what answered does not speak SMTP".to_owned()
    } else {
        "the connection failed".to_owned()
    };
    if let Some(cause) = std::error::Error::source(error).filter(|_| error.is_tls()) {
        text.extend([format!(": {cause}")]);
    }
    Failure { text, is_permanent: error.is_permanent() || error.is_client() }
}

/// Sends a request. What is answered beside the status is not read: it would be a way to see what only the operator can reach.
async fn post<S>(stream: S, request: Request<Full<Bytes>>) -> Result<String, Failure>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let failed = |e: hyper::Error| Failure::for_now(format!("the request failed: {e}"));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
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

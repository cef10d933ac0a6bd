//! Requests over http and https, within limits. Errors have the words of Go's `net/http`.

use super::link::{same_origin, shown};
use super::tls::TlsConnector;
use super::{SourceError, fail, link};
use rustls::CertificateError;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::time::Duration;
use tillerman_render::chart::go_io;
use ureq::http::{HeaderMap, Method, Request, Uri};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{ConnectProxyConnector, Connector, TcpConnector};
use ureq::{Agent, Proxy, SendBody};

/// Bytes of a chart archive or another blob: as many as a chart may unpack to.
pub const ARCHIVE_LIMIT: u64 = 100 * 1024 * 1024;
/// Bytes of an `index.yaml`; the largest public ones have 15 to 30 MiB.
pub const INDEX_LIMIT: u64 = 100 * 1024 * 1024;
/// Bytes of manifests, provenance files, lists of tags, tokens and error messages.
pub const SMALL_LIMIT: u64 = 4 * 1024 * 1024;
/// Go's limit of redirects.
const REDIRECTS: usize = 10;
/// Helm's limit of time for a whole request.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Files that say whom to trust, and who we are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Our certificate.
    pub cert_file: PathBuf,
    /// Its key.
    pub key_file: PathBuf,
    /// Certificates of the authorities to trust, instead of the system's.
    pub ca_file: PathBuf,
    /// Trust anybody.
    pub insecure: bool,
    /// Refuse a redirect from https to http, which Helm follows.
    pub stay_secure: bool,
}

/// A user's name and password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// The name.
    pub username: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Login(..)")
    }
}

impl Login {
    /// The value of an `Authorization` header; `None` unless there are a name and a password.
    pub fn basic(&self) -> Option<String> {
        if self.username.is_empty() || self.password.is_empty() {
            return None;
        }
        let text = format!("{}:{}", self.username, self.password);
        Some(format!("Basic {}", data_encoding::BASE64.encode(text.as_bytes())))
    }
}

/// The answer of a server.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The content.
    pub body: Vec<u8>,
    /// The link that answered, after redirects.
    pub link: String,
}

impl Response {
    /// A header's value.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }
}

/// Sends requests with one set of certificates.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
    stay_secure: bool,
}

impl Client {
    /// A client; fails when a file cannot be read or holds no certificate.
    pub fn new(tls: &Tls) -> Result<Self, SourceError> {
        let stay_secure = tls.stay_secure;
        let tls =
            TlsConnector::new(tls).map_err(|e| SourceError(format!("can't create TLS config for client: {}", e.0)))?;
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(TIMEOUT))
            .user_agent(concat!("Tillerman/", env!("CARGO_PKG_VERSION")))
            .proxy(Proxy::try_from_env())
            .build();
        let connector = ().chain(ConnectProxyConnector::default()).chain(TcpConnector::default()).chain(tls);
        Ok(Self { agent: Agent::with_parts(config, connector, DefaultResolver::default()), stay_secure })
    }

    /// Sends a request without a body. Redirects are followed; the `Authorization` header stays behind when one leads to
    /// another scheme, host or port. More than `limit` bytes are an error.
    pub fn send(
        &self,
        method: &str,
        link: &str,
        headers: &[(&str, &str)],
        limit: u64,
    ) -> Result<Response, SourceError> {
        let mut link = link.to_owned();
        let mut authorized = true;
        for _ in 0..=REDIRECTS {
            let failed = |e: ureq::Error| {
                let verb = format!("{}{}", &method[..1], method[1..].to_ascii_lowercase());
                SourceError(format!("{verb} \"{}\": {}", shown(&link), go_words(&e, &link)))
            };
            let mut request = Request::builder()
                .method(Method::try_from(method).map_err(|e| SourceError(e.to_string()))?)
                .uri(Uri::try_from(link.as_str()).map_err(|_| SourceError(format!("invalid URL: {}", shown(&link))))?);
            for (name, value) in headers {
                if authorized || !name.eq_ignore_ascii_case("authorization") {
                    request = request.header(*name, *value);
                }
            }
            let request = request.body(()).map_err(|e| SourceError(e.to_string()))?;
            let mut answer = self.agent.run(request).map_err(failed)?;
            let status = answer.status().as_u16();
            let location = answer.headers().get("location").and_then(|v| v.to_str().ok());
            if let (301 | 302 | 303 | 307 | 308, Some(location)) = (status, location) {
                let next = redirect(&link, location)?;
                if self.stay_secure && link::scheme(&link) == "https" && link::scheme(&next) != "https" {
                    return fail(format!(
                        "{} redirects to {}: a redirect from https to http is refused",
                        shown(&link),
                        shown(&next)
                    ));
                }
                authorized &= same_origin(&link, &next);
                link = next;
                continue;
            }
            let headers = std::mem::take(answer.headers_mut());
            let body = match answer.body_mut().with_config().limit(limit).read_to_vec() {
                Ok(body) => body,
                Err(ureq::Error::BodyExceedsLimit(_)) => {
                    return fail(format!("{} is larger than the maximum size {limit}", shown(&link)));
                }
                Err(e) => return Err(failed(e)),
            };
            return Ok(Response { status, headers, body, link });
        }
        let verb = format!("{}{}", &method[..1], method[1..].to_ascii_lowercase());
        fail(format!("{verb} \"{}\": stopped after {REDIRECTS} redirects", shown(&link)))
    }

    /// Sends a form, whose fields are escaped already. Redirects are not followed: it may hold a token.
    pub fn post_form(&self, link: &str, form: &str, limit: u64) -> Result<Response, SourceError> {
        let failed = |e: ureq::Error| SourceError(format!("Post \"{}\": {}", shown(link), go_words(&e, link)));
        let request = self.agent.post(link).content_type("application/x-www-form-urlencoded");
        let mut answer = request.send(form).map_err(failed)?;
        let headers = std::mem::take(answer.headers_mut());
        let body = answer.body_mut().with_config().limit(limit).read_to_vec().map_err(failed)?;
        Ok(Response { status: answer.status().as_u16(), headers, body, link: link.to_owned() })
    }

    /// Sends a body, within a time. Redirects are not followed.
    pub fn post(&self, request: Request<Vec<u8>>, timeout: Duration, limit: u64) -> Result<Response, SourceError> {
        let link = request.uri().to_string();
        let failed = |e: ureq::Error| SourceError(format!("Post \"{}\": {}", shown(&link), go_words(&e, &link)));
        let request = self.agent.configure_request(request).timeout_global(Some(timeout)).build();
        let mut answer = self.agent.run(request).map_err(failed)?;
        let headers = std::mem::take(answer.headers_mut());
        let body = answer.body_mut().with_config().limit(limit).read_to_vec().map_err(failed)?;
        Ok(Response { status: answer.status().as_u16(), headers, body, link })
    }

    /// Sends a body, of which `progress` hears how many bytes have left, within a time. Redirects are not followed.
    pub fn upload(
        &self,
        (method, link): (&str, &str),
        headers: &[(&str, &str)],
        body: &[u8],
        progress: &dyn Fn(usize),
        timeout: Duration,
    ) -> Result<Response, SourceError> {
        let verb = format!("{}{}", &method[..1], method[1..].to_ascii_lowercase());
        let failed = |e: ureq::Error| SourceError(format!("{verb} \"{}\": {}", shown(link), go_words(&e, link)));
        let mut request = Request::builder()
            .method(Method::try_from(method).map_err(|e| SourceError(e.to_string()))?)
            .uri(Uri::try_from(link).map_err(|_| SourceError(format!("invalid URL: {}", shown(link))))?)
            .header("content-length", body.len());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut counted = Counted { body, sent: 0, progress };
        let request = request.body(SendBody::from_reader(&mut counted)).map_err(|e| SourceError(e.to_string()))?;
        let request = self.agent.configure_request(request).timeout_global(Some(timeout)).build();
        let mut answer = self.agent.run(request).map_err(failed)?;
        let status = answer.status().as_u16();
        let headers = std::mem::take(answer.headers_mut());
        let body = answer.body_mut().with_config().limit(SMALL_LIMIT).read_to_vec().map_err(failed)?;
        Ok(Response { status, headers, body, link: link.to_owned() })
    }

    /// The content of a link, from a server that answers 200.
    pub fn get(
        &self,
        link: &str,
        login: Option<&Login>,
        accept: Option<&str>,
        limit: u64,
    ) -> Result<Vec<u8>, SourceError> {
        let authorization = login.and_then(Login::basic);
        let headers: Vec<(&str, &str)> = [("authorization", authorization.as_deref()), ("accept", accept)]
            .into_iter()
            .filter_map(|(name, value)| value.map(|v| (name, v)))
            .collect();
        let answer = self.send("GET", link, &headers, limit)?;
        if answer.status != 200 {
            return fail(format!("failed to fetch {} : {} {}", shown(link), answer.status, reason(answer.status)));
        }
        Ok(answer.body)
    }
}

/// A body that says how much of it was read.
struct Counted<'a> {
    body: &'a [u8],
    sent: usize,
    progress: &'a dyn Fn(usize),
}

impl std::io::Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.body.read(buffer)?;
        self.sent += read;
        (self.progress)(self.sent);
        Ok(read)
    }
}

/// The meaning of a status code, in the words of the HTTP specification.
pub fn reason(status: u16) -> &'static str {
    ureq::http::StatusCode::from_u16(status).ok().and_then(|s| s.canonical_reason()).unwrap_or_default()
}

fn redirect(link: &str, location: &str) -> Result<String, SourceError> {
    let invalid = || SourceError(format!("failed to parse Location header {:?}", shown(location)));
    let base = fluent_uri::Uri::parse(link.split('#').next().unwrap_or_default()).map_err(|_| invalid())?;
    let next = fluent_uri::UriRef::parse(location).map_err(|_| invalid())?;
    let next = next.resolve_against(&base).map_err(|_| invalid())?.into_string();
    if !matches!(link::scheme(&next).as_str(), "http" | "https") {
        return fail(format!("unsupported protocol scheme {:?}", link::scheme(&next)));
    }
    Ok(next)
}

/// A failed request in the words of Go.
fn go_words(error: &ureq::Error, link: &str) -> String {
    match error {
        ureq::Error::Io(e) => {
            if let Some(tls) = e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
                return tls_words(tls);
            }
            if matches!(e.kind(), std::io::ErrorKind::ConnectionRefused) {
                return format!("dial tcp {}: connect: connection refused", address(link));
            }
            if matches!(e.kind(), std::io::ErrorKind::UnexpectedEof) {
                return "EOF".into();
            }
            go_io(e)
        }
        ureq::Error::HostNotFound => {
            format!("dial tcp: lookup {}: no such host", host(link))
        }
        ureq::Error::ConnectionFailed => format!("dial tcp {}: connect: connection refused", address(link)),
        ureq::Error::Timeout(_) => "context deadline exceeded (Client.Timeout exceeded while awaiting headers)".into(),
        other => other.to_string(),
    }
}

fn tls_words(error: &rustls::Error) -> String {
    let x509 = |what: &str| format!("tls: failed to verify certificate: x509: {what}");
    match error {
        rustls::Error::InvalidCertificate(e) => match e {
            // A server that presents an authority's certificate as its own.
            CertificateError::Other(e) if e.to_string().contains("CaUsedAsEndEntity") => {
                x509("certificate signed by unknown authority")
            }
            CertificateError::UnknownIssuer => x509("certificate signed by unknown authority"),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                x509("certificate has expired or is not yet valid")
            }
            CertificateError::NotValidForNameContext { expected, presented } => x509(&not_for(expected, presented)),
            CertificateError::NotValidForName => x509("certificate is not valid for the host"),
            other => x509(&other.to_string()),
        },
        rustls::Error::InvalidMessage(_) => "http: server gave HTTP response to HTTPS client".into(),
        other => format!("tls: {other}"),
    }
}

/// The hosts of a certificate that is not for the requested host. rustls names them as `DnsName("a.b")`.
fn not_for(expected: &rustls::pki_types::ServerName, presented: &[String]) -> String {
    let asked = expected.to_str();
    let address = matches!(expected, rustls::pki_types::ServerName::IpAddress(_));
    let kind = if address { "IpAddress(" } else { "DnsName(" };
    let name = |text: &String| Some(text.strip_prefix(kind)?.trim_matches(['"', ')']).to_owned());
    let names: Vec<String> = presented.iter().filter_map(name).collect();
    match (names.as_slice(), address) {
        ([], true) => format!("cannot validate certificate for {asked} because it doesn't contain any IP SANs"),
        ([], false) => format!("certificate is not valid for any names, but wanted to match {asked}"),
        (names, _) => format!("certificate is valid for {}, not {asked}", names.join(", ")),
    }
}

fn host(link: &str) -> String {
    let host = link::origin(link).map(|o| o.host).unwrap_or_default();
    let bare = host.rsplit_once(':').map_or(host.as_str(), |(h, p)| if p.ends_with(']') { host.as_str() } else { h });
    bare.to_owned()
}

/// The address of a link's host.
fn address(link: &str) -> String {
    let Some(origin) = link::origin(link) else { return link.to_owned() };
    let port = if origin.scheme == "https" { ":443" } else { ":80" };
    let bare = host(link);
    let full = if bare == origin.host { format!("{bare}{port}") } else { origin.host };
    full.to_socket_addrs().ok().and_then(|mut all| all.next()).map_or(full, |a| a.to_string())
}

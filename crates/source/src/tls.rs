//! TLS for downloads: rustls on ureq's connections, which trusts what Go would trust.
//!
//! ureq can do TLS itself, but not this: Go trusts a server whose very certificate the user names with `--ca-file`, also when
//! that certificate may sign others, as the self-signed ones do that `openssl req -x509` makes. webpki refuses them.

use super::http::Tls;
use super::{SourceError, fail};
use der::Decode;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    StreamOwned,
};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use tillerman_render::chart::go_io;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};

/// Turns connections for https into TLS connections.
#[derive(Debug)]
pub struct TlsConnector(Arc<ClientConfig>);

impl TlsConnector {
    /// Fails when a file cannot be read or does not hold what it should.
    pub fn new(tls: &Tls) -> Result<Self, SourceError> {
        client_config(tls).map(|config| Self(Arc::new(config)))
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport>;

    fn connect(&self, details: &ConnectionDetails, chained: Option<In>) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(transport) = chained else { return Ok(None) };
        if details.uri.scheme_str() != Some("https") || transport.is_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let host = details.uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host).map_err(|_| ureq::Error::Tls("the host is not a DNS name"))?;
        let connection = ClientConnection::new(self.0.clone(), name).map_err(std::io::Error::other)?;
        let transport: Box<dyn Transport> = Box::new(transport);
        let mut socket = TransportAdapter::new(transport, details.current_time.clone());
        socket.set_timeout(details.timeout);
        let mut stream = StreamOwned::new(connection, socket);
        stream.conn.complete_io(&mut stream.sock)?;
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Either::B(TlsTransport { buffers, stream })))
    }
}

/// A TLS connection.
pub struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl std::fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsTransport(..)")
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        self.stream.write_all(&self.buffers.output()[..amount])?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

/// The configuration of TLS clients; fails when a file cannot be read or has invalid content.
pub fn client_config(tls: &Tls) -> Result<ClientConfig, SourceError> {
    let files = Files::read(tls)?;
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| SourceError(format!("tls: {e}")))?
        .dangerous()
        .with_custom_certificate_verifier(verifier(tls, files.authorities, provider)?);
    match files.pair {
        None => Ok(builder.with_no_client_auth()),
        Some((certificates, key)) => builder
            .with_client_auth_cert(certificates, key)
            .map_err(|e| SourceError(format!("unable to load cert from key pair: tls: {e}"))),
    }
}

fn verifier(
    tls: &Tls,
    authorities: Option<Vec<CertificateDer<'static>>>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, SourceError> {
    let failed = |e: String| SourceError(format!("tls: {e}"));
    if tls.insecure {
        return Ok(Arc::new(Trust { inner: None, named: Vec::new(), provider }));
    }
    let Some(named) = authorities else {
        let system = rustls_platform_verifier::Verifier::new(provider).map_err(|e| failed(e.to_string()))?;
        return Ok(Arc::new(system));
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(named.iter().cloned());
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|e| failed(e.to_string()))?;
    Ok(Arc::new(Trust { inner: Some(inner), named, provider }))
}

/// The content of the files of [`Tls`].
struct Files {
    pair: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    authorities: Option<Vec<CertificateDer<'static>>>,
}

impl Files {
    fn read(tls: &Tls) -> Result<Self, SourceError> {
        let mut errors = Vec::new();
        let mut read = |kind: &str, path: &Path| {
            let name = path.display().to_string();
            let told = |e: &std::io::Error| errors.push(format!("{kind}: {name:?}: open {name}: {}", go_io(e)));
            std::fs::read(path).inspect_err(told).ok()
        };
        let none = |path: &Path| path.as_os_str().is_empty();
        let mut pair = None;
        if !none(&tls.cert_file) || !none(&tls.key_file) {
            pair = read("unable to read cert file", &tls.cert_file)
                .and_then(|cert| read("unable to read key file", &tls.key_file).map(|key| (cert, key)));
        }
        let authorities = if none(&tls.ca_file) { None } else { read("can't read CA file", &tls.ca_file) };
        if !errors.is_empty() {
            return fail(errors.join("\n"));
        }
        let pair = match pair {
            None => None,
            Some((cert, key)) => {
                let wrong = |what: &str| {
                    let text =
                        format!("unable to load cert from key pair: tls: failed to find any PEM data in {what} input");
                    SourceError(text)
                };
                let cert = certificates(&cert).ok_or_else(|| wrong("certificate"))?;
                Some((cert, PrivateKeyDer::from_pem_slice(&key).map_err(|_| wrong("key"))?))
            }
        };
        let authorities = match authorities {
            None => None,
            Some(pem) => {
                let none = || SourceError("failed to append certificates from pem block".into());
                Some(certificates(&pem).ok_or_else(none)?)
            }
        };
        Ok(Self { pair, authorities })
    }
}

/// The certificates in a PEM file; `None` when there are none.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
    (!found.is_empty()).then_some(found)
}

/// Trusts servers that show a named certificate, or one that a named authority has signed.
#[derive(Debug)]
struct Trust {
    /// `None` trusts anybody.
    inner: Option<Arc<WebPkiServerVerifier>>,
    named: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        if !self.named.iter().any(|named| named.as_ref() == server.as_ref()) {
            return inner.verify_server_cert(server, between, name, ocsp, now);
        }
        // The user named exactly this certificate, so the check only covers the server and the date.
        verify_server_name(&ParsedCertificate::try_from(server)?, name)?;
        valid_at(server, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn valid_at(certificate: &CertificateDer, now: UnixTime) -> Result<(), Error> {
    let broken = |_| Error::InvalidCertificate(CertificateError::BadEncoding);
    let parsed = x509_cert::Certificate::from_der(certificate).map_err(broken)?;
    let validity = parsed.tbs_certificate().validity();
    let seconds = |time: x509_cert::time::Time| time.to_unix_duration().as_secs();
    if (seconds(validity.not_before)..=seconds(validity.not_after)).contains(&now.as_secs()) {
        return Ok(());
    }
    Err(Error::InvalidCertificate(CertificateError::Expired))
}

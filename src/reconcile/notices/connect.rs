//! Connections to the targets of notices: to no address that is refused, and with the certificates of the system.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::net::TcpStream;

use super::send::Failure;
use crate::notices::address::{is_allowed, is_public, refused};

/// Addresses of one host that are tried.
const MAX_ADDRESSES: usize = 4;

/// The addresses of a host that may be reached. The name is resolved here and nowhere else: a second look could find another address.
pub async fn resolve(host: &str, port: u16, allowed: Option<&[String]>) -> Result<Vec<SocketAddr>, Failure> {
    let found = tokio::net::lookup_host((host, port)).await;
    let found = found.map_err(|e| Failure::for_now(format!("{host} cannot be resolved: {e}")))?;
    let (mut good, mut why) = (Vec::new(), None);
    for address in found {
        let counts = |_: &&str| allowed.is_some_and(|allowed| !is_allowed(host, address.ip(), allowed));
        match refused(address.ip()).filter(counts) {
            Some(reason) => why = Some(format!("{host}: its address is refused: {reason}")),
            None => good.push(address),
        }
    }
    // One address that is refused among others is how a name is made to change between two looks.
    match why {
        Some(why) => Err(Failure::of_notice(format!("{why}; --notice-hosts of the operator allows it"))),
        None if good.is_empty() => Err(Failure::for_now(format!("{host} has no address"))),
        None => Ok(good.into_iter().take(MAX_ADDRESSES).collect()),
    }
}

/// Whether the author of a notice can read what came of a connection: everybody could have made it, or the administrator allows the host.
/// From other answers they would learn which hosts and ports of the network exist that only the operator can reach.
pub fn is_shown(host: &str, addresses: &[SocketAddr], allowed: Option<&[String]>) -> bool {
    let shows = |at: &SocketAddr| is_public(at.ip()) || allowed.is_some_and(|all| is_allowed(host, at.ip(), all));
    allowed.is_none() || addresses.iter().all(shows)
}

/// A connection to the first address that answers.
pub async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, Failure> {
    let mut last = String::new();
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(e) => last = format!("{address}: {e}"),
        }
    }
    Err(Failure::for_now(format!("no connection: {last}")))
}

/// The certificates of a text.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(read) if !read.is_empty() => Ok(read),
        _ => Err(Failure::of_notice("ca.crt of caSecret has no certificate in PEM".to_owned())),
    }
}

/// The authorities that a TLS client trusts: those of the system, and these.
pub fn client_config(more: Vec<CertificateDer<'static>>) -> Result<ClientConfig, Failure> {
    let failed = |e: String| Failure::of_notice(format!("TLS cannot be used: {e}"));
    let provider = Arc::new(ring::default_provider());
    let verifier = rustls_platform_verifier::Verifier::new_with_extra_roots(more, Arc::clone(&provider));
    let verifier = verifier.map_err(|e| failed(e.to_string()))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| failed(e.to_string()))?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

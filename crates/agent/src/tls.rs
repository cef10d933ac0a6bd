//! TLS between the operator and agents, and between agents: both sides have certificates of the same authority.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Why TLS cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A file, or a key of a Secret, cannot be read.
    #[error("{place}: {why}")]
    Unreadable {
        /// The file.
        place: String,
        /// The reason.
        why: String,
    },
    /// A file, or a key of a Secret, that has to have certificates has none.
    #[error("{0} has no certificate")]
    NoCertificate(String),
    /// An authority has something else than a certificate.
    #[error("{0} has something else than a certificate")]
    NotAnAuthority(String),
    /// A key of a Secret has to have a private key.
    #[error("{0} has no private key")]
    NoKey(String),
    /// The Secret has authorities alone.
    #[error("tls.crt and tls.key are missing: agents ask for a certificate")]
    NoIdentity,
    /// The key belongs to another certificate.
    #[error("tls.key does not belong to tls.crt")]
    Mismatch,
    /// The library of TLS has no protocol to offer.
    #[error("TLS is not available")]
    Unavailable,
}

/// The files of TLS, which an agent and its database share.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The certificate with its chain.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authorities whose certificates clients and servers must have.
    pub authorities: PathBuf,
}

/// The content of the files, which can be read again.
#[derive(Debug)]
pub struct TlsFiles(RwLock<Pair>);

#[derive(Clone, Debug)]
struct Pair {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// The file that cannot be used.
    pub fn read(files: &Tls) -> Result<Self, TlsError> {
        Ok(Self(RwLock::new(pair(files)?)))
    }

    /// Reads the files again. If they cannot be used, the earlier content stays.
    ///
    /// # Errors
    /// As for [`TlsFiles::read`].
    pub fn read_again(&self, files: &Tls) -> Result<(), TlsError> {
        let pair = pair(files)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = pair;
        Ok(())
    }

    /// For accepted connections.
    pub fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).server)
    }
    /// For the agent's own requests.
    pub fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).client)
    }
}

fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> TlsError {
    TlsError::Unreadable { place: path.display().to_string(), why: why.to_string() }
}

fn pair(files: &Tls) -> Result<Pair, TlsError> {
    let chain = certificates(&files.certificate)?;
    let key = || PrivateKeyDer::from_pem_file(&files.key).map_err(|e| unreadable(&files.key, &e));
    let mut roots = RootCertStore::empty();
    for authority in certificates(&files.authorities)? {
        roots.add(authority).map_err(|e| unreadable(&files.authorities, &e))?;
    }
    let roots = Arc::new(roots);
    let unusable = |e: &dyn std::fmt::Display| unreadable(&files.certificate, e);
    let verifier = WebPkiClientVerifier::builder(Arc::clone(&roots)).build().map_err(|e| unusable(&e))?;
    let server = ServerConfig::builder().with_client_cert_verifier(verifier);
    let mut server = server.with_single_cert(chain.clone(), key()?).map_err(|e| unusable(&e))?;
    server.alpn_protocols.push(b"http/1.1".to_vec());
    let client = ClientConfig::builder().with_root_certificates(roots);
    let client = client.with_client_auth_cert(chain, key()?).map_err(|e| unusable(&e))?;
    Ok(Pair { server: Arc::new(server), client: Arc::new(client) })
}

/// The configuration of a client with certificates and a key as PEM texts.
///
/// # Errors
/// The text that cannot be used, by its key in a Secret of type `kubernetes.io/tls`.
pub fn client_of_pem(ca: &[u8], identity: Option<(&[u8], &[u8])>) -> Result<Arc<ClientConfig>, TlsError> {
    let certificates = |key: &str, pem: &[u8]| {
        let read: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(pem).collect();
        read.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| TlsError::NoCertificate(key.to_owned()))
    };
    let mut roots = RootCertStore::empty();
    for authority in certificates("ca.crt", ca)? {
        roots.add(authority).map_err(|_| TlsError::NotAnAuthority("ca.crt".to_owned()))?;
    }
    let (chain, key) = identity.ok_or(TlsError::NoIdentity)?;
    let chain = certificates("tls.crt", chain)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey("tls.key".to_owned()))?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|_| TlsError::Unavailable)?;
    let config = builder.with_root_certificates(roots).with_client_auth_cert(chain, key);
    config.map(Arc::new).map_err(|_| TlsError::Mismatch)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(TlsError::NoCertificate(path.display().to_string())),
        Err(error) => Err(unreadable(path, &error)),
    }
}

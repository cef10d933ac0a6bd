//! TLS for the metrics: a certificate from a folder, which is read again when it changes, or a self-signed one.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;

/// How often the certificate's files are read again.
const REREAD: Duration = Duration::from_secs(60);

/// Why the server cannot use a certificate.
#[derive(Debug, thiserror::Error)]
pub enum ServerCertificateError {
    /// The chain is not PEM.
    #[error("the certificate cannot be read: {0}")]
    Chain(pem::Error),
    /// The key is not PEM.
    #[error("the key cannot be read: {0}")]
    Key(pem::Error),
    /// The two do not belong together.
    #[error("the certificate does not match the key: {0}")]
    Pair(#[from] rustls::Error),
    /// The files of a folder cannot be used.
    #[error("{folder}: {error}")]
    Folder {
        /// Their folder.
        folder: String,
        /// Why.
        error: Box<Self>,
    },
}

/// The server's certificate, which can be replaced.
#[derive(Debug)]
pub struct Certificate(RwLock<Arc<CertifiedKey>>);

impl Certificate {
    /// Reads PEM texts: a chain and its key.
    pub fn new(chain: &[u8], key: &[u8]) -> Result<Arc<Self>, ServerCertificateError> {
        Ok(Arc::new(Self(RwLock::new(Arc::new(certified(chain, key)?)))))
    }

    /// Reads `tls.crt` and `tls.key` in a folder; `None` unless both exist.
    pub fn read(folder: &Path) -> Option<Result<Arc<Self>, ServerCertificateError>> {
        let (chain, key) = files(folder)?;
        let wrong = |e| ServerCertificateError::Folder { folder: folder.display().to_string(), error: Box::new(e) };
        Some(Self::new(&chain, &key).map_err(wrong))
    }

    /// Follows changes of the files in a folder until cancelled. Ignores a new pair that cannot be used.
    pub async fn follow(self: Arc<Self>, folder: &Path, stop: CancellationToken) {
        let mut last = files(folder);
        while tokio::time::timeout(REREAD, stop.cancelled()).await.is_err() {
            let now = files(folder);
            if now != last {
                match now.as_ref().map(|(chain, key)| certified(chain, key)) {
                    Some(Ok(certified)) => {
                        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(certified);
                    }
                    Some(Err(error)) => tracing::warn!(%error, "the new certificate cannot be used"),
                    None => {}
                }
                last = now;
            }
        }
    }
}

impl Certificate {
    /// TLS with this certificate. With `http2`, the server offers HTTP/2 in the handshake.
    pub fn config(self: Arc<Self>, http2: bool) -> Arc<ServerConfig> {
        let mut config = ServerConfig::builder().with_no_client_auth().with_cert_resolver(self);
        config.alpn_protocols.extend(http2.then(|| b"h2".to_vec()));
        config.alpn_protocols.push(b"http/1.1".to_vec());
        // Session storage would be filled by every stranger.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Arc::new(config)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn files(folder: &Path) -> Option<(Vec<u8>, Vec<u8>)> {
    Some((std::fs::read(folder.join("tls.crt")).ok()?, std::fs::read(folder.join("tls.key")).ok()?))
}

fn certified(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, ServerCertificateError> {
    let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(ServerCertificateError::Chain)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(ServerCertificateError::Key)?;
    let provider = rustls::crypto::ring::default_provider();
    Ok(CertifiedKey::from_der(chain, key, &provider)?)
}

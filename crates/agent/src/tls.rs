//! TLS between the operator and agents, and between agents: both sides have certificates of the same authority.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

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
    pub fn read(files: &Tls) -> Result<Self, String> {
        Ok(Self(RwLock::new(pair(files)?)))
    }

    /// Reads the files again. If they cannot be used, the earlier content stays.
    pub fn read_again(&self, files: &Tls) -> Result<(), String> {
        let pair = pair(files)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = pair;
        Ok(())
    }

    /// For what is accepted.
    pub fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).server)
    }
    /// For what is asked.
    pub fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).client)
    }
}

fn pair(files: &Tls) -> Result<Pair, String> {
    let chain = certificates(&files.certificate)?;
    let key = || PrivateKeyDer::from_pem_file(&files.key).map_err(|e| format!("{}: {e}", files.key.display()));
    let mut roots = RootCertStore::empty();
    for authority in certificates(&files.authorities)? {
        roots.add(authority).map_err(|e| format!("{}: {e}", files.authorities.display()))?;
    }
    let roots = Arc::new(roots);
    let unusable = |e: &dyn std::fmt::Display| format!("{}: {e}", files.certificate.display());
    let verifier = WebPkiClientVerifier::builder(Arc::clone(&roots)).build().map_err(|e| unusable(&e))?;
    let server = ServerConfig::builder().with_client_cert_verifier(verifier);
    let mut server = server.with_single_cert(chain.clone(), key()?).map_err(|e| unusable(&e))?;
    server.alpn_protocols.push(b"http/1.1".to_vec());
    let client = ClientConfig::builder().with_root_certificates(roots);
    let client = client.with_client_auth_cert(chain, key()?).map_err(|e| unusable(&e))?;
    Ok(Pair { server: Arc::new(server), client: Arc::new(client) })
}

/// The configuration of a client with certificates and a key as PEM texts. The error names the one that is wrong as Secrets of type
/// `kubernetes.io/tls` do.
pub fn client_of_pem(ca: &[u8], identity: Option<(&[u8], &[u8])>) -> Result<Arc<ClientConfig>, String> {
    let certificates = |key: &str, pem: &[u8]| {
        let read: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(pem).collect();
        read.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| format!("{key} has no certificate"))
    };
    let mut roots = RootCertStore::empty();
    for authority in certificates("ca.crt", ca)? {
        roots.add(authority).map_err(|_| "ca.crt has something else than a certificate".to_owned())?;
    }
    let (chain, key) = identity.ok_or("tls.crt and tls.key are missing: agents ask for a certificate")?;
    let chain = certificates("tls.crt", chain)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "tls.key has no private key".to_owned())?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|_| "TLS is not available".to_owned())?;
    let config = builder.with_root_certificates(roots).with_client_auth_cert(chain, key);
    config.map(Arc::new).map_err(|_| "tls.key does not belong to tls.crt".to_owned())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(format!("{} has no certificate", path.display())),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

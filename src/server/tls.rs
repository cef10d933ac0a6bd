//! TLS for the metrics: the certificate of a folder, read again when it changes, or one that signs itself.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::serve::Listener;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

/// A client that does not finish its handshake within this time is left.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes at one time; further clients wait.
const HANDSHAKES: usize = 32;
/// How often the certificate's files are read again.
const REREAD: Duration = Duration::from_secs(60);

/// The certificate that is shown, which may be exchanged.
#[derive(Debug)]
pub struct Certificate(RwLock<Arc<CertifiedKey>>);

impl Certificate {
    /// From PEM texts: a chain and its key.
    pub fn new(chain: &[u8], key: &[u8]) -> Result<Arc<Self>, String> {
        Ok(Arc::new(Self(RwLock::new(Arc::new(certified(chain, key)?)))))
    }

    /// From `tls.crt` and `tls.key` of a folder; `None` when they are not both there.
    pub fn read(folder: &Path) -> Option<Result<Arc<Self>, String>> {
        let (chain, key) = files(folder)?;
        Some(Self::new(&chain, &key).map_err(|e| format!("{}: {e}", folder.display())))
    }

    /// Follows the files of a folder until cancelled; a new pair that cannot be used is left out.
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

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn files(folder: &Path) -> Option<(Vec<u8>, Vec<u8>)> {
    Some((std::fs::read(folder.join("tls.crt")).ok()?, std::fs::read(folder.join("tls.key")).ok()?))
}

fn certified(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, String> {
    let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|e| format!("the certificate cannot be read: {e}"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| format!("the key cannot be read: {e}"))?;
    let provider = rustls::crypto::ring::default_provider();
    CertifiedKey::from_der(chain, key, &provider).map_err(|e| format!("certificate and key do not fit: {e}"))
}

/// Connections with TLS. A client that is slow to shake hands keeps no other waiting.
pub struct TlsListener {
    address: SocketAddr,
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
}

impl TlsListener {
    /// On a listener, until cancelled; with `http2`, clients that speak it are told that it is served.
    pub fn new(
        listener: TcpListener,
        certificate: Arc<Certificate>,
        http2: bool,
        stop: CancellationToken,
    ) -> std::io::Result<Self> {
        let mut config = rustls::ServerConfig::builder().with_no_client_auth().with_cert_resolver(certificate);
        config.alpn_protocols.extend(http2.then(|| b"h2".to_vec()));
        config.alpn_protocols.push(b"http/1.1".to_vec());
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let address = listener.local_addr()?;
        let (sender, ready) = mpsc::channel(HANDSHAKES);
        tokio::spawn(async move {
            let permits = Arc::new(tokio::sync::Semaphore::new(HANDSHAKES));
            let mut listener = listener;
            loop {
                let accepted = tokio::select! {
                    () = stop.cancelled() => return,
                    accepted = Listener::accept(&mut listener) => accepted,
                };
                let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
                let (stream, from) = accepted;
                let (acceptor, sender) = (acceptor.clone(), sender.clone());
                tokio::spawn(async move {
                    let shaken = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await;
                    drop(permit);
                    if let Ok(Ok(stream)) = shaken {
                        let _ = sender.send((stream, from)).await;
                    }
                });
            }
        });
        Ok(Self { address, ready })
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(accepted) => accepted,
            // Told to stop: there is nobody more to come.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        Ok(self.address)
    }
}

//! Pods of a database with agents: a kubelet for the pods of a namespace, and for each pod a real server of HTTPS with client certificates
//! that obeys the contract. The database behind them is in memory ([`Database`]).

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Collected, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, ResourceExt};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tillerman::agent::contract::{Reason, Refusal, Role, STATE, Verb, asked_while};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::database::Database;
use super::harness::{Space, cluster_dir};
use super::node::net;

/// How often the database moves.
const MOMENT: Duration = Duration::from_millis(10);
/// How often the API server is asked for pods.
const TICK: Duration = Duration::from_millis(100);
/// The port of agents.
const PORT: u16 = 7360;

/// The agents of a release `a` in a namespace.
pub struct Agents {
    pub shared: Arc<Shared>,
    runtime: tokio::runtime::Runtime,
}

/// What the agents, the kubelet and the clients share.
pub struct Shared {
    database: Mutex<Database>,
    /// Members that the operator does not reach.
    cut: Mutex<BTreeSet<u32>>,
    /// Where orders are announced, each with a way to let it continue.
    announced: Mutex<Option<Sender<Announced>>>,
    /// How many questions have waited for the end of a database.
    questions: Mutex<u32>,
    tls: Arc<ServerConfig>,
}

/// An order that has arrived.
pub struct Announced {
    pub ordinal: u32,
    pub verb: Verb,
    /// Whether it was obeyed already.
    pub obeyed: bool,
    /// The agent waits until this is dropped.
    pub held: tokio::sync::oneshot::Sender<()>,
}

/// Makes an authority, a certificate for these addresses and one for clients.
pub fn certificates(folder: &Path, addresses: impl Iterator<Item = String>) {
    let names: Vec<String> = addresses.map(|address| format!("IP:{address}")).collect();
    let script = r#". tests/cluster/lib.sh; member_certs "$1" "$2""#;
    let folder = folder.display().to_string();
    let made =
        Command::new("bash").args(["-ec", script, "bash", &folder, &names.join(",")]).output().expect("bash is there");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn server_config(folder: &Path) -> Arc<ServerConfig> {
    let chain = |name: &str| -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_file_iter(folder.join(name)).unwrap().map(Result::unwrap).collect()
    };
    let mut roots = RootCertStore::empty();
    for authority in chain("ca.crt") {
        roots.add(authority).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_client_cert_verifier(verifier);
    let key = PrivateKeyDer::from_pem_file(folder.join("member.key")).unwrap();
    Arc::new(builder.with_single_cert(chain("member.crt"), key).unwrap())
}

impl Agents {
    /// The same with certificates of their own, and a Secret `certificates` with those of the operator.
    pub fn with_secret(space: &Space) -> Self {
        let net = net(space, "a");
        let folder = space.dir().join("certificates");
        std::fs::create_dir_all(&folder).unwrap();
        certificates(&folder, (0..5).map(|ordinal| format!("{net}.1{ordinal}")));
        let file = |key: &str, name: &str| format!("--from-file={key}={}/{name}", folder.display());
        let files = [file("ca.crt", "ca.crt"), file("tls.crt", "client.crt"), file("tls.key", "client.key")];
        let mut create = vec!["create", "secret", "generic", "certificates"];
        create.extend(files.iter().map(String::as_str));
        space.kubectl(&create).unwrap();
        Self::new(space, &net, &folder)
    }

    /// Agents for the pods of the StatefulSet `a-db`, with the certificates of a folder.
    pub fn new(space: &Space, net: &str, folder: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let config = Kubeconfig::read_from(cluster_dir().join("admin.kubeconfig")).unwrap();
            let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
            Client::try_from(config).unwrap()
        });
        let database = Database::new(net, "a-db");
        let shared = Arc::new(Shared {
            questions: Mutex::default(),
            database: Mutex::new(database),
            cut: Mutex::default(),
            announced: Mutex::default(),
            tls: server_config(folder),
        });
        let moving = Arc::clone(&shared);
        runtime.spawn(async move {
            loop {
                moving.database().tick();
                tokio::time::sleep(MOMENT).await;
            }
        });
        let mut kubelet = DatabaseKubelet {
            pods: Api::namespaced(client.clone(), &space.name),
            claims: Api::namespaced(client.clone(), &space.name),
            maps: Api::namespaced(client, &space.name),
            shared: Arc::clone(&shared),
            running: BTreeMap::new(),
        };
        runtime.spawn(async move {
            loop {
                // An API server that is away is asked again.
                if let Err(error) = kubelet.tick().await {
                    eprintln!("the kubelet of the agents: {error}");
                }
                tokio::time::sleep(TICK).await;
            }
        });
        Self { shared, runtime }
    }

    pub fn database(&self) -> MutexGuard<'_, Database> {
        self.shared.database()
    }

    /// How many questions have waited for the end of a database.
    pub fn questions(&self) -> u32 {
        *self.shared.questions.lock().unwrap()
    }

    /// From now on the operator does not reach these members.
    pub fn cut(&self, ordinals: &[u32]) {
        *self.shared.cut.lock().unwrap() = ordinals.iter().copied().collect();
    }

    /// Each order is announced from now on, before and after it is obeyed, and waits.
    pub fn announced(&self) -> Receiver<Announced> {
        let (sender, receiver) = channel();
        *self.shared.announced.lock().unwrap() = Some(sender);
        receiver
    }

    /// A client that writes one unique key after another, to whichever member takes it.
    pub fn writer(&self, first: u64) -> JoinHandle<()> {
        let shared = Arc::clone(&self.shared);
        self.runtime.spawn(async move {
            for key in first.. {
                {
                    let mut database = shared.database();
                    let all: Vec<u32> = database.members.keys().copied().collect();
                    all.into_iter().find(|k| database.write(*k, key));
                }
                // It waits for an answer, and then gives up: the outcome is unknown.
                for _ in 0..20 {
                    tokio::time::sleep(MOMENT).await;
                    if shared.database().acknowledged.contains(&key) {
                        break;
                    }
                }
            }
        })
    }
}

impl Shared {
    pub fn database(&self) -> MutexGuard<'_, Database> {
        self.database.lock().unwrap()
    }

    /// Announces an order, and waits until the test lets it continue.
    async fn announce(&self, ordinal: u32, verb: &Verb, obeyed: bool) {
        let sender = self.announced.lock().unwrap().clone();
        let Some(sender) = sender else { return };
        let (held, waits) = tokio::sync::oneshot::channel();
        let announced = Announced { ordinal, verb: verb.clone(), obeyed, held };
        if sender.send(announced).is_ok() {
            let _ = waits.await;
        }
    }

    async fn answer(self: Arc<Self>, ordinal: u32, request: Request<Incoming>) -> Response<Full<Bytes>> {
        while self.is_mute(ordinal) {
            tokio::time::sleep(MOMENT).await;
        }
        let path = request.uri().path().to_owned();
        if request.method() == Method::GET && path == STATE {
            if let Some((start, within)) = asked_while(request.uri().query().unwrap_or_default()) {
                let end = Instant::now() + within;
                *self.questions.lock().unwrap() += 1;
                while self.database().state(ordinal).start == start && Instant::now() < end {
                    tokio::time::sleep(MOMENT).await;
                }
            }
            return shown(200, &serde_json::to_vec(&self.database().state(ordinal)).unwrap());
        }
        let body = request.into_body().collect().await.map_or_else(|_| Bytes::new(), Collected::to_bytes);
        let name = path.strip_prefix("/v1/").unwrap_or_default();
        let answer = match Verb::read(name, &body) {
            Ok(verb) => self.obeyed(ordinal, &verb).await,
            Err(error) => Err(Refusal { reason: Reason::Invalid, message: error.to_string() }),
        };
        match answer {
            Ok(()) => shown(200, &serde_json::to_vec(&self.database().state(ordinal)).unwrap()),
            Err(refusal) => shown(refusal.reason.status(), &serde_json::to_vec(&refusal).unwrap()),
        }
    }

    fn is_mute(&self, ordinal: u32) -> bool {
        self.cut.lock().unwrap().contains(&ordinal) || self.database().stopped.contains(&ordinal)
    }

    async fn obeyed(&self, ordinal: u32, verb: &Verb) -> Result<(), Refusal> {
        self.announce(ordinal, verb, false).await;
        self.database().obey(ordinal, verb)?;
        if let Verb::Demote(order) = verb {
            let end = Instant::now() + Duration::from_millis(order.within);
            while !self.database().is_demoted(ordinal, Instant::now() > end) {
                tokio::time::sleep(MOMENT).await;
            }
            if self.database().members[&ordinal].role == Role::Primary {
                return Err(Refusal { reason: Reason::TimeOver, message: "commits still wait".to_owned() });
            }
        }
        self.announce(ordinal, verb, true).await;
        Ok(())
    }
}

fn shown(status: u16, body: &[u8]) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::new(Bytes::copy_from_slice(body))).unwrap()
}

/// Listens at the address of an ordinal until it is dropped.
async fn serve(shared: Arc<Shared>, ordinal: u32) {
    let host = shared.database().host(ordinal);
    let listener = loop {
        match TcpListener::bind((host.as_str(), PORT)).await {
            Ok(listener) => break listener,
            // The process before may not have gone yet.
            Err(_) => tokio::time::sleep(MOMENT).await,
        }
    };
    let acceptor = TlsAcceptor::from(Arc::clone(&shared.tls));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(|request| {
                let shared = Arc::clone(&shared);
                async move { Ok::<_, Infallible>(shared.answer(ordinal, request).await) }
            });
            // A client may go at any time.
            drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

struct DatabaseKubelet {
    pods: Api<Pod>,
    claims: Api<PersistentVolumeClaim>,
    maps: Api<ConfigMap>,
    shared: Arc<Shared>,
    /// By ordinal: the uid of the pod, its server, and the status that was reported.
    running: BTreeMap<u32, (String, JoinHandle<()>, Value)>,
}

impl DatabaseKubelet {
    async fn tick(&mut self) -> Result<(), kube::Error> {
        let pods = self.pods.list(&ListParams::default()).await?.items;
        let claims = self.claims.list(&ListParams::default()).await?.items;
        let of_set = |pod: &Pod| pod.name_any().strip_prefix("a-db-").and_then(|ordinal| ordinal.parse::<u32>().ok());
        let there: BTreeMap<u32, &Pod> = pods.iter().filter_map(|pod| Some((of_set(pod)?, pod))).collect();
        let shared = Arc::clone(&self.shared);
        self.running.retain(|ordinal, (uid, server, _)| {
            let runs = shared.database().members.get(ordinal).is_some_and(|member| member.runs);
            let stays = runs && there.get(ordinal).and_then(|pod| pod.uid()).as_deref() == Some(uid);
            if !stays {
                server.abort();
                shared.database().crash(*ordinal);
            }
            stays
        });
        for (ordinal, pod) in there {
            let claim = claims.iter().find(|claim| claim.name_any() == format!("data-a-db-{ordinal}"));
            let claim = claim.filter(|claim| claim.metadata.deletion_timestamp.is_none()).and_then(ResourceExt::uid);
            if let (false, Some(claim)) = (self.running.contains_key(&ordinal), claim) {
                let Some(map) = self.maps.get_opt("a-db-roles").await? else { continue };
                shared.database().start(ordinal, &claim, &map.data.unwrap_or_default());
                let server = tokio::spawn(serve(Arc::clone(&shared), ordinal));
                self.running.insert(ordinal, (pod.uid().unwrap_or_default(), server, Value::Null));
            }
            self.report(ordinal, pod).await?;
        }
        Ok(())
    }

    /// A pod is ready as its agent says: the primary takes writes, a replica receives.
    async fn report(&mut self, ordinal: u32, pod: &Pod) -> Result<(), kube::Error> {
        let Some((_, _, reported)) = self.running.get_mut(&ordinal) else { return Ok(()) };
        let state = self.shared.database().state(ordinal);
        let ready = state.writable || (state.role == Role::Replica && state.receiving);
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
            "containerStatuses": [{"name": "db", "image": "", "imageID": "", "ready": ready, "restartCount": 0,
                "state": {"running": {"startedAt": jiff::Timestamp::UNIX_EPOCH.to_string()}}}]});
        if *reported == status {
            return Ok(());
        }
        let patch = Patch::Merge(json!({"metadata": {"uid": pod.uid()}, "status": status}));
        match self.pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await {
            Ok(_) => *reported = status,
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

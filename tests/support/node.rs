//! A node for pods of etcd: it takes the pods of a namespace and runs a real process of etcd for each, with what the API server says
//! of the pod and its `ConfigMap`. A claim is a folder, which goes when the claim does; an address belongs to an ordinal.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Node as KubeNode, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::harness::{Space, cluster_dir};

/// A kubelet waits longer from time to time; here a container that ended starts again after this.
const BACKOFF: Duration = Duration::from_millis(300);
/// How often the API server is asked for pods.
const TICK: Duration = Duration::from_millis(100);
/// The node controller gives up a node that says nothing for 50 seconds.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Annotation of pods: the first three bytes of their addresses.
const NET: &str = "test/net";
/// Annotation of pods that run something else than etcd: a command with `ADDRESS` and `DATA` in it, which listens on port 2379.
const COMMAND: &str = "test/command";

/// Addresses of a release: their first three bytes. No other release on this machine has them as long as this program runs: members
/// of two would be in each other's way, and neither would ever be ready.
pub fn net(space: &Space, release: &str) -> String {
    static GIVEN: Mutex<BTreeMap<String, (String, TcpListener)>> = Mutex::new(BTreeMap::new());
    let key = format!("{}/{release}", space.name);
    let hash = key.bytes().fold(7_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    given.entry(key).or_insert_with(|| free_net(hash)).0.clone()
}

/// Addresses that nobody has, and what holds them.
fn free_net(first: u32) -> (String, TcpListener) {
    let nets = (0..50_000).map(|n| (first % 50_000 + n) % 50_000);
    let mut free = nets.filter_map(|n| {
        let net = format!("127.{}.{}", 16 + n / 250, 1 + n % 250);
        let held = TcpListener::bind(format!("{net}.1:2378")).ok()?;
        // Others only listen there.
        TcpListener::bind(format!("{net}.10:2379")).ok()?;
        Some((net, held))
    });
    free.next().expect("some addresses are free")
}

/// Where an ordinal listens for clients.
pub fn client_url(net: &str, ordinal: u32) -> String {
    format!("http://{net}.1{ordinal}:2379")
}

/// A node that lives as long as this.
pub struct Node {
    shared: Arc<Mutex<Shared>>,
    name: String,
    nodes: Api<KubeNode>,
    folder: PathBuf,
    runtime: tokio::runtime::Runtime,
}

#[derive(Default)]
struct Shared {
    /// Names of pods that no node takes.
    held: BTreeSet<String>,
    /// By uid of their pods.
    running: HashMap<String, Running>,
    /// No more containers are started.
    closed: bool,
}

/// The container of a pod.
struct Running {
    name: String,
    process: Option<Child>,
    data: PathBuf,
    log: PathBuf,
    ended: Option<Instant>,
    told_to_end: Option<Instant>,
    restarts: u32,
    /// When the process was started.
    started: String,
    exit: Option<(i32, String)>,
    reported: Value,
}

impl Node {
    /// One that takes all pods of the namespace that have an address.
    pub fn new(space: &Space) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let config = Kubeconfig::read_from(cluster_dir().join("admin.kubeconfig")).unwrap();
            let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
            Client::try_from(config).unwrap()
        });
        let name = format!("node-{}", space.name);
        let nodes: Api<KubeNode> = Api::all(client.clone());
        let folder = std::env::temp_dir().join(format!("tillerman-{name}"));
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir_all(&folder).unwrap();
        let shared = Arc::<Mutex<Shared>>::default();
        runtime.block_on(async {
            let body: KubeNode = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            nodes.create(&PostParams::default(), &body).await.unwrap();
            beat(&nodes, &name).await.unwrap();
        });
        let kubelet = ProcessKubelet {
            pods: Api::namespaced(client.clone(), &space.name),
            claims: Api::namespaced(client.clone(), &space.name),
            maps: Api::namespaced(client, &space.name),
            node: name.clone(),
            folder: folder.clone(),
            shared: Arc::clone(&shared),
        };
        let (heart, of) = (nodes.clone(), name.clone());
        runtime.spawn(async move {
            loop {
                // One that fails is followed by the next.
                let _ = beat(&heart, &of).await;
                tokio::time::sleep(HEARTBEAT).await;
            }
        });
        runtime.spawn(async move {
            loop {
                // An API server that is away is asked again.
                if let Err(error) = kubelet.tick().await {
                    eprintln!("{}: {error}", kubelet.node);
                }
                tokio::time::sleep(TICK).await;
            }
        });
        Self { shared, name, nodes, folder, runtime }
    }

    /// The runtime, for clients of members.
    pub fn runtime(&self) -> &tokio::runtime::Runtime {
        &self.runtime
    }

    /// No node takes a pod of this name from now on.
    pub fn hold(&self, pod: &str) {
        self.shared().held.insert(pod.to_owned());
    }

    /// Pods of this name are taken again.
    pub fn take(&self, pod: &str) {
        self.shared().held.remove(pod);
    }

    /// Sends a signal to the process of a pod.
    pub fn signal(&self, pod: &str, signal: &str) {
        for running in self.shared().running.values().filter(|running| running.name == pod) {
            running.signal(signal);
        }
    }

    /// Kills the process of a pod and takes its data.
    pub fn wipe(&self, pod: &str) {
        for running in self.shared().running.values_mut().filter(|running| running.name == pod) {
            if let Some(mut process) = running.process.take() {
                process.kill().unwrap();
                process.wait().unwrap();
            }
            running.ended = Some(Instant::now());
            running.exit = Some((137, String::new()));
            std::fs::remove_dir_all(&running.data).unwrap();
        }
    }

    /// How the process of a pod ended last: code and message.
    pub fn exit(&self, pod: &str) -> Option<(i32, String)> {
        self.shared().running.values().find(|running| running.name == pod)?.exit.clone()
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let mut shared = match self.shared.lock() {
            Ok(shared) => shared,
            Err(poisoned) => poisoned.into_inner(),
        };
        shared.closed = true;
        for running in shared.running.values_mut() {
            if std::thread::panicking() {
                eprintln!("--- log of {}\n{}", running.name, tail(&running.log));
            }
            if let Some(mut process) = running.process.take() {
                drop(process.kill());
                drop(process.wait());
            }
        }
        shared.running.clear();
        drop(shared);
        // Pods of a node that is gone are collected.
        let (nodes, name) = (self.nodes.clone(), self.name.clone());
        drop(self.runtime.block_on(async move { nodes.delete(&name, &DeleteParams::default()).await }));
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

async fn beat(nodes: &Api<KubeNode>, name: &str) -> Result<(), kube::Error> {
    let now = jiff::Timestamp::now().to_string();
    let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now});
    let patch = Patch::Merge(json!({"status": {"conditions": [ready]}}));
    nodes.patch_status(name, &PatchParams::default(), &patch).await.map(drop)
}

struct ProcessKubelet {
    pods: Api<Pod>,
    claims: Api<PersistentVolumeClaim>,
    maps: Api<ConfigMap>,
    node: String,
    folder: PathBuf,
    shared: Arc<Mutex<Shared>>,
}

impl ProcessKubelet {
    async fn tick(&self) -> Result<(), kube::Error> {
        let pods = self.pods.list(&ListParams::default()).await?.items;
        let claims = self.claims.list(&ListParams::default()).await?.items;
        self.forget(&pods, &claims);
        for pod in pods.iter().filter(|pod| pod.annotations().contains_key(NET)) {
            if let Err(error) = self.follow(pod, &claims).await
                // Others delete and change pods too.
                && !matches!(&error, kube::Error::Api(status) if status.is_not_found() || status.is_conflict())
            {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Pods that are gone have no process, and claims that are gone no data.
    fn forget(&self, pods: &[Pod], claims: &[PersistentVolumeClaim]) {
        let there: HashSet<String> = pods.iter().filter_map(ResourceExt::uid).collect();
        let mut shared = self.shared.lock().unwrap();
        // Its folder goes.
        if shared.closed {
            return;
        }
        shared.running.retain(|uid, running| {
            let stays = there.contains(uid);
            if let Some(mut process) = running.process.take_if(|_| !stays) {
                drop(process.kill());
                drop(process.wait());
            }
            stays
        });
        let used: HashSet<PathBuf> = shared.running.values().map(|running| running.data.clone()).collect();
        let there: HashSet<PathBuf> =
            claims.iter().filter_map(ResourceExt::uid).map(|uid| self.folder.join(uid)).collect();
        for folder in std::fs::read_dir(&self.folder).unwrap().map(|folder| folder.unwrap().path()) {
            if folder.is_dir() && !there.contains(&folder) && !used.contains(&folder) {
                drop(std::fs::remove_dir_all(folder));
            }
        }
    }

    async fn follow(&self, pod: &Pod, claims: &[PersistentVolumeClaim]) -> Result<(), kube::Error> {
        let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
        let spec = pod.spec.as_ref().expect("a pod has a spec");
        if pod.metadata.deletion_timestamp.is_some() {
            return self.end(&name, &uid).await;
        }
        if spec.node_name.is_none() {
            if self.shared.lock().unwrap().held.contains(&name) {
                return Ok(());
            }
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": self.node}});
            let _: Value = self.pods.create_subresource("binding", &name, &PostParams::default(), &binding).await?;
            return Ok(());
        }
        if !self.reap(&uid) {
            let of_pod = spec.volumes.iter().flatten().find_map(|volume| volume.persistent_volume_claim.as_ref());
            let claim = of_pod.and_then(|of| claims.iter().find(|claim| claim.name_any() == of.claim_name));
            let usable = claim.filter(|claim| claim.metadata.deletion_timestamp.is_none()).and_then(ResourceExt::uid);
            if let (Some(claim), Some(env)) = (usable, self.environment(pod).await?) {
                self.start(pod, &name, &uid, &self.folder.join(claim), &env);
            }
        }
        self.report(pod, &name, &uid).await
    }

    /// Asks a process to end, and removes its pod when it has.
    async fn end(&self, name: &str, uid: &str) -> Result<(), kube::Error> {
        let runs = self.reap(uid);
        if runs && let Some(running) = self.shared.lock().unwrap().running.get_mut(uid) {
            match running.told_to_end {
                None => {
                    running.signal("TERM");
                    running.told_to_end = Some(Instant::now());
                }
                Some(told) if told.elapsed() > Duration::from_secs(5) => running.signal("KILL"),
                Some(_) => {}
            }
            return Ok(());
        }
        let preconditions = Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        let params = DeleteParams { grace_period_seconds: Some(0), preconditions, ..DeleteParams::default() };
        self.pods.delete(name, &params).await.map(drop)
    }

    /// Whether a process runs, or must not be started again yet.
    fn reap(&self, uid: &str) -> bool {
        let mut shared = self.shared.lock().unwrap();
        let Some(running) = shared.running.get_mut(uid) else { return false };
        let Some(process) = &mut running.process else {
            return running.told_to_end.is_none() && running.ended.is_some_and(|ended| ended.elapsed() < BACKOFF);
        };
        let Some(status) = process.try_wait().unwrap() else { return true };
        let code = status.code().unwrap_or(137);
        // As FallbackToLogsOnError has it: nothing of the log after an end without an error.
        let message = if code == 0 { String::new() } else { tail(&running.log) };
        running.exit = Some((code, message));
        running.process = None;
        running.ended = Some(Instant::now());
        running.told_to_end.is_none()
    }

    /// The environment of the container; none while a `ConfigMap` is missing.
    async fn environment(&self, pod: &Pod) -> Result<Option<BTreeMap<String, String>>, kube::Error> {
        let mut env = BTreeMap::new();
        let from = pod.spec.as_ref().and_then(|spec| spec.containers[0].env_from.clone()).unwrap_or_default();
        for map in from.into_iter().filter_map(|from| from.config_map_ref) {
            let Some(map) = self.maps.get_opt(&map.name).await? else { return Ok(None) };
            env.extend(map.data.unwrap_or_default());
        }
        Ok(Some(env))
    }

    fn start(&self, pod: &Pod, name: &str, uid: &str, data: &Path, env: &BTreeMap<String, String>) {
        let ordinal = name.rsplit_once('-').expect("it has an ordinal").1;
        let address = format!("{}.1{ordinal}", pod.annotations()[NET]);
        // Held while the process is started: none is after the node was dropped.
        let mut shared = self.shared.lock().unwrap();
        if shared.closed {
            return;
        }
        std::fs::create_dir_all(data).unwrap();
        let log = self.folder.join(format!("{name}.log"));
        let file = std::fs::File::create(&log).unwrap();
        let process = command(pod, name, &address, data, env)
            .env("POD_NAME", name)
            .envs(env)
            .env("GOMAXPROCS", "2")
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("what the pod runs is on PATH");
        let running = shared.running.entry(uid.to_owned()).or_insert_with(|| Running {
            name: name.to_owned(),
            process: None,
            data: data.to_owned(),
            log,
            ended: None,
            told_to_end: None,
            restarts: 0,
            started: String::new(),
            exit: None,
            reported: Value::Null,
        });
        running.restarts += u32::from(running.ended.is_some());
        running.process = Some(process);
        running.started = jiff::Timestamp::now().to_string();
    }

    /// Reports the state of a pod when it has changed.
    async fn report(&self, pod: &Pod, name: &str, uid: &str) -> Result<(), kube::Error> {
        let ordinal = name.rsplit_once('-').expect("it has an ordinal").1;
        let address = format!("{}.1{ordinal}:2379", pod.annotations()[NET]);
        let connecting = tokio::time::timeout(Duration::from_millis(100), tokio::net::TcpStream::connect(&address));
        let listens = matches!(connecting.await, Ok(Ok(_)));
        let status = {
            let mut shared = self.shared.lock().unwrap();
            let Some(running) = shared.running.get_mut(uid) else { return Ok(()) };
            let ready = running.process.is_some() && listens;
            let ended = running.exit.as_ref();
            let last = ended.map(|(code, message)| json!({"terminated": {"exitCode": code, "message": message}}));
            let state = match running.process {
                Some(_) => json!({"running": {"startedAt": running.started}}),
                None => {
                    json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}})
                }
            };
            let container = json!({"name": "etcd", "image": "", "imageID": "", "ready": ready, "restartCount": running.restarts,
                "state": state, "lastState": last.unwrap_or_else(|| json!({}))});
            let ready = json!({"type": "Ready", "status": if ready { "True" } else { "False" }});
            let status = json!({"phase": "Running", "conditions": [ready], "containerStatuses": [container]});
            if running.reported == status {
                return Ok(());
            }
            running.reported = status.clone();
            status
        };
        let patch = Patch::Merge(json!({"metadata": {"uid": uid}, "status": status}));
        let sent = self.pods.patch_status(name, &PatchParams::default(), &patch).await;
        if sent.is_err()
            && let Some(running) = self.shared.lock().unwrap().running.get_mut(uid)
        {
            running.reported = Value::Null;
        }
        sent.map(drop)
    }
}

/// What the containers of a pod run: those that come first, one after the other, and then the one that stays.
fn command(pod: &Pod, name: &str, address: &str, data: &Path, env: &BTreeMap<String, String>) -> Command {
    let last = last_words(pod, name, address, data);
    let first = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref());
    let first: Vec<_> = first.into_iter().flatten().collect();
    if first.is_empty() {
        let mut command = Command::new(&last[0]);
        command.args(&last[1..]);
        return command;
    }
    let lines = first.into_iter().map(|container| {
        let words = container.command.iter().chain(&container.args).flatten();
        quoted(words.map(|word| {
            let word = word.replace("ADDRESS", address).replace("DATA", &data.display().to_string());
            let word = word.replace("$(POD_NAME)", name);
            env.iter().fold(word, |word, (name, value)| word.replace(&format!("$({name})"), value))
        }))
    });
    let script: Vec<String> = lines.chain([format!("exec {}", quoted(last.into_iter()))]).collect();
    let mut command = Command::new("sh");
    command.args(["-ec", &script.join("\n")]);
    command
}

/// Words as a shell reads them.
fn quoted(words: impl Iterator<Item = String>) -> String {
    words.map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect::<Vec<_>>().join(" ")
}

fn last_words(pod: &Pod, name: &str, address: &str, data: &Path) -> Vec<String> {
    if let Some(text) = pod.annotations().get(COMMAND) {
        let data = data.display().to_string();
        return text.split_whitespace().map(|word| word.replace("ADDRESS", address).replace("DATA", &data)).collect();
    }
    let image = pod.spec.as_ref().and_then(|spec| spec.containers[0].image.clone()).unwrap_or_default();
    let program = if image.contains(":3.5") { "etcd-3.5" } else { "etcd" };
    let (peers, clients) = (format!("http://{address}:2380"), format!("http://{address}:2379"));
    let folder = data.join("data").display().to_string();
    let flags = [
        ["--name", name],
        ["--data-dir", &folder],
        ["--listen-peer-urls", &peers],
        ["--initial-advertise-peer-urls", &peers],
        ["--listen-client-urls", &clients],
        ["--advertise-client-urls", &clients],
    ];
    let more = pod.annotations().get("test/flags").into_iter().flat_map(|flags| flags.split_whitespace());
    [program, "--unsafe-no-fsync"]
        .into_iter()
        .chain(flags.into_iter().flatten())
        .chain(more)
        .map(str::to_owned)
        .collect()
}

impl Running {
    fn signal(&self, signal: &str) {
        if let Some(process) = &self.process {
            super::signal::signal(process.id(), signal);
        }
    }
}

/// What a termination message has of a log: 2,048 bytes.
fn tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(2048)..]).into_owned()
}

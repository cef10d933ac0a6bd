//! Plays the StatefulSet controller and the kubelet, with a process of etcd for each pod: each listens on a loopback address of its
//! own and has a folder for a claim.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::network::Network;
use tillerman::members::workload::{ClaimSize, Exit, Pod, PodPhase, VolumeClaim, Workload};

/// A kubelet waits longer from time to time; here one that ended starts again after this.
const BACKOFF: Duration = Duration::from_millis(300);

/// Where members find each other, and where they listen when a proxy does there.
const PEERS: u16 = 2380;
const BEHIND: u16 = 12380;

/// How many there have been.
static CLUSTERS: AtomicU32 = AtomicU32::new(0);

/// A StatefulSet, its pods and its claims.
pub struct StatefulSet {
    pub replicas: u32,
    /// The first ordinal that has a pod.
    pub start: u32,
    pub template: &'static str,
    pub config_map: BTreeMap<String, String>,
    pub pods: BTreeMap<u32, Running>,
    pub claims: BTreeMap<u32, VolumeClaim>,
    /// Ordinals whose pods no node takes: their process is not started.
    pub unschedulable: BTreeSet<u32>,
    /// The program of pods of a template; of others, the one of the run.
    pub programs: BTreeMap<&'static str, PathBuf>,
    /// Flags of TLS, with which URLs are of https.
    pub tls: Vec<String>,
    /// Flags of pods of a template whose peers call each other with https.
    pub peer_tls: BTreeMap<&'static str, Vec<String>>,
    /// Flags of pods of a template that clients call with https.
    pub client_tls: BTreeMap<&'static str, Vec<String>>,
    /// More flags.
    pub flags: Vec<String>,
    /// What lies between the members; None: nothing.
    pub network: Option<Network>,
    etcd: PathBuf,
    pub folder: PathBuf,
    /// The first three bytes of all addresses.
    net: String,
    next: u32,
}

/// A pod and its process.
pub struct Running {
    pub pod: Pod,
    process: Option<Child>,
    ended: Option<Instant>,
}

impl StatefulSet {
    /// No pod yet.
    pub fn new() -> Self {
        let etcd = std::env::var_os("ETCD").map_or_else(|| tools().join("etcd"), PathBuf::from);
        assert!(etcd.exists(), "{} is missing: tests/cluster/build-tools.sh control-plane", etcd.display());
        let mut seed = std::process::id() * 64 + CLUSTERS.fetch_add(1, Ordering::Relaxed);
        let net = loop {
            let net = format!("127.{}.{}", 16 + seed / 250 % 200, 1 + seed % 250);
            if TcpListener::bind(format!("{net}.1:2379")).is_ok() {
                break net;
            }
            seed += 1;
        };
        let folder = std::env::temp_dir().join(format!("tillerman-members-{net}"));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).expect("the temporary folder can be written");
        Self {
            replicas: 0,
            start: 0,
            template: "r1",
            config_map: BTreeMap::new(),
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            unschedulable: BTreeSet::new(),
            programs: BTreeMap::new(),
            tls: Vec::new(),
            peer_tls: BTreeMap::new(),
            client_tls: BTreeMap::new(),
            flags: Vec::new(),
            network: None,
            etcd,
            folder,
            net,
            next: 0,
        }
    }

    /// The same with a network between the members that can be parted.
    pub async fn networked() -> Self {
        let mut pods = Self::new();
        let address = |port: u16| move |pods: &Self, k: u32| format!("{}:{port}", pods.address(k)).parse();
        let (public, private) = (address(PEERS), address(BEHIND));
        let members = (0..6).map(|k| Some((k, public(&pods, k).ok()?, private(&pods, k).ok()?)));
        let members = members.collect::<Option<_>>().expect("they are addresses");
        pods.network = Some(Network::between(members).await);
        pods
    }

    /// The URL of a port, with `$(ORDINAL)` in its host.
    pub fn pattern(&self, port: u16) -> String {
        format!("{}://{}:{port}", self.scheme(), self.address("$(ORDINAL)"))
    }

    pub fn client_url(&self, ordinal: u32) -> String {
        self.pattern(2379).replace("$(ORDINAL)", &ordinal.to_string())
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_empty() { "http" } else { "https" }
    }

    /// The address of an ordinal.
    pub fn address(&self, ordinal: impl std::fmt::Display) -> String {
        format!("{}.1{ordinal}", self.net)
    }

    fn data(&self, ordinal: u32) -> PathBuf {
        let uid = self.claims.get(&ordinal).map(|claim| &*claim.uid).unwrap_or_default();
        self.folder.join(uid).join("data")
    }

    pub fn log(&self, ordinal: u32) -> PathBuf {
        self.folder.join(format!("{ordinal}.log"))
    }

    fn uid(&mut self) -> Box<str> {
        self.next += 1;
        self.next.to_string().into()
    }

    pub fn workload(&self) -> Workload {
        Workload {
            namespace: "ns".into(),
            name: "e".into(),
            resource_version: "1".into(),
            replicas: self.replicas,
            start: self.start,
            update_revision: self.template.into(),
            pods: self.pods.iter().map(|(ordinal, running)| (*ordinal, running.pod.clone())).collect(),
            earlier: Vec::new(),
            claims: self.claims.iter().map(|(ordinal, claim)| (*ordinal, vec![claim.clone()])).collect(),
        }
    }

    /// Deletes a pod: its process gets the signal to end.
    pub fn delete(&mut self, ordinal: u32, uid: &str) {
        let Some(running) = self.pods.get_mut(&ordinal).filter(|running| &*running.pod.uid == uid) else { return };
        if !running.pod.terminating {
            running.pod.terminating = true;
            running.signal("TERM");
        }
    }

    /// Does what is due, and waits for nothing.
    pub fn tick(&mut self, now: i64) {
        let ordinals = self.start..self.start + self.replicas;
        let beyond = self.pods.iter().filter(|(k, _)| !ordinals.contains(k));
        let beyond: Vec<_> = beyond.map(|(k, running)| (*k, running.pod.uid.clone())).collect();
        for (ordinal, uid) in beyond {
            self.delete(ordinal, &uid);
        }
        for ordinal in self.pods.keys().copied().collect::<Vec<_>>() {
            self.reap(ordinal);
        }
        self.pods.retain(|_, running| !(running.pod.terminating && running.process.is_none()));
        let gone: Vec<_> =
            self.claims.iter().filter(|(k, c)| c.terminating && !self.pods.contains_key(k)).map(|(k, _)| *k).collect();
        for ordinal in gone {
            let claim = self.claims.remove(&ordinal).expect("it is there");
            drop(fs::remove_dir_all(self.folder.join(&*claim.uid)));
        }
        for ordinal in ordinals {
            if !self.claims.contains_key(&ordinal) {
                let (uid, name) = (self.uid(), format!("data-e-{ordinal}").into());
                fs::create_dir_all(self.folder.join(&*uid)).expect("the temporary folder can be written");
                self.claims.insert(
                    ordinal,
                    VolumeClaim {
                        name,
                        uid,
                        created: now,
                        terminating: false,
                        lost: false,
                        size: ClaimSize::default(),
                    },
                );
            }
            if !self.pods.contains_key(&ordinal) {
                let pod = Pod {
                    uid: self.uid(),
                    revision: self.template.into(),
                    created: now,
                    phase: PodPhase::Unscheduled,
                    ready: false,
                    terminating: false,
                    restarts: 0,
                    exit: None,
                    reason: Box::default(),
                    role: None,
                    secure: Some(!self.tls.is_empty() || self.client_tls.contains_key(self.template)),
                };
                self.pods.insert(ordinal, Running { pod, process: None, ended: None });
            }
            self.start(ordinal, now);
        }
    }

    /// Sees whether a process ended, and whether it listens.
    fn reap(&mut self, ordinal: u32) {
        let address = format!("{}:2379", self.address(ordinal));
        let log = self.log(ordinal);
        let running = self.pods.get_mut(&ordinal).expect("it is there");
        let Some(process) = &mut running.process else { return };
        let Some(status) = process.try_wait().expect("it is a child") else {
            let address = address.parse().expect("it is an address");
            running.pod.ready = TcpStream::connect_timeout(&address, Duration::from_millis(100)).is_ok();
            return;
        };
        let code = status.code().unwrap_or(137);
        // As FallbackToLogsOnError has it: nothing of the log after an end without an error.
        let message = if code == 0 { String::new() } else { tail(&log) };
        running.pod.exit = Some(Exit { code, message: message.into(), running_since: None });
        running.pod.ready = false;
        running.process = None;
        running.ended = Some(Instant::now());
    }

    fn start(&mut self, ordinal: u32, now: i64) {
        let claim_ok = self.claims.get(&ordinal).is_some_and(|claim| !claim.terminating);
        let waits = self.pods[&ordinal].ended.is_some_and(|ended| ended.elapsed() < BACKOFF);
        let idle = self.pods[&ordinal].process.is_none() && !self.pods[&ordinal].pod.terminating;
        if !idle || !claim_ok || waits || self.unschedulable.contains(&ordinal) || self.config_map.is_empty() {
            return;
        }
        let host = format!("{}://{}", self.scheme(), self.address(ordinal));
        let log = fs::File::create(self.log(ordinal)).expect("the temporary folder can be written");
        let peer_tls = self.peer_tls.get(&*self.pods[&ordinal].pod.revision);
        let peer = if peer_tls.is_some() { host.replace("http:", "https:") } else { host.clone() };
        let client_tls = self.client_tls.get(&*self.pods[&ordinal].pod.revision);
        let client = if client_tls.is_some() { host.replace("http:", "https:") } else { host.clone() };
        let program = self.programs.get(&*self.pods[&ordinal].pod.revision).unwrap_or(&self.etcd);
        let peers = if self.network.is_some() { BEHIND } else { PEERS };
        let process = Command::new(program)
            .args(["--name", &format!("e-{ordinal}"), "--unsafe-no-fsync", "--data-dir"])
            .arg(self.data(ordinal))
            .args([
                "--listen-peer-urls",
                &format!("{peer}:{peers}"),
                "--initial-advertise-peer-urls",
                &format!("{peer}:{PEERS}"),
            ])
            .args([
                "--listen-client-urls",
                &format!("{client}:2379"),
                "--advertise-client-urls",
                &format!("{client}:2379"),
            ])
            .args(&self.tls)
            .args(peer_tls.into_iter().flatten())
            .args(client_tls.into_iter().flatten())
            .args(&self.flags)
            .envs(&self.config_map)
            .env("GOMAXPROCS", "2")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("etcd starts");
        if let Some(network) = &self.network {
            network.knows(process.id(), ordinal);
        }
        let running = self.pods.get_mut(&ordinal).expect("it is there");
        running.pod.restarts += u32::from(running.ended.is_some());
        running.pod.phase = PodPhase::Running;
        running.pod.exit.iter_mut().for_each(|exit| exit.running_since = Some(now));
        running.process = Some(process);
    }

    /// Sends a signal to a pod's process.
    pub fn signal(&self, ordinal: u32, signal: &str) {
        self.pods[&ordinal].signal(signal);
    }

    /// Kills a process, so that no node takes its pod until [`Self::unschedulable`] says otherwise.
    pub fn lose_node(&mut self, ordinal: u32) {
        self.unschedulable.insert(ordinal);
        self.kill(ordinal);
        self.pods.get_mut(&ordinal).expect("it is there").pod.phase = PodPhase::Unscheduled;
    }

    /// Kills a process and waits until it is gone.
    pub fn kill(&mut self, ordinal: u32) {
        self.signal(ordinal, "KILL");
        let running = self.pods.get_mut(&ordinal).expect("it is there");
        running.process.iter_mut().for_each(|process| drop(process.wait()));
        self.reap(ordinal);
    }

    /// Kills a process and takes its data.
    pub fn wipe(&mut self, ordinal: u32) {
        self.kill(ordinal);
        fs::remove_dir_all(self.data(ordinal)).expect("it has data");
    }

    /// Deletes pod and claim by force. Both are made again with the next tick.
    pub fn lose_volume(&mut self, ordinal: u32) {
        self.kill(ordinal);
        let claim = self.claims.remove(&ordinal).expect("it is there");
        drop(fs::remove_dir_all(self.folder.join(&*claim.uid)));
        self.pods.remove(&ordinal);
    }

    /// Overwrites what a stopped member has in its log.
    pub fn spoil(&mut self, ordinal: u32) {
        self.kill(ordinal);
        let wal = self.data(ordinal).join("member/wal");
        for file in fs::read_dir(wal).expect("it has a log") {
            let path = file.expect("it can be read").path();
            let length = usize::try_from(fs::metadata(&path).expect("it is there").len()).expect("it is small");
            fs::write(&path, vec![0x5a; length.min(65_536)]).expect("it can be written");
        }
    }
}

impl Running {
    fn signal(&self, signal: &str) {
        if let Some(process) = &self.process {
            crate::signal::signal(process.id(), signal);
        }
    }
}

impl Drop for StatefulSet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for ordinal in self.pods.keys() {
                eprintln!("--- log of e-{ordinal}\n{}", tail(&self.log(*ordinal)));
            }
        }
        for process in self.pods.values_mut().filter_map(|running| running.process.as_mut()) {
            drop(process.kill());
            drop(process.wait());
        }
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// What a termination message has of a log: 2,048 bytes.
fn tail(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(2048)..]).into_owned()
}

/// Where `tests/cluster/build-tools.sh` puts programs.
pub fn tools() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"))).unwrap_or_default();
    std::env::var_os("TOOLS").map_or_else(|| cache.join("tillerman/tools"), PathBuf::from)
}

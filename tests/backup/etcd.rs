//! Members of etcd, and a client that writes.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use etcd_client::{Client, GetOptions};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::program::{Process, Test, tool, until};

/// A version of etcd, and its programs.
#[derive(Clone, Copy)]
pub struct EtcdVersion {
    pub number: &'static str,
    pub etcd: &'static str,
    pub etcdutl: &'static str,
}

pub const V35: EtcdVersion = EtcdVersion { number: "3.5.35", etcd: "etcd-3.5", etcdutl: "etcdutl-3.5" };
pub const V36: EtcdVersion = EtcdVersion { number: "3.6.16", etcd: "etcd", etcdutl: "etcdutl" };

/// A member.
pub struct Member {
    pub data: PathBuf,
    pub url: String,
    pub peer: String,
    pub process: Process,
}

/// A member that is not started yet: its name, its folder and its URLs.
pub struct Seat {
    pub name: String,
    pub data: PathBuf,
    pub host: String,
}

impl Seat {
    pub fn new(test: &Test, ordinal: u32) -> Self {
        let host = test.address(10 + ordinal);
        Self { name: format!("e-{ordinal}"), data: test.path(&format!("data-{ordinal}")), host }
    }

    pub fn peer(&self, scheme: &str) -> String {
        format!("{scheme}://{}:2380", self.host)
    }

    /// As `--initial-cluster` has it.
    pub fn initial(&self) -> String {
        format!("{}={}", self.name, self.peer("http"))
    }

    /// Starts the member. `flags` come last.
    pub fn start(&self, test: &Test, version: EtcdVersion, cluster: &str, scheme: &str, flags: &[String]) -> Member {
        let url = format!("{scheme}://{}:2379", self.host);
        let peer = self.peer("http");
        let log = fs::File::create(test.path(&format!("{}.log", self.name))).expect("the folder can be written");
        let process = Command::new(tool(version.etcd))
            .args(["--name", &self.name, "--unsafe-no-fsync", "--initial-cluster", cluster, "--data-dir"])
            .arg(&self.data)
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(flags)
            .env("GOMAXPROCS", "2")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        Member { data: self.data.clone(), url, peer, process: Process(process.expect("etcd starts")) }
    }
}

/// A cluster of so many members that answers.
pub async fn cluster(test: &Test, version: EtcdVersion, size: u32) -> Vec<Member> {
    let seats: Vec<_> = (0..size).map(|ordinal| Seat::new(test, ordinal)).collect();
    let initial = seats.iter().map(Seat::initial).collect::<Vec<_>>().join(",");
    let members: Vec<_> = seats.iter().map(|seat| seat.start(test, version, &initial, "http", &[])).collect();
    for member in &members {
        answers(&member.url).await;
    }
    members
}

/// Waits until a member answers a linearizable read, and returns how many keys there are.
pub async fn answers(url: &str) -> i64 {
    for _ in 0..600 {
        let mut client = Client::connect([url], None).await.expect("it is a URL");
        let all = GetOptions::new().with_all_keys().with_count_only();
        if let Ok(Ok(read)) = timeout(Duration::from_secs(2), client.get("", Some(all))).await {
            return read.count();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{url} does not answer");
}

/// Kills all members and takes their data.
pub fn destroy(members: Vec<Member>) {
    for member in members {
        drop(member.process);
        fs::remove_dir_all(&member.data).expect("it has data");
        until("its port is free", || std::net::TcpListener::bind(member.peer.trim_start_matches("http://")).is_ok());
    }
}

/// Writes one unique key after the other, and remembers which were acknowledged. Every tenth is deleted again.
pub struct Writer {
    acknowledged: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Writer {
    pub async fn start(url: &str) -> Self {
        let mut client = Client::connect([url], None).await.expect("it is a URL");
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        let written = acknowledged.clone();
        let task = tokio::spawn(async move {
            for number in 0_u64.. {
                let key = format!("written/{number}");
                client.put(key.as_str(), "x".repeat(100), None).await.expect("the cluster takes writes");
                written.lock().expect("nobody panicked").push(key);
                if number % 10 == 0 {
                    client.put("gone", "x", None).await.expect("the cluster takes writes");
                    client.delete("gone", None).await.expect("the cluster takes writes");
                }
            }
        });
        Self { acknowledged, task }
    }

    pub fn acknowledged(&self) -> Vec<String> {
        self.acknowledged.lock().expect("nobody panicked").clone()
    }

    /// Waits for so many more.
    pub async fn more(&self, count: usize) {
        let goal = self.acknowledged().len() + count;
        while self.acknowledged().len() < goal {
            assert!(!self.task.is_finished(), "the writer ended");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn stop(self) {
        self.task.abort();
        drop(self.task.await);
    }
}

/// Which of these keys a member does not have.
pub async fn missing(url: &str, keys: &[String]) -> Vec<String> {
    let mut client = Client::connect([url], None).await.expect("it is a URL");
    let all = GetOptions::new().with_all_keys().with_keys_only();
    let all = client.get("", Some(all)).await.expect("it answers");
    let found: std::collections::HashSet<_> = all.kvs().iter().map(|kv| kv.key_str().expect("it is text")).collect();
    keys.iter().filter(|key| !found.contains(key.as_str())).cloned().collect()
}

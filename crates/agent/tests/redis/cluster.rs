//! Members on processes. Each has a set of processes of its own, of which the agent is the first, as in a container.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tillerman_agent::client::{Client, ClientError};
use tillerman_agent::contract::{Demote, Follow, MemberState, Order, Promote, Refusal, Seed, Verb};

use crate::writers::Redis;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The password of clients.
pub const PASSWORD: &str = "it's \"a\" password\\ #";
/// The ports of the next cluster: of Redis and of its agents.
static PORTS: AtomicU16 = AtomicU16::new(7400);

/// A member. It ends with this value.
pub struct Member {
    pub name: String,
    pub address: Ipv4Addr,
    pub port: u16,
    /// `PRIMARY`, as the `ConfigMap` of roles gives it.
    pub primary: String,
    folder: PathBuf,
    process: Option<Child>,
}

/// Members of one cluster.
pub struct RedisCluster {
    pub members: Vec<Member>,
    pub data: String,
    folder: PathBuf,
}

impl RedisCluster {
    /// So many members, of which the first may create the data. Nothing is started yet.
    pub fn new(size: u8) -> Self {
        let port = PORTS.fetch_add(2, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tr-{}-{port}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let member = |k: u8| {
            let own = folder.join(k.to_string());
            fs::create_dir_all(own.join("v")).expect("the folder can be made");
            let address = Ipv4Addr::new(127, 0, 0, 2 + k);
            Member { name: format!("db-{k}"), address, port, primary: "db-0".into(), folder: own, process: None }
        };
        let members = (0..size).map(member).collect();
        fs::write(folder.join("secret"), "replication\n").expect("it can be written");
        fs::write(folder.join("password"), PASSWORD).expect("it can be written");
        Self { members, data: String::new(), folder }
    }

    /// The first member creates the data, and the others are seeded and follow. Commits wait for one of them.
    pub async fn grown(size: u8) -> Self {
        let mut cluster = Self::new(size);
        cluster.members[0].start();
        let state = cluster.members[0].until("it has data", |state| !state.start.is_empty()).await;
        cluster.data = state.data.expect("it is there");
        cluster.promote(0, 1, 0, &[]).await.expect("it obeys");
        cluster.members[0].until("it is open", |state| state.writable).await;
        let all: Vec<usize> = (1..usize::from(size)).collect();
        for k in all.clone() {
            cluster.members[k].primary.clear();
            cluster.members[k].start();
            cluster.members[k].until("it answers", |_| true).await;
            cluster.seed(k, 1, 0, None).await.expect("it has no data");
            cluster.members[k].until("it has a copy", |state| !state.start.is_empty() && state.busy.is_none()).await;
            cluster.promote(0, 1, 0, &all[..k]).await.expect("it obeys");
            cluster.follow(k, 1, 0, true).await.expect("it obeys");
            cluster.members[k].until("it receives", |state| state.receiving && state.applying).await;
        }
        cluster.promote(0, 1, 1, &all).await.expect("it obeys");
        cluster.members[0].until("all is acknowledged", |state| state.confirmed == 1 && state.writable).await;
        cluster
    }

    pub async fn fence(&self, k: usize, epoch: u64) -> Result<MemberState, Refusal> {
        self.members[k].order(&Verb::Fence(Order { epoch, number: Some(0), data: self.data.clone() })).await
    }

    pub async fn promote(&self, k: usize, epoch: u64, acks: u32, admitted: &[usize]) -> Result<MemberState, Refusal> {
        let admitted = admitted.iter().map(|k| format!("db-{k}")).collect();
        let order = Promote { epoch, number: Some(0), data: self.data.clone(), acks, admitted };
        self.members[k].order(&Verb::Promote(order)).await
    }

    pub async fn follow(&self, k: usize, epoch: u64, source: usize, acknowledge: bool) -> Result<MemberState, Refusal> {
        let source = self.members[source].address.to_string();
        let order = Follow { epoch, number: Some(0), data: self.data.clone(), source, acknowledge };
        self.members[k].order(&Verb::Follow(order)).await
    }

    pub async fn demote(&self, k: usize, epoch: u64, within: u64) -> Result<MemberState, Refusal> {
        let order = Demote { epoch, number: Some(0), data: self.data.clone(), within };
        self.members[k].order(&Verb::Demote(order)).await
    }

    pub async fn seed(
        &self,
        k: usize,
        epoch: u64,
        donor: usize,
        discard: Option<String>,
    ) -> Result<MemberState, Refusal> {
        let donor = self.members[donor].url();
        let order = Seed { epoch, number: Some(0), data: self.data.clone(), donor, discard };
        self.members[k].order(&Verb::Seed(order)).await
    }

    /// All members but one.
    pub fn others(&self, of: usize) -> Vec<usize> {
        (0..self.members.len()).filter(|k| *k != of).collect()
    }
}

impl Drop for RedisCluster {
    fn drop(&mut self) {
        self.members.clear();
        if std::thread::panicking() {
            eprintln!("the logs are kept in {}", self.folder.display());
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

impl Member {
    pub fn url(&self) -> String {
        format!("http://{}:{}", self.address, self.port + 1)
    }

    /// Starts the container.
    pub fn start(&mut self) {
        assert!(self.process.is_none(), "{} runs", self.name);
        let log =
            || File::options().append(true).create(true).open(self.folder.join("log")).expect("it can be written");
        let own = std::env::current_exe().expect("it is known");
        let agent =
            own.parent().and_then(|folder| folder.parent()).expect("it is in deps").join("examples/redis-agent");
        assert!(agent.exists(), "cargo build --example redis-agent makes {}", agent.display());
        // The kernel kills it with the thread of the test, so that nothing remains of a test that is killed.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig=KILL", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]).arg(agent);
        let file = |name: &str| self.folder.with_file_name(name).display().to_string();
        command.envs([
            ("HOSTNAME", self.name.clone()),
            ("VOLUME", self.folder.join("v").display().to_string()),
            ("LISTEN", format!("{}:{}", self.address, self.port + 1)),
            ("INSECURE_HTTP", "yes".to_owned()),
            ("BIND", self.address.to_string()),
            ("PORT", self.port.to_string()),
            ("PASSWORD_FILE", file("password")),
            ("REPLICATION_PASSWORD_FILE", file("secret")),
            ("GRACE", "10".to_owned()),
            ("PRIMARY", self.primary.clone()),
            ("EPOCH", "1".to_owned()),
        ]);
        command.stdin(Stdio::null()).stdout(log()).stderr(log());
        self.process = Some(command.spawn().expect("unshare is there, and this is root"));
    }

    /// Kills the container with all its processes.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Waits until the container, which was asked to end, has ended.
    pub fn ended(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let since = Instant::now();
        while process.try_wait().expect("it is a child").is_none() {
            assert!(since.elapsed() < PATIENCE, "{} does not end", self.name);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a signal to a process of the member.
    pub fn signal(&self, signal: &str, program: &str) {
        let volume = self.folder.join("v");
        let own = format!("VOLUME={}", volume.display());
        let entries = fs::read_dir("/proc").expect("there are processes");
        let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let text = |number: u32, file: &str| fs::read(format!("/proc/{number}/{file}")).unwrap_or_default();
        let is_own = |number: &u32| {
            // Redis works in the folder of its data, and writes its title over its environment.
            let folder = fs::read_link(format!("/proc/{number}/cwd")).unwrap_or_default();
            let environment = text(*number, "environ");
            let is_own =
                folder.starts_with(&volume) || environment.split(|b| *b == 0).any(|word| word == own.as_bytes());
            text(*number, "comm").trim_ascii_end() == program.as_bytes() && is_own
        };
        // The oldest: Redis has children of the same name while it writes a copy.
        let number =
            numbers.filter(is_own).min().unwrap_or_else(|| panic!("{} has no process of {program}", self.name));
        let sent = Command::new("kill").args([format!("-{signal}"), number.to_string()]).status();
        assert!(sent.expect("kill is there").success());
    }

    /// Gives an order, again while the agent says that it may be obeyed later, as the operator does.
    pub async fn order(&self, verb: &Verb) -> Result<MemberState, Refusal> {
        let since = Instant::now();
        loop {
            match Client::default().order(&self.url(), verb, PATIENCE).await {
                Ok(state) => return Ok(state),
                Err(ClientError::Refused(refusal)) if refusal.reason.is_passing() && since.elapsed() < PATIENCE => {}
                Err(ClientError::Refused(refusal)) => return Err(refusal),
                Err(error @ ClientError::Failed { .. }) => panic!("{}: {error}", self.name),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The answer, within the two seconds that an agent has.
    pub async fn state(&self) -> MemberState {
        let asked = Client::default().state(&self.url(), Duration::from_secs(2)).await;
        asked.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Waits until the answer is as wanted.
    pub async fn until(&self, what: &str, holds: impl Fn(&MemberState) -> bool) -> MemberState {
        let since = Instant::now();
        let mut last = None;
        while since.elapsed() < PATIENCE {
            match Client::default().state(&self.url(), Duration::from_secs(2)).await {
                Ok(state) if holds(&state) => return state,
                answer => last = Some(answer),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{}: {what}: {last:#?}", self.name);
    }

    /// A client's connection.
    pub async fn connect(&self) -> std::io::Result<Redis> {
        Redis::connect(self.address, self.port).await
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

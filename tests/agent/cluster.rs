//! Members on processes. Each has a set of processes of its own, of which the agent is the first, as in a container: when it ends, all
//! of them end.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Opts};
use tillerman::agent::client::{Client, ClientError};
use tillerman::agent::contract::{Demote, Follow, MemberState, Order, Promote, Refusal, Role, Seed, Verb};
use tillerman::agent::tls::Tls;

use crate::support::rows::{self, Reached, reached};

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The password of the administrator.
pub const PASSWORD: &str = "it's \"a\" password\\";
/// The program of the agent, which `cargo build --workspace --bins` puts beside that of the operator.
pub fn agent() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_tillerman")).with_file_name("tillerman-agent")
}

/// Runs a program with another root. What is mounted for it ends with it.
const CHANGE_ROOT: &str = r#"root=$1 temporary=$2 program=$3; shift 3
mount --bind "$root" "$root"
mkdir -p "$root$temporary" "$root/usr/local/bin"
mount --rbind "$temporary" "$root$temporary"
mount -t proc proc "$root/proc"
mount -t tmpfs none "$root/usr/local/bin"
touch "$root/usr/local/bin/tillerman-agent"
mount --bind "$program" "$root/usr/local/bin/tillerman-agent"
exec chroot "$root" /usr/local/bin/tillerman-agent "$@""#;
/// Whether the tests run MySQL (`FLAVOR=mysql`), whose programs are in a folder that members see as the root of the file system
/// (`ROOT_MYSQL`, made by `need_mysql`).
pub fn is_mysql() -> bool {
    std::env::var("FLAVOR").is_ok_and(|flavor| flavor == "mysql")
}

/// The program of the database.
pub fn server() -> &'static str {
    if is_mysql() { "mysqld" } else { "mariadbd" }
}

/// The root of the file system with the programs of MySQL.
pub fn root_of_mysql() -> PathBuf {
    std::env::var_os("ROOT_MYSQL").expect("`make mysql` sets ROOT_MYSQL").into()
}

/// The addresses that tests of this program use, so that they can run at the same time.
static ADDRESSES: Mutex<u8> = Mutex::new(2);

/// A member. It ends with this value.
pub struct MemberProcess {
    pub name: String,
    pub address: Ipv4Addr,
    pub folder: PathBuf,
    pub client: Client,
    /// The certificates, if it has some.
    pub tls: Option<Tls>,
    /// The environment of the container, as the `ConfigMap` of roles gives it.
    pub environment: Vec<(&'static str, String)>,
    /// What the member sees as the root of the file system, if it has programs of its own.
    pub root: Option<PathBuf>,
    /// More flags of the agent.
    pub flags: Vec<String>,
    pub process: Option<Child>,
}

/// Members of one cluster.
pub struct DatabaseCluster {
    pub members: Vec<MemberProcess>,
    pub data: String,
    folder: PathBuf,
}

impl DatabaseCluster {
    /// So many members, of which the first may create the data. Nothing is started yet.
    pub fn new(size: u8) -> Self {
        let mut next = ADDRESSES.lock().expect("nobody panicked");
        let folder = std::env::temp_dir().join(format!("ta-{}-{next}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let member = |k: u8| {
            let own = folder.join(k.to_string());
            fs::create_dir_all(own.join("v")).expect("the folder can be made");
            fs::write(folder.join("password"), "replication\n").expect("it can be written");
            fs::write(folder.join("admin"), PASSWORD).expect("it can be written");
            MemberProcess {
                name: format!("db-{k}"),
                address: Ipv4Addr::new(127, 0, 0, *next + k),
                folder: own,
                client: Client::default(),
                tls: None,
                environment: vec![("PRIMARY", "db-0".into()), ("EPOCH", "1".into())],
                root: is_mysql().then(root_of_mysql),
                flags: if is_mysql() { vec!["--flavor=mysql".to_owned()] } else { Vec::new() },
                process: None,
            }
        };
        let members = (0..size).map(member).collect();
        *next += size;
        Self { members, data: String::new(), folder }
    }

    /// The same, with the first member as a primary that waits for no acknowledgement.
    pub async fn with_primary(size: u8) -> Self {
        let mut cluster = Self::new(size);
        cluster.create().await;
        cluster
    }

    /// The first member creates the data, and is the primary.
    pub async fn create(&mut self) {
        self.members[0].start();
        let state = self.members[0].until("it has data", |state| !state.start.is_empty()).await;
        self.data = state.data.expect("it is there");
        self.promote(0, 1, 0, &[]).await.expect("it obeys");
        self.members[0].until("it is open", |state| state.writable).await;
    }

    /// The members with a primary, and the others seeded and following. Commits wait for one of them.
    pub async fn grown(size: u8) -> Self {
        let mut cluster = Self::with_primary(size).await;
        cluster.grow(size).await;
        cluster
    }

    /// The others are seeded and follow, and commits wait for one of them.
    pub async fn grow(&mut self, size: u8) {
        let all: Vec<usize> = (1..usize::from(size)).collect();
        for k in all.clone() {
            self.member(k).environment[0].1.clear();
            self.member(k).start();
            self.members[k].until("it answers", |_| true).await;
            self.seed(k, 1, 0, None).await.expect("it has no data");
            self.members[k].until("it has a copy", |state| !state.start.is_empty() && state.busy.is_none()).await;
            self.promote(0, 1, 0, &all[..k]).await.expect("it obeys");
            self.follow(k, 1, 0, true).await.expect("it obeys");
            self.members[k].until("it receives", |state| state.receiving && state.applying).await;
        }
        self.promote(0, 1, 1, &all).await.expect("it obeys");
        self.members[0].until("all is acknowledged", |state| state.confirmed == 1 && state.writable).await;
    }

    pub fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    /// An address that no member has.
    pub fn beside() -> String {
        let mut next = ADDRESSES.lock().expect("nobody panicked");
        *next += 1;
        Ipv4Addr::new(127, 0, 0, *next - 1).to_string()
    }

    pub fn member(&mut self, k: usize) -> &mut MemberProcess {
        &mut self.members[k]
    }

    pub async fn fence(&self, k: usize, epoch: u64) -> Result<MemberState, Refusal> {
        self.members[k].order(&Verb::Fence(Order { epoch, number: Some(0), data: self.data.clone() })).await
    }

    pub async fn promote(&self, k: usize, epoch: u64, acks: u32, admitted: &[usize]) -> Result<MemberState, Refusal> {
        let admitted = admitted.iter().map(|k| format!("db-{k}")).collect();
        self.members[k]
            .order(&Verb::Promote(Promote { epoch, number: Some(0), data: self.data.clone(), acks, admitted }))
            .await
    }

    pub async fn follow(&self, k: usize, epoch: u64, source: usize, acknowledge: bool) -> Result<MemberState, Refusal> {
        let source = self.members[source].address.to_string();
        self.members[k]
            .order(&Verb::Follow(Follow { epoch, number: Some(0), data: self.data.clone(), source, acknowledge }))
            .await
    }

    /// An earlier primary follows another member. What nobody acknowledged is taken back by MariaDB. MySQL keeps it, so that the member is
    /// seeded. Returns whether it was.
    pub async fn returns(&self, k: usize, epoch: u64, source: usize, acknowledge: bool) -> bool {
        let state = self.follow(k, epoch, source, acknowledge).await.expect("it obeys");
        assert_eq!(state.role, Role::Replica, "{state:?}");
        if !state.diverged {
            return false;
        }
        assert!(is_mysql(), "{state:?}");
        self.seed(k, epoch, source, Some(state.start.clone())).await.expect("it may be discarded");
        let seeded = |new: &MemberState| new.start != state.start && !new.start.is_empty() && new.busy.is_none();
        let new = self.members[k].until("it has a copy", seeded).await;
        assert!(!new.diverged, "{new:?}");
        let state = self.follow(k, epoch, source, acknowledge).await.expect("it obeys");
        assert_eq!((state.role, state.diverged), (Role::Replica, false), "{state:?}");
        true
    }

    pub async fn demote(&self, k: usize, epoch: u64, within: u64) -> Result<MemberState, Refusal> {
        self.members[k].order(&Verb::Demote(Demote { epoch, number: Some(0), data: self.data.clone(), within })).await
    }

    pub async fn seed(
        &self,
        k: usize,
        epoch: u64,
        donor: usize,
        discard: Option<String>,
    ) -> Result<MemberState, Refusal> {
        let donor = self.members[donor].url();
        self.members[k]
            .order(&Verb::Seed(Seed { epoch, number: Some(0), data: self.data.clone(), donor, discard }))
            .await
    }
}

impl Drop for DatabaseCluster {
    fn drop(&mut self) {
        self.members.clear();
        if std::thread::panicking() {
            eprintln!("the logs are kept in {}", self.folder.display());
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

impl MemberProcess {
    pub fn url(&self) -> String {
        format!("{}://{}:8090", if self.tls.is_some() { "https" } else { "http" }, self.address)
    }

    /// Starts the container.
    pub fn start(&mut self) {
        assert!(self.process.is_none(), "{} runs", self.name);
        let log = |name: &str| {
            let path = self.folder.join(name);
            File::options().append(true).create(true).open(path).expect("the log can be written")
        };
        let mut command = self.container(&[]);
        let log_size = if is_mysql() { "--innodb-redo-log-capacity=32M" } else { "--innodb-log-file-size=16M" };
        command.args(["--", "--innodb-buffer-pool-size=32M", log_size, "--performance-schema=0"]);
        command.stdin(Stdio::null()).stdout(log("out")).stderr(log("log"));
        self.process = Some(command.spawn().expect("unshare is there, and this is root"));
    }

    /// A container of the member, with the program and its flags.
    pub fn container(&self, first: &[&str]) -> Command {
        // The kernel kills it with the thread of the test, so that nothing remains of a test that is killed.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig=KILL", "unshare", "--pid", "--fork", "--kill-child"]);
        match &self.root {
            None => drop(command.args([OsStr::new("--mount-proc"), agent().as_os_str()])),
            Some(root) => {
                command.args(["--mount", "bash", "-ec", CHANGE_ROOT, "bash"]).arg(root).arg(std::env::temp_dir());
                command.arg(agent());
            }
        }
        command.args(first).args(["--user=root", "--grace=10"]);
        match &self.tls {
            None => drop(command.arg("--insecure-http")),
            Some(tls) => {
                let files = [("certificate", &tls.certificate), ("key", &tls.key), ("ca", &tls.authorities)];
                command.args(files.map(|(name, path)| format!("--tls-{name}={}", path.display())));
            }
        }
        for (name, value) in [
            ("volume", self.folder.join("v").display().to_string()),
            ("listen", format!("{}:8090", self.address)),
            ("member", self.name.clone()),
            ("password-file", self.folder.with_file_name("password").display().to_string()),
            ("administrator-password-file", self.folder.with_file_name("admin").display().to_string()),
            ("bind-address", self.address.to_string()),
        ] {
            let flag = format!("--{name}=");
            if !self.flags.iter().any(|given| given.starts_with(&flag)) {
                command.arg(flag + &value);
            }
        }
        command.args(&self.flags);
        command.envs(self.environment.iter().map(|(name, value)| (*name, value.as_str())));
        command
    }

    /// Kills the container with all its processes.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Asks the container to end, and waits for it.
    pub fn stop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        // The agent is the only child of unshare. One that was asked to end before may end meanwhile.
        if let Some(agent) = self.find_process("tillerman-agent") {
            let _ = Command::new("kill").args(["-TERM", &agent.to_string()]).stderr(Stdio::null()).status();
        }
        let since = Instant::now();
        while process.try_wait().expect("it is a child").is_none() {
            assert!(since.elapsed() < PATIENCE, "{} does not end", self.name);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a signal to a process of the member.
    pub fn signal(&self, signal: &str, program: &str) {
        let number = self.process_of(program);
        let sent = Command::new("kill").args([format!("-{signal}"), number.to_string()]).status();
        assert!(sent.expect("kill is there").success());
    }

    /// The number of a process of the member.
    pub fn process_of(&self, program: &str) -> u32 {
        self.find_process(program).unwrap_or_else(|| panic!("{} has no process of {program}", self.name))
    }

    /// Whether the member has such a process.
    pub fn has_process_of(&self, program: &str) -> bool {
        self.find_process(program).is_some()
    }

    /// The number of a process of the member, if it has one.
    pub fn find_process(&self, program: &str) -> Option<u32> {
        let volume = format!("{}", self.folder.join("v").display());
        let entries = fs::read_dir("/proc").expect("there are processes");
        let mut numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let of = |number: &u32| {
            let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            let mut words = line.split(|b| *b == 0).map(|word| String::from_utf8_lossy(word).into_owned());
            let first = words.next().unwrap_or_default();
            first.rsplit('/').next() == Some(program) && words.any(|word| word.contains(&volume))
        };
        numbers.find(of)
    }

    pub async fn order(&self, verb: &Verb) -> Result<MemberState, Refusal> {
        match self.client.order(&self.url(), verb, PATIENCE).await {
            Ok(state) => Ok(state),
            Err(ClientError::Refused(refusal)) => Err(refusal),
            Err(error @ ClientError::Failed { .. }) => panic!("{}: {error}", self.name),
        }
    }

    /// The answer, within the two seconds that an agent has.
    pub async fn state(&self) -> MemberState {
        self.client.state(&self.url(), Duration::from_secs(2)).await.unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    /// Waits until the answer is as wanted.
    pub async fn until(&self, what: &str, holds: impl Fn(&MemberState) -> bool) -> MemberState {
        let since = Instant::now();
        let mut last = None;
        while since.elapsed() < PATIENCE {
            match self.client.state(&self.url(), Duration::from_secs(2)).await {
                Ok(state) if holds(&state) => return state,
                answer => last = Some(answer),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{}: {what}: {last:#?}", self.name);
    }

    /// Waits until the agent has logged a text.
    pub async fn until_logged(&self, text: &str) {
        let since = Instant::now();
        while !fs::read_to_string(self.folder.join("log")).unwrap_or_default().contains(text) {
            assert!(since.elapsed() < PATIENCE, "{} does not log {text:?}", self.name);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Runs a statement as the administrator.
    pub async fn run(&self, statement: &str) -> Result<(), mysql_async::Error> {
        rows::run(self, statement).await
    }

    /// The numbers of a query.
    pub async fn numbers(&self, query: &str) -> Vec<u64> {
        rows::numbers(self, query).await
    }
}

impl MemberProcess {
    /// The texts of a query.
    pub async fn texts(&self, query: &str) -> Vec<String> {
        let mut connection = connect(self.address).await.expect("it takes connections");
        connection.query(query).await.expect("it answers")
    }
}

impl Drop for MemberProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Reached for MemberProcess {
    fn options(&self) -> Opts {
        reached(&self.address.to_string(), "admin", PASSWORD)
    }
}

/// Connects as the administrator.
pub async fn connect(address: Ipv4Addr) -> Result<Conn, mysql_async::Error> {
    connect_as(address, "admin", PASSWORD).await
}

/// Connects.
pub async fn connect_as(address: Ipv4Addr, user: &str, password: &str) -> Result<Conn, mysql_async::Error> {
    Conn::new(reached(&address.to_string(), user, password)).await
}

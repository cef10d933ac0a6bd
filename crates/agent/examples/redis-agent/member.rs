//! A member: its facts, its answers, and its process.

use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use tillerman_agent::contract::{Busy, MemberState, Reason, Refusal, Role};
use tillerman_agent::position::Position;
use tillerman_agent::store::{FoundData, Identity, Obeyed, Volume};
use tillerman_agent::tls::{Tls, TlsFiles};
use tokio::sync::{Mutex, watch};

use crate::relay::Relay;
use crate::server::{AGENT, Info, Server};
use crate::streams::{Marker, NAME, Replication, Said};

/// How long Redis has for an answer about itself. The state is answered within two seconds.
const ANSWER: Duration = Duration::from_millis(1500);
/// How long a short command may take.
pub const SHORT: Duration = Duration::from_secs(2);
/// How long an order waits for Redis to start or to end.
const WAIT: Duration = Duration::from_secs(8);
/// Files that data of Redis has.
pub const FILES: [&str; 2] = ["appendonlydir", "dump.rdb"];
/// The rights of clients, which take no writes before the agent opens the member. `FUNCTION` would let them remove the marker.
pub const CLOSED: [&str; 4] = ["+@all", "-@admin", "-@write", "-function"];
pub const OPEN: [&str; 3] = ["+@all", "-@admin", "-function"];
/// The address of no server: a replica of it is read-only, and receives nothing.
pub const NOBODY: [&str; 3] = ["REPLICAOF", "127.0.0.1", "0"];

/// The settings with which a container starts.
pub struct Settings {
    pub member: String,
    pub volume: PathBuf,
    pub listen: SocketAddr,
    pub listen_health: Option<SocketAddr>,
    pub tls: Option<Tls>,
    pub program: PathBuf,
    pub bind: String,
    pub port: u16,
    /// The password of clients.
    pub password: PathBuf,
    /// The password with which members follow each other.
    pub secret: PathBuf,
    pub grace: Duration,
    pub primary: String,
    pub epoch: u64,
    pub data: String,
}

/// The source that it follows.
#[derive(Clone, PartialEq, Eq)]
pub struct Source {
    pub host: String,
    pub acknowledge: bool,
    pub epoch: u64,
}

/// The facts that the agent itself knows.
#[derive(Clone, Default)]
pub struct Facts {
    pub identity: Option<Identity>,
    pub obeyed: Obeyed,
    /// Whether Redis is to run.
    pub wanted: bool,
    pub running: Option<Arc<Server>>,
    pub starting: Option<Arc<Server>>,
    pub start: String,
    pub role: Role,
    pub source: Option<Source>,
    /// The relay that it follows through, if it does not acknowledge.
    pub relay: Option<Arc<Relay>>,
    pub acks: u32,
    pub confirmed: u32,
    pub admitted: Vec<String>,
    pub opened: bool,
    pub handed_over: bool,
    pub seeding: Option<String>,
    pub busy: Option<Busy>,
    pub problem: Option<String>,
}

impl Facts {
    /// The role ends with the process. A primary that waited for acknowledgements does not start before an order.
    fn ended(&mut self) {
        self.wanted = self.wanted && self.obeyed.promoted.is_none_or(|acks| acks == 0);
        (self.running, self.starting) = (None, None);
        self.start.clear();
        self.idle(Role::Waiting);
    }

    /// Nothing is received, and nothing is taken.
    pub fn idle(&mut self, role: Role) {
        self.role = role;
        (self.source, self.relay, self.acks, self.confirmed) = (None, None, 0, 0);
        (self.opened, self.handed_over) = (false, false);
        self.admitted.clear();
    }
}

/// The answers of Redis.
#[derive(Clone, Default)]
pub struct Measured {
    pub info: Info,
    pub marker: Option<Marker>,
    pub position: Position,
    waiting: u32,
}

/// A member.
pub struct RedisMember {
    pub settings: Settings,
    pub tls: Option<TlsFiles>,
    pub volume: Volume,
    /// Held by what changes Redis: an order, or the agent by itself.
    pub orders: Mutex<()>,
    /// Held while a copy is given.
    pub copies: Arc<Mutex<()>>,
    facts: watch::Sender<Facts>,
    said: StdMutex<Said>,
    last: StdMutex<Option<(String, Measured)>>,
}

impl RedisMember {
    /// Reads the volume.
    pub fn new(settings: Settings) -> Result<Self, String> {
        let text = |error: io::Error| error.to_string();
        let tls = settings.tls.as_ref().map(TlsFiles::read).transpose().map_err(|error| error.to_string())?;
        let volume = Volume::new(&settings.volume);
        volume.sweep().map_err(text)?;
        let mut facts = Facts { obeyed: volume.obeyed().map_err(text)?, ..Facts::default() };
        match volume.found(&FILES).map_err(text)? {
            FoundData::Ours(identity) => {
                facts.identity = Some(identity);
                facts.wanted = facts.obeyed.promoted.is_none_or(|acks| acks == 0);
            }
            FoundData::Foreign(why) => facts.problem = Some(why),
            FoundData::Nothing => {}
        }
        Ok(Self {
            settings,
            tls,
            volume,
            orders: Mutex::default(),
            copies: Arc::default(),
            facts: watch::Sender::new(facts),
            said: StdMutex::default(),
            last: StdMutex::default(),
        })
    }

    pub fn facts<T>(&self, read: impl FnOnce(&Facts) -> T) -> T {
        read(&self.facts.borrow())
    }

    pub fn change(&self, change: impl FnOnce(&mut Facts)) {
        self.facts.send_modify(change);
    }

    /// Waits until the facts have something.
    pub async fn wait_until<T>(&self, find: impl Fn(&Facts) -> Option<T>) -> T {
        let mut facts = self.facts.subscribe();
        loop {
            if let Some(found) = find(&facts.borrow_and_update()) {
                return found;
            }
            // The sender lives as long as the member.
            let _ = facts.changed().await;
        }
    }

    /// Stores an order before it is carried out.
    pub fn obey(&self, change: impl FnOnce(&mut Obeyed)) -> Result<(), Refusal> {
        let mut obeyed = self.facts(|facts| facts.obeyed.clone());
        change(&mut obeyed);
        self.volume
            .obey(&obeyed)
            .map_err(|error| failed(&format!("cannot store the orders that were obeyed: {error}")))?;
        self.change(|facts| facts.obeyed = obeyed);
        Ok(())
    }

    /// Redis, which starts if it does not run.
    pub async fn started(&self) -> Result<Arc<Server>, Refusal> {
        self.change(|facts| facts.wanted = true);
        let starts = self.wait_until(|facts| facts.running.clone());
        tokio::time::timeout(WAIT, starts).await.map_err(|_| Refusal::new(Reason::DatabaseDown, "Redis starts"))
    }

    /// Kills Redis, which then waits for an order.
    pub async fn ended(&self) -> Result<(), Refusal> {
        self.change(|facts| {
            facts.wanted = false;
            facts.idle(Role::Waiting);
        });
        let servers = self.facts(|facts| [facts.running.clone(), facts.starting.clone()]);
        servers.iter().flatten().for_each(|server| server.kill());
        let ends = self.wait_until(|facts| (facts.running.is_none() && facts.starting.is_none()).then_some(()));
        let ended = tokio::time::timeout(WAIT, ends).await;
        ended.map_err(|_| Refusal::new(Reason::DatabaseDown, "Redis has not ended yet"))
    }

    /// Asks Redis.
    pub async fn measure(&self, server: &Server, within: Duration) -> io::Result<Measured> {
        let asks = async {
            let info = server.info(within).await?;
            let mut connection = server.connect().await?;
            let marker = connection.ask(&["FCALL_RO", NAME, "0"]).await.ok().and_then(|text| Marker::read(&text));
            let clients = connection.ask(&["CLIENT", "LIST", "TYPE", "normal"]).await?;
            let waits = |line: &&str| line.contains(" cmd=wait ") && !line.contains(&format!(" user={AGENT} "));
            let waiting = u32::try_from(clients.lines().filter(waits).count()).unwrap_or(u32::MAX);
            io::Result::Ok(Measured { info, marker, position: Position::none(), waiting })
        };
        let asked = tokio::time::timeout(within, asks).await;
        let mut measured = asked.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let (role, start) = self.facts(|facts| (facts.role, facts.start.clone()));
        if let Some(marker) = &measured.marker {
            let replication = replication(&measured.info);
            let said = self.said(marker, &replication, measured.info.is_durable())?;
            // A replica that has lost count gets all from its primary again.
            let said = if role == Role::Replica { Said::default() } else { said };
            measured.position = marker.position(&replication, &said);
        }
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((start, measured.clone()));
        Ok(measured)
    }

    /// The last report about the end of a stream. It is stored before it is reported, so that it counts after a
    /// restart.
    fn said(&self, marker: &Marker, replication: &Replication, is_durable: bool) -> io::Result<Said> {
        let path = self.volume.data().join("said");
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.stream.is_empty()
            && let Ok(text) = fs::read_to_string(&path)
            && let Some((stream, last)) = text.split_once(' ')
        {
            *said = Said { stream: stream.to_owned(), last: last.parse().unwrap_or_default() };
        }
        let last = marker.last(replication, &said);
        if is_durable && (said.stream != marker.stream || last > said.last) {
            let new = path.with_extension("new");
            let mut file = fs::File::create(&new)?;
            file.write_all(format!("{} {last}", marker.stream).as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            *said = Said { stream: marker.stream.clone(), last };
        }
        Ok(said.clone())
    }

    /// The report about data that is gone.
    pub fn forget(&self) {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = Said::default();
    }

    /// The answer to the operator. If Redis does not answer in time, it is the last one, and says so.
    pub async fn state(&self) -> MemberState {
        let end = Instant::now() + ANSWER;
        loop {
            let facts = self.facts(Clone::clone);
            let Some(server) = facts.running.clone() else { return self.shown(&facts, None, None) };
            let measured = self.measure(&server, end.saturating_duration_since(Instant::now())).await;
            let marks = |facts: &Facts| (facts.start.clone(), facts.role, facts.obeyed.clone(), facts.confirmed);
            // Changes of an order meanwhile must not be mixed with earlier answers of Redis.
            if self.facts(marks) != marks(&facts) && Instant::now() < end {
                continue;
            }
            if let Ok(measured) = measured {
                return self.shown(&facts, Some(&measured), None);
            }
            let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let last = last.filter(|(start, _)| *start == facts.start).map(|(_, measured)| measured);
            return self.shown(&facts, last.as_ref(), Some("Redis does not answer".to_owned()));
        }
    }

    fn shown(&self, facts: &Facts, measured: Option<&Measured>, late: Option<String>) -> MemberState {
        let nothing = Measured::default();
        let own = measured.unwrap_or(&nothing);
        let is_primary = facts.role == Role::Primary;
        let is_linked = own.info.is_linked();
        let mut acknowledging = if is_primary { own.info.acknowledging() } else { Vec::new() };
        acknowledging.retain(|name| facts.admitted.contains(name));
        let starting = (facts.wanted && facts.running.is_none()).then(|| "Redis starts".to_owned());
        MemberState {
            member: self.settings.member.clone(),
            start: facts.start.clone(),
            data: facts.identity.as_ref().map(|identity| identity.data.clone()),
            epoch: facts.obeyed.epoch,
            number: Some(facts.obeyed.number),
            role: facts.role,
            writable: is_primary && facts.opened,
            source: facts.source.as_ref().map(|source| source.host.clone()),
            receiving: is_linked,
            applying: measured.is_some() && !is_primary && !own.info.is_changing(),
            // Redis applies a write in the moment in which it receives it.
            got: own.position.clone(),
            has: own.position.clone(),
            waiting: own.waiting,
            acks: facts.acks,
            confirmed: facts.confirmed,
            admitted: facts.admitted.clone(),
            acknowledging,
            acknowledges: facts.source.as_ref().is_some_and(|source| source.acknowledge),
            lag: is_linked.then(|| own.info.get("master_last_io_seconds_ago").parse().unwrap_or(0.0)),
            version: Some(own.info.get("redis_version").to_owned()).filter(|version| !version.is_empty()),
            busy: facts.busy.clone(),
            hangs: late.is_some(),
            problem: late.or_else(|| facts.problem.clone()).or(starting),
            ..MemberState::default()
        }
    }

    /// Starts Redis as a replica of no server, and waits until it has loaded its data.
    async fn start(&self) -> Result<Arc<Server>, String> {
        let data = self.volume.data();
        let is_whole = data.join("appendonlydir/appendonly.aof.manifest").exists();
        let is_copy = !is_whole && data.join("dump.rdb").exists();
        let (socket, password) = (self.volume.root().join("redis.sock"), random()?);
        let settings = self.redis_settings(&data, &socket, &password, !is_copy)?;
        let started = Server::start(&self.settings.program, &settings, &socket, &password).await;
        let server = started.map_err(|error| format!("{}: {error}", self.settings.program.display()))?;
        self.change(|facts| facts.starting = Some(Arc::clone(&server)));
        let loads = async {
            while !server.info(SHORT).await.is_ok_and(|info| info.get("loading") == "0") {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            if is_copy {
                // An append-only file is written from the copy.
                server.ask(&["CONFIG", "SET", "appendonly", "yes"], SHORT).await.map_err(|error| error.to_string())?;
            }
            Ok(())
        };
        tokio::select! {
            done = loads => done.map(|()| Arc::clone(&server)),
            () = server.ended() => Err("Redis ended while it started: see its log".to_owned()),
        }
    }

    fn redis_settings(&self, data: &Path, socket: &Path, password: &str, appends: bool) -> Result<String, String> {
        let quoted =
            |path: &Path| format!("\"{}\"", path.display().to_string().replace('\\', "\\\\").replace('"', "\\\""));
        let Settings { member, bind, port, .. } = &self.settings;
        let appends = if appends { "yes" } else { "no" };
        let (data, socket, closed) = (quoted(data), quoted(socket), CLOSED.join(" "));
        let (clients, agent, secret) = (hash(&secret(&self.settings.password)?), hash(password), self.replication()?);
        // An acknowledged write is on the disk; a copy replaces the data at once or not at all; the stream keeps its ID.
        Ok(format!(
            "bind {bind}\nport {port}\nprotected-mode no\nunixsocket {socket}\nunixsocketperm 700\ndir {data}\n\
             appendonly {appends}\nappendfsync always\nsave \"\"\nrepl-diskless-load swapdb\nrepl-diskless-sync yes\n\
             repl-diskless-sync-delay 1\nrepl-backlog-ttl 0\nrepl-backlog-size 64mb\nrepl-ping-replica-period 1\n\
             min-replicas-max-lag 10\nreplica-announce-ip {member}\nmasteruser {AGENT}.{member}\nmasterauth {secret}\n\
             user {AGENT} on #{agent} ~* &* +@all\nuser default on #{clients} ~* &* {closed}\nreplicaof 127.0.0.1 0\n"
        ))
    }

    /// The password with which members follow each other: a digest, as settings of Redis have no place for all characters.
    pub fn replication(&self) -> Result<String, String> {
        Ok(hash(&secret(&self.settings.secret)?))
    }
}

/// Redis runs while it is wanted.
pub async fn keep_running(member: Arc<RedisMember>) {
    loop {
        member.wait_until(|facts| (facts.wanted && facts.identity.is_some()).then_some(())).await;
        match (member.start().await, random()) {
            (Ok(server), Ok(start)) => {
                member.change(|facts| {
                    (facts.running, facts.starting, facts.problem) = (Some(Arc::clone(&server)), None, None);
                    start[..16].clone_into(&mut facts.start);
                });
                server.ended().await;
                member.change(Facts::ended);
            }
            (Err(why), _) | (_, Err(why)) => {
                eprintln!("Redis does not start: {why}");
                member.change(|facts| {
                    (facts.starting, facts.problem) = (None, Some(why));
                });
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// The replication of `INFO`.
pub fn replication(info: &Info) -> Replication {
    Replication {
        replid: info.get("master_replid").to_owned(),
        offset: info.number("master_repl_offset"),
        replid2: info.get("master_replid2").to_owned(),
        second: info.number("second_repl_offset"),
    }
}

pub fn failed(message: &str) -> Refusal {
    Refusal::new(Reason::Failed, message)
}

/// The meaning of an error of Redis or of its connection for an order.
pub fn refused(error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::Other => failed(&format!("Redis refuses a command: {error}")),
        _ => Refusal::new(Reason::DatabaseDown, &format!("Redis does not answer: {error}")),
    }
}

/// The content of a file with a password.
pub fn secret(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = text.trim_end_matches(['\r', '\n']).to_owned();
    if text.is_empty() { Err(format!("{} is empty", path.display())) } else { Ok(text) }
}

pub fn hash(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}

/// 32 random digits.
pub fn random() -> Result<String, String> {
    let mut bytes = [0; 16];
    let read = fs::File::open("/dev/urandom").and_then(|mut file| io::Read::read_exact(&mut file, &mut bytes));
    read.map(|()| HEXLOWER.encode(&bytes)).map_err(|error| format!("/dev/urandom: {error}"))
}

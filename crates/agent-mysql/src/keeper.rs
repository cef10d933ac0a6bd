//! Keeps the database running, opens a primary for writes, and confirms acknowledgements.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::facts::{AgentFacts, Wanted};
use super::flavor::Flavor;
use super::hung::{self, Still};
use super::measured::Measured;
use super::member::DatabaseMember;
use super::process::Process;
use super::settings::{arguments, init_file};
use super::sql::{Login, Sql, SqlError};
use super::stored_password::clause;
use super::upgrade;
use tillerman_agent::contract::Role;

/// How long a statement that never hangs may take.
pub const SHORT: Duration = Duration::from_secs(2);
/// How long a start may take: recovery reads the logs.
const START: Duration = Duration::from_secs(3600);
/// The first and the longest pause between two starts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(20));
/// How often the agent looks whether a primary can be opened.
const OPENING: Duration = Duration::from_millis(50);
/// How often it looks whether one is still open.
const STAYS_OPEN: Duration = Duration::from_secs(1);

/// Starts the database whenever it is wanted and does not run.
pub async fn keep_running(member: Arc<DatabaseMember>) {
    let mut pause = PAUSES.0;
    loop {
        let wanted = member.wait_until(|facts| {
            let idle = facts.running.is_none() && !facts.stopping;
            (idle && facts.wanted != Wanted::No).then_some(facts.wanted)
        });
        let takes_back = wanted.await == Wanted::TakingBack;
        let began = Instant::now();
        match start(&member, takes_back).await {
            Ok(process) => {
                process.ended().await;
                member.change(AgentFacts::ended);
                tracing::warn!("the database has ended");
            }
            Err(why) => {
                tracing::error!(why, "the database does not start");
                member.change(|facts| {
                    // It may have been ended by an order.
                    let problem = format!("the database does not start: {why}");
                    facts.problem = Some(problem).filter(|_| facts.wanted != Wanted::No);
                });
            }
        }
        pause = if began.elapsed() > PAUSES.1 { PAUSES.0 } else { (pause * 2).min(PAUSES.1) };
        let changed = member.facts(|facts| facts.wanted);
        let stays = |facts: &AgentFacts| (facts.wanted != changed || facts.stopping).then_some(());
        let _ = tokio::time::timeout(pause, member.wait_until(stays)).await;
    }
}

/// Starts the database, and waits until it answers.
async fn start(member: &Arc<DatabaseMember>, takes_back: bool) -> Result<Arc<Process>, String> {
    let (step, version) = upgrade::check(member).await?;
    let (password, start) = (random()?, random()?);
    let continues = member.take_continued()?;
    let init = InitFile::write(member, &password)?;
    let arguments = arguments(&member.flags, &member.volume.data(), &init.0, takes_back);
    let login = Login::new(&member.flags.socket(), password, member.flags.flavor);
    let program = member.flags.server();
    let process = Process::start(&program, &arguments, login, takes_back).map_err(|error| error.to_string())?;
    let process = Arc::new(process);
    // The code that ends the database also waits for one that starts.
    member.change(|facts| facts.starting = Some(Arc::clone(&process)));
    let arrived = arrive(member, &process, init, (&step, &version)).await;
    if arrived.is_err() {
        process.kill().await;
        process.ended().await;
    }
    member.change(|facts| {
        facts.starting = None;
        if arrived.is_ok() {
            facts.problem = None;
            start[..16].clone_into(&mut facts.start);
            facts.continues = continues;
            facts.running = Some(Arc::clone(&process));
        }
    });
    arrived.map(|()| process)
}

/// Waits until a database answers, and has its position and the tables of its version.
async fn arrive(
    member: &Arc<DatabaseMember>,
    process: &Arc<Process>,
    init: InitFile,
    (step, version): (&upgrade::Step, &str),
) -> Result<(), String> {
    let answered = answers(process, member.flags.hung_after).await;
    drop(init);
    if answered.is_ok() {
        member.arrive(process).await?;
        return upgrade::finish(member, process, step, version).await;
    }
    if process.refuses_to_take_back() && process.takes_back {
        member.diverged()?;
        return Err("it cannot take unacknowledged writes back, and starts with them".to_owned());
    }
    if let Err(Some(still)) = answered {
        let why = does_nothing(still);
        hung::note(member, &format!("{why} while it started"));
        return Err(why);
    }
    Err("its log says why".to_owned())
}

/// The message about a process that has done nothing for this time.
pub fn does_nothing(still: Duration) -> String {
    format!("it did nothing for {} seconds", still.as_secs())
}

/// Waits until the database answers. The error says for how long it has done nothing at all, if it has not ended and that is why it is given
/// up: after `still`, if that is not zero.
pub async fn answers(process: &Process, still: Duration) -> Result<(), Option<Duration>> {
    let end = Instant::now() + START;
    let mut work = Still::of(process.number);
    while !process.has_ended() && Instant::now() < end {
        match process.login.connect(SHORT).await {
            Ok(_) => return Ok(()),
            Err(error) => tracing::trace!(%error, "the database does not answer yet"),
        }
        let lasts = work.lasts();
        if !still.is_zero() && lasts >= still {
            return Err(Some(lasts));
        }
        // A socket cannot be waited for.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(None)
}

/// Takes writes as soon as enough members acknowledge. Each order that is carried out meanwhile comes first.
pub async fn keep_open(member: Arc<DatabaseMember>) {
    loop {
        member.wait_until(|facts| (facts.role == Role::Primary && facts.running.is_some()).then_some(())).await;
        if let Ok(guard) = member.orders.try_lock() {
            if let Err(error) = open(&member).await {
                tracing::debug!(%error, "the primary is not opened");
            }
            drop(guard);
        }
        let is_done = member.facts(|facts| facts.opened && facts.waits_for == facts.acks);
        let pause = if is_done { STAYS_OPEN } else { OPENING };
        tokio::time::sleep(pause).await;
    }
}

/// Opens a primary if enough members acknowledge, and lets the commits of an open one wait for them. The caller holds the lock of orders.
pub async fn open(member: &DatabaseMember) -> Result<(), SqlError> {
    let (role, acks, waits_for, opened) = member.facts(|facts| (facts.role, facts.acks, facts.waits_for, facts.opened));
    if role != Role::Primary {
        return Ok(());
    }
    let measured: Measured = member.measure(SHORT).await?;
    let acknowledged =
        acks == 0 || (measured.clients >= u64::from(acks) && measured.acknowledging.len() >= acks as usize);
    if waits_for < acks && (acknowledged || !opened) {
        wait_for(&mut *member.sql().await?, acks).await?;
        member.change(|facts| {
            facts.generation += 1;
            facts.waits_for = acks;
        });
    }
    let enough = opened || acknowledged;
    if measured.read_only && enough {
        member.sql().await?.run("SET GLOBAL read_only = 0", SHORT).await?;
        tracing::info!(acks, "takes writes");
    }
    if enough && !opened {
        member.change(|facts| facts.opened = true);
    }
    Ok(())
}

/// Lets commits wait for this many acknowledgements.
pub async fn wait_for(sql: &mut Sql, acks: u32) -> Result<(), SqlError> {
    if sql.flavor == Flavor::Mysql {
        sql.run(&format!("SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = {acks}"), SHORT).await?;
    }
    let source = sql.flavor.source();
    sql.run(&format!("SET GLOBAL rpl_semi_sync_{source}_enabled = 1"), SHORT).await
}

/// Confirms that everything has as many acknowledgements as commits wait for: a commit that was made after the order has them.
pub async fn keep_confirmed(member: Arc<DatabaseMember>) {
    loop {
        let is_asked = |facts: &AgentFacts| {
            let wanted = facts.role == Role::Primary && facts.confirmed < facts.waits_for && facts.running.is_some();
            wanted.then_some(())
        };
        member.wait_until(is_asked).await;
        // The code that ends this role waits for it: no commit is allowed after that.
        let guard = member.marker.lock().await;
        let (generation, acks, process) = member.facts(|facts| {
            (facts.generation, facts.waits_for, facts.running.clone().filter(|_| is_asked(facts).is_some()))
        });
        let Some(process) = process else { continue };
        let commit = async {
            let mut sql = process.login.connect(SHORT).await?;
            sql.run("UPDATE tillerman.marker SET number = number + 1 WHERE id = 1", Duration::MAX).await
        };
        // It waits as long as nobody acknowledges, and ends with the database.
        let done = tokio::select! { done = commit => done, () = process.ended() => Err(SqlError::Lost) };
        drop(guard);
        match done {
            Ok(()) => member.change(|facts| {
                if facts.generation == generation {
                    facts.confirmed = acks;
                }
            }),
            Err(error) => {
                tracing::warn!(%error, "no marker is written");
                tokio::time::sleep(PAUSES.0).await;
            }
        }
    }
}

/// The statements of a start, which hold hashes of passwords. They are removed after it.
pub struct InitFile(PathBuf);

impl InitFile {
    /// Writes them.
    pub fn write(member: &DatabaseMember, password: &str) -> Result<Self, String> {
        let flags = &member.flags;
        let administrator = match &flags.administrator_password_file {
            Some(path) => Some(clause(flags.flavor, &secret(path)?, None)?),
            None => None,
        };
        let administrator = administrator.as_deref().map(|clause| (flags.administrator.as_str(), clause));
        let lines = init_file(flags.flavor, &clause(flags.flavor, password, None)?, administrator);
        let path = flags.volume.join("init.sql");
        write_secret(&path, &(lines.join(";\n") + ";\n"))?;
        Ok(Self(path))
    }
}

impl InitFile {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for InitFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes a file that only its owner can read.
pub fn write_secret(path: &Path, text: &str) -> Result<(), String> {
    let error = |error: std::io::Error| format!("{}: {error}", path.display());
    let _ = fs::remove_file(path);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(error)?;
    file.write_all(text.as_bytes()).map_err(error)
}

/// Reads a password from a file, without the end of its line.
pub fn secret(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() || text.len() > 1024 {
        return Err(format!("{} is not a password of 1 to 1024 bytes", path.display()));
    }
    Ok(text.to_owned())
}

/// 128 random bits, as text.
pub fn random() -> Result<String, String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("cannot read random bytes: {error}"))?;
    Ok(data_encoding::HEXLOWER.encode(&bytes))
}

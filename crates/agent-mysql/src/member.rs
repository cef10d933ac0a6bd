//! The member: its facts, its connections to the database, and the lock of its orders.

use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard, Notify, Semaphore, watch};

use super::clone::forget_source;
use super::command::Flags;
use super::facts::{AgentFacts, Wanted};
use super::flavor::Flavor;
use super::keeper::SHORT;
use super::measured::{Measured, measure, purged};
use super::process::Process;
use super::seed::set_position;
use super::sql::{Sql, SqlError};
use tillerman_agent::contract::{CONTINUED, MemberState, Reason, Refusal, VolumeSpace};
use tillerman_agent::position::Position;
use tillerman_agent::store::{FoundData, Volume};
use tillerman_agent::tls::TlsFiles;

/// How long the database has for an answer about itself. The state is answered within two seconds.
const ANSWER: Duration = Duration::from_millis(1500);
/// How long it has after an answer that was late. The operator asks again and again before it acts, and need not wait each time.
const QUICK: Duration = Duration::from_millis(200);
/// The pause between patient requests to a database whose answer was late.
const LOOK: Duration = Duration::from_millis(500);

/// Files that MariaDB's data has, in its folder or, where another program made it, in the volume itself.
pub const FILES: [&str; 3] = ["ibdata1", "mysql", "aria_log_control"];

/// How many commits at once may be made so that others are acknowledged with them.
pub const NUDGES: u32 = 10;

/// The least room on a volume, in MiB.
const ROOM: u64 = 16;

/// A connection, and the start of the database that it is of.
type Line = Mutex<Option<(Arc<Process>, Sql)>>;

/// A member of a cluster of MariaDB.
pub struct DatabaseMember {
    /// The flags.
    pub flags: Flags,
    /// The volume.
    pub volume: Volume,
    /// The certificates.
    pub tls: Option<TlsFiles>,
    /// Held by the order that is carried out.
    pub orders: Mutex<()>,
    /// Held while a marker is written.
    pub marker: Mutex<()>,
    /// One is held by each commit that is made so that others are acknowledged with it: [`NUDGES`] at most.
    pub nudges: Semaphore,
    /// Held while a statement for databases and accounts of clients is made.
    pub declares: Mutex<()>,
    /// Files were read again by order.
    pub reread: Notify,
    /// Held while the data is copied to another member.
    pub copies: Arc<Mutex<()>>,
    facts: watch::Sender<AgentFacts>,
    asks: Line,
    works: Line,
    last: StdMutex<Option<(Instant, String, Measured)>>,
    hangs: watch::Sender<bool>,
}

impl DatabaseMember {
    /// Reads the volume.
    pub fn new(flags: Flags, tls: Option<TlsFiles>) -> Result<Self, String> {
        let volume = Volume::new(&flags.volume);
        let mut facts = AgentFacts { obeyed: volume.obeyed().map_err(|e| e.to_string())?, ..AgentFacts::default() };
        volume.sweep().map_err(|e| e.to_string())?;
        volume.clear_temporary().map_err(|e| e.to_string())?;
        match volume.found(&FILES).map_err(|e| e.to_string())? {
            FoundData::Ours(identity) => {
                facts.identity = Some(identity);
                // One that waited for acknowledgements keeps its writes as the primary, and takes them back as a replica.
                facts.wanted = if facts.may_have_unacknowledged() { Wanted::No } else { Wanted::Keeping };
            }
            FoundData::Foreign(why) => facts.problem = Some(why),
            FoundData::Nothing => {}
        }
        Ok(Self {
            flags,
            volume,
            tls,
            orders: Mutex::default(),
            marker: Mutex::default(),
            nudges: Semaphore::new(NUDGES as usize),
            declares: Mutex::default(),
            reread: Notify::default(),
            copies: Arc::default(),
            facts: watch::Sender::new(facts),
            asks: Mutex::default(),
            works: Mutex::default(),
            last: StdMutex::default(),
            hangs: watch::Sender::default(),
        })
    }

    /// Reads the facts.
    pub fn facts<T>(&self, read: impl FnOnce(&AgentFacts) -> T) -> T {
        read(&self.facts.borrow())
    }

    /// Changes the facts.
    pub fn change(&self, change: impl FnOnce(&mut AgentFacts)) {
        self.facts.send_modify(change);
    }

    /// Waits until the facts have something.
    pub async fn wait_until<T>(&self, find: impl Fn(&AgentFacts) -> Option<T>) -> T {
        let mut facts = self.facts.subscribe();
        loop {
            if let Some(found) = find(&facts.borrow_and_update()) {
                return found;
            }
            // The sender lives as long as the member.
            let _ = facts.changed().await;
        }
    }

    /// The connection for orders. Its writes are not in the binary log.
    pub async fn sql(&self) -> Result<MappedMutexGuard<'_, Sql>, SqlError> {
        self.line(&self.works).await
    }

    /// The connection for questions.
    pub async fn asks(&self) -> Result<MappedMutexGuard<'_, Sql>, SqlError> {
        self.line(&self.asks).await
    }

    async fn line<'a>(&self, line: &'a Line) -> Result<MappedMutexGuard<'a, Sql>, SqlError> {
        let process = self.facts(|facts| facts.running.clone()).ok_or(SqlError::Lost)?;
        let mut held = line.lock().await;
        let is_usable = |(of, sql): &(Arc<Process>, Sql)| Arc::ptr_eq(of, &process) && sql.is_open();
        if !held.as_ref().is_some_and(is_usable) {
            *held = None;
            let mut sql = process.login.connect(SHORT).await?;
            sql.run("SET SESSION sql_log_bin = 0", SHORT).await?;
            *held = Some((process, sql));
        }
        Ok(MutexGuard::map(held, |held| &mut held.as_mut().expect("it was just put there").1))
    }

    /// Asks the database.
    pub async fn measure(&self, within: Duration) -> Result<Measured, SqlError> {
        let asks = async { measure(&mut *self.asks().await?, within).await };
        let measured = tokio::time::timeout(within, asks).await.map_err(|_| SqlError::Late).flatten();
        if measured != Err(SqlError::Late) {
            self.hangs.send_replace(false);
        }
        let measured = measured?;
        let start = self.facts(|facts| facts.start.clone());
        *self.last() = Some((Instant::now(), start, measured.clone()));
        Ok(measured)
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<(Instant, String, Measured)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to the operator. If the database does not answer in time, it is the last one, and says so.
    pub async fn state(&self) -> MemberState {
        let name = &self.flags.member;
        let end = Instant::now() + if *self.hangs.borrow() { QUICK } else { ANSWER };
        loop {
            // Changes of an order during the question to the database must not be mixed with its earlier answers.
            let before = self.facts(Clone::clone);
            let left = end.saturating_duration_since(Instant::now());
            let measured = if before.running.is_some() { Some(self.measure(left).await) } else { None };
            let marks = |facts: &AgentFacts| (facts.start.clone(), facts.role, facts.generation, facts.obeyed.clone());
            if self.facts(marks) != marks(&before) && Instant::now() < end {
                continue;
            }
            // MySQL says it with the rest.
            let is_in_files = before.running.is_some() && self.flags.flavor == Flavor::Mariadb;
            let purged = if is_in_files { purged(&self.volume.data()) } else { Position::none() };
            let mut state = match measured {
                None => before.state(name, None, purged, None),
                Some(Ok(measured)) => before.state(name, Some(&measured), purged, None),
                Some(Err(error)) => {
                    self.hangs.send_replace(error == SqlError::Late);
                    let last = self.last().clone().filter(|(_, start, _)| *start == before.start);
                    let age = last.as_ref().map_or(0, |(at, _, _)| at.elapsed().as_secs());
                    let late = format!("{error}: this state is {age} seconds old");
                    before.state(name, last.as_ref().map(|(_, _, measured)| measured), purged, Some(late))
                }
            };
            state.volume = self.space();
            // A full volume is why the database answers late, or with an error. The report about one that hangs has it.
            if before.hung.is_none() {
                state.problem = self.lacks_room().or(state.problem);
            }
            return state;
        }
    }

    /// How full the volume is.
    fn space(&self) -> Option<VolumeSpace> {
        let volume = rustix::fs::statvfs(self.volume.data()).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(volume.f_frsize);
        Some(VolumeSpace {
            capacity: bytes(volume.f_blocks),
            used: bytes(volume.f_blocks.saturating_sub(volume.f_bavail)),
        })
    }

    /// Why writes wait: there is no room for them.
    pub fn lacks_room(&self) -> Option<String> {
        let space = self.space()?;
        let left = space.capacity.saturating_sub(space.used) >> 20;
        (left < ROOM).then(|| format!("its volume is full: {left} MiB are left, and writes wait or fail"))
    }

    /// Asks a database whose answer was late until it answers in time.
    pub async fn keep_asking(self: Arc<Self>) {
        let mut hangs = self.hangs.subscribe();
        // The sender lives as long as the member.
        while hangs.wait_for(|hangs| *hangs).await.is_ok() {
            let _ = self.measure(ANSWER).await;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Stores an order before it is carried out.
    pub fn obey(&self, change: impl FnOnce(&mut tillerman_agent::store::Obeyed)) -> Result<(), Refusal> {
        let mut obeyed = self.facts(|facts| facts.obeyed.clone());
        change(&mut obeyed);
        self.volume
            .obey(&obeyed)
            .map_err(|error| failed(&format!("cannot store the orders that were obeyed: {error}")))?;
        self.change(|facts| facts.obeyed = obeyed);
        Ok(())
    }

    /// The database cannot take its unacknowledged writes back, and keeps them.
    pub fn diverged(&self) -> Result<(), String> {
        let Some(mut identity) = self.facts(|facts| facts.identity.clone()) else { return Ok(()) };
        identity.diverged = true;
        self.volume.identify(&identity).map_err(|error| error.to_string())?;
        self.change(|facts| {
            facts.identity = Some(identity);
            facts.wanted = Wanted::Keeping;
        });
        Ok(())
    }

    /// Stores that the database has ended in order in the start that has just been left, after everything that it received was applied.
    pub fn keep_start(&self, start: &str, continued: &[String]) -> Result<(), String> {
        let Some(mut identity) = self.facts(|facts| facts.identity.clone()) else { return Ok(()) };
        identity.continues = std::iter::once(start)
            .chain(continued.iter().map(String::as_str))
            .map(str::to_owned)
            .take(CONTINUED)
            .collect();
        self.volume.identify(&identity).map_err(|error| error.to_string())?;
        self.change(|facts| facts.identity = Some(identity));
        Ok(())
    }

    /// The starts that the next start continues. They are removed from the volume: the next start may end in another way.
    pub fn take_continued(&self) -> Result<Vec<String>, String> {
        let Some(mut identity) = self.facts(|facts| facts.identity.clone()) else { return Ok(Vec::new()) };
        let continued = std::mem::take(&mut identity.continues);
        if !continued.is_empty() {
            self.volume.identify(&identity).map_err(|error| error.to_string())?;
            self.change(|facts| facts.identity = Some(identity));
        }
        Ok(continued)
    }

    /// Gives a copy the position that it has.
    pub async fn arrive(&self, process: &Process) -> Result<(), String> {
        let Some(mut identity) = self.facts(|facts| facts.identity.clone()) else { return Ok(()) };
        let Some(arrived) = identity.arrived.take() else { return Ok(()) };
        let mut sql = process.login.connect(SHORT).await.map_err(|error| error.to_string())?;
        match self.flags.flavor {
            Flavor::Mariadb => set_position(&mut sql, &arrived).await?,
            Flavor::Mysql => forget_source(&mut sql).await?,
        }
        self.volume.identify(&identity).map_err(|error| error.to_string())?;
        self.change(|facts| facts.identity = Some(identity));
        Ok(())
    }
}

/// A refusal.
pub fn refusal(reason: Reason, message: &str) -> Refusal {
    Refusal::new(reason, message)
}

/// It failed.
pub fn failed(message: &str) -> Refusal {
    refusal(Reason::Failed, message)
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Self {
        match error {
            SqlError::Late | SqlError::Lost => refusal(Reason::DatabaseDown, &error.to_string()),
            SqlError::Server(_) => failed(&error.to_string()),
        }
    }
}

//! Brings a running MariaDB or MySQL into a cluster: checks it, copies it, follows its writes, compares both, and on request ends the writes there.
//!
//! It runs in a pod of its own, and changes nothing at the source before the cut-over. Rows of the source become ordinary writes of the
//! cluster's primary, so that replication, acknowledgements and fail-overs of the cluster are as always.
//!
//! - [`flags`]: the command line. [`source`]: the check. [`moment`]: positions and snapshots. [`mod@copy`], [`mod@dump`]: the copy.
//! - [`stream`], [`events`], [`follow`]: the writes after it. [`verify`]: the comparison.
//! - [`way_back`]: the writes of the cluster at the source, after the cut-over. [`accounts`]: accounts and events. [`record`]: how far it is. [`programs`]: the programs of MariaDB.

pub mod accounts;
pub mod copy;
pub mod dump;
pub mod events;
pub mod flags;
pub mod follow;
pub mod json;
pub mod moment;
pub mod programs;
pub mod record;
pub mod source;
pub mod stream;
pub mod verify;
pub mod way_back;

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use crate::flavor::Flavor;
use crate::sql::{Address, Sql, SqlError};
use accounts::{take_accounts, take_events};
use copy::copy;
use flags::Import;
use follow::{Follower, Stop};
use moment::{snapshot, written};
use record::{Direction, ImportPhase, close, finish, read, say};
use source::check;
use stream::Writes;
use verify::{Verified, compare};

/// How long a side has for a connection or a short answer.
pub const ANSWER: Duration = Duration::from_secs(10);
/// The pause after a failure, which doubles up to [`LONGEST`].
const AGAIN: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(120);
/// The pause between two looks at the source.
const LOOK: Duration = Duration::from_secs(1);
/// The pause between two questions whether a side still answers.
const ASKS: Duration = Duration::from_secs(3);
/// The pause between two reports of how many writes are left.
const REPORT: Duration = Duration::from_secs(5);
/// How many writes may be left when the comparison begins.
const NEAR: u64 = 10_000;
/// A cut-over begins when this many writes are left, or what the source writes in about a second if that is more; and after [`PATIENCE`] in
/// any case.
const FEW: u64 = 50;
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the source has to end its writes.
const CLOSES: Duration = Duration::from_secs(10);
/// How long the cluster has to apply what is left then.
const DRAINS: Duration = Duration::from_secs(30);

/// Runs until the data is the cluster's, or until a signal. The error is a sentence.
pub async fn run(import: Import) -> Result<(), String> {
    let error = |error: std::io::Error| error.to_string();
    let (mut ends, mut interrupts) =
        (signal(SignalKind::terminate()).map_err(error)?, signal(SignalKind::interrupt()).map_err(error)?);
    tokio::select! {
        done = until_done(&import) => done,
        _ = ends.recv() => Ok(()),
        _ = interrupts.recv() => Ok(()),
    }
}

async fn until_done(import: &Import) -> Result<(), String> {
    let (source, target) = (import.source()?, import.target()?);
    if import.check {
        return check_alone(import, &source, &target).await;
    }
    let waits = async |sql: &mut Sql, why: &str| say(sql, &format!("waits: {why}")).await;
    until_attempted(&source, &target, async || attempt(import, &source, &target).await, waits).await;
    std::fs::write(&import.done, "").map_err(|error| format!("{}: {error}", import.done.display()))?;
    if import.way_back {
        let waits = async |sql: &mut Sql, why: &str| way_back::say(sql, &format!("waits: {why}")).await;
        let attempt = async || way_back::attempt(import, &source, &target).await;
        until_attempted(&source, &target, attempt, waits).await;
    }
    if import.stay {
        std::future::pending::<()>().await;
    }
    Ok(())
}

/// Attempts until one succeeds, with pauses. What an attempt waits for is a message in the record.
async fn until_attempted(
    source: &Address,
    target: &Address,
    attempt: impl AsyncFn() -> Result<(), String>,
    waits: impl AsyncFn(&mut Sql, &str) -> Result<(), SqlError>,
) {
    let mut pause = AGAIN;
    loop {
        let began = Instant::now();
        let attempted = tokio::select! {
            done = attempt() => done,
            lost = answers(source, of_source) => lost,
            lost = answers(target, of_cluster) => lost,
        };
        let Err(why) = attempted else { return };
        tracing::warn!(why, "the import waits");
        if let Ok(mut sql) = target.connect(ANSWER).await {
            let _ = waits(&mut sql, &why).await;
        }
        if began.elapsed() > LONGEST {
            pause = AGAIN;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
}

/// Ends when a database no longer answers a connection that it had. A connection to a pod that was removed from its node gets no answer, and a
/// statement that takes hours would wait for it.
async fn answers(address: &Address, said: fn(SqlError) -> String) -> Result<(), String> {
    // While it cannot be reached, the attempt itself says so.
    let Ok(mut sql) = address.connect(ANSWER).await else { return std::future::pending().await };
    loop {
        sleep(ASKS).await;
        sql.run("SELECT 1", ANSWER).await.map_err(said)?;
    }
}

async fn reach(source: &Address) -> Result<Sql, String> {
    source.connect(ANSWER).await.map_err(|error| match error {
        SqlError::Server(1044 | 1045 | 1130 | 1698) => {
            format!("the source {}:{} refuses the account", source.host, source.port)
        }
        error => format!("the source {}:{} cannot be reached: {error}", source.host, source.port),
    })
}

async fn reach_cluster(target: &Address) -> Result<Sql, String> {
    target.connect(ANSWER).await.map_err(of_cluster)
}

fn of_source(error: SqlError) -> String {
    format!("the source: {error}")
}

fn of_cluster(error: SqlError) -> String {
    format!("the cluster: {error}")
}

/// Prints what the check finds, as JSON.
async fn check_alone(import: &Import, source: &Address, target: &Address) -> Result<(), String> {
    let (mut from, mut to) = (reach(source).await?, reach_cluster(target).await?);
    let found = check(&mut from, &mut to, false).await.map_err(of_source)?;
    let text = serde_json::to_string(&found).map_err(|error| error.to_string())?;
    println!("{text}");
    if let Some(path) = &import.report {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if found.problems.is_empty() {
        Ok(())
    } else {
        Err(format!("the source has problems: {}", found.problems.join("; ")))
    }
}

/// Continues from where the record is.
async fn attempt(import: &Import, source: &Address, target: &Address) -> Result<(), String> {
    let mut to = reach_cluster(target).await?;
    let address = format!("{}:{}", source.host, source.port);
    let mut record = read(&mut to, Direction::Import, &address).await.map_err(of_cluster)?;
    if record.source != address {
        return Err(format!(
            "the cluster has begun to import from {}: another source needs a new cluster",
            record.source
        ));
    }
    if matches!(record.phase, ImportPhase::Done | ImportPhase::RolledBack) {
        return Ok(());
    }
    let mut from = reach(source).await?;
    if matches!(record.phase, ImportPhase::Checking | ImportPhase::Copying) {
        let found = check(&mut from, &mut to, record.phase == ImportPhase::Copying).await.map_err(of_source)?;
        if !found.problems.is_empty() {
            return Err(format!("the source has problems: {}", found.problems.join("; ")));
        }
        copy(import, source, target, &mut from, &mut to).await?;
        record = read(&mut to, Direction::Import, &address).await.map_err(of_cluster)?;
    }
    if !record.closed.is_empty() && !import.cut_over {
        open(&mut from, &record.closed).await.map_err(of_source)?;
        close(&mut to, "").await.map_err(of_cluster)?;
    }
    let follower = Follower::new(Direction::Import, &record);
    let closed = record.closed.clone();
    let (from, to) = (&mut from, &mut to);
    let steers = steer(Work { import, source, target, follower: &follower, from, to, closed });
    tokio::select! {
        failed = follower.follow(import, source, target, record) => failed,
        done = steers => done,
    }
}

/// An import that follows its source.
struct Work<'a> {
    import: &'a Import,
    source: &'a Address,
    target: &'a Address,
    follower: &'a Follower,
    from: &'a mut Sql,
    to: &'a mut Sql,
    /// As [`record::Record::closed`].
    closed: String,
}

/// Looks how far the follower is, compares, and cuts over.
async fn steer(work: Work<'_>) -> Result<(), String> {
    let Work { import, source, follower, from, to, .. } = work;
    let (mut verified, mut began) = (None::<Verified>, None::<Instant>);
    let (mut said, mut at, mut before) = (String::new(), None::<Instant>, None::<Writes>);
    loop {
        // The follower cannot continue while what it has applied is borrowed, so the answer comes first.
        let now = written(from).await?;
        let left = follower.applied.borrow().behind(&now);
        let (unit, small) = now.unit();
        let few =
            (FEW * small).max(before.replace(now.clone()).map_or(0, |before| before.behind(&now).saturating_mul(10)));
        let mut message = format!("follows the source, {left} {unit} behind");
        if let Some(Verified { tables, rows, .. }) = &verified {
            message = format!("{message}; {tables} tables with {rows} rows were compared and are equal");
            // What is left is the pause of the writes.
            let waits = began.get_or_insert_with(Instant::now);
            if import.cut_over && (left <= few || waits.elapsed() >= PATIENCE) {
                return cut_over(Work { from, to, ..work }).await;
            }
        }
        if said != message && at.is_none_or(|at| at.elapsed() >= REPORT) {
            say(to, &message).await.map_err(of_cluster)?;
            (said, at) = (message, Some(Instant::now()));
        }
        if verified.is_none() && left <= NEAR * small {
            say(to, "compares the tables with those of the source").await.map_err(of_cluster)?;
            let compared = verify(source, follower).await?;
            if !compared.differ.is_empty() {
                return Err(format!("these tables differ from the source: {}", compared.differ.join(", ")));
            }
            (verified, at, before) = (Some(compared), None, None);
            continue;
        }
        sleep(if import.cut_over && verified.is_some() { LOOK / 10 } else { LOOK }).await;
    }
}

/// Compares two snapshots with the same writes, while both sides take more.
async fn verify(source: &Address, follower: &Follower) -> Result<Verified, String> {
    let mut there = reach(source).await?;
    let (reached, receiver) = oneshot::channel();
    let mut stop = follower.stop.lock().await;
    // No write is applied now, so none is applied that the snapshot lacks.
    let (_, at) = snapshot(&mut there).await?;
    *stop = Some(Stop { at, reached });
    drop(stop);
    let mut here = receiver.await.map_err(|_| "the follower has ended")?;
    compare(&mut there, &mut here).await.map_err(|error| format!("the comparison: {error}"))
}

/// Ends the writes at the source, and makes the data the cluster's. If that fails before, the source takes writes again.
async fn cut_over(work: Work<'_>) -> Result<(), String> {
    let Work { import, source, target, follower, from, to, closed } = work;
    say(to, "ends the writes at the source").await.map_err(of_cluster)?;
    let missing = take_accounts(from, to).await.map_err(|error| format!("the accounts of the source: {error}"))?;
    let settings = if closed.is_empty() { settings(from).await.map_err(of_source)? } else { closed };
    close(to, &settings).await.map_err(of_cluster)?;
    let mut lock = reach(source).await?;
    let began = Instant::now();
    let last = match drain(import, source, target, follower, &mut lock, &settings).await {
        Ok(last) => last,
        Err(why) => {
            // The lock ends with its connection.
            drop(lock);
            let opened = match reach(source).await {
                Ok(mut sql) => open(&mut sql, &settings).await.map_err(of_source),
                Err(why) => Err(why),
            };
            return Err(match opened {
                Ok(()) => match close(to, "").await {
                    Ok(()) => format!("the source takes writes again: {why}"),
                    Err(error) => of_cluster(error),
                },
                Err(more) => format!("{why}; the source takes no writes: {more}"),
            });
        }
    };
    let paused = began.elapsed().as_secs_f64();
    let mut message = format!(
        "done: the source took no writes for {paused:.1} s until the cluster had all of them, and stays read-only"
    );
    if !missing.is_empty() {
        message = format!("{message}; these did not come: {}", missing.join(", "));
    }
    // Whether this is done is not known after an error: the source stays closed, and the next attempt reads the record.
    let own = written(to).await?;
    finish(to, &own, &message).await.map_err(of_cluster)?;
    let _ = lock.run("UNLOCK TABLES", ANSWER).await;
    sleep(LOOK).await;
    if written(from).await.is_ok_and(|now| last.behind(&now) > 0) {
        message +=
            "; an account that read_only does not stop has written to the source since, and the cluster lacks this";
    }
    say(to, &message).await.map_err(of_cluster)?;
    tracing::info!(message, "the import has ended");
    Ok(())
}

/// The settings that a cut-over changes, as [`record::Record::closed`] has them.
async fn settings(from: &mut Sql) -> Result<String, SqlError> {
    let closed = match from.flavor {
        Flavor::Mariadb => "@@GLOBAL.read_only",
        Flavor::Mysql => "@@GLOBAL.read_only + @@GLOBAL.super_read_only",
    };
    let rows = from.rows(format!("SELECT {closed} AS closed, @@GLOBAL.event_scheduler AS events"), ANSWER).await?;
    Ok(rows.first().map(|row| format!("{},{}", row.text("closed"), row.text("events"))).unwrap_or_default())
}

/// Ends the writes at the source, and waits until the cluster has them and the events. Returns the last writes.
async fn drain(
    import: &Import,
    source: &Address,
    target: &Address,
    follower: &Follower,
    lock: &mut Sql,
    settings: &str,
) -> Result<Writes, String> {
    let said = |error: SqlError| format!("it does not end its writes: {error}");
    lock.run("SET SESSION lock_wait_timeout = 5", ANSWER).await.map_err(said)?;
    if settings.ends_with(",ON") {
        lock.run("SET GLOBAL event_scheduler = OFF", CLOSES).await.map_err(said)?;
    }
    lock.run(lock.flavor.closes(), CLOSES).await.map_err(said)?;
    lock.run("FLUSH TABLES WITH READ LOCK", CLOSES).await.map_err(said)?;
    let last = written(lock).await?;
    let mut applied = follower.applied.subscribe();
    let drained = timeout(DRAINS, applied.wait_for(|applied| applied.behind(&last) == 0)).await;
    drained.map_err(|_| "the cluster is too slow")?.map_err(|error| error.to_string())?;
    take_events(import, source, target, lock).await?;
    Ok(last)
}

/// Lets the source take writes again.
async fn open(from: &mut Sql, settings: &str) -> Result<(), SqlError> {
    let (closed, events) = settings.split_once(',').unwrap_or_default();
    match (closed, from.flavor) {
        ("0", _) => from.run("SET GLOBAL read_only = OFF", CLOSES).await?,
        ("1", Flavor::Mysql) => from.run("SET GLOBAL super_read_only = OFF", CLOSES).await?,
        _ => {}
    }
    if events == "ON" {
        from.run("SET GLOBAL event_scheduler = ON", CLOSES).await?;
    }
    Ok(())
}

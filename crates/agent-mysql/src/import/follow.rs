//! The writes after the copy. The cluster applies several transactions of the source in one of its own, which also records how far it is.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use tokio::sync::{Mutex, mpsc, oneshot, watch};

use super::flags::Import;
use super::moment::ISOLATION;
use super::programs::reaches;
use super::record::{self, Direction, Record, begins, hold, moves};
use super::stream::{Mark, Reader, Step, Steps, Writes, steps, words};
use super::{ANSWER, events};
use crate::flavor::Flavor;
use crate::sql::{Address, Sql, SqlError};

/// How many transactions of the source are one of the cluster at most.
const BATCH: u32 = 200;
/// How many bytes of rows, in base 64, go to the cluster together.
const BYTES: usize = 1 << 20;
/// How long one statement may take.
const STATEMENT: Duration = Duration::from_secs(24 * 3600);
/// The pause between two looks whether a stop is wanted, while the source writes nothing.
const LOOK: Duration = Duration::from_millis(50);
/// `ER_TABLE_EXISTS_ERROR` and the like: what a statement that was already done says when it runs again.
const ALREADY: [u16; 18] =
    [1007, 1008, 1050, 1051, 1054, 1060, 1061, 1091, 1146, 1304, 1305, 1359, 1360, 1826, 3821, 3822, 3940, 4092];

/// A moment at which the cluster has exactly these writes. The follower begins a snapshot then, and continues.
pub struct Stop {
    /// The writes.
    pub at: Writes,
    /// Takes the snapshot.
    pub reached: oneshot::Sender<Sql>,
}

/// What the follower and those who steer it share.
#[derive(Clone)]
pub struct Follower {
    /// Whose writes are followed.
    pub direction: Direction,
    /// The writes of the source that the cluster has.
    pub applied: watch::Sender<Writes>,
    /// Held between two transactions: no write of the source is applied meanwhile.
    pub stop: Arc<Mutex<Option<Stop>>>,
}

impl Follower {
    /// Begins with what the record has.
    pub fn new(direction: Direction, record: &Record) -> Self {
        Self { direction, applied: watch::Sender::new(record.writes.clone()), stop: Arc::default() }
    }

    /// Applies the writes of one side, the source, to the other one until a side fails, which the error says.
    pub async fn follow(
        &self,
        import: &Import,
        source: &Address,
        target: &Address,
        record: Record,
    ) -> Result<(), String> {
        let (from, to) = self.direction.sides();
        let said = |error: SqlError| format!("{to}: {error}");
        let mut sql = target.connect(ANSWER).await.map_err(said)?;
        // The session of a follower that was killed may still commit: the record is right when it has ended.
        hold(&mut sql).await?;
        let record = record::read(&mut sql, self.direction, &record.source).await.map_err(said)?;
        self.applied.send_replace(record.writes.clone());
        let (steps, mut receiver) = steps();
        let server = server_id()?;
        let reader = match sql.flavor {
            Flavor::Mariadb => {
                let child = start(self.direction, import, source, &record, server)?;
                tokio::spawn(read(child, Reader::new(&record.file), steps, from))
            }
            Flavor::Mysql => tokio::spawn(events::read(source.clone(), server, record.clone(), steps)),
        };
        let mut session = Session {
            direction: self.direction,
            sql,
            target,
            writes: record.writes,
            ended: None,
            opened: false,
            count: 0,
            rows: Vec::new(),
            begun: record.begun,
            may_be_done: false,
            alone: false,
            words: String::new(),
        };
        let applied = loop {
            // What is held of the room for steps is given back after the step.
            let (step, _room) = match receiver.try_recv() {
                Ok(step) => step,
                Err(mpsc::error::TryRecvError::Disconnected) => break Ok(()),
                Err(mpsc::error::TryRecvError::Empty) => match tokio::time::timeout(LOOK, receiver.recv()).await {
                    Ok(Some(step)) => step,
                    Ok(None) => break Ok(()),
                    Err(_) => {
                        if let Err(error) = self.idle(&mut session).await {
                            break Err(error);
                        }
                        continue;
                    }
                },
            };
            if let Err(error) = self.take(&mut session, step).await {
                break Err(error);
            }
        };
        if let Err(error) = applied {
            return Err(format!("{to} does not take a write of {from} ({}): {error}", session.words));
        }
        reader.await.map_err(|error| error.to_string())??;
        Err(format!("{from} ended the stream of its binary log"))
    }

    async fn take(&self, session: &mut Session<'_>, step: Step) -> Result<(), SqlError> {
        match step {
            Step::Begin(alone) => {
                if let Some(start) = alone {
                    self.commit(session).await?;
                    session.begins(start).await?;
                    session.alone = true;
                }
                self.pause(session).await?;
                // The transaction that begins is not a part of what can be committed.
                session.ended = None;
                if std::mem::replace(&mut session.opened, true) {
                    Ok(())
                } else {
                    session.add(b"START TRANSACTION").await
                }
            }
            Step::Run(statement) if session.alone && !statement.starts_with(b"BINLOG") => {
                session.run(statement).await?;
                session.add(b"START TRANSACTION").await
            }
            Step::Run(statement) => session.add(&statement).await,
            Step::Commit(mark) => {
                session.passes(mark);
                if std::mem::take(&mut session.alone) || session.count >= BATCH {
                    self.commit(session).await
                } else {
                    Ok(())
                }
            }
            Step::Skip(mark) => {
                session.passes(mark);
                self.commit(session).await
            }
            Step::Alone(statement, mark) => {
                self.commit(session).await?;
                self.pause(session).await?;
                session.begins(mark.position).await?;
                session.run(statement).await?;
                session.passes(mark);
                self.commit(session).await
            }
        }
    }

    /// Nothing has come for a while. A transaction of which a part has come stays open.
    async fn idle(&self, session: &mut Session<'_>) -> Result<(), SqlError> {
        if session.ended.is_none() && session.opened {
            return Ok(());
        }
        self.commit(session).await?;
        self.pause(session).await
    }

    /// Commits the transactions of the source that have ended.
    async fn commit(&self, session: &mut Session<'_>) -> Result<(), SqlError> {
        let Some(mark) = session.ended.take() else { return Ok(()) };
        session.add(moves(self.direction, &mark, &session.writes).as_bytes()).await?;
        if std::mem::take(&mut session.opened) {
            session.add(b"COMMIT").await?;
        }
        session.count = 0;
        self.applied.send_replace(session.writes.clone());
        Ok(())
    }

    /// Between two transactions: waits while it is held, and begins the snapshot that is wanted here.
    async fn pause(&self, session: &mut Session<'_>) -> Result<(), SqlError> {
        let mut stop = self.stop.lock().await;
        if stop.as_ref().is_none_or(|stop| session.writes.behind(&stop.at) > 0) {
            return Ok(());
        }
        self.commit(session).await?;
        let mut snapshot = session.target.connect(ANSWER).await?;
        snapshot.run(ISOLATION, ANSWER).await?;
        snapshot.run("START TRANSACTION WITH CONSISTENT SNAPSHOT", ANSWER).await?;
        if let Some(stop) = stop.take() {
            let _ = stop.reached.send(snapshot);
        }
        Ok(())
    }
}

/// The connection that applies.
struct Session<'a> {
    direction: Direction,
    sql: Sql,
    target: &'a Address,
    /// The writes of the source that are applied, also those that are not committed yet.
    writes: Writes,
    /// The end of the last transaction of the source that is applied and not committed.
    ended: Option<Mark>,
    /// Whether a transaction of the cluster is open.
    opened: bool,
    /// How many transactions of the source it has.
    count: u32,
    /// Rows of its binary log, in base 64, that are not applied yet.
    rows: Vec<u8>,
    /// [`Record::begun`], until the first statement that commits by itself.
    begun: u64,
    /// Whether the statement that commits by itself may have been done before a kill.
    may_be_done: bool,
    /// Whether the transaction of the source has such a statement.
    alone: bool,
    /// The first words of the last statement, for an error.
    words: String,
}

impl Session<'_> {
    /// A statement that commits by itself comes next. `start` is a position that it always has.
    async fn begins(&mut self, start: u64) -> Result<(), SqlError> {
        self.send().await?;
        self.may_be_done = std::mem::take(&mut self.begun) == start;
        begins(&mut self.sql, self.direction, start).await
    }

    /// Runs a statement that commits by itself.
    async fn run(&mut self, statement: Vec<u8>) -> Result<(), SqlError> {
        self.send().await?;
        self.words = words(&statement).into_iter().take(2).collect::<Vec<_>>().join(" ");
        match self.sql.run(statement, STATEMENT).await {
            Err(SqlError::Server(number)) if self.may_be_done && ALREADY.contains(&number) => Ok(()),
            done => done,
        }
    }

    /// Runs a statement. Rows wait for more of them: each way there and back takes as long as the work of many.
    async fn add(&mut self, statement: &[u8]) -> Result<(), SqlError> {
        if let Some(rows) = statement.strip_prefix(b"BINLOG '").and_then(|rest| rest.strip_suffix(b"'")) {
            self.rows.extend_from_slice(rows);
            return if self.rows.len() > BYTES { self.send().await } else { Ok(()) };
        }
        self.send().await?;
        self.sql.run(statement, STATEMENT).await
    }

    /// Applies the rows that wait.
    async fn send(&mut self) -> Result<(), SqlError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        "ROWS".clone_into(&mut self.words);
        let statement = [b"BINLOG '", self.rows.as_slice(), b"'"].concat();
        self.rows.clear();
        self.sql.run(statement, STATEMENT).await
    }

    /// A transaction of the source has ended.
    fn passes(&mut self, mark: Mark) {
        self.writes.pass(&mark);
        self.ended = Some(mark);
        self.count += 1;
        self.may_be_done = false;
    }
}

/// The number of a replica. The source ends the stream of another replica that has the same number.
fn server_id() -> Result<u32, String> {
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    Ok(u32::from_ne_bytes(random) | 1 << 31)
}

/// Starts the program that reads the binary log from where the record ends, and does not stop. The binary logs of the members of a cluster have
/// other positions for the same writes, and the same GTIDs.
fn start(
    direction: Direction,
    import: &Import,
    source: &Address,
    record: &Record,
    server: u32,
) -> Result<Child, String> {
    let position = match direction {
        Direction::Import => record.position.max(4).to_string(),
        Direction::WayBack => record::text(&record.writes),
    };
    let mut command = reaches(&import.binlog, source);
    command.args(["--read-from-remote-server", "--stop-never", "--skip-annotate-row-events"]);
    command.arg(format!("--stop-never-slave-server-id={server}")).arg(format!("--start-position={position}"));
    command
        .arg(&record.file)
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| format!("mariadb-binlog cannot be started: {error}"))
}

/// Reads what the program prints. The error is a sentence.
async fn read(mut child: Child, mut reader: Reader, steps: Steps, from: &str) -> Result<(), String> {
    let output = child.stdout.take().ok_or("mariadb-binlog has no output")?;
    let (mut output, mut line) = (BufReader::with_capacity(1 << 20, output), Vec::new());
    while output.read_until(b'\n', &mut line).await.map_err(|error| error.to_string())? > 0 {
        if let Some(step) = reader.line(&line)?
            && !steps.send(step).await
        {
            return Ok(());
        }
        line.clear();
    }
    let status = child.wait().await.map_err(|error| error.to_string())?;
    Err(format!("{from} ended the stream of its binary log ({status}); see the log of the import"))
}

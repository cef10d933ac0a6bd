//! How far an import is: a row of the cluster, which changes in the same transaction as the data. A kill of any side leaves both.

use std::time::Duration;

use super::stream::{Mark, Writes};
use crate::flavor::Flavor;
use crate::gtid;
use crate::sql::{Sql, SqlError};

/// How long a statement of the record has. A commit waits for a replica, and a fail-over can come between.
pub const STORE: Duration = Duration::from_secs(60);

/// Which writes a record is about, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Those of the source, in the cluster.
    Import,
    /// Those of the cluster after the cut-over, at the source.
    WayBack,
}

impl Direction {
    /// The table of the record.
    pub fn table(self) -> &'static str {
        match self {
            Self::Import => "tillerman.import",
            Self::WayBack => "tillerman.way_back",
        }
    }

    /// The two sides in words: whose writes follow, and who applies them.
    pub fn sides(self) -> (&'static str, &'static str) {
        match self {
            Self::Import => ("the source", "the cluster"),
            Self::WayBack => ("the cluster", "the source"),
        }
    }
}

const COLUMNS: &str = "(id TINYINT PRIMARY KEY, source VARCHAR(300) NOT NULL, phase VARCHAR(20) NOT NULL, \
     message VARCHAR(2000) NOT NULL, file VARCHAR(300) NOT NULL, position BIGINT UNSIGNED NOT NULL, gtids VARCHAR(2000) NOT NULL, \
     begun BIGINT UNSIGNED NOT NULL, closed VARCHAR(20) NOT NULL) ENGINE=InnoDB CHARACTER SET utf8mb4";

/// Where an import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportPhase {
    /// Nothing is copied yet.
    Checking,
    /// The data is being copied. After a kill, the copy begins again.
    Copying,
    /// The writes after the copy follow.
    Following,
    /// The cluster has everything, and the source takes no writes.
    Done,
    /// The source took over again, and the cluster takes no writes of applications.
    RolledBack,
}

impl ImportPhase {
    fn name(self) -> &'static str {
        match self {
            Self::Checking => "Checking",
            Self::Copying => "Copying",
            Self::Following => "Following",
            Self::Done => "Done",
            Self::RolledBack => "RolledBack",
        }
    }
}

/// The record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it is.
    pub phase: ImportPhase,
    /// The source, as `HOST:PORT`.
    pub source: String,
    /// Where the next transaction begins.
    pub file: String,
    /// The position in that binary log.
    pub position: u64,
    /// The writes that were applied. Of an import that is done: the writes of the cluster at the cut-over.
    pub writes: Writes,
    /// The end of the statement that commits by itself, and that was begun last: after a kill it may have been done. 0: none.
    /// Of an import that is done: the time of the cut-over, in seconds since 1970; 0 after the way back has ended.
    pub begun: u64,
    /// The settings of the source before its writes were ended, as `READ_ONLY,EVENT_SCHEDULER`, where the first is 2 if MySQL was
    /// `super_read_only`. Empty: they were not ended.
    pub closed: String,
}

/// Reads the record. Without one, or with one of another source of which nothing is copied, a new one begins.
pub async fn read(sql: &mut Sql, direction: Direction, source: &str) -> Result<Record, SqlError> {
    let table = direction.table();
    sql.run(format!("CREATE TABLE IF NOT EXISTS {table} {COLUMNS}"), STORE).await?;
    let new = format!("REPLACE INTO {table} VALUES (1, '{}', 'Checking', '', '', 0, '', 0, '')", quoted(source));
    loop {
        let rows = sql.rows(format!("SELECT * FROM {table} WHERE id = 1"), STORE).await?;
        let known = rows.first().map(|row| Record {
            phase: match row.text("phase").as_str() {
                "Done" => ImportPhase::Done,
                "RolledBack" => ImportPhase::RolledBack,
                "Following" => ImportPhase::Following,
                "Copying" => ImportPhase::Copying,
                _ => ImportPhase::Checking,
            },
            source: row.text("source"),
            file: row.text("file"),
            position: row.number("position").unwrap_or_default(),
            writes: match sql.flavor {
                Flavor::Mariadb => Writes::domains(&row.text("gtids")),
                Flavor::Mysql => Writes::log(&row.text("file"), row.number("position").unwrap_or_default()),
            }
            .unwrap_or(Writes::none(sql.flavor)),
            begun: row.number("begun").unwrap_or_default(),
            closed: row.text("closed"),
        });
        match known {
            Some(record) if record.source == source || record.phase != ImportPhase::Checking => return Ok(record),
            _ => sql.run(&new, STORE).await?,
        }
    }
}

/// Waits until no other import changes the cluster. The session holds this until it ends, or calls [`release`]. The error is a sentence.
pub async fn hold(sql: &mut Sql) -> Result<(), String> {
    let held = sql.rows("SELECT GET_LOCK('tillerman.import', 60) AS held", STORE * 2).await;
    let held = held.map_err(|error| format!("the cluster: {error}"))?;
    match held.first().and_then(|row| row.number("held")) {
        Some(1) => Ok(()),
        _ => Err("another import changes the cluster".to_owned()),
    }
}

/// Ends what [`hold`] began.
pub async fn release(sql: &mut Sql) -> Result<(), SqlError> {
    sql.run("DO RELEASE_LOCK('tillerman.import')", STORE).await
}

/// The statement that records the end of a transaction.
pub fn moves(direction: Direction, mark: &Mark, writes: &Writes) -> String {
    let Mark { file, position, .. } = mark;
    format!(
        "UPDATE {} SET file = '{}', position = {position}, gtids = '{}', begun = 0 WHERE id = 1",
        direction.table(),
        quoted(file),
        text(writes)
    )
}

/// Records that a statement that commits by itself begins.
pub async fn begins(sql: &mut Sql, direction: Direction, end: u64) -> Result<(), SqlError> {
    sql.run(format!("UPDATE {} SET begun = {end} WHERE id = 1", direction.table()), STORE).await
}

/// Records the phase.
pub async fn enter(sql: &mut Sql, phase: ImportPhase) -> Result<(), SqlError> {
    sql.run(&format!("UPDATE tillerman.import SET phase = '{}' WHERE id = 1", phase.name()), STORE).await
}

/// Records that the data is the cluster's, with its own writes until now, and the last message.
pub async fn finish(sql: &mut Sql, writes: &Writes, message: &str) -> Result<(), SqlError> {
    let (phase, message, gtids) = (ImportPhase::Done.name(), brief(message), text(writes));
    let done = format!(
        "UPDATE tillerman.import SET phase = '{phase}', message = '{message}', gtids = '{gtids}', begun = UNIX_TIMESTAMP() WHERE id = 1"
    );
    sql.run(done, STORE).await
}

/// Records the settings of the source, whose writes end now; empty after they were restored.
pub async fn close(sql: &mut Sql, settings: &str) -> Result<(), SqlError> {
    sql.run(&format!("UPDATE tillerman.import SET closed = '{}' WHERE id = 1", quoted(settings)), STORE).await
}

/// Records a message for people.
pub async fn say(sql: &mut Sql, message: &str) -> Result<(), SqlError> {
    sql.run(&format!("UPDATE tillerman.import SET message = '{}' WHERE id = 1", brief(message)), STORE).await
}

/// The GTIDs of a position as text.
pub fn text(writes: &Writes) -> String {
    let Writes::Domains(domains) = writes else { return String::new() };
    gtid::text(&domains.values().copied().collect::<Vec<_>>())
}

/// What fits into the column, within single quotes.
pub fn brief(message: &str) -> String {
    quoted(&message.chars().take(1000).collect::<String>())
}

/// A text within single quotes.
pub fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "''")
}

/// A name within backticks.
pub fn name(text: &str) -> String {
    format!("`{}`", text.replace('`', "``"))
}

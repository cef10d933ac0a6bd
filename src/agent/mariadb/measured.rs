//! What the database says of itself. None of these queries hangs while commits wait for acknowledgements, as `SHOW MASTER STATUS` and
//! `SHOW BINARY LOGS` do.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use super::accounts::member;
use super::gtid::{self, HEAD};
use super::sql::{Sql, SqlError};
use crate::agent::position::Position;

/// `ER_GTID_STRICT_OUT_OF_ORDER`: a write does not fit behind what is there.
const OUT_OF_ORDER: u64 = 1950;

/// What the database said.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts")]
pub struct Measured {
    /// What it has applied.
    pub has: Position,
    /// What it will have after it has applied everything that it received.
    pub got: Position,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Its version without what follows the number.
    pub version: String,
    /// Whether it has a source.
    pub follows: bool,
    /// Whether it receives.
    pub receiving: bool,
    /// Whether the thread that receives runs, with or without a connection.
    pub receiver_on: bool,
    /// Whether it applies.
    pub applying: bool,
    /// Seconds behind its source.
    pub lag: Option<f64>,
    /// The number of the error at which it stopped to apply; 0 for none.
    pub apply_error: u64,
    /// The number of the error at which it stopped to receive; 0 for none.
    pub receive_error: u64,
    /// Commits that wait for an acknowledgement.
    pub waiting: u32,
    /// Connected replicas that acknowledge.
    pub clients: u64,
    /// The members that are connected with accounts that acknowledge.
    pub acknowledging: Vec<String>,
}

impl Measured {
    /// Whether it can neither apply the writes of its source nor take its own back.
    pub fn is_out_of_order(&self) -> bool {
        self.apply_error == OUT_OF_ORDER
    }

    /// What is wrong, by the numbers of the errors. Their texts contain values of the data.
    pub fn problem(&self) -> Option<String> {
        match (self.apply_error, self.receive_error) {
            (0, 0) => None,
            (0, error) => Some(format!("it does not receive: error {error} of the database")),
            (error, _) => Some(format!("it does not apply what it receives: error {error} of the database")),
        }
    }
}

/// Asks the database.
pub async fn measure(sql: &mut Sql, within: Duration) -> Result<Measured, SqlError> {
    let variables = "SELECT @@GLOBAL.gtid_binlog_state AS state, @@GLOBAL.read_only AS read_only, @@version AS version";
    let variables = sql.rows(variables, within).await?;
    let own = variables.first().ok_or(SqlError::Lost)?;
    let mut measured = Measured {
        has: position(&own.text("state"))?,
        read_only: own.text("read_only") != "0",
        version: own.text("version").split('-').next().unwrap_or_default().to_owned(),
        ..Measured::default()
    };
    measured.got = measured.has.clone();
    if let Some(slave) = sql.rows("SHOW SLAVE STATUS", within).await?.first() {
        measured.follows = !slave.text("Master_Host").is_empty();
        measured.receiver_on = slave.text("Slave_IO_Running") != "No";
        measured.receiving = slave.text("Slave_IO_Running") == "Yes";
        measured.applying = slave.text("Slave_SQL_Running") == "Yes";
        measured.lag = slave.text("Seconds_Behind_Master").parse().ok();
        measured.apply_error = slave.number("Last_SQL_Errno").unwrap_or_default();
        measured.receive_error = slave.number("Last_IO_Errno").unwrap_or_default();
        // Empty after a start: what was received before is thrown away when both threads start.
        measured.got = measured.has.clone().with(&position(&slave.text("Gtid_IO_Pos"))?);
    }
    let status = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Rpl_semi_sync_master_clients', 'Rpl_semi_sync_master_wait_sessions')";
    for row in sql.rows(status, within).await? {
        let value = row.number("Value").unwrap_or_default();
        match row.text("Variable_name").to_ascii_lowercase().as_str() {
            "rpl_semi_sync_master_clients" => measured.clients = value,
            _ => measured.waiting = u32::try_from(value).unwrap_or(u32::MAX),
        }
    }
    let dumps = "SELECT USER AS user FROM information_schema.PROCESSLIST WHERE COMMAND = 'Binlog Dump'";
    let accounts = sql.rows(dumps, within).await?;
    let names = accounts.iter().filter_map(|row| {
        let account = row.text("user");
        member(&account).filter(|(_, acknowledges)| *acknowledges).map(|(name, _)| name.to_owned())
    });
    measured.acknowledging = names.collect();
    measured.acknowledging.sort();
    measured.acknowledging.dedup();
    Ok(measured)
}

/// A position of the database. One that is not understood is no position: nothing may be decided by it.
fn position(text: &str) -> Result<Position, SqlError> {
    gtid::list(text).map(|list| gtid::position(&list)).ok_or(SqlError::Lost)
}

/// What was written before the oldest binary log begins, so that it can no longer be sent. It is read from the files: the database
/// answers `SHOW BINARY LOGS` only after waiting commits.
pub fn purged(data: &Path) -> Position {
    let read = || {
        let index = std::fs::read_to_string(data.join("binlog.index")).ok()?;
        let first = Path::new(index.lines().next()?).file_name()?.to_owned();
        let mut head = Vec::new();
        File::open(data.join(first)).ok()?.take(HEAD as u64).read_to_end(&mut head).ok()?;
        gtid::before_log(&head)
    };
    read().map_or_else(Position::none, |list| gtid::position(&list))
}

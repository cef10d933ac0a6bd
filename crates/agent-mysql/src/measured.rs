//! The database's report about itself. None of these queries hangs while commits wait for acknowledgements, as `SHOW
//! MASTER STATUS` and `SHOW BINARY LOGS` do.

use std::path::Path;
use std::time::Duration;

use super::accounts::member;
use super::events::before_file;
use super::flavor::Flavor;
use super::gtid;
use super::sets;
use super::sql::{Sql, SqlError};
use tillerman_agent::position::Position;

/// `ER_GTID_STRICT_OUT_OF_ORDER`: a write does not fit after the present ones.
const OUT_OF_ORDER: u64 = 1950;

/// The answers of the database.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts")]
pub struct Measured {
    /// The writes that it has applied.
    pub has: Position,
    /// The writes that it will have after it has applied everything that it received.
    pub got: Position,
    /// The writes that it can no longer send, if it reports this.
    pub purged: Position,
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

    /// The problem, by the numbers of the errors. Their texts contain values of the data.
    pub fn problem(&self) -> Option<String> {
        match (self.apply_error, self.receive_error) {
            (0, 0) => None,
            (0, error) => Some(format!("it does not receive: error {error} of the database")),
            (error, _) => Some(format!("it does not apply the writes that it receives: error {error} of the database")),
        }
    }
}

/// Asks the database.
pub async fn measure(sql: &mut Sql, within: Duration) -> Result<Measured, SqlError> {
    let flavor = sql.flavor;
    let (mut measured, owned) = variables(sql, within).await?;
    let (source, replica) = (flavor.source(), flavor.replica());
    if let Some(status) = sql.rows(&format!("SHOW {replica} STATUS"), within).await?.first() {
        let receiver = status.text(&format!("{replica}_IO_Running"));
        measured.follows = !status.text(&format!("{source}_Host")).is_empty();
        measured.receiver_on = receiver != "No";
        measured.receiving = receiver == "Yes";
        measured.applying = status.text(&format!("{replica}_SQL_Running")) == "Yes";
        measured.lag = status.text(&format!("Seconds_Behind_{source}")).parse().ok();
        measured.apply_error = status.number("Last_SQL_Errno").unwrap_or_default();
        measured.receive_error = status.number("Last_IO_Errno").unwrap_or_default();
        let more = match flavor {
            // Empty after a start: earlier received writes are discarded when both threads start.
            Flavor::Mariadb => position(&status.text("Gtid_IO_Pos"))?,
            Flavor::Mysql => sets::set(&status.text("Retrieved_Gtid_Set")).ok_or(SqlError::Lost)?,
        };
        measured.got = measured.got.with(&more);
    }
    if !measured.follows {
        // Of a primary: commits that wait are in its log, and replicas may have applied them. A replica owns what it applies, also if it has
        // received a part of it only.
        measured.has = measured.has.with(&owned);
        measured.got = measured.has.clone();
    }
    let (clients, waiting) =
        (format!("rpl_semi_sync_{source}_clients"), format!("rpl_semi_sync_{source}_wait_sessions"));
    let status = format!("SHOW GLOBAL STATUS WHERE Variable_name IN ('{clients}', '{waiting}')");
    for row in sql.rows(&status, within).await? {
        let value = row.number("Value").unwrap_or_default();
        if row.text("Variable_name").eq_ignore_ascii_case(&clients) {
            measured.clients = value;
        } else {
            measured.waiting = u32::try_from(value).unwrap_or(u32::MAX);
        }
    }
    let dumps = "SELECT USER AS user FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'";
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

/// Its position and its version, and the writes that it is committing.
async fn variables(sql: &mut Sql, within: Duration) -> Result<(Measured, Position), SqlError> {
    let own = match sql.flavor {
        Flavor::Mariadb => "@@GLOBAL.gtid_binlog_state AS state",
        // A write that is committed between the two is in one of them, in this order.
        Flavor::Mysql => {
            "@@GLOBAL.gtid_owned AS owned, @@GLOBAL.gtid_executed AS state, @@GLOBAL.gtid_purged AS purged"
        }
    };
    let variables = format!("SELECT {own}, @@GLOBAL.read_only AS read_only, @@version AS version");
    let rows = sql.rows(&variables, within).await?;
    let own = rows.first().ok_or(SqlError::Lost)?;
    let mut measured = Measured {
        read_only: own.text("read_only") != "0",
        version: own.text("version").split('-').next().unwrap_or_default().to_owned(),
        ..Measured::default()
    };
    let mut owned = Position::none();
    match sql.flavor {
        Flavor::Mariadb => measured.has = position(&own.text("state"))?,
        Flavor::Mysql => {
            owned = sets::owned(&own.text("owned")).ok_or(SqlError::Lost)?;
            measured.has = sets::set(&own.text("state")).ok_or(SqlError::Lost)?;
            measured.purged = sets::set(&own.text("purged")).ok_or(SqlError::Lost)?;
        }
    }
    measured.got = measured.has.clone();
    Ok((measured, owned))
}

/// A position of the database. One that is not understood is not a position, and must not decide anything.
fn position(text: &str) -> Result<Position, SqlError> {
    gtid::list(text).map(|list| gtid::position(&list)).ok_or(SqlError::Lost)
}

/// The writes before the oldest binary log, which can no longer be sent. It is read from the files: the database
/// answers `SHOW BINARY LOGS` only after waiting commits.
pub fn purged(data: &Path) -> Position {
    let read = || {
        let index = std::fs::read_to_string(data.join("binlog.index")).ok()?;
        let first = Path::new(index.lines().next()?).file_name()?.to_owned();
        Some(before_file(&data.join(first)))
    };
    read().unwrap_or_default()
}

//! A moment of a source: the writes until then, and a snapshot that has exactly these.

use super::record::quoted;
use super::stream::{Mark, Writes};
use super::{ANSWER, DRAINS, of_source};
use crate::flavor::Flavor;
use crate::sql::{Sql, SqlError};

/// A session needs this level before it begins a snapshot: the settings of the server can have another.
pub const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";

/// The writes of the source until now. The error is a sentence.
pub async fn written(from: &mut Sql) -> Result<Writes, String> {
    if from.flavor == Flavor::Mysql {
        return Ok(status(from).await?.1);
    }
    let rows = from.rows("SELECT @@GLOBAL.gtid_binlog_pos AS position", ANSWER).await.map_err(of_source)?;
    rows.first()
        .and_then(|row| Writes::domains(&row.text("position")))
        .ok_or_else(|| "the source does not report a position".to_owned())
}

/// Begins a snapshot, and returns its position in the binary log, and its writes. The error is a sentence.
pub async fn snapshot(sql: &mut Sql) -> Result<(Mark, Writes), String> {
    sql.run(ISOLATION, ANSWER).await.map_err(of_source)?;
    match sql.flavor {
        Flavor::Mariadb => {
            sql.run("START TRANSACTION WITH CONSISTENT SNAPSHOT", ANSWER).await.map_err(of_source)?;
            let status = sql.rows("SHOW STATUS LIKE 'binlog_snapshot_%'", ANSWER).await.map_err(of_source)?;
            let of = |name: &str| {
                let row = status.iter().find(|row| row.text("Variable_name").eq_ignore_ascii_case(name));
                row.map(|row| row.text("Value")).unwrap_or_default()
            };
            let (file, position) = (of("binlog_snapshot_file"), of("binlog_snapshot_position"));
            let position = position.parse().map_err(|_| "the source does not report the position of a snapshot")?;
            let writes = until(sql, &file, position).await?;
            Ok((Mark { file, position, ..Mark::default() }, writes))
        }
        Flavor::Mysql => {
            // While the lock is held, no commit is between the binary log and the tables. A source that has lost this session gives the lock up.
            sql.run("SET SESSION lock_wait_timeout = 2, wait_timeout = 10", ANSWER).await.map_err(of_source)?;
            sql.run("FLUSH TABLES WITH READ LOCK", ANSWER).await.map_err(|error| match error {
                // `ER_LOCK_WAIT_TIMEOUT`
                SqlError::Server(1205) => {
                    "a statement at the source runs for longer than 2 s, and the snapshot has to wait for its end"
                        .to_owned()
                }
                error => of_source(error),
            })?;
            sql.run("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", ANSWER).await.map_err(of_source)?;
            let status = status(sql).await?;
            for statement in ["UNLOCK TABLES", "SET SESSION lock_wait_timeout = 3600, wait_timeout = 28800"] {
                sql.run(statement, ANSWER).await.map_err(of_source)?;
            }
            Ok(status)
        }
    }
}

/// The writes of MariaDB up to a position of its binary log. The error is a sentence.
pub async fn until(sql: &mut Sql, file: &str, position: u64) -> Result<Writes, String> {
    let query = format!("SELECT BINLOG_GTID_POS('{}', {position}) AS position", quoted(file));
    let rows = sql.rows(&query, DRAINS).await.map_err(of_source)?;
    rows.first()
        .and_then(|row| Writes::domains(&row.text("position")))
        .ok_or_else(|| "the source does not know its position".to_owned())
}

/// The end of the binary log of MySQL.
async fn status(sql: &mut Sql) -> Result<(Mark, Writes), String> {
    let rows = match sql.rows("SHOW BINARY LOG STATUS", ANSWER).await {
        // `ER_PARSE_ERROR`: before 8.2
        Err(SqlError::Server(1064)) => sql.rows("SHOW MASTER STATUS", ANSWER).await,
        rows => rows,
    };
    let rows = rows.map_err(of_source)?;
    let (file, position) = rows.first().map(|row| (row.text("File"), row.number("Position"))).unwrap_or_default();
    let position = position.ok_or("the source writes no binary log")?;
    let writes = Writes::log(&file, position).ok_or("the name of the source's binary log has no number")?;
    Ok((Mark { file, position, ..Mark::default() }, writes))
}

//! Logs of MySQL that are applied without another program: the database takes them for the relay logs of a replica.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::logs::shown;
use super::restore::{STEP, written};
use super::sql::{Sql, SqlError};
use tillerman_agent::position::Position;

/// The logs of a restore, as relay logs in the folder of the data.
#[derive(Debug, Default)]
pub struct Relay {
    /// How many logs there are.
    logs: usize,
}

impl Relay {
    fn name(number: usize) -> String {
        format!("relay.{number:06}")
    }

    /// The path of the next log, which [`add`](Self::add) takes.
    pub fn next(&self, data: &Path) -> PathBuf {
        data.join(Self::name(self.logs + 1))
    }

    /// Takes the log that was written to the next path.
    pub fn add(&mut self) {
        self.logs += 1;
    }

    /// Applies all logs. The database has the position `has` then.
    pub async fn apply(&self, sql: &mut Sql, data: &Path, has: &Position) -> Result<(), String> {
        if self.logs == 0 {
            return Ok(());
        }
        let index = data.join("relay.index");
        let names = (1..=self.logs).map(|number| format!("./{}\n", Self::name(number)));
        std::fs::write(&index, names.collect::<String>()).map_err(|error| format!("{}: {error}", index.display()))?;
        let said = |error: SqlError| format!("the logs are not applied: {error}");
        // The source is never connected to.
        let source = format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'archive', SOURCE_AUTO_POSITION = 0, RELAY_LOG_FILE = '{}', RELAY_LOG_POS = 4",
            Self::name(1)
        );
        for statement in [source.as_str(), "START REPLICA SQL_THREAD"] {
            sql.run(statement, STEP).await.map_err(said)?;
        }
        let mut moved = (Instant::now(), 0);
        loop {
            // Returns at once if all of them are applied, and after a second otherwise.
            sql.rows(&format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{has}', 1) AS late"), STEP).await.map_err(said)?;
            let now = written(sql).await?;
            if now == *has {
                break;
            }
            let rows = sql.rows("SHOW REPLICA STATUS", STEP).await.map_err(said)?;
            let state = rows.first().ok_or("the database has no applier")?;
            if state.text("Replica_SQL_Running") != "Yes" || now.contains(has) {
                let error = state.text("Last_SQL_Errno");
                return Err(format!(
                    "the writes of the logs cannot be applied: error {error} after {}, and they lead to {}",
                    shown(&now),
                    shown(has)
                ));
            }
            if now.count() > moved.1 {
                moved = (Instant::now(), now.count());
            } else if moved.0.elapsed() > STEP {
                return Err(format!("the database applies nothing after {}", shown(&now)));
            }
        }
        for statement in ["STOP REPLICA", "RESET REPLICA ALL"] {
            sql.run(statement, STEP).await.map_err(said)?;
        }
        Ok(())
    }
}

//! Events of clients: they run at the primary that takes writes, and nowhere else. MariaDB starts without a scheduler, and it is started here.
//!
//! A replica stores each event as one that does not run on replicas, whether its owner has disabled it or not. So the primary keeps a table of
//! those that are disabled, which is in the binary log, and the next primary enables all others that came from a primary before.

use std::sync::Arc;
use std::time::Duration;

use super::declare::open_primary;
use super::flavor::Flavor;
use super::keeper::SHORT;
use super::member::DatabaseMember;
use super::process::Process;
use super::settings::EVENTS;
use super::sql::{RowFields, Sql, SqlError};

/// How often it is looked which events are disabled.
const LOOK: Duration = Duration::from_secs(1);

const IS_THERE: &str =
    "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'tillerman' AND TABLE_NAME = 'event'";
/// Events that a primary before had enabled. The time of an event that runs once has not come: an event whose time is
/// over may have run on another member.
const ENABLED_BEFORE: &str = "SELECT e.db, e.name, e.definer FROM mysql.event e LEFT JOIN tillerman.event d ON d.db = e.db AND d.name = e.name \
     WHERE e.status = 'SLAVESIDE_DISABLED' AND d.db IS NULL AND (e.execute_at IS NULL OR e.execute_at > UTC_TIMESTAMP())";
/// At a primary that takes writes, whatever is not enabled is disabled.
const NEWLY_DISABLED: &str = "SELECT e.db, e.name FROM mysql.event e LEFT JOIN tillerman.event d ON d.db = e.db AND d.name = e.name \
     WHERE e.status <> 'ENABLED' AND d.db IS NULL";
const NO_LONGER_DISABLED: &str = "SELECT d.db, d.name FROM tillerman.event d LEFT JOIN mysql.event e ON d.db = e.db AND d.name = e.name \
     WHERE e.db IS NULL OR e.status = 'ENABLED'";

/// Lets events run while this is a primary that takes writes.
pub async fn keep_scheduled(member: Arc<DatabaseMember>) {
    // That of MySQL stays off.
    if member.flags.flavor != Flavor::Mariadb {
        return;
    }
    loop {
        let process = member.wait_until(open_primary).await;
        if let Err(error) = schedule(&member, &process).await {
            tracing::debug!(%error, "it is not known which events run");
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Starts the scheduler, and notes disabled events, until this member is no longer the primary.
async fn schedule(member: &DatabaseMember, process: &Arc<Process>) -> Result<(), SqlError> {
    let mut sql = process.login.connect(SHORT).await?;
    sql.run("SET SESSION lock_wait_timeout = 5", SHORT).await?;
    loop {
        // The code that ends this role waits for it, and nothing is started after that.
        let guard = member.declares.lock().await;
        if !member.facts(open_primary).is_some_and(|now| Arc::ptr_eq(&now, process)) {
            return Ok(());
        }
        bring(member, &mut sql).await?;
        drop(guard);
        tokio::time::sleep(LOOK).await;
    }
}

/// The scheduler runs, and the table has what is disabled.
async fn bring(member: &DatabaseMember, sql: &mut Sql) -> Result<(), SqlError> {
    if !member.facts(|facts| facts.schedules) {
        if sql.rows(IS_THERE, SHORT).await?.is_empty() {
            // An earlier version has made the data. Of events of other members it is not known what their owners want: they count as disabled.
            sql.run(EVENTS, Duration::MAX).await?;
        } else {
            enable(sql).await?;
        }
        sql.run("SET GLOBAL event_scheduler = ON", SHORT).await?;
        member.change(|facts| facts.schedules = true);
    }
    for (query, statement) in [
        (NEWLY_DISABLED, "INSERT IGNORE INTO tillerman.event VALUES ({})"),
        (NO_LONGER_DISABLED, "DELETE FROM tillerman.event WHERE (db, name) = ({})"),
    ] {
        for event in sql.rows(query, SHORT).await? {
            let key = format!("{}, {}", text(&event.text("db")), text(&event.text("name")));
            sql.run(&statement.replace("{}", &key), Duration::MAX).await?;
        }
    }
    Ok(())
}

/// Enables what a primary before had enabled. It is not in the binary log: replicas keep what they have.
async fn enable(sql: &mut Sql) -> Result<(), SqlError> {
    let events = sql.rows(ENABLED_BEFORE, SHORT).await?;
    sql.run("SET SESSION sql_log_bin = 0", SHORT).await?;
    for event in &events {
        match sql.run(&enables(event), SHORT).await {
            Err(SqlError::Server(error)) => tracing::warn!(error, "an event cannot be enabled"),
            other => other?,
        }
    }
    sql.run("SET SESSION sql_log_bin = 1", SHORT).await
}

/// Without its definer, an event would get a different definer.
fn enables(event: &RowFields) -> String {
    let definer = event.text("definer");
    let (user, host) = definer.rsplit_once('@').unwrap_or((&definer, "%"));
    let name = |name: &str| format!("`{}`", event.text(name).replace('`', "``"));
    format!("ALTER DEFINER = {}@{} EVENT {}.{} ENABLE", text(user), text(host), name("db"), name("name"))
}

/// A text in a statement.
fn text(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Stops the scheduler, before a primary hands over.
pub async fn stop(member: &DatabaseMember, sql: &mut Sql) -> Result<(), SqlError> {
    if member.facts(|facts| facts.schedules) {
        member.change(|facts| facts.schedules = false);
        sql.run("SET GLOBAL event_scheduler = OFF", SHORT).await?;
    }
    Ok(())
}

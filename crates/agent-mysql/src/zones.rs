//! The tables of time zones, without which MariaDB knows no zone by its name and does not start with one as its own. A new database is made
//! with them. Those of an earlier version of the agent get them as soon as they run; that is in no binary log, and each member does it for
//! itself.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use super::flavor::Flavor;
use super::keeper::SHORT;
use super::member::DatabaseMember;
use super::process::Process;
use super::sql::SqlError;

/// The most that the program may print, in bytes. The zones of a system are 5 MB.
const LIMIT: u64 = 64 << 20;
/// How long a statement may take. The last ones order whole tables.
const STATEMENT: Duration = Duration::from_secs(120);

/// The statements that fill the tables, for the database `mysql`. `None` where the image has no zones, or not the program for them.
pub async fn statements(member: &DatabaseMember) -> Option<String> {
    let flags = &member.flags;
    if flags.flavor != Flavor::Mariadb || !flags.zoneinfo.is_dir() {
        return None;
    }
    let mut command = Command::new(&flags.tzinfo);
    command.args(["--no-defaults", "--skip-write-binlog"]).arg(&flags.zoneinfo);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            tracing::warn!(%error, "named time zones are not available: {} cannot be started", flags.tzinfo.display());
            return None;
        }
    };
    let mut text = String::new();
    let read = child.stdout.take()?.take(LIMIT).read_to_string(&mut text).await;
    let succeeded = child.wait().await.is_ok_and(|status| status.success());
    (read.is_ok() && succeeded && text.contains("INSERT INTO time_zone_name")).then_some(text)
}

/// Fills the tables of a database that has none, whenever one runs.
pub async fn keep_zones(member: Arc<DatabaseMember>) {
    if member.flags.flavor != Flavor::Mariadb {
        return;
    }
    loop {
        let process = member.wait_until(|facts| facts.running.clone()).await;
        if let Err(error) = fill(&member, &process).await {
            tracing::warn!(%error, "the time zones cannot be stored, and are stored after the next start");
        }
        let is_over = |of: &Arc<Process>| !Arc::ptr_eq(of, &process);
        member.wait_until(|facts| facts.running.as_ref().is_none_or(is_over).then_some(())).await;
    }
}

async fn fill(member: &DatabaseMember, process: &Process) -> Result<(), SqlError> {
    let mut sql = process.login.connect(SHORT).await?;
    sql.run("SET SESSION sql_log_bin = 0", SHORT).await?;
    if !sql.rows("SELECT 1 FROM mysql.time_zone_name LIMIT 1", SHORT).await?.is_empty() {
        return Ok(());
    }
    let Some(text) = statements(member).await else { return Ok(()) };
    sql.run("USE mysql", SHORT).await?;
    for statement in text.split(";\n").map(str::trim).filter(|statement| !statement.is_empty()) {
        sql.run(statement, STATEMENT).await?;
    }
    tracing::info!("the time zones are stored");
    Ok(())
}

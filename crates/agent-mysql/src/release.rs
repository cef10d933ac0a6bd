//! Commits that wait for acknowledgements which do not come, although members that acknowledge are connected.
//!
//! MariaDB counts an acknowledgement when it comes for a write that it has sent. A replica that connects says which writes it has, and
//! these are not sent again, so that nobody acknowledges them: those that it received while it did not acknowledge, and those whose
//! acknowledgement was lost with a connection. A later commit would be acknowledged with all before it, but only two groups of commits
//! can wait; no third one comes into the log behind them.
//!
//! So one more commit is made. If that does not help, the dump threads that have sent everything are ended, and the replicas connect
//! again. If one of them is then sent nothing that has to be acknowledged, it has everything that is in the log: it said so. This is
//! what an acknowledgement says, and the waiting commits may end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::accounts::member as member_of;
use super::facts::AgentFacts;
use super::flavor::Flavor;
use super::keeper::SHORT;
use super::member::{DatabaseMember, NUDGES};
use super::sql::{Sql, SqlError};
use tillerman_agent::contract::Role;

/// How often it is looked whether commits wait.
const LOOK: Duration = Duration::from_millis(500);
/// After this time another commit is made.
const NUDGE: Duration = Duration::from_secs(1);
/// After this time replicas connect again.
const RECONNECT: Duration = Duration::from_secs(3);
/// The state of a commit that waits.
const WAITS: &str = "Waiting for semi-sync ACK";
/// The state of a dump thread that has sent everything.
const SENT: [&str; 2] = ["Master has sent all binlog", "Source has sent all binlog"];

/// The observed state of commits that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// The statements that wait. They are in the log as `log` has it.
    waiting: BTreeSet<u64>,
    /// The dump threads of members that acknowledge, and whether each has sent everything.
    dumps: Vec<(u64, bool)>,
    /// How many acknowledgements were required.
    asked: u64,
    /// The state of the binary log, read last.
    log: String,
}

/// The state when they began to wait, or when the replicas were last made to reconnect.
#[derive(Clone, Debug)]
struct Before {
    seen: Seen,
    since: Instant,
    nudged: bool,
}

/// The action.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    Nudge,
    Reconnect(Vec<u64>),
    Release(BTreeSet<u64>),
}

/// Decides, and changes what is remembered.
fn decide(before: &mut Option<Before>, seen: &Seen, now: Instant) -> Step {
    if seen.waiting.is_empty() {
        *before = None;
        return Step::Nothing;
    }
    let Some(known) = before.as_mut().filter(|known| known.seen.log == seen.log) else {
        *before = Some(Before { seen: seen.clone(), since: now, nudged: false });
        return Step::Nothing;
    };
    let is_new = |id: u64| !known.seen.dumps.iter().any(|(other, _)| *other == id);
    let has_all = seen.dumps.iter().any(|(id, sent)| *sent && is_new(*id));
    if has_all && seen.asked == known.seen.asked {
        return Step::Release(seen.waiting.clone());
    }
    let age = now.saturating_duration_since(known.since);
    if age >= RECONNECT {
        let idle: Vec<u64> = seen.dumps.iter().filter(|(_, sent)| *sent).map(|(id, _)| *id).collect();
        *before = Some(Before { seen: seen.clone(), since: now, nudged: true });
        return if idle.is_empty() { Step::Nothing } else { Step::Reconnect(idle) };
    }
    if age >= NUDGE && !known.nudged && !seen.dumps.is_empty() {
        known.nudged = true;
        return Step::Nudge;
    }
    Step::Nothing
}

/// Looks after commits that wait, as long as the agent runs.
pub async fn keep_acknowledged(member: Arc<DatabaseMember>) {
    let mut before = None;
    loop {
        let waits = |facts: &AgentFacts| {
            let is_asked = facts.role == Role::Primary && facts.waits_for > 0;
            facts.running.clone().filter(|_| is_asked)
        };
        let process = member.wait_until(waits).await;
        let Ok(mut sql) = process.login.connect(SHORT).await else {
            tokio::time::sleep(LOOK).await;
            continue;
        };
        while member.facts(|facts| waits(facts).is_some_and(|now| Arc::ptr_eq(&now, &process))) && sql.is_open() {
            tokio::time::sleep(LOOK).await;
            if let Err(error) = step(&member, &mut sql, &mut before).await {
                tracing::debug!(%error, "it is not known which commits wait");
            }
        }
        before = None;
    }
}

async fn step(member: &Arc<DatabaseMember>, sql: &mut Sql, before: &mut Option<Before>) -> Result<(), SqlError> {
    let seen = look(sql).await?;
    let step = decide(before, &seen, Instant::now());
    match step {
        Step::Nothing => {}
        Step::Nudge => nudge(member),
        // More commits come into its log behind those that wait. So the agent makes further commits, until one is sent
        // to a member that acknowledges.
        Step::Reconnect(_) | Step::Release(_) if sql.flavor == Flavor::Mysql => *before = None,
        Step::Reconnect(dumps) => {
            tracing::warn!("commits wait for an acknowledgement of writes that were sent: replicas reconnect");
            for dump in dumps {
                gone(sql.run(&format!("KILL CONNECTION {dump}"), SHORT).await)?;
            }
        }
        Step::Release(statements) => {
            tracing::warn!(
                commits = statements.len(),
                "a replica has the writes that commits wait for: the waiting ends"
            );
            for statement in statements {
                gone(sql.run(&format!("KILL QUERY ID {statement}"), SHORT).await)?;
            }
        }
    }
    Ok(())
}

/// A statement that has ended by itself needs no end.
fn gone(done: Result<(), SqlError>) -> Result<(), SqlError> {
    if matches!(done, Err(SqlError::Server(_))) { Ok(()) } else { done }
}

async fn look(sql: &mut Sql) -> Result<Seen, SqlError> {
    let (statement, asked, log) = match sql.flavor {
        Flavor::Mariadb => ("QUERY_ID", "Rpl_semi_sync_master_request_ack", "@@GLOBAL.gtid_binlog_state"),
        // There, nothing ends by its number, or by the number of required acknowledgements.
        Flavor::Mysql => ("ID", "Uptime", "CONCAT(@@GLOBAL.gtid_owned, @@GLOBAL.gtid_executed)"),
    };
    let query = format!(
        "SELECT ID AS id, {statement} AS query, USER AS user, COMMAND AS command, STATE AS state FROM information_schema.PROCESSLIST \
         WHERE STATE LIKE '{WAITS}%' OR COMMAND LIKE 'Binlog Dump%'"
    );
    let mut seen = Seen::default();
    for row in sql.rows(&query, SHORT).await? {
        let (state, account) = (row.text("state"), row.text("user"));
        let acknowledges = member_of(&account).is_some_and(|(_, acknowledges)| acknowledges);
        match (row.number("id"), row.number("query")) {
            (_, Some(statement)) if state.starts_with(WAITS) => {
                seen.waiting.insert(statement);
            }
            (Some(id), _) if row.text("command").starts_with("Binlog Dump") && acknowledges => {
                seen.dumps.push((id, SENT.iter().any(|sent| state.starts_with(sent))));
            }
            _ => {}
        }
    }
    let asked = sql.rows(&format!("SHOW GLOBAL STATUS LIKE '{asked}'"), SHORT).await?;
    seen.asked = asked.first().and_then(|row| row.number("Value")).ok_or(SqlError::Lost)?;
    // Last: what waits then is in a log that has not changed since.
    let log = sql.rows(&format!("SELECT {log} AS log"), SHORT).await?;
    seen.log = log.first().map(|row| row.text("log")).ok_or(SqlError::Lost)?;
    Ok(seen)
}

/// Makes one more commit, of a row that no marker waits for. MariaDB takes one at a time.
fn nudge(member: &Arc<DatabaseMember>) {
    let member = Arc::clone(member);
    tokio::spawn(async move {
        let flavor = member.flags.flavor;
        let permits = if flavor == Flavor::Mysql { 1 } else { NUDGES };
        let Ok(_guard) = member.nudges.try_acquire_many(permits) else { return };
        let row = match flavor {
            Flavor::Mariadb => 2,
            // One that waits for its acknowledgement holds its row.
            Flavor::Mysql => 2 + NUDGES as usize - member.nudges.available_permits(),
        };
        let running = member.facts(|facts| facts.running.clone().filter(|_| facts.role == Role::Primary));
        let Some(process) = running else { return };
        let done = async {
            let mut sql = process.login.connect(SHORT).await?;
            sql.run(&commit(row), Duration::MAX).await
        };
        tokio::select! {
            done = done => if let Err(error) = done { tracing::debug!(%error, "no commit is made") },
            () = process.ended() => {}
        }
    });
}

/// The statement that changes a row of the marker, which may not be there.
fn commit(row: usize) -> String {
    format!("INSERT INTO tillerman.marker VALUES ({row}, 1) ON DUPLICATE KEY UPDATE number = number + 1")
}

#[cfg(test)]
mod tests {
    use super::{NUDGE, RECONNECT, Seen, Step, decide};
    use std::time::{Duration, Instant};

    fn seen(waiting: &[u64], dumps: &[(u64, bool)], asked: u64, log: &str) -> Seen {
        Seen { waiting: waiting.iter().copied().collect(), dumps: dumps.to_vec(), asked, log: log.into() }
    }

    #[test]
    fn commits_end_only_if_a_replica_that_connected_later_has_all() {
        let since = Instant::now();
        let release = Step::Release([7, 8].into());
        for (dumps, asked, log, expected) in [
            (&[(2, true)][..], 5, "0-1-9", release.clone()),
            (&[(2, true), (1, true)], 5, "0-1-9", release),
            // It existed before: the writes that it was sent may not have arrived.
            (&[(1, true)], 5, "0-1-9", Step::Nothing),
            // It has not been sent everything yet.
            (&[(2, false)], 5, "0-1-9", Step::Nothing),
            // Something was sent that it has to acknowledge.
            (&[(2, true)], 6, "0-1-9", Step::Nothing),
            // There are more writes.
            (&[(2, true)], 5, "0-1-10", Step::Nothing),
            (&[], 5, "0-1-9", Step::Nothing),
        ] {
            let mut before = None;
            assert_eq!(decide(&mut before, &seen(&[7], &[(1, true)], 5, "0-1-9"), since), Step::Nothing);
            assert_eq!(
                decide(&mut before, &seen(&[7, 8], dumps, asked, log), since),
                expected,
                "{dumps:?} {asked} {log}"
            );
        }
    }

    #[test]
    fn another_commit_comes_first_and_then_replicas_connect_again() {
        let (since, still) = (Instant::now(), seen(&[7], &[(1, true), (2, false)], 5, "0-1-9"));
        let mut before = None;
        let mut at = |after: Duration, seen: &Seen| decide(&mut before, seen, since + after);
        assert_eq!(at(Duration::ZERO, &still), Step::Nothing);
        assert_eq!(at(NUDGE, &still), Step::Nudge);
        assert_eq!(at(NUDGE * 2, &still), Step::Nothing);
        assert_eq!(at(RECONNECT, &still), Step::Reconnect(vec![1]));
        // The one that was killed is back, and had everything.
        assert_eq!(at(RECONNECT, &seen(&[7], &[(3, true)], 5, "0-1-9")), Step::Release([7].into()));
        assert_eq!(at(RECONNECT, &seen(&[], &[], 5, "0-1-9")), Step::Nothing);
    }
}

//! A database that hangs: it runs, and answers nobody. Only a restart helps it, so after a while the agent ends it, as
//! by a crash, and it starts again with all data that it has on the disk.
//!
//! The agent sends a trivial request, on a new connection each time, because clients need one. Each answer counts, also
//! an error: neither long statements, locks and copies nor too many connections prevent it. While it starts, recovers
//! or is upgraded it need not answer; it hangs then if its process does nothing at all.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::facts::{AgentFacts, Hung};
use super::flavor::Flavor;
use super::member::DatabaseMember;
use super::process::Process;
use super::roles::state_of;
use super::sql::{Login, SqlError};
use tillerman_agent::contract::{Restarted, Role};

/// How often a database is asked that answers.
const LOOK: Duration = Duration::from_secs(2);
/// How long it has for its answer.
const ANSWER: Duration = Duration::from_secs(2);
/// How often one is asked that does not answer.
const AGAIN: Duration = Duration::from_millis(500);
/// The longest time that a database may hang before it is ended again.
const LONGEST: Duration = Duration::from_secs(3600);

/// How long a database may hang. A start that did not help may not help the next time either, so it has twice as long after each.
fn patience(after: Duration, ends: u32) -> Duration {
    after.saturating_mul(2_u32.saturating_pow(ends)).min(LONGEST.max(after))
}

/// The action on a database that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// It may still answer.
    Wait,
    /// It stays as it is, and this says why.
    Stay(String),
    /// It is ended.
    End,
}

fn decide(silent: Duration, patience: Duration, hindrance: Option<String>) -> Step {
    match hindrance {
        Some(why) => Step::Stay(why),
        None if patience.is_zero() => Step::Stay("--hung-after is 0".to_owned()),
        None if silent >= patience => Step::End,
        None => Step::Wait,
    }
}

/// Why the end of a database that hangs would help nobody, or could do harm. `full` says that its volume is.
fn hindrance(facts: &AgentFacts, full: Option<String>) -> Option<String> {
    match full {
        _ if facts.stopping => Some("the agent ends".to_owned()),
        _ if facts.seeding.is_some() => Some("its data is replaced by a copy".to_owned()),
        Some(full) => Some(format!("{full}, and a start does not change that")),
        None => None,
    }
}

/// Whether the database may have received acknowledged writes that it loses by a start, and that its source may have
/// lost. Writes that MariaDB has received and not applied are gone after a start.
fn may_be_the_only_one(facts: &AgentFacts, flavor: Flavor) -> bool {
    let acknowledges = match facts.role {
        Role::Replica => facts.source.as_ref().is_some_and(|source| source.acknowledge),
        Role::Fenced => true,
        Role::Primary | Role::Waiting => false,
    };
    flavor == Flavor::Mariadb && facts.obeyed.promoted.is_none() && acknowledges
}

/// Whether the source of a replica is well: it has everything that it ever sent.
async fn has_source(member: &DatabaseMember) -> bool {
    let (source, data) =
        member.facts(|facts| (facts.source.clone(), facts.identity.as_ref().map(|own| own.data.clone())));
    let Some(source) = source else { return false };
    let Ok(state) = state_of(member, &source.host).await else { return false };
    state.role == Role::Primary && !state.hangs && state.data == data && state.epoch >= source.epoch
}

/// Ends the database whenever it hangs, as long as the agent runs.
pub async fn keep_answering(member: Arc<DatabaseMember>) {
    loop {
        let process = member.wait_until(|facts| facts.running.clone()).await;
        tokio::select! {
            () = watch(&member, &process) => {}
            () = process.ended() => {}
        }
        member.wait_until(|facts| has_gone(facts, &process)).await;
        // It may have been noted in the moment in which it ended.
        if member.facts(|facts| facts.hung.is_some()) {
            member.change(|facts| facts.hung = None);
        }
    }
}

/// Asks a database until it hangs for too long, and ends it.
async fn watch(member: &DatabaseMember, process: &Process) {
    let mut well = Instant::now();
    let mut since = None;
    loop {
        let asked = Instant::now();
        if answers(&process.login).await {
            if since.take().is_some() {
                well = asked;
                tracing::warn!("the database answers again");
                member.change(|facts| facts.hung = None);
            }
            let ends = member.facts(|facts| facts.ends);
            if ends > 0 && well.elapsed() >= patience(member.flags.hung_after, ends) {
                member.change(|facts| facts.ends = 0);
            }
            tokio::time::sleep(LOOK).await;
            continue;
        }
        let since = *since.get_or_insert(asked);
        if look(member, since).await {
            end(member, process, &format!("it did not answer for {} seconds", since.elapsed().as_secs())).await;
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Notes that a database does not answer, and what becomes of it. Returns whether it has to be ended.
async fn look(member: &DatabaseMember, since: Instant) -> bool {
    let (why, ends) = member.facts(|facts| (hindrance(facts, member.lacks_room()), facts.ends));
    let patience = patience(member.flags.hung_after, ends);
    let mut step = decide(since.elapsed(), patience, why);
    let alone = member.facts(|facts| may_be_the_only_one(facts, member.flags.flavor));
    if step == Step::End && alone && !has_source(member).await {
        let why = "its source is not well, and the writes received from it may be nowhere else: a start would drop \
                   those that are not applied";
        step = Step::Stay(why.to_owned());
    }
    let hung = match &step {
        Step::Stay(why) => Hung { since, ends: Err(why.clone()) },
        Step::Wait | Step::End => Hung { since, ends: Ok(since + patience) },
    };
    if member.facts(|facts| facts.hung.as_ref() != Some(&hung)) {
        if let Err(why) = &hung.ends {
            tracing::warn!(why, "the database does not answer, and is not started again");
        } else {
            tracing::warn!(
                seconds = patience.as_secs(),
                "the database does not answer: this is the time it has before the agent ends it"
            );
        }
        member.change(|facts| facts.hung = Some(hung));
    }
    step == Step::End
}

/// Ends a database that hangs. It is started again as after a crash.
async fn end(member: &DatabaseMember, process: &Process, why: &str) {
    tracing::error!(why, "the database hangs: it is ended");
    note(member, why);
    process.kill().await;
    process.ended().await;
}

/// Remembers that a database was ended because it hung.
pub fn note(member: &DatabaseMember, why: &str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let restarted = Restarted { at: i64::try_from(now.as_secs()).unwrap_or(i64::MAX), why: why.to_owned() };
    member.change(|facts| {
        facts.restarted = Some(restarted);
        facts.ends = facts.ends.saturating_add(1);
    });
}

/// Ends a database that has hung for long before an order to follow: who gives it knows that another member has all acknowledged writes.
pub async fn end_for_order(member: &DatabaseMember) {
    let after = member.flags.hung_after;
    let hung = member.facts(|facts| Some((facts.running.clone()?, facts.hung.as_ref()?.since)));
    if let Some((process, since)) = hung
        && !after.is_zero()
        && since.elapsed() >= after
    {
        end(member, &process, &format!("it did not answer for {} seconds", since.elapsed().as_secs())).await;
        member.wait_until(|facts| has_gone(facts, &process)).await;
    }
}

/// Whether a database no longer runs, as far as the facts say.
fn has_gone(facts: &AgentFacts, process: &Arc<Process>) -> Option<()> {
    let runs = facts.running.as_ref().is_some_and(|running| Arc::ptr_eq(running, process));
    (!runs).then_some(())
}

/// Whether a database answers anything.
async fn answers(login: &Login) -> bool {
    let said = async { login.connect(ANSWER).await?.run("SELECT 1", ANSWER).await };
    matches!(tokio::time::timeout(ANSWER, said).await, Ok(Ok(()) | Err(SqlError::Server(_))))
}

/// Sees whether a process does anything.
#[derive(Debug)]
pub struct Still {
    number: Option<u32>,
    done: Option<u64>,
    since: Instant,
}

impl Still {
    /// From now on.
    pub fn of(number: Option<u32>) -> Self {
        Self { number, done: done(number), since: Instant::now() }
    }

    /// For how long it has done nothing: neither computed, nor read, nor written. Zero if that is not known.
    pub fn lasts(&mut self) -> Duration {
        let done = done(self.number);
        if done.is_none() || done != self.done {
            (self.done, self.since) = (done, Instant::now());
        }
        self.since.elapsed()
    }

    /// Waits until it has done nothing for so long; for ever if that is zero.
    pub async fn lasts_for(mut self, after: Duration) {
        while after.is_zero() || self.lasts() < after {
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// The work of a process until now, as a number that changes with it.
fn done(number: Option<u32>) -> Option<u64> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", number?)).ok();
    let stat = read("stat")?;
    // The name before it is in brackets, and may have brackets in it. The times of user and system are the 14th and 15th field.
    let times = stat.rsplit(") ").next()?.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
    let io = read("io")?;
    let io = io.lines().filter_map(|line| line.split_once(": ")?.1.parse::<u64>().ok());
    Some(times.chain(io).fold(0, u64::wrapping_add))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::{LONGEST, Step, Still, decide, hindrance, may_be_the_only_one, patience};
    use crate::facts::{AgentFacts, ReplicaSource};
    use crate::flavor::Flavor;
    use tillerman_agent::contract::Role;
    use tillerman_agent::store::Obeyed;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_database_has_longer_after_each_end_that_did_not_help() {
        for (after, ends, expected) in
            [(60, 0, 60), (60, 1, 120), (60, 3, 480), (60, 99, 3600), (7200, 5, 7200), (0, 4, 0)]
        {
            let expected = Duration::from_secs(expected);
            assert_eq!(patience(Duration::from_secs(after), ends), expected, "{after} {ends}");
        }
        assert_eq!(patience(MINUTE, u32::MAX), LONGEST);
    }

    #[test]
    fn a_database_is_ended_after_its_time_if_that_helps() {
        let full = Some("its volume is full".to_owned());
        for (silent, patience, why, expected) in [
            (59, MINUTE, None, Step::Wait),
            (60, MINUTE, None, Step::End),
            (9999, MINUTE, full, Step::Stay("its volume is full".into())),
            (9999, Duration::ZERO, None, Step::Stay("--hung-after is 0".into())),
        ] {
            assert_eq!(decide(Duration::from_secs(silent), patience, why), expected, "{silent} {patience:?}");
        }
    }

    #[test]
    fn what_hinders_is_said() {
        let full = || Some("full".to_owned());
        let seeding = AgentFacts { seeding: Some("{}".into()), ..AgentFacts::default() };
        let stopping = AgentFacts { stopping: true, ..AgentFacts::default() };
        for (facts, full, expected) in [
            (AgentFacts::default(), None, None),
            (AgentFacts::default(), full(), Some("full, and a start does not change that")),
            (seeding, None, Some("its data is replaced by a copy")),
            (stopping, full(), Some("the agent ends")),
        ] {
            assert_eq!(hindrance(&facts, full).as_deref(), expected);
        }
    }

    #[test]
    fn a_replica_that_acknowledged_may_be_the_only_one_with_a_write() {
        for (role, acknowledge, promoted, flavor, expected) in [
            (Role::Replica, true, None, Flavor::Mariadb, true),
            (Role::Replica, false, None, Flavor::Mariadb, false),
            (Role::Replica, true, None, Flavor::Mysql, false),
            (Role::Fenced, false, None, Flavor::Mariadb, true),
            // It handed over, and has written everything that it has itself.
            (Role::Fenced, false, Some(1), Flavor::Mariadb, false),
            (Role::Primary, false, Some(1), Flavor::Mariadb, false),
            (Role::Waiting, false, None, Flavor::Mariadb, false),
        ] {
            let source = (role == Role::Replica).then(|| ReplicaSource { host: "db-0".into(), acknowledge, epoch: 1 });
            let obeyed = Obeyed { promoted, ..Obeyed::default() };
            let facts = AgentFacts { obeyed, role, source, ..AgentFacts::default() };
            assert_eq!(may_be_the_only_one(&facts, flavor), expected, "{role:?} {acknowledge} {promoted:?}");
        }
    }

    #[test]
    fn a_process_that_is_stopped_differs_from_one_that_works() {
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap();
        let signal = |name: &str| Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
        let mut still = Still::of(Some(child.id()));
        let lasts = |still: &mut Still, least: Duration| {
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(10) {
                if still.lasts() >= least {
                    return true;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            false
        };
        assert!(!lasts(&mut still, Duration::from_secs(3)));
        signal("-STOP");
        assert!(lasts(&mut still, Duration::from_millis(500)));
        signal("-KILL");
        child.wait().unwrap();
        assert_eq!(Still::of(Some(child.id())).lasts().as_secs(), 0, "one that has gone is not known");
        assert_eq!(Still::of(None).lasts().as_secs(), 0);
    }
}

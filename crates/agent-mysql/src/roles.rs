//! The actions of a member by its orders: it is fenced, is the primary, follows, or hands over.
//!
//! The order of statements is measured: a replica that stops applying and starts again discards received writes; a
//! commit that is killed while it waits for an acknowledgement ends with success.

use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use tokio::sync::MutexGuard;

use super::accounts;
use super::facts::{AgentFacts, ReplicaSource, Wanted};
use super::flavor::Flavor;
use super::hung;
use super::keeper::{self, SHORT, random, secret};
use super::measured::Measured;
use super::member::{DatabaseMember, NUDGES, failed, refusal};
use super::orders::{ended, started};
use super::scheduler;
use super::sql::{Sql, SqlError};
use super::stored_password::clause;
use tillerman_agent::client::{Client, ClientError};
use tillerman_agent::contract::{Follow, MemberState, Promote, Reason, Refusal, Role};

/// How long threads of replication may take to stop. A large write is applied as a whole.
const STOP: Duration = Duration::from_secs(30);
/// How long a promotion waits until received writes are applied, before the operator has to ask again.
const APPLY: Duration = Duration::from_secs(2);
/// How long a change of the source waits for it.
const BRIEFLY: Duration = Duration::from_millis(300);
/// `ER_LOCK_WAIT_TIMEOUT`.
const LOCK_WAIT_TIMEOUT: u16 = 1205;

/// In the ID of a database that follows and does not acknowledge.
const WITHOUT_ACKNOWLEDGING: u32 = 1 << 31;

/// Gives the database its ID. One that follows passes over writes that have its own ID, unless it acknowledges (MDEV-28609): so an earlier
/// primary would lack those that it has taken back, or that a copy lacks, for ever. It has another ID meanwhile. MySQL passes over none
/// (`replicate-same-server-id`).
async fn known_as(sql: &mut Sql, id: u32) -> Result<(), SqlError> {
    if sql.flavor == Flavor::Mysql {
        return Ok(());
    }
    let now = sql.rows("SELECT @@GLOBAL.server_id AS id", SHORT).await?;
    if now.first().and_then(|row| row.number("id")) == Some(u64::from(id)) {
        return Ok(());
    }
    for scope in ["GLOBAL", "SESSION"] {
        sql.run(&format!("SET {scope} server_id = {id}"), SHORT).await?;
    }
    // They would write with the ID that they began with.
    end_sessions(sql).await
}

/// Ends the sessions of clients.
async fn end_sessions(sql: &mut Sql) -> Result<(), SqlError> {
    let sessions = format!(
        "SELECT ID AS id FROM information_schema.PROCESSLIST WHERE USER NOT IN ('{}', 'system user', 'event_scheduler') \
         AND COMMAND NOT LIKE 'Binlog Dump%' AND COMMAND <> 'Daemon'",
        accounts::AGENT
    );
    let sessions = sql.rows(&sessions, SHORT).await?;
    kill(sql, sessions.iter().filter_map(|row| row.number("id"))).await
}

/// The member receives nothing more, and takes no writes. A primary is killed. A replica is not: that would discard
/// received writes.
pub async fn fence(member: &DatabaseMember) -> Result<(), Refusal> {
    let (role, running, wanted) = member.facts(|facts| (facts.role, facts.running.is_some(), facts.wanted));
    if role == Role::Fenced && (running || wanted == Wanted::No) {
        return Ok(());
    }
    if role == Role::Primary || wanted == Wanted::No {
        ended(member).await?;
        member.change(|facts| facts.idle(Role::Fenced));
        return Ok(());
    }
    let measured = member.measure(SHORT).await?;
    let mut sql = member.sql().await?;
    let replica = sql.flavor.replica();
    if measured.follows && measured.receiver_on {
        if !measured.applying {
            // With both threads stopped, this would discard received writes.
            applies_error(sql.run(&format!("START {replica} SQL_THREAD"), SHORT).await)?;
        }
        sql.run(&format!("STOP {replica} IO_THREAD"), STOP).await?;
    }
    sql.run(&format!("SET GLOBAL rpl_semi_sync_{replica}_enabled = 0"), SHORT).await?;
    sql.run(member.flags.flavor.closes(), SHORT).await?;
    drop(sql);
    if member.measure(SHORT).await?.receiver_on {
        return Err(refusal(Reason::DatabaseDown, "the database still receives"));
    }
    member.change(|facts| facts.idle(Role::Fenced));
    Ok(())
}

/// If one thread cannot apply, the other thread still has to stop.
fn applies_error(done: Result<(), SqlError>) -> Result<(), SqlError> {
    match done {
        Err(SqlError::Server(_)) => Ok(()),
        other => other,
    }
}

/// The member is the primary.
pub async fn promote(member: &DatabaseMember, order: &Promote) -> Result<(), Refusal> {
    let role = member.facts(|facts| facts.role);
    if role != Role::Primary && member.facts(|facts| facts.running.is_none()) {
        // The operator waits for it, and does not mistake the start for the end of an earlier one.
        member.change(|facts| facts.role = Role::Primary);
        started(member, Wanted::Keeping).await?;
    } else if role != Role::Primary {
        unfollow(member).await?;
    }
    let took_back =
        member.facts(|facts| facts.may_have_unacknowledged() && facts.running.as_ref().is_some_and(|p| p.takes_back));
    if role != Role::Primary && took_back {
        return Err(refusal(
            Reason::Impossible,
            "it has taken back writes, some of them acknowledged: it has to follow",
        ));
    }
    member.obey(|obeyed| obeyed.promoted = Some(order.acks))?;
    let replication = identified(member)?;
    let mut sql = member.sql().await?;
    let (flavor, waits_for) = (sql.flavor, member.facts(|facts| facts.waits_for));
    known_as(&mut sql, member.flags.server_id()).await?;
    sql.run(&format!("SET GLOBAL rpl_semi_sync_{}_enabled = 0", flavor.replica()), SHORT).await?;
    if let Some(opens) = flavor.opens_for_agent() {
        sql.run(opens, SHORT).await?;
    }
    admit(&mut sql, &order.admitted, &replication, member.tls.is_some()).await?;
    if order.acks == 0 {
        // Commits that wait succeed by this: the operator has latched it before.
        sql.run(&format!("SET GLOBAL rpl_semi_sync_{}_enabled = 0", flavor.source()), SHORT).await?;
    } else if order.acks < waits_for {
        keeper::wait_for(&mut sql, order.acks).await?;
    }
    drop(sql);
    member.change(|facts| {
        if facts.role != Role::Primary || facts.acks != order.acks {
            facts.generation += 1;
            facts.confirmed = facts.confirmed.min(order.acks);
        }
        (facts.role, facts.source, facts.handed_over) = (Role::Primary, None, false);
        (facts.acks, facts.admitted) = (order.acks, order.admitted.clone());
        facts.waits_for = facts.waits_for.min(order.acks);
    });
    keeper::open(member).await.map_err(Refusal::from)
}

/// Stops following after everything is applied.
async fn unfollow(member: &DatabaseMember) -> Result<(), Refusal> {
    if !member.measure(SHORT).await?.follows {
        return Ok(());
    }
    let replica = member.flags.flavor.replica();
    member.sql().await?.run(&format!("STOP {replica} IO_THREAD"), STOP).await?;
    let measured = applied(member, APPLY).await?;
    if !measured.has.contains(&measured.got) {
        return Err(refusal(Reason::NotApplied, "it applies the writes that it received"));
    }
    let mut sql = member.sql().await?;
    sql.run(&format!("STOP {replica}"), STOP).await?;
    sql.run(&format!("RESET {replica} ALL"), STOP).await?;
    Ok(())
}

/// Stops a replica that is about to end from receiving, and lets it apply the writes that it has received. Returns the
/// lock of orders if it has applied everything: nothing that it acknowledged is lost with its relay log, as long as the
/// lock is held until the database has ended.
pub async fn complete(member: &DatabaseMember, within: Duration) -> Option<MutexGuard<'_, ()>> {
    let is_replica = |facts: &AgentFacts| {
        let follows =
            matches!(facts.role, Role::Replica | Role::Fenced | Role::Waiting) && facts.obeyed.promoted.is_none();
        follows && facts.running.is_some() && facts.seeding.is_none()
    };
    let complete = async {
        let guard = member.orders.lock().await;
        if !member.facts(is_replica) {
            return Ok(None);
        }
        let measured = member.measure(SHORT).await?;
        if measured.follows && measured.receiver_on {
            if !measured.applying {
                // With both threads stopped, MariaDB discards received writes.
                return Ok(None);
            }
            member.sql().await?.run(&format!("STOP {} IO_THREAD", member.flags.flavor.replica()), STOP).await?;
        }
        let measured = applied(member, within).await?;
        let is_complete = !measured.receiver_on && measured.has.contains(&measured.got);
        Ok::<_, SqlError>(is_complete.then_some(guard))
    };
    tokio::time::timeout(within, complete).await.ok()?.ok()?
}

/// Waits for a while until everything that was received is applied.
async fn applied(member: &DatabaseMember, within: Duration) -> Result<Measured, SqlError> {
    let end = Instant::now() + within;
    loop {
        let measured = member.measure(SHORT).await?;
        if measured.has.contains(&measured.got) || !measured.applying || Instant::now() > end {
            return Ok(measured);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Only these members may connect and follow. The connections of others end.
async fn admit(sql: &mut Sql, admitted: &[String], identified: &str, tls: bool) -> Result<(), Refusal> {
    let accounts = format!("SELECT User AS user FROM {} WHERE User LIKE 'tillerman.%'", sql.flavor.accounts());
    let accounts = sql.rows(&accounts, SHORT).await?;
    let accounts: Vec<String> = accounts.iter().map(|row| row.text("user")).collect();
    let refused = accounts::refused(&accounts, admitted);
    for account in &refused {
        sql.run(&format!("ALTER USER '{account}'@'%' ACCOUNT LOCK"), SHORT).await?;
    }
    for statement in accounts::admit(admitted, identified, tls) {
        sql.run(&statement, SHORT).await?;
    }
    let end = Instant::now() + SHORT;
    while !refused.is_empty() {
        let names = refused.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        let query = format!("SELECT ID AS id FROM information_schema.PROCESSLIST WHERE USER IN ({names})");
        let connected = sql.rows(&query, SHORT).await?;
        if connected.is_empty() {
            break;
        }
        if Instant::now() > end {
            return Err(refusal(Reason::DatabaseDown, "a member that is not admitted is still connected"));
        }
        kill(sql, connected.iter().filter_map(|row| row.number("id"))).await?;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Ends connections, of which some may have ended already.
async fn kill(sql: &mut Sql, connections: impl Iterator<Item = u64>) -> Result<(), SqlError> {
    for connection in connections {
        applies_error(sql.run(&format!("KILL CONNECTION {connection}"), SHORT).await)?;
    }
    Ok(())
}

/// The member is a replica.
pub async fn follow(member: &DatabaseMember, order: &Follow) -> Result<(), Refusal> {
    let source = ReplicaSource { host: order.source.clone(), acknowledge: order.acknowledge, epoch: order.epoch };
    hung::end_for_order(member).await;
    let (role, given) = member.facts(|facts| (facts.role, facts.source.clone()));
    if role == Role::Replica && given.as_ref() == Some(&source) {
        let measured = member.measure(SHORT).await?;
        if measured.receiver_on && (measured.applying || measured.apply_error != 0) {
            return Ok(());
        }
    }
    // MySQL keeps whatever its log has.
    let can = member.flags.flavor == Flavor::Mariadb;
    let (takes_back, runs) = member.facts(|facts| {
        let started = facts.running.as_ref().is_some_and(|process| process.takes_back);
        let refused = facts.identity.as_ref().is_some_and(|identity| identity.diverged);
        (can && facts.may_have_unacknowledged() && !started && !refused, facts.running.is_some())
    });
    if runs && (role == Role::Primary || takes_back) {
        ended(member).await?;
    }
    let was_primary = member.facts(|facts| facts.obeyed.promoted.is_some());
    started(member, if takes_back { Wanted::TakingBack } else { Wanted::Keeping }).await?;
    let flavor = member.flags.flavor;
    {
        let mut sql = member.sql().await?;
        // Enabled on a replica, it would keep it from applying.
        sql.run(&format!("SET GLOBAL rpl_semi_sync_{}_enabled = 0", flavor.source()), SHORT).await?;
        sql.run(flavor.closes(), STOP).await?;
        sql.run(&format!("STOP {} IO_THREAD", flavor.replica()), STOP).await?;
    }
    match flavor {
        Flavor::Mariadb => follow_mariadb(member, order, was_primary).await?,
        Flavor::Mysql => follow_mysql(member, order, was_primary).await?,
    }
    member.obey(|obeyed| obeyed.promoted = None)?;
    member.change(|facts| {
        facts.idle(Role::Replica);
        facts.source = Some(source);
    });
    Ok(())
}

/// Another start: this member has dropped writes that it had received and not applied. It is received again, from a
/// source that has all of it. Until then this member lacks it, as after a start.
fn dropped(member: &DatabaseMember) -> Result<(), Refusal> {
    let start = random().map_err(|error| failed(&error))?;
    member.change(|facts| {
        start[..16].clone_into(&mut facts.start);
        facts.continues.clear();
    });
    Ok(())
}

async fn follow_mariadb(member: &DatabaseMember, order: &Follow, was_primary: bool) -> Result<(), Refusal> {
    let measured = applied(member, BRIEFLY).await?;
    if !measured.has.contains(&measured.got) {
        dropped(member)?;
    }
    let change = change_source(member, order, &password(member)?, (was_primary, measured.follows));
    let mut sql = member.sql().await?;
    sql.run("STOP SLAVE", STOP).await?;
    let acknowledge = i32::from(order.acknowledge);
    sql.run(&format!("SET GLOBAL rpl_semi_sync_slave_enabled = {acknowledge}"), SHORT).await?;
    sql.run(&change, STOP).await?;
    // Only now: the writes that an earlier primary made with its ID count as applied.
    let own = member.flags.server_id();
    known_as(&mut sql, if order.acknowledge { own } else { own ^ WITHOUT_ACKNOWLEDGING }).await?;
    sql.run("START SLAVE", STOP).await?;
    Ok(())
}

/// MySQL keeps the writes that it has received when its source changes, as long as one of its threads runs. It follows
/// a source that lacks writes which it has, without an error, so the agent checks this first.
async fn follow_mysql(member: &DatabaseMember, order: &Follow, was_primary: bool) -> Result<(), Refusal> {
    let is_diverged = member.facts(|facts| facts.identity.as_ref().is_some_and(|identity| identity.diverged));
    if is_diverged || (was_primary && has_more_than(member, order).await?) {
        return member.diverged().map_err(|error| failed(&error));
    }
    let before = member.measure(SHORT).await?;
    let change = change_source(member, order, &password(member)?, (was_primary, before.follows));
    let mut sql = member.sql().await?;
    if before.follows && !before.applying {
        applies_error(sql.run("START REPLICA SQL_THREAD", SHORT).await)?;
    }
    let acknowledge = i32::from(order.acknowledge);
    sql.run(&format!("SET GLOBAL rpl_semi_sync_replica_enabled = {acknowledge}"), SHORT).await?;
    sql.run(&change, STOP).await?;
    drop(sql);
    if !member.measure(SHORT).await?.got.contains(&before.got) {
        dropped(member)?;
    }
    member.sql().await?.run("START REPLICA", STOP).await?;
    Ok(())
}

/// The report of the agent of a source, which listens at the same port as this agent.
pub async fn state_of(member: &DatabaseMember, source: &str) -> Result<MemberState, ClientError> {
    let scheme = if member.tls.is_some() { "https" } else { "http" };
    let host = if source.contains(':') { format!("[{source}]") } else { source.to_owned() };
    let client = Client { tls: member.tls.as_ref().map(tillerman_agent::tls::TlsFiles::client) };
    client.state(&format!("{scheme}://{host}:{}", member.flags.listen.port()), SHORT).await
}

/// Whether this member has writes that its source lacks. The agent of the source, which listens at the same port as
/// this agent, knows who follows the order.
async fn has_more_than(member: &DatabaseMember, order: &Follow) -> Result<bool, Refusal> {
    let own = member.measure(SHORT).await?.got;
    let source = state_of(member, &order.source).await.map_err(|error| {
        refusal(
            Reason::DatabaseDown,
            &format!("it is not known whether the source has all writes that are here: {error}"),
        )
    })?;
    if source.data.as_deref() == Some(&*order.data) && source.got.contains(&own) {
        return Ok(false);
    }
    if source.data.as_deref() == Some(&*order.data) && source.role == Role::Primary && !source.hangs {
        return Ok(true);
    }
    Err(refusal(Reason::DatabaseDown, "the source is not the primary yet, and may get the writes that are here"))
}

/// The statement with which a member follows. Its texts are checked: the host by the order, the password is of hexadecimal digits.
fn change_source(
    member: &DatabaseMember,
    order: &Follow,
    password: &str,
    (was_primary, follows): (bool, bool),
) -> String {
    let (flavor, source) = (member.flags.flavor, member.flags.flavor.source());
    let account = accounts::of(&member.flags.member, order.acknowledge);
    let quoted = |path: &std::path::Path| path.display().to_string().replace('\\', "\\\\").replace('\'', "\\'");
    let tls = member.flags.tls().map_or_else(
        || format!("{source}_SSL = 0"),
        |tls| {
            format!(
                "{source}_SSL = 1, {source}_SSL_VERIFY_SERVER_CERT = 1, {source}_SSL_CA = '{}', {source}_SSL_CERT = '{}', {source}_SSL_KEY = '{}'",
                quoted(&tls.authorities),
                quoted(&tls.certificate),
                quoted(&tls.key)
            )
        },
    );
    let position = match flavor {
        // The writes of an earlier primary count as applied.
        Flavor::Mariadb if was_primary => "MASTER_USE_GTID = slave_pos, MASTER_DEMOTE_TO_SLAVE = 1",
        Flavor::Mariadb => "MASTER_USE_GTID = slave_pos",
        // It tries for ever. Without TLS, the password is sent encrypted with the key of the source.
        Flavor::Mysql if follows => "SOURCE_RETRY_COUNT = 0, GET_SOURCE_PUBLIC_KEY = 1",
        // This cannot be set while received writes are applied, and stays as it is.
        Flavor::Mysql => "SOURCE_AUTO_POSITION = 1, SOURCE_RETRY_COUNT = 0, GET_SOURCE_PUBLIC_KEY = 1",
    };
    format!(
        "{} {source}_HOST = '{}', {source}_PORT = {}, {source}_USER = '{account}', {source}_PASSWORD = '{password}', \
         {source}_CONNECT_RETRY = 1, {source}_HEARTBEAT_PERIOD = 1, {position}, {tls}",
        flavor.change_source(),
        order.source,
        member.flags.port
    )
}

/// The primary takes no more writes, waits until all commits have been acknowledged, and ends the sessions.
pub async fn demote(member: &DatabaseMember, within: u64) -> Result<(), Refusal> {
    let (role, handed_over) = member.facts(|facts| (facts.role, facts.handed_over));
    if role == Role::Fenced && handed_over {
        return Ok(());
    }
    if role != Role::Primary {
        return Err(refusal(Reason::Impossible, "it is not the primary"));
    }
    let over = || refusal(Reason::TimeOver, "commits still wait for an acknowledgement, or a statement for its end");
    let within = Duration::from_millis(within.clamp(1000, 60_000));
    // No commit of the agent may be made after this. It waits for those that are being made.
    let commits =
        async { (member.marker.lock().await, member.nudges.acquire_many(NUDGES).await, member.declares.lock().await) };
    let commits = tokio::time::timeout(within, commits).await.map_err(|_| over())?;
    let mut sql = member.sql().await?;
    scheduler::stop(member, &mut sql).await?;
    sql.run(&format!("SET SESSION lock_wait_timeout = {}", within.as_secs()), SHORT).await?;
    // It waits for all commits. Given up by the end of the connection it would still be done later, so the database ends it itself.
    match sql.run(member.flags.flavor.closes(), within + SHORT).await {
        Err(SqlError::Server(LOCK_WAIT_TIMEOUT)) => return Err(over()),
        other => other?,
    }
    member.change(|facts| {
        facts.idle(Role::Fenced);
        facts.handed_over = true;
    });
    drop(commits);
    // Only now: a commit that is ended while it waits for an acknowledgement succeeds without one.
    end_sessions(&mut sql).await?;
    Ok(())
}

/// Reads certificates and passwords again.
pub async fn reload(member: &DatabaseMember) -> Result<(), Refusal> {
    renew(member).await?;
    member.reread.notify_one();
    let facts = member.facts(Clone::clone);
    if facts.running.is_none() {
        return Ok(());
    }
    match (facts.role, facts.source) {
        (Role::Primary, _) => {
            let mut sql = member.sql().await?;
            admit(&mut sql, &facts.admitted, &identified(member)?, member.tls.is_some()).await
        }
        (Role::Replica, Some(source)) => {
            member.change(|facts| facts.role = Role::Waiting);
            let data = facts.identity.map(|identity| identity.data).unwrap_or_default();
            let (epoch, number) = (source.epoch, Some(facts.obeyed.number));
            let order = Follow { epoch, number, data, source: source.host, acknowledge: source.acknowledge };
            follow(member, &order).await
        }
        _ => Ok(()),
    }
}

/// Reads certificates and the administrator's password again. It ends no connection.
pub async fn renew(member: &DatabaseMember) -> Result<(), Refusal> {
    if let (Some(files), Some(tls)) = (&member.tls, member.flags.tls()) {
        files.read_again(&tls).map_err(|error| failed(&error.to_string()))?;
    }
    if member.facts(|facts| facts.running.is_none()) {
        return Ok(());
    }
    let mut sql = member.sql().await?;
    let flavor = sql.flavor;
    if member.tls.is_some() {
        sql.run(flavor.reloads_tls(), SHORT).await?;
    }
    if let Some(path) = &member.flags.administrator_password_file {
        let secret = secret(path).map_err(|error| failed(&error))?;
        let identified = clause(flavor, &secret, None).map_err(|error| failed(&error))?;
        let change = format!("ALTER USER '{}'@'%' IDENTIFIED {identified}", member.flags.administrator);
        // A replica stays as it is for clients.
        let opens = flavor.opens_for_agent().filter(|_| member.facts(|facts| facts.role != Role::Primary));
        if let Some(opens) = opens {
            sql.run(opens, SHORT).await?;
        }
        let changed = sql.run(&change, SHORT).await;
        if opens.is_some() {
            sql.run(flavor.closes(), SHORT).await?;
        }
        changed?;
    }
    Ok(())
}

/// The text after `IDENTIFIED` for the accounts with which members follow each other.
fn identified(member: &DatabaseMember) -> Result<String, Refusal> {
    clause(member.flags.flavor, &password(member)?, None).map_err(|error| failed(&error))
}

/// The password with which members follow each other: the digest of the file's content, because MariaDB accepts at most
/// 32 characters.
fn password(member: &DatabaseMember) -> Result<String, Refusal> {
    let secret = secret(&member.flags.password_file).map_err(|error| failed(&error))?;
    Ok(HEXLOWER.encode(&Sha256::digest(secret.as_bytes()))[..32].to_owned())
}

//! The actions of a member by order. One order is carried out at a time.

use std::sync::Arc;
use std::time::Duration;

use tillerman_agent::contract::{Follow, MemberState, Promote, Reason, Refusal, Role, Verb};
use tillerman_agent::orders::check;

use crate::copies;
use crate::member::{CLOSED, NOBODY, OPEN, RedisMember, SHORT, Source, failed, hash, refused, replication, secret};
use crate::relay::Relay;
use crate::server::{AGENT, Server};
use crate::streams::begun;

/// How long an order waits for an earlier one.
const WAIT: Duration = Duration::from_secs(8);
/// How often a primary looks whether members acknowledge.
const LOOK: Duration = Duration::from_millis(100);

/// Carries an order out. It is finished even if no client waits for the answer now.
pub async fn obey(member: Arc<RedisMember>, verb: Verb) -> Result<MemberState, Refusal> {
    let order = tokio::spawn(async move {
        let guard = tokio::time::timeout(WAIT, member.orders.lock()).await;
        let Ok(guard) = guard else { return Err(Refusal::new(Reason::Busy, "another order is carried out")) };
        let (obeyed, data, seeding) = member.facts(|facts| {
            let data = facts.identity.as_ref().map(|identity| identity.data.clone());
            (facts.obeyed.clone(), data, facts.seeding.is_some())
        });
        check(&verb, &obeyed, data.as_deref())?;
        if seeding && !matches!(verb, Verb::Seed(_) | Verb::Reload(_)) {
            return Err(Refusal::new(Reason::Busy, "the data is replaced by a copy"));
        }
        if let Some((at, _)) = verb.order().filter(|(at, _)| obeyed.at().is_before(*at)) {
            member.obey(|obeyed| obeyed.note(at))?;
        }
        let done = match &verb {
            Verb::Fence(_) => fence(&member).await,
            Verb::Promote(order) => promote(&member, order).await,
            Verb::Follow(order) => follow(&member, order).await,
            Verb::Demote(order) => demote(&member, Duration::from_millis(order.within.clamp(1000, 60_000))).await,
            Verb::Seed(order) => copies::begin(&member, order),
            Verb::Reload(_) => reload(&member).await,
        };
        eprintln!("{} at {:?}: {done:?}", verb.name(), verb.order().map(|(at, _)| at));
        drop(guard);
        done?;
        Ok(member.state().await)
    });
    order.await.unwrap_or_else(|_| Err(failed("the order ended with a bug: see the log of the agent")))
}

async fn set(server: &Server, words: &[&str]) -> Result<(), Refusal> {
    server.ask(words, SHORT).await.map(|_| ()).map_err(|error| refused(&error))
}

/// Whether clients may write.
async fn allow(server: &Server, rights: &[&str]) -> Result<(), Refusal> {
    set(server, &[&["ACL", "SETUSER", "default"], rights].concat()).await
}

/// Writes of clients are refused with fewer connected replicas: a guard for clients that do not use `WAIT`.
async fn guard(server: &Server, replicas: u32) -> Result<(), Refusal> {
    set(server, &["CONFIG", "SET", "min-replicas-to-write", &replicas.to_string()]).await
}

/// The member receives nothing more, and takes no writes. A primary is killed.
async fn fence(member: &RedisMember) -> Result<(), Refusal> {
    let (role, running, wanted) = member.facts(|facts| (facts.role, facts.running.clone(), facts.wanted));
    if role == Role::Fenced && (running.is_some() || !wanted) {
        return Ok(());
    }
    if role == Role::Primary || !wanted {
        member.ended().await?;
    } else {
        let server = member.started().await?;
        set(&server, &NOBODY).await?;
        allow(&server, &CLOSED).await?;
    }
    member.change(|facts| facts.idle(Role::Fenced));
    Ok(())
}

/// The member is the primary.
async fn promote(member: &RedisMember, order: &Promote) -> Result<(), Refusal> {
    let server = member.started().await?;
    let is_new = member.facts(|facts| facts.role != Role::Primary);
    if is_new {
        let info = server.info(SHORT).await.map_err(|error| refused(&error))?;
        if info.is_changing() || !info.is_durable() {
            return Err(Refusal::new(
                Reason::NotApplied,
                "it loads a copy, or its append-only file is not complete yet",
            ));
        }
    }
    member.obey(|obeyed| obeyed.promoted = Some(order.acks))?;
    if is_new {
        allow(&server, &CLOSED).await?;
        guard(&server, 0).await?;
        set(&server, &["REPLICAOF", "NO", "ONE"]).await?;
        begin_stream(member, &server, order.epoch).await?;
    }
    admit(member, &server, &order.admitted).await?;
    let is_open = member.facts(|facts| facts.role == Role::Primary && facts.opened);
    member.change(|facts| {
        (facts.role, facts.source, facts.relay, facts.handed_over) = (Role::Primary, None, None, false);
        (facts.acks, facts.admitted) = (order.acks, order.admitted.clone());
        facts.confirmed = facts.confirmed.min(order.acks);
        facts.opened = is_open;
    });
    if order.acks == 0 || is_open {
        if member.facts(|facts| facts.confirmed) == order.acks {
            guard(&server, order.acks).await?;
        }
        allow(&server, &OPEN).await?;
        member.change(|facts| facts.opened = true);
    }
    Ok(())
}

/// A promotion begins a stream (`streams.rs`). The ID of Redis' own stream changes with its first replica, so there is one before: a
/// connection that ends before Redis begins to copy.
async fn begin_stream(member: &RedisMember, server: &Server, epoch: u64) -> Result<(), Refusal> {
    let down = |error: std::io::Error| refused(&error);
    if server.info(SHORT).await.map_err(down)?.get("repl_backlog_active") != "1" {
        let mut replica = server.connect().await.map_err(down)?;
        replica.ask(&["REPLCONF", "capa", "eof"]).await.map_err(down)?;
        replica.send(&["PSYNC", "?", "-1"]).await.map_err(down)?;
        let begins =
            async { while server.info(SHORT).await.is_ok_and(|info| info.get("repl_backlog_active") != "1") {} };
        let begun = tokio::time::timeout(SHORT, begins).await;
        begun.map_err(|_| Refusal::new(Reason::DatabaseDown, "Redis does not count its writes"))?;
    }
    let measured = member.measure(server, SHORT).await.map_err(down)?;
    let random = crate::member::random().map_err(|error| failed(&error))?;
    let marker = begun(epoch, &random[..8], &replication(&measured.info), &measured.position);
    set(server, &["FUNCTION", "LOAD", "REPLACE", &marker.library()]).await
}

/// Writes the marker again, so that there is a write after all others, and waits until this many members have it.
async fn is_confirmed(member: &RedisMember, server: &Server, acks: u32, within: Duration) -> Result<bool, Refusal> {
    let down = |error: std::io::Error| refused(&error);
    let marker = member.measure(server, SHORT).await.map_err(down)?.marker;
    let marker = marker.ok_or_else(|| failed("the data has no marker: somebody has removed it"))?;
    let waits = async {
        let mut connection = server.connect().await?;
        connection.ask(&["FUNCTION", "LOAD", "REPLACE", &marker.library()]).await?;
        connection.ask(&["WAIT", &acks.to_string(), &within.as_millis().to_string()]).await
    };
    let counted = tokio::time::timeout(within + SHORT, waits).await;
    let counted = counted.map_err(|_| Refusal::new(Reason::DatabaseDown, "Redis does not answer"))?.map_err(down)?;
    Ok(counted.parse::<u32>().is_ok_and(|counted| counted >= acks))
}

/// A primary opens, and says that all is acknowledged, as soon as enough members have a write that was made after the order.
pub async fn keep_confirmed(member: Arc<RedisMember>) {
    let lacks = |facts: &crate::member::Facts| {
        let is_primary = facts.role == Role::Primary && facts.running.is_some();
        (is_primary && (facts.confirmed < facts.acks || !facts.opened)).then_some(facts.acks)
    };
    loop {
        member.wait_until(lacks).await;
        // No order begins meanwhile.
        let guard_of_orders = member.orders.lock().await;
        let found = member.facts(|facts| lacks(facts).zip(facts.running.clone()));
        if let Some((acks, server)) = found {
            let connected = server.info(SHORT).await.map_or(0, |info| info.number("connected_slaves"));
            let enough = connected >= u64::from(acks);
            if enough && is_confirmed(&member, &server, acks, Duration::from_millis(500)).await.is_ok_and(|done| done) {
                let opened = async {
                    guard(&server, acks).await?;
                    allow(&server, &OPEN).await
                };
                if opened.await.is_ok() {
                    member.change(|facts| (facts.confirmed, facts.opened) = (acks, true));
                }
            }
        }
        drop(guard_of_orders);
        tokio::time::sleep(LOOK).await;
    }
}

/// Only these members may connect and follow. The connections of others end with their accounts.
async fn admit(member: &RedisMember, server: &Server, admitted: &[String]) -> Result<(), Refusal> {
    let accounts = server.ask(&["ACL", "USERS"], SHORT).await.map_err(|error| refused(&error))?;
    let password = hash(&member.replication().map_err(|error| failed(&error))?);
    for account in accounts.lines().filter(|account| account.starts_with(&format!("{AGENT}."))) {
        if !admitted.iter().any(|name| format!("{AGENT}.{name}") == account) {
            set(server, &["ACL", "DELUSER", account]).await?;
        }
    }
    for name in admitted {
        let (account, password) = (format!("{AGENT}.{name}"), format!("#{password}"));
        let rights = ["on", "resetpass", &password, "-@all", "+psync", "+replconf", "+ping"];
        set(server, &[&["ACL", "SETUSER", &account], &rights[..]].concat()).await?;
    }
    Ok(())
}

/// The member is a replica. Writes that an earlier primary has and its source lacks are replaced: Redis copies all
/// where it cannot continue.
async fn follow(member: &RedisMember, order: &Follow) -> Result<(), Refusal> {
    let source = Source { host: order.source.clone(), acknowledge: order.acknowledge, epoch: order.epoch };
    let is_obeyed = member.facts(|facts| facts.role == Role::Replica && facts.source.as_ref() == Some(&source));
    if is_obeyed && member.facts(|facts| facts.running.is_some()) {
        return Ok(());
    }
    let server = member.started().await?;
    allow(&server, &CLOSED).await?;
    guard(&server, 0).await?;
    admit(member, &server, &[]).await?;
    let port = member.settings.port;
    let relay = if order.acknowledge {
        set(&server, &["REPLICAOF", &order.source, &port.to_string()]).await?;
        None
    } else {
        let relay = Relay::to(&order.source, port).await.map_err(|error| failed(&format!("a relay: {error}")))?;
        set(&server, &["REPLICAOF", "127.0.0.1", &relay.port.to_string()]).await?;
        Some(Arc::new(relay))
    };
    member.obey(|obeyed| obeyed.promoted = None)?;
    member.change(|facts| {
        facts.idle(Role::Replica);
        (facts.source, facts.relay) = (Some(source), relay);
    });
    Ok(())
}

/// The primary takes no more writes, waits until all have been acknowledged, and ends the sessions.
pub async fn demote(member: &RedisMember, within: Duration) -> Result<(), Refusal> {
    let (role, handed_over, acks, running) =
        member.facts(|facts| (facts.role, facts.handed_over, facts.acks, facts.running.clone()));
    if role == Role::Fenced && handed_over {
        return Ok(());
    }
    if role != Role::Primary {
        return Err(Refusal::new(Reason::Impossible, "it is not the primary"));
    }
    let server = running.ok_or_else(|| Refusal::new(Reason::DatabaseDown, "Redis does not run"))?;
    allow(&server, &CLOSED).await?;
    guard(&server, 0).await?;
    let confirmed = if acks == 0 { Ok(true) } else { is_confirmed(member, &server, acks, within).await };
    if !matches!(confirmed, Ok(true)) {
        guard(&server, acks).await?;
        if member.facts(|facts| facts.opened) {
            allow(&server, &OPEN).await?;
        }
        confirmed?;
        return Err(Refusal::new(Reason::TimeOver, "not all writes are acknowledged"));
    }
    // From here on nothing expires, and its replicas still receive.
    set(&server, &NOBODY).await?;
    set(&server, &["CLIENT", "KILL", "USER", "default"]).await?;
    member.change(|facts| {
        facts.idle(Role::Fenced);
        facts.handed_over = true;
    });
    Ok(())
}

/// Reads certificates and passwords again.
async fn reload(member: &RedisMember) -> Result<(), Refusal> {
    if let (Some(files), Some(tls)) = (&member.tls, &member.settings.tls) {
        files.read_again(tls).map_err(|error| failed(&error.to_string()))?;
    }
    let Some(server) = member.facts(|facts| facts.running.clone()) else { return Ok(()) };
    let clients = secret(&member.settings.password).map_err(|error| failed(&error))?;
    set(&server, &["ACL", "SETUSER", "default", "resetpass", &format!("#{}", hash(&clients))]).await?;
    let replication = member.replication().map_err(|error| failed(&error))?;
    set(&server, &["CONFIG", "SET", "masterauth", &replication]).await?;
    let (role, admitted) = member.facts(|facts| (facts.role, facts.admitted.clone()));
    if role == Role::Primary { admit(member, &server, &admitted).await } else { Ok(()) }
}

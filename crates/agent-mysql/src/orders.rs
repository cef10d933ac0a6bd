//! Orders: which are refused, and what the others do. One is carried out at a time.

use std::sync::Arc;
use std::time::Duration;

use super::facts::Wanted;
use super::member::{DatabaseMember, failed, refusal};
use super::process::Process;
use super::{roles, seed};
use tillerman_agent::contract::{MemberState, Reason, Refusal, Role, Verb};
use tillerman_agent::orders::check;

/// How long an order waits for an earlier one, or for the database to start or to end.
const WAIT: Duration = Duration::from_secs(8);

/// Carries an order out. It is finished even if no client waits for the answer now.
pub async fn obey(member: Arc<DatabaseMember>, verb: Verb) -> Result<MemberState, Refusal> {
    let order = tokio::spawn(async move {
        // An agent that ends holds the lock until it has ended.
        let ends = member.wait_until(|facts| facts.stopping.then_some(()));
        let lock = tokio::time::timeout(WAIT, member.orders.lock());
        let guard = tokio::select! {
            biased;
            () = ends => return Err(refusal(Reason::Busy, "the agent ends")),
            lock = lock => lock.map_err(|_| refusal(Reason::Busy, "another order is carried out"))?,
        };
        checked(&member, &verb)?;
        if let Some((at, _)) = verb.order()
            && member.facts(|facts| facts.obeyed.at().is_before(at))
        {
            member.obey(|obeyed| obeyed.note(at))?;
        }
        let at = verb.order().map(|(at, _)| at);
        let (epoch, number) = (at.map(|at| at.epoch), at.and_then(|at| at.number));
        tracing::info!(verb = verb.name(), epoch, number, "obeys");
        let done = match &verb {
            Verb::Fence(_) => roles::fence(&member).await,
            Verb::Promote(order) => roles::promote(&member, order).await,
            Verb::Follow(order) => roles::follow(&member, order).await,
            Verb::Demote(order) => roles::demote(&member, order.within).await,
            Verb::Seed(order) => seed::begin(&member, order),
            Verb::Reload(_) => roles::reload(&member).await,
        };
        if let Err(refusal) = &done {
            tracing::warn!(verb = verb.name(), %refusal, "does not obey");
        }
        drop(guard);
        done?;
        Ok(member.state().await)
    });
    order.await.unwrap_or_else(|_| Err(failed("the order ended with a bug: the log of the agent says where")))
}

/// The orders that are refused without asking the database.
fn checked(member: &DatabaseMember, verb: &Verb) -> Result<(), Refusal> {
    let (obeyed, data, seeding) = member.facts(|facts| {
        let data = facts.identity.as_ref().map(|identity| identity.data.clone());
        (facts.obeyed.clone(), data, facts.seeding.is_some())
    });
    check(verb, &obeyed, data.as_deref())?;
    if seeding && !matches!(verb, Verb::Seed(_) | Verb::Reload(_)) {
        return Err(refusal(Reason::Busy, "the data is replaced by a copy"));
    }
    match verb {
        Verb::Promote(order) if order.acks > member.flags.flavor.most_acks() => {
            let flavor = member.flags.flavor;
            let message = format!("{} waits for {} acknowledgements at most", flavor.name(), flavor.most_acks());
            Err(refusal(Reason::Impossible, &message))
        }
        _ => Ok(()),
    }
}

/// The database, which starts if it does not run.
pub async fn started(member: &DatabaseMember, wanted: Wanted) -> Result<Arc<Process>, Refusal> {
    member.change(|facts| {
        if facts.running.is_none() {
            facts.wanted = wanted;
        }
    });
    let starts = member.wait_until(|facts| facts.running.clone());
    let started = tokio::time::timeout(WAIT, starts).await;
    started.map_err(|_| refusal(Reason::DatabaseDown, "the database starts"))
}

/// Ends the database, which then waits for an order.
pub async fn ended(member: &DatabaseMember) -> Result<(), Refusal> {
    member.change(|facts| {
        facts.wanted = Wanted::No;
        facts.idle(Role::Waiting);
    });
    let processes = member.facts(|facts| [facts.running.clone(), facts.starting.clone()]);
    for process in processes.iter().flatten() {
        process.kill().await;
    }
    let ends = member.wait_until(|facts| (facts.running.is_none() && facts.starting.is_none()).then_some(()));
    let ended = tokio::time::timeout(WAIT, ends).await;
    ended.map_err(|_| refusal(Reason::DatabaseDown, "the database has not ended yet"))
}

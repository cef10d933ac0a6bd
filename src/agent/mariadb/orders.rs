//! Orders: which are refused, and what the others do. One is carried out at a time.

use std::sync::Arc;
use std::time::Duration;

use super::accounts::{is_host, is_member};
use super::facts::Wanted;
use super::member::{Member, failed, refusal};
use super::process::Process;
use super::{roles, seed};
use crate::agent::contract::{Reason, Refusal, Role, State, Verb};

/// How long an order waits for another one, or for the database to start or to end.
const WAIT: Duration = Duration::from_secs(8);

/// Carries an order out. It is finished even if nobody waits for the answer any more.
pub async fn obey(member: Arc<Member>, verb: Verb) -> Result<State, Refusal> {
    let order = tokio::spawn(async move {
        let Ok(guard) = tokio::time::timeout(WAIT, member.orders.lock()).await else {
            return Err(refusal(Reason::Busy, "another order is carried out"));
        };
        checked(&member, &verb)?;
        if let Some((at, _)) = verb.order()
            && at > member.facts(|facts| facts.obeyed.at())
        {
            member.obey(|obeyed| (obeyed.epoch, obeyed.number) = at)?;
        }
        let (epoch, number) = verb.order().map(|(at, _)| at).unzip();
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

/// What is refused without a look at the database.
fn checked(member: &Member, verb: &Verb) -> Result<(), Refusal> {
    let (obeyed, data, seeding, stopping) = member.facts(|facts| {
        let data = facts.identity.as_ref().map(|identity| identity.data.clone());
        (facts.obeyed.at(), data, facts.seeding.is_some(), facts.stopping)
    });
    if stopping {
        return Err(refusal(Reason::Busy, "the agent ends"));
    }
    if let Some((at, ordered)) = verb.order() {
        is_recent(at, obeyed)?;
        let fits = match verb {
            Verb::Seed(_) => data.as_deref().is_none_or(|data| data == ordered),
            _ => data.as_deref() == Some(ordered),
        };
        if !fits {
            return Err(refusal(Reason::OtherData, "the data here is not the one that is meant"));
        }
    }
    if seeding && !matches!(verb, Verb::Seed(_) | Verb::Reload(_)) {
        return Err(refusal(Reason::Busy, "the data is replaced by a copy"));
    }
    match verb {
        Verb::Promote(order) if order.acks > 1 => {
            Err(refusal(Reason::Impossible, "MariaDB waits for one acknowledgement, and never for more"))
        }
        Verb::Promote(order) if !order.admitted.iter().all(|name| is_member(name)) => {
            Err(refusal(Reason::Invalid, "admitted: a name of a member is a DNS label"))
        }
        Verb::Follow(order) if !is_host(&order.source) => {
            Err(refusal(Reason::Invalid, "source: this is no address and no DNS name"))
        }
        _ => Ok(()),
    }
}

/// Refuses an order that is older than one that was obeyed.
fn is_recent(at: (u64, u64), obeyed: (u64, u64)) -> Result<(), Refusal> {
    if at.0 < obeyed.0 {
        return Err(refusal(Reason::StaleEpoch, &format!("epoch {} was obeyed already", obeyed.0)));
    }
    if at < obeyed {
        let message = format!("order {} of epoch {} was obeyed already", obeyed.1, obeyed.0);
        return Err(refusal(Reason::StaleOrder, &message));
    }
    Ok(())
}

/// The database, which starts if it does not run.
pub async fn started(member: &Member, wanted: Wanted) -> Result<Arc<Process>, Refusal> {
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
pub async fn ended(member: &Member) -> Result<(), Refusal> {
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

#[cfg(test)]
mod tests {
    use super::is_recent;
    use crate::agent::contract::Reason;

    #[test]
    fn an_order_that_is_older_than_one_that_was_obeyed_is_refused() {
        for (at, reason) in [
            ((2, 5), None),
            ((2, 6), None),
            ((3, 0), None),
            ((2, 4), Some(Reason::StaleOrder)),
            ((1, 9), Some(Reason::StaleEpoch)),
        ] {
            assert_eq!(is_recent(at, (2, 5)).err().map(|refusal| refusal.reason), reason, "{at:?}");
        }
    }
}

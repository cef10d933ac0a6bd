//! When the next pass is due.

use std::time::Duration;

use super::done::Done;
use super::facts::newest;
use crate::plan::situation::Situation;
use crate::plan::{Verb, attempts};
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::observe::{lookups, sleeps};
use crate::reconcile::observed::Observed;
use crate::reconcile::operations::OperationsReport;
use crate::reconcile::queue::with_jitter;

/// When the next pass over a release is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When something happens.
    Event,
    /// After a time.
    After(Duration),
    /// When something happens. Once per period, the release is only compared with the caches.
    Rest {
        period: Duration,
        /// When a schedule is due, in seconds since 1970.
        due: Option<i64>,
    },
}

/// The pause before the next pass after the chart's custom resource definitions were created.
const SOON: Duration = Duration::from_millis(800);

/// The longest pause before a waiting release is observed again if no event arrives.
const WAIT: Duration = Duration::from_secs(30);

/// Moves the next pass forward to the next look at a running operation, or to the next scheduled operation.
pub fn sooner(next: Next, seen: &OperationsReport) -> Next {
    match (next, seen.next, seen.due) {
        (Next::Event, Some(at), _) | (Next::Event, None, Some(at)) => Next::After(until(at)),
        (Next::After(after), Some(at), _) | (Next::After(after), None, Some(at)) => Next::After(after.min(until(at))),
        (Next::Rest { period, .. }, Some(at), _) => Next::After(period.min(until(at))),
        (Next::Rest { period, due }, None, also) => Next::Rest { period, due: due.into_iter().chain(also).min() },
        (next, None, None) => next,
    }
}

/// Moves the next pass forward to the time at which the release falls asleep or wakes.
pub fn for_sleep(next: Next, observed: &Observed) -> Next {
    let all = sleeps(&observed.facts.switches, observed.members.as_deref());
    let Some(at) = all.filter_map(|sleep| sleep.next_change(observed.facts.now)).min() else { return next };
    match next {
        Next::Event => Next::After(until(at)),
        Next::After(after) => Next::After(after.min(until(at))),
        Next::Rest { period, due } => Next::Rest { period, due: due.into_iter().chain([at]).min() },
    }
}

/// The time that is left, from now.
fn until(at: i64) -> Duration {
    let left = at.saturating_sub(jiff::Timestamp::now().as_second());
    Duration::from_secs(u64::try_from(left).unwrap_or(0))
}

/// When the next pass is due, apart from operations and sleep.
pub fn following(observed: &Observed, done: &Done, ctx: &Context) -> Result<Next, Error> {
    let waits = matches!(observed.situation, Situation::Waiting | Situation::Leave);
    match done.error() {
        // The next step, such as a rollback, needs another pass.
        Some(_) if spent(observed, ctx) => Ok(Next::After(Duration::ZERO)),
        Some(error) => Err(error.clone()),
        None if observed.situation == Situation::Waiting && observed.facts.pausing => {
            Ok(Next::After(with_jitter(Duration::from_millis(observed.pause))))
        }
        None if let Some(waiting) = &done.applied.waiting => {
            let left = u64::try_from(waiting.until - jiff::Timestamp::now().as_second()).unwrap_or(0);
            let members = done.members().and_then(|members| members.next);
            Ok(Next::After(members.unwrap_or(Duration::MAX).min(Duration::from_secs(left))))
        }
        None if done.applied.verb == Verb::CreateCrds => Ok(Next::After(SOON)),
        // When the caches are complete, an event arrives. A Helm client, however, may have died without one.
        None if waits => Ok(Next::After(WAIT)),
        // A kind that is served later starts no pass.
        None if matches!(observed.situation, Situation::Awaiting(_)) && observed.linked.unserved => {
            Ok(Next::After(WAIT))
        }
        None if let Some(next) = done.members().and_then(|members| members.next) => Ok(Next::After(next)),
        None => {
            let due = ctx.memory.contests.with(&observed.key, |contest, now| contest.due(now));
            let due = due.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs);
            let period = ctx.period(&observed.facts.switches, &observed.key);
            let Observed { key, owner, chart, extras, .. } = observed;
            let looked_up = lookups::compare(key, owner, chart.as_deref(), &extras.used, &observed.cluster, ctx);
            let soon = due.into_iter().chain(looked_up.wait).min();
            Ok(if soon.is_some() || looked_up.reads {
                Next::After(soon.map_or(period, |soon| soon.min(period)))
            } else {
                Next::Rest { period, due: renewal(observed, ctx) }
            })
        }
    }
}

/// Whether the status that was just written says that there are no more attempts.
pub fn spent(observed: &Observed, ctx: &Context) -> bool {
    let status = ctx.cache.cr(&observed.key).map(|cr| cr.status()).unwrap_or_default();
    !observed.facts.spent && attempts::read(&status, &observed.attempt).spent
}

/// When the chart asked to be rendered again, in seconds since 1970.
fn renewal(observed: &Observed, ctx: &Context) -> Option<i64> {
    let (at, now) = (newest(observed, ctx)?.render_after?, jiff::Timestamp::now().as_second());
    // The pass that ends here has already handled times in the past, and could do nothing about them.
    (at >= now).then(|| at.max(now + 1))
}

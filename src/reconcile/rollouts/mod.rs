//! Moves the custom resources of a kind to a new version of its chart, step by step, as the kind's `rollout` says.
//!
//! One task does it for all kinds. It looks when a pass has ended, when custom resources come and go, and when time alone changes
//! something; at rest it sends nothing. A pass asks [`choose`] which chart its custom resource has.

mod choose;
mod progress;
mod states;
mod store;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::charts::{Loaded, Served};
use super::context::Context;
use crate::cluster::cache::ReleaseKey;
use crate::kind::rollout::Rollout;
use crate::plan::rollout::{Phase, RolloutMember, decide, report};
pub use choose::{Choice, choose};

/// The pause before another attempt after a request failed.
const RETRY: Duration = Duration::from_secs(15);
/// The shortest time between two reports of progress.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// The shortest time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The task's state of one kind.
#[derive(Default)]
struct Memory {
    /// The report that was written last, and when.
    written: Option<(Value, Instant)>,
    /// Whether the last attempt to keep the chart failed.
    failed: bool,
}

/// Runs until the operator stops. Charts of other kinds are kept in `namespace`.
pub async fn run(ctx: Arc<Context>, namespace: String) {
    let stop = ctx.tasks.stop().clone();
    let mut memories: BTreeMap<usize, Memory> = BTreeMap::new();
    loop {
        let mut next: Option<Instant> = None;
        for (kind, served) in ctx.kinds.all().into_iter().enumerate() {
            let Some(policy) = served.kind.rollout.clone() else { continue };
            if ctx.cache.is_retired(kind) {
                continue;
            }
            let memory = memories.entry(kind).or_default();
            let due = one(&ctx, &namespace, kind, &served, &policy, memory).await;
            next = [next, due].into_iter().flatten().min();
        }
        let due = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            // Changes at the same time cause one check.
            () = ctx.rollouts.notified() => tokio::time::sleep(LOOK_EVERY).await,
            () = due => {}
        }
    }
}

/// Takes the next step for one kind; when to look again though nothing has happened.
async fn one(
    ctx: &Arc<Context>,
    namespace: &str,
    kind: usize,
    served: &Arc<Served>,
    policy: &Rollout,
    memory: &mut Memory,
) -> Option<Instant> {
    // Without a chart nobody moves. The chart is loaded elsewhere.
    let target = served.chart().ok()?;
    if !served.has_kept(&target.digest) {
        match store::keep(ctx, namespace, kind, served, &target).await {
            Ok(()) => {
                memory.failed = false;
                // Those that have another chart were held until it was known.
                ctx.queue.add_all(ctx.cache.keys_of(kind));
            }
            Err(error) => {
                if !std::mem::replace(&mut memory.failed, true) {
                    tracing::error!(kind = %served.gvk(), %error, "the chart cannot be kept in a Secret, so no custom resource moves to it");
                }
                return Some(Instant::now() + RETRY);
            }
        }
    }
    if !ctx.cache.is_history_synced() || !ctx.cache.is_kind_synced(kind) {
        return Some(Instant::now() + REPORT_EVERY);
    }
    let goal = served.goal().ok()?;
    let now = jiff::Timestamp::now().as_second();
    let members = states::members(ctx, kind, served, policy, &goal, now);
    let decision = decide(policy, &members, now);
    for key in &decision.go {
        served.grant(key, now);
        ctx.queue.add(key.clone());
    }
    let withdrawn = goal.digest != target.digest;
    let label = |loaded: &Loaded| format!("{}-{}", loaded.chart.metadata.name, loaded.chart.metadata.version);
    let mut value = report(&label(&goal), &shown(members), decision.phase, policy, now);
    if withdrawn {
        value["phase"] = Phase::RollBack.word().into();
        value["withdrawn"] = label(&target).into();
    }
    if decision.phase == Phase::RollBack && !withdrawn && served.has_others() {
        if let Err(error) = store::withdraw(ctx, namespace, served, &target, &value).await {
            tracing::warn!(kind = %served.gvk(), %error, "the chart cannot be withdrawn");
            return Some(Instant::now() + RETRY);
        }
        tracing::warn!(kind = %served.gvk(), chart = label(&target), report = %value, "the chart is withdrawn, and all custom resources go back");
        served.withdraw(&target.digest);
        ctx.queue.add_all(ctx.cache.keys_of(kind));
        return Some(Instant::now());
    }
    let clock = |at: i64| Instant::now() + Duration::from_secs(u64::try_from(at - now).unwrap_or(0).max(1));
    let due = decision.look_at.map(clock);
    let again = progress::write(ctx, namespace, served, &target, value, memory).await;
    [due, again].into_iter().flatten().min()
}

/// The members with the names that a report shows.
fn shown(members: Vec<RolloutMember<ReleaseKey>>) -> Vec<RolloutMember<String>> {
    let name = |key: ReleaseKey| match &*key.namespace {
        "" => key.name.to_string(),
        namespace => format!("{namespace}/{}", key.name),
    };
    let member = |m: RolloutMember<ReleaseKey>| RolloutMember {
        key: name(m.key),
        state: m.state,
        may_move: m.may_move,
        is_canary: m.is_canary,
        is_ready: m.is_ready,
    };
    members.into_iter().map(member).collect()
}

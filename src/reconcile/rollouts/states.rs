//! Where the custom resources of a kind are in a roll-out: read from the caches.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::choose::{attempted, pin};
use crate::bounds;
use crate::cluster::cache::ReleaseKey;
use crate::cluster::cr::Cr;
use crate::crd;
use crate::kind::rollout::Rollout;
use crate::kind::switches::Switches;
use crate::object::conditions::{Condition, Conditions};
use crate::plan::attempts;
use crate::plan::rollout::{RolloutMember, RolloutPhase};
use crate::reconcile::charts::{Loaded, Served};
use crate::reconcile::context::Context;
use crate::reconcile::render::draw::LIMITS;
use crate::reconcile::rollout_state::Checked;
use crate::release::record::Status;
use crate::release::secret::Revision;
use crate::render::{self, Stop};

/// The custom resources of a kind that have a release, at a time in seconds since 1970. Whether the new chart takes the values of one is
/// found out beside, and the roll-out is looked at again after that: values that take long to check hold up nobody else.
pub fn members(
    ctx: &Arc<Context>,
    kind: usize,
    served: &Arc<Served>,
    policy: &Rollout,
    goal: &Arc<Loaded>,
    now: i64,
) -> Vec<RolloutMember<ReleaseKey>> {
    let mut members = Vec::new();
    for key in ctx.cache.keys_of(kind) {
        let Some(cr) = ctx.cache.cr(&key).filter(|cr| !cr.deleting) else { continue };
        let (history, _) = ctx.cache.revisions(&key, &ctx.cache.release_of(&key));
        let Some(newest) = history.last().filter(|newest| newest.status != Status::Uninstalled) else { continue };
        let status = cr.status();
        let mut state = state(&key, &cr, newest, &status, served, goal, now);
        // Anybody may make a custom resource that fails. One that never had another chart says nothing of the move to this one.
        let is_new = history.iter().all(|revision| revision.chart.as_deref() == Some(&*goal.digest));
        if is_new && !matches!(state, RolloutPhase::Ready(_) | RolloutPhase::Left(_)) {
            state = RolloutPhase::Left("it is new, and not ready".to_owned());
        }
        let mut may_move = true;
        if state == RolloutPhase::Waits {
            match served.check(&key, &cr, &goal.digest) {
                Some(Checked::Taken) => {}
                Some(Checked::Refused(why)) => state = RolloutPhase::Left(why),
                Some(Checked::Begun) => may_move = false,
                None => {
                    may_move = false;
                    begin_check(ctx, served, goal, &key, &cr);
                }
            }
        }
        members.push(RolloutMember {
            state,
            may_move,
            is_canary: policy.canary.as_ref().is_some_and(|canary| canary.matches(&cr.labels)),
            is_ready: Conditions::of(&status).is_true("Ready"),
            key,
        });
    }
    members
}

fn state(
    key: &ReleaseKey,
    cr: &Cr,
    newest: &Revision,
    status: &Map<String, Value>,
    served: &Served,
    goal: &Loaded,
    now: i64,
) -> RolloutPhase {
    if let Some(version) = pin(cr).filter(|version| *version != goal.chart.metadata.version) {
        return RolloutPhase::Left(format!("it is pinned to version {}", version.chars().take(64).collect::<String>()));
    }
    let terminal = status.get("lastAttempted").is_some_and(|last| last["terminal"] == true);
    let failed = || RolloutPhase::Failed(attempts::reason(status).unwrap_or("it failed").to_owned());
    let has = newest.chart.as_deref() == Some(&*goal.digest) || newest.chart.is_none() && served.is_current(key);
    let ready = Conditions::of(status).get("Ready");
    let since = ready.and_then(|ready| ready.since().parse::<jiff::Timestamp>().ok());
    // Labels of a record are a tenant's, who could hold up all others with a time to come: the API server's own time counts.
    let created = newest.created.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_second);
    let since = since.map_or(0, jiff::Timestamp::as_second).max(created).min(now);
    if attempted(status, &goal.digest) {
        return if terminal { failed() } else { RolloutPhase::Tries(since) };
    }
    if has {
        served.arrived(key);
        let is_of_it = status.get("release").is_some_and(|release| release["revision"] == newest.revision);
        let is_ready = ready.is_some_and(Condition::is_true);
        return match newest.status {
            Status::Deployed if is_of_it && is_ready => RolloutPhase::Ready(since),
            _ => RolloutPhase::Moves(since),
        };
    }
    if let Some(granted) = served.granted_at(key) {
        return RolloutPhase::Moves(granted);
    }
    let switches = served.kind.switches.read(&cr.annotations).unwrap_or_else(|_| Switches::default());
    match () {
        () if switches.paused => RolloutPhase::Left("it is paused".to_owned()),
        () if switches.dry_run => RolloutPhase::Left("it has dry-run".to_owned()),
        () => RolloutPhase::Waits,
    }
}

/// Finds out whether the new chart takes the values of a custom resource, as a rendering: outside the workers, within limits, and in the
/// places for those that are slow if they are.
fn begin_check(ctx: &Arc<Context>, served: &Arc<Served>, goal: &Arc<Loaded>, key: &ReleaseKey, cr: &Arc<Cr>) {
    served.set_check(key, cr, &goal.digest, Checked::Begun);
    let (all, served, goal, key, cr) =
        (Arc::clone(ctx), Arc::clone(served), Arc::clone(goal), key.clone(), Arc::clone(cr));
    let task = async move {
        let (chart, values) = (Arc::clone(&goal), Arc::clone(&cr));
        let checked = all.renderer.run(&key, move |stop| Ok(check(&chart, &values, stop))).await;
        let checked = checked.unwrap_or_else(|_| Checked::Refused("its values take too long to check".to_owned()));
        served.set_check(&key, &cr, &goal.digest, checked);
        all.rollouts.notify_one();
    };
    ctx.tasks.spawn("check of values", task);
}

/// Whether the new chart takes the values of a custom resource. It names paths, and no values: others read it.
fn check(goal: &Loaded, cr: &Cr, stop: &Stop) -> Checked {
    let values: Map<String, Value> = match bounds::SPEC.json(cr.spec.as_deref().unwrap_or("{}")) {
        Ok(Value::Object(values)) => values,
        _ => return Checked::Refused("its spec cannot be read".to_owned()),
    };
    let found = goal.types().map_or_else(Vec::new, |types| crd::refusals(types, &Value::Object(values.clone())));
    let paths: Vec<String> = found.iter().take(3).map(|refusal| format!("spec.{}", refusal.path.join("."))).collect();
    match paths.as_slice() {
        [] if render::violates(&goal.chart, &values, LIMITS, stop) => {
            Checked::Refused("its values do not meet the values.schema.json of the new chart".to_owned())
        }
        [] => Checked::Taken,
        paths => Checked::Refused(format!("the new chart does not accept {}", paths.join(", "))),
    }
}

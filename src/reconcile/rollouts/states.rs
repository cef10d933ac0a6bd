//! Where the custom resources of a kind are in a roll-out: read from the caches.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::choose::{attempted, pin};
use crate::cluster::cache::ReleaseKey;
use crate::cluster::cr::Cr;
use crate::crd;
use crate::kind::rollout::Rollout;
use crate::kind::switches::Switches;
use crate::plan::attempts;
use crate::plan::rollout::{Member, State};
use crate::reconcile::blocking::off;
use crate::reconcile::charts::{Loaded, Served};
use crate::reconcile::context::Context;
use crate::release::record::Status;
use crate::release::secret::Revision;
use crate::render;

/// Those custom resources of a kind that have a release.
pub async fn members(
    ctx: &Context,
    kind: usize,
    served: &Served,
    policy: &Rollout,
    goal: &Arc<Loaded>,
) -> Vec<Member<ReleaseKey>> {
    let mut members = Vec::new();
    let mut unchecked = Vec::new();
    for key in ctx.cache.keys_of(kind) {
        let Some(cr) = ctx.cache.cr(&key).filter(|cr| !cr.deleting) else { continue };
        let (history, _) = ctx.cache.revisions(&key, &ctx.cache.release_of(&key));
        let Some(newest) = history.last().filter(|newest| newest.status != Status::Uninstalled) else { continue };
        let status = cr.status();
        let mut state = state(&key, &cr, newest, &status, served, goal);
        // Anybody may make a custom resource that fails. One that never had another chart says nothing of the move to this one.
        let is_new = history.iter().all(|revision| revision.chart.as_deref() == Some(&*goal.digest));
        if is_new && !matches!(state, State::Ready(_) | State::Left(_)) {
            state = State::Left("it is new, and not ready".to_owned());
        }
        if state == State::Waits && served.check(&key, &cr, &goal.digest).is_none() {
            unchecked.push((key.clone(), Arc::clone(&cr)));
        }
        members.push(Member {
            state,
            is_canary: policy.canary.as_ref().is_some_and(|canary| canary.matches(&cr.labels)),
            is_ready: condition(&status, "Ready").is_some_and(|ready| ready["status"] == "True"),
            key,
        });
    }
    for (key, cr) in unchecked {
        let refused = refused(goal, &cr).await;
        served.set_check(&key, &cr, &goal.digest, refused);
    }
    for member in members.iter_mut().filter(|member| member.state == State::Waits) {
        let cr = ctx.cache.cr(&member.key);
        if let Some(Some(why)) = cr.and_then(|cr| served.check(&member.key, &cr, &goal.digest)) {
            member.state = State::Left(why);
        }
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
) -> State {
    if let Some(version) = pin(cr).filter(|version| *version != goal.chart.metadata.version) {
        return State::Left(format!("it is pinned to version {}", version.chars().take(64).collect::<String>()));
    }
    let terminal = status.get("lastAttempted").is_some_and(|last| last["terminal"] == true);
    let failed = || State::Failed(attempts::reason(status).unwrap_or("it failed").to_owned());
    let has = newest.chart.as_deref() == Some(&*goal.digest) || newest.chart.is_none() && served.is_current(key);
    let ready = condition(status, "Ready");
    let since = ready.and_then(|ready| ready["lastTransitionTime"].as_str()?.parse::<jiff::Timestamp>().ok());
    let since = since.map_or(0, jiff::Timestamp::as_second).max(newest.at);
    if attempted(status, &goal.digest) {
        return if terminal { failed() } else { State::Tries(since) };
    }
    if has {
        served.arrived(key);
        let is_of_it = status.get("release").is_some_and(|release| release["revision"] == newest.revision);
        let is_ready = ready.is_some_and(|ready| ready["status"] == "True");
        return match newest.status {
            Status::Deployed if is_of_it && is_ready => State::Ready(since),
            _ => State::Moves(since),
        };
    }
    if let Some(granted) = served.granted_at(key) {
        return State::Moves(granted);
    }
    let switches = served.kind.switches.read(&cr.annotations).unwrap_or_else(|_| Switches::default());
    match () {
        () if switches.paused => State::Left("it is paused".to_owned()),
        () if switches.dry_run => State::Left("it has dry-run".to_owned()),
        () => State::Waits,
    }
}

fn condition<'s>(status: &'s Map<String, Value>, name: &str) -> Option<&'s Value> {
    status.get("conditions")?.as_array()?.iter().find(|condition| condition["type"] == name)
}

/// Why the new chart does not take the values of a custom resource. It names paths, and no values: others read it.
async fn refused(goal: &Arc<Loaded>, cr: &Arc<Cr>) -> Option<String> {
    let (goal, cr) = (Arc::clone(goal), Arc::clone(cr));
    let check = move || {
        let values: Map<String, Value> = serde_json::from_str(cr.spec.as_deref().unwrap_or("{}")).unwrap_or_default();
        let paths: Vec<String> = match goal.types() {
            Some(types) => {
                let found = crd::refusals(types, &Value::Object(values.clone()));
                found.iter().take(3).map(|refusal| format!("spec.{}", refusal.path.join("."))).collect()
            }
            None => Vec::new(),
        };
        match paths.as_slice() {
            [] if render::violates(&goal.chart, &values) => {
                Some("its values do not meet the values.schema.json of the new chart".to_owned())
            }
            [] => None,
            paths => Some(format!("the new chart does not take {}", paths.join(", "))),
        }
    };
    off(check).await.unwrap_or_else(|_| Some("its values cannot be checked".to_owned()))
}

//! Report: writes the results of a pass to the status, the events, the log and the metrics.

pub mod done;
pub mod events;
pub mod facts;
pub mod next;
pub mod panic;
pub mod status;

use super::context::Context;
use super::error::Error;
use super::notify::event;
use super::observed::Observed;
use super::report::next::Next;
use crate::plan::Verb;
use crate::plan::hooks::has_deletion_hooks;
use crate::plan::situation::Situation;
use crate::telemetry::spans;
use done::Done;
use events::events;
use facts::is_passing;
use next::{following, for_sleep, sooner};
use status::{say_who_holds, write_status};

/// Writes the report and returns when the next pass is due.
pub async fn report(observed: &Observed, done: Done, ctx: &Context) -> Result<Next, Error> {
    log(observed, &done, ctx);
    count(observed, &done, ctx);
    if done.applied.finished {
        ctx.watching.pods.forget(&observed.key);
        ctx.watching.members.forget(&observed.key);
        ctx.sources.set_used(&observed.key, Vec::new());
        if observed.facts.namespace_goes && has_deletion_hooks(&done.applied.prepared.desired.hooks) {
            let note = format!(
                "release {} was uninstalled without its delete hooks: the namespace is being deleted",
                observed.key.name,
            );
            event(observed, ctx, true, "HooksSkipped", note);
        }
        event(observed, ctx, false, "Uninstalled", format!("release {} is uninstalled", observed.key.name));
        say_who_holds(observed, ctx).await?;
        return Ok(Next::Event);
    }
    let passing = done.error().is_some_and(|e| is_passing(observed, e, ctx));
    let waits = matches!(observed.situation, Situation::Waiting | Situation::Leave);
    if !passing && !waits {
        write_status(observed, &done, ctx).await?;
    }
    events(observed, &done, ctx);
    if ctx.kinds.get(observed.key.kind).kind.rollout.is_some() {
        ctx.rollouts.notify_one();
    }
    let next = for_sleep(following(observed, &done, ctx)?, observed);
    Ok(done.operations().map_or(next, |operations| sooner(next, operations)))
}

fn count(observed: &Observed, done: &Done, ctx: &Context) {
    let controller = &ctx.kinds.get(observed.key.kind).controller;
    let ended = done.error().map_or("success", Error::reason);
    let verb = format!("{:?}", done.applied.verb);
    ctx.metrics.outcome(controller, &verb, ended);
    spans::ended(&verb.to_lowercase(), ended, done.applied.revision);
    if done.applied.verb == Verb::Repair {
        ctx.metrics.repaired(controller, done.applied.changed.len() + done.applied.pruned);
    }
}

fn log(observed: &Observed, done: &Done, ctx: &Context) {
    let (kind, namespace, name) = (&observed.owner.gvk.kind, &observed.key.namespace, &observed.key.name);
    let (verb, revision) = (done.applied.verb, done.applied.revision);
    if let Some(error) = done.error() {
        let (reason, text) = (error.reason(), ctx.show(observed, &error.text()));
        if error.is_stale() {
            tracing::debug!(%kind, %namespace, %name, ?verb, reason, error = text, "pass repeated");
        } else {
            tracing::warn!(%kind, %namespace, %name, ?verb, reason, error = text, "pass failed");
        }
    } else if verb != Verb::Rest {
        let (changed, pruned) = (done.applied.changed.len(), done.applied.pruned);
        tracing::info!(%kind, %namespace, %name, ?verb, revision, changed, pruned, "pass done");
    }
}

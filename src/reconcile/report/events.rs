//! Decides which events a pass sends.

use super::done::Done;
use super::facts::{is_idle, is_passing, newest, repaired};
use crate::kind::allow;
use crate::mask::Text;
use crate::plan::situation::{RevisionKind, Situation, newest_operation};
use crate::plan::{Verb, status, unknown_hooks};
use crate::reconcile::context::Context;
use crate::reconcile::notify::{event, is_news};
use crate::reconcile::observed::Observed;
use crate::release::record::{RecordError, Status};

/// The maximum number of events about single objects that one pass sends.
const MAX_NOTICES: usize = 10;

pub fn events(observed: &Observed, done: &Done, ctx: &Context) {
    let (name, revision) = (&observed.key.name, done.applied.revision);
    for (id, notice) in done.applied.notices.iter().take(MAX_NOTICES) {
        event(observed, ctx, notice.warning, notice.reason, format!("{id}: {}", ctx.show(observed, &notice.text)));
    }
    say_unusable(observed, ctx);
    if done.applied.chunks > 0 {
        let note = format!(
            "revision {revision} of release {name} is too large for one Secret and is stored in {} more: helm itself cannot read it",
            done.applied.chunks
        );
        event(observed, ctx, true, "ReleaseChunked", note);
    }
    let outside =
        observed.situation == Situation::Changed && observed.facts.history.last().is_some_and(|r| r.inputs.is_none());
    // The custom resource had no release of ours yet, so this release is not changed but continued.
    let adopted = outside && !observed.cr.status().contains_key("release");
    // If this pass does not finish the revision, another pass does, and that pass no longer sees the earlier state.
    let begun = done.error().is_none()
        || newest(observed, ctx).map(|r| r.revision) > observed.facts.history.last().map(|r| r.revision);
    if adopted && begun {
        let note = format!("release {name} existed and is continued from revision {revision}");
        event(observed, ctx, false, "ReleaseAdopted", note);
    } else if outside && begun && observed.corrupted.is_none() && !is_idle(done) {
        let note =
            format!("another client changed release {name}; the operator restores the state in the custom resource");
        event(observed, ctx, true, "ReleaseChangedOutside", note);
    }
    if let Some(note) = allow::describe(&observed.cr.refused)
        && is_news(observed, status::NOT_ALLOWED, &note)
    {
        event(observed, ctx, true, status::NOT_ALLOWED, note);
    }
    if let Some(error) = done.error() {
        let message = ctx.show(observed, &error.text());
        if !is_passing(observed, error, ctx) && is_news(observed, error.reason(), &message) {
            event(observed, ctx, true, error.reason(), message);
        }
        return;
    }
    if let Situation::Refused(refusal) = &observed.situation
        && is_news(observed, refusal.reason, &refusal.message)
    {
        event(observed, ctx, true, refusal.reason, refusal.message.clone());
    }
    if observed.situation == Situation::New && observed.cr.status().contains_key("release") {
        let note = format!("another client uninstalled release {name}; the operator installs it again");
        event(observed, ctx, true, "ReleaseChangedOutside", note);
    }
    if matches!(done.applied.verb, Verb::Install | Verb::Upgrade) {
        events_of_a_rendering(observed, done, ctx);
    }
    if done.applied.waiting.is_some() {
        return;
    }
    let reported = done.members().map(|seen| &seen.status).filter(|reported| reported.stopped);
    if let Some((reason, message)) = reported.and_then(|reported| reported.unready.as_ref())
        && is_news(observed, reason, message)
    {
        event(observed, ctx, true, reason, message.clone());
    }
    match done.applied.verb {
        Verb::Install => {
            event(observed, ctx, false, "Installed", format!("release {name} revision {revision} is installed"));
        }
        Verb::Upgrade => {
            event(observed, ctx, false, "Upgraded", format!("release {name} is upgraded to revision {revision}"));
        }
        Verb::Resume => match newest_operation(&observed.facts.history) {
            RevisionKind::Install => {
                event(observed, ctx, false, "Installed", format!("release {name} revision {revision} is installed"));
            }
            RevisionKind::Upgrade => {
                event(observed, ctx, false, "Upgraded", format!("release {name} is upgraded to revision {revision}"));
            }
            RevisionKind::Rollback => {
                let note = format!("release {name} is rolled back, as revision {revision}");
                event(observed, ctx, true, "RolledBack", note);
            }
        },
        Verb::Repair if adopted => {}
        Verb::Repair if !done.applied.changed.is_empty() || done.applied.pruned > 0 => {
            event(observed, ctx, false, "DriftRepaired", repaired(done));
        }
        Verb::RollBack => {
            let history = &observed.facts.history;
            let to = history.iter().rev().find(|r| r.status == Status::Deployed).map_or(0, |r| r.revision);
            let note =
                format!("the upgrade failed; release {name} is rolled back to revision {to}, as revision {revision}");
            event(observed, ctx, true, "RolledBack", note);
        }
        Verb::Abandon => {
            let note = format!("the installation failed; release {name} is uninstalled");
            event(observed, ctx, true, "Uninstalled", note);
        }
        _ => {}
    }
}

/// Sends the events that each rendering that becomes a revision needs.
fn events_of_a_rendering(observed: &Observed, done: &Done, ctx: &Context) {
    let unknown = done.applied.prepared.rendered.as_ref().map(|rendered| unknown_hooks::describe(&rendered.unknown));
    for note in unknown.into_iter().flatten().take(MAX_NOTICES) {
        event(observed, ctx, true, "UnknownHook", ctx.show(observed, &Text::foreign(note)));
    }
    for note in &done.applied.prepared.remarks {
        event(observed, ctx, true, "UnknownValue", ctx.show(observed, &Text::foreign(note.clone())));
    }
    for note in ctx.kinds.get(observed.key.kind).kind.overrides.notes(ctx.hide_overrides) {
        event(observed, ctx, true, "OverrideValuesInUse", note);
    }
}

/// Reports a record that could not be used.
fn say_unusable(observed: &Observed, ctx: &Context) {
    let Some(error) = &observed.corrupted else { return };
    let (reason, why) = match error {
        RecordError::OverLimit(why) => ("RecordNotVerified", format!("is over a limit ({why})")),
        _ => ("ReleaseCorrupted", "cannot be read".to_owned()),
    };
    let note = format!(
        "the record of release {} {why}; the operator takes nothing from it, and takes the release over from its live \
         objects",
        observed.key.name
    );
    event(observed, ctx, true, reason, note);
}

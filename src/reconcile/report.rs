//! Report: what happened, into status, events, log and metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::apply::{Outcome, cr_id};
use super::chart::Loaded;
use super::observe::{Observed, period};
use super::operations::Seen;
use super::queue::with_jitter;
use super::{Context, Error, FINALIZER, LEGACY_FINALIZER, Next, lookups, render};
use crate::cluster::cr::{Cr, CrObject};
use crate::cluster::events::Event;
use crate::kind::allow;
use crate::kind::crd::STATUS_REMEDY;
use crate::mask::{Text, WITHHELD};
use crate::plan::Verb;
use crate::plan::attempts;
use crate::plan::hooks::has_deletion_hooks;
use crate::plan::results;
use crate::plan::situation::{Operation, Situation, newest_operation};
use crate::plan::status::{self, Failure, Release, Report, patch, status};
use crate::plan::unknown_hooks;
use crate::release::live::Health;
use crate::release::object::ObjectId;
use crate::release::record::{ChartLabel, Record, Status};
use crate::release::secret::Revision;
use crate::render::{Manifest, Rendered};
use crate::telemetry::spans;

/// When the chart's custom resource definitions were created, the next look at them.
const SOON: Duration = Duration::from_millis(800);

/// How long until a release that waits is looked at again, if no event comes before.
const WAIT: Duration = Duration::from_secs(30);

/// After so many passes in a row that no answer helped, with half a minute of pauses between them, a custom resource is told that the API
/// server, or what stands behind it, is the trouble: a server of an aggregated API may be away for good.
const LASTING: u32 = 6;

/// Bytes of a manifest in a status; the API server takes a custom resource of 1.5 MiB.
const MAX_MANIFEST: usize = 512 * 1024;

/// Field of a status that is kept in memory only.
const NOT_KEPT: &str = "notKept";

/// Events about single objects that one pass sends.
const MAX_NOTICES: usize = 10;

/// Writes the report and says when the next pass is due.
pub async fn report(observed: &Observed, mut outcome: Outcome, ctx: &Context) -> Result<Next, Error> {
    log(observed, &outcome, ctx);
    count(observed, &outcome, ctx);
    if outcome.finished {
        ctx.pods.forget(&observed.key);
        ctx.looks.forget(&observed.key);
        ctx.sources.set_used(&observed.key, Vec::new());
        if observed.facts.spent && has_deletion_hooks(&outcome.prepared.desired.hooks) {
            let status = observed.cr.status();
            let why = status.get("lastAttempted").and_then(|l| l.get("reason")).and_then(Value::as_str);
            let note = format!(
                "release {} was uninstalled without its delete hooks: {}",
                observed.key.name,
                why.unwrap_or("they failed")
            );
            event(observed, ctx, true, "HooksSkipped", note);
        }
        event(observed, ctx, false, "Uninstalled", format!("release {} is uninstalled", observed.key.name));
        say_who_holds(observed, ctx).await?;
        return Ok(Next::Event);
    }
    let passing = outcome.error.as_ref().is_some_and(|e| is_passing(observed, e, ctx));
    let waits = matches!(observed.situation, Situation::Waiting | Situation::Leave);
    if !passing && !waits {
        write_status(observed, &outcome, ctx).await?;
    }
    events(observed, &outcome, ctx);
    let seen = outcome.operations.take();
    let next = following(observed, outcome, ctx)?;
    Ok(seen.map_or(next, |seen| sooner(next, &seen)))
}

/// Says in the status of a custom resource whose release is gone that finalizers of others hold it.
async fn say_who_holds(observed: &Observed, ctx: &Context) -> Result<(), Error> {
    let others = observed.cr.finalizers.iter().map(|finalizer| &**finalizer);
    let others: Vec<&str> = others.filter(|finalizer| ![FINALIZER, LEGACY_FINALIZER].contains(finalizer)).collect();
    if others.is_empty() {
        return Ok(());
    }
    let (old, now) = (observed.cr.status(), format!("{:.0}", jiff::Timestamp::now()));
    let new = status::uninstalled(&old, observed.cr.generation, &now, &others);
    let Some(patch) = patch(&old, &new) else { return Ok(()) };
    let (resource, id) = cr_id(observed, ctx).await?;
    let patch = json!({"metadata": {"uid": &*observed.cr.uid}, "status": patch});
    match ctx.cluster.merge::<Value>(&resource, &id, &patch, Some("status")).await {
        // It is gone meanwhile, or another one has its name.
        Err(e) if e.is_not_found() || e.is_conflict() => Ok(()),
        answer => Ok(answer.map(|_| ())?),
    }
}

/// Whether nothing is said of an error: the next pass knows better, or the API server is the trouble, and not for long yet.
fn is_passing(observed: &Observed, error: &Error, ctx: &Context) -> bool {
    error.is_stale() || error.is_outage() && ctx.queue.failures(&observed.key) < LASTING
}

/// With when the operation that runs is looked at, or when a schedule is due.
fn sooner(next: Next, seen: &Seen) -> Next {
    let until = |at: i64| {
        let left = at.saturating_sub(jiff::Timestamp::now().as_second());
        Duration::from_secs(u64::try_from(left).unwrap_or(0))
    };
    match (next, seen.next, seen.due) {
        (Next::Event, Some(at), _) | (Next::Event, None, Some(at)) => Next::After(until(at)),
        (Next::After(after), Some(at), _) | (Next::After(after), None, Some(at)) => Next::After(after.min(until(at))),
        (Next::Rest { period, .. }, Some(at), _) => Next::After(period.min(until(at))),
        (Next::Rest { period, due }, None, also) => Next::Rest { period, due: due.into_iter().chain(also).min() },
        (next, None, None) => next,
    }
}

/// When the next pass is due, but for operations.
fn following(observed: &Observed, outcome: Outcome, ctx: &Context) -> Result<Next, Error> {
    let waits = matches!(observed.situation, Situation::Waiting | Situation::Leave);
    match outcome.error {
        // What follows, such as a rollback, is another pass.
        Some(_) if spent(observed, ctx) => Ok(Next::After(Duration::ZERO)),
        Some(error) => Err(error),
        None if observed.situation == Situation::Waiting && observed.facts.pausing => {
            Ok(Next::After(with_jitter(Duration::from_millis(observed.pause))))
        }
        None if outcome.waiting.is_some() => {
            let until = outcome.waiting.map_or(0, |w| w.until);
            let left = u64::try_from(until - jiff::Timestamp::now().as_second()).unwrap_or(0);
            Ok(Next::After(Duration::from_secs(left)))
        }
        None if outcome.verb == Verb::CreateCrds => Ok(Next::After(SOON)),
        // For caches an event comes; somebody's helm may have died.
        None if waits => Ok(Next::After(WAIT)),
        None if let Some(next) = outcome.members.and_then(|seen| seen.next) => Ok(Next::After(next)),
        None => {
            let due = ctx.contests.with(&observed.key, |contest, now| contest.due(now));
            let due = due.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs);
            let period = period(&observed.facts.switches, &observed.key, ctx);
            let Observed { key, owner, chart, extras, .. } = observed;
            let looked_up = lookups::look(key, owner, chart.as_deref(), &extras.used, ctx);
            let soon = due.into_iter().chain(looked_up.wait).min();
            Ok(if soon.is_some() || looked_up.reads {
                Next::After(soon.map_or(period, |soon| soon.min(period)))
            } else {
                Next::Rest { period, due: renewal(observed, ctx) }
            })
        }
    }
}

/// Whether the status that was just written says that nothing more is tried.
fn spent(observed: &Observed, ctx: &Context) -> bool {
    let status = ctx.cache.cr(&observed.key).map(|cr| cr.status()).unwrap_or_default();
    !observed.facts.spent && attempts::read(&status, &observed.attempt).spent
}

/// When the chart is to be rendered again, if it said so, in seconds since 1970.
fn renewal(observed: &Observed, ctx: &Context) -> Option<i64> {
    let (at, now) = (newest(observed, ctx)?.render_after?, jiff::Timestamp::now().as_second());
    // What is over was seen by the pass that ends here, which could do nothing about it.
    (at >= now).then(|| at.max(now + 1))
}

/// The newest revision, as it is at the end of the pass.
fn newest(observed: &Observed, ctx: &Context) -> Option<Revision> {
    ctx.cache.history(&observed.owner.release_namespace, &observed.owner.release_name).pop()
}

async fn write_status(observed: &Observed, outcome: &Outcome, ctx: &Context) -> Result<(), Error> {
    // The pass may have written the custom resource (finalizer), and others may have since.
    let Some(cr) = ctx.cache.cr(&observed.key).filter(|cr| cr.uid == observed.cr.uid) else { return Ok(()) };
    let old = cr.status();
    let owner = &observed.owner;
    let history = ctx.cache.history(&owner.release_namespace, &owner.release_name);
    let deployed =
        history.iter().rev().find(|r| r.status == Status::Deployed).filter(|_| observed.facts.foreign.is_none());
    let newest = history.last().filter(|_| observed.facts.foreign.is_none());
    let rendered = outcome.prepared.rendered.as_ref().filter(|_| outcome.error.is_none());
    let record = observed.record.as_ref().ok().and_then(Option::as_ref);
    let chart = match (&observed.chart, rendered, record) {
        (Some(chart), Some(_), _) => {
            let meta = &chart.chart.metadata;
            Some(ChartLabel {
                name: meta.name.clone(),
                version: meta.version.clone(),
                app_version: meta.app_version.clone(),
            })
        }
        (_, None, Some(record)) if deployed.is_some_and(|r| r.revision == record.revision()) => Some(record.chart()),
        _ => None,
    };
    // Masked before anything is cut: half a secret would not be found.
    let failure = outcome.error.as_ref().map(|error| failure(error, observed, ctx));
    let objects = objects(observed, newest, ctx).await;
    let notes = rendered.map(|r| r.notes.as_str()).or(record.map(Record::notes));
    let can_mask = observed.extras.sources.is_empty() || ctx.masks.knows_sources(&observed.key);
    let notes = notes.filter(|_| can_mask).map(|notes| ctx.masks.clean(&observed.key, notes));
    let waiting = outcome.waiting.as_ref().map(|waiting| ctx.show(observed, &waiting.what));
    let now = format!("{:.0}", jiff::Timestamp::now());
    let told = outcome.operations.as_ref().map(|seen| &seen.told);
    let mut new = status(&Report {
        old: &old,
        generation: observed.cr.generation,
        now: &now,
        situation: &observed.situation,
        verb: outcome.verb,
        failure: failure.as_ref(),
        inputs: observed.facts.inputs.as_deref(),
        attempt: &observed.attempt,
        asked: observed.facts.switches.reconcile_at.as_deref().filter(|_| !told.is_some_and(|told| told.holds)),
        dry_run: outcome.dry_run.as_deref(),
        repaired: &repaired(outcome),
        release: deployed.map(|r| Release {
            name: &owner.release_name,
            namespace: &owner.release_namespace,
            revision: r.revision,
            chart,
            manifest: match rendered.filter(|_| newest.is_some_and(|newest| newest.revision == r.revision)) {
                _ if !ctx.show_manifest => status::Manifest::Hidden,
                Some(rendered) if can_mask => manifest(rendered, observed, ctx),
                _ => status::Manifest::AsBefore,
            },
        }),
        notes: notes.as_deref(),
        waiting: waiting.as_deref(),
        objects: &objects,
        blind: observed.blind.as_deref(),
        members: outcome.members.as_ref().map(|seen| &seen.told),
        operations: told,
        refused: allow::describe(&observed.cr.refused).as_deref(),
    });
    let has_results = |chart: &Loaded| chart.chart.metadata.annotation(results::CHART) == Some("pods");
    if observed.chart.as_deref().is_some_and(has_results)
        && let Some(ended) = ctx.results.of(&observed.key, &cr, &ctx.cache)
    {
        enter_result(&mut new, &ended, observed, ctx).await;
    }
    let contested = ctx.contests.with(&observed.key, |contest, _| contest.describe());
    status::contested(&mut new, observed.cr.generation, &now, contested.as_deref());
    let Some(patch) = patch(&old, &new) else { return Ok(()) };
    send_status(observed, new, &patch, ctx).await
}

/// Patches the status, and enters what the API server made of it.
async fn send_status(observed: &Observed, new: Map<String, Value>, patch: &Value, ctx: &Context) -> Result<(), Error> {
    let (resource, id) = cr_id(observed, ctx).await?;
    // The uid: a custom resource of the same name that was made since has its own status.
    let patch = json!({"metadata": {"uid": &*observed.cr.uid}, "status": patch});
    match ctx.cluster.merge::<CrObject>(&resource, &id, &patch, Some("status")).await {
        Ok(answer) => {
            if let Some(cr) = Cr::read(answer, ctx.allow(&observed.key)) {
                let kept = cr.status();
                let newer = ctx.cache.put_cr(observed.key.clone(), cr);
                if new.keys().any(|key| !kept.contains_key(key)) {
                    not_kept(observed, new, "its schema leaves out fields of the status", ctx);
                }
                if newer {
                    // The answer shows a change that no watch event has shown yet.
                    ctx.queue.add(observed.key.clone());
                }
            }
            Ok(())
        }
        Err(e) if e.is_not_found() => {
            // Or the custom resource is gone.
            if matches!(ctx.cluster.get(&resource, &id).await, Ok(Some(_))) {
                not_kept(observed, new, "it has no subresource status", ctx);
            }
            Ok(())
        }
        // Also a conflict: what was to be said is not said yet. It may have been, when only the answer was lost: the next pass must
        // know, or it takes a spent attempt for one that goes on.
        Err(e) => {
            if e.is_outage()
                && let Ok(Some(found)) = ctx.cluster.get(&resource, &id).await
                && let Some(cr) =
                    serde_json::from_value(found).ok().and_then(|cr| Cr::read(cr, ctx.allow(&observed.key)))
                && cr.uid == observed.cr.uid
            {
                ctx.cache.put_cr(observed.key.clone(), cr);
            }
            Err(e.into())
        }
    }
}

/// The definition of the kind does not let a custom resource keep its status. What is said there is kept in memory, so that attempts are
/// counted and a failure is news once; a restart begins again.
fn not_kept(observed: &Observed, mut status: Map<String, Value>, why: &str, ctx: &Context) {
    let is_news = !observed.cr.status().contains_key(NOT_KEPT);
    status.insert(NOT_KEPT.into(), true.into());
    ctx.cache.keep_status(&observed.key, &observed.cr.uid, &status);
    if is_news && ctx.cache.cr(&observed.key).is_some() {
        let note = format!(
            "the status of this custom resource is lost, because of the CustomResourceDefinition of {}: {why}. {STATUS_REMEDY}",
            observed.owner.gvk.kind_group()
        );
        tracing::warn!(name = %observed.key.name, namespace = %observed.key.namespace, "{note}");
        event(observed, ctx, true, "StatusNotKept", note);
    }
}

/// Enters how a pod ended. What it says of that is of others.
async fn enter_result(status: &mut Map<String, Value>, ended: &results::Ended, observed: &Observed, ctx: &Context) {
    let before = status.clone();
    results::enter(status, ended);
    let is_new =
        |field: &str, value: &Value| before.get(field) != Some(value) && !["result", "succeeded"].contains(&field);
    let mut new: Vec<_> = status.iter_mut().filter(|(field, value)| is_new(field, value)).collect();
    let known = new.is_empty() || render::learn(observed, ctx).await;
    for (_, value) in &mut new {
        if known {
            ctx.masks.clean_value(&observed.key, value);
        } else {
            **value = WITHHELD.into();
        }
    }
}

/// What the status shows of what is deployed: not the Secrets, and nothing when the custom resource would become too large.
fn manifest(rendered: &Rendered, observed: &Observed, ctx: &Context) -> status::Manifest {
    let mut shown = rendered.clone();
    let is_secret = |m: &Manifest| m.kind == "Secret" || m.kind.ends_with("List") && m.text.contains("Secret");
    shown.manifests.retain(|manifest| !is_secret(manifest));
    let text = Some(shown.manifest()).filter(|text| text.len() <= MAX_MANIFEST);
    let text = text.and_then(|text| ctx.masks.replace(&observed.key, &text));
    text.map_or(status::Manifest::Hidden, status::Manifest::Text)
}

/// The objects of the newest revision as the caches know them now; those that no watch shows yet are left out.
async fn objects(
    observed: &Observed,
    newest: Option<&crate::release::secret::Revision>,
    ctx: &Context,
) -> BTreeMap<ObjectId, Option<Health>> {
    let Some(inventory) = newest.and_then(|r| r.inventory.as_ref()) else {
        ctx.pods.forget(&observed.key);
        return BTreeMap::new();
    };
    let watches: Vec<_> = inventory.0.keys().map(|id| ctx.cache.watch_key(&id.gvk, id.namespace.as_ref())).collect();
    let (live, unsynced) = ctx.cache.objects_of(&observed.key, inventory.0.keys(), watches);
    let mut objects = BTreeMap::new();
    for id in inventory.0.keys() {
        match live.get(id) {
            Some(live) if live.deleting => {
                objects.insert(id.clone(), Some(Health::Progressing("it is being deleted".into())));
            }
            Some(live) => {
                objects.insert(id.clone(), Some(live.health.clone()));
            }
            // It ran to its end, and is not missed.
            None if inventory.0[id].finished => {
                objects.insert(id.clone(), Some(Health::Ready));
            }
            None if unsynced.contains(&ctx.cache.watch_key(&id.gvk, id.namespace.as_ref())) => {}
            None => {
                objects.insert(id.clone(), None);
            }
        }
    }
    ctx.pods.explain(&observed.key, &mut objects, &live);
    let is_foreign = |health: &Health| health.message().is_some_and(Text::is_foreign);
    if objects.values().flatten().any(is_foreign) {
        let known = render::learn(observed, ctx).await;
        for health in objects.values_mut().flatten() {
            if let Health::Failed(text) | Health::Progressing(text) = health {
                *text = Text::own(if known { ctx.show(observed, text) } else { text.to_string() });
            }
        }
    }
    objects
}

fn failure(error: &Error, observed: &Observed, ctx: &Context) -> Failure {
    Failure { reason: error.reason(), message: ctx.show(observed, &error.text()), retry: error.retry() }
}

fn events(observed: &Observed, outcome: &Outcome, ctx: &Context) {
    let (name, revision) = (&observed.key.name, outcome.revision);
    for (id, notice) in outcome.notices.iter().take(MAX_NOTICES) {
        event(observed, ctx, notice.warning, notice.reason, format!("{id}: {}", ctx.show(observed, &notice.text)));
    }
    if observed.corrupted {
        let note =
            format!("the record of release {name} cannot be read; the release was taken over from its live objects");
        event(observed, ctx, true, "ReleaseCorrupted", note);
    }
    if outcome.chunks > 0 {
        let note = format!(
            "revision {revision} of release {name} is too large for one Secret and is stored in {} more: helm itself cannot read it",
            outcome.chunks
        );
        event(observed, ctx, true, "ReleaseChunked", note);
    }
    let outside =
        observed.situation == Situation::Changed && observed.facts.history.last().is_some_and(|r| r.inputs.is_none());
    // The custom resource has had no release of ours yet: this one is not changed but continued.
    let adopted = outside && !observed.cr.status().contains_key("release");
    // A revision that was begun is finished by another pass, which does not see what came before.
    let begun = outcome.error.is_none()
        || newest(observed, ctx).map(|r| r.revision) > observed.facts.history.last().map(|r| r.revision);
    if adopted && begun {
        let note = format!("release {name} existed and is continued from revision {revision}");
        event(observed, ctx, false, "ReleaseAdopted", note);
    } else if outside && begun && !observed.corrupted && !is_idle(outcome) {
        let note =
            format!("release {name} was changed by somebody else; it becomes again what the custom resource says");
        event(observed, ctx, true, "ReleaseChangedOutside", note);
    }
    if let Some(note) = allow::describe(&observed.cr.refused)
        && is_news(observed, status::NOT_ALLOWED, &note)
    {
        event(observed, ctx, true, status::NOT_ALLOWED, note);
    }
    if let Some(error) = &outcome.error {
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
        let note = format!("release {name} was uninstalled by somebody else; it is installed again");
        event(observed, ctx, true, "ReleaseChangedOutside", note);
    }
    if matches!(outcome.verb, Verb::Install | Verb::Upgrade) {
        events_of_a_rendering(observed, outcome, ctx);
    }
    if outcome.waiting.is_some() {
        return;
    }
    let told = outcome.members.as_ref().map(|seen| &seen.told).filter(|told| told.stopped);
    if let Some((reason, message)) = told.and_then(|told| told.unready.as_ref())
        && is_news(observed, reason, message)
    {
        event(observed, ctx, true, reason, message.clone());
    }
    match outcome.verb {
        Verb::Install => {
            event(observed, ctx, false, "Installed", format!("release {name} revision {revision} is installed"));
        }
        Verb::Upgrade => {
            event(observed, ctx, false, "Upgraded", format!("release {name} is upgraded to revision {revision}"));
        }
        Verb::Resume => match newest_operation(&observed.facts.history) {
            Operation::Install => {
                event(observed, ctx, false, "Installed", format!("release {name} revision {revision} is installed"));
            }
            Operation::Upgrade => {
                event(observed, ctx, false, "Upgraded", format!("release {name} is upgraded to revision {revision}"));
            }
            Operation::Rollback => {
                let note = format!("release {name} is rolled back, as revision {revision}");
                event(observed, ctx, true, "RolledBack", note);
            }
        },
        Verb::Repair if adopted => {}
        Verb::Repair if !outcome.changed.is_empty() || outcome.pruned > 0 => {
            event(observed, ctx, false, "DriftRepaired", repaired(outcome));
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

/// What deserves an event of each rendering that becomes a revision.
fn events_of_a_rendering(observed: &Observed, outcome: &Outcome, ctx: &Context) {
    let unknown = outcome.prepared.rendered.as_ref().map(|rendered| unknown_hooks::describe(&rendered.unknown));
    for note in unknown.into_iter().flatten().take(MAX_NOTICES) {
        event(observed, ctx, true, "UnknownHook", ctx.show(observed, &Text::foreign(note)));
    }
    for note in ctx.kinds[observed.key.kind].kind.overrides.notes(ctx.hide_overrides) {
        event(observed, ctx, true, "OverrideValuesInUse", note);
    }
}

/// Whether a repair found everything as it should be: `helm test` writes a record anew and changes nothing.
fn is_idle(outcome: &Outcome) -> bool {
    outcome.verb == Verb::Repair && outcome.changed.is_empty() && outcome.pruned == 0
}

/// What a repair did; empty for nothing.
fn repaired(outcome: &Outcome) -> String {
    let changed: Vec<String> = outcome.changed.iter().take(5).map(ToString::to_string).collect();
    let mut texts = Vec::new();
    if !changed.is_empty() {
        texts.push(format!("repaired: {}", changed.join(", ")));
    }
    if outcome.pruned > 0 {
        texts.push(format!("removed: {} objects that the release does not have", outcome.pruned));
    }
    texts.join("; ")
}

/// Whether the status did not say so before: a failure that repeats makes one event.
pub fn is_news(observed: &Observed, reason: &str, message: &str) -> bool {
    let status = observed.cr.status();
    let conditions = status.get("conditions").and_then(Value::as_array);
    let message = crate::plan::status::bound(message);
    !conditions.into_iter().flatten().any(|c| {
        c.get("reason").and_then(Value::as_str) == Some(reason)
            && c.get("message").and_then(Value::as_str) == Some(message.as_str())
    })
}

/// Sends an event about a custom resource. In its note is nothing secret: our own words, or a text as [`Context::show`] gives it.
pub fn event(observed: &Observed, ctx: &Context, warning: bool, reason: &'static str, note: String) {
    ctx.events.send(Event {
        gvk: observed.owner.gvk.clone(),
        namespace: observed.key.namespace.to_string(),
        name: observed.key.name.to_string(),
        uid: observed.cr.uid.to_string(),
        warning,
        reason,
        note,
    });
}

fn count(observed: &Observed, outcome: &Outcome, ctx: &Context) {
    let controller = &ctx.kinds[observed.key.kind].controller;
    let ended = outcome.error.as_ref().map_or("success", Error::reason);
    let verb = format!("{:?}", outcome.verb);
    ctx.metrics.outcome(controller, &verb, ended);
    spans::ended(&verb.to_lowercase(), ended, outcome.revision);
    if outcome.verb == Verb::Repair {
        ctx.metrics.repaired(controller, outcome.changed.len() + outcome.pruned);
    }
}

fn log(observed: &Observed, outcome: &Outcome, ctx: &Context) {
    let (kind, namespace, name) = (&observed.owner.gvk.kind, &observed.key.namespace, &observed.key.name);
    let (verb, revision) = (outcome.verb, outcome.revision);
    if let Some(error) = &outcome.error {
        let (reason, text) = (error.reason(), ctx.show(observed, &error.text()));
        if error.is_stale() {
            tracing::debug!(%kind, %namespace, %name, ?verb, reason, error = text, "pass repeated");
        } else {
            tracing::warn!(%kind, %namespace, %name, ?verb, reason, error = text, "pass failed");
        }
    } else if verb != Verb::Rest {
        let (changed, pruned) = (outcome.changed.len(), outcome.pruned);
        tracing::info!(%kind, %namespace, %name, ?verb, revision, changed, pruned, "pass done");
    }
}

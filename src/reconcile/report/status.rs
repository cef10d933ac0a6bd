//! Writes the status.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::done::Done;
use super::facts::repaired;
use crate::cluster::cr::{Cr, CrObject};
use crate::crd::STATUS_REMEDY;
use crate::kind::allow;
use crate::mask::{Text, WITHHELD};
use crate::object::ObjectId;
use crate::plan::fields::{self, FoundField, Seen};
use crate::plan::objects::names_owner;
use crate::plan::results;
use crate::plan::status;
use crate::plan::status::{Failure, Release, Report, patch, status};
use crate::reconcile::address::cr_id;
use crate::reconcile::charts::Loaded;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::notify::event;
use crate::reconcile::observed::Observed;
use crate::reconcile::render::secrets::learn;
use crate::release::live::{Health, Live, Scale};
use crate::release::owner::{FINALIZER, LEGACY_FINALIZER};
use crate::release::record::{ChartLabel, Record, Status};
use crate::release::secret::Revision;
use crate::release::status_fields::StatusFields;
use crate::render::{Manifest, Rendered};

/// The maximum size of a manifest in a status, in bytes. The API server accepts custom resources of up to 1.5 MiB.
const MAX_MANIFEST: usize = 512 * 1024;

/// A field of the status that exists in memory only.
const NOT_KEPT: &str = "notKept";

/// Reports in the status of a custom resource whose release is uninstalled that other finalizers block its deletion.
pub async fn say_who_holds(observed: &Observed, ctx: &Context) -> Result<(), Error> {
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
        // The custom resource is deleted, or a new one has its name.
        Err(e) if e.is_not_found() || e.is_conflict() => Ok(()),
        answer => Ok(answer.map(|_| ())?),
    }
}

pub async fn write_status(observed: &Observed, done: &Done, ctx: &Context) -> Result<(), Error> {
    // This pass may have changed the custom resource (its finalizer), and so may others since.
    let Some(cr) = ctx.cache.cr(&observed.key).filter(|cr| cr.uid == observed.cr.uid) else { return Ok(()) };
    let old = cr.status();
    let owner = &observed.owner;
    let history = ctx.cache.history(&owner.release_namespace, &owner.release_name);
    let deployed =
        history.iter().rev().find(|r| r.status == Status::Deployed).filter(|_| observed.facts.foreign.is_none());
    let newest = history.last().filter(|_| observed.facts.foreign.is_none());
    let rendered = done.applied.prepared.rendered.as_ref().filter(|_| done.error().is_none());
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
    // The text is masked before anything is cut, since half a secret would not be found.
    let failure = done.error().map(|error| failure(error, observed, ctx));
    let (objects, scale) = objects(observed, newest, ctx).await;
    let fields = match newest {
        Some(newest) => fields(observed, done, newest, &old, ctx).await,
        None => None,
    };
    let notes = rendered.map(|r| r.notes.as_str()).or(record.map(Record::notes));
    let can_mask = observed.extras.sources.is_empty() || ctx.memory.masks.knows_sources(&observed.key);
    let notes = notes.filter(|_| can_mask).map(|notes| ctx.memory.masks.clean(&observed.key, notes));
    let waiting = done.applied.waiting.as_ref().map(|waiting| ctx.show(observed, &waiting.what));
    let now = format!("{:.0}", jiff::Timestamp::now());
    let reported = done.operations().map(|seen| &seen.status);
    let undelivered = ctx.undelivered.of(&observed.key);
    let rolls_out = ctx.kinds.get(observed.key.kind).kind.rollout.is_some();
    let mut new = status(&Report {
        old: &old,
        asleep: observed.facts.asleep,
        generation: observed.cr.generation,
        now: &now,
        situation: &observed.situation,
        verb: done.applied.verb,
        failure: failure.as_ref(),
        inputs: observed.facts.inputs.as_deref(),
        attempt: &observed.attempt,
        chart: observed.chart.as_deref().filter(|_| rolls_out).map(|chart| &*chart.digest),
        asked: observed
            .facts
            .switches
            .reconcile_at
            .as_deref()
            .filter(|_| !reported.is_some_and(|reported| reported.holds)),
        dry_run: done.applied.dry_run.as_deref(),
        repaired: &repaired(done),
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
        members: done.members().map(|seen| &seen.status),
        operations: reported,
        refused: allow::describe(&observed.cr.refused).as_deref(),
        undelivered: undelivered.as_deref(),
        dependencies: &observed.linked.needed,
        fields: fields.as_deref(),
        scale: scale.as_deref(),
    });
    let has_results = |chart: &Loaded| chart.chart.metadata.annotation(results::CHART) == Some("pods");
    if observed.chart.as_deref().is_some_and(has_results)
        && let Some(ended) = ctx.watching.results.of(&observed.key, &cr)
    {
        enter_result(&mut new, &ended, observed, ctx).await;
    }
    let contested = ctx.memory.contests.with(&observed.key, |contest, _| contest.describe());
    status::contested(&mut new, observed.cr.generation, &now, contested.as_deref());
    let Some(patch) = patch(&old, &new) else { return Ok(()) };
    send_status(observed, new, &patch, ctx).await
}

/// Patches the status, and puts the API server's answer into the cache.
async fn send_status(observed: &Observed, new: Map<String, Value>, patch: &Value, ctx: &Context) -> Result<(), Error> {
    let (resource, id) = cr_id(observed, ctx).await?;
    // The uid protects the status of a newer custom resource of the same name.
    let patch = json!({"metadata": {"uid": &*observed.cr.uid}, "status": patch});
    match ctx.cluster.merge::<CrObject>(&resource, &id, &patch, Some("status")).await {
        Ok(answer) => {
            if let Some(cr) = Cr::read(answer, &ctx.allow(&observed.key)) {
                let kept = cr.status();
                let newer = ctx.enter_cr(observed.key.clone(), cr);
                if new.keys().any(|key| !kept.contains_key(key)) {
                    not_kept(observed, new, "its schema leaves out fields of the status", ctx);
                }
                if newer {
                    // The answer contains a change for which no watch event has arrived yet.
                    ctx.queue.add(observed.key.clone());
                }
            }
            Ok(())
        }
        Err(e) if e.is_not_found() => {
            // The other reason would be that the custom resource is deleted.
            if matches!(ctx.cluster.get(&resource, &id).await, Ok(Some(_))) {
                not_kept(observed, new, "it has no subresource status", ctx);
            }
            Ok(())
        }
        // This includes a conflict: the status is not written yet. If only the answer was lost, it is written, and the
        // next pass has to know, or it would take a spent attempt for one that continues.
        Err(e) => {
            if e.is_outage()
                && let Ok(Some(found)) = ctx.cluster.get(&resource, &id).await
                && let Some(cr) =
                    serde_json::from_value(found).ok().and_then(|cr| Cr::read(cr, &ctx.allow(&observed.key)))
                && cr.uid == observed.cr.uid
            {
                ctx.enter_cr(observed.key.clone(), cr);
            }
            Err(e.into())
        }
    }
}

/// Handles a kind whose definition does not keep the status. The status is kept in memory, so that attempts are counted
/// and a failure is reported only once. After a restart this starts from the beginning.
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

/// Adds the result of a pod to the status. Its text comes from other authors and is masked.
async fn enter_result(status: &mut Map<String, Value>, ended: &results::Ended, observed: &Observed, ctx: &Context) {
    let before = status.clone();
    results::enter(status, ended);
    let is_new =
        |field: &str, value: &Value| before.get(field) != Some(value) && !["result", "succeeded"].contains(&field);
    let mut new: Vec<_> = status.iter_mut().filter(|(field, value)| is_new(field, value)).collect();
    let known = new.is_empty() || learn(observed, ctx).await;
    for (_, value) in &mut new {
        if known {
            ctx.memory.masks.clean_value(&observed.key, value);
        } else {
            **value = WITHHELD.into();
        }
    }
}

/// The deployed manifest for the status: without Secrets, and hidden if the custom resource would become too large.
fn manifest(rendered: &Rendered, observed: &Observed, ctx: &Context) -> status::Manifest {
    let mut shown = rendered.clone();
    let is_secret = |m: &Manifest| m.kind == "Secret" || m.kind.ends_with("List") && m.text.contains("Secret");
    shown.manifests.retain(|manifest| !is_secret(manifest));
    let text = Some(shown.manifest()).filter(|text| text.len() <= MAX_MANIFEST);
    let text = text.and_then(|text| ctx.memory.masks.replace(&observed.key, &text));
    text.map_or(status::Manifest::Hidden, status::Manifest::Text)
}

/// The health of the newest revision's objects, as the caches have them now. Objects whose watch is not complete are
/// left out.
pub async fn objects(
    observed: &Observed,
    newest: Option<&crate::release::secret::Revision>,
    ctx: &Context,
) -> (BTreeMap<ObjectId, Option<Health>>, Option<Box<Scale>>) {
    let Some(inventory) = newest.and_then(|r| r.inventory.as_ref()) else {
        ctx.watching.pods.forget(&observed.key);
        return (BTreeMap::new(), None);
    };
    let watches: Vec<_> = inventory.0.keys().map(|id| ctx.cache.watch_key(&id.gvk, id.namespace.as_ref())).collect();
    let (live, unsynced) = ctx.cache.objects_of(&observed.key, inventory.0.keys(), watches);
    let scale = scale(observed, &live, ctx);
    let mut objects = BTreeMap::new();
    for id in inventory.0.keys() {
        match live.get(id) {
            Some(live) if live.deleting => {
                objects.insert(id.clone(), Some(Health::Progressing("it is being deleted".into())));
            }
            Some(live) => {
                objects.insert(id.clone(), Some(live.health.clone()));
            }
            // The object ran to its end, so it is not missing.
            None if inventory.0[id].finished => {
                objects.insert(id.clone(), Some(Health::Ready));
            }
            None if unsynced.contains(&ctx.cache.watch_key(&id.gvk, id.namespace.as_ref())) => {}
            None => {
                objects.insert(id.clone(), None);
            }
        }
    }
    ctx.watching.pods.explain(&observed.key, &mut objects, &live);
    let is_foreign = |health: &Health| health.message().is_some_and(Text::is_foreign);
    if objects.values().flatten().any(is_foreign) {
        let known = learn(observed, ctx).await;
        for health in objects.values_mut().flatten() {
            if let Health::Failed(text) | Health::Progressing(text) = health {
                *text = Text::own(if known { ctx.show(observed, text) } else { text.to_string() });
            }
        }
    }
    (objects, scale)
}

/// The fields that the chart names, from what the caches have now. `None` if the status keeps what it has: another
/// client may have written the record, and the next pass compares it.
async fn fields(
    observed: &Observed,
    done: &Done,
    newest: &Revision,
    old: &Map<String, Value>,
    ctx: &Context,
) -> Option<Vec<(String, FoundField)>> {
    let trusted = ctx.memory.trusted.get(&observed.owner, newest);
    let document = newest.status_fields.as_deref().and_then(StatusFields::decode).unwrap_or_default();
    let document = if trusted.as_ref().is_some_and(|left_out| left_out.status_fields) {
        StatusFields::default()
    } else {
        document
    };
    let namespace = &observed.owner.release_namespace;
    if trusted.is_some() {
        read_fields(&document, namespace, ctx).await;
    }
    let listed = newest.inventory.iter().flat_map(|inventory| inventory.0.keys());
    let live = ctx.cache.objects(&observed.key, listed);
    let members = done.members().map(|seen| &seen.status);
    let seen = Seen { namespace, inventory: newest.inventory.as_ref(), live: &live, members };
    let mut found = fields::evaluate(&document, &seen, |live| names_owner(&observed.facts, live));
    if !fields::is_news(&found, old) {
        return Some(found);
    }
    trusted?;
    // Text from templates and objects may quote a Secret.
    let is_new = |name: &str, value: &Value| old.get(name) != Some(value);
    let known = learn(observed, ctx).await;
    for (name, found) in &mut found {
        match found {
            FoundField::Is(value) if known => ctx.memory.masks.clean_value(&observed.key, value),
            FoundField::Is(value) if is_new(name, value) => *found = FoundField::Unknown,
            _ => {}
        }
    }
    Some(found)
}

/// Reads the objects that were known before the document named their fields.
async fn read_fields(document: &StatusFields, namespace: &str, ctx: &Context) {
    for id in ctx.cache.not_looked_at(document, namespace) {
        let Ok(Some(resource)) = ctx.discovery.resolve(&id.gvk).await else { continue };
        match ctx.cluster.get(&resource, &id).await {
            Ok(Some(object)) => drop(ctx.cache.wrote_object(&id.gvk, &object)),
            Ok(None) => {}
            Err(error) => tracing::debug!(object = %id, %error, "an object that the status shows cannot be read"),
        }
    }
}

/// The size of the release's only workload, where the API server has a subresource `scale` that shows it.
fn scale(observed: &Observed, live: &BTreeMap<ObjectId, Live>, ctx: &Context) -> Option<Box<Scale>> {
    let shown = format!("{}/Scale", observed.owner.gvk.api_version());
    if !ctx.discovery.info().api_versions.contains(&shown) {
        return None;
    }
    let mut found = live.values().filter_map(|live| live.shown.scale.as_ref());
    let scale = found.next()?;
    found.next().is_none().then(|| scale.clone())
}

pub fn failure(error: &Error, observed: &Observed, ctx: &Context) -> Failure {
    Failure { reason: error.reason(), message: ctx.show(observed, &error.text()), retry: error.retry() }
}

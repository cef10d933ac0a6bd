//! A pass that writes nothing: it shows a person the work of the next pass over one custom resource.
//!
//! The steps are those of [`pass`](super::pass): observe, verify, render and plan are the same code. Instead of `apply`, each
//! object is applied as a dry run. The client refuses every other write.
//!
//! # Caveats
//! - A dry run does not take over the fields that Helm owned, so a field that the chart has dropped may still be shown.
//! - The steps of members and of operations follow what they observe in their applications. They are not asked here.

use std::sync::Arc;
use std::time::Duration;

use kube::Config;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::apply::objects::{Objects, Tried};
use super::charts::{Loaded, Served};
use super::context::Context;
use super::controller::{Controller, ControllerSettings};
use super::journal::Journal;
use super::observe::observe;
use super::observed::Observed;
use super::render::{Prepared, crds, render, secrets};
use super::tasks::Tasks;
use super::trust::{Verified, verify};
use super::{operations, scope};
use crate::cluster::cache::ReleaseKey;
use crate::cluster::cr::{Cr, CrObject};
use crate::kind::Kind;
use crate::mask::secret_data::hide;
use crate::mask::{Secrets, Text};
use crate::members::drivers::Drivers;
use crate::names;
use crate::object::{Gvk, ObjectId};
use crate::plan::crds::CrdAction;
use crate::plan::hooks::HookEvent;
use crate::plan::situation::{RevisionKind, Situation, newest_operation, operation};
use crate::plan::{Desired, Plan, PlanStep, Verb, plan};
use crate::telemetry::metrics::Metrics;
use crate::template::yaml;

/// How long the caches may take to know the release.
const PATIENCE: Duration = Duration::from_secs(20);

/// The pause between two checks of the caches without an event.
const LOOK: Duration = Duration::from_millis(100);

/// The uid of a custom resource that does not exist yet.
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

/// The subject of a preview.
pub struct PreviewTarget {
    /// The kinds of `watches.yaml`, of which the custom resource has one: it may need custom resources of the others.
    pub kinds: Vec<Kind>,
    /// The kind of the custom resource.
    pub gvk: Gvk,
    /// The chart, where it is not the one that the kind names.
    pub chart: Option<Arc<Loaded>>,
    /// Namespace of the custom resource; empty for a cluster-scoped one.
    pub namespace: String,
    pub name: String,
    /// Namespace of its release.
    pub release_namespace: String,
    /// The custom resource as it would be, where it is not the one that exists.
    pub changed: Option<Value>,
}

/// The work of the next pass. Nothing in it is secret.
#[derive(Debug)]
pub struct Preview {
    /// The state of the release, in a word and a sentence.
    pub state: (&'static str, String),
    /// The purpose of the next pass.
    pub verb: Verb,
    /// The revision that it makes or works on.
    pub revision: u64,
    /// Its writes in their order.
    pub steps: Vec<String>,
    /// The hooks of the whole operation in their order, each with its event.
    pub hooks: Vec<(String, String)>,
    /// The objects that the whole operation touches.
    pub changes: Vec<ObjectChange>,
    /// Objects that stay as they are.
    pub unchanged: usize,
    /// The plan of members or of an operation that is being carried out, as the status has it.
    pub running: Option<Value>,
    /// Further notes.
    pub notes: Vec<String>,
    /// Why it cannot continue, if it cannot.
    pub error: Option<String>,
}

/// The change of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It does not exist.
    Created,
    /// Some fields change.
    Changed,
    /// It is deleted and created, since these fields cannot be changed.
    Recreated(String),
    /// The release no longer has it.
    Pruned,
    /// It would not be written, for this reason.
    Refused(String),
}

impl Fate {
    /// In a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Recreated(_) => "recreated",
            Self::Pruned => "pruned",
            Self::Refused(_) => "refused",
        }
    }
}

/// An object that would change, before and after as YAML.
#[derive(Clone, Debug)]
pub struct ObjectChange {
    /// Which object.
    pub id: ObjectId,
    /// Its change.
    pub fate: Fate,
    /// As it is.
    pub before: String,
    /// As it would be.
    pub after: String,
    /// Only the marks of its owner change: labels, annotations and the owner reference.
    pub is_mark: bool,
}

/// Asks for the work of the next pass over one custom resource.
///
/// # Errors
/// A sentence: the API server cannot be used, or the custom resource does not exist.
pub async fn preview(wanted: PreviewTarget, config: Config) -> Result<Preview, String> {
    let PreviewTarget { kinds, gvk, chart, namespace, name, release_namespace, changed } = wanted;
    let mut namespaces = vec![namespace.clone(), release_namespace];
    namespaces.retain(|namespace| !namespace.is_empty());
    namespaces.dedup();
    let asked = vec![AskedKind { gvk: gvk.clone(), chart }];
    let previews = Previews::start(kinds, asked, namespaces, config).await?;
    previews.of(&gvk, &namespace, &name, changed.as_ref()).await
}

/// A kind whose custom resources are asked about.
pub struct AskedKind {
    pub gvk: Gvk,
    /// The chart, where it is not the one that the kind names.
    pub chart: Option<Arc<Loaded>>,
}

/// Asks for the work of the next passes over several custom resources, one after the other, with the same caches.
pub struct Previews {
    ctx: Arc<Context>,
    _controller: Controller,
    _end: DropGuard,
    metrics: Arc<Metrics>,
    notes: Vec<String>,
}

impl Previews {
    /// Starts the watches in these namespaces; in all without any.
    ///
    /// # Errors
    /// A sentence: the API server cannot be used, or a kind that is asked about is not among the kinds.
    pub async fn start(
        kinds: Vec<Kind>,
        asked: Vec<AskedKind>,
        namespaces: Vec<String>,
        config: Config,
    ) -> Result<Self, String> {
        let tasks = Tasks::new(CancellationToken::new());
        let end = tasks.stop().clone().drop_guard();
        let mut notes = Vec::new();
        let is_asked = |kind: &Kind| asked.iter().any(|asked| asked.gvk == kind.gvk);
        let as_it_counts = |kind: Kind| if is_asked(&kind) { as_asked(kind, &mut notes) } else { kind };
        let settings = ControllerSettings {
            kinds: kinds.into_iter().map(as_it_counts).collect(),
            namespaces,
            scope: scope::Scope::Any,
            workers: 1,
            period: Duration::from_secs(3600),
            reporter: "tillerman".to_owned(),
            hide_overrides: true,
            show_manifest: false,
            drivers: Drivers::default(),
            home: String::new(),
            definitions: None,
            notices: None,
            journal: Journal::default(),
        };
        let metrics = Arc::default();
        let controller = Controller::new(settings, config, &metrics, &tasks).map_err(|e| e.to_string())?;
        controller.cluster().fence().close();
        let ctx = Arc::clone(controller.context());
        for AskedKind { gvk, chart } in asked {
            let number = number(&gvk, &ctx)?;
            let served = ctx.kinds.get(number);
            match chart {
                Some(chart) => ctx.kinds.replace(number, Served::with_chart(served.kind.clone(), chart)),
                None if served.is_remote() => {
                    let _ = tokio::task::spawn_blocking(move || served.retry()).await;
                }
                None => {}
            }
        }
        controller.discover_once().await.map_err(|e| e.whole())?;
        controller.watch();
        Ok(Self { ctx, _controller: controller, _end: end, metrics, notes })
    }

    /// Asks about a custom resource; about `changed` in its place.
    ///
    /// # Errors
    /// A sentence: the API server cannot be used, or the custom resource does not exist.
    pub async fn of(&self, gvk: &Gvk, namespace: &str, name: &str, changed: Option<&Value>) -> Result<Preview, String> {
        let key = ReleaseKey { kind: number(gvk, &self.ctx)?, namespace: namespace.into(), name: name.into() };
        let mut notes = self.notes.clone();
        let observed = known(&key, changed, &self.ctx, &mut notes).await?;
        Ok(Box::pin(look(observed, notes, &self.ctx)).await)
    }

    /// How many requests were sent.
    pub fn requests(&self) -> u64 {
        self.metrics.requests_sent()
    }
}

/// The number of a kind.
fn number(gvk: &Gvk, ctx: &Context) -> Result<usize, String> {
    let is_it = |number: &usize| ctx.kinds.get(*number).gvk() == gvk;
    (0..ctx.kinds.count()).find(is_it).ok_or_else(|| format!("watches.yaml does not have the kind {gvk}"))
}

/// The kind as it counts here: a person who asks wants the newest chart, and the work as if the release were not
/// paused.
fn as_asked(mut kind: Kind, notes: &mut Vec<String>) -> Kind {
    if kind.rollout.take().is_some() {
        notes.push("charts of this kind are rolled out in stages: its turn may come later".to_owned());
    }
    if kind.switches.paused {
        notes.push("the kind is paused in watches.yaml: the operator does nothing until the pause ends".to_owned());
        kind.switches.paused = false;
    }
    kind
}

/// Waits until the caches know the release.
async fn known(
    key: &ReleaseKey,
    changed: Option<&Value>,
    ctx: &Arc<Context>,
    notes: &mut Vec<String>,
) -> Result<Observed, String> {
    let end = Instant::now() + PATIENCE;
    let mut entered = false;
    loop {
        let is_late = Instant::now() >= end;
        if ctx.cache.is_kind_synced(key.kind) {
            if !entered {
                entered = true;
                enter(key, changed, ctx, notes)?;
            }
            let Some(observed) = Box::pin(observe(key, ctx)).await else {
                return Err(format!("there is no {} {}", ctx.kinds.get(key.kind).gvk().kind, key.name));
            };
            observed.follow(ctx);
            // A list that has not ended yet does not count as drift. The operator checks again when it has; the preview
            // waits for it.
            let is_seen = observed.facts.unsynced.is_empty() || observed.blind.is_some();
            if is_late || observed.facts.busy || is_seen && observed.situation != Situation::Waiting {
                return Ok(observed);
            }
        } else if is_late {
            let kind = ctx.kinds.get(key.kind).gvk().clone();
            return Err(format!(
                "the custom resources of {kind} cannot be listed and watched: the right may be missing"
            ));
        }
        if let Ok(Some(other)) = tokio::time::timeout(LOOK, ctx.queue.next()).await {
            ctx.queue.done(&other, None);
        }
    }
}

/// Enters the custom resource as it would be: with the changes, not paused, and without the pause after a failure.
fn enter(key: &ReleaseKey, changed: Option<&Value>, ctx: &Context, notes: &mut Vec<String>) -> Result<(), String> {
    let live = ctx.cache.cr(key);
    let mut cr = match (changed, &live) {
        (Some(changed), live) => {
            let (uid, version) = live.as_ref().map_or((NO_UID, 0), |cr| (&*cr.uid, cr.resource_version));
            let mut object = changed.clone();
            let status = live.as_ref().map_or_else(Map::new, |cr| cr.status());
            object["status"] = Value::Object(status);
            let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).ok_or("it has no metadata")?;
            metadata.insert("uid".into(), uid.into());
            metadata.insert("resourceVersion".into(), version.to_string().into());
            metadata.insert("generation".into(), live.as_ref().map_or(1, |cr| cr.generation + 1).into());
            if let Some(live) = &live {
                metadata.insert("finalizers".into(), live.finalizers.iter().map(|f| Value::from(&**f)).collect());
            }
            // As text: deep nesting does not make the reading fail.
            let object: CrObject = serde_json::from_str(&object.to_string()).map_err(|e| e.to_string())?;
            Cr::read(object, &ctx.allow(key)).ok_or("it cannot be read")?
        }
        (None, Some(live)) => Cr::clone(live),
        (None, None) => return Ok(()),
    };
    if cr.annotations.remove(names::PAUSED).is_some_and(|text| text.trim() == "true") {
        notes.push("the custom resource is paused: the operator does nothing until it is resumed".to_owned());
    }
    let mut status = cr.status();
    if let Some(Value::Object(last)) = status.get_mut("lastAttempted") {
        last.remove("at");
        cr.status = Value::Object(status).to_string().into();
    }
    cr.resource_version += 1;
    ctx.enter_cr(key.clone(), cr);
    Ok(())
}

/// Verifies, renders, plans, and tries.
async fn look(observed: Observed, mut notes: Vec<String>, ctx: &Context) -> Preview {
    let mut preview = Preview {
        state: state(&observed.situation),
        verb: Verb::Rest,
        revision: observed.facts.history.last().map_or(0, |newest| newest.revision),
        steps: Vec::new(),
        hooks: Vec::new(),
        changes: Vec::new(),
        unchanged: 0,
        running: observed.cr.status().get("plan").cloned(),
        notes: Vec::new(),
        error: None,
    };
    if let Some(blind) = &observed.blind {
        notes.push(format!("some objects cannot be seen: {blind}"));
    }
    for reach in &observed.cr.refused {
        notes.push(format!("the kind does not allow the annotation {}", reach.annotation()));
    }
    preview.notes = notes;
    let verified = match verify(observed, ctx).await {
        Ok(verified) => verified,
        Err(failed) => {
            preview.error = Some(ctx.show(&failed.observed, &failed.error.text()));
            return preview;
        }
    };
    preview.state = state(&verified.situation);
    if let Some(held) = operations::hold(&verified) {
        let what = held.waiting.map(|waiting| ctx.show(&verified, &waiting.what)).unwrap_or_default();
        preview.state = ("Waiting", format!("the release waits for {what}"));
        return preview;
    }
    let prepared = match render(&verified, ctx).await {
        Ok(prepared) => prepared,
        Err(error) => {
            preview.error = Some(ctx.show(&verified, &error.text()));
            return preview;
        }
    };
    let next = plan(&verified.facts, &verified.situation, &prepared.desired);
    let whole = whole(&verified, &prepared.desired);
    preview.verb = next.verb;
    preview.revision = next.revision;
    preview.steps = next.steps.iter().map(|step| sentence(step, &prepared.desired, &verified, ctx)).collect();
    preview.hooks = hooks(&verified, &prepared.desired, &whole);
    preview.notes.extend(prepared.remarks.iter().cloned());
    for set in prepared.desired.members.iter().flat_map(|members| &members.sets) {
        preview.notes.push(format!(
            "the preview does not ask the members of StatefulSet {}: the operator changes its replicas afterwards, by \
             the answers that the members give then",
            set.target
        ));
    }
    learn(&verified, &prepared.desired, ctx).await;
    changes(&verified, &prepared, &whole, &mut preview, ctx).await;
    preview
}

/// The plan as if no hook had to run and nothing had to be waited for: all objects that the operation touches.
fn whole(observed: &Observed, desired: &Desired) -> Plan {
    let mut facts = observed.facts.clone();
    facts.switches.hooks = false;
    facts.switches.timeout = None;
    plan(&facts, &observed.situation, desired)
}

/// The hooks of the operation that a plan belongs to.
fn hooks(observed: &Observed, desired: &Desired, plan: &Plan) -> Vec<(String, String)> {
    let facts = &observed.facts;
    let events = match plan.verb {
        Verb::Install | Verb::Upgrade => {
            let kind = if plan.verb == Verb::Install { RevisionKind::Install } else { operation(&facts.history) };
            vec![HookEvent::before(kind), HookEvent::after(kind)]
        }
        Verb::Resume => {
            let kind = newest_operation(&facts.history);
            vec![HookEvent::before(kind), HookEvent::after(kind)]
        }
        Verb::RollBack => vec![HookEvent::before(RevisionKind::Rollback), HookEvent::after(RevisionKind::Rollback)],
        Verb::Uninstall => vec![HookEvent::PreDelete, HookEvent::PostDelete],
        Verb::Rest | Verb::Repair | Verb::Note | Verb::CreateCrds | Verb::Abandon => Vec::new(),
    };
    if !facts.switches.hooks {
        return Vec::new();
    }
    let of = |event: &HookEvent| {
        let hooks = crate::plan::hooks::of_event(&desired.hooks, *event);
        hooks.into_iter().map(|hook| (event.to_string(), hook.id.to_string())).collect::<Vec<_>>()
    };
    events.iter().flat_map(of).collect()
}

/// The secrets that must not be shown: the content of the release's own Secrets, now and after the pass, and the
/// sources of its values.
async fn learn(observed: &Verified, desired: &Desired, ctx: &Context) {
    secrets::learn(observed, ctx).await;
    let objects = || desired.objects.iter().chain(desired.previous.iter().flatten());
    let names = objects().flat_map(|object| [&*object.id.name, &*object.id.gvk.kind]);
    let owner = &observed.owner;
    let mut secrets =
        Secrets::of_objects(names.chain([&*owner.release_name, &*owner.release_namespace, &*owner.chart]));
    for object in objects().filter(|object| is_secret(&object.id)) {
        secrets.add_secret_object(&object.body);
    }
    ctx.memory.masks.learn(&observed.key, secrets);
}

/// Tries the writes of a plan, and enters what would change.
async fn changes(observed: &Verified, prepared: &Prepared, plan: &Plan, preview: &mut Preview, ctx: &Context) {
    let desired = &prepared.desired;
    let objects = Objects::new(observed, desired, ctx);
    let mut found: Vec<(ObjectId, Fate, Option<Value>, Option<Value>)> = Vec::new();
    for definition in desired.crds.iter().filter(|_| plan.verb == Verb::CreateCrds) {
        let body = Some(Value::Object(definition.body.clone()));
        let id = crds::id(&definition.body);
        match &definition.action {
            CrdAction::Create => found.push((id, Fate::Created, None, body)),
            CrdAction::Replace(new) => {
                let live = objects.live(&id).await.ok().flatten();
                found.push((id, Fate::Changed, live, Some(new.clone())));
            }
            CrdAction::Await => {}
        }
    }
    if plan.verb == Verb::CreateCrds {
        preview.notes.push("the other objects follow once these definitions are served".to_owned());
    }
    for step in &plan.steps {
        match step {
            PlanStep::Apply { object, force } => {
                let object = &desired.objects[*object];
                let (live, tried) = match objects.try_out(object, *force).await {
                    Ok(answer) => answer,
                    Err(error) => (None, Tried::Refused(error.text())),
                };
                let (fate, after) = match tried {
                    Tried::Applied(after) if live.is_some() => (Fate::Changed, Some(after)),
                    Tried::Applied(after) => (Fate::Created, Some(after)),
                    Tried::Recreated { fields, body } => (Fate::Recreated(fields), Some(body)),
                    Tried::Refused(why) => (Fate::Refused(ctx.show(observed, &why)), live.clone()),
                };
                found.push((object.id.clone(), fate, live, after));
            }
            PlanStep::Keep(_) => preview.unchanged += 1,
            PlanStep::Prune { id, .. } => match objects.live(id).await {
                Ok(Some(live)) => found.push((id.clone(), Fate::Pruned, Some(live), None)),
                Ok(None) => {}
                Err(error) => {
                    found.push((id.clone(), Fate::Refused(ctx.show(observed, &error.text())), None, None));
                }
            },
            _ => {}
        }
    }
    let mut live_secrets = Secrets::default();
    for (.., live, _) in found.iter().filter(|(id, ..)| is_secret(id)) {
        if let Some(Value::Object(live)) = live {
            live_secrets.add_secret_object(live);
        }
    }
    ctx.memory.masks.learn(&observed.key, live_secrets);
    for (id, fate, live, after) in found {
        match change(id, fate, live, after, |text| ctx.memory.masks.replace(&observed.key, text)) {
            Some(change) => preview.changes.push(change),
            None => preview.unchanged += 1,
        }
    }
}

/// The visible part of an object; `None` if it stays as it is. `masked` is the text without secrets, or `None` for one
/// that must not be shown.
fn change(
    id: ObjectId,
    fate: Fate,
    before: Option<Value>,
    after: Option<Value>,
    masked: impl Fn(&str) -> Option<String>,
) -> Option<ObjectChange> {
    let (mut before, mut after) = (before.map(bare), after.map(bare));
    if fate == Fate::Changed && before == after {
        return None;
    }
    let without_marks = |object: &Option<Value>| object.clone().map(unmarked);
    let is_mark = fate == Fate::Changed && without_marks(&before) == without_marks(&after);
    if is_secret(&id) {
        hide(before.as_mut(), after.as_mut());
    }
    let write = |object: &Option<Value>| -> String {
        let Some(object) = object else { return String::new() };
        let text = yaml::of_json(object);
        let text = text.unwrap_or_else(|why| format!("# it cannot be written as YAML: {why}\n"));
        masked(&text).unwrap_or_else(|| "# it is not shown: too much of it may be secret\n".to_owned())
    };
    let (before_text, mut after_text) = (write(&before), write(&after));
    if fate == Fate::Changed && before_text == after_text {
        after_text.push_str("# the changes came from a Secret, and are not shown\n");
    }
    let after = if matches!(fate, Fate::Refused(_)) { before_text.clone() } else { after_text };
    Some(ObjectChange { id, fate, before: before_text, after, is_mark })
}

fn is_secret(id: &ObjectId) -> bool {
    id.gvk.group.is_empty() && &*id.gvk.kind == "Secret"
}

/// An object without the fields that the API server writes, and the annotation of kubectl.
fn bare(mut object: Value) -> Value {
    let Some(body) = object.as_object_mut() else { return object };
    body.shift_remove("status");
    if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
        for field in ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"] {
            metadata.shift_remove(field);
        }
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.shift_remove("kubectl.kubernetes.io/last-applied-configuration");
        }
        for owner in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
            if owner["uid"] == NO_UID {
                owner["uid"] = "(new)".into();
            }
        }
    }
    object
}

/// An object without the marks of its owner.
fn unmarked(mut object: Value) -> Value {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.shift_remove("ownerReferences");
        for (part, names) in [
            ("labels", &["app.kubernetes.io/managed-by", "helm.sdk.operatorframework.io/chart"][..]),
            ("annotations", &["meta.helm.sh/release-name", "meta.helm.sh/release-namespace"][..]),
        ] {
            let Some(Value::Object(own)) = metadata.get_mut(part) else { continue };
            own.retain(|name, _| !names.contains(&name.as_str()) && !name.starts_with("operator-sdk/"));
            if own.is_empty() {
                metadata.shift_remove(part);
            }
        }
    }
    object
}

/// The state of a release for people.
fn state(situation: &Situation) -> (&'static str, String) {
    let of = |word, sentence: &str| (word, sentence.to_owned());
    match situation {
        Situation::Uninstall => of("Uninstall", "the custom resource is being deleted, and its objects with it"),
        Situation::Leave => of("Leave", "the custom resource is being deleted, and the operator has nothing to do"),
        Situation::Refused(refusal) => ("Refused", format!("{}: {}", refusal.reason, refusal.message)),
        Situation::Awaiting(refusal) => ("Awaiting", format!("{}: {}", refusal.reason, refusal.message)),
        Situation::Waiting => of("Waiting", "another tool works on the release, or a hook runs"),
        Situation::Settled => of("Settled", "the deployed objects are up to date"),
        Situation::Finished => of("Finished", "the deployed objects are up to date, and a Job has finished"),
        Situation::Blocked => {
            of("Blocked", "the inputs cannot work, and the operator does not try again until they change")
        }
        Situation::Paused(_) => of("Paused", "the custom resource is paused"),
        Situation::RollBack(to) => {
            ("RollBack", format!("the upgrade failed permanently: the release rolls back to revision {to}"))
        }
        Situation::Abandoned => of("Abandoned", "the first installation failed permanently, and is uninstalled"),
        Situation::Drifted(drift) => ("Drifted", format!("{} objects differ from the release", drift.len())),
        Situation::Unfinished => of("Unfinished", "the newest revision is not finished"),
        Situation::New => of("New", "there is no release yet"),
        Situation::Changed => of("Changed", "the inputs differ from those of the newest revision"),
    }
}

/// A step of a plan for people.
fn sentence(step: &PlanStep, desired: &Desired, observed: &Observed, ctx: &Context) -> String {
    let hook = |hook: &usize| desired.hooks[*hook].id.to_string();
    let show = |text: &Text| ctx.show(observed, text);
    match step {
        PlanStep::Finalize => "add the finalizer".to_owned(),
        PlanStep::CreateCrds => "write the chart's definitions".to_owned(),
        PlanStep::CreateRecord { revision, status } => format!("record revision {revision} as {status}"),
        PlanStep::CreateRollback { revision, to } => format!("record revision {revision}, which rolls back to {to}"),
        PlanStep::Apply { object, .. } => format!("apply {}", desired.objects[*object].id),
        PlanStep::Keep(object) => format!("keep {}", desired.objects[*object].id),
        PlanStep::StartHook { hook: at, event, .. } => format!("start the {event} hook {}", hook(at)),
        PlanStep::AwaitHook { hook: at, event, .. } => format!("wait for the {event} hook {}", hook(at)),
        PlanStep::FinishHook { hook: at, event } => format!("record that the {event} hook {} succeeded", hook(at)),
        PlanStep::FailHook { hook: at, event, why, .. } => {
            format!("record that the {event} hook {} failed: {}", hook(at), show(why))
        }
        PlanStep::DeleteHook(at) => format!("delete the hook {}", hook(at)),
        PlanStep::MarkApplied(revision) => format!("record that the objects of revision {revision} are applied"),
        PlanStep::AwaitReady { what, .. } => format!("wait until the objects are ready: {}", show(what)),
        PlanStep::FailReady(what) => format!("fail, because the objects did not get ready in time: {}", show(what)),
        PlanStep::Prune { id, .. } => format!("delete {id}"),
        PlanStep::Orphan(id) => format!("leave {id} behind"),
        PlanStep::Supersede(revision) => format!("mark revision {revision} as superseded"),
        PlanStep::MarkDeployed(revision) => format!("mark revision {revision} as deployed"),
        PlanStep::Note(revision) => format!("store the inputs in the record of revision {revision}"),
        PlanStep::Forget(revision) => format!("delete the record of revision {revision}"),
        PlanStep::Unfinalize => "remove the finalizer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Fate, ObjectChange, ObjectId, change};
    use crate::object::Gvk;
    use serde_json::{Value, json};

    fn made(kind: &str, before: Value, after: Value) -> Option<ObjectChange> {
        let id = ObjectId { gvk: Gvk::new("", "v1", kind), namespace: Some("ns".into()), name: "a".into() };
        change(id, Fate::Changed, Some(before), Some(after), |text| {
            Some(text.replace("hunter22", "****").replace("another33", "****"))
        })
    }

    #[test]
    fn the_data_of_a_secret_is_hidden_and_its_changes_are_seen() {
        let secret = |data: Value| json!({"kind": "Secret", "metadata": {"name": "a"}, "data": data});
        let change = made(
            "Secret",
            secret(json!({"a": "b25l", "b": "dHdv"})),
            secret(json!({"a": "b25l", "b": "eA==", "c": "eQ=="})),
        );
        let change = change.unwrap();
        assert!(change.before.contains("a: '***'") && change.before.contains("b: '***'"), "{}", change.before);
        assert!(change.after.contains("a: '***'") && change.after.contains("b: '*** (changed)'"), "{}", change.after);
        assert!(change.after.contains("c: '***'") && !change.after.contains("eQ=="), "{}", change.after);
    }

    #[test]
    fn a_text_of_a_secret_elsewhere_is_masked_and_its_change_is_said() {
        let map = |text: &str| json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": text}});
        let change = made("ConfigMap", map("x-hunter22"), map("x-another33")).unwrap();
        assert!(!change.before.contains("hunter22"), "{}", change.before);
        assert!(change.after.ends_with("# the changes came from a Secret, and are not shown\n"), "{}", change.after);
    }

    #[test]
    fn what_the_api_server_writes_is_no_change_and_an_owner_is_a_mark() {
        let object = |metadata: Value| json!({"kind": "ConfigMap", "metadata": metadata, "status": {"x": metadata}});
        let before = object(json!({"name": "a", "resourceVersion": "1", "generation": 1, "managedFields": [],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x"}}));
        let after = object(json!({"name": "a", "resourceVersion": "2", "generation": 2, "annotations": {}}));
        assert!(made("ConfigMap", before.clone(), after).is_none());
        let owned = object(json!({"name": "a", "ownerReferences": [{"uid": super::NO_UID}],
            "labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": {"meta.helm.sh/release-name": "a"}}));
        let change = made("ConfigMap", before, owned).unwrap();
        assert!(change.is_mark && change.after.contains("(new)"), "{}", change.after);
    }
}

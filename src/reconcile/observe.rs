//! Observe: what the caches know of a release, and its newest record where the decision needs it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Map, Value};

use super::annotations::off;
use super::begun::Left;
use super::chart::{Loaded, Served};
use super::trust::LeftOut;
use super::values::{self, Extras};
use super::{Context, Error, FINALIZER, LEGACY_FINALIZER, lookups};
use crate::cluster::cache::{ReleaseKey, WatchKey};
use crate::cluster::cr::Cr;
use crate::cluster::discovery::Resource;
use crate::kind::annotations::Annotations;
use crate::kind::bounds;
use crate::kind::ignore::Ignore;
use crate::kind::switches::{self, HELM_TIMEOUT, OnFailure, RELEASE_NAME, Switches, TAKE_OWNERSHIP};
use crate::members::document::Members;
use crate::plan::attempts;
use crate::plan::operations::document::Operations;
use crate::plan::situation::{Facts, Refusal, Situation, situation};
use crate::release::chunks;
use crate::release::digest::{self, Inputs};
use crate::release::live::Live;
use crate::release::object::ObjectId;
use crate::release::owner::Owner;
use crate::release::record::{Record, RecordError, Status};
use crate::release::secret::{self, Revision};
use crate::render::Capabilities;

/// Helm's limit: a longer name makes labels and Secret names that Kubernetes refuses.
const MAX_NAME: usize = 53;
/// Bytes of a spec that is read at once; a longer one is read off the threads that run passes.
const SHORT: usize = 32 << 10;

/// A release as it is.
pub struct Observed {
    /// Which release.
    pub key: ReleaseKey,
    /// Its custom resource.
    pub cr: Arc<Cr>,
    /// The custom resource as the owner of objects.
    pub owner: Owner,
    /// The values of its custom resource, under the kind's `overrideValues`.
    pub values: Map<String, Value>,
    /// Further sources of values.
    pub extras: Extras,
    /// Its chart, when it can be used.
    pub chart: Option<Arc<Loaded>>,
    /// Fields that are left to others.
    pub ignored: Vec<Ignore>,
    /// What the server can do.
    pub capabilities: Capabilities,
    /// What decisions depend on.
    pub facts: Facts,
    /// Digest of all that an attempt depends on: the inputs and the switches.
    pub attempt: String,
    /// Milliseconds until the next attempt, while it pauses.
    pub pause: u64,
    /// How it stands.
    pub situation: Situation,
    /// The newest record, when it was needed.
    pub record: Result<Option<Record>, Error>,
    /// The record of the revision that the release goes back to.
    pub target: Option<Record>,
    /// What of the record that is acted on does not count.
    pub left_out: Arc<LeftOut>,
    /// The newest record could not be read.
    pub corrupted: bool,
    /// Why the caches cannot see some of its objects.
    pub blind: Option<String>,
    /// The stateful sets with members of the newest revision.
    pub members: Option<Arc<Members>>,
    /// Whether the revisions are known completely.
    pub complete: bool,
}

impl Observed {
    /// The operations of a revision, the newest one without a number.
    pub fn operations(&self, revision: Option<u64>) -> Option<Arc<Operations>> {
        let of = |r: &&Revision| revision.is_none_or(|revision| r.revision == revision);
        let revision = self.facts.history.iter().rev().find(of)?;
        revision.operations.as_deref().and_then(Operations::decode).map(Arc::new)
    }
}

/// Looks. `None` when there is no such custom resource.
pub async fn observe(key: &ReleaseKey, ctx: &Context) -> Option<Observed> {
    let cr = ctx.cache.cr(key)?;
    let served = &ctx.kinds[key.kind];
    let chart = served.chart();
    let capabilities = capabilities(ctx);
    let (mut values, bad_values) = match spec(&cr).await {
        Ok(values) => (values, None),
        Err(refusal) => (Map::new(), Some(refusal)),
    };
    let own = ctx.annotations.of(key, &cr).await;
    let extras = values::gather(&mut values, key, &own, ctx);
    let owner = owner(key, &cr, ctx, chart.as_deref().ok());
    let inputs = chart.as_ref().ok().map(|chart| {
        digest::inputs(&Inputs {
            chart: &chart.digest,
            values: &values,
            name: &owner.release_name,
            namespace: &owner.release_namespace,
            capabilities: &chart.capabilities_digest(&capabilities),
            extras: &extras.digest,
        })
    });
    let (ignored, bad_ignored) = ignored(&own);
    let (mut switches, bad_switch) = read_switches(served, &cr);
    let refusal = refusal(key, &owner, chart.as_ref().err())
        .or(bad_switch)
        .or(bad_values)
        .or(bad_ignored)
        .or_else(|| renamed(key, &owner, ctx).or_else(|| extras.refusal.clone()));
    let attempt = attempt(inputs.as_deref(), &cr);
    let attempts = attempts::read(&cr.status(), &attempt);
    let now = jiff::Timestamp::now();
    let pause = u64::try_from(attempts.not_before - now.as_millisecond()).unwrap_or(0);
    let free = ctx.waits.is_over(key);
    let looked_up = lookups::state(key, &owner, chart.as_deref().ok(), &extras.used, &switches, ctx).await;
    let untried = looked_up.untried || attempts.spent && lookups::may_have_come(key, chart.as_deref().ok(), &cr, ctx);
    let (history, complete) = ctx.cache.release(key);
    let members = members(&history, &mut switches);
    let listed = || history.last().and_then(|r| r.inventory.as_ref()).into_iter().flat_map(|i| i.0.keys());
    // A first installation that was cut off has no record yet.
    let left = if complete && history.is_empty() { ctx.begun.watches(key, &cr, ctx).await } else { Left::default() };
    let Seen { live, unsynced, blind, hidden } = objects(key, &history, left, ctx);
    let has = |finalizer: &str| cr.finalizers.iter().any(|f| &**f == finalizer);
    let not_visible = |id: &&ObjectId| unsynced.contains(&ctx.cache.watch_key(&id.gvk, id.namespace.as_ref()));
    let facts = Facts {
        uid: (&*cr.uid).into(),
        marks: owner.marks().into(),
        namespace: (&*key.namespace).into(),
        now: now.as_second(),
        deleting: cr.deleting,
        finalized: has(FINALIZER) || (cr.deleting && has(LEGACY_FINALIZER)),
        wait_for_deletion: switches.uninstall_wait,
        asked: is_asked(switches.reconcile_at.as_deref(), &cr) || looked_up.changed,
        busy: is_busy(history.last(), now.as_second()),
        foreign: foreign(&owner, &cr, &switches, ctx, &history),
        rivals: ctx.cache.has_rivals(&owner.release_namespace, &owner.release_name),
        // A deletion needs no chart.
        spent: (refusal.is_none() || cr.deleting) && attempts.spent && !untried && !free,
        pausing: (refusal.is_none() || cr.deleting) && pause > 0 && !free,
        switches,
        refusal,
        inputs: inputs.map(Into::into),
        paused: ctx.contests.with(key, |contest, now| contest.paused(now)),
        unsynced: listed().filter(not_visible).map(|id| (id.gvk.clone(), id.namespace.clone())).collect(),
        ended: ctx.cache.ended(key),
        live,
        history,
    };
    let unseen = facts
        .history
        .last()
        .and_then(|r| r.inventory.as_ref())
        .is_some_and(|i| i.0.keys().any(|id| not_visible(&id) && !facts.live.contains_key(id)));
    let caches = Caches { lists: unseen && blind.is_none(), names: hidden, values: extras.waits };
    let situation = with_caches(situation(&facts), &facts, key, ctx, complete, caches);
    ctx.contests.with(key, |contest, now| contest.settle(now, |id| situation.repairs(id)));
    let mut observed = Observed {
        key: key.clone(),
        cr,
        owner,
        values,
        ignored: served.kind.ignore_drift.iter().cloned().chain(ignored).collect(),
        extras,
        chart: chart.ok(),
        capabilities,
        facts,
        attempt,
        pause,
        situation,
        record: Ok(None),
        target: None,
        left_out: Arc::default(),
        corrupted: false,
        blind,
        members,
        complete,
    };
    read_records(&mut observed, ctx).await;
    Some(observed)
}

/// What the API server can do.
fn capabilities(ctx: &Context) -> Capabilities {
    let info = ctx.discovery.info();
    Capabilities { kube_version: info.kube_version.clone(), api_versions: info.api_versions.clone() }
}

/// Reads the records that the situation asks for.
async fn read_records(observed: &mut Observed, ctx: &Context) {
    if observed.situation.needs_record() && observed.facts.foreign.is_none() {
        read_newest(observed, ctx).await;
    }
    if let Situation::RollBack(to) = observed.situation {
        read_target(observed, to, ctx).await;
    }
}

/// helm-operator's order: the custom resource's annotation, the entry of watches.yaml, the flag.
pub fn period(switches: &Switches, key: &ReleaseKey, ctx: &Context) -> Duration {
    let of_kind = ctx.kinds[key.kind].kind.reconcile_period;
    let period = switches.reconcile_period.or(of_kind).unwrap_or(ctx.period);
    // A period of 0 means never in helm-operator; here it costs nothing, so a long one is as good.
    if period.is_zero() { Duration::from_secs(3600) } else { period.max(Duration::from_secs(1)) }
}

/// What the caches know of the objects of a release.
struct Seen {
    live: BTreeMap<ObjectId, Live>,
    /// Watches of what the newest revision lists that were not complete then.
    unsynced: BTreeSet<WatchKey>,
    /// Why the first of those that cannot see cannot.
    blind: Option<String>,
    /// Whether objects of kinds that a revision names were not known then, and can be seen.
    hidden: bool,
}

fn objects(key: &ReleaseKey, history: &[Revision], left: Left, ctx: &Context) -> Seen {
    let listed = || history.last().and_then(|r| r.inventory.as_ref()).into_iter().flat_map(|i| i.0.keys());
    let of_list: BTreeSet<_> = listed().map(|id| ctx.cache.watch_key(&id.gvk, id.namespace.as_ref())).collect();
    let mut named: BTreeSet<_> =
        history.iter().flat_map(Revision::uses).map(|(gvk, namespace)| ctx.cache.watch_key(gvk, namespace)).collect();
    named.extend(left.watches);
    let (live, unsynced) = ctx.cache.objects_of(key, listed(), of_list.union(&named).cloned());
    // Of a release whose record was there before its custom resource, too.
    unsynced.iter().cloned().for_each(|watch| ctx.watches.ensure_key(watch));
    let (named, unsynced) = (&unsynced & &named, &unsynced & &of_list);
    let blind = ctx.cache.blind(&unsynced);
    let hidden = left.unknown || named.into_iter().any(|watch| ctx.cache.blind(&BTreeSet::from([watch])).is_none());
    Seen { live, unsynced, blind, hidden }
}

/// The stateful sets with members of the newest revision. With any, nothing goes back after a failure: it may be a downgrade of
/// what the members hold.
fn members(history: &[Revision], switches: &mut Switches) -> Option<Arc<Members>> {
    let members = history.last()?.members.as_deref().and_then(Members::decode)?;
    switches.on_failure = OnFailure::Keep;
    Some(Arc::new(members))
}

/// What the caches do not know yet and will.
#[derive(Clone, Copy)]
struct Caches {
    /// Objects that the newest revision lists.
    lists: bool,
    /// Objects of kinds that a revision names: what was begun may have left some that no list has. Those that cannot be seen are not
    /// waited for.
    names: bool,
    /// Sources of values.
    values: bool,
}

/// The situation, as far as the caches are complete enough to judge it.
fn with_caches(
    situation: Situation,
    facts: &Facts,
    key: &ReleaseKey,
    ctx: &Context,
    complete: bool,
    unknown: Caches,
) -> Situation {
    if unknown.values && !matches!(situation, Situation::Uninstall | Situation::Leave) {
        return Situation::Waiting;
    }
    if !complete {
        return match ctx.cache.history_blind(&key.namespace) {
            Some(message) => Situation::Refused(Refusal { reason: "Forbidden", message }),
            None => Situation::Waiting,
        };
    }
    let deployed = facts.history.last().is_some_and(|r| r.status == Status::Deployed);
    let waits = match situation {
        Situation::Settled | Situation::Finished | Situation::Drifted(_) => unknown.lists,
        Situation::Uninstall => unknown.lists || unknown.names,
        Situation::New | Situation::Unfinished | Situation::RollBack(_) | Situation::Abandoned => unknown.names,
        Situation::Changed => unknown.names && !deployed,
        _ => false,
    };
    if waits { Situation::Waiting } else { situation }
}

/// The custom resource as the owner of objects.
fn owner(key: &ReleaseKey, cr: &Cr, ctx: &Context, chart: Option<&Loaded>) -> Owner {
    Owner {
        gvk: ctx.kinds[key.kind].gvk().clone(),
        namespace: Some(Arc::clone(&key.namespace)),
        name: Arc::clone(&key.name),
        uid: Arc::clone(&cr.uid),
        release_name: ctx.cache.release_name(key),
        release_namespace: Arc::clone(&key.namespace),
        chart: chart.map_or_else(|| "".into(), |c| c.chart.metadata.name.as_str().into()),
    }
}

/// Whether `reconcile-at` has a text that no pass has answered yet.
fn is_asked(reconcile_at: Option<&str>, cr: &Cr) -> bool {
    let status = cr.status();
    let answered = status.get("lastHandledReconcileAt").and_then(Value::as_str);
    reconcile_at.is_some_and(|asked| answered != Some(asked))
}

/// All that an attempt depends on: where nothing of it has changed, a failure would repeat itself.
fn attempt(inputs: Option<&str>, cr: &Cr) -> String {
    let mut hasher = digest::Hasher::default();
    // A deletion is no attempt at the inputs.
    let inputs = if cr.deleting { "deletion" } else { inputs.unwrap_or_default() };
    hasher.text(inputs).text(switches::text(&cr.annotations));
    hasher.finish()
}

/// Reads the record that the release goes back to. Without it, what is there stays.
async fn read_target(observed: &mut Observed, to: u64, ctx: &Context) {
    match read_record(&observed.owner, to, ctx).await {
        Ok(Some(record)) => observed.target = Some(record),
        Ok(None) | Err(Error::Record(RecordError::Corrupted(_))) => observed.situation = Situation::Blocked,
        Err(error) => observed.record = Err(error),
    }
}

/// Reads the newest record. One that cannot be read is as good as none: what it would have told is found by label and owner.
async fn read_newest(observed: &mut Observed, ctx: &Context) {
    let Some(newest) = observed.facts.history.last().map(|r| r.revision) else { return };
    match read_record(&observed.owner, newest, ctx).await {
        Ok(Some(record)) => {
            if observed.owner.chart.is_empty() {
                observed.owner.chart = record.chart().name.into();
            }
            observed.record = Ok(Some(record));
        }
        Ok(None) => {}
        Err(Error::Record(RecordError::Corrupted(_))) => observed.corrupted = true,
        Err(error) => observed.record = Err(error),
    }
    let unreadable = matches!(observed.record, Ok(None));
    if unreadable && matches!(observed.situation, Situation::Drifted(_) | Situation::Unfinished) {
        observed.situation = match (&observed.facts.refusal, observed.facts.spent, observed.facts.pausing) {
            (Some(refusal), ..) => Situation::Refused(refusal.clone()),
            (None, true, _) => Situation::Blocked,
            (None, false, true) => Situation::Waiting,
            (None, false, false) => Situation::Changed,
        };
    }
}

/// Reads the record of a revision; `None` when its Secret is gone. One that was seen as the caches know it is not asked for again.
pub async fn read_record(owner: &Owner, revision: u64, ctx: &Context) -> Result<Option<Record>, Error> {
    let release = (Arc::clone(&owner.release_namespace), Arc::clone(&owner.release_name));
    let known = ctx.cache.history(&release.0, &release.1).into_iter().find(|r| r.revision == revision);
    if let Some(record) = known.and_then(|r| ctx.kept.get(&release, &r.uid, &r.resource_version)) {
        return Ok(Some(record));
    }
    let id = secret_id(owner, revision);
    let Some(secret) = ctx.cluster.get(&Resource::secrets(), &id).await? else { return Ok(None) };
    ctx.kept.put(&release, &secret);
    if let Some(release) = secret_data(&secret, "release")? {
        return Ok(Some(Record::decode(&release)?));
    }
    let head = secret_data(&secret, "head")?.ok_or(RecordError::Corrupted("no data"))?;
    let annotations = secret.pointer("/metadata/annotations");
    let annotation = annotations.and_then(|a| a.get(chunks::CHUNKS)).and_then(Value::as_str);
    let (digest, count) =
        annotation.and_then(chunks::parse).ok_or(RecordError::Corrupted("its chunks are not named"))?;
    let mut text = String::new();
    for index in 0..count {
        let id = ObjectId { name: chunks::name(&owner.release_name, digest, index).into(), ..id.clone() };
        let chunk =
            ctx.cluster.get(&Resource::secrets(), &id).await?.ok_or(RecordError::Corrupted("a chunk is gone"))?;
        let part = secret_data(&chunk, chunks::KEY)?.ok_or(RecordError::Corrupted("a chunk is empty"))?;
        text.push_str(&String::from_utf8_lossy(&part));
    }
    Ok(Some(Record::join(&head, &text, digest)?))
}

fn secret_data(secret: &Value, key: &str) -> Result<Option<Vec<u8>>, RecordError> {
    let Some(data) = secret.get("data").and_then(|d| d.get(key)).and_then(Value::as_str) else { return Ok(None) };
    let data = base64::engine::general_purpose::STANDARD.decode(data);
    data.map(Some).map_err(|_| RecordError::Corrupted("not base64"))
}

/// The Secret of a revision.
pub fn secret_id(owner: &Owner, revision: u64) -> ObjectId {
    let name = secret::name(&owner.release_name, revision).into();
    ObjectId { gvk: Resource::secrets().gvk, namespace: Some(Arc::clone(&owner.release_namespace)), name }
}

fn read_switches(served: &Served, cr: &Cr) -> (Switches, Option<Refusal>) {
    let known = &served.kind.switches;
    let refuse = |message| (known.clone(), Some(Refusal { reason: "InvalidAnnotation", message }));
    known.read(&cr.annotations).map_or_else(refuse, |switches| (switches, None))
}

fn ignored(own: &Annotations) -> (Vec<Ignore>, Option<Refusal>) {
    let refuse = |message| (Vec::new(), Some(Refusal { reason: "InvalidAnnotation", message }));
    own.ignored.clone().map_or_else(refuse, |rules| (rules, None))
}

/// The values of a custom resource.
async fn spec(cr: &Arc<Cr>) -> Result<Map<String, Value>, Refusal> {
    if cr.spec.as_ref().is_none_or(|spec| spec.len() <= SHORT) {
        return read_values(cr);
    }
    let cr = Arc::clone(cr);
    let internal = || Refusal { reason: "InvalidSpec", message: "spec cannot be read: internal error".to_owned() };
    off(move || read_values(&cr)).await.unwrap_or_else(|_| Err(internal()))
}

fn read_values(cr: &Cr) -> Result<Map<String, Value>, Refusal> {
    let refuse = |message: String| Err(Refusal { reason: "InvalidSpec", message });
    let Some(spec) = cr.spec.as_deref() else { return Ok(Map::new()) };
    match bounds::SPEC.json(spec) {
        Ok(Value::Object(values)) => Ok(values),
        Ok(_) => refuse("spec is not an object, so it cannot be the values of a chart".to_owned()),
        // The parser's words would quote what is there.
        Err(why) if why.starts_with("it is not JSON") => refuse("spec cannot be read".to_owned()),
        Err(why) => refuse(format!("spec: {why}")),
    }
}

fn refusal(key: &ReleaseKey, owner: &Owner, no_chart: Option<&String>) -> Option<Refusal> {
    let refuse = |reason: &'static str, message: String| Some(Refusal { reason, message });
    if key.namespace.is_empty() {
        return refuse("ClusterScoped", "cluster-scoped custom resources are not supported yet".to_owned());
    }
    if owner.release_name.len() > MAX_NAME {
        let message = format!(
            "the name has {} characters; a release name, which it becomes, can have {MAX_NAME}. Use a shorter name, or choose one \
             for the release with the annotation {RELEASE_NAME}, where the kind allows it",
            owner.release_name.len()
        );
        return refuse("NameTooLong", message);
    }
    if let Some(error) = no_chart {
        return refuse("ChartUnusable", error.clone());
    }
    None
}

/// A release has the name for good that it was made with: under another one it would be made a second time.
fn renamed(key: &ReleaseKey, owner: &Owner, ctx: &Context) -> Option<Refusal> {
    let (name, other) = (&owner.release_name, ctx.cache.other_name(key)?);
    let message = format!(
        "the release is called {name} and cannot be called {other}: take back what names it (the annotation {RELEASE_NAME}, or \
         releaseSuffix in watches.yaml), or make another custom resource"
    );
    Some(Refusal { reason: "ReleaseRenamed", message })
}

/// Whether somebody's helm is at work on the release. One that stopped half way is not waited for longer than Helm's own timeout.
fn is_busy(newest: Option<&secret::Revision>, now: i64) -> bool {
    newest.is_some_and(|r| {
        let unfinished = matches!(
            r.status,
            Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback | Status::Uninstalling
        );
        unfinished && r.inputs.is_none() && now - r.at < HELM_TIMEOUT.as_secs().cast_signed()
    })
}

/// Whether the release of this name belongs to somebody else, in a sentence.
fn foreign(owner: &Owner, cr: &Cr, switches: &Switches, ctx: &Context, history: &[secret::Revision]) -> Option<String> {
    let newest = history.last()?;
    let name = &owner.release_name;
    let Some(uid) = &newest.owner_uid else {
        // After an uninstall with its history kept the name is free.
        return (newest.status != Status::Uninstalled && !switches.take_ownership).then(|| {
            format!(
                "a Helm release {name} exists in this namespace and was not made for this custom resource; with the annotation \
                 {TAKE_OWNERSHIP}: \"true\" on the custom resource it is taken over"
            )
        });
    };
    if **uid == *cr.uid {
        return None;
    }
    if let Some(other) = ctx.cache.cr_with_uid(uid) {
        let kind = &ctx.kinds[other.kind].gvk().kind;
        return Some(format!(
            "release {name} in this namespace belongs to {kind} {}: names must differ between kinds",
            other.name
        ));
    }
    // A custom resource of the same name that is gone: its release is continued. Any other is not ours to touch.
    match newest.owner.as_deref() {
        Some(text) if text != owner.describe() => Some(format!("release {name} in this namespace belongs to {text}")),
        _ => None,
    }
}

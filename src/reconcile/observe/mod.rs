//! Observe: collects the facts about a release in the caches, and reads its newest record if the decision needs it.

pub mod dependencies;
pub mod identity;
pub mod lookups;
mod spec;
pub mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::charts::{Loaded, Served};
use super::context::Context;
use super::error::Error;
use super::memory::begun::Left;
use super::rollouts::{Choice, choose};
use crate::cluster::cache::{ReleaseKey, WatchKey};
use crate::cluster::client::Cluster;
use crate::cluster::cr::Cr;
use crate::kind::annotations::Annotations;
use crate::kind::dns;
use crate::kind::ignore::Ignore;
use crate::kind::sleep::Sleep;
use crate::kind::switches;
use crate::kind::switches::{HELM_TIMEOUT, RELEASE_NAME, Switches, TAKE_OWNERSHIP, TARGET_NAMESPACE};
use crate::members::document::Members;
use crate::names::ASLEEP;
use crate::object::ObjectId;
use crate::object::field_error::FieldError;
use crate::plan::attempts;
use crate::plan::fields;
use crate::plan::objects::names_owner;
use crate::plan::situation::{Refusal, Situation, SituationFacts, situation};
use crate::reconcile::observed::Observed;
use crate::reconcile::records::read_record;
use crate::release::digest;
use crate::release::digest::Inputs;
use crate::release::live::Live;
use crate::release::owner::{FINALIZER, LEGACY_FINALIZER, Owner};
use crate::release::record::{Record, Status};
use crate::release::secret;
use crate::release::secret::Revision;
use crate::release::status_fields::StatusFields;
use crate::render::Capabilities;
use dependencies::Linked;
use values::Extras;

/// Helm's limit. A longer name leads to labels and Secret names that Kubernetes refuses.
const MAX_NAME: usize = 53;

/// Observes a release. Returns `None` if the custom resource does not exist.
pub async fn observe(key: &ReleaseKey, ctx: &Context) -> Option<Observed> {
    let cr = ctx.cache.cr(key)?;
    let served = &ctx.kinds.get(key.kind);
    let capabilities = capabilities(ctx);
    let mut owner = owner(key, &cr, ctx, None);
    let release = (Arc::clone(&owner.release_namespace), Arc::clone(&owner.release_name));
    let (history, complete) = ctx.cache.revisions(key, &release);
    let Given { values, bad_values, own, extras, linked } = given(key, &cr, &owner, history.last(), ctx).await;
    let ((switches, bad_switch), now) = (read_switches(served, &cr), jiff::Timestamp::now());
    let members = history.last().and_then(|newest| newest.members.as_deref().and_then(Members::decode)).map(Arc::new);
    let asleep = sleeps(&switches, members.as_deref()).any(|sleep| sleep.is_asleep(now.as_second()));
    let of = InputsOf { values: &values, owner: &owner, capabilities: &capabilities, extras: &extras.digest };
    let Chosen { chart, inputs, otherwise, refusal: no_chart } = chosen(served, key, &cr, history.last(), of, asleep);
    owner.chart = chart.as_ref().map_or_else(|| "".into(), |chart| chart.chart.metadata.name.as_str().into());
    let (ignored, bad_ignored) = ignored(&own);
    let refusal = refusal(&owner, &cr, served, ctx)
        .or(no_chart)
        .or(bad_switch)
        .or(bad_values)
        .or(bad_ignored)
        .or_else(|| linked.refusal.clone())
        .or_else(|| renamed(key, &owner, ctx).or_else(|| extras.refusal.clone()));
    let cluster = ctx.cluster.acting_as(identity::identity(&served.kind, &cr, &owner));
    let attempt = attempt(inputs.as_deref(), &cr, &cluster);
    let attempts = attempts::read(&cr.status(), &attempt);
    let pause = u64::try_from(attempts.not_before - now.as_millisecond()).unwrap_or(0);
    let free = ctx.waits.is_over(key);
    let looked_up = lookups::state(key, &owner, chart.as_deref(), &extras.used, &switches, &cluster, ctx).await;
    let untried = looked_up.untried || attempts.spent && lookups::may_have_come(key, chart.as_deref(), &cr, ctx);
    let listed = || history.last().and_then(|r| r.inventory.as_ref()).into_iter().flat_map(|i| i.0.keys());
    // A first installation that was interrupted has no record yet.
    let left = if complete && history.is_empty() {
        ctx.memory.begun.watches(key, &cr, &owner.release_namespace, ctx).await
    } else {
        Left::default()
    };
    let CachedObjects { live, unsynced, unwatched, blind, hidden } = objects(key, &history, left, ctx);
    let has = |finalizer: &str| cr.finalizers.iter().any(|f| &**f == finalizer);
    let not_visible = |id: &&ObjectId| unsynced.contains(&ctx.cache.watch_key(&id.gvk, id.namespace.as_ref()));
    let facts = SituationFacts {
        uid: (&*cr.uid).into(),
        marks: owner.marks().into(),
        namespace: (&*key.namespace).into(),
        release_namespace: (&*owner.release_namespace).into(),
        now: now.as_second(),
        deleting: cr.deleting,
        finalized: has(FINALIZER) || (cr.deleting && has(LEGACY_FINALIZER)),
        wait_for_deletion: switches.uninstall_wait,
        asked: is_asked(switches.reconcile_at.as_deref(), &cr) || looked_up.changed,
        holds: if asleep { None } else { holds(&linked, switches.reconcile_at.as_deref(), &cr) },
        busy: is_busy(history.last(), now.as_second()),
        foreign: foreign(&owner, &cr, &switches, ctx, &history),
        rivals: ctx.cache.has_rivals(&owner.release_namespace, &owner.release_name),
        // A deletion needs no chart.
        spent: (refusal.is_none() || cr.deleting) && attempts.spent && !untried && !free,
        namespace_goes: attempts.spent && attempts::reason(&cr.status()) == Some("NamespaceTerminating"),
        pausing: (refusal.is_none() || cr.deleting) && pause > 0 && !free,
        switches,
        refusal,
        inputs: inputs.map(Into::into),
        inputs_otherwise: otherwise.map(Into::into),
        asleep,
        awaits: linked.awaits.clone(),
        contested: ctx.memory.contests.with(key, |contest, now| contest.contested(now)),
        unsynced: listed().filter(not_visible).map(|id| (id.gvk.clone(), id.namespace.clone())).collect(),
        ended: ctx.cache.ended(key),
        live,
        history,
    };
    let newest = facts.history.last().and_then(|r| r.inventory.as_ref());
    let unseen = newest.is_some_and(|i| i.0.keys().any(|id| not_visible(&id) && !facts.live.contains_key(id)));
    let caches = Caches { lists: unseen && blind.is_none(), names: hidden, values: extras.waits || linked.waits };
    let situation = with_caches(situation(&facts), &facts, &owner, ctx, complete, caches);
    let shows_news = facts.history.last().is_some_and(|newest| shows_news(newest, &facts, &owner, &cr));
    let mut observed = Observed {
        key: key.clone(),
        cr,
        owner,
        cluster,
        values,
        ignored: served.kind.ignore_drift.iter().cloned().chain(ignored).collect(),
        extras,
        linked,
        chart,
        capabilities,
        facts,
        attempt,
        pause,
        situation,
        record: Ok(None),
        target: None,
        left_out: Arc::default(),
        corrupted: None,
        blind,
        members,
        shows_news,
        complete,
        unwatched,
    };
    read_records(&mut observed, ctx).await;
    Some(observed)
}

/// When a release sleeps: as its switches say, and as its chart says in the documents about members.
pub fn sleeps<'a>(switches: &'a Switches, members: Option<&'a Members>) -> impl Iterator<Item = &'a Sleep> {
    members.into_iter().flat_map(|members| &members.sets).map(|set| &set.sleep).chain([&switches.sleep])
}

/// Whether the document of a revision would change the status.
fn shows_news(newest: &Revision, facts: &SituationFacts, owner: &Owner, cr: &Cr) -> bool {
    let Some(document) = newest.status_fields.as_deref().and_then(StatusFields::decode) else { return false };
    let seen = fields::Seen {
        namespace: &owner.release_namespace,
        inventory: newest.inventory.as_ref(),
        live: &facts.live,
        members: None,
    };
    fields::is_news(&fields::evaluate(&document, &seen, |live| names_owner(facts, live)), &cr.status())
}

/// The capabilities of the API server.
pub fn capabilities(ctx: &Context) -> Capabilities {
    let info = ctx.discovery.info();
    Capabilities { kube_version: info.kube_version.clone(), api_versions: info.api_versions.clone() }
}

/// Reads the records that the situation requires.
async fn read_records(observed: &mut Observed, ctx: &Context) {
    if observed.situation.needs_record() && observed.facts.foreign.is_none() {
        read_newest(observed, ctx).await;
    }
    if let Situation::RollBack(to) = observed.situation {
        read_target(observed, to, ctx).await;
    }
}

/// The state of the objects of a release in the caches.
struct CachedObjects {
    live: BTreeMap<ObjectId, Live>,
    /// Watches that are not complete yet, of objects that the newest revision lists.
    unsynced: BTreeSet<WatchKey>,
    /// The same, plus the watches of all kinds that any revision names.
    unwatched: BTreeSet<WatchKey>,
    /// Why the operator cannot see objects of the newest revision, from the first watch that is refused.
    blind: Option<String>,
    /// Whether a watch that can become complete is still incomplete, among those of kinds that a revision names.
    hidden: bool,
}

fn objects(key: &ReleaseKey, history: &[Revision], left: Left, ctx: &Context) -> CachedObjects {
    let listed = || history.last().and_then(|r| r.inventory.as_ref()).into_iter().flat_map(|i| i.0.keys());
    let of_list: BTreeSet<_> = listed().map(|id| ctx.cache.watch_key(&id.gvk, id.namespace.as_ref())).collect();
    let mut named: BTreeSet<_> =
        history.iter().flat_map(Revision::uses).map(|(gvk, namespace)| ctx.cache.watch_key(gvk, namespace)).collect();
    named.extend(left.watches);
    let (live, unsynced) = ctx.cache.objects_of(key, listed(), of_list.union(&named).cloned());
    let unwatched = unsynced;
    let (named, unsynced) = (&unwatched & &named, &unwatched & &of_list);
    let blind = ctx.cache.blind(&unsynced);
    let hidden = left.unknown || named.into_iter().any(|watch| ctx.cache.blind(&BTreeSet::from([watch])).is_none());
    CachedObjects { live, unsynced, unwatched, blind, hidden }
}

/// The parts that the caches do not have yet.
#[derive(Clone, Copy)]
struct Caches {
    /// Objects that the newest revision lists.
    lists: bool,
    /// Objects of kinds that a revision names: an interrupted operation may have left objects that no inventory lists.
    /// Objects that the operator cannot see do not count.
    names: bool,
    /// Sources of values.
    values: bool,
}

/// Replaces the situation if the caches are not complete enough to judge it.
fn with_caches(
    situation: Situation,
    facts: &SituationFacts,
    owner: &Owner,
    ctx: &Context,
    complete: bool,
    unknown: Caches,
) -> Situation {
    if unknown.values && !matches!(situation, Situation::Uninstall | Situation::Leave) {
        return Situation::Waiting;
    }
    if !complete {
        if let Some(refusal) = unwatched(owner, ctx) {
            return Situation::Refused(refusal);
        }
        return match ctx.cache.history_blind(&owner.release_namespace) {
            Some(message) => Situation::Refused(Refusal { reason: "Forbidden", message }),
            None => Situation::Waiting,
        };
    }
    let deployed = facts.history.last().is_some_and(|r| r.status == Status::Deployed);
    let waits = match situation {
        Situation::Settled | Situation::Finished | Situation::Awaiting(_) | Situation::Drifted(_) => unknown.lists,
        Situation::Uninstall => unknown.lists || unknown.names,
        Situation::New | Situation::Unfinished | Situation::RollBack(_) | Situation::Abandoned => unknown.names,
        Situation::Changed => unknown.names && !deployed,
        _ => false,
    };
    if waits { Situation::Waiting } else { situation }
}

/// The inputs of a rendering without the chart.
#[derive(Clone, Copy)]
struct InputsOf<'a> {
    values: &'a Map<String, Value>,
    owner: &'a Owner,
    capabilities: &'a Capabilities,
    /// [`Extras::digest`].
    extras: &'a str,
}

impl InputsOf<'_> {
    /// The digest of the inputs with this chart.
    fn digest(self, chart: &Loaded, asleep: bool) -> String {
        let extras = if asleep { format!("{} {ASLEEP}", self.extras) } else { self.extras.to_owned() };
        digest::inputs(&Inputs {
            chart: &chart.inputs_digest(),
            values: self.values,
            name: &self.owner.release_name,
            namespace: &self.owner.release_namespace,
            capabilities: &chart.capabilities_digest(self.capabilities),
            extras: &extras,
        })
    }
}

/// The chart of a custom resource, and the digest of its inputs; or why there is none.
#[derive(Default)]
struct Chosen {
    chart: Option<Arc<Loaded>>,
    inputs: Option<String>,
    /// [`SituationFacts::inputs_otherwise`].
    otherwise: Option<String>,
    refusal: Option<Refusal>,
}

fn chosen(
    served: &Served,
    key: &ReleaseKey,
    cr: &Cr,
    newest: Option<&Revision>,
    of: InputsOf<'_>,
    asleep: bool,
) -> Chosen {
    let recorded = newest.and_then(|revision| revision.inputs.as_deref());
    let is_made_by =
        |chart: &Loaded| [asleep, !asleep].into_iter().any(|asleep| recorded == Some(&*of.digest(chart, asleep)));
    match choose(served, key, cr, newest, is_made_by) {
        Choice::Chart(chart) => {
            let inputs = of.digest(&chart, asleep);
            let is_deployed = newest.is_some_and(|newest| newest.status == Status::Deployed);
            let is_up_to_date = is_deployed && recorded == Some(&*inputs);
            let otherwise = (!is_up_to_date).then(|| of.digest(&chart, !asleep));
            Chosen { chart: Some(chart), inputs: Some(inputs), otherwise, refusal: None }
        }
        // The release is up to date.
        Choice::Held => Chosen { inputs: recorded.map(str::to_owned), ..Chosen::default() },
        Choice::None(refusal) => Chosen { refusal: Some(refusal), ..Chosen::default() },
    }
}

/// The custom resource as the owner of objects.
pub fn owner(key: &ReleaseKey, cr: &Cr, ctx: &Context, chart: Option<&Loaded>) -> Owner {
    let (release_namespace, release_name) = ctx.cache.release_of(key);
    Owner {
        gvk: ctx.kinds.get(key.kind).gvk().clone(),
        namespace: Some(&key.namespace).filter(|namespace| !namespace.is_empty()).cloned(),
        name: Arc::clone(&key.name),
        uid: Arc::clone(&cr.uid),
        release_name,
        release_namespace,
        chart: chart.map_or_else(|| "".into(), |c| c.chart.metadata.name.as_str().into()),
    }
}

/// Whether `reconcile-at` has a value that no pass has handled yet.
fn is_asked(reconcile_at: Option<&str>, cr: &Cr) -> bool {
    let status = cr.status();
    let answered = status.get("lastHandledReconcileAt").and_then(Value::as_str);
    reconcile_at.is_some_and(|asked| answered != Some(asked))
}

/// The dependency that a change of the release waits for, unless `reconcile-at` requests the change now. A release that falls asleep does
/// not wait: its dependency may sleep already.
fn holds(linked: &Linked, reconcile_at: Option<&str>, cr: &Cr) -> Option<Refusal> {
    linked.holds.clone().filter(|_| !is_asked(reconcile_at, cr))
}

/// The digest of everything that an attempt depends on. As long as it is the same, a failure would repeat itself.
pub fn attempt(inputs: Option<&str>, cr: &Cr, cluster: &Cluster) -> String {
    let mut hasher = digest::Hasher::default();
    // A deletion does not depend on the inputs.
    let inputs = if cr.deleting { "deletion" } else { inputs.unwrap_or_default() };
    hasher.text(inputs).text(switches::text(&cr.annotations));
    if let Some(account) = cluster.account() {
        hasher.text(account.user());
    }
    hasher.finish()
}

/// A record whose manifest can be read. A pass can act on no other record.
fn usable(read: Result<Option<Record>, Error>) -> Result<Option<Record>, Error> {
    let record = read?;
    if let Some(record) = &record {
        record.objects()?;
    }
    Ok(record)
}

/// Reads the record of the revision to roll back to. Without it, the deployed objects stay as they are.
async fn read_target(observed: &mut Observed, to: u64, ctx: &Context) {
    match usable(read_record(&observed.owner, to, ctx).await) {
        Ok(Some(record)) => observed.target = Some(record),
        Ok(None) => observed.situation = Situation::Blocked,
        Err(Error::Record(error)) if error.is_unusable() => observed.situation = Situation::Blocked,
        Err(error) => observed.record = Err(error),
    }
}

/// Reads the newest record. A record that cannot be read counts as missing: the objects that it would list are found by
/// label and owner.
async fn read_newest(observed: &mut Observed, ctx: &Context) {
    let Some(newest) = observed.facts.history.last().map(|r| r.revision) else { return };
    match usable(read_record(&observed.owner, newest, ctx).await) {
        Ok(Some(record)) => {
            if observed.owner.chart.is_empty() {
                observed.owner.chart = record.chart().name.into();
            }
            observed.record = Ok(Some(record));
        }
        Ok(None) => {}
        Err(Error::Record(error)) if error.is_unusable() => observed.corrupted = Some(error),
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

fn unreadable(why: &FieldError) -> Refusal {
    Refusal { reason: "InvalidAnnotation", message: why.to_string() }
}

fn read_switches(served: &Served, cr: &Cr) -> (Switches, Option<Refusal>) {
    let known = &served.kind.switches;
    let refuse = |why| (known.clone(), Some(unreadable(&why)));
    known.read(&cr.annotations).map_or_else(refuse, |switches| (switches, None))
}

pub fn ignored(own: &Annotations) -> (Vec<Ignore>, Option<Refusal>) {
    let refuse = |why| (Vec::new(), Some(unreadable(&why)));
    own.ignored.clone().map_or_else(refuse, |rules| (rules, None))
}

/// The sources of the values of a release.
struct Given {
    /// Those of the spec, with the kind's overrides.
    values: Map<String, Value>,
    /// Why the spec has none.
    bad_values: Option<Refusal>,
    /// The annotations.
    own: Arc<Annotations>,
    extras: Extras,
    linked: Linked,
}

async fn given(key: &ReleaseKey, cr: &Arc<Cr>, owner: &Owner, newest: Option<&Revision>, ctx: &Context) -> Given {
    let (mut values, bad_values) = match spec::values(cr).await {
        Ok(values) => (values, None),
        Err(refusal) => (Map::new(), Some(refusal)),
    };
    let own = ctx.memory.annotations.of(key, cr).await;
    let mut extras = values::gather(&mut values, key, owner, &own, ctx);
    let linked = dependencies::gather(key, cr, &own, &values, is_installed(newest), ctx);
    extras.link(&linked);
    Given { values, bad_values, own, extras, linked }
}

/// Whether there is a release, also one that is not finished yet.
fn is_installed(newest: Option<&Revision>) -> bool {
    newest.is_some_and(|newest| !matches!(newest.status, Status::Uninstalled | Status::Uninstalling))
}

/// Why the release cannot be in its namespace.
fn misplaced(owner: &Owner, cr: &Cr, served: &Served, ctx: &Context) -> Option<Refusal> {
    let target = &owner.release_namespace;
    if target.is_empty() {
        let message = format!(
            "a cluster-scoped custom resource needs a namespace for its release: targetNamespace in watches.yaml, or the annotation \
             {TARGET_NAMESPACE}, where the kind allows it"
        );
        return Some(Refusal { reason: "TargetNamespaceMissing", message });
    }
    let own = owner.namespace.as_deref().unwrap_or_default();
    // A text that is not a name is a bad switch.
    let said = cr.annotations.get(TARGET_NAMESPACE).map(|text| text.trim()).filter(|text| dns::is_label(text));
    match said.map(|said| served.kind.placement.check_target(said, own)) {
        Some(Err(why)) => Some(Refusal { reason: "NamespaceNotAllowed", message: why.to_string() }),
        _ => unwatched(owner, ctx),
    }
}

/// Why the operator cannot see the release.
fn unwatched(owner: &Owner, ctx: &Context) -> Option<Refusal> {
    let target = &owner.release_namespace;
    let message = format!("the release is in namespace {target}, which the operator does not watch (WATCH_NAMESPACE)");
    (!target.is_empty() && !ctx.cache.watches(target)).then_some(Refusal { reason: "NamespaceNotWatched", message })
}

fn refusal(owner: &Owner, cr: &Cr, served: &Served, ctx: &Context) -> Option<Refusal> {
    let refuse = |reason: &'static str, message: String| Some(Refusal { reason, message });
    if let Some(misplaced) = misplaced(owner, cr, served, ctx) {
        return Some(misplaced);
    }
    if owner.release_name.len() > MAX_NAME {
        let message = format!(
            "the name has {} characters; it becomes the name of the release, which can have {MAX_NAME}. Use a shorter \
             name, or choose a name for the release with the annotation {RELEASE_NAME}, where the kind allows it",
            owner.release_name.len()
        );
        return refuse("NameTooLong", message);
    }
    None
}

/// A release keeps the name and the namespace that it was installed with. Under another name it would be installed a second time.
fn renamed(key: &ReleaseKey, owner: &Owner, ctx: &Context) -> Option<Refusal> {
    let (name, (target, other)) = (&owner.release_name, ctx.cache.other_release(key)?);
    if owner.release_namespace != target {
        let message = format!(
            "the release is in namespace {} and cannot move to {target}: revert the setting of the namespace (the \
             annotation {TARGET_NAMESPACE}, or targetNamespace in watches.yaml), or create a new custom resource",
            owner.release_namespace
        );
        return Some(Refusal { reason: "ReleaseMoved", message });
    }
    let message = format!(
        "the release is called {name} and cannot be called {other}: revert the setting of the name (the annotation \
         {RELEASE_NAME}, or releaseSuffix in watches.yaml), or create a new custom resource"
    );
    Some(Refusal { reason: "ReleaseRenamed", message })
}

/// Whether a Helm client is working on the release. The operator waits for an interrupted Helm run no longer than
/// Helm's own timeout.
fn is_busy(newest: Option<&secret::Revision>, now: i64) -> bool {
    newest.is_some_and(|r| {
        let unfinished = matches!(
            r.status,
            Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback | Status::Uninstalling
        );
        unfinished && r.inputs.is_none() && now - r.at < HELM_TIMEOUT.as_secs().cast_signed()
    })
}

/// Why the release of this name belongs to another owner, as a sentence; `None` if it does not.
fn foreign(owner: &Owner, cr: &Cr, switches: &Switches, ctx: &Context, history: &[secret::Revision]) -> Option<String> {
    let newest = history.last()?;
    let (name, own) = (&owner.release_name, owner.namespace.clone().unwrap_or_default());
    let here = match &owner.release_namespace {
        namespace if *namespace == own => "in this namespace".to_owned(),
        namespace => format!("in namespace {namespace}"),
    };
    let Some(uid) = &newest.owner_uid else {
        // After an uninstall that kept the history, the name is free.
        return (newest.status != Status::Uninstalled && !switches.take_ownership).then(|| {
            format!(
                "a Helm release {name} exists {here} and was not made for this custom resource; set the annotation \
                 {TAKE_OWNERSHIP}: \"true\" on the custom resource to take it over"
            )
        });
    };
    if **uid == *cr.uid {
        return None;
    }
    if let Some(other) = ctx.cache.cr_with_uid(uid) {
        let kind = Arc::clone(&ctx.kinds.get(other.kind).gvk().kind);
        let differ = if other.namespace == own { "kinds" } else { "namespaces" };
        let why = format!("names must differ between {differ}");
        return Some(format!(
            "release {name} {here} belongs to {kind} {}: {why}",
            if other.namespace == own { other.name.to_string() } else { format!("{}/{}", other.namespace, other.name) }
        ));
    }
    // If the owner was a deleted custom resource of the same name, its release is continued. Every other release is
    // left alone.
    match newest.owner.as_deref() {
        Some(text) if text != owner.describe() => Some(format!("release {name} {here} belongs to {text}")),
        _ => None,
    }
}

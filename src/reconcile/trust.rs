//! Records are data, not orders. Every user who can edit the Secrets of a namespace can write any object, hook or
//! operation into a record, and the operator would act on it with its own rights. So a record counts as it is only in
//! the version in which this process wrote it. Any other version is compared with the rendering of the current chart
//! before the operator uses anything from it.
//!
//! With the inputs that the record names, the chart renders the content of the record, except for random parts. If it
//! does not, the release is rendered and recorded again. If the inputs differ, as for the revision to roll back to, the
//! chart is rendered with the record's own values, and only those parts of the record count that the result contains.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::context::Context;
use super::error::Error;
use super::memory::trusted::{Instead, LeftOut};
use super::notify::event;
use super::observed::Observed;
use super::records::read_record;
use super::render::draw::{Drawn, MAX_OBJECTS, Surroundings, draw};
use super::render::{id_of, values, waits_for_hooks};
use crate::kind::switches::DeletionPolicy;
use crate::mask::Text;
use crate::members::document::{Members, ScaleHook};
use crate::object::{Object, ObjectId};
use crate::plan::objects::is_ours;
use crate::plan::situation::{RevisionKind, Situation, operation};
use crate::release::compare::is_rendering;
use crate::release::live::Live;
use crate::release::record::{HookRecord, Record, hooks_of};
use crate::release::secret::Revision;
use crate::release::status_fields::StatusFields;
use crate::render::{Hook, Release};

/// The number of renderings that a record is compared with before it is rejected: two random words of one digit are
/// equal in one of ten cases.
const RENDERINGS: usize = 4;

/// How far the clock of each rendering is ahead of the previous one, so that every part of a date differs.
const AHEAD: Duration = Duration::from_secs(397 * 86_400 + 3_661);

/// Groups whose objects grant rights or change the writes of others. Their content is never taken from a record unless
/// the chart renders exactly the same.
const PRIVILEGED: [&str; 4] =
    ["admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "rbac.authorization.k8s.io"];

/// The events of a deletion.
const DELETION: [&str; 2] = ["pre-delete", "post-delete"];

/// The maximum number of object names in an event.
const NAMED: usize = 5;

/// A release whose record was compared, so that a pass may act on it. The parts that do not count are removed.
pub struct Verified(Observed);

impl Deref for Verified {
    type Target = Observed;

    fn deref(&self) -> &Observed {
        &self.0
    }
}

/// A release whose record must not be acted on.
pub struct Unverified {
    /// The observations of the pass.
    pub observed: Observed,
    /// Why.
    pub error: Error,
}

/// Compares the record that the pass would act on, if necessary, and removes the parts that do not count from the
/// observations.
pub async fn verify(mut observed: Observed, ctx: &Context) -> Result<Verified, Box<Unverified>> {
    match leave_out(&mut observed, ctx).await {
        Ok(()) => Ok(Verified(observed)),
        Err(error) => Err(Box::new(Unverified { observed, error })),
    }
}

async fn leave_out(observed: &mut Observed, ctx: &Context) -> Result<(), Error> {
    if is_unread(observed) {
        return look_for_hooks(observed, ctx).await;
    }
    let Some(revision) = in_question(observed) else { return Ok(()) };
    let left_out = match ctx.memory.trusted.get(&observed.owner, &revision) {
        Some(left_out) => left_out,
        None => match compare(observed, &revision, ctx).await {
            Ok(Compared::Counts(left_out)) => {
                ctx.memory.trusted.enter(&observed.owner, &revision, left_out.clone());
                Arc::new(left_out)
            }
            Ok(Compared::Rejected) => {
                render_again(observed);
                return Ok(());
            }
            Err(error) if is_passing(&error) => return Err(error),
            Err(error) if waits_for_hooks(observed) && names_hooks(observed, &revision) => {
                return Err(Error::HooksUnknown(unknown_hooks(&error.text())));
            }
            Err(_) if observed.situation == Situation::Uninstall => {
                let hooks = observed.record.as_ref().ok().and_then(Option::as_ref).map_or(0, |r| r.hooks().len());
                Arc::new(LeftOut {
                    hooks: (0..hooks).collect(),
                    members: true,
                    operations: true,
                    status_fields: true,
                    ..LeftOut::default()
                })
            }
            Err(error) => return Err(Error::Unverified { revision: revision.revision, why: error.text() }),
        },
    };
    if left_out.members && observed.situation != Situation::Uninstall {
        let why = "its description of the members differs from the rendered chart".into();
        return Err(Error::Unverified { revision: revision.revision, why });
    }
    if left_out.members {
        observed.members = None;
    }
    if left_out.operations
        && let Some(known) = observed.facts.history.iter_mut().find(|r| r.revision == revision.revision)
    {
        known.operations = None;
    }
    if left_out.status_fields
        && let Some(known) = observed.facts.history.iter_mut().find(|r| r.revision == revision.revision)
    {
        known.status_fields = None;
    }
    if let Some(instead) = &left_out.instead {
        if let Ok(Some(record)) = &mut observed.record {
            record.set_hooks(&instead.hooks);
        }
        observed.members.clone_from(&instead.members);
    }
    observed.left_out = left_out;
    Ok(())
}

fn unknown_hooks(why: &Text) -> Text {
    Text::own("the record cannot be compared with the rendered chart: ").and(why.clone())
}

/// Whether a record names hooks of a deletion.
fn names_hooks(observed: &Observed, revision: &Revision) -> bool {
    let is_deletion = |hook: &HookRecord| hook.events.iter().any(|event| DELETION.contains(&event.as_str()));
    let has_hooks = observed.record.as_ref().is_ok_and(|r| r.iter().any(|r| r.hooks().iter().any(is_deletion)));
    let members = revision.members.as_deref().and_then(Members::decode);
    has_hooks || members.is_some_and(|members| members.hooks.iter().any(ScaleHook::is_before_deletion))
}

/// Whether something is to be deleted although the record of the release, which would name the delete hooks, is gone or
/// cannot be read.
fn is_unread(observed: &Observed) -> bool {
    let Observed { facts, corrupted, .. } = observed;
    let exists = |live: &Live| is_ours(facts, live) && !live.deleting;
    let is_unread = corrupted.is_some() || facts.history.is_empty();
    waits_for_hooks(observed) && facts.foreign.is_none() && is_unread && facts.live.values().any(exists)
}

/// Refuses a deletion without a record if the chart has hooks for it: they are unknown.
async fn look_for_hooks(observed: &Observed, ctx: &Context) -> Result<(), Error> {
    let refused = |why: Text| Err(Error::HooksUnknown(Text::own("the release record cannot be read, and ").and(why)));
    let noted = Arc::default();
    let surroundings = Surroundings { lookups: &noted, ahead: Duration::ZERO };
    let release = Release {
        name: observed.owner.release_name.to_string(),
        namespace: observed.owner.release_namespace.to_string(),
        revision: observed.facts.history.last().map_or(1, |newest| newest.revision),
        is_upgrade: false,
    };
    let drawn = match values::complete(observed, ctx).await {
        Ok(values) => draw(observed, values, release, surroundings, ctx).await,
        Err(error) => Err(error),
    };
    let drawn = match drawn {
        Ok(drawn) => drawn,
        Err(error) if is_passing(&error) => return Err(error),
        Err(error) => return refused(error.text()),
    };
    let is_deletion = |hook: &Hook| hook.events.iter().any(|event| DELETION.contains(&event.as_str()));
    let is_before = |members: &Arc<Members>| members.hooks.iter().any(ScaleHook::is_before_deletion);
    if drawn.rendered.hooks.iter().any(is_deletion) || drawn.members.iter().any(is_before) {
        return refused(Text::own("the chart has hooks that run at a deletion"));
    }
    Ok(())
}

/// The revision whose record the pass would act on.
fn in_question(observed: &Observed) -> Option<Revision> {
    if observed.facts.foreign.is_some() || observed.record.is_err() {
        return None;
    }
    let head = observed.facts.history.last()?;
    let has_orders = head.members.is_some() || head.operations.is_some();
    // A status shows only the facts that the chart names. As long as there is nothing new to show, no comparison is
    // needed.
    let has_hooks = || observed.record.as_ref().is_ok_and(|r| r.as_ref().is_some_and(|r| !r.hooks().is_empty()));
    match observed.situation {
        Situation::RollBack(to) => observed.facts.history.iter().find(|r| r.revision == to).cloned(),
        Situation::Drifted(_) | Situation::Unfinished => Some(head.clone()),
        // No hook runs, and each deleted object names its owner.
        Situation::Uninstall if !observed.facts.switches.hooks && !orphans(observed) => None,
        Situation::Uninstall => (has_orders || has_hooks()).then(|| head.clone()),
        Situation::Settled
        | Situation::Finished
        | Situation::Blocked
        | Situation::Paused(_)
        | Situation::Refused(_)
        | Situation::Awaiting(_)
        | Situation::Changed => (has_orders || observed.shows_news).then(|| head.clone()),
        Situation::New | Situation::Waiting | Situation::Leave | Situation::Abandoned => None,
    }
}

fn orphans(observed: &Observed) -> bool {
    observed.facts.switches.deletion_policy == DeletionPolicy::Orphan
}

/// Whether the API server failed or the pass was outdated. The next pass compares again.
fn is_passing(error: &Error) -> bool {
    error.is_outage() || error.is_stale()
}

enum Compared {
    Counts(LeftOut),
    /// The chart renders something else from the same inputs.
    Rejected,
}

async fn compare(observed: &Observed, revision: &Revision, ctx: &Context) -> Result<Compared, Error> {
    let record = match (&observed.target, observed.record.as_ref()) {
        (Some(target), _) => Some(target.clone()),
        (None, Ok(Some(record))) if record.revision() == revision.revision => Some(record.clone()),
        _ => match read_record(&observed.owner, revision.revision, ctx).await {
            Err(Error::Record(error)) if error.is_unusable() => None,
            record => record?,
        },
    };
    // One whose manifest cannot be read counts as one that is missing.
    let record = record.filter(|record| record.objects().is_ok());
    let same_inputs = revision.inputs.is_some() && revision.inputs == observed.facts.inputs;
    let values = match &record {
        Some(record) if !same_inputs => record.config(),
        _ => values::complete(observed, ctx).await?,
    };
    let mut drawn: Vec<Drawn> = Vec::new();
    for count in 0..RENDERINGS {
        let noted = Arc::default();
        let ahead = AHEAD * u32::try_from(count).unwrap_or(0);
        let surroundings = Surroundings { lookups: &noted, ahead };
        let release = as_then(observed, revision);
        drawn.push(draw(observed, values.clone(), release, surroundings, ctx).await?);
        if count == 0 {
            continue;
        }
        let left_out = differences(record.as_ref(), revision, &drawn)?;
        let lists_others = !is_inventory_of(observed, record.as_ref(), revision, ctx).await?;
        if left_out.is_empty() && !lists_others {
            return Ok(Compared::Counts(left_out));
        }
        if count + 1 == RENDERINGS {
            let compared = judge(observed, record.as_ref(), revision, left_out, &drawn, same_inputs, ctx);
            return Ok(match compared {
                Compared::Counts(left_out) if observed.situation == Situation::Uninstall => {
                    Compared::Counts(with_hooks_of(left_out, drawn.swap_remove(0)))
                }
                compared => compared,
            });
        }
    }
    unreachable!("the last rendering is judged")
}

/// A deletion runs the hooks that the chart renders, where those of the record are not rendered so: another version of the chart changes
/// the labels of a hook, and what it guards must not go without it.
fn with_hooks_of(mut left_out: LeftOut, drawn: Drawn) -> LeftOut {
    if left_out.hooks.is_empty() && !left_out.members {
        return left_out;
    }
    left_out.hooks.clear();
    left_out.members = false;
    left_out.instead = Some(Arc::new(Instead { hooks: drawn.rendered.hooks, members: drawn.members }));
    left_out
}

/// Decides about a record that differs.
fn judge(
    observed: &Observed,
    record: Option<&Record>,
    revision: &Revision,
    mut left_out: LeftOut,
    drawn: &[Drawn],
    same_inputs: bool,
    ctx: &Context,
) -> Compared {
    let facts = &observed.facts;
    let objects = record.and_then(|record| record.objects().ok()).unwrap_or_default();
    let can_render = facts.refusal.is_none() && !facts.spent && !facts.pausing && !facts.deleting;
    let is_open = matches!(
        observed.situation,
        Situation::Drifted(_) | Situation::Unfinished | Situation::Settled | Situation::Finished
    );
    let rejected = same_inputs && can_render && is_open;
    if !rejected && !same_inputs {
        // With another version of the chart an object may differ, but it still belongs to the chart.
        let is_rendered = |at: &usize| {
            let object = &objects[*at];
            let is_it = |o: &Object| {
                o.gvk.group == object.gvk.group
                    && o.gvk.kind == object.gvk.kind
                    && o.name == object.name
                    && o.namespace == object.namespace
            };
            let is_namespaced = ctx.discovery.cached(&object.gvk).is_some_and(|resource| resource.namespaced);
            is_namespaced && !PRIVILEGED.contains(&&*object.gvk.group) && drawn[0].objects.iter().any(is_it)
        };
        left_out.objects.retain(|at| !is_rendered(at));
    }
    if left_out.is_empty() && !rejected {
        return Compared::Counts(left_out);
    }
    let mut names: Vec<String> =
        left_out.objects.iter().map(|at| format!("{} {}", objects[*at].gvk.kind, objects[*at].name)).collect();
    names.extend((!left_out.hooks.is_empty()).then(|| "its hooks".to_owned()));
    names.extend(left_out.members.then(|| "the description of the members".to_owned()));
    names.extend(left_out.operations.then(|| "the description of the operations".to_owned()));
    names.extend(left_out.status_fields.then(|| "the description of the status".to_owned()));
    if names.is_empty() {
        names.push("the list of its objects".to_owned());
    }
    names.truncate(NAMED);
    let what = if rejected { "the release is rendered again" } else { "the operator takes none of that from it" };
    let note = format!(
        "the record of revision {} differs from the rendered chart ({}): {what}. Another client may have written it",
        revision.revision,
        names.join(", ")
    );
    event(observed, ctx, true, "RecordRejected", note);
    if rejected { Compared::Rejected } else { Compared::Counts(left_out) }
}

/// Ignores the whole record: the release is rendered, and all its objects are applied.
fn render_again(observed: &mut Observed) {
    observed.situation = Situation::Changed;
    observed.members = None;
    if let Some(head) = observed.facts.history.last_mut() {
        head.inventory = None;
        head.members = None;
        head.operations = None;
        head.status_fields = None;
    }
}

/// The release as templates saw it when this revision was rendered.
fn as_then(observed: &Observed, revision: &Revision) -> Release {
    let number = revision.rollback.unwrap_or(revision.revision);
    let older: Vec<Revision> = observed.facts.history.iter().filter(|r| r.revision < number).cloned().collect();
    let upgrade = if older.is_empty() { number > 1 } else { operation(&older) == RevisionKind::Upgrade };
    Release {
        name: observed.owner.release_name.to_string(),
        namespace: observed.owner.release_namespace.to_string(),
        revision: number,
        is_upgrade: upgrade,
    }
}

/// The parts of a record that the renderings do not contain.
fn differences(record: Option<&Record>, revision: &Revision, drawn: &[Drawn]) -> Result<LeftOut, Error> {
    let mut left_out = LeftOut::default();
    if let Some(record) = record {
        let candidates = pairs(drawn);
        for (at, object) in record.objects()?.iter().enumerate() {
            let is_one = |candidate: &Vec<&Object>| {
                if !is_like(object, candidate) {
                    return false;
                }
                let bodies: Vec<Value> = candidate.iter().map(|o| Value::Object(o.body.clone())).collect();
                is_rendering(&Value::Object(object.body.clone()), &bodies.iter().collect::<Vec<_>>())
            };
            // No chart may render more objects, and each one is compared with all candidates.
            if at >= MAX_OBJECTS || !candidates.iter().any(is_one) {
                left_out.objects.insert(at);
            }
        }
        let rendered: Vec<Vec<Value>> =
            drawn.iter().map(|d| hooks_of(&d.rendered).iter().map(as_value).collect()).collect();
        for (at, hook) in record.hooks().iter().enumerate() {
            let hook = as_value(hook);
            let same = |at: usize| {
                let all: Option<Vec<&Value>> = rendered.iter().map(|hooks| hooks.get(at)).collect();
                all.is_some_and(|all| is_rendering(&hook, &all))
            };
            if at >= MAX_OBJECTS || !(0..rendered[0].len()).any(same) {
                left_out.hooks.insert(at);
            }
        }
    }
    let members: Vec<Value> = drawn.iter().map(|d| encoded(d.members.as_deref())).collect();
    let recorded = revision.members.as_deref().and_then(crate::members::document::Members::decode);
    left_out.members = !is_rendering(&encoded(recorded.as_ref()), &members.iter().collect::<Vec<_>>());
    let operations: Vec<Value> = drawn.iter().map(|d| encoded(d.operations.as_deref())).collect();
    let recorded = revision.operations.as_deref().and_then(crate::plan::operations::document::Operations::decode);
    left_out.operations = !is_rendering(&encoded(recorded.as_ref()), &operations.iter().collect::<Vec<_>>());
    let fields: Vec<Value> = drawn.iter().map(|d| encoded(d.status_fields.as_deref())).collect();
    let recorded = revision.status_fields.as_deref().and_then(StatusFields::decode);
    left_out.status_fields = !is_rendering(&encoded(recorded.as_ref()), &fields.iter().collect::<Vec<_>>());
    Ok(left_out)
}

fn encoded<T: serde::Serialize>(document: Option<&T>) -> Value {
    serde_json::to_value(document).unwrap_or_default()
}

/// The definition of a hook, without its last run. Helm writes its default policy explicitly.
fn as_value(hook: &HookRecord) -> Value {
    let body = hook.object().ok().flatten().map(|object| Value::Object(object.body));
    let mut policies = hook.delete_policies.clone();
    policies.retain(|policy| policy != "before-hook-creation" || hook.delete_policies.len() > 1);
    serde_json::json!({"body": body, "events": hook.events, "weight": hook.weight, "policies": policies})
}

/// Each object in all renderings: matched by position if all renderings have the same kinds in the same order, and by
/// name if not.
fn pairs(drawn: &[Drawn]) -> Vec<Vec<&Object>> {
    let (first, others) = drawn.split_first().expect("there are renderings");
    let in_step = others.iter().all(|other| {
        other.objects.len() == first.objects.len()
            && other.objects.iter().zip(&first.objects).all(|(a, b)| a.gvk == b.gvk && a.namespace == b.namespace)
    });
    let mut all = Vec::with_capacity(first.objects.len());
    for (at, object) in first.objects.iter().enumerate() {
        let named = |o: &&Object| o.gvk == object.gvk && o.namespace == object.namespace && o.name == object.name;
        let found =
            others.iter().map(|other| if in_step { other.objects.get(at) } else { other.objects.iter().find(named) });
        let found: Option<Vec<&Object>> = std::iter::once(Some(object)).chain(found).collect();
        all.extend(found);
    }
    all
}

/// Whether the name of an object matches these renderings: it is equal, or it is random in them.
fn is_like(object: &Object, renderings: &[&Object]) -> bool {
    let first = renderings[0];
    let is_random = renderings.iter().any(|other| other.name != first.name);
    object.gvk == first.gvk && object.namespace == first.namespace && (is_random || object.name == first.name)
}

/// Whether the inventory of the revision lists exactly the objects of its record.
async fn is_inventory_of(
    observed: &Observed,
    record: Option<&Record>,
    revision: &Revision,
    ctx: &Context,
) -> Result<bool, Error> {
    let (Some(inventory), Some(record)) = (&revision.inventory, record) else { return Ok(true) };
    let mut ids: BTreeSet<ObjectId> = BTreeSet::new();
    for object in record.objects()? {
        ids.insert(id_of(&object, observed, ctx).await?);
    }
    // A revision in progress lists what it has applied so far.
    let is_whole = revision.status == crate::release::record::Status::Deployed;
    Ok(inventory.0.keys().all(|id| ids.contains(id)) && (!is_whole || inventory.0.len() == ids.len()))
}

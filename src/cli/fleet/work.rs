//! Renders and compares custom resources, on all cores.

use super::sides::{FleetCase, FleetKind};
use crate::fleet::compare::{FleetDrawing, FleetObject, compare};
use crate::fleet::effect::Effect;
use crate::fleet::findings::{FleetEntry, FleetSubject, WithBody, entries, is_secret};
use crate::fleet::groups::CaseEntries;
use crate::fleet::placeholders::Placeholders;
use crate::kind::switches::DeletionPolicy;
use crate::mask::{Masks, Secrets, Text};
use crate::names;
use crate::object::{Gvk, ObjectId};
use crate::plan::immutable::is_allowed;
use crate::rbac::kinds;
use crate::reconcile::offline::{OfflineRendering, OfflineSettings, PlainResource, render_offline};
use crate::release::owner::Owner;
use crate::render::Capabilities;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The result for one custom resource.
#[derive(Default)]
pub struct CaseResult {
    /// The differences.
    pub entries: CaseEntries,
    /// Random fields, which are not compared.
    pub by_chance: Vec<(FleetSubject, String)>,
    /// Facts that a reader has to know, equal for many custom resources.
    pub notes: Vec<String>,
    /// The kinds of its objects now.
    kinds_now: BTreeSet<Gvk>,
    /// The kinds of its objects then.
    kinds_then: BTreeSet<Gvk>,
}

/// Renders and compares all, in their order.
pub fn all(cases: &[FleetCase], capabilities: &Capabilities) -> Vec<CaseResult> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(number) else { return done };
            done.push((number, one(case, capabilities)));
        }
    };
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let mut done: Vec<(usize, CaseResult)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        // A panic of a rendering is an error of it, so this one is a fault of this program.
        threads.into_iter().flat_map(|thread| thread.join().expect("a comparison does not panic")).collect()
    });
    done.sort_by_key(|(number, _)| *number);
    let mut done: Vec<CaseResult> = done.into_iter().map(|(_, result)| result).collect();
    new_kinds(&mut done);
    done
}

/// Enters the kinds of objects that no custom resource has now: the operator may lack the rights for them.
fn new_kinds(done: &mut [CaseResult]) {
    let known: BTreeSet<Gvk> = done.iter().flat_map(|result| &result.kinds_now).cloned().collect();
    if known.is_empty() {
        return;
    }
    for CaseResult { entries, kinds_then, .. } in done {
        for gvk in kinds_then.difference(&known) {
            let (group, kind) = (gvk.group.to_string(), gvk.kind.to_string());
            let subject = FleetSubject { group, kind, ..FleetSubject::default() };
            let effect = Effect::NewKind;
            entries
                .entries
                .push((FleetEntry { effect, subject, path: String::new(), before: None, after: None }, None));
        }
    }
}

/// A rendering with the content that is compared.
struct Rendered {
    drawing: FleetDrawing,
    owner: Owner,
}

/// The difference that is the custom resource itself.
pub(super) fn of_whole(case: &FleetCase, effect: Effect, why: String) -> WithBody {
    let (group, kind) = (case.gvk.group.to_string(), case.gvk.kind.to_string());
    let subject = FleetSubject { group, kind, ..FleetSubject::default() };
    (FleetEntry { effect, subject, path: String::new(), before: None, after: Some(why) }, None)
}

fn one(case: &FleetCase, capabilities: &Capabilities) -> CaseResult {
    let mut result = CaseResult::default();
    if case.is_abandoned {
        let what = case.gvk.kind_group();
        result.notes.push(format!("the operator no longer serves {what}: the objects stay as they are"));
        return result;
    }
    if is_same(case) {
        return result;
    }
    let exists = case.now.is_some();
    let now = case.now.as_ref().map(|(cr, served)| rendered(cr, served, capabilities, true, &mut result.notes));
    let then = case.then.as_ref().map(|(cr, served)| rendered(cr, served, capabilities, exists, &mut result.notes));
    result.notes.sort();
    result.notes.dedup();
    let masks = masks([&now, &then]);
    result.entries.placeholders = placeholders(case, [&then, &now]);
    match (now, then) {
        (Some(Err(was)), Some(Err(_))) => {
            result.notes.push(format!("it can be rendered neither now nor then: {}", masks.show(&(), &was)));
        }
        (Some(Err(was)), Some(Ok(_))) => {
            result.entries.entries.push(of_whole(case, Effect::Repaired, masks.show(&(), &was)));
        }
        (_, Some(Err(why))) => result.entries.entries.push(of_whole(case, Effect::Fails, masks.show(&(), &why))),
        (Some(Err(_)) | None, None) => {}
        (now, then) => compared(case, now.and_then(Result::ok), then.and_then(Result::ok), &masks, &mut result),
    }
    demanded(case, &mut result);
    result
}

/// Whether nothing that a rendering depends on changes.
pub(super) fn is_same(case: &FleetCase) -> bool {
    let (Some((cr, served)), Some((new, new_served))) = (&case.now, &case.then) else { return false };
    Arc::ptr_eq(served, new_served) && cr == new
}

/// The marks for the names of a custom resource and its release.
fn placeholders(case: &FleetCase, sides: [&Option<Result<Rendered, Text>>; 2]) -> Placeholders {
    let own = (&*case.id.0, &*case.id.1);
    let owner = sides.into_iter().flatten().flatten().next().map(|rendered| &rendered.owner);
    let release = owner.map_or(own, |owner| (&*owner.release_namespace, &*owner.release_name));
    Placeholders::new(release, own)
}

/// Whether it is a document for the operator, which is never an object of the cluster.
fn is_declaration(object: &FleetObject) -> bool {
    let group = names::MEMBERS_API_VERSION.split('/').next();
    object.is_hook && group == Some(&*object.id.gvk.group)
}

/// Enters the differences of two renderings.
fn compared(
    case: &FleetCase,
    mut now: Option<Rendered>,
    then: Option<Rendered>,
    masks: &Masks<()>,
    result: &mut CaseResult,
) {
    if let (Some((cr, served)), None, Some(now)) = (&case.now, &case.then, &mut now) {
        let switches = served.kind.switches.read(&cr.annotations);
        // Without the custom resource, its objects may stay.
        let is_orphan = switches.is_ok_and(|switches| switches.deletion_policy == DeletionPolicy::Orphan);
        now.drawing.objects.iter_mut().for_each(|object| object.is_kept |= is_orphan);
    }
    let kinds = |side: &Option<Rendered>| -> BTreeSet<Gvk> {
        let objects = side.iter().flat_map(|side| &side.drawing.objects);
        objects.filter(|object| !is_declaration(object)).map(|object| object.id.gvk.clone()).collect()
    };
    (result.kinds_now, result.kinds_then) = (kinds(&now), kinds(&then));
    let drawing = |side: Option<Rendered>| side.map(|side| side.drawing).unwrap_or_default();
    let compared = compare(drawing(now), drawing(then));
    let may_recreate = case.then.as_ref().is_some_and(|(cr, _)| is_allowed(&cr.annotations, false));
    result.entries.entries.extend(entries(&compared, may_recreate, &|text| masks.replace(&(), text)));
    let put = |text: &str| result.entries.placeholders.put(text).into_owned();
    for (id, path) in &compared.by_chance {
        let subject = FleetSubject::of(id);
        let subject = FleetSubject { name: put(&subject.name), namespace: put(&subject.namespace), ..subject };
        result.by_chance.push((subject, path.clone()));
    }
}

/// Enters the values that the chart does not know or take then, and did now.
pub(super) fn demanded(case: &FleetCase, result: &mut CaseResult) {
    let Some((cr, served)) = &case.then else { return };
    let was = case.now.as_ref();
    if was.is_some_and(|(was, before)| Arc::ptr_eq(before, served) && was.spec == cr.spec) {
        return;
    }
    let entry = |effect: Effect, path: String, why: Option<&str>| -> WithBody {
        let (mut entry, body) = of_whole(case, effect, String::new());
        (entry.path, entry.after) = (path, why.map(str::to_owned));
        (entry, body)
    };
    let refused = was.map(|(was, before)| before.demands().refused(&was.spec)).unwrap_or_default();
    for (path, why) in served.demands().refused(&cr.spec) {
        if !refused.contains(&(path.clone(), why)) {
            result.entries.entries.push(entry(Effect::Refused, path, Some(why)));
        }
    }
    let unknown = was.map(|(was, before)| before.demands().unknown(&was.spec)).unwrap_or_default();
    for path in served.demands().unknown(&cr.spec) {
        if !unknown.contains(&path) {
            result.entries.entries.push(entry(Effect::Unknown, path, None));
        }
    }
}

/// The secrets of both sides, which no text shows.
fn masks(sides: [&Option<Result<Rendered, Text>>; 2]) -> Masks<()> {
    let masks = Masks::default();
    for Rendered { drawing, owner } in sides.into_iter().flatten().flatten() {
        let names = drawing.objects.iter().flat_map(|object| [&*object.id.name, &*object.id.gvk.kind]);
        let names = names.chain([&*owner.release_name, &*owner.release_namespace, &*owner.chart]);
        let mut secrets = Secrets::of_objects(names);
        for object in drawing.objects.iter().filter(|object| is_secret(&object.id)) {
            if let Value::Object(body) = &object.body {
                secrets.add_secret_object(body);
            }
        }
        masks.learn(&(), secrets);
    }
    masks
}

fn rendered(
    cr: &PlainResource,
    served: &FleetKind,
    capabilities: &Capabilities,
    is_upgrade: bool,
    notes: &mut Vec<String>,
) -> Result<Rendered, Text> {
    let FleetKind { kind, chart, .. } = served;
    let settings = OfflineSettings { kind, chart, capabilities, is_namespaced, is_upgrade };
    let first = render_offline(cr, settings, 1)?;
    let again = first.is_random.then(|| render_offline(cr, settings, 2)).transpose()?;
    notes.extend(first.missing.iter().map(|source| format!("the values of {source} are not known here")));
    if first.has_looked_up {
        notes.push("the chart looks up objects of the cluster, and finds nothing here".to_owned());
    }
    if kind.switches.read(&cr.annotations).is_ok_and(|switches| switches.paused) {
        notes.push("it is paused: the operator makes the changes when the pause ends".to_owned());
    }
    let owner = first.owner.clone();
    Ok(Rendered { drawing: FleetDrawing { objects: objects(first), again: again.map(objects) }, owner })
}

fn is_namespaced(gvk: &Gvk) -> bool {
    kinds::of(&gvk.group, &gvk.kind).is_none_or(|row| row.namespaced)
}

fn objects(rendering: OfflineRendering) -> Vec<FleetObject> {
    let OfflineRendering { owner, objects, hooks, .. } = rendering;
    let objects = objects.into_iter().map(|object| FleetObject {
        id: object.id,
        body: Value::Object(object.body),
        is_hook: false,
        is_kept: object.kept,
    });
    let hooks = hooks.into_iter().map(|hook| {
        let place = || hook.namespace.as_deref().map_or_else(|| Arc::clone(&owner.release_namespace), Into::into);
        let namespace = is_namespaced(&hook.gvk).then(place);
        let id = ObjectId { gvk: hook.gvk.clone(), namespace, name: hook.name.as_str().into() };
        FleetObject { id, body: Value::Object(hook.body), is_hook: true, is_kept: false }
    });
    objects.chain(hooks).collect()
}

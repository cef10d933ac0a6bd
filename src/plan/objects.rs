//! Which objects drifted, and which are applied and pruned.

use std::collections::{BTreeMap, BTreeSet};

use super::situation::{Drift, SituationFacts};
use super::stamp::Stamped;
use super::{Desired, PlanStep};
use crate::object::ObjectId;
use crate::release::inventory::{Inventory, Reference};
use crate::release::live::Live;
use crate::release::record::Status;

/// How the live objects differ from the newest revision's inventory.
pub fn drift(facts: &SituationFacts) -> Vec<Drift> {
    let Some(inventory) = facts.history.last().and_then(|r| r.inventory.as_ref()) else { return Vec::new() };
    let mut drift = Vec::new();
    for (id, reference) in &inventory.0 {
        if facts.unsynced.contains(&(id.gvk.clone(), id.namespace.clone())) || facts.contested.contains(id) {
            continue;
        }
        match facts.live.get(id) {
            None if reference.finished || has_ended(facts, id, reference) => {}
            None => drift.push(Drift::Missing(id.clone())),
            // It is being deleted. Once it is gone, it counts as missing.
            Some(live) if live.deleting => {}
            Some(live) if live.uid != reference.uid || live.digest.as_ref() != Some(&reference.digest) => {
                drift.push(Drift::Changed(id.clone()));
            }
            Some(_) => {}
        }
    }
    // The watch of another version of the group may show a listed object again.
    let listed: BTreeSet<&str> = inventory.0.values().map(|reference| &*reference.uid).collect();
    for (id, live) in &facts.live {
        let stray = !inventory.0.contains_key(id) && !listed.contains(&*live.uid);
        if stray && !live.deleting && is_ours(facts, live) && !is_own_namespace(facts, id) {
            drift.push(Drift::Stray(id.clone(), live.uid.clone()));
        }
    }
    drift
}

/// Whether a Job or a Pod that is gone had finished. Then it is not missing: its work is done, and to do it again may harm.
fn has_ended(facts: &SituationFacts, id: &ObjectId, reference: &Reference) -> bool {
    facts.ended.get(id) == Some(&reference.uid)
}

/// Whether a Job or a Pod of the newest revision has finished, and the inventory does not say so yet.
pub fn has_finished(facts: &SituationFacts) -> bool {
    let inventory = facts.history.last().and_then(|r| r.inventory.as_ref());
    inventory.is_some_and(|inventory| inventory.0.iter().any(|(id, reference)| is_news(facts, id, reference)))
}

fn is_news(facts: &SituationFacts, id: &ObjectId, reference: &Reference) -> bool {
    let finished = |live: &Live| live.finished && live.uid == reference.uid;
    !reference.finished && facts.live.get(id).map_or_else(|| has_ended(facts, id, reference), finished)
}

/// Marks in an inventory what has finished.
pub fn note_finished(facts: &SituationFacts, inventory: &mut Inventory) {
    for (id, reference) in &mut inventory.0 {
        reference.finished |= is_news(facts, id, reference);
    }
}

/// Brings back what drifted, and only that.
pub fn repair(desired: &Desired, drift: &[Drift], newest: u64) -> Vec<PlanStep> {
    let mut steps = Vec::new();
    let mut rewrite = false;
    for (index, object) in desired.objects.iter().enumerate() {
        if drift.iter().any(|d| matches!(d, Drift::Missing(id) | Drift::Changed(id) if *id == object.id)) {
            steps.push(PlanStep::Apply { object: index, force: true });
            rewrite = true;
        }
    }
    for item in drift {
        if let Drift::Stray(id, uid) = item {
            steps.push(PlanStep::Prune { id: id.clone(), uid: Some(uid.clone()) });
        }
    }
    if rewrite {
        // Written only when the references really changed: the executor compares.
        steps.push(PlanStep::Note(newest));
    }
    steps
}

/// Whether the objects are those of the last record.
pub fn is_same(desired: &Desired) -> bool {
    let sorted = |objects: &[Stamped]| -> BTreeMap<ObjectId, Stamped> {
        objects.iter().map(|o| (o.id.clone(), o.clone())).collect()
    };
    desired.previous.as_ref().is_some_and(|previous| sorted(previous) == sorted(&desired.objects))
}

/// Brings the objects to a revision that follows a deployed one. Objects that the chart renders as before, and that have not drifted,
/// are kept. After any other revision all objects are applied, since their state is unknown.
pub fn upgrade(facts: &SituationFacts, desired: &Desired) -> Vec<PlanStep> {
    let deployed = facts.history.last().filter(|r| r.status == Status::Deployed);
    let (Some(inventory), Some(previous)) = (deployed.and_then(|r| r.inventory.as_ref()), &desired.previous) else {
        return applies(facts, desired);
    };
    let before: BTreeMap<&ObjectId, &Stamped> = previous.iter().map(|o| (&o.id, o)).collect();
    let is_as_applied = |id: &ObjectId| {
        let ran =
            |id| inventory.0.get(id).is_some_and(|reference| reference.finished || has_ended(facts, id, reference));
        if !facts.live.contains_key(id) {
            return ran(id);
        }
        inventory.0.get(id).zip(facts.live.get(id)).is_some_and(|(reference, live)| {
            live.uid == reference.uid
                && live.digest.as_ref() == Some(&reference.digest)
                && !live.deleting
                && !live.shared
        })
    };
    let keep = |object: &Stamped| before.get(&object.id) == Some(&object) && is_as_applied(&object.id);
    let step = |apply| match apply {
        PlanStep::Apply { object, .. } if keep(&desired.objects[object]) => PlanStep::Keep(object),
        apply => apply,
    };
    applies(facts, desired).into_iter().map(step).collect()
}

/// Applies all objects in their order.
pub fn applies(facts: &SituationFacts, desired: &Desired) -> Vec<PlanStep> {
    let known: BTreeSet<&ObjectId> =
        facts.history.iter().filter_map(|r| r.inventory.as_ref()).flat_map(|i| i.0.keys()).collect();
    let force = |id: &ObjectId| known.contains(id) || facts.live.contains_key(id);
    (0..desired.objects.len())
        .map(|object| PlanStep::Apply { object, force: force(&desired.objects[object].id) })
        .collect()
}

/// Objects that earlier revisions had and this one lacks: from the last record, and by label and owner (docs/design/applying.md D1).
pub fn prune(facts: &SituationFacts, desired: &Desired) -> Vec<PlanStep> {
    // An object that the chart now writes in another version of its group is still the same object.
    let wanted = desired.objects.iter().map(|o| &o.id).chain(&desired.left_out);
    let wanted: BTreeSet<_> = wanted.map(ObjectId::in_any_version).collect();
    let mut steps = Vec::new();
    for (id, live) in facts.live.iter().rev() {
        let goes = !live.kept && !live.deleting && is_ours(facts, live) && !is_own_namespace(facts, id);
        if goes && !wanted.contains(&id.in_any_version()) {
            steps.push(PlanStep::Prune { id: id.clone(), uid: Some(live.uid.clone()) });
        }
    }
    for object in desired.previous.iter().flatten().rev() {
        let goes = !object.kept && !is_own_namespace(facts, &object.id) && !facts.live.contains_key(&object.id);
        if goes && !wanted.contains(&object.id.in_any_version()) {
            steps.push(PlanStep::Prune { id: object.id.clone(), uid: None });
        }
    }
    steps
}

/// Whether an object names another owner: it is not touched, whatever a record or a hook says.
pub fn is_others(facts: &SituationFacts, live: &Live) -> bool {
    match (&live.owner_uid, &live.marks) {
        (Some(uid), _) => *uid != facts.uid,
        (None, Some(marks)) => *marks != facts.marks,
        (None, None) => false,
    }
}

/// An object is pruned only when it names this custom resource as its owner and we have applied it, whatever a record lists.
pub fn is_ours(facts: &SituationFacts, live: &Live) -> bool {
    live.digest.is_some() && !live.kept && names_owner(facts, live)
}

/// Whether an object names the custom resource as its owner.
pub fn names_owner(facts: &SituationFacts, live: &Live) -> bool {
    match &live.owner_uid {
        Some(uid) => *uid == facts.uid,
        None => live.marks.as_ref() == Some(&facts.marks),
    }
}

/// Whether an object is the namespace that holds the custom resource or the release: with it everything would go, the custom resource or
/// the record included.
pub fn is_own_namespace(facts: &SituationFacts, id: &ObjectId) -> bool {
    let is_own = *id.name == *facts.namespace || *id.name == *facts.release_namespace;
    id.gvk.group.is_empty() && &*id.gvk.kind == "Namespace" && is_own
}

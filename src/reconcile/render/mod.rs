//! Render: turns the chart and its values, or the last record, into the objects that the release should consist of.

pub mod crds;
pub mod draw;
pub mod parse;
pub mod patches;
pub mod secrets;
pub mod stamp;
pub mod values;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};

use super::blocking::off;
use super::context::Context;
use super::error::Error;
use super::observed::Observed;
use super::trust::Verified;
use crate::crd;
use crate::kind::switches::DeletionPolicy;
use crate::object::{Gvk, Object, ObjectId};
use crate::plan::Desired;
use crate::plan::hooks::Hook;
use crate::plan::operations::document::Operations;
use crate::plan::situation::{RevisionKind, Situation, SituationFacts, operation};
use crate::release::lookups::Lookups;
use crate::release::record::{HookRecord, Record, hooks_of};
use crate::render::{Release, Rendered};
use draw::{Drawn, MAX_OBJECTS, Surroundings, draw};
use stamp::{Missing, place, stamp};

/// The intended content of a release and, if a chart was rendered, the result of the rendering.
#[derive(Default)]
pub struct Prepared {
    /// For the plan.
    pub desired: Desired,
    /// For the record.
    pub rendered: Option<Rendered>,
    /// All values of the rendering, for the record.
    pub values: Map<String, Value>,
    /// The lookups of the templates.
    pub lookups: Lookups,
    /// The message about values that the chart does not know.
    pub remarks: Vec<String>,
}

/// Prepares the data that the situation requires.
pub async fn render(observed: &Verified, ctx: &Context) -> Result<Prepared, Error> {
    let record = observed.record.as_ref().map_err(Clone::clone)?.as_ref();
    match &observed.situation {
        Situation::New | Situation::Changed => {
            let noted = Arc::default();
            let mut prepared = from_chart(observed, record, &noted, ctx).await;
            let mut lookups = noted.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Ok(prepared) = &mut prepared {
                let Desired { objects, hooks, .. } = &prepared.desired;
                lookups.leave_out(objects.iter().map(|object| &object.id).chain(hooks.iter().map(|hook| &hook.id)));
                prepared.lookups = lookups.clone();
            }
            // Also of a rendering that failed: objects that it did not find may appear. None begins without the values.
            let begun = !matches!(prepared, Err(Error::Values(_) | Error::Api(_)));
            // A template may look up because a value says so (`tpl`), which its text does not show.
            let looked_up = !lookups.is_empty() || observed.chart.as_ref().is_some_and(|chart| chart.looks_up());
            if begun && looked_up {
                ctx.memory.looked_up.tried(&observed.key, lookups);
            }
            prepared
        }
        Situation::RollBack(_) => {
            let Some(target) = &observed.target else { return Ok(Prepared::default()) };
            let objects = stamp(&observed.left_out.objects(target)?, observed, ctx, Missing::IsAnError).await?;
            let previous = match record.map(Record::objects) {
                Some(Ok(objects)) => Some(stamp(&objects, observed, ctx, Missing::IsLeftOut).await?),
                _ => None,
            };
            let hooks = hooks(observed.left_out.hooks(target.rollback(0, "").hooks()), observed, ctx).await?;
            let members = observed.members.clone();
            let operations = observed.operations(Some(target.revision()));
            let status_fields = observed.status_fields(Some(target.revision()));
            let left_out = left_out(target, observed, ctx).await?;
            let desired = Desired {
                objects,
                previous,
                hooks,
                left_out,
                members,
                operations,
                status_fields,
                ..Desired::default()
            };
            Ok(Prepared { desired, ..Prepared::default() })
        }
        Situation::Unfinished | Situation::Drifted(_) => {
            let Some(record) = record else { return Ok(Prepared::default()) };
            values::learn(observed, ctx).await;
            let objects = stamp(&observed.left_out.objects(record)?, observed, ctx, Missing::IsAnError).await?;
            let hooks = hooks(observed.left_out.hooks(record.hooks()), observed, ctx).await?;
            let (members, operations) = (observed.members.clone(), observed.operations(None));
            let status_fields = observed.status_fields(None);
            let left_out = left_out(record, observed, ctx).await?;
            let desired =
                Desired { objects, hooks, left_out, members, operations, status_fields, ..Desired::default() };
            Ok(Prepared { desired, ..Prepared::default() })
        }
        Situation::Uninstall | Situation::Abandoned => {
            let objects = match record.map(Record::objects) {
                Some(Ok(objects)) => stamp(&objects, observed, ctx, Missing::IsLeftOut).await?,
                // No record, or none that can be read: by label and owner (docs/design/applying.md D2).
                _ => Vec::new(),
            };
            let recorded = observed.left_out.hooks(record.map(Record::hooks).unwrap_or_default());
            let hooks = match hooks(recorded, observed, ctx).await {
                Err(error @ (Error::Manifest(_) | Error::NotAllowed(_))) if waits_for_hooks(observed) => {
                    return Err(Error::HooksUnknown(error.text()));
                }
                Err(Error::Manifest(_) | Error::NotAllowed(_)) => Vec::new(),
                hooks => hooks?,
            };
            Ok(Prepared { desired: Desired { objects, hooks, ..Desired::default() }, ..Prepared::default() })
        }
        _ => Ok(Prepared::default()),
    }
}

/// The objects of a record that do not count.
async fn left_out(record: &Record, observed: &Observed, ctx: &Context) -> Result<BTreeSet<ObjectId>, Error> {
    let mut ids = BTreeSet::new();
    for object in observed.left_out.others(record)? {
        ids.insert(id_of(&object, observed, ctx).await?);
    }
    Ok(ids)
}

/// The id of an object of a record.
pub async fn id_of(object: &Object, observed: &Observed, ctx: &Context) -> Result<ObjectId, Error> {
    let namespaced = ctx.discovery.resolve(&object.gvk).await?.is_none_or(|resource| resource.namespaced);
    let of_release = || Arc::clone(&observed.owner.release_namespace);
    let namespace = namespaced.then(|| object.namespace.as_deref().map_or_else(of_release, Into::into));
    Ok(ObjectId { gvk: object.gvk.clone(), namespace, name: object.name.as_str().into() })
}

/// Whether a deletion waits for hooks: a user may have turned hooks off, and if objects stay, no hook runs.
pub fn waits_for_hooks(observed: &Observed) -> bool {
    let SituationFacts { switches, namespace_goes, .. } = &observed.facts;
    let deletes = switches.deletion_policy != DeletionPolicy::Orphan;
    observed.situation == Situation::Uninstall && switches.hooks && deletes && !namespace_goes
}

/// The message about values that the chart does not know. A custom resource may be large, and so may a chart: it is
/// looked at outside the workers.
async fn remarks(observed: &Observed) -> Vec<String> {
    let (Some(chart), Some(spec)) = (observed.chart.clone(), observed.cr.spec.clone()) else { return Vec::new() };
    let look = move || {
        let spec: Map<String, Value> = serde_json::from_str(&spec).unwrap_or_default();
        crd::known(&chart.chart).as_ref().as_ref().map_or_else(Vec::new, |known| known.remarks(&spec))
    };
    // A release does not fail for want of a remark; a panic is logged where it happens.
    off(look).await.unwrap_or_default()
}

async fn from_chart(
    observed: &Observed,
    record: Option<&Record>,
    lookups: &Arc<Mutex<Lookups>>,
    ctx: &Context,
) -> Result<Prepared, Error> {
    let newest = observed.facts.history.last().map_or(0, |r| r.revision);
    let release = Release {
        name: observed.owner.release_name.to_string(),
        namespace: observed.owner.release_namespace.to_string(),
        revision: newest + 1,
        is_upgrade: observed.situation == Situation::Changed
            && operation(&observed.facts.history) == RevisionKind::Upgrade,
    };
    let values = values::complete(observed, ctx).await?;
    let surroundings = Surroundings { lookups, ahead: Duration::ZERO };
    let drawn = draw(observed, values.clone(), release, surroundings, ctx).await?;
    let remarks = remarks(observed).await;
    let crds = crds::definitions(&drawn.rendered, observed, ctx).await?;
    let Drawn { rendered, objects, members, operations, status_fields } = drawn;
    let crds = if crds.is_empty() { crds::of_templates(&objects, observed, ctx).await? } else { crds };
    if !crds.is_empty() {
        let desired = Desired { crds, ..Desired::default() };
        return Ok(Prepared { desired, rendered: Some(rendered), values, remarks, ..Prepared::default() });
    }
    if let Some(operations) = &operations {
        place_operations(operations, observed, ctx).await?;
    }
    if objects.len() > MAX_OBJECTS {
        return Err(Error::Manifest(format!("the chart makes {} objects; the limit is {MAX_OBJECTS}", objects.len())));
    }
    let objects = stamp(&objects, observed, ctx, Missing::IsAnError).await?;
    let previous = match record.map(Record::objects) {
        Some(Ok(objects)) => Some(stamp(&objects, observed, ctx, Missing::IsLeftOut).await?),
        _ => None,
    };
    let hooks_equal = record.is_some_and(|r| r.hooks_equal(&rendered.hooks));
    let hooks = hooks(hooks_of(&rendered), observed, ctx).await?;
    let left_out = BTreeSet::new();
    let desired = Desired { objects, previous, hooks, hooks_equal, crds, left_out, members, operations, status_fields };
    Ok(Prepared { desired, rendered: Some(rendered), values, remarks, ..Prepared::default() })
}

/// Checks that the objects of operations are in allowed places. A kind that is not served yet may be served when the
/// operation begins.
async fn place_operations(operations: &Operations, observed: &Observed, ctx: &Context) -> Result<(), Error> {
    // Values that cannot be stored are refused before anything is written.
    operations.encode().map_err(Error::Manifest)?;
    for hook in &operations.hooks {
        let namespaced = ctx.discovery.resolve(&hook.gvk()).await?.is_none_or(|resource| resource.namespaced);
        let of_release = || Arc::clone(&observed.owner.release_namespace);
        let namespace = namespaced.then(|| hook.namespace().map_or_else(of_release, Into::into));
        let id = ObjectId { gvk: hook.gvk(), namespace, name: hook.name.as_str().into() };
        place(&id, observed, ctx)?;
    }
    Ok(())
}

/// Reads the hooks of a record. A kind that is not served yet may be served when the hook runs.
async fn hooks(records: Vec<HookRecord>, observed: &Observed, ctx: &Context) -> Result<Vec<Hook>, Error> {
    let mut hooks = Vec::with_capacity(records.len());
    for record in records {
        if let Ok(Some(object)) = record.object() {
            ctx.discovery.resolve(&object.gvk).await?;
        }
        let is_namespaced = |gvk: &Gvk| ctx.discovery.cached(gvk).is_none_or(|r| r.namespaced);
        let hook = Hook::read(record, &observed.owner, is_namespaced).map_err(Error::Manifest)?;
        place(&hook.id, observed, ctx)?;
        hooks.push(hook);
    }
    Ok(hooks)
}

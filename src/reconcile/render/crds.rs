//! Selects the definitions in a chart's `crds/` that have to be written.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::cluster::client::Returned;
use crate::cluster::discovery::Resource;
use crate::kind::switches::Crds;
use crate::object::{Gvk, Object, ObjectId, parse_manifest};
use crate::plan::crds::{CrdAction, Definition, action, replacement, versions};
use crate::plan::stamp::stamp;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::observed::Observed;
use crate::render::Rendered;

/// The definitions that need an action. A definition whose versions are all served costs no request, unless the policy
/// is to replace it.
pub async fn definitions(rendered: &Rendered, observed: &Observed, ctx: &Context) -> Result<Vec<Definition>, Error> {
    let (mut definitions, policy) = (Vec::new(), observed.facts.switches.crds);
    if policy == Crds::Skip {
        return Ok(definitions);
    }
    for file in &rendered.crds {
        let text = String::from_utf8_lossy(&file.data);
        let objects = parse_manifest(&text).map_err(|e| Error::Manifest(format!("{}: {e}", file.name)))?;
        for object in objects {
            let body = object.body;
            let spec = |key: &str| body.get("spec")?.get(key);
            let group = spec("group").and_then(Value::as_str);
            let kind = spec("names").and_then(|n| n.get("kind")).and_then(Value::as_str);
            let (Some(group), Some(kind)) = (group, kind) else { continue };
            let mut served = true;
            for version in versions(&body) {
                served &= ctx.discovery.resolve(&Gvk::new(group, version, kind)).await?.is_some();
            }
            if served && policy == Crds::Create {
                continue;
            }
            let live = live(&body, policy, observed).await?;
            let outcome = match &live {
                Some(live) if policy == Crds::Replace => Some(try_out(&body, live, observed).await?),
                _ => None,
            };
            if let Some(action) = action(policy, served, &body, live.as_ref(), outcome.as_ref()) {
                definitions.push(Definition { body, action });
            }
        }
    }
    Ok(definitions)
}

/// The definitions among the rendered objects that other objects need and that are not served yet. They have to be
/// created first.
pub async fn of_templates(objects: &[Object], observed: &Observed, ctx: &Context) -> Result<Vec<Definition>, Error> {
    let mut definitions: Vec<Definition> = Vec::new();
    for object in objects {
        if ctx.discovery.resolve(&object.gvk).await?.is_some() {
            continue;
        }
        let Some(definition) = objects.iter().find(|definition| defines(&definition.body, &object.gvk)) else {
            continue;
        };
        let stamped = stamp(definition, false, &observed.owner);
        super::stamp::place(&stamped.id, observed, ctx)?;
        if definitions.iter().all(|known| id(&known.body) != stamped.id) {
            let live = observed.cluster.get(&Resource::crds(), &stamped.id).await?;
            let action = if live.is_some() { CrdAction::Await } else { CrdAction::Create };
            definitions.push(Definition { body: stamped.body, action });
        }
    }
    Ok(definitions)
}

/// Whether an object is the definition of a kind, in its version.
fn defines(body: &Map<String, Value>, gvk: &Gvk) -> bool {
    let spec = |key: &str| body.get("spec")?.get(key);
    let is_definition = body.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition");
    is_definition
        && spec("group").and_then(Value::as_str) == Some(&*gvk.group)
        && spec("names").and_then(|names| names.get("kind")).and_then(Value::as_str) == Some(&*gvk.kind)
        && versions(body).into_iter().any(|version| *version == *gvk.version)
}

async fn live(body: &Map<String, Value>, policy: Crds, observed: &Observed) -> Result<Option<Value>, Error> {
    match observed.cluster.get(&Resource::crds(), &id(body)).await {
        // An account that can only create definitions finds out whether one exists by creating it.
        Err(e) if policy == Crds::Create && e.is_forbidden() => Ok(None),
        live => Ok(live?),
    }
}

/// Asks the API server for the result of a replacement by a dry run, since only the API server knows its defaults.
async fn try_out(body: &Map<String, Value>, live: &Value, observed: &Observed) -> Result<Value, Error> {
    Ok(observed.cluster.replace(&Resource::crds(), &id(body), &replacement(body, live), true, Returned::Object).await?)
}

pub fn id(body: &Map<String, Value>) -> ObjectId {
    let name = body.get("metadata").and_then(|m| m.get("name")).and_then(Value::as_str).unwrap_or_default();
    ObjectId { gvk: Resource::crds().gvk, namespace: None, name: Arc::from(name) }
}

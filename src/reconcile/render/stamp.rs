//! Marks the rendered objects of a chart as objects of the release, and checks their places.

use super::secrets::learn_secrets;
use crate::cluster::error::ApiError;
use crate::kind::placement::Place;
use crate::lint::deprecations::successor;
use crate::object::{Gvk, Object, ObjectId};
use crate::plan::stamp::{Stamped, stamp_all};
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::observed::Observed;

/// How to treat an object whose kind the API server does not serve.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    IsAnError,
    /// The object was deleted together with its definition.
    IsLeftOut,
}

pub async fn stamp(
    objects: &[Object],
    observed: &Observed,
    ctx: &Context,
    missing: Missing,
) -> Result<Vec<Stamped>, Error> {
    let mut known = Vec::with_capacity(objects.len());
    for object in objects {
        match ctx.discovery.resolve(&object.gvk).await? {
            Some(_) => known.push(object.clone()),
            None if missing == Missing::IsLeftOut => {}
            None => {
                let what = format!("apply {} {}", object.gvk.kind, object.name);
                let served = ctx.discovery.versions_of(&object.gvk).join(", ");
                let gvk = &object.gvk;
                let kind = match successor(&gvk.api_version(), &gvk.kind) {
                    _ if !served.is_empty() => format!("{gvk}; it serves the kind as {served}"),
                    Some(successor) => format!("{gvk}; Kubernetes has removed it, use {successor}"),
                    None => gvk.to_string(),
                };
                return Err(ApiError::UnknownKind { what, kind }.into());
            }
        }
    }
    learn_secrets(&known, observed, ctx);
    let is_namespaced = |gvk: &Gvk| ctx.discovery.cached(gvk).is_none_or(|r| r.namespaced);
    let stamped = stamp_all(&known, &observed.owner, is_namespaced);
    if missing == Missing::IsAnError {
        stamped.iter().try_for_each(|object| place(&object.id, observed, ctx))?;
    }
    Ok(stamped)
}

/// Checks that an object is in an allowed place. Every object that the operator applies, runs or creates passes this
/// check.
pub fn place(id: &ObjectId, observed: &Observed, ctx: &Context) -> Result<(), Error> {
    let placement = &ctx.kinds.get(observed.key.kind).kind.placement;
    let place = id.namespace.as_deref().map_or(Place::Cluster, Place::In);
    placement
        .check(&id.gvk, place, &observed.key.namespace, &id.to_string())
        .map_err(|why| Error::NotAllowed(why.to_string()))
}

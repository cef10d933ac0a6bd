//! The address of a release's custom resource.

use std::sync::Arc;

use super::observed::Observed;
use crate::cluster::client::describe;
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::object::ObjectId;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;

/// Resolves the kind of the custom resource, and returns its address.
pub async fn cr_id(observed: &Observed, ctx: &Context) -> Result<(Arc<Resource>, ObjectId), Error> {
    let gvk = &observed.owner.gvk;
    let namespace = (!observed.key.namespace.is_empty()).then(|| Arc::clone(&observed.key.namespace));
    let id = ObjectId { gvk: gvk.clone(), namespace, name: Arc::clone(&observed.key.name) };
    let unknown = || ApiError::UnknownKind { what: describe("update", &id), kind: gvk.to_string() };
    let resource = ctx.discovery.resolve(gvk).await?.ok_or_else(unknown)?;
    Ok((resource, id))
}

//! Secrets with the credentials for calls to members. Each pass reads them again, since they may have been renewed. No text shows them.

use std::sync::Arc;

use crate::cluster::discovery::Resource;
use crate::members::secret::Secret;
use crate::object::ObjectId;
use crate::reconcile::error::Error;
use crate::reconcile::observed::Observed;

/// Reads a Secret in the namespace of the release.
pub async fn secret(name: &str, observed: &Observed) -> Result<Option<Secret>, Error> {
    let resource = Resource::secrets();
    let namespace = Some(Arc::clone(&observed.owner.release_namespace));
    let id = ObjectId { gvk: resource.gvk.clone(), namespace, name: name.into() };
    let found = observed.cluster.get(&resource, &id).await?;
    Ok(found.map(|found| Secret::new(name, &found)))
}

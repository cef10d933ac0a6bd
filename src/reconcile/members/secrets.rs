//! Secrets with the credentials for calls to members. Each pass reads them again, since they may have been renewed. No text shows them.

use std::sync::Arc;

use crate::cluster::discovery::Resource;
use crate::members::secret::Secret;
use crate::object::ObjectId;
use crate::reconcile::error::Error;
use crate::reconcile::observe::observed::Observed;

/// Why there is no driver.
pub enum Lack {
    /// Something does not exist yet.
    Waits(String),
    /// A fault remains until somebody corrects it.
    Wrong(String),
}

/// A Secret that does not exist, and the field of the document that names it.
pub fn missing(name: &str, field: &str) -> Lack {
    Lack::Waits(format!("Secret {name}, which spec.{field} names"))
}

/// Reads a Secret in the namespace of the release.
pub async fn secret<'a>(name: &'a str, observed: &Observed) -> Result<Option<Secret<'a>>, Error> {
    let resource = Resource::secrets();
    let namespace = Some(Arc::clone(&observed.owner.release_namespace));
    let id = ObjectId { gvk: resource.gvk.clone(), namespace, name: name.into() };
    let found = observed.cluster.get(&resource, &id).await?;
    Ok(found.map(|found| Secret::new(name, &found)))
}

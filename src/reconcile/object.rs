//! One object: how it is applied, taken over and pruned.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::observe::Observed;
use super::sinks::metadata;
use super::{Context, Error};
use crate::cluster::client::{Conflicts, describe};
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::plan::stamp::{RELEASE_NAME, RELEASE_NAMESPACE, Stamped};
use crate::release::inventory::Reference;
use crate::release::object::ObjectId;
use crate::release::owned;

/// The objects of one release.
pub struct Objects<'a> {
    observed: &'a Observed,
    /// When the revision was begun, by the API server's clock.
    since: &'a str,
    ctx: &'a Context,
}

/// An object that was applied.
pub struct Applied {
    /// Which.
    pub id: ObjectId,
    /// The API server's answer.
    pub reference: Option<Reference>,
    /// Whether it is another object than before.
    pub changed: bool,
}

impl<'a> Objects<'a> {
    /// Of a release, as a pass observed it.
    pub fn new(observed: &'a Observed, since: &'a str, ctx: &'a Context) -> Self {
        Self { observed, since, ctx }
    }

    /// Applies an object. With `force` it is known to be ours; otherwise one of somebody else's is refused.
    pub async fn apply(&self, object: &Stamped, force: bool) -> Result<Applied, Error> {
        let id = &object.id;
        let resource = self.resource(id, "apply").await?;
        self.ctx.watches.ensure(self.ctx, &id.gvk, id.namespace.as_ref());
        let before = self.observed.facts.live.get(id);
        let conflicts = if force { Conflicts::Force } else { Conflicts::Refuse };
        let (answer, created) = match self.ctx.cluster.apply(&resource, id, &object.body, conflicts).await {
            Err(e) if !force && e.is_conflict() => {
                self.check_ours(&resource, id, &e).await?;
                self.ctx.cluster.apply(&resource, id, &object.body, Conflicts::Force).await?
            }
            answer => answer?,
        };
        if !force && !created {
            self.check_not_foreign(&resource, id, &answer).await?;
        }
        let Some((id, live)) = self.ctx.cache.wrote_object(&id.gvk, &answer) else {
            return Ok(Applied { id: id.clone(), reference: None, changed: false });
        };
        // The same version back: our apply changed nothing, and the trigger was no drift (apply.md C1).
        let changed = before.is_none_or(|b| b.resource_version != live.resource_version || b.uid != live.uid);
        let reference = Reference { uid: live.uid, digest: live.digest.unwrap_or_default() };
        Ok(Applied { id, reference: Some(reference), changed })
    }

    /// Somebody else holds other values of our fields. That is no obstacle when the object belongs to this release.
    async fn check_ours(&self, resource: &Resource, id: &ObjectId, conflict: &ApiError) -> Result<(), Error> {
        match self.ctx.cluster.get(resource, id).await? {
            Some(object) if self.is_of_this_release(&object) => Ok(()),
            None => Ok(()),
            Some(_) => Err(ApiError::Foreign { what: describe("apply", id), why: conflict.to_string() }.into()),
        }
    }

    /// Nobody held other values, but the object was there before the release was: then our fields are taken back.
    async fn check_not_foreign(&self, resource: &Resource, id: &ObjectId, answer: &Value) -> Result<(), Error> {
        let meta = metadata(answer);
        let created = meta.get("creationTimestamp").and_then(Value::as_str).unwrap_or_default();
        let managers = meta.get("managedFields").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        // Both times are the API server's, in the same format, so they compare as text.
        if created > self.since || !owned::has_other_manager(managers) {
            return Ok(());
        }
        let mut body = Map::new();
        body.insert("apiVersion".into(), id.gvk.api_version().into());
        body.insert("kind".into(), Value::from(&*id.gvk.kind));
        body.insert("metadata".into(), json!({"name": &*id.name, "namespace": id.namespace.as_deref()}));
        let (answer, _) = self.ctx.cluster.apply(resource, id, &body, Conflicts::Force).await?;
        // A watch may have shown it as ours in between, and it must not be deleted for that.
        self.ctx.cache.wrote_object(&id.gvk, &answer);
        let why = "it is older than the release and managed by somebody else".to_owned();
        Err(ApiError::Foreign { what: describe("apply", id), why }.into())
    }

    fn is_of_this_release(&self, object: &Value) -> bool {
        let meta = metadata(object);
        let annotation = |name: &str| meta.get("annotations").and_then(|a| a.get(name)).and_then(Value::as_str);
        let owner = &self.observed.owner;
        let references = meta.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
        let named = annotation(RELEASE_NAME) == Some(&*owner.release_name)
            && annotation(RELEASE_NAMESPACE) == Some(&*owner.release_namespace);
        named || references.into_iter().any(|r| r.get("uid").and_then(Value::as_str) == Some(&*owner.uid))
    }

    /// Deletes an object, only the one with this uid; without one it is looked at first. Whether there was something to delete.
    pub async fn prune(&self, id: &ObjectId, uid: Option<&str>) -> Result<bool, Error> {
        let Some(resource) = self.ctx.discovery.resolve(&id.gvk).await? else { return Ok(false) };
        let found;
        let uid = if let Some(uid) = uid {
            uid
        } else {
            // No watch shows it: it is gone, or has lost its label, or was never ours.
            let Some(object) = self.ctx.cluster.get(&resource, id).await? else { return Ok(false) };
            if !self.is_of_this_release(&object) {
                return Ok(false);
            }
            found = metadata(&object).get("uid").and_then(Value::as_str).unwrap_or_default().to_owned();
            &found
        };
        let foreground = self.observed.facts.wait_for_deletion;
        match self.ctx.cluster.delete(&resource, id, Some(uid), foreground).await {
            Ok(Some(left)) => {
                self.ctx.cache.wrote_object(&id.gvk, &left);
            }
            Ok(None) => {
                self.ctx.cache.remove_object(id, Some(uid), 0, &Value::Null);
            }
            // Another object has the name by now; it is not the one that had to go.
            Err(e) if e.is_conflict() => {}
            Err(e) => return Err(e.into()),
        }
        Ok(true)
    }

    /// Takes the custom resource from an object's owners.
    pub async fn orphan(&self, id: &ObjectId) -> Result<(), Error> {
        let Some(resource) = self.ctx.discovery.resolve(&id.gvk).await? else { return Ok(()) };
        let Some(object) = self.ctx.cluster.get(&resource, id).await? else { return Ok(()) };
        let meta = metadata(&object);
        let ours = |r: &&Value| r.get("uid").and_then(Value::as_str) == Some(&*self.observed.owner.uid);
        let owners = meta.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
        let left: Vec<&Value> = owners.filter(|r| !ours(r)).collect();
        // The list is written whole, so the resourceVersion guards what others wrote into it meanwhile.
        let patch = json!({"metadata": {"ownerReferences": left, "resourceVersion": meta.get("resourceVersion")}});
        match self.ctx.cluster.merge::<Value>(&resource, id, &patch, None).await {
            Ok(answer) => {
                self.ctx.cache.wrote_object(&id.gvk, &answer);
                Ok(())
            }
            Err(e) if e.is_not_found() => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    async fn resource(&self, id: &ObjectId, verb: &str) -> Result<Arc<Resource>, Error> {
        let unknown = || ApiError::UnknownKind { what: describe(verb, id), kind: id.gvk.to_string() };
        Ok(self.ctx.discovery.resolve(&id.gvk).await?.ok_or_else(unknown)?)
    }
}

//! The `ConfigMap` of a driver, from which containers of members start.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};

use crate::cluster::cache::Cache;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::members::operator::ConfigMapData;
use crate::object::{Gvk, Object, ObjectId};
use crate::plan::claim::{Ownership, ownership};
use crate::plan::stamp::stamp;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::observed::Observed;
use crate::release::owner::{CHART_LABEL, Owner};

/// The `ConfigMap` of a driver, owned by the custom resource. It is not part of the release, and the
/// watches of the release's objects do not show it, so it is neither drift nor pruned.
pub struct DriversMap {
    cluster: Cluster,
    resource: Resource,
    id: ObjectId,
    label: &'static str,
    owner: Owner,
    take: bool,
    cache: Arc<Cache>,
    /// The content that was read. A write fails if another client has written since: an operator that was suspended for
    /// an hour must not start a second cluster.
    seen: Mutex<Option<Seen>>,
}

/// A `ConfigMap` that was read.
#[derive(Clone, Debug)]
struct Seen {
    version: Value,
    uid: String,
    /// It is being deleted, and finalizers of others hold it.
    goes: bool,
    /// Its data cannot be changed.
    immutable: bool,
    keys: Vec<String>,
}

impl DriversMap {
    /// The `ConfigMap` of this name, with a label whose value is the name of the release.
    pub fn of(name: &str, label: &'static str, observed: &Observed, ctx: &Context) -> Self {
        let resource = Resource { gvk: Gvk::new("", "v1", "ConfigMap"), plural: "configmaps".into(), namespaced: true };
        let namespace = Some(Arc::clone(&observed.owner.release_namespace));
        let id = ObjectId { gvk: resource.gvk.clone(), namespace, name: name.into() };
        let take = observed.facts.switches.take_ownership;
        Self {
            cluster: observed.cluster.clone(),
            resource,
            id,
            label,
            owner: observed.owner.clone(),
            take,
            cache: Arc::clone(&ctx.cache),
            seen: Mutex::default(),
        }
    }

    fn is_owned(&self, metadata: &Value) -> bool {
        let references = metadata.get("ownerReferences").and_then(Value::as_array);
        references.into_iter().flatten().any(|r| r.get("uid").and_then(Value::as_str) == Some(&*self.owner.uid))
    }

    fn seen(&self, seen: Option<Seen>) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }

    /// Ends the map that was read, and the finalizers with which others hold it: the next one begins without them.
    async fn end(&self, seen: &Seen) -> Result<(), ApiError> {
        let held = json!({"metadata": {"finalizers": null, "resourceVersion": seen.version}});
        self.cluster.merge::<Value>(&self.resource, &self.id, &held, None).await?;
        if seen.goes {
            return Ok(());
        }
        self.cluster.delete(&self.resource, &self.id, Some(&seen.uid), false).await.map(drop)
    }

    fn body(&self, data: &ConfigMapData) -> Result<Map<String, Value>, String> {
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": &*self.id.name, "labels": {self.label: &*self.owner.release_name}},
        });
        let object = Object::from_body(body.as_object().cloned().unwrap_or_default())?;
        let mut body = stamp(&object, true, &self.owner).body;
        // The watches of the release's objects must not mistake it for one of them.
        if let Some(Value::Object(labels)) = body.get_mut("metadata").and_then(|metadata| metadata.get_mut("labels")) {
            labels.remove(CHART_LABEL);
        }
        Ok(body)
    }

    /// Reads its data; `None` if it does not exist. The error says what is wrong.
    pub async fn read(&self) -> Result<Option<ConfigMapData>, String> {
        let name = &self.id.name;
        let found = self.cluster.get(&self.resource, &self.id).await.map_err(|error| error.to_string())?;
        let Some(found) = found else {
            self.seen(None);
            return Ok(None);
        };
        let metadata = &found["metadata"];
        if let Ownership::Refused(why) =
            ownership(metadata, &self.owner, self.take, |namespace, release| self.cache.is_live(namespace, release))
        {
            return Err(format!("ConfigMap {name} to be the driver's: {why}"));
        }
        let goes = metadata.get("deletionTimestamp").is_some();
        self.seen(Some(Seen {
            version: metadata.get("resourceVersion").cloned().unwrap_or_default(),
            uid: metadata.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned(),
            goes,
            immutable: found.get("immutable") == Some(&Value::Bool(true)),
            keys: found.get("data").and_then(Value::as_object).into_iter().flat_map(Map::keys).cloned().collect(),
        }));
        // A `ConfigMap` of an earlier custom resource is deleted together with that one, so this custom resource has to
        // become an owner first.
        if !self.is_owned(metadata) || goes {
            return Ok(None);
        }
        let data = found.get("data").and_then(Value::as_object).into_iter().flatten();
        Ok(Some(data.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()))
    }

    /// Writes this data.
    pub async fn write(&self, data: ConfigMapData) -> Result<(), String> {
        let mut body = self.body(&data)?;
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let written = match seen {
            None => self.cluster.apply_new(&self.resource, &self.id, &body, false).await.map(drop),
            // A container that starts meanwhile waits for it.
            Some(seen) if seen.goes || seen.immutable => match self.end(&seen).await {
                Ok(()) => self.cluster.apply_new(&self.resource, &self.id, &body, false).await.map(drop),
                Err(error) => Err(error),
            },
            // It is patched and not applied: a key that another client has added goes, too.
            Some(seen) => {
                if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
                    metadata.insert("resourceVersion".into(), seen.version);
                }
                if let Some(Value::Object(fields)) = body.get_mut("data") {
                    let added = seen.keys.into_iter().filter(|key| !data.contains_key(key));
                    fields.extend(added.map(|key| (key, Value::Null)));
                }
                self.cluster.merge::<Value>(&self.resource, &self.id, &Value::Object(body), None).await.map(drop)
            }
        };
        written.map_err(|error| error.to_string())
    }
}

/// If the objects of a release stay when its custom resource is deleted, the `ConfigMap` has to stay as well: without
/// it none of their pods can start again.
pub async fn leave_behind(map: &DriversMap, observed: &Observed) -> Result<(), Error> {
    let Some(found) = observed.cluster.get(&map.resource, &map.id).await? else { return Ok(()) };
    let metadata = &found["metadata"];
    if !map.is_owned(metadata) {
        return Ok(());
    }
    let is_other = |r: &&Value| r.get("uid").and_then(Value::as_str) != Some(&*observed.owner.uid);
    let owners: Vec<&Value> =
        metadata.get("ownerReferences").and_then(Value::as_array).into_iter().flatten().filter(is_other).collect();
    let patch = json!({"metadata": {"ownerReferences": owners, "resourceVersion": metadata.get("resourceVersion")}});
    observed.cluster.merge::<Value>(&map.resource, &map.id, &patch, None).await?;
    Ok(())
}

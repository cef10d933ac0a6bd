//! `lookup` in templates: objects of the cluster, as Helm's engine reads them.

use std::sync::Arc;

use serde_json::Value as Json;
use tokio::runtime::Handle;

use super::System;
use crate::cluster::client::{Cluster, describe};
use crate::cluster::discovery::{Discovery, Resource};
use crate::cluster::error::ApiError;
use crate::release::object::{Gvk, ObjectId};
use crate::template::function::{FnResult, Host};
use crate::template::value::Value;

/// Told of a Secret.
type Told = Box<dyn Fn(&serde_json::Map<String, Json>) + Send + Sync>;

/// A rendering with a cluster around it. Rendering blocks, so it must run where blocking is allowed, never on a worker of
/// the runtime.
pub struct ClusterHost {
    system: System,
    cluster: Cluster,
    discovery: Arc<Discovery>,
    runtime: Handle,
    told: Option<Told>,
}

impl ClusterHost {
    /// With requests made on the current runtime.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn new(system: System, cluster: Cluster, discovery: Arc<Discovery>) -> Self {
        Self { system, cluster, discovery, runtime: Handle::current(), told: None }
    }

    /// Tells of each Secret that a template reads, before the template sees it.
    #[must_use]
    pub fn telling_of_secrets(mut self, told: impl Fn(&serde_json::Map<String, Json>) + Send + Sync + 'static) -> Self {
        self.told = Some(Box::new(told));
        self
    }

    fn tell(&self, gvk: &Gvk, object: &Json) {
        let Some(told) = self.told.as_ref().filter(|_| gvk.group.is_empty() && &*gvk.kind == "Secret") else { return };
        let items = object.get("items").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        for secret in items.iter().chain([object]).filter_map(Json::as_object) {
            told(secret);
        }
    }

    async fn read(&self, gvk: &Gvk, namespace: &str, name: &str) -> Result<Option<Json>, ApiError> {
        let Some(resource) = self.discovery.resolve(gvk).await? else {
            // Of a version that is served, a kind that is not counts as one without objects.
            if self.discovery.info().api_versions.contains(&gvk.api_version()) {
                return Ok(None);
            }
            let what = "unable to get apiresource from unstructured".to_owned();
            return Err(ApiError::UnknownKind { what, kind: gvk.to_string() });
        };
        let namespace = Some(namespace).filter(|n| !n.is_empty() && resource.namespaced).map(Into::into);
        if name.is_empty() {
            return self.list(&resource, namespace.as_deref()).await;
        }
        let id = ObjectId { gvk: gvk.clone(), namespace, name: name.into() };
        self.cluster.get(&resource, &id).await
    }

    async fn list(&self, resource: &Resource, namespace: Option<&str>) -> Result<Option<Json>, ApiError> {
        match self.cluster.get_path::<Json>(&resource.path(namespace)).await {
            Ok(list) => Ok(Some(with_kinds(list))),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// The API server leaves kind and version out of a list's items; Go's client fills them in.
fn with_kinds(mut list: Json) -> Json {
    let version = list.get("apiVersion").cloned();
    let kind = list.get("kind").and_then(Json::as_str).map(|kind| kind.trim_end_matches("List").to_owned());
    for item in list.get_mut("items").and_then(Json::as_array_mut).into_iter().flatten() {
        let Some(item) = item.as_object_mut() else { continue };
        if let (Some(version), Some(kind)) = (&version, &kind)
            && !item.contains_key("kind")
        {
            item.insert("kind".into(), kind.as_str().into());
            item.insert("apiVersion".into(), version.clone());
        }
    }
    list
}

/// Helm's words for what went wrong.
fn message(error: ApiError, gvk: &Gvk) -> String {
    match error {
        ApiError::Refused { message, .. } | ApiError::Unreachable { message, .. } => message,
        ApiError::UnknownKind { what, .. } => {
            let Gvk { group, version, kind } = gvk;
            format!("{what}: {group}/{version}, Kind={kind}: the server could not find the requested resource")
        }
        other => other.to_string(),
    }
}

impl Host for ClusterHost {
    fn random(&self, buffer: &mut [u8]) {
        self.system.random(buffer);
    }
    fn now(&self) -> i128 {
        self.system.now()
    }
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> FnResult {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let gvk = Gvk::new(group, version, kind);
        match self.runtime.block_on(self.read(&gvk, namespace, name)) {
            Ok(Some(object)) => {
                self.tell(&gvk, &object);
                Ok(Value::from(&object))
            }
            Ok(None) => Ok(Value::map([])),
            Err(error) => {
                let id = ObjectId { gvk: gvk.clone(), namespace: Some(namespace.into()), name: name.into() };
                tracing::debug!(what = describe("look up", &id), error = %error, "lookup failed");
                Err(message(error, &gvk).into())
            }
        }
    }
    fn resolve(&self, name: &str) -> String {
        self.system.resolve(name)
    }
}

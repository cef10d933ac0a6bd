//! `lookup` in templates: objects of the cluster, as Helm's engine reads them.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value as Json;
use tokio::runtime::Handle;

use crate::cluster::client::{Cluster, describe};
use crate::cluster::discovery::{Discovery, Resource};
use crate::cluster::error::ApiError;
use crate::host::System;
use crate::kind::placement::{Place, PlacementError};
use crate::object::{Gvk, ObjectId};
use crate::release::lookups;
use crate::release::lookups::Lookups;
use crate::template::budget;
use crate::template::function::{FnError, FnResult, Host};
use crate::template::value::Value;

/// The number of steps that one lookup counts as: a rendering in the operator may make about 2,500 lookups.
const LOOKUP: u64 = 20_000;
/// How soon a request notices that its rendering was stopped.
const STOP: Duration = Duration::from_millis(100);

/// Called for each Secret.
type Told = Box<dyn Fn(&serde_json::Map<String, Json>) + Send + Sync>;
/// Checks whether an object may be looked up. The error says why not.
type Bound = Box<dyn Fn(&Gvk, Place<'_>, &str) -> Result<(), PlacementError> + Send + Sync>;
/// Whether an object is the release's own.
type IsOwn = Box<dyn Fn(&Json) -> bool + Send + Sync>;

/// The surroundings of a rendering with access to a cluster. Rendering blocks, so it must run where blocking is
/// allowed, and never on a worker of the runtime.
pub struct ClusterHost {
    system: System,
    cluster: Cluster,
    discovery: Arc<Discovery>,
    runtime: Handle,
    told: Option<Told>,
    noted: Option<(Arc<Mutex<Lookups>>, IsOwn)>,
    bound: Option<Bound>,
}

impl ClusterHost {
    /// Creates a host that sends its requests on the current runtime.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn new(system: System, cluster: Cluster, discovery: Arc<Discovery>) -> Self {
        Self { system, cluster, discovery, runtime: Handle::current(), told: None, noted: None, bound: None }
    }

    /// Collects what templates look up, except the release's own objects.
    #[must_use]
    pub fn noting(
        mut self,
        lookups: Arc<Mutex<Lookups>>,
        is_own: impl Fn(&Json) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.noted = Some((lookups, Box::new(is_own)));
        self
    }

    /// Allows only some lookups: `bound` is called with the kind, the place and a description.
    #[must_use]
    pub fn bounded(
        mut self,
        bound: impl Fn(&Gvk, Place<'_>, &str) -> Result<(), PlacementError> + Send + Sync + 'static,
    ) -> Self {
        self.bound = Some(Box::new(bound));
        self
    }

    /// Checks whether an object may be looked up. A kind that the API server does not serve has no objects.
    async fn check(&self, id: &ObjectId) -> Result<(), PlacementError> {
        let Some(bound) = &self.bound else { return Ok(()) };
        let Ok(Some(resource)) = self.discovery.resolve(&id.gvk).await else { return Ok(()) };
        let place = match &id.namespace {
            _ if !resource.namespaced => Place::Cluster,
            Some(namespace) => Place::In(namespace),
            None => Place::All,
        };
        bound(&id.gvk, place, &format!("lookup: {id}"))
    }

    fn note(&self, id: ObjectId, found: Result<Option<&Json>, &ApiError>) {
        let Some((noted, is_own)) = &self.noted else { return };
        let version = match found {
            Ok(found) => lookups::version(&id, found, is_own),
            Err(_) => Some(lookups::UNREAD.into()),
        };
        if let Some(version) = version {
            noted.lock().unwrap_or_else(PoisonError::into_inner).enter(id, version);
        }
    }

    /// Reports each Secret that a template reads, before the template sees it.
    #[must_use]
    pub fn telling_of_secrets(mut self, told: impl Fn(&serde_json::Map<String, Json>) + Send + Sync + 'static) -> Self {
        self.told = Some(Box::new(told));
        self
    }

    fn tell(&self, gvk: &Gvk, object: &Json) {
        // The kind of the object counts, not only the kind that was requested.
        let is_secret = |kind: &str| kind == "Secret" || kind == "SecretList";
        let answered = object.get("kind").and_then(Json::as_str).unwrap_or_default();
        let is_told = is_secret(answered) || gvk.group.is_empty() && is_secret(&gvk.kind);
        let Some(told) = self.told.as_ref().filter(|_| is_told) else { return };
        let items = object.get("items").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        for secret in items.iter().chain([object]).filter_map(Json::as_object) {
            told(secret);
        }
    }
}

/// The answer to a request, unless the rendering is stopped before: a request of an abandoned rendering holds no
/// thread.
async fn unless_stopped<T>(request: impl Future<Output = T>) -> Result<T, FnError> {
    let mut request = std::pin::pin!(request);
    loop {
        match tokio::time::timeout(STOP, &mut request).await {
            Ok(answer) => return Ok(answer),
            Err(_) if budget::is_stopped() => {
                return Err("the rendering was stopped while it waited for the API server".into());
            }
            Err(_) => {}
        }
    }
}

/// Looks up an object, and returns its id. An object without a name is a list.
pub async fn find(
    cluster: &Cluster,
    discovery: &Discovery,
    ObjectId { gvk, namespace, name }: ObjectId,
) -> Result<(ObjectId, Option<Json>), ApiError> {
    let Some(resource) = discovery.resolve(&gvk).await? else {
        // If the version is served, an unknown kind counts as a kind without objects.
        if discovery.info().api_versions.contains(&gvk.api_version()) {
            return Ok((ObjectId { gvk, namespace, name }, None));
        }
        let what = "unable to get apiresource from unstructured".to_owned();
        return Err(ApiError::UnknownKind { what, kind: gvk.to_string() });
    };
    let id = ObjectId { gvk, namespace: namespace.filter(|_| resource.namespaced), name };
    let found = if lookups::is_list(&id) {
        list(cluster, &resource, id.namespace.as_deref()).await?
    } else {
        cluster.get(&resource, &id).await?
    };
    Ok((id, found))
}

async fn list(cluster: &Cluster, resource: &Resource, namespace: Option<&str>) -> Result<Option<Json>, ApiError> {
    match cluster.list_raw(resource, namespace).await {
        Ok(list) => Ok(Some(with_kinds(list))),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e),
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

/// The error in Helm's words.
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
        // A request takes some milliseconds. The call of the budget is also how a rendering notices that it was
        // stopped.
        budget::work(LOOKUP)?;
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty()).map(Into::into);
        let id = ObjectId { gvk: Gvk::new(group, version, kind), namespace, name: name.into() };
        if let Err(refused) = self.runtime.block_on(self.check(&id)) {
            return Err(refused.to_string().into());
        }
        match self.runtime.block_on(unless_stopped(find(&self.cluster, &self.discovery, id.clone())))? {
            Ok((id, found)) => {
                if let Some(object) = &found {
                    self.tell(&id.gvk, object);
                }
                let value = found.as_ref().map_or_else(|| Value::map([]), Value::from);
                self.note(id, Ok(found.as_ref()));
                Ok(value)
            }
            Err(error) => {
                tracing::debug!(what = describe("look up", &id), error = %error, "lookup failed");
                self.note(id.clone(), Err(&error));
                let (remedy, text) = (error.remedy_of_account(), message(error, &id.gvk));
                Err(remedy.map_or(text.clone(), |remedy| format!("{text}. {remedy}")).into())
            }
        }
    }
    fn resolve(&self, name: &str) -> String {
        self.system.resolve(name)
    }
}

#[cfg(test)]
mod tests {
    use super::unless_stopped;
    use crate::template::budget::{Budget, Limits, Stop};

    /// The thread is that of the rendering, whose stop the budget knows.
    #[test]
    fn a_request_without_an_answer_ends_with_its_rendering() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let stop = Stop::default();
        stop.stop();
        let late = std::time::Duration::from_secs(10);
        let asked = unless_stopped(std::future::pending::<()>());
        let ask = || runtime.block_on(async { tokio::time::timeout(late, asked).await.expect("it ends") });
        let answer = Budget::new(Limits::default()).until(Some(&stop)).run(ask);
        assert!(answer.unwrap_err().to_string().contains("stopped while it waited for the API server"));
        assert!(runtime.block_on(unless_stopped(std::future::ready(1))).is_ok());
    }
}

//! Sends requests: each one with a deadline, counted in the metrics, and with an error that names the attempted action.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use kube::client::Body;
use kube::core::params::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{Request, Status};
use kube::{Client, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::access::Account;
use super::discovery::Resource;
use super::error::{ApiError, Sent};
use super::identity::Identity;
use super::lease::Fence;
use super::progress;
use super::transport::{CountLayer, Presence, client};
use crate::object::ObjectId;
use crate::release::owned::MANAGER;
use crate::telemetry::metrics::Metrics;

/// Field manager of everything except the objects of charts: finalizers, status, records. It must not be [`MANAGER`],
/// or an `Update` entry of that name would co-own fields (docs/design/applying.md B5).
pub const CONTROLLER_MANAGER: &str = "tillerman-controller";

/// Field manager of changes that a person makes with the command line.
const PERSON: &str = "tillerman-cli";

/// The timeout of a request. It does not apply to watches.
const DEADLINE: Duration = Duration::from_secs(30);

/// The limits for a pod's log in a condition, of which people read the first lines.
const LOG_LINES: usize = 10;
const LOG_BYTES: usize = 1500;
/// The number of bytes of the log to read.
const LOG_READ: usize = 64 << 10;

/// Objects per page of a list that is read once.
const PAGE: u32 = 500;

/// The treatment of conflicts when an object is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflicts {
    /// Values of other managers are overwritten.
    Force,
    /// A conflict is an error.
    Refuse,
}

/// A cluster.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    fence: Arc<Fence>,
    presence: Arc<Presence>,
    identity: Identity,
    /// Whether each request already names a user to impersonate, in a place where it cannot be replaced.
    is_another: bool,
}

impl Cluster {
    /// Creates the operator's client from a configuration. The metrics count its requests.
    pub fn new(mut config: Config, metrics: &Arc<Metrics>) -> Result<Self, kube::Error> {
        // The library's own retries would hide a 429 for minutes. The queue retries.
        config.default_retry = false;
        Self::with(config, metrics)
    }

    /// Creates a command's client. As kubectl, it sends a request again if the API server asks it to wait (429, 503):
    /// a command has no queue that would.
    pub fn of_command(mut config: Config) -> Result<Self, kube::Error> {
        config.default_retry = true;
        Self::with(config, &Arc::new(Metrics::new()))
    }

    fn with(config: Config, metrics: &Arc<Metrics>) -> Result<Self, kube::Error> {
        let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
        let presence = Arc::default();
        let count = CountLayer { metrics: Arc::clone(metrics), host: host.into(), presence: Arc::clone(&presence) };
        let is_another = config.proxy_url.is_some() && config.auth_info.impersonate.is_some();
        let (client, fence) = (client(config, &count)?, Arc::default());
        Ok(Self { client, fence, presence, identity: Identity::Own, is_another })
    }

    /// The same cluster, whose requests are sent with other rights. It does not apply to [`Cluster::client`].
    #[must_use]
    pub fn acting_as(&self, identity: Identity) -> Self {
        Self { identity, ..self.clone() }
    }

    /// The fence that can forbid writes by this client and its clones.
    pub fn fence(&self) -> Arc<Fence> {
        Arc::clone(&self.fence)
    }

    /// The same cluster without the fence, for requests that can write without leadership: the lease itself, and
    /// reviews.
    #[must_use]
    pub fn unfenced(&self) -> Self {
        Self { fence: Arc::default(), ..self.clone() }
    }

    /// The same cluster over its own connections, for another runtime: work on this runtime cannot delay them. The
    /// fence is shared.
    pub fn apart(&self, config: Config, metrics: &Arc<Metrics>) -> Result<Self, kube::Error> {
        Ok(Self { fence: Arc::clone(&self.fence), ..Self::new(config, metrics)? })
    }

    /// Changes whenever the API server answers again after it was down.
    pub fn back(&self) -> watch::Receiver<()> {
        self.presence.back.subscribe()
    }

    /// The library's client, for watches and discovery.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Applies an object server-side, and returns the result. The API server is not asked to check for unknown or
    /// duplicate fields (`fieldValidation`): an apply refuses unknown fields in any case, a parsed manifest contains no
    /// duplicate ones, and for the check it would read each patch once more.
    pub async fn apply<T: Serialize + Debug + Sync>(
        &self,
        resource: &Resource,
        id: &ObjectId,
        body: &T,
        conflicts: Conflicts,
    ) -> Result<Value, ApiError> {
        self.apply_or_try(resource, id, body, conflicts, false).await
    }

    /// The same, as a dry run if `dry`.
    pub async fn apply_or_try<T: Serialize + Debug + Sync>(
        &self,
        resource: &Resource,
        id: &ObjectId,
        body: &T,
        conflicts: Conflicts,
        dry: bool,
    ) -> Result<Value, ApiError> {
        self.apply_by(MANAGER, resource, id, body, conflicts, dry).await
    }

    /// Applies an object that is not part of a revision, such as that of a hook. Fields of others are overwritten.
    pub async fn apply_beside(&self, resource: &Resource, id: &ObjectId, body: &Value) -> Result<Value, ApiError> {
        self.apply_by(CONTROLLER_MANAGER, resource, id, body, Conflicts::Force, false).await
    }

    async fn apply_by<T: Serialize + Debug + Sync>(
        &self,
        manager: &str,
        resource: &Resource,
        id: &ObjectId,
        body: &T,
        conflicts: Conflicts,
        dry: bool,
    ) -> Result<Value, ApiError> {
        let what = describe("apply", id);
        let mut params = PatchParams::apply(manager).validation_ignore();
        params.force = conflicts == Conflicts::Force;
        params.dry_run = dry;
        let request = about(&what, resource, id)?;
        let request = request.patch(&id.name, &params, &Patch::Apply(body)).map_err(|e| unsent(&what, &e))?;
        self.send(request.map(Body::from), &what, is_secret(id)).await
    }

    /// Applies an object that must not exist yet: if it exists, the result is a conflict, whatever its fields are. No
    /// object has the resourceVersion 1, and the API server checks it only if the object exists (tried on 1.36).
    pub async fn apply_new(
        &self,
        resource: &Resource,
        id: &ObjectId,
        body: &Map<String, Value>,
        dry: bool,
    ) -> Result<Value, ApiError> {
        let mut metadata = body.get("metadata").cloned().unwrap_or_default();
        metadata["resourceVersion"] = "1".into();
        let mut body: BTreeMap<&str, &Value> = body.iter().map(|(field, value)| (field.as_str(), value)).collect();
        body.insert("metadata", &metadata);
        self.apply_or_try(resource, id, &body, Conflicts::Force, dry).await
    }

    /// Writes the managers of fields, but only if the object has not changed since it was `seen`.
    pub async fn set_managers(
        &self,
        resource: &Resource,
        id: &ObjectId,
        seen: &Value,
        managers: &[Value],
    ) -> Result<Value, ApiError> {
        let version = seen.pointer("/metadata/resourceVersion");
        let patch = json!({"metadata": {"managedFields": managers, "resourceVersion": version}});
        self.merge(resource, id, &patch, None).await
    }

    /// Sends a JSON merge patch for an object or its status.
    pub async fn merge<T: DeserializeOwned>(
        &self,
        resource: &Resource,
        id: &ObjectId,
        patch: &Value,
        subresource: Option<&str>,
    ) -> Result<T, ApiError> {
        let what = describe(if subresource.is_some() { "update the status of" } else { "patch" }, id);
        let params = PatchParams { field_manager: Some(CONTROLLER_MANAGER.to_owned()), ..PatchParams::default() };
        let params = params.validation_ignore();
        let request = about(&what, resource, id)?;
        let request = match subresource {
            Some(subresource) => request.patch_subresource(subresource, &id.name, &params, &Patch::Merge(patch)),
            None => request.patch(&id.name, &params, &Patch::Merge(patch)),
        };
        let request = request.map_err(|e| unsent(&what, &e))?;
        self.send(request.map(Body::from), &what, is_secret(id)).await
    }

    /// Sends a JSON merge patch in the name of a person.
    pub async fn edit(&self, resource: &Resource, id: &ObjectId, patch: &Value) -> Result<Value, ApiError> {
        let what = describe("patch", id);
        let params = PatchParams { field_manager: Some(PERSON.to_owned()), ..PatchParams::default() };
        let request = about(&what, resource, id)?.patch(&id.name, &params, &Patch::Merge(patch));
        let request = request.map_err(|e| unsent(&what, &e))?;
        self.send(request.map(Body::from), &what, is_secret(id)).await
    }

    /// Creates an object in the name of a person.
    pub async fn create_by_hand(&self, resource: &Resource, id: &ObjectId, body: &Value) -> Result<Value, ApiError> {
        let what = describe("create", id);
        let params = PostParams { field_manager: Some(PERSON.to_owned()), ..PostParams::default() };
        let request = within(&what, resource, id.namespace.as_deref())?.create(&params, body.to_string().into_bytes());
        let request = request.map_err(|e| unsent(&what, &e))?;
        self.send(request.map(Body::from), &what, is_secret(id)).await
    }

    /// Creates an object. Returns the object or its metadata.
    pub async fn create(
        &self,
        resource: &Resource,
        id: &ObjectId,
        body: &Value,
        answer: Returned,
    ) -> Result<Value, ApiError> {
        let what = describe("create", id);
        let params = PostParams { field_manager: Some(CONTROLLER_MANAGER.to_owned()), ..PostParams::default() };
        let bytes = body.to_string().into_bytes();
        let request = within(&what, resource, id.namespace.as_deref())?.create(&params, bytes);
        let request = request.map_err(|e| unsent(&what, &e))?;
        self.send(answer.asked_by(request).map(Body::from), &what, is_secret(id)).await
    }

    /// Replaces an object; the body has the resourceVersion of the object to replace. Only a dry run if `dry`. Returns
    /// the object or its metadata.
    pub async fn replace(
        &self,
        resource: &Resource,
        id: &ObjectId,
        body: &Value,
        dry: bool,
        answer: Returned,
    ) -> Result<Value, ApiError> {
        let what = describe("replace", id);
        let params = PostParams { field_manager: Some(CONTROLLER_MANAGER.to_owned()), dry_run: dry };
        let request = about(&what, resource, id)?.replace(&id.name, &params, body.to_string().into_bytes());
        let request = request.map_err(|e| unsent(&what, &e))?;
        self.send(answer.asked_by(request).map(Body::from), &what, is_secret(id)).await
    }

    /// Reads an object; `None` if it does not exist.
    pub async fn get(&self, resource: &Resource, id: &ObjectId) -> Result<Option<Value>, ApiError> {
        let what = describe("read", id);
        let request = about(&what, resource, id)?;
        let request =
            request.get(&id.name, &kube::core::params::GetParams::default()).map_err(|e| unsent(&what, &e))?;
        match self.send(request.map(Body::from), &what, is_secret(id)).await {
            Ok(value) => Ok(Some(value)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Deletes an object; with a uid, only the object with this uid. Returns the object if finalizers still keep it. If
    /// another object has its name by now, it counts as deleted.
    pub async fn delete(
        &self,
        resource: &Resource,
        id: &ObjectId,
        uid: Option<&str>,
        foreground: bool,
    ) -> Result<Option<Value>, ApiError> {
        let params = if foreground { DeleteParams::foreground() } else { DeleteParams::background() };
        self.remove(resource, id, uid, params).await
    }

    /// Deletes only the object itself: its dependents stay and lose their owner. Returns the same as
    /// [`Cluster::delete`].
    pub async fn orphan(&self, resource: &Resource, id: &ObjectId, uid: &str) -> Result<Option<Value>, ApiError> {
        self.remove(resource, id, Some(uid), DeleteParams::orphan()).await
    }

    async fn remove(
        &self,
        resource: &Resource,
        id: &ObjectId,
        uid: Option<&str>,
        mut params: DeleteParams,
    ) -> Result<Option<Value>, ApiError> {
        let what = describe("delete", id);
        params.preconditions = uid.map(|uid| Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        let request = about(&what, resource, id)?;
        let request = request.delete(&id.name, &params).map_err(|e| unsent(&what, &e))?;
        match self.send(request.map(Body::from), &what, is_secret(id)).await {
            Ok(value) => Ok((Value::get(&value, "kind").and_then(Value::as_str) != Some("Status")).then_some(value)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) if e.is_conflict() && uid.is_some() => {
                let found = self.get(resource, id).await?;
                let same = found.is_some_and(|o| o.pointer("/metadata/uid").and_then(Value::as_str) == uid);
                if same { Err(e) } else { Ok(None) }
            }
            Err(e) => Err(e),
        }
    }

    /// The objects in all namespaces that match a label selector.
    pub async fn list_all(&self, resource: &Resource, selector: &str) -> Result<Vec<Value>, ApiError> {
        let what = format!("list {}", resource.plural);
        let params = kube::core::params::ListParams::default().labels(selector);
        let request = Request::new(resource.path(None)).list(&params).map_err(|e| unsent(&what, &e))?;
        let mut list: Value = self.send(request.map(Body::from), &what, false).await?;
        Ok(list.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default())
    }

    /// The objects in a namespace that match a label selector.
    pub async fn list(&self, resource: &Resource, namespace: &str, selector: &str) -> Result<Vec<Value>, ApiError> {
        let what = format!("list {} in namespace {namespace}", resource.plural);
        let params = kube::core::params::ListParams::default().labels(selector);
        let request = within(&what, resource, Some(namespace))?.list(&params).map_err(|e| unsent(&what, &e))?;
        let mut list: Value = self.send(request.map(Body::from), &what, false).await?;
        Ok(list.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default())
    }

    /// The metadata of the objects that match a label selector, in one namespace or in all, read page by page.
    pub async fn list_metadata(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<Value>, ApiError> {
        let what = format!("list {}", resource.plural);
        let (mut found, mut next) = (Vec::new(), None);
        loop {
            let params =
                kube::core::params::ListParams { limit: Some(PAGE), continue_token: next, ..Default::default() };
            let request = within(&what, resource, namespace)?;
            let request = request.list_metadata(&params.labels(selector)).map_err(|e| unsent(&what, &e))?;
            let mut list: Value = self.send(request.map(Body::from), &what, false).await?;
            found.append(list.get_mut("items").and_then(Value::as_array_mut).unwrap_or(&mut Vec::new()));
            let token = list.pointer("/metadata/continue").and_then(Value::as_str).filter(|token| !token.is_empty());
            let Some(token) = token else { return Ok(found) };
            next = Some(token.to_owned());
        }
    }

    /// Whether an object in a namespace that matches a label selector has an owner with this uid. Reads only metadata.
    pub async fn has_owned(
        &self,
        resource: &Resource,
        namespace: &str,
        selector: &str,
        owner: &str,
    ) -> Result<bool, ApiError> {
        let what = format!("list {} in namespace {namespace}", resource.plural);
        let mut next = None;
        loop {
            let params =
                kube::core::params::ListParams { limit: Some(PAGE), continue_token: next, ..Default::default() };
            let request = within(&what, resource, Some(namespace))?;
            let request = request.list_metadata(&params.labels(selector)).map_err(|e| unsent(&what, &e))?;
            let list: Value = self.send(request.map(Body::from), &what, false).await?;
            let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
            let owners = |item| Value::pointer(item, "/metadata/ownerReferences").and_then(Value::as_array);
            if items.filter_map(owners).flatten().any(|of| of.get("uid").and_then(Value::as_str) == Some(owner)) {
                return Ok(true);
            }
            let token = list.pointer("/metadata/continue").and_then(Value::as_str).filter(|token| !token.is_empty());
            let Some(token) = token else { return Ok(false) };
            next = Some(token.to_owned());
        }
    }

    /// The events about an object, by its uid. Those about a cluster-scoped object are in the namespace `default`.
    pub async fn events_about(&self, namespace: Option<&str>, uid: &str) -> Result<Vec<Value>, ApiError> {
        let namespace = namespace.unwrap_or("default");
        let what = format!("list events in namespace {namespace}");
        let params = kube::core::params::ListParams::default().fields(&format!("involvedObject.uid={uid}"));
        let request = within(&what, &Resource::events(), Some(namespace))?.list(&params.limit(PAGE));
        let request = request.map_err(|e| unsent(&what, &e))?;
        let mut list: Value = self.send(request.map(Body::from), &what, false).await?;
        Ok(list.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default())
    }

    /// Evicts a pod, but only the one with this uid. Returns `false` if a disruption budget does not allow it now.
    pub async fn evict(&self, pods: &Resource, id: &ObjectId, uid: &str) -> Result<bool, ApiError> {
        let what = describe("evict", id);
        let body = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": &*id.name, "namespace": id.namespace.as_deref()},
            "deleteOptions": {"preconditions": {"uid": uid}},
        });
        let params = PostParams::default();
        let request =
            about(&what, pods, id)?.create_subresource("eviction", &id.name, &params, body.to_string().into_bytes());
        let request = request.map_err(|e| unsent(&what, &e))?;
        match self.send::<Value>(request.map(Body::from), &what, false).await {
            Ok(_) => Ok(true),
            Err(e) if e.is_not_found() => Ok(true),
            Err(e) if e.reason() == "TooManyRequests" => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The objects of a namespace, or of all, as the API server lists them.
    pub async fn list_raw(&self, resource: &Resource, namespace: Option<&str>) -> Result<Value, ApiError> {
        let what = format!("list {}", resource.plural);
        let request = within(&what, resource, namespace)?.list(&kube::core::params::ListParams::default());
        let request = request.map_err(|e| unsent(&what, &e))?;
        self.send(request.map(Body::from), &what, false).await
    }

    /// Reads any path as JSON. No text of a tenant is part of it.
    pub async fn get_path<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        let what = format!("read {path}");
        let request = Request::new(path.to_owned()).list(&kube::core::params::ListParams::default());
        let request = request.map_err(|e| unsent(&what, &e))?;
        self.send(request.map(Body::from), &what, false).await
    }

    /// The last lines of the log of a Job's pod, or of a Pod, with the pod's name. The lines are from the first
    /// container that failed. Returns `None` if there are none. Callers must not fail because of an error:
    /// operator-sdk's roles do not include `get` of `pods/log`.
    pub async fn last_lines(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<Option<(String, String)>, ApiError> {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let selector = if kind == "Job" {
            kube::core::params::ListParams::default().labels(&format!("job-name={name}"))
        } else {
            kube::core::params::ListParams::default().fields(&format!("metadata.name={name}"))
        };
        let what = format!("list pods in namespace {namespace}");
        let request = Request::new(pods.clone()).list(&selector).map_err(|e| unsent(&what, &e))?;
        let list: Value = self.send(request.map(Body::from), &what, false).await?;
        let Some((pod, container)) = last_pod(&list) else { return Ok(None) };
        let what = format!("read the log of pod {pod} in namespace {namespace}");
        let query = format!("container={container}&tailLines={LOG_LINES}&limitBytes={LOG_READ}");
        let request = http::Request::get(format!("{pods}/{pod}/log?{query}")).body(Vec::new());
        let Ok(mut request) = request else { return Ok(None) };
        self.identity.enter(&mut request, &what, self.is_another)?;
        let Ok(answer) = tokio::time::timeout(DEADLINE, self.client.request_text(request)).await else {
            return Err(late(&what));
        };
        let answer = answer.map_err(|e| ApiError::from_kube(&what, &e, Sent::Nothing).seen_by(self.account()));
        let lines = whole_lines(&answer?);
        Ok((!lines.is_empty()).then_some((pod, lines)))
    }

    /// The account with whose rights requests are sent; `None` for the operator's own rights, and for no rights.
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.identity.account()
    }

    async fn send<T: DeserializeOwned>(
        &self,
        mut request: http::Request<Body>,
        what: &str,
        secret: bool,
    ) -> Result<T, ApiError> {
        let sent = match *request.method() {
            http::Method::GET => Sent::Nothing,
            _ if secret => Sent::Secret,
            _ => Sent::Object,
        };
        let unreachable = |message: String| ApiError::Unreachable { what: what.to_owned(), message };
        self.identity.enter(&mut request, what, self.is_another)?;
        let writes = request.method() != http::Method::GET && !is_dry(&request);
        if writes && !self.fence.is_open() {
            return Err(unreachable("the lease was not renewed in time, so another instance may lead".to_owned()));
        }
        let sending = async {
            let response = self.client.send(request).await?;
            let code = response.status().as_u16();
            Ok((code, response.into_body().collect_bytes().await?))
        };
        let answer = tokio::time::timeout(DEADLINE, sending).await;
        progress::note();
        let (code, bytes) = match answer {
            Err(_) => return Err(late(what)),
            Ok(Err(error)) => return Err(ApiError::from_kube(what, &error, sent)),
            Ok(Ok(answer)) => answer,
        };
        if code < 400 {
            let value = serde_json::from_slice(&bytes).map_err(|e| unreachable(format!("answer is not JSON: {e}")))?;
            return Ok(value);
        }
        let status = serde_json::from_slice::<Status>(&bytes)
            .unwrap_or_else(|_| Status::failure(&format!("HTTP status {code}"), ""));
        Err(ApiError::refused(what, code, &status, sent).seen_by(self.account()))
    }
}

/// Whether a request is a dry run, which stores nothing.
fn is_dry(request: &http::Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "dryRun=All"))
}

/// The part of a written object that the API server should return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// The whole object.
    Object,
    /// Only its metadata: the writer of a large object knows the rest.
    Metadata,
}

impl Returned {
    fn asked_by<B>(self, mut request: http::Request<B>) -> http::Request<B> {
        if self == Self::Metadata {
            let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
            request.headers_mut().insert(http::header::ACCEPT, http::HeaderValue::from_static(metadata));
        }
        request
    }
}

/// Builds a client like kube's, with connections that send at once. Through a proxy, kube's own connections are used.
/// The newest pod, and its first failed container or, if none failed, its first container.
fn last_pod(list: &Value) -> Option<(String, String)> {
    let text = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let created = |pod: &&Value| text(pod, "/metadata/creationTimestamp");
    let pod = list.get("items")?.as_array()?.iter().max_by_key(created)?;
    let states = pod.pointer("/status/containerStatuses").and_then(Value::as_array).into_iter().flatten();
    let failed = states.into_iter().find(|s| {
        let code = |state: &str| s.pointer(&format!("/{state}/terminated/exitCode")).and_then(Value::as_i64);
        code("state").or_else(|| code("lastState")).is_some_and(|code| code != 0)
    });
    let container = failed.and_then(|s| text(s, "/name")).or_else(|| text(pod, "/spec/containers/0/name"))?;
    Some((text(pod, "/metadata/name")?, container))
}

/// The last lines of a log within the limits. Only whole lines: half a line may end in half a secret, which could not
/// be found and masked. A line that is too long is replaced by its length.
fn whole_lines(log: &str) -> String {
    let mut lines: Vec<&str> = log.trim_end().lines().collect();
    if log.len() >= LOG_READ {
        // The API server has cut the log here.
        lines.pop();
    }
    let mut room = LOG_BYTES;
    let mut told = Vec::new();
    for line in lines.into_iter().rev().take(LOG_LINES) {
        let line = if line.len() < LOG_BYTES { line.to_owned() } else { format!("(a line of {} bytes)", line.len()) };
        if line.len() >= room {
            break;
        }
        room -= line.len() + 1;
        told.push(line);
    }
    told.reverse();
    told.join("\n")
}

fn late(what: &str) -> ApiError {
    let message = format!("no answer within {} seconds", DEADLINE.as_secs());
    ApiError::Unreachable { what: what.to_owned(), message }
}

/// A request about an object. Its name and namespace become parts of the path: one that is more than a part, such as
/// `kube-system/secrets/admin` or `?watch=true`, would ask for something else with the operator's rights, so nothing is sent.
fn about(what: &str, resource: &Resource, id: &ObjectId) -> Result<Request, ApiError> {
    segment(what, "resource name", &id.name)?;
    within(what, resource, id.namespace.as_deref())
}

/// A request about the objects of a namespace, or of all.
fn within(what: &str, resource: &Resource, namespace: Option<&str>) -> Result<Request, ApiError> {
    if let Some(namespace) = namespace.filter(|_| resource.namespaced) {
        segment(what, "namespace", namespace)?;
    }
    Ok(Request::new(resource.path(namespace)))
}

/// Refuses a text that is not exactly one part of a path, in the words of Go's client.
fn segment(what: &str, of: &str, text: &str) -> Result<(), ApiError> {
    let why = match text {
        "" => "must not be empty".to_owned(),
        "." | ".." => format!("may not be '{text}'"),
        _ => match text.chars().find(|c| "/%?#\\".contains(*c) || !c.is_ascii_graphic()) {
            Some(c) => format!("may not contain {c:?}"),
            None => return Ok(()),
        },
    };
    let status = Status::failure(&format!("invalid {of} {text:?}: [{why}]"), "BadRequest");
    Err(ApiError::refused(what, 400, &status, Sent::Nothing))
}

/// `VERB Kind NAME in namespace X`.
pub fn describe(verb: &str, id: &ObjectId) -> String {
    match &id.namespace {
        Some(namespace) => format!("{verb} {id} in namespace {namespace}"),
        None => format!("{verb} {id}"),
    }
}

fn is_secret(id: &ObjectId) -> bool {
    id.gvk.group.is_empty() && &*id.gvk.kind == "Secret"
}

fn unsent(what: &str, error: &kube::core::request::Error) -> ApiError {
    let status = Status::failure(&error.to_string(), "BadRequest");
    ApiError::refused(what, 400, &status, Sent::Object)
}

#[cfg(test)]
mod tests {
    use super::{LOG_BYTES, LOG_READ, about, whole_lines};
    use crate::cluster::discovery::Resource;
    use crate::object::ObjectId;

    #[test]
    fn of_a_log_the_last_whole_lines_are_told() {
        assert_eq!(whole_lines("one\ntwo\n\n"), "one\ntwo");
        assert_eq!(whole_lines(""), "");
        let long = "x".repeat(LOG_BYTES);
        assert_eq!(whole_lines(&format!("first\n{long}\nlast\n")), "first\n(a line of 1500 bytes)\nlast");
        let many = (0..400).map(|n| format!("line {n:03}\n")).collect::<Vec<_>>().concat();
        assert_eq!(whole_lines(&many).lines().count(), 10);
        assert!(whole_lines(&many).ends_with("line 399"));
        let wide = (0..10).map(|n| format!("{n}{}\n", "y".repeat(400))).collect::<Vec<_>>().concat();
        assert_eq!(whole_lines(&wide).lines().map(|l| &l[..1]).collect::<String>(), "789");
        // The API server cut the log in the middle of the last line.
        let cut = format!("told\n{}", "z".repeat(LOG_READ - 5));
        assert_eq!(whole_lines(&cut), "told");
    }

    #[test]
    fn a_name_that_is_more_than_a_part_of_a_path_is_asked_for_nowhere() {
        let secrets = Resource::secrets();
        let send = |namespace: &str, name: &str| {
            let namespace = Some(namespace).filter(|namespace| !namespace.is_empty()).map(Into::into);
            about("read", &secrets, &ObjectId { gvk: secrets.gvk.clone(), namespace, name: name.into() })
        };
        for name in ["a", "a.b-c", "system:node", "sh.helm.release.v1.x.v1"] {
            assert!(send("shop", name).is_ok(), "{name}");
        }
        let hostile = [
            "",
            ".",
            "..",
            "kube-system/secrets/admin",
            "../other/secrets/x",
            "a/status",
            "?watch=true",
            "a?dryRun=All",
            "a#b",
            "a%2fb",
            "a\\b",
            "a b",
            "a\nb",
            "\u{e4}",
        ];
        for text in hostile {
            let error = send("shop", text).err().unwrap_or_else(|| panic!("{text:?}")).to_string();
            assert!(error.contains("invalid resource name"), "{error}");
            if !text.is_empty() {
                let error = send(text, "a").err().unwrap_or_else(|| panic!("{text:?}")).to_string();
                assert!(error.contains("invalid namespace"), "{error}");
            }
        }
    }
}

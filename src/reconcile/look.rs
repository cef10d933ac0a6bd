//! What the API server knows of a StatefulSet with members. It is read in each pass that needs it: nothing is done to members by
//! what a cache believes. Watches of its pods, claims and Jobs only say when to look again, and there are none of them for releases
//! without members.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kube::Api;
use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::etcd;
use super::observe::Observed;
use super::panics::caught;
use super::tasks::Tasks;
use super::{Context, Error, render};
use crate::cluster::cache::ReleaseKey;
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::cluster::readiness::{pod_reason, pod_selector};
use crate::cluster::watch::{Sink, watch};
use crate::mask::Text;
use crate::members::document::{Driver, ScaleHook, Set};
use crate::members::etcd::url::takes_tls;
use crate::members::jobs::job;
use crate::members::workload::{Claim, Exit, Pod, PodPhase, Workload};
use crate::release::digest::Hasher;
use crate::release::object::{Gvk, ObjectId};
use crate::release::owned;

/// How long until members at rest are looked at by a pass, when what looks at them has panicked.
const AFTER_PANIC: Duration = Duration::from_secs(60);

fn core(kind: &str, plural: &str) -> Resource {
    Resource { gvk: Gvk::new("", "v1", kind), plural: plural.into(), namespaced: true }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn seconds(object: &Value, pointer: &str) -> i64 {
    text(object, pointer).parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_second)
}

/// Looks at a StatefulSet, its pods and its claims; `None` when it does not exist, or not as one with members.
pub async fn look(observed: &Observed, set: &Set, ctx: &Context) -> Result<Option<Workload>, Error> {
    let namespace = Arc::clone(&observed.owner.release_namespace);
    let id = set.id(&namespace);
    let Some(resource) = ctx.discovery.resolve(&id.gvk).await? else { return Ok(None) };
    let Some(object) = ctx.cluster.get(&resource, &id).await? else { return Ok(None) };
    // One that was not applied as one with members is not stepped yet.
    if !object.get("metadata").is_some_and(owned::steps_replicas) {
        return Ok(None);
    }
    let Some(selector) = pod_selector(&id.gvk, &object) else { return Ok(None) };
    ctx.looks.ensure(&observed.key, &observed.owner.release_name, &namespace, &selector, &set.driver);
    let (pod_list, claim_list) = (core("Pod", "pods"), core("PersistentVolumeClaim", "persistentvolumeclaims"));
    let pods = ctx.cluster.list(&pod_list, &namespace, &selector).await?;
    let templates = object.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
    let templates: Vec<&str> = templates.into_iter().flatten().map(|t| text(t, "/metadata/name")).collect();
    let claims = match templates.as_slice() {
        [] => Vec::new(),
        _ => ctx.cluster.list(&claim_list, &namespace, &selector).await?,
    };
    let uid = text(&object, "/metadata/uid");
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    // What the controller has not looked at yet says nothing of the present template.
    let is_seen = number("/status/observedGeneration") >= number("/metadata/generation");
    let mut workload = Workload {
        resource_version: text(&object, "/metadata/resourceVersion").into(),
        replicas: number("/spec/replicas").and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
        start: number("/spec/ordinals/start").and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        update_revision: if is_seen { text(&object, "/status/updateRevision").into() } else { "".into() },
        pods: BTreeMap::new(),
        earlier: Vec::new(),
        claims: BTreeMap::new(),
        name: Arc::clone(&id.name),
        namespace,
    };
    if pods.iter().filter_map(pod_reason).any(|why| why.is_foreign()) {
        render::learn(observed, ctx).await;
    }
    for object in &pods {
        let ours = text(object, "/metadata/ownerReferences/0/uid") == uid;
        match ordinal(text(object, "/metadata/name"), "", &set.target) {
            Some(ordinal) if ours => {
                workload.pods.insert(ordinal, pod(object, |text| ctx.show(observed, text)));
            }
            Some(_) => workload.earlier.push(text(object, "/metadata/name").into()),
            None => {}
        }
    }
    for object in &claims {
        let name = text(object, "/metadata/name");
        for template in &templates {
            if let Some(ordinal) = ordinal(name, template, &set.target) {
                workload.claims.entry(ordinal).or_default().push(claim(object));
            }
        }
    }
    // A pod takes its claim by the name alone, so those without the labels count, too (apply.md A7): of the pods that there are, and of
    // the next one.
    let next = u32::from(set.size > workload.replicas);
    for ordinal in workload.start..workload.start.saturating_add(workload.replicas).saturating_add(next) {
        for template in &templates {
            let name = format!("{template}-{}-{ordinal}", set.target);
            let known = workload.claims.get(&ordinal).is_some_and(|all| all.iter().any(|claim| *claim.name == *name));
            let id = ObjectId {
                gvk: claim_list.gvk.clone(),
                namespace: Some(Arc::clone(&workload.namespace)),
                name: name.into(),
            };
            if !known && let Some(object) = ctx.cluster.get(&claim_list, &id).await? {
                workload.claims.entry(ordinal).or_default().push(claim(&object));
            }
        }
    }
    Ok(Some(workload))
}

/// The ordinal in the name of a pod, or of a claim of a template.
fn ordinal(name: &str, template: &str, set: &str) -> Option<u32> {
    let name = if template.is_empty() { name } else { name.strip_prefix(template)?.strip_prefix('-')? };
    let digits = name.strip_prefix(set)?.strip_prefix('-')?;
    let ordinal: u32 = digits.parse().ok()?;
    (ordinal.to_string() == digits).then_some(ordinal)
}

fn pod(object: &Value, shown: impl Fn(&Text) -> String) -> Pod {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().any(|c| text(c, "/type") == "Ready" && text(c, "/status") == "True");
    let statuses = object.pointer("/status/containerStatuses").and_then(Value::as_array);
    let restarts = statuses.into_iter().flatten().filter_map(|s| s.get("restartCount")?.as_u64()).sum::<u64>();
    let first = text(object, "/spec/containers/0/name");
    let first = statuses.and_then(|all| all.iter().find(|s| text(s, "/name") == first));
    let exit = first.and_then(|s| s.pointer("/state/terminated").or_else(|| s.pointer("/lastState/terminated")));
    let exit = exit.and_then(|t| {
        let code = t.get("exitCode")?.as_i64().and_then(|code| i32::try_from(code).ok())?;
        let started = first.filter(|s| s.pointer("/state/running/startedAt").is_some());
        let running_since = started.map(|s| seconds(s, "/state/running/startedAt"));
        Some(Exit { code, message: text(t, "/message").into(), running_since })
    });
    let phase = match text(object, "/status/phase") {
        "Pending" if text(object, "/spec/nodeName").is_empty() => PodPhase::Unscheduled,
        "Running" => PodPhase::Running,
        "Succeeded" | "Failed" => PodPhase::Ended,
        "Unknown" => PodPhase::Unknown,
        _ => PodPhase::Pending,
    };
    Pod {
        uid: text(object, "/metadata/uid").into(),
        revision: text(object, "/metadata/labels/controller-revision-hash").into(),
        created: seconds(object, "/metadata/creationTimestamp"),
        phase,
        ready,
        terminating: object.pointer("/metadata/deletionTimestamp").is_some(),
        restarts: u32::try_from(restarts).unwrap_or(u32::MAX),
        exit,
        reason: if ready { "".into() } else { pod_reason(object).map(|text| shown(&text)).unwrap_or_default().into() },
        secure: takes_tls(object),
    }
}

fn claim(object: &Value) -> Claim {
    Claim {
        name: text(object, "/metadata/name").into(),
        uid: text(object, "/metadata/uid").into(),
        created: seconds(object, "/metadata/creationTimestamp"),
        terminating: object.pointer("/metadata/deletionTimestamp").is_some(),
        lost: text(object, "/status/phase") == "Lost",
    }
}

/// The Jobs of scale hooks of a release.
pub async fn jobs(
    observed: &Observed,
    namespace: &str,
    hooks: &[ScaleHook],
    ctx: &Context,
) -> Result<Vec<job::Seen>, ApiError> {
    let selector = format!("{}={}", job::LABEL, observed.owner.release_name);
    let jobs = Resource { gvk: Gvk::new("batch", "v1", "Job"), plural: "jobs".into(), namespaced: true };
    let all = ctx.cluster.list(&jobs, namespace, &selector).await?;
    let ended = |job: &Value| {
        let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
        conditions.into_iter().flatten().any(|c| text(c, "/type") == "Failed" && text(c, "/status") == "True")
    };
    let mut pods = Vec::new();
    if all.iter().any(ended) {
        pods = ctx.cluster.list(&core("Pod", "pods"), namespace, &selector).await?;
        // Masked here, where it comes from: what members are said to be waiting for is made of our own words but for this.
        render::learn(observed, ctx).await;
        let statuses = |pod| Value::pointer_mut(pod, "/status/containerStatuses").and_then(Value::as_array_mut);
        for status in pods.iter_mut().filter_map(statuses).flatten() {
            if let Some(Value::String(message)) = status.pointer_mut("/state/terminated/message") {
                *message = ctx.show(observed, &Text::foreign(message.as_str()));
            }
        }
    }
    Ok(all.iter().filter_map(|job| job::read(job, &pods, hooks)).collect())
}

/// The watches that say when to look.
pub struct Looks {
    watched: Mutex<HashMap<ReleaseKey, BTreeMap<Box<str>, CancellationToken>>>,
    context: Weak<Context>,
    tasks: Tasks,
    stop: CancellationToken,
}

impl Looks {
    /// None yet. The context is the one that will hold this.
    pub fn new(context: Weak<Context>, tasks: Tasks, stop: CancellationToken) -> Self {
        Self { watched: Mutex::default(), context, tasks, stop }
    }

    /// Makes sure that the pods and claims of a release are watched, and what its driver makes.
    fn ensure(&self, key: &ReleaseKey, release: &str, namespace: &Arc<str>, selector: &str, driver: &Driver) {
        let mut all = self.lock();
        let watched = all.entry(key.clone()).or_default();
        let pods = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
        let claims = ApiResource::erase::<k8s_openapi::api::core::v1::PersistentVolumeClaim>(&());
        let (made, label) = match driver {
            Driver::Jobs => (Some(ApiResource::erase::<k8s_openapi::api::batch::v1::Job>(&())), job::LABEL),
            Driver::Etcd => (Some(ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&())), etcd::LABEL),
            Driver::Own(_) => (None, ""),
        };
        let of_driver = format!("{label}={release}");
        let made = made.map(|made| (made, of_driver.as_str()));
        for (kind, selector) in [(pods, selector), (claims, selector)].into_iter().chain(made) {
            let name = format!("{} {selector}", kind.plural).into_boxed_str();
            if watched.contains_key(&name) {
                continue;
            }
            let stop = self.stop.child_token();
            watched.insert(name, stop.clone());
            let mut sink = LookSink {
                key: key.clone(),
                context: Weak::clone(&self.context),
                stop: stop.clone(),
                seen: HashMap::new(),
            };
            let (namespace, selector) = (Arc::clone(namespace), selector.to_owned());
            self.tasks.spawn("watch of members", async move {
                let Some(ctx) = sink.context.upgrade() else { return };
                let api: Api<DynamicObject> = Api::namespaced_with(ctx.cluster.client(), &namespace, &kind);
                let manner = ctx.watches.manner();
                drop(ctx);
                watch(api, Some(&selector), manner, &mut sink, &stop).await;
            });
        }
    }

    /// Looks at a stateful set at rest for as long as nothing brings a pass: `trouble` ends when something is not as it should be,
    /// and then the release gets one.
    pub fn attend(&self, key: &ReleaseKey, set: &str, trouble: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.child_token();
        let old = self.lock().entry(key.clone()).or_default().insert(attended(set), stop.clone());
        old.inspect(CancellationToken::cancel);
        let (key, context) = (key.clone(), Weak::clone(&self.context));
        self.tasks.spawn("look at members", async move {
            // What members answer makes no end of the operator.
            let trouble = async {
                if caught(trouble).await.is_err() {
                    tokio::time::sleep(AFTER_PANIC).await;
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = trouble => if let Some(ctx) = context.upgrade() {
                    ctx.queue.add(key);
                }
            }
        });
    }

    /// A pass looks at it itself.
    pub fn leave(&self, key: &ReleaseKey, set: &str) {
        let old = self.lock().get_mut(key).and_then(|watched| watched.remove(&attended(set)));
        old.inspect(CancellationToken::cancel);
    }

    /// Nothing of this release is watched any more.
    pub fn forget(&self, key: &ReleaseKey) {
        for stop in self.lock().remove(key).unwrap_or_default().into_values() {
            stop.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ReleaseKey, BTreeMap<Box<str>, CancellationToken>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Under which name a stateful set at rest is looked at: no kind of object has a space in its plural.
fn attended(set: &str) -> Box<str> {
    format!("at rest {set}").into()
}

struct LookSink {
    key: ReleaseKey,
    context: Weak<Context>,
    stop: CancellationToken,
    /// Digest of what matters, by name.
    seen: HashMap<String, String>,
}

impl LookSink {
    fn tell(&self) {
        if let Some(ctx) = self.context.upgrade().filter(|_| !self.stop.is_cancelled()) {
            ctx.queue.add(self.key.clone());
        }
    }
}

/// What a pass would see of a pod, a claim, a Job or the `ConfigMap` of a driver.
fn digest(object: &Value) -> String {
    let mut hasher = Hasher::default();
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    for condition in conditions.into_iter().flatten() {
        hasher.text(text(condition, "/type")).text(text(condition, "/status"));
    }
    let what = pod(object, Text::whole);
    hasher.text(format!("{:?} {:?}", what, text(object, "/status/phase")));
    hasher.json(object.get("data").unwrap_or(&Value::Null));
    hasher.finish_short(16)
}

impl Sink<DynamicObject> for LookSink {
    fn begin(&mut self) {
        self.seen.clear();
    }

    fn put(&mut self, object: DynamicObject, listed: bool) {
        let Some(name) = object.metadata.name.clone() else { return };
        let digest = serde_json::to_value(object).map(|object| digest(&object)).unwrap_or_default();
        let same = self.seen.insert(name, digest.clone()).is_some_and(|old| old == digest);
        if !listed && !same {
            self.tell();
        }
    }

    fn remove(&mut self, object: DynamicObject) {
        if let Some(name) = object.metadata.name {
            self.seen.remove(&name);
        }
        self.tell();
    }

    /// What happened between the pass's own look and this list has no event.
    fn complete(&mut self) {
        self.tell();
    }

    fn blind(&mut self, why: String) {
        tracing::warn!(name = %self.key.name, namespace = %self.key.namespace, %why, "members cannot be watched");
    }
}

#[cfg(test)]
mod tests {
    use super::ordinal;

    #[test]
    fn ordinals_are_read_off_names() {
        for (name, template, expected) in [
            ("db-0", "", Some(0)),
            ("db-12", "", Some(12)),
            ("db-x", "", None),
            ("db-01", "", None),
            ("db-a-1", "", None),
            ("data-db-3", "data", Some(3)),
            ("data-db-x-3", "data", None),
        ] {
            assert_eq!(ordinal(name, template, "db"), expected, "{name}");
        }
    }
}

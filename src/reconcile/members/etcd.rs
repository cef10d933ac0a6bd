//! The operator's part of the etcd driver: the `ConfigMap` that members without data start from, the Secrets with the
//! credentials for calls to members, and the checks of clusters at rest, which cost the API server nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ApiResource;
use serde_json::{Map, Value, json};

use super::executor::{STOPPED, SetPass};
use super::registered::{Made, Passed, Registered};
use crate::cluster::cache::Cache;
use crate::cluster::client::{Cluster, Conflicts};
use crate::cluster::discovery::Resource;
use crate::mask::Secrets;
use crate::members::document::Set;
use crate::members::driver::{MemberDriver as _, MemberStep};
use crate::members::etcd::client::Access;
use crate::members::etcd::document::{Document, LABEL};
use crate::members::etcd::driver::{ConfigMaps, Etcd};
use crate::members::etcd::secret::Secret;
use crate::members::etcd::state::{Action, Call, InitialCluster};
use crate::members::progress::{self, Doing};
use crate::members::workload::{Latch, Mode, Target, Workload};
use crate::plan::claim::{Ownership, ownership};
use crate::plan::stamp::stamp;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::notify::event;
use crate::reconcile::observe::observed::Observed;
use crate::reconcile::queue::with_jitter;
use crate::release::object::{Gvk, Object, ObjectId};
use crate::release::owner::{CHART_LABEL, Owner};

/// How long a member may take to answer. A write takes milliseconds. An election, which a read waits for, takes about a
/// second.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The longest time between two checks of members at rest. Kubelets report pods that are not ready, and watches report
/// deleted pods, at once. The checks find what only etcd knows: alarms, foreign members, partitions.
const PERIOD: Duration = Duration::from_secs(20);
/// If a check fails once, it is repeated after this time before the API server is asked.
const AGAIN: Duration = Duration::from_secs(2);

/// The driver of etcd, as it is registered.
pub struct EtcdDriver;

impl Registered for EtcdDriver {
    fn makes(&self) -> Option<Made> {
        Some((ApiResource::erase::<ConfigMap>(&()), LABEL))
    }

    fn pass<'a>(&'a self, pass: &'a SetPass<'a>) -> BoxFuture<'a, Result<Passed, Error>> {
        Box::pin(pass_over(pass))
    }

    fn leave_behind<'a>(
        &'a self,
        observed: &'a Observed,
        set: &'a Set,
        ctx: &'a Context,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(leave_behind(observed, set, ctx))
    }
}

/// One step of a cluster, with its events.
async fn pass_over(pass: &SetPass<'_>) -> Result<Passed, Error> {
    let SetPass { observed, set, workload, ctx, .. } = *pass;
    let target = pass.target();
    if target.mode != Mode::Run {
        return Ok((Doing::Nothing, None, pass.latch.clone()));
    }
    let driver = match driver(observed, set, ctx).await? {
        Ok(driver) => driver,
        Err(Lack::Waits(what)) => return Ok((Doing::Waiting(what), Some(STOPPED), pass.latch.clone())),
        Err(Lack::Wrong(why)) => return Ok(pass.wrong(why)),
    };
    let seen = driver.observe(workload, pass.latch).await;
    let step = driver.decide(workload, &seen, &target, pass.latch, observed.facts.now);
    let quiet = step == MemberStep::Quiet;
    let call =
        matches!(step, MemberStep::Act(Action::Call { .. }) | MemberStep::ActThen { action: Action::Call { .. }, .. });
    let votes = matches!(step, MemberStep::Act(Action::Call { call: Call::AddVoter { .. }, .. }));
    let ((doing, after), latch) = pass.perform(&driver, step).await?;
    if let (true, Doing::Done(what)) = (votes, &doing) {
        let cost = "etcd before 3.4 has no learners: until its pod has started the cluster bears one failure less, and one of two stands still";
        event(observed, ctx, true, "MemberVotesAtOnce", format!("StatefulSet {}: {what}; {cost}", set.target));
    }
    if let (true, Doing::Done(what)) = (call, &doing) {
        event(observed, ctx, false, "MembersChanged", format!("StatefulSet {}: {what}", set.target));
    }
    if pass.latch.recovery != latch.recovery {
        let what = progress::describe_latch(set, pass.latch, &latch);
        event(observed, ctx, true, "RecoveringQuorum", format!("StatefulSet {}: {what}", set.target));
    }
    if quiet {
        let rest = Rest { workload: workload.clone(), target, latch: latch.clone(), initial: seen.initial };
        ctx.watching.members.attend(&observed.key, &set.name, rest.watched(driver));
    }
    Ok((doing, after, latch))
}

/// Why there is no driver.
enum Lack {
    /// Something does not exist yet.
    Waits(String),
    /// Something is wrong until somebody changes it.
    Wrong(String),
}

/// The driver of a cluster.
async fn driver(observed: &Observed, set: &Set, ctx: &Context) -> Result<Result<Etcd<InitialClusterMap>, Lack>, Error> {
    let document = match Document::read(&set.etcd, &set.target) {
        Ok(document) => document,
        Err(why) => return Ok(Err(Lack::Wrong(why))),
    };
    let access = match access(&document, observed, ctx).await? {
        Ok(access) => access,
        Err(lack) => return Ok(Err(lack)),
    };
    let config_maps = InitialClusterMap::of(&document, observed, ctx);
    Ok(Ok(Etcd { settings: document.settings, access, config_maps }))
}

/// The certificates and the password. Each pass reads them again, since they may have been renewed. No text shows them.
async fn access(document: &Document, observed: &Observed, ctx: &Context) -> Result<Result<Access, Lack>, Error> {
    let mut access = Access { tls: None, user: None, timeout: TIMEOUT };
    if let Some(name) = &document.tls_secret {
        let Some(found) = secret(name, observed).await? else { return Ok(Err(missing(name, "tls"))) };
        access.tls = match found.tls() {
            Ok(tls) => Some(tls),
            Err(why) => return Ok(Err(Lack::Wrong(why))),
        };
    }
    if let Some(name) = &document.user_secret {
        let Some(found) = secret(name, observed).await? else { return Ok(Err(missing(name, "auth"))) };
        access.user = match (found.text("username"), found.text("password")) {
            (Ok(user), Ok(password)) => {
                let mut secrets = Secrets::default();
                secrets.add(&password);
                ctx.memory.masks.learn(&observed.key, secrets);
                Some((user, password))
            }
            (Err(why), _) | (_, Err(why)) => return Ok(Err(Lack::Wrong(why))),
        };
    }
    Ok(Ok(access))
}

fn missing(name: &str, field: &str) -> Lack {
    Lack::Waits(format!("Secret {name}, which spec.etcd.{field} names"))
}

/// Reads a Secret in the namespace of the release.
async fn secret<'a>(name: &'a str, observed: &Observed) -> Result<Option<Secret<'a>>, Error> {
    let resource = Resource::secrets();
    let namespace = Some(Arc::clone(&observed.owner.release_namespace));
    let id = ObjectId { gvk: resource.gvk.clone(), namespace, name: name.into() };
    let found = observed.cluster.get(&resource, &id).await?;
    Ok(found.map(|found| Secret::new(name, &found)))
}

/// The `ConfigMap` with `ETCD_INITIAL_CLUSTER`, owned by the custom resource. It is not part of the release, and the
/// watches of the release's objects do not show it, so it is neither drift nor pruned.
pub struct InitialClusterMap {
    cluster: Cluster,
    resource: Resource,
    id: ObjectId,
    owner: Owner,
    take: bool,
    cache: Arc<Cache>,
    /// The resourceVersion that was read. A write fails if somebody else has written since: an operator that was
    /// suspended for an hour must not start a second cluster.
    seen: Mutex<Option<Value>>,
}

impl InitialClusterMap {
    fn of(document: &Document, observed: &Observed, ctx: &Context) -> Self {
        let resource = Resource { gvk: Gvk::new("", "v1", "ConfigMap"), plural: "configmaps".into(), namespaced: true };
        let namespace = Some(Arc::clone(&observed.owner.release_namespace));
        let id = ObjectId { gvk: resource.gvk.clone(), namespace, name: document.config_map.as_str().into() };
        let take = observed.facts.switches.take_ownership;
        Self {
            cluster: observed.cluster.clone(),
            resource,
            id,
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

    fn seen(&self, version: Option<Value>) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = version;
    }

    fn body(&self, data: &BTreeMap<String, String>) -> Result<Map<String, Value>, String> {
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": &*self.id.name, "labels": {LABEL: &*self.owner.release_name}},
        });
        let object = Object::from_body(body.as_object().cloned().unwrap_or_default())?;
        let mut body = stamp(&object, true, &self.owner).body;
        // The watches of the release's objects must not mistake it for one of them.
        if let Some(Value::Object(labels)) = body.get_mut("metadata").and_then(|metadata| metadata.get_mut("labels")) {
            labels.remove(CHART_LABEL);
        }
        Ok(body)
    }
}

impl ConfigMaps for InitialClusterMap {
    async fn read(&self) -> Result<Option<BTreeMap<String, String>>, String> {
        let name = &self.id.name;
        let found = self.cluster.get(&self.resource, &self.id).await.map_err(|error| error.to_string())?;
        let Some(found) = found else {
            self.seen(None);
            return Ok(None);
        };
        let metadata = &found["metadata"];
        if metadata.get("deletionTimestamp").is_some() {
            return Err(format!("ConfigMap {name} to go"));
        }
        if let Ownership::Refused(why) =
            ownership(metadata, &self.owner, self.take, |namespace, release| self.cache.is_live(namespace, release))
        {
            return Err(format!("ConfigMap {name} to be the driver's: {why}"));
        }
        self.seen(metadata.get("resourceVersion").cloned());
        // A `ConfigMap` of an earlier custom resource is deleted together with that one, so this custom resource has to
        // become an owner first.
        if !self.is_owned(metadata) {
            return Ok(None);
        }
        let data = found.get("data").and_then(Value::as_object).into_iter().flatten();
        Ok(Some(data.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()))
    }

    async fn write(&self, data: BTreeMap<String, String>) -> Result<(), String> {
        let mut body = self.body(&data)?;
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let written = match seen {
            None => self.cluster.apply_new(&self.resource, &self.id, &body, false).await,
            Some(version) => {
                if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
                    metadata.insert("resourceVersion".into(), version);
                }
                self.cluster.apply(&self.resource, &self.id, &body, Conflicts::Force).await
            }
        };
        written.map(drop).map_err(|error| error.to_string())
    }
}

/// If the objects of a release stay when its custom resource is deleted, the `ConfigMap` has to stay as well: without
/// it none of their pods can start again.
async fn leave_behind(observed: &Observed, set: &Set, ctx: &Context) -> Result<(), Error> {
    let Ok(document) = Document::read(&set.etcd, &set.target) else { return Ok(()) };
    let map = InitialClusterMap::of(&document, observed, ctx);
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

/// A cluster for which the last pass had nothing to do. Watches report changes that the API server knows of.
struct Rest {
    /// The StatefulSet.
    pub workload: Workload,
    /// The wanted state.
    pub target: Target,
    /// What the status remembers.
    pub latch: Latch,
    /// The content of the `ConfigMap`.
    pub initial: Result<Option<InitialCluster>, String>,
}

impl Rest {
    /// Asks the members from time to time, and returns when a pass would find something to do.
    pub async fn watched(self, driver: Etcd<InitialClusterMap>) {
        let Etcd { settings, access, .. } = driver;
        let driver = Etcd { settings, access, config_maps: Untouched };
        loop {
            tokio::time::sleep(with_jitter(PERIOD)).await;
            if !self.is_quiet(&driver).await {
                tokio::time::sleep(AGAIN).await;
                if !self.is_quiet(&driver).await {
                    return;
                }
            }
        }
    }

    async fn is_quiet(&self, driver: &Etcd<Untouched>) -> bool {
        let mut seen = driver.observe(&self.workload, &self.latch).await;
        seen.initial.clone_from(&self.initial);
        let now = jiff::Timestamp::now().as_second();
        driver.decide(&self.workload, &seen, &self.target, &self.latch, now) == MemberStep::Quiet
    }
}

/// The `ConfigMap` is watched. Between passes it is neither read nor written.
struct Untouched;

impl ConfigMaps for Untouched {
    async fn read(&self) -> Result<Option<BTreeMap<String, String>>, String> {
        Ok(None)
    }

    async fn write(&self, _: BTreeMap<String, String>) -> Result<(), String> {
        Err("only a pass writes it".to_owned())
    }
}

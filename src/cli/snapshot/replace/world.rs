//! The requests of `replace` to the API server.

use crate::names;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::backup::replace::{PAUSED, REPLACED, REPLACING, ReplaceStep, SeenCluster};
use crate::cli::common::error::CliError;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::object::conditions::{Condition, Conditions};
use crate::object::{Gvk, ObjectId};

const GROUP: &str = "etcd.database.coreos.com";
const VERSION: &str = "v1beta2";
/// The annotation of an `EtcdRestore` that is done; its value is its own uid.
const FINISHED: &str = names::RESTORED;
/// Fields of the status about members. They belong to the operator, which writes them again.
const OF_MEMBERS: [&str; 4] = ["members", "plan", "phase", "currentVersion"];

/// The cluster and the custom resource for which its data is replaced.
pub struct World {
    cluster: Cluster,
    name: Arc<str>,
    namespace: Arc<str>,
    restore: Arc<str>,
    uid: String,
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> Resource {
    Resource { gvk: Gvk::new(group, version, kind), plural: plural.into(), namespaced: true }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn is_going(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
}

impl World {
    /// As the pod's own account.
    pub async fn new(name: &str, namespace: &str, job: &str) -> Result<Self, CliError> {
        // Another provider that is installed already serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = kube::Config::infer().await.map_err(|e| CliError(format!("no cluster is configured: {e}")))?;
        let cluster = Cluster::of_command(config).map_err(CliError::new)?;
        let mut world =
            Self { cluster, name: name.into(), namespace: namespace.into(), restore: "".into(), uid: String::new() };
        let jobs = resource("batch", "v1", "Job", "jobs");
        let found = world.get(&jobs, job).await?.ok_or_else(|| CliError(format!("there is no Job {job}")))?;
        let owners = found.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let owner = owners.into_iter().flatten().find(|owner| text(owner, "/kind") == "EtcdRestore");
        let owner = owner.ok_or_else(|| CliError(format!("Job {job} does not belong to an EtcdRestore")))?;
        world.restore = text(owner, "/name").into();
        text(owner, "/uid").clone_into(&mut world.uid);
        Ok(world)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Of the `EtcdRestore`.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    fn clusters() -> Resource {
        resource(GROUP, VERSION, "EtcdCluster", "etcdclusters")
    }

    fn restores() -> Resource {
        resource(GROUP, VERSION, "EtcdRestore", "etcdrestores")
    }

    fn sets() -> Resource {
        resource("apps", "v1", "StatefulSet", "statefulsets")
    }

    fn claims() -> Resource {
        resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
    }

    fn lists() -> Resource {
        resource("", "v1", "ConfigMap", "configmaps")
    }

    fn id(&self, resource: &Resource, name: &str) -> ObjectId {
        ObjectId { gvk: resource.gvk.clone(), namespace: Some(Arc::clone(&self.namespace)), name: name.into() }
    }

    async fn get(&self, resource: &Resource, name: &str) -> Result<Option<Value>, CliError> {
        self.cluster.get(resource, &self.id(resource, name)).await.map_err(CliError::new)
    }

    /// The cluster, which must exist: the new members are made from its spec.
    pub async fn cluster(&self) -> Result<Value, CliError> {
        let found = self.get(&Self::clusters(), &self.name).await?;
        found.ok_or_else(|| CliError(format!("there is no EtcdCluster {} in namespace {}", self.name, self.namespace)))
    }

    /// Whether the `EtcdRestore` was done already.
    pub async fn is_finished(&self) -> Result<bool, CliError> {
        let restore = self.get(&Self::restores(), &self.restore).await?;
        let restore = restore.filter(|restore| text(restore, "/metadata/uid") == self.uid);
        let restore = restore.ok_or_else(|| CliError(format!("the EtcdRestore {} is gone", self.restore)))?;
        Ok(restore["metadata"]["annotations"][FINISHED].as_str() == Some(&self.uid))
    }

    /// It is, from now on.
    pub async fn finish(&self) -> Result<(), CliError> {
        let patch = json!({"metadata": {"uid": self.uid, "annotations": {FINISHED: self.uid}}});
        self.merge(&Self::restores(), &self.restore, &patch, None).await
    }

    async fn merge(&self, of: &Resource, name: &str, patch: &Value, part: Option<&str>) -> Result<(), CliError> {
        let done: Result<Value, ApiError> = self.cluster.merge(of, &self.id(of, name), patch, part).await;
        done.map(drop).map_err(|error| CliError::new(error.whole()))
    }

    async fn list(&self, of: &Resource, selector: &str) -> Result<Vec<Value>, CliError> {
        self.cluster.list(of, &self.namespace, selector).await.map_err(CliError::new)
    }

    /// Everything that a decision depends on.
    pub async fn look(&self) -> Result<SeenCluster, CliError> {
        let cluster = self.cluster().await?;
        let mut seen = SeenCluster::read(&cluster);
        if let Some(other) = seen.replacing.as_deref().filter(|other| *other != self.uid) {
            let restores = self.list(&Self::restores(), "").await?;
            seen.other_lives = restores.iter().any(|restore| text(restore, "/metadata/uid") == other);
        }
        if let Some(set) = self.get(&Self::sets(), &self.name).await? {
            let owners = set.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            let uid = text(&cluster, "/metadata/uid");
            if !owners.into_iter().flatten().any(|owner| text(owner, "/uid") == uid) {
                return Err(CliError(format!("StatefulSet {} is not that of the EtcdCluster", self.name)));
            }
            seen.set = Some((text(&set, "/metadata/uid").to_owned(), is_going(&set)));
        }
        let members = format!("app=etcd,etcd_cluster={}", self.name);
        let named = |name: &str, before: &str| {
            let ordinal = name.strip_prefix(before).and_then(|rest| rest.strip_prefix(&format!("{}-", self.name)));
            ordinal.is_some_and(|ordinal| !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let pods = self.list(&resource("", "v1", "Pod", "pods"), &members).await?;
        let pods = pods.iter().map(|pod| text(pod, "/metadata/name"));
        seen.pods = pods.filter(|name| named(name, "")).map(str::to_owned).collect();
        let claims = self.list(&Self::claims(), &members).await?;
        let claims = claims.iter().filter(|claim| named(text(claim, "/metadata/name"), "data-"));
        let all = |claim: &Value| {
            let [name, uid] = ["/metadata/name", "/metadata/uid"].map(|at| text(claim, at).to_owned());
            (name, uid, is_going(claim))
        };
        seen.claims = claims.map(all).collect();
        let list = self.get(&Self::lists(), &self.list_name()).await?;
        seen.list = list.map(|list| text(&list, "/metadata/uid").to_owned());
        Ok(seen)
    }

    fn list_name(&self) -> String {
        format!("{}-initial-cluster", self.name)
    }

    /// Does a step.
    pub async fn act(&self, step: ReplaceStep, seen: &SeenCluster, restore: &Value) -> Result<(), CliError> {
        let clusters = Self::clusters();
        let annotate = |annotations: Value| json!({"metadata": {"annotations": annotations}});
        match step {
            ReplaceStep::Announce => {
                let patch = annotate(json!({PAUSED: "true", REPLACING: self.uid}));
                self.merge(&clusters, &self.name, &patch, None).await
            }
            ReplaceStep::DeleteSet(uid) => self.delete(&Self::sets(), &self.name, &uid).await,
            ReplaceStep::DeleteClaim(name, uid) => self.delete(&Self::claims(), &name, &uid).await,
            ReplaceStep::DeleteList(uid) => self.delete(&Self::lists(), &self.list_name(), &uid).await,
            ReplaceStep::Forget => {
                let gone = OF_MEMBERS.iter().map(|field| ((*field).to_owned(), Value::Null));
                let patch = json!({"status": Value::Object(gone.collect())});
                self.merge(&clusters, &self.name, &patch, Some("status")).await
            }
            ReplaceStep::Commit => {
                let replaced = seen.replaced_with(&self.uid);
                let annotations = json!({PAUSED: null, REPLACING: null, REPLACED: replaced});
                let patch = json!({"metadata": {"annotations": annotations}, "spec": {"restore": restore}});
                self.merge(&clusters, &self.name, &patch, None).await
            }
            ReplaceStep::Done | ReplaceStep::Refuse(_) | ReplaceStep::Wait(_) => Ok(()),
        }
    }

    async fn delete(&self, of: &Resource, name: &str, uid: &str) -> Result<(), CliError> {
        self.cluster.delete(of, &self.id(of, name), Some(uid), false).await.map(drop).map_err(CliError::new)
    }

    /// Takes back the announcement.
    pub async fn release(&self) -> Result<(), CliError> {
        let patch = json!({"metadata": {"annotations": {PAUSED: null, REPLACING: null}}});
        self.merge(&Self::clusters(), &self.name, &patch, None).await
    }

    /// Why the operator does not call the cluster, as it is now, ready.
    pub async fn unready(&self) -> Result<Option<String>, CliError> {
        let cluster = self.cluster().await?;
        if cluster["status"]["observedGeneration"] != cluster["metadata"]["generation"] {
            return Ok(Some("the operator has not seen the cluster yet".into()));
        }
        let ready = Conditions::of_object(&cluster).get("Ready");
        if ready.is_some_and(Condition::is_true) {
            return Ok(None);
        }
        Ok(Some(format!("the cluster is not ready: {}", ready.map_or("", Condition::message))))
    }
}

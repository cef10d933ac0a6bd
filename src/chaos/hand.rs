//! Injects faults into a cluster, and undoes them.

use crate::names;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Client, Error};
use serde_json::json;

use super::ChaosError;
use super::machine::{self, Filler};
use super::plan::{Fault, FaultKind};

/// The label that a namespace must have, and its value.
pub const MARK: (&str, &str) = (names::CHAOS_ALLOWED, "allowed");
/// The label of network policies of ours: the name of the StatefulSet.
const PARTED: &str = names::CHAOS_PARTITION;

/// Injects faults into the members of one StatefulSet.
pub struct Hand {
    client: Client,
    namespace: String,
    name: String,
    /// Namespace and label selector of the operator's pods.
    operator: Option<(String, String)>,
    /// The files that fill volumes.
    fillers: Mutex<Vec<Filler>>,
}

/// A member's pod.
#[derive(Clone, Debug)]
pub struct MemberPod {
    /// `metadata.uid`.
    pub uid: String,
    /// Its address, when it has one.
    pub address: Option<String>,
    claims: Vec<String>,
    /// Where its containers have them mounted.
    folders: Vec<String>,
}

impl Hand {
    /// Refuses, with what to do about it, where a namespace is not marked.
    pub async fn new(
        client: Client,
        namespace: &str,
        name: &str,
        operator: Option<(String, String)>,
    ) -> Result<Self, ChaosError> {
        for namespace in std::iter::once(namespace).chain(operator.as_ref().map(|(namespace, _)| &**namespace)) {
            let found = Api::<Namespace>::all(client.clone()).get_opt(namespace).await?;
            let found = found.ok_or_else(|| format!("there is no namespace {namespace}"))?;
            let (key, value) = MARK;
            if found.metadata.labels.unwrap_or_default().get(key).map(String::as_str) != Some(value) {
                return Err(format!(
                    "namespace {namespace} is not marked for it: pods are killed and data may be destroyed there. If \
                     you want that: kubectl label namespace {namespace} {key}={value}"
                )
                .into());
            }
        }
        Ok(Self { client, namespace: namespace.into(), name: name.into(), operator, fillers: Mutex::default() })
    }

    /// How many members there are to be.
    pub async fn size(&self) -> Result<u32, ChaosError> {
        let sets: Api<StatefulSet> = self.api();
        let set = sets.get_opt(&self.name).await?;
        let set =
            set.ok_or_else(|| format!("there is no StatefulSet {} in namespace {}", self.name, self.namespace))?;
        let replicas = set.spec.and_then(|spec| spec.replicas).unwrap_or(1);
        Ok(u32::try_from(replicas)?)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The members by ordinal.
    pub async fn members(&self) -> Result<BTreeMap<u32, MemberPod>, ChaosError> {
        let pods: Api<Pod> = self.api();
        let pods = tried(async || pods.list(&ListParams::default()).await).await?;
        let owned = |pod: &Pod| {
            let owners = pod.metadata.owner_references.iter().flatten();
            owners.into_iter().any(|owner| owner.kind == "StatefulSet" && owner.name == self.name)
        };
        let member = |pod: Pod| {
            let ordinal = pod.metadata.name?.strip_prefix(&self.name)?.strip_prefix('-')?.parse().ok()?;
            let spec = pod.spec.unwrap_or_default();
            let volumes = spec.volumes.into_iter().flatten();
            let claims: BTreeMap<_, _> =
                volumes.filter_map(|v| Some((v.name, v.persistent_volume_claim?.claim_name))).collect();
            let mounts = spec.containers.into_iter().filter_map(|container| container.volume_mounts).flatten();
            let folders =
                mounts.filter(|mount| claims.contains_key(&mount.name)).map(|mount| mount.mount_path).collect();
            let claims = claims.into_values().collect();
            let address = pod.status.and_then(|status| status.pod_ip).filter(|address| !address.is_empty());
            Some((ordinal, MemberPod { uid: pod.metadata.uid?, address, claims, folders }))
        };
        Ok(pods.items.into_iter().filter(owned).filter_map(member).collect())
    }

    /// The faults that cannot be injected into these members from here, with the reasons. It is checked before anything
    /// is done.
    pub async fn check(&self, kinds: &[FaultKind]) -> Result<(), ChaosError> {
        let members = self.members().await?;
        let elsewhere = members.iter().find(|(_, member)| !machine::has(&member.uid));
        for (kind, what) in [(FaultKind::Pause, "stops processes"), (FaultKind::Fill, "writes into volumes")] {
            if let Some((ordinal, _)) = elsewhere.filter(|_| kinds.contains(&kind)) {
                return Err(format!(
                    "{kind} {what}: run it as root on the node of all members, or leave it out of --faults; {}-{ordinal} \
                     is not on this machine",
                    self.name
                ).into());
            }
        }
        if kinds.contains(&FaultKind::Fill) {
            self.check_volumes().await?;
        }
        Ok(())
    }

    /// Whether each member has a volume that can be filled without harm to others; if not, why.
    pub async fn check_volumes(&self) -> Result<(), ChaosError> {
        for (ordinal, member) in self.members().await? {
            volume(&member).map_err(|why| {
                format!(
                    "fill takes the space of a volume, and that of {}-{ordinal} cannot be filled: {why}. Give the members \
                     volumes of their own size, or leave it out of --faults",
                    self.name
                )
            })?;
        }
        Ok(())
    }

    /// Whether members that are parted are so by the network plugin, which may not know of policies.
    pub async fn parts_by_policy(&self) -> Result<bool, ChaosError> {
        Ok(self.members().await?.values().any(|member| !machine::has(&member.uid)))
    }

    /// Does it. [`Self::heal`] undoes a fault that lasts.
    pub async fn begin(&self, fault: &Fault) -> Result<(), ChaosError> {
        let members = self.members().await?;
        for ordinal in &fault.members {
            let Some(member) = members.get(ordinal) else { continue };
            match fault.kind {
                FaultKind::Kill => self.kill(*ordinal, member).await?,
                FaultKind::Destroy => {
                    for claim in &member.claims {
                        let claims: Api<PersistentVolumeClaim> = self.api();
                        gone(tried(async || claims.delete(claim, &DeleteParams::default()).await).await.map(drop))?;
                    }
                    self.kill(*ordinal, member).await?;
                }
                FaultKind::Pause => machine::pause(&member.uid)?,
                FaultKind::Partition if machine::has(&member.uid) => machine::part(&member.uid)?,
                FaultKind::Partition => self.isolate(*ordinal).await?,
                FaultKind::Fill => self.fill(member).await?,
                FaultKind::Operator => {}
            }
        }
        if fault.operator {
            self.kill_operator().await?;
        }
        Ok(())
    }

    /// Continues what would end by itself: space that members gave back is taken again.
    pub async fn go_on(&self) -> Result<(), ChaosError> {
        let fillers = self.fillers().clone();
        for filler in fillers {
            fill(filler).await?;
        }
        Ok(())
    }

    /// Undoes everything that lasts, also the faults that a killed run left. It continues after an error, and returns
    /// the first.
    pub async fn heal(&self) -> Result<(), ChaosError> {
        self.fillers().clear();
        let mut first = Ok(());
        for member in self.members().await?.values() {
            first = first.and(machine::go_on(&member.uid)).and(machine::join(&member.uid));
        }
        let policies: Api<NetworkPolicy> = self.api();
        let ours = ListParams::default().labels(&format!("{PARTED}={}", self.name));
        let deleted = tried(async || policies.delete_collection(&DeleteParams::default(), &ours).await).await;
        first.and(deleted.map(drop).map_err(ChaosError::from))
    }

    /// Whether the operator's pods are ready, if it is known which they are.
    pub async fn operator_is_ready(&self) -> Result<bool, ChaosError> {
        let Some((namespace, selector)) = &self.operator else { return Ok(true) };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let of_operator = ListParams::default().labels(selector);
        let pods = tried(async || pods.list(&of_operator).await).await?;
        let ready = |pod: &Pod| {
            let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
            pod.metadata.deletion_timestamp.is_none()
                && conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
        };
        Ok(pods.items.iter().any(ready))
    }

    async fn fill(&self, member: &MemberPod) -> Result<(), ChaosError> {
        let (uid, folder) = (member.uid.clone(), volume(member)?);
        let filler = Filler::new(&uid, &folder)?;
        self.fillers().push(filler.clone());
        fill(filler).await
    }

    fn fillers(&self) -> std::sync::MutexGuard<'_, Vec<Filler>> {
        self.fillers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn kill(&self, ordinal: u32, member: &MemberPod) -> Result<(), ChaosError> {
        let pods: Api<Pod> = self.api();
        let preconditions = Some(Preconditions { uid: Some(member.uid.clone()), resource_version: None });
        let at_once = DeleteParams { grace_period_seconds: Some(0), preconditions, ..DeleteParams::default() };
        let pod = format!("{}-{ordinal}", self.name);
        gone(tried(async || pods.delete(&pod, &at_once).await).await.map(drop))
    }

    async fn kill_operator(&self) -> Result<(), ChaosError> {
        let Some((namespace, selector)) = &self.operator else { return Ok(()) };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        let of_operator = ListParams::default().labels(selector);
        tried(async || pods.delete_collection(&at_once, &of_operator).await).await?;
        Ok(())
    }

    /// No connection from or to it works, if the network plugin enforces policies.
    async fn isolate(&self, ordinal: u32) -> Result<(), ChaosError> {
        let pod = format!("{}-{ordinal}", self.name);
        let policy = json!({
            "metadata": {"name": format!("chaos-{pod}"), "labels": {PARTED: self.name}},
            "spec": {
                "podSelector": {"matchLabels": {"statefulset.kubernetes.io/pod-name": pod}},
                "policyTypes": ["Ingress", "Egress"],
            },
        });
        let policy = serde_json::from_value(policy)?;
        let policies: Api<NetworkPolicy> = self.api();
        match tried(async || policies.create(&PostParams::default(), &policy).await).await {
            Err(Error::Api(status)) if status.code == 409 => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// Where a member has its volume mounted, if that can be filled.
fn volume(member: &MemberPod) -> Result<String, ChaosError> {
    let folder = member.folders.first().ok_or("it has no claim")?;
    machine::volume(&member.uid, folder).map(|_| folder.clone())
}

/// Takes all free space. If the caller no longer waits, the present piece is finished and no other begins.
async fn fill(filler: Filler) -> Result<(), ChaosError> {
    loop {
        let filler = filler.clone();
        if !tokio::task::spawn_blocking(move || filler.fill()).await?? {
            return Ok(());
        }
    }
}

/// Asks again for a while where the API server does not answer, or says that it cannot now.
async fn tried<T>(request: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    let end = Instant::now() + AGAIN;
    loop {
        match request().await {
            Err(Error::Api(status)) if status.code < 500 && status.code != 429 => return Err(Error::Api(status)),
            Err(error) if Instant::now() < end => tracing::debug!(%error, "asking again"),
            result => return result,
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// An object that is gone or was replaced need not be deleted.
fn gone(result: Result<(), Error>) -> Result<(), ChaosError> {
    match result {
        Err(Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        other => Ok(other?),
    }
}

/// How long a look at a member may take.
pub(super) const LOOK: Duration = Duration::from_secs(2);
/// For how long requests to the API server are repeated.
const AGAIN: Duration = Duration::from_secs(30);

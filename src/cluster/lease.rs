//! Leader election with a Lease, as client-go does it: whoever renews it leads, and it is taken over when it was not
//! renewed for its duration **by our own clock** since we last saw it change, so that clocks need not agree.
//! Every write carries the resourceVersion, so that of two only one succeeds.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::client::Cluster;
use super::discovery::Resource;
use super::error::ApiError;
use super::fence::Fence;
use crate::release::object::ObjectId;

/// client-go's defaults as controller-runtime sets them.
const LEASE: Duration = Duration::from_secs(15);
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);

/// A lease, and who we are.
pub struct Lease {
    cluster: Cluster,
    /// Shuts when the lease is not renewed.
    fence: Fence,
    id: ObjectId,
    identity: String,
    /// What we last saw of the lease, and when it changed for us.
    seen: Option<(String, Instant)>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Attempt {
    Held,
    Other(String),
}

impl Lease {
    /// For a lease of this name.
    pub fn new(cluster: &Cluster, namespace: &str, name: &str, identity: String) -> Self {
        let id = ObjectId { gvk: Resource::leases().gvk, namespace: Some(namespace.into()), name: name.into() };
        let (cluster, fence) = cluster.beside_fence();
        Self { cluster, fence, id, identity, seen: None }
    }

    /// Waits until we lead. `false` when cancelled before.
    pub async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        let mut said = String::new();
        loop {
            match self.attempt().await {
                Ok(Attempt::Held) => {
                    tracing::info!(lease = %self.id.name, identity = %self.identity, "this instance leads");
                    return true;
                }
                Ok(Attempt::Other(holder)) if holder != said => {
                    tracing::info!(lease = %self.id.name, %holder, "another instance leads; waiting");
                    said = holder;
                }
                Ok(Attempt::Other(_)) => {}
                Err(error) => tracing::warn!(%error, "the lease cannot be taken"),
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    /// Renews until cancelled, and then gives the lease up. Returns early when it is lost: then the process must stop at once.
    pub async fn hold(&mut self, stop: &CancellationToken) -> Result<(), String> {
        let mut renewed = Instant::now();
        loop {
            tokio::select! {
                () = stop.cancelled() => {
                    self.release().await;
                    return Ok(());
                }
                () = tokio::time::sleep(RETRY) => {}
            }
            match tokio::time::timeout(RENEW_DEADLINE, self.attempt()).await {
                Ok(Ok(Attempt::Held)) => renewed = Instant::now(),
                Ok(Ok(Attempt::Other(holder))) => return Err(format!("the lease was taken by {holder}")),
                Ok(Err(error)) => tracing::warn!(%error, "the lease was not renewed"),
                Err(_) => tracing::warn!("the lease was not renewed in time"),
            }
            if renewed.elapsed() > RENEW_DEADLINE {
                return Err(format!("the lease was not renewed for {} seconds", renewed.elapsed().as_secs()));
            }
        }
    }

    async fn attempt(&mut self) -> Result<Attempt, ApiError> {
        let began = Instant::now();
        let attempt = self.try_once().await;
        if matches!(attempt, Ok(Attempt::Held)) {
            self.fence.renewed(began);
        }
        attempt
    }

    async fn try_once(&mut self) -> Result<Attempt, ApiError> {
        let resource = Resource::leases();
        let Some(lease) = self.cluster.get(&resource, &self.id).await? else {
            let body = self.body(None, 0);
            return match self.cluster.create(&resource, &self.id, &body).await {
                Ok(_) => Ok(Attempt::Held),
                Err(e) if e.is_conflict() => Ok(Attempt::Other("another instance".to_owned())),
                Err(e) => Err(e),
            };
        };
        let holder = lease.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default().to_owned();
        if holder != self.identity && !holder.is_empty() && !self.is_expired(&lease) {
            return Ok(Attempt::Other(holder));
        }
        let transitions = lease.pointer("/spec/leaseTransitions").and_then(Value::as_i64).unwrap_or(0);
        let changed = i64::from(holder != self.identity);
        let body = self.body(Some(&lease), transitions + changed);
        match self.cluster.merge::<Value>(&resource, &self.id, &body, None).await {
            Ok(_) => Ok(Attempt::Held),
            // Somebody else wrote in between; look again.
            Err(e) if e.is_conflict() => Ok(Attempt::Other(holder)),
            Err(e) => Err(e),
        }
    }

    /// Whether nobody renewed it for its duration since we first saw it as it is.
    fn is_expired(&mut self, lease: &Value) -> bool {
        let version = lease.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        let seconds = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64);
        let duration = seconds.map_or(LEASE, Duration::from_secs);
        match &self.seen {
            Some((seen, at)) if seen == version => at.elapsed() > duration,
            _ => {
                self.seen = Some((version.to_owned(), Instant::now()));
                false
            }
        }
    }

    fn body(&self, current: Option<&Value>, transitions: i64) -> Value {
        let now = format!("{:.6}", jiff::Timestamp::now());
        let ours =
            current.is_some_and(|l| l.pointer("/spec/holderIdentity").and_then(Value::as_str) == Some(&self.identity));
        let mut body = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": &*self.id.name, "namespace": self.id.namespace.as_deref()},
            "spec": {"holderIdentity": self.identity, "leaseDurationSeconds": LEASE.as_secs(), "renewTime": now,
                "leaseTransitions": transitions},
        });
        if !ours {
            body["spec"]["acquireTime"] = now.into();
        }
        if let Some(version) = current.and_then(|l| l.pointer("/metadata/resourceVersion")) {
            body["metadata"]["resourceVersion"] = version.clone();
        }
        body
    }

    /// Lets the next instance start at once.
    async fn release(&self) {
        let resource = Resource::leases();
        let Ok(Some(lease)) = self.cluster.get(&resource, &self.id).await else { return };
        if lease.pointer("/spec/holderIdentity").and_then(Value::as_str) != Some(&self.identity) {
            return;
        }
        let mut body = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}, "metadata": {}});
        body["metadata"]["resourceVersion"] = lease["metadata"]["resourceVersion"].clone();
        if let Err(error) = self.cluster.merge::<Value>(&resource, &self.id, &body, None).await {
            tracing::debug!(%error, "the lease could not be given up");
        }
    }
}

//! Leader election with a Lease, as in client-go. The instance that renews the lease leads. A different instance takes the lease
//! over if it was not renewed for its duration **by our own clock** since we last saw it change, so clocks need not
//! agree. Every write contains the resourceVersion, so only one of two concurrent writes succeeds.
//!
//! Codes in names are rules of docs/design/applying.md.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::Api;
use kube::core::params::WatchParams;
use kube::core::{ApiResource, DynamicObject, WatchEvent};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::client::{Cluster, Returned};
use super::discovery::Resource;
use super::error::ApiError;
use crate::object::ObjectId;

/// client-go's defaults as set by controller-runtime.
const LEASE: Duration = Duration::from_secs(15);
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);

/// The shortest time between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Forbids writes once another instance may hold the lease (docs/design/applying.md A8): before each write it checks
/// the time of the last renewal by our own clock. A process that was suspended and continues after its lease has
/// expired can no longer write.
#[derive(Debug)]
pub struct Fence(AtomicU64);

/// The start of the clock.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Default for Fence {
    /// Always open: without a lease, no other instance writes.
    fn default() -> Self {
        LazyLock::force(&START);
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Fence {
    /// Whether writes are allowed.
    pub fn is_open(&self) -> bool {
        millis(Instant::now()) < self.0.load(Ordering::Acquire)
    }

    /// How long writes have been forbidden, if a lease was held and not renewed.
    pub fn closed_for(&self) -> Option<Duration> {
        let closed = millis(Instant::now()).checked_sub(self.0.load(Ordering::Acquire))?;
        Some(Duration::from_millis(closed))
    }

    /// Forbids all writes from now on.
    pub fn close(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Allows writes until this time.
    fn open_until(&self, until: Instant) {
        self.0.store(millis(until), Ordering::Release);
    }
}

fn millis(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(*START).as_millis()).unwrap_or(u64::MAX)
}

/// A lease, and our own identity.
pub struct Lease {
    /// Without the fence: the lease is written even while other writes are forbidden.
    cluster: Cluster,
    fence: Arc<Fence>,
    id: ObjectId,
    identity: String,
    /// The last observed state of the lease, and when we observed its last change.
    seen: Option<SeenLease>,
}

/// The observed state of a lease.
#[derive(Clone, Debug)]
struct SeenLease {
    version: String,
    /// When we first observed this version.
    at: Instant,
    duration: Duration,
}

fn holder(lease: &Value) -> &str {
    lease.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default()
}

/// How a lease was lost.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Its new holder.
    #[error("the lease was taken by {0}")]
    Taken(String),
    /// For how many seconds.
    #[error("the lease was not renewed for {0} seconds")]
    NotRenewed(u64),
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Attempt {
    Held,
    Other(String),
}

impl Lease {
    /// Creates the client of a lease with this name.
    pub fn new(cluster: &Cluster, namespace: &str, name: &str, identity: String) -> Self {
        let id = ObjectId { gvk: Resource::leases().gvk, namespace: Some(namespace.into()), name: name.into() };
        Self { fence: cluster.fence(), cluster: cluster.unfenced(), id, identity, seen: None }
    }

    /// Waits until this instance leads. Returns `false` if it was cancelled before.
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
                Err(error) => tracing::warn!(error = error.whole(), "the lease cannot be taken"),
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                () = self.wait() => {}
            }
        }
    }

    /// Waits until another attempt makes sense: the lease was released, or no instance has renewed it for its duration.
    /// A watch reports the former at once. Without a watch, the lease is checked from time to time.
    async fn wait(&mut self) {
        tokio::time::sleep(PAUSE).await;
        let Some(seen) = self.seen.clone() else { return tokio::time::sleep(RETRY).await };
        let kind = ApiResource::erase::<k8s_openapi::api::coordination::v1::Lease>(&());
        let namespace = self.id.namespace.as_deref().unwrap_or_default();
        let api: Api<DynamicObject> = Api::namespaced_with(self.cluster.client(), namespace, &kind);
        let params = WatchParams::default().fields(&format!("metadata.name={}", self.id.name)).disable_bookmarks();
        let expires = |seen: &SeenLease| tokio::time::Instant::from_std(seen.at + seen.duration + PAUSE);
        let mut expiry = expires(&seen);
        let opening = tokio::time::timeout_at(expiry, api.watch(&params, &seen.version)).await;
        let mut events = match opening {
            Ok(Ok(events)) => events.boxed(),
            Ok(Err(_)) => return tokio::time::sleep(RETRY).await,
            Err(_) => return,
        };
        loop {
            match tokio::time::timeout_at(expiry, events.next()).await {
                Ok(Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease)))) => {
                    let Ok(lease) = serde_json::to_value(lease) else { return };
                    if holder(&lease).is_empty() {
                        return;
                    }
                    expiry = expires(self.see(&lease));
                }
                // No instance has renewed the lease, or it was deleted.
                Err(_) | Ok(Some(Ok(WatchEvent::Deleted(_)))) => return,
                Ok(_) => return tokio::time::sleep(RETRY).await,
            }
        }
    }

    /// Renews the lease until cancelled, then releases it. Returns early if the lease is lost: then the process must
    /// stop at once.
    pub async fn hold(&mut self, stop: &CancellationToken) -> Result<(), LeaseError> {
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
                Ok(Ok(Attempt::Other(holder))) => return Err(LeaseError::Taken(holder)),
                Ok(Err(error)) => tracing::warn!(error = error.whole(), "the lease was not renewed"),
                Err(_) => tracing::warn!("the lease was not renewed in time"),
            }
            if renewed.elapsed() > RENEW_DEADLINE {
                return Err(LeaseError::NotRenewed(renewed.elapsed().as_secs()));
            }
        }
    }

    async fn attempt(&mut self) -> Result<Attempt, ApiError> {
        // The time before the request counts, since the answer may arrive long after the API server's write.
        let began = Instant::now();
        let attempt = self.try_once().await;
        if matches!(attempt, Ok(Attempt::Held)) {
            self.fence.open_until(began + RENEW_DEADLINE);
        }
        attempt
    }

    async fn try_once(&mut self) -> Result<Attempt, ApiError> {
        let resource = Resource::leases();
        let Some(lease) = self.cluster.get(&resource, &self.id).await? else {
            let body = self.body(None, 0);
            return match self.cluster.create(&resource, &self.id, &body, Returned::Metadata).await {
                Ok(_) => Ok(Attempt::Held),
                Err(e) if e.is_conflict() => Ok(Attempt::Other("another instance".to_owned())),
                Err(e) => Err(e),
            };
        };
        let holder = holder(&lease).to_owned();
        if holder != self.identity && !holder.is_empty() && !self.is_expired(&lease) {
            return Ok(Attempt::Other(holder));
        }
        let transitions = lease.pointer("/spec/leaseTransitions").and_then(Value::as_i64).unwrap_or(0);
        let changed = i64::from(holder != self.identity);
        let body = self.body(Some(&lease), transitions + changed);
        match self.cluster.merge::<Value>(&resource, &self.id, &body, None).await {
            Ok(_) => Ok(Attempt::Held),
            // Another instance has written in between. The next attempt reads the lease again.
            Err(e) if e.is_conflict() => Ok(Attempt::Other(holder)),
            Err(e) => Err(e),
        }
    }

    /// Whether no instance has renewed the lease for its duration since we first observed this version.
    fn is_expired(&mut self, lease: &Value) -> bool {
        let seen = self.see(lease);
        seen.at.elapsed() > seen.duration
    }

    /// Stores the state of the lease, and when it was first observed.
    fn see(&mut self, lease: &Value) -> &SeenLease {
        let version = lease.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        let seconds = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64);
        let duration = seconds.map_or(LEASE, Duration::from_secs);
        let old = self.seen.take().filter(|seen| seen.version == version);
        self.seen.insert(old.unwrap_or_else(|| SeenLease { version: version.to_owned(), at: Instant::now(), duration }))
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

    /// Releases the lease, so that the next instance can start at once.
    async fn release(&self) {
        let resource = Resource::leases();
        let Ok(Some(lease)) = self.cluster.get(&resource, &self.id).await else { return };
        if lease.pointer("/spec/holderIdentity").and_then(Value::as_str) != Some(&self.identity) {
            return;
        }
        let mut body = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}, "metadata": {}});
        body["metadata"]["resourceVersion"] = lease["metadata"]["resourceVersion"].clone();
        if let Err(error) = self.cluster.merge::<Value>(&resource, &self.id, &body, None).await {
            tracing::debug!(error = error.whole(), "the lease could not be given up");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Fence;
    use std::time::{Duration, Instant};

    /// A8.
    #[test]
    fn a_fence_is_open_without_a_lease_and_else_as_long_as_the_last_renewal_holds() {
        let fence = Fence::default();
        assert!(fence.is_open());
        fence.open_until(Instant::now() + Duration::from_secs(3600));
        assert!(fence.is_open());
        fence.open_until(Instant::now());
        assert!(!fence.is_open());
    }
}

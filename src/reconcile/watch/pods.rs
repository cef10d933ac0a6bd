//! Finds out from the pods why a workload is not ready. While a release has an unhealthy workload, the pods of the
//! first such workload are watched. This takes one list and one watch with the workload's selector, and nothing for
//! releases that are ready.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Api;
use kube::core::{ApiResource, DynamicObject};
use tokio_util::sync::CancellationToken;

use crate::cluster::cache::ReleaseKey;
use crate::cluster::readiness::pod_reason;
use crate::cluster::watch::{Sink, watch};
use crate::mask::Text;
use crate::object::ObjectId;
use crate::reconcile::shared::Shared;
use crate::release::live::{Health, Live};

/// The maximum number of watches of pods. For workloads beyond it, the status shows only the workload's own message.
const MAX: usize = 64;

/// The watches of pods.
pub struct Pods {
    watched: Arc<WatchedPods>,
    shared: Arc<Shared>,
}

/// The watched workloads, by release.
#[derive(Default)]
struct WatchedPods(Mutex<HashMap<ReleaseKey, Watched>>);

/// The workload of a release whose pods are being watched.
struct Watched {
    id: ObjectId,
    uid: Box<str>,
    /// `pod NAME REASON: MESSAGE`.
    reason: Option<Text>,
    stop: CancellationToken,
}

impl Pods {
    /// Starts without watches.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { watched: Arc::default(), shared }
    }

    /// Replaces the message of the first unhealthy workload by the reason that its pods report. Makes sure that these
    /// pods are watched, and no other pods of this release. When the pods report something new, the release gets a
    /// pass.
    pub fn explain(
        &self,
        key: &ReleaseKey,
        objects: &mut BTreeMap<ObjectId, Option<Health>>,
        live: &BTreeMap<ObjectId, Live>,
    ) {
        let first = |failed: bool| {
            let fits = |health: &Health| matches!(health, Health::Failed(_)) == failed && !health.is_ready();
            let has_pods = |id: &ObjectId| live.get(id).is_some_and(|l| l.pods.is_some() && !l.deleting);
            objects.iter().find(|(id, h)| h.as_ref().is_some_and(fits) && has_pods(id)).map(|(id, _)| id.clone())
        };
        let Some(id) = first(true).or_else(|| first(false)) else { return self.forget(key) };
        let Some(reason) = self.reason(key, &id, &live[&id]) else { return };
        if let Some(Some(Health::Failed(message) | Health::Progressing(message))) = objects.get_mut(&id) {
            *message = reason;
        }
    }

    /// Ends the watch of this release.
    pub fn forget(&self, key: &ReleaseKey) {
        if let Some(watched) = self.watched.lock().remove(key) {
            watched.stop.cancel();
        }
    }

    fn reason(&self, key: &ReleaseKey, id: &ObjectId, live: &Live) -> Option<Text> {
        let mut all = self.watched.lock();
        if let Some(watched) = all.get(key) {
            if watched.id == *id && watched.uid == live.uid {
                return watched.reason.clone();
            }
            watched.stop.cancel();
            all.remove(key);
        }
        let (Some(namespace), Some(selector)) = (id.namespace.clone(), live.pods.clone()) else { return None };
        if all.len() >= MAX {
            return None;
        }
        let stop = self.shared.tasks.stop().child_token();
        let watched = Watched { id: id.clone(), uid: live.uid.clone(), reason: None, stop: stop.clone() };
        all.insert(key.clone(), watched);
        drop(all);
        let shared = Arc::clone(&self.shared);
        let mut sink = PodSink {
            key: key.clone(),
            shared: Arc::clone(&shared),
            watched: Arc::clone(&self.watched),
            stop: stop.clone(),
            reasons: BTreeMap::new(),
            complete: false,
        };
        self.shared.tasks.spawn("watch of pods", async move {
            let pods = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
            let api: Api<DynamicObject> = Api::namespaced_with(shared.cluster.client(), &namespace, &pods);
            watch(api, Some(&selector), shared.manner(), &mut sink, &stop).await;
        });
        None
    }
}

impl WatchedPods {
    /// Stores the current reason of the pods. Returns whether it is new.
    fn enter(&self, key: &ReleaseKey, watch: &CancellationToken, reason: Option<Text>) -> bool {
        match self.lock().get_mut(key).filter(|_| !watch.is_cancelled()) {
            Some(watched) if watched.reason != reason => {
                watched.reason = reason;
                true
            }
            _ => false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ReleaseKey, Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct PodSink {
    key: ReleaseKey,
    shared: Arc<Shared>,
    watched: Arc<WatchedPods>,
    stop: CancellationToken,
    /// The reasons of the pods that are not ready, by name.
    reasons: BTreeMap<String, Text>,
    complete: bool,
}

impl PodSink {
    fn request_pass(&self) {
        if !self.complete {
            return;
        }
        let first =
            self.reasons.iter().next().map(|(name, reason)| Text::own(format!("pod {name} ")).and(reason.clone()));
        if self.watched.enter(&self.key, &self.stop, first) {
            self.shared.queue.add(self.key.clone());
        }
    }
}

impl Sink<DynamicObject> for PodSink {
    fn begin(&mut self) {
        self.reasons.clear();
        self.complete = false;
    }

    fn put(&mut self, pod: DynamicObject, _listed: bool) {
        let Some(name) = pod.metadata.name.clone() else { return };
        let reason = serde_json::to_value(pod).ok().as_ref().and_then(pod_reason);
        let old = self.reasons.remove(&name);
        if let Some(reason) = steady(old, reason) {
            self.reasons.insert(name, reason);
        }
        self.request_pass();
    }

    fn remove(&mut self, pod: DynamicObject) {
        if let Some(name) = pod.metadata.name {
            self.reasons.remove(&name);
        }
        self.request_pass();
    }

    fn complete(&mut self) {
        self.complete = true;
        self.request_pass();
    }

    /// Not every role may list pods. Without that, the status shows the workload's own message.
    fn blind(&mut self, why: String) {
        tracing::info!(name = %self.key.name, namespace = %self.key.namespace, %why, "pods cannot be watched");
        self.stop.cancel();
    }
}

/// A pod in back-off alternates between running, failing and back-off for ever. This counts as one reason, not three.
fn steady(old: Option<Text>, new: Option<Text>) -> Option<Text> {
    match (old, new) {
        (Some(old), Some(new)) if is_back_off(&old) && !is_back_off(&new) => Some(old),
        (_, new) => new,
    }
}

fn is_back_off(reason: &Text) -> bool {
    reason.beginning().split(':').next().is_some_and(|r| r.ends_with("BackOff"))
}

#[cfg(test)]
mod tests {
    use super::steady;
    use crate::mask::Text;

    #[test]
    fn a_pod_in_back_off_stays_so_until_it_is_ready() {
        let some = |s: &str| Some(Text::own(s));
        let table = [
            (None, some("ErrImagePull: x"), some("ErrImagePull: x")),
            (some("ErrImagePull: x"), some("ImagePullBackOff: y"), some("ImagePullBackOff: y")),
            (some("ImagePullBackOff: y"), some("ErrImagePull: x"), some("ImagePullBackOff: y")),
            (some("CrashLoopBackOff: y"), some("Error: 1"), some("CrashLoopBackOff: y")),
            (some("CrashLoopBackOff: y"), None, None),
        ];
        for (old, new, expected) in table {
            assert_eq!(steady(old.clone(), new.clone()), expected, "{old:?} {new:?}");
        }
    }
}

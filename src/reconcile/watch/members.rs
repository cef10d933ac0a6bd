//! Watches of the objects that belong to stateful sets with members. They only trigger passes: a pass reads the objects
//! from the API server itself.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Api;
use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::cluster::cache::ReleaseKey;
use crate::cluster::watch::{Sink, watch};
use crate::mask::Text;
use crate::object::conditions::Conditions;
use crate::reconcile::members::read::{claim, pod, text};
use crate::reconcile::panics::caught;
use crate::reconcile::shared::Shared;
use crate::release::digest::Hasher;

/// The time until the next pass over members at rest after their check has panicked.
const AFTER_PANIC: Duration = Duration::from_secs(60);

/// The watches that trigger passes over stateful sets with members.
pub struct MemberWatches {
    watched: Mutex<HashMap<ReleaseKey, BTreeMap<Box<str>, CancellationToken>>>,
    shared: Arc<Shared>,
}

impl MemberWatches {
    /// Starts without watches.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { watched: Mutex::default(), shared }
    }

    /// Makes sure that the pods and claims of a release are watched, and the objects that its driver creates: `made`
    /// has their kind, and the label whose value is the name of the release.
    pub fn ensure(
        &self,
        key: &ReleaseKey,
        release: &str,
        namespace: &Arc<str>,
        selector: &str,
        made: Option<(ApiResource, &str)>,
    ) {
        let mut all = self.lock();
        let watched = all.entry(key.clone()).or_default();
        let pods = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
        let claims = ApiResource::erase::<k8s_openapi::api::core::v1::PersistentVolumeClaim>(&());
        let made = made.map(|(kind, label)| (kind, format!("{label}={release}")));
        let made = made.as_ref().map(|(kind, selector)| (kind.clone(), selector.as_str()));
        for (kind, selector) in [(pods, selector), (claims, selector)].into_iter().chain(made) {
            let name = format!("{} {selector}", kind.plural).into_boxed_str();
            if watched.contains_key(&name) {
                continue;
            }
            let stop = self.shared.tasks.stop().child_token();
            watched.insert(name, stop.clone());
            let mut sink = MemberSink {
                key: key.clone(),
                shared: Arc::clone(&self.shared),
                stop: stop.clone(),
                seen: HashMap::new(),
            };
            let (namespace, selector, shared) = (Arc::clone(namespace), selector.to_owned(), Arc::clone(&self.shared));
            self.shared.tasks.spawn("watch of members", async move {
                let api: Api<DynamicObject> = Api::namespaced_with(shared.cluster.client(), &namespace, &kind);
                watch(api, Some(&selector), shared.manner(), &mut sink, &stop).await;
            });
        }
    }

    /// Checks a stateful set at rest until the next pass over it: when `trouble` ends, something is wrong, and the
    /// release gets a pass.
    pub fn attend(&self, key: &ReleaseKey, set: &str, trouble: impl Future<Output = ()> + Send + 'static) {
        let stop = self.shared.tasks.stop().child_token();
        let old = self.lock().entry(key.clone()).or_default().insert(attended(set), stop.clone());
        old.inspect(CancellationToken::cancel);
        let (key, shared) = (key.clone(), Arc::clone(&self.shared));
        self.shared.tasks.spawn("look at members", async move {
            // A panic caused by the answer of a member must not end the operator.
            let trouble = async {
                if caught(trouble).await.is_err() {
                    tokio::time::sleep(AFTER_PANIC).await;
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = trouble => shared.queue.add(key),
            }
        });
    }

    /// Ends the check, since a pass observes the set itself.
    pub fn leave(&self, key: &ReleaseKey, set: &str) {
        let old = self.lock().get_mut(key).and_then(|watched| watched.remove(&attended(set)));
        old.inspect(CancellationToken::cancel);
    }

    /// Ends all watches and checks of this release.
    pub fn forget(&self, key: &ReleaseKey) {
        for stop in self.lock().remove(key).unwrap_or_default().into_values() {
            stop.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ReleaseKey, BTreeMap<Box<str>, CancellationToken>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name under which the check of a stateful set at rest is stored. No plural of a kind contains a space.
fn attended(set: &str) -> Box<str> {
    format!("at rest {set}").into()
}

struct MemberSink {
    key: ReleaseKey,
    shared: Arc<Shared>,
    stop: CancellationToken,
    /// Digest of the relevant content, by name.
    seen: HashMap<String, String>,
}

impl MemberSink {
    fn request_pass(&self) {
        if !self.stop.is_cancelled() {
            self.shared.queue.add(self.key.clone());
        }
    }
}

/// The digest of the fields that a pass would see of a pod, a claim, a Job or the `ConfigMap` of a driver.
fn digest(object: &Value) -> String {
    let mut hasher = Hasher::default();
    for condition in Conditions::of_object(object).iter() {
        hasher.text(condition.name()).text(condition.status());
    }
    let (what, size) = (pod(object, Text::whole), claim(object, "").size);
    hasher.text(format!("{what:?} {size:?} {:?}", text(object, "/status/phase")));
    hasher.json(object.get("data").unwrap_or(&Value::Null));
    hasher.finish_short(16)
}

impl Sink<DynamicObject> for MemberSink {
    fn begin(&mut self) {
        self.seen.clear();
    }

    fn put(&mut self, object: DynamicObject, listed: bool) {
        let Some(name) = object.metadata.name.clone() else { return };
        let digest = serde_json::to_value(object).map(|object| digest(&object)).unwrap_or_default();
        let same = self.seen.insert(name, digest.clone()).is_some_and(|old| old == digest);
        if !listed && !same {
            self.request_pass();
        }
    }

    fn remove(&mut self, object: DynamicObject) {
        if let Some(name) = object.metadata.name {
            self.seen.remove(&name);
        }
        self.request_pass();
    }

    /// Changes between the pass's own observation and this list cause no event.
    fn complete(&mut self) {
        self.request_pass();
    }

    fn blind(&mut self, why: String) {
        tracing::warn!(name = %self.key.name, namespace = %self.key.namespace, %why, "members cannot be watched");
    }
}

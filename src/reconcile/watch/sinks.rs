//! The sinks of the watches. They write what the watches see into the cache, and add releases that need a pass to the
//! queue.

use crate::names;
use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::core::{DynamicObject, PartialObjectMeta};

use crate::cluster::cache::{Cache, ReleaseKey, WatchKey, summary};
use crate::cluster::chunks::SecretName;
use crate::cluster::cr::{Cr, CrObject};
use crate::cluster::watch::Sink;
use crate::kind::allow::Allow;
use crate::object::ObjectId;
use crate::reconcile::kinds::Kinds;
use crate::reconcile::memory::waits::Waits;
use crate::reconcile::notices::touched::Touched;
use crate::reconcile::queue::Queue;
use crate::reconcile::scope::Scope;
use crate::reconcile::shared::Shared;
use crate::release::chunks;
use crate::release::live::LiveChange;
use crate::release::secret::Revision;
use crate::telemetry::metrics::Metrics;

/// The sink of objects of releases.
pub struct ObjectSink {
    watch: WatchKey,
    cache: Arc<Cache>,
    queue: Arc<Queue>,
    seen: HashSet<ObjectId>,
    since: u64,
    /// A kind may have it that a changed object starts no pass if its release is at rest (`watchDependentResources: false`). A change
    /// of its health is still reported.
    kinds: Arc<Kinds>,
    waits: Arc<Waits>,
}

impl ObjectSink {
    /// The sink of one watch.
    pub fn new(watch: WatchKey, shared: &Shared) -> Self {
        let (cache, queue) = (Arc::clone(&shared.cache), Arc::clone(&shared.queue));
        let (kinds, waits) = (Arc::clone(&shared.kinds), Arc::clone(&shared.waits));
        Self { watch, cache, queue, seen: HashSet::new(), since: 0, kinds, waits }
    }

    fn add_all(&self, keys: Vec<ReleaseKey>) {
        let is_deaf = |key: &ReleaseKey| !self.kinds.get(key.kind).kind.watch_dependents && self.cache.is_deployed(key);
        self.queue.add_all(keys.into_iter().filter(|key| !is_deaf(key)));
    }
}

impl Sink<DynamicObject> for ObjectSink {
    fn begin(&mut self) {
        self.seen.clear();
        self.since = self.cache.clock();
    }

    fn put(&mut self, object: DynamicObject, listed: bool) {
        let Some(name) = object.metadata.name.as_deref() else { return };
        let namespace = object.metadata.namespace.as_deref().filter(|n| !n.is_empty()).map(Into::into);
        let id = ObjectId { gvk: self.watch.0.clone(), namespace, name: name.into() };
        let known = self.cache.is_known(&id, &object.metadata);
        if listed {
            self.seen.insert(id);
        }
        if known {
            return;
        }
        let Ok(object) = serde_json::to_value(object) else { return };
        let (keys, change) = self.cache.put_object(&self.watch.0, &object);
        match change {
            LiveChange::Health => self.queue.add_all(keys),
            LiveChange::None | LiveChange::Content => self.add_all(keys),
        }
    }

    fn remove(&mut self, object: DynamicObject) {
        let Ok(object) = serde_json::to_value(object) else { return };
        if let Some((id, live)) = summary(&self.watch.0, &object) {
            self.add_all(self.cache.remove_object(&id, Some(&live.uid), live.resource_version, &object));
            self.queue.add_all(self.waits.free(&id));
        }
    }

    fn complete(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        self.queue.add_all(self.cache.sync_objects(&self.watch, &seen, self.since));
    }

    fn blind(&mut self, why: String) {
        tracing::warn!(kind = %self.watch.0, %why, "objects cannot be watched");
        self.queue.add_all(self.cache.set_blind(&self.watch, &why));
    }
}

/// The sink of release records.
pub struct HistorySink {
    scope: Option<Arc<str>>,
    cache: Arc<Cache>,
    queue: Arc<Queue>,
    seen: HashSet<(Arc<str>, Arc<str>, u64)>,
    seen_chunks: HashSet<SecretName>,
    since: u64,
    chunks_since: u64,
    /// Notified when the list is complete.
    synced: Arc<tokio::sync::Notify>,
}

impl HistorySink {
    /// The sink for one namespace, or for all of them.
    pub fn new(
        scope: Option<Arc<str>>,
        cache: Arc<Cache>,
        queue: Arc<Queue>,
        synced: Arc<tokio::sync::Notify>,
    ) -> Self {
        Self {
            scope,
            cache,
            queue,
            seen: HashSet::new(),
            seen_chunks: HashSet::new(),
            since: 0,
            chunks_since: 0,
            synced,
        }
    }
}

/// The part of a release that a Secret contains.
enum Part {
    Revision(Arc<str>, Box<Revision>),
    /// A chunk of a record of this release, with its name and digest.
    Chunk(Arc<str>, String, String),
}

fn part(object: &PartialObjectMeta<Secret>) -> Option<(Arc<str>, Part)> {
    let namespace = object.metadata.namespace.as_deref()?.into();
    let metadata = serde_json::to_value(&object.metadata).ok()?;
    if let Some((release, name, digest)) = chunks::read(&metadata) {
        return Some((namespace, Part::Chunk(release.into(), name.to_owned(), digest.to_owned())));
    }
    let (name, revision) = Revision::read(&metadata)?;
    Some((namespace, Part::Revision(name.into(), Box::new(revision))))
}

impl Sink<PartialObjectMeta<Secret>> for HistorySink {
    fn begin(&mut self) {
        self.seen.clear();
        self.seen_chunks.clear();
        self.since = self.cache.clock();
        self.chunks_since = self.cache.chunks.clock();
    }

    fn put(&mut self, object: PartialObjectMeta<Secret>, listed: bool) {
        match part(&object) {
            Some((namespace, Part::Revision(name, revision))) => {
                if listed {
                    self.seen.insert((Arc::clone(&namespace), Arc::clone(&name), revision.revision));
                }
                self.queue.add_all(self.cache.put_revision(&namespace, &name, *revision));
            }
            Some((namespace, Part::Chunk(release, name, digest))) => {
                if listed {
                    self.seen_chunks.insert((Arc::clone(&namespace), name.as_str().into()));
                }
                self.cache.chunks.put(&namespace, &release, &name, &digest);
            }
            None => {}
        }
    }

    fn remove(&mut self, object: PartialObjectMeta<Secret>) {
        match part(&object) {
            Some((namespace, Part::Revision(name, revision))) => {
                let keys = self.cache.remove_revision(&namespace, &name, revision.revision, Some(&revision));
                self.queue.add_all(keys);
            }
            Some((namespace, Part::Chunk(release, name, _))) => self.cache.chunks.remove(&namespace, &release, &name),
            None => {}
        }
    }

    fn complete(&mut self) {
        let (seen, chunks) = (std::mem::take(&mut self.seen), std::mem::take(&mut self.seen_chunks));
        self.cache.chunks.sync(self.scope.as_ref(), &chunks, self.chunks_since);
        self.queue.add_all(self.cache.sync_history(self.scope.clone(), &seen, self.since));
        self.synced.notify_waiters();
    }

    fn blind(&mut self, why: String) {
        tracing::warn!(%why, "release records cannot be watched");
        self.queue.add_all(self.cache.set_history_blind(self.scope.clone(), &why));
    }
}

/// The annotation of a chart that names the annotation with the scope of a custom resource.
const SCOPE: &str = names::SCOPE;

/// The sink of the custom resources of one kind.
pub struct CrSink {
    kind: usize,
    name: String,
    scope: Option<Arc<str>>,
    cache: Arc<Cache>,
    queue: Arc<Queue>,
    seen: HashSet<ReleaseKey>,
    metrics: Arc<Metrics>,
    synced: Arc<tokio::sync::Notify>,
    scope_of: Scope,
    allow: Allow,
    /// The annotation with the scope of a custom resource.
    scope_annotation: Option<String>,
    /// Signals a roll-out, if the kind has one.
    rollout: Option<Arc<tokio::sync::Notify>>,
    touched: Arc<Touched>,
}

impl CrSink {
    /// The sink for one kind, in one namespace or all of them.
    pub fn new(kind: usize, scope: Option<Arc<str>>, shared: &Shared, synced: Arc<tokio::sync::Notify>) -> Self {
        let served = shared.kinds.get(kind);
        let chart = served.chart().ok();
        Self {
            kind,
            name: served.gvk().to_string(),
            scope,
            cache: Arc::clone(&shared.cache),
            queue: Arc::clone(&shared.queue),
            seen: HashSet::new(),
            metrics: Arc::clone(&shared.metrics),
            synced,
            scope_of: shared.scope,
            allow: served.kind.allow.clone(),
            scope_annotation: chart.and_then(|chart| chart.chart.metadata.annotation(SCOPE).map(str::to_owned)),
            rollout: served.kind.rollout.is_some().then(|| Arc::clone(&shared.rollouts)),
            touched: Arc::clone(&shared.touched),
        }
    }

    fn tell_rollout(&self) {
        if let Some(rollout) = &self.rollout {
            rollout.notify_one();
        }
    }

    fn key(&self, object: &CrObject) -> Option<ReleaseKey> {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default().into();
        Some(ReleaseKey { kind: self.kind, namespace, name: object.metadata.name.as_deref()?.into() })
    }
}

impl Sink<CrObject> for CrSink {
    fn begin(&mut self) {
        self.seen.clear();
    }

    fn put(&mut self, object: CrObject, listed: bool) {
        let Some(key) = self.key(&object) else { return };
        let Some(cr) = Cr::read(object, &self.allow) else { return };
        if let Some(annotation) = &self.scope_annotation
            && !self.scope_of.has(cr.annotations.get(annotation.as_str()).map(|said| &**said))
        {
            self.cache.remove_cr(&key, Some(&cr.uid), cr.resource_version);
            self.touched.touch(&key);
            self.queue.add_all(self.cache.users(&key));
            return;
        }
        if listed {
            self.seen.insert(key.clone());
        }
        let (concerns, users) = self.cache.put_cr(key.clone(), cr);
        self.touched.touch(&key);
        self.queue.add_all(users);
        if concerns {
            self.queue.add(key);
        }
        self.tell_rollout();
    }

    fn remove(&mut self, object: CrObject) {
        if let Some(key) = self.key(&object) {
            let (namespace, release) = self.cache.release_of(&key);
            let version = object.metadata.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0);
            self.cache.remove_cr(&key, object.metadata.uid.as_deref(), version);
            self.touched.touch(&key);
            // Another custom resource may have waited for the name of this release.
            self.queue.add_all(self.cache.keys_of_release_named(&namespace, &release));
            self.tell_rollout();
            self.queue.add_all(self.cache.users(&key));
        }
    }

    fn complete(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        let gone = self.cache.keys_of(self.kind).into_iter().filter(|key| !seen.contains(key));
        let gone: Vec<ReleaseKey> =
            gone.filter(|key| self.scope.as_ref().is_none_or(|scope| *scope == key.namespace)).collect();
        self.cache.sync_crs(self.kind, self.scope.clone(), &seen);
        for key in &gone {
            self.touched.touch(key);
        }
        self.touched.complete();
        self.queue.add_all(self.cache.keys_of(self.kind));
        self.tell_rollout();
        self.queue.add_all(self.cache.users_of_kind(self.kind));
        self.synced.notify_waiters();
    }

    fn blind(&mut self, why: String) {
        tracing::error!(kind = %self.name, %why, "custom resources cannot be watched");
        self.metrics.failed(&self.name, "Forbidden");
    }
}

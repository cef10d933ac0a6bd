//! The sources of releases, which are objects with values and objects that templates look up: their versions, and the
//! releases that use them. Only a pass reads their content (docs/design/applying.md A4).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::core::{ObjectMeta, PartialObjectMeta};

use super::cache::{ReleaseKey, WatchKey};
use super::watch::Sink;
use crate::object::ObjectId;

/// The known state of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
    /// The watch is not complete yet.
    Unknown,
    /// It cannot be watched, for this reason.
    Blind(String),
    /// It does not exist.
    Missing,
    /// uid and resourceVersion.
    Is(Box<str>),
}

#[derive(Default)]
struct Inner {
    versions: HashMap<ObjectId, Box<str>>,
    users: HashMap<ObjectId, BTreeSet<ReleaseKey>>,
    used: HashMap<ReleaseKey, Vec<ObjectId>>,
    synced: HashSet<WatchKey>,
    blind: HashMap<WatchKey, String>,
}

/// All sources.
#[derive(Default)]
pub struct Sources {
    inner: Mutex<Inner>,
}

impl Sources {
    /// Sets the sources that a release uses.
    pub fn set_used(&self, key: &ReleaseKey, ids: Vec<ObjectId>) {
        let mut inner = self.lock();
        if inner.used.get(key).map_or(&[][..], Vec::as_slice) == ids {
            return;
        }
        for id in inner.used.remove(key).into_iter().flatten() {
            if let Some(users) = inner.users.get_mut(&id) {
                users.remove(key);
                if users.is_empty() {
                    inner.users.remove(&id);
                }
            }
        }
        for id in &ids {
            inner.users.entry(id.clone()).or_default().insert(key.clone());
        }
        if !ids.is_empty() {
            inner.used.insert(key.clone(), ids);
        }
    }

    /// Adds sources that a release uses.
    pub fn add_used(&self, key: &ReleaseKey, ids: &BTreeSet<ObjectId>) {
        let known = self.lock().used.get(key).cloned().unwrap_or_default();
        if !ids.iter().all(|id| known.contains(id)) {
            self.set_used(key, known.into_iter().collect::<BTreeSet<_>>().union(ids).cloned().collect());
        }
    }

    /// The version of a source that a watch sees.
    pub fn version(&self, id: &ObjectId, watch: &WatchKey) -> Version {
        let inner = self.lock();
        if let Some(why) = inner.blind.get(watch) {
            return Version::Blind(why.clone());
        }
        match inner.versions.get(id) {
            _ if !inner.synced.contains(watch) => Version::Unknown,
            Some(version) => Version::Is(version.clone()),
            None => Version::Missing,
        }
    }

    fn put(&self, id: ObjectId, version: Option<&str>) -> Vec<ReleaseKey> {
        let mut inner = self.lock();
        let users = inner.users.get(&id).into_iter().flatten().cloned().collect();
        let old = match &version {
            Some(version) => inner.versions.insert(id, (*version).into()),
            None => inner.versions.remove(&id),
        };
        if old.as_deref() == version { Vec::new() } else { users }
    }

    fn complete(&self, watch: &WatchKey, seen: &HashSet<ObjectId>) -> Vec<ReleaseKey> {
        let mut inner = self.lock();
        inner.versions.retain(|id, _| !is_in(watch, id) || seen.contains(id));
        inner.blind.remove(watch);
        inner.synced.insert(watch.clone());
        inner.users.iter().filter(|(id, _)| is_in(watch, id)).flat_map(|(_, keys)| keys).cloned().collect()
    }

    /// Whether a release uses a source that this watch sees.
    pub fn is_used(&self, watch: &WatchKey) -> bool {
        self.lock().users.keys().any(|id| is_in(watch, id))
    }

    /// Drops what is known from a watch that has ended because no release uses its objects.
    pub fn unwatch(&self, watch: &WatchKey) {
        let mut inner = self.lock();
        inner.synced.remove(watch);
        inner.blind.remove(watch);
        inner.versions.retain(|id, _| !is_in(watch, id));
    }

    /// Enters that a watch cannot see its objects, for this reason.
    pub fn set_blind(&self, watch: &WatchKey, why: &str) -> Vec<ReleaseKey> {
        let mut inner = self.lock();
        if inner.blind.insert(watch.clone(), why.to_owned()).is_some_and(|old| old == why) {
            return Vec::new();
        }
        tracing::warn!(kind = %watch.0, %why, "cannot watch the sources of releases");
        inner.users.iter().filter(|(id, _)| is_in(watch, id)).flat_map(|(_, keys)| keys).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_in(watch: &WatchKey, id: &ObjectId) -> bool {
    id.gvk == watch.0 && (watch.1.is_none() || id.namespace == watch.1)
}

/// Enters what one watch sees, and passes on the releases that need a pass.
pub struct SourceSink<F> {
    watch: WatchKey,
    sources: Arc<Sources>,
    seen: HashSet<ObjectId>,
    changed: F,
}

impl<F: Fn(Vec<ReleaseKey>) + Send> SourceSink<F> {
    /// The sink of one watch.
    pub fn new(watch: WatchKey, sources: Arc<Sources>, changed: F) -> Self {
        Self { watch, sources, seen: HashSet::new(), changed }
    }

    fn enter(&mut self, metadata: &ObjectMeta, exists: bool, listed: bool) {
        let Some(name) = metadata.name.as_deref() else { return };
        let namespace = metadata.namespace.as_deref().map(Into::into);
        let id = ObjectId { gvk: self.watch.0.clone(), namespace, name: name.into() };
        if listed {
            self.seen.insert(id.clone());
        }
        let text = |t: &Option<String>| t.clone().unwrap_or_default();
        let version = format!("{}/{}", text(&metadata.uid), text(&metadata.resource_version));
        (self.changed)(self.sources.put(id, exists.then_some(version.as_str())));
    }
}

impl<K, F> Sink<PartialObjectMeta<K>> for SourceSink<F>
where
    F: Fn(Vec<ReleaseKey>) + Send,
{
    fn begin(&mut self) {
        self.seen.clear();
    }

    fn put(&mut self, object: PartialObjectMeta<K>, listed: bool) {
        self.enter(&object.metadata, true, listed);
    }

    fn remove(&mut self, object: PartialObjectMeta<K>) {
        self.enter(&object.metadata, false, false);
    }

    fn complete(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        (self.changed)(self.sources.complete(&self.watch, &seen));
    }

    fn blind(&mut self, why: String) {
        (self.changed)(self.sources.set_blind(&self.watch, &why));
    }
}

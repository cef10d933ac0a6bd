//! What is known of the Secrets and `ConfigMap`s that values come from: which version there is, and who uses it. Contents are
//! read in a pass only (apply.md A4).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::core::{ObjectMeta, PartialObjectMeta};

use super::cache::ReleaseKey;
use super::watch::Sink;
use crate::kind::values_from::SourceKind;

/// A source: kind, namespace, name.
pub type SourceId = (SourceKind, Arc<str>, Arc<str>);
/// A watch of sources: kind, and the namespace or all.
pub type SourceWatch = (SourceKind, Option<Arc<str>>);

/// What is known of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
    /// The watch is not complete yet.
    Unknown,
    /// It cannot be watched, and why.
    Blind(String),
    /// It does not exist.
    Missing,
    /// uid and resourceVersion.
    Is(Box<str>),
}

#[derive(Default)]
struct Inner {
    versions: HashMap<SourceId, Box<str>>,
    users: HashMap<SourceId, BTreeSet<ReleaseKey>>,
    used: HashMap<ReleaseKey, Vec<SourceId>>,
    synced: HashSet<SourceWatch>,
    blind: HashMap<SourceWatch, String>,
}

/// All sources.
#[derive(Default)]
pub struct Sources {
    inner: Mutex<Inner>,
}

impl Sources {
    /// A release uses these sources and no others.
    pub fn set_used(&self, key: &ReleaseKey, ids: Vec<SourceId>) {
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

    /// The version of a source that a watch sees.
    pub fn version(&self, id: &SourceId, watch: &SourceWatch) -> Version {
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

    fn put(&self, id: SourceId, version: Option<&str>) -> Vec<ReleaseKey> {
        let mut inner = self.lock();
        let users = inner.users.get(&id).into_iter().flatten().cloned().collect();
        let old = match &version {
            Some(version) => inner.versions.insert(id, (*version).into()),
            None => inner.versions.remove(&id),
        };
        if old.as_deref() == version { Vec::new() } else { users }
    }

    fn complete(&self, watch: &SourceWatch, seen: &HashSet<SourceId>) -> Vec<ReleaseKey> {
        let mut inner = self.lock();
        let in_watch = |id: &SourceId| id.0 == watch.0 && watch.1.as_ref().is_none_or(|ns| id.1 == *ns);
        inner.versions.retain(|id, _| !in_watch(id) || seen.contains(id));
        inner.blind.remove(watch);
        inner.synced.insert(watch.clone());
        inner.users.iter().filter(|(id, _)| in_watch(id)).flat_map(|(_, keys)| keys).cloned().collect()
    }

    fn set_blind(&self, watch: &SourceWatch, why: &str) -> Vec<ReleaseKey> {
        let mut inner = self.lock();
        let in_watch = |id: &SourceId| id.0 == watch.0 && watch.1.as_ref().is_none_or(|ns| id.1 == *ns);
        if inner.blind.insert(watch.clone(), why.to_owned()).is_some_and(|old| old == why) {
            return Vec::new();
        }
        inner.users.iter().filter(|(id, _)| in_watch(id)).flat_map(|(_, keys)| keys).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Enters what one watch sees, and hands over the releases that deserve a pass.
pub struct SourceSink<F> {
    watch: SourceWatch,
    sources: Arc<Sources>,
    seen: HashSet<SourceId>,
    changed: F,
}

impl<F: Fn(Vec<ReleaseKey>) + Send> SourceSink<F> {
    /// For one watch.
    pub fn new(watch: SourceWatch, sources: Arc<Sources>, changed: F) -> Self {
        Self { watch, sources, seen: HashSet::new(), changed }
    }

    fn enter(&mut self, metadata: &ObjectMeta, exists: bool, listed: bool) {
        let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else { return };
        let id = (self.watch.0, Arc::from(namespace.as_str()), Arc::from(name.as_str()));
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
        tracing::warn!(kind = %self.watch.0, %why, "sources of values cannot be watched");
        (self.changed)(self.sources.set_blind(&self.watch, &why));
    }
}

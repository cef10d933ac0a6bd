//! What the watches observed, in as few bytes as decisions need: custom resources, the metadata of release records, and
//! a summary of each object of a release.
//!
//! # Guarantees
//! - The API server's answer to our own write enters the cache at once, and events that are older than the cached
//!   version are ignored. So no decision uses a state from before our own write (docs/design/applying.md A6).
//! - A list replaces the known content, except what was written since the list began.
//! - An answer that is older than an observed deletion does not bring the object back.
//!
//! # Assumptions
//! - resourceVersions are numbers that can be compared. API servers promise this since 1.35, and all earlier versions
//!   did it.

mod dependents;
mod objects;
mod releases;
mod shown;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::chunks::Chunks;
use super::cr::Cr;
use super::gone::Gone;
use super::readiness;
use crate::kind::switches;
use crate::release::hook_run::HookRun;
use crate::release::inventory::{Inventory, Reference};
use crate::release::live::{Live, Shown};
use crate::release::object::{Gvk, ObjectId, RESOURCE_POLICY};
use crate::release::owner::{RELEASE_NAME, RELEASE_NAMESPACE, marks};
use crate::release::record::Status;
use crate::release::secret::Revision;
use crate::release::{managers, owned};
use dependents::Dependents;
use shown::Wanted;

/// Identifies a custom resource, and its release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReleaseKey {
    /// Index of its kind.
    pub kind: usize,
    /// Its namespace; empty for a cluster-scoped one.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// A watch of objects: a kind, in one namespace or in all.
pub type WatchKey = (Gvk, Option<Arc<str>>);

/// The summary of an object, with its owner.
#[derive(Clone, Debug)]
struct Entry {
    live: Live,
    owner: Option<ReleaseKey>,
    /// When this process wrote it, by [`Inner::clock`]; 0 if only a watch has seen it.
    written: u64,
}

/// The revisions of a release by number.
type History = BTreeMap<u64, Arc<Revision>>;

#[derive(Default)]
struct Inner {
    /// The kinds of custom resources, by their numbers.
    kinds: Vec<ServedKind>,
    crs: HashMap<ReleaseKey, Arc<Cr>>,
    crs_synced: HashSet<(usize, Option<Arc<str>>)>,
    /// Custom resources with an annotation that names their release.
    named: BTreeSet<ReleaseKey>,
    /// The names of releases that have a record, by the namespace and the uid of their custom resource.
    recorded: HashMap<(Arc<str>, Box<str>), Arc<str>>,
    history: HashMap<(Arc<str>, Arc<str>), History>,
    history_written: HashMap<(Arc<str>, Arc<str>), u64>,
    history_synced: HashSet<Option<Arc<str>>>,
    history_blind: HashMap<Option<Arc<str>>, String>,
    objects: HashMap<Gvk, HashMap<ObjectId, Entry>>,
    dependents: Dependents,
    /// What the documents of releases show of objects.
    wanted: Wanted,
    by_owner: HashMap<ReleaseKey, BTreeSet<ObjectId>>,
    /// Jobs and Pods that had finished when they were deleted, by owner, with their uids.
    ended: HashMap<ReleaseKey, BTreeMap<ObjectId, Box<str>>>,
    synced: HashSet<WatchKey>,
    blind: HashMap<WatchKey, String>,
    gone: Gone,
    clock: u64,
    /// The number of changes of the cache.
    changes: u64,
}

/// A kind of custom resources that the operator serves.
struct ServedKind {
    /// `Kind.group`.
    name: String,
    /// What the names of its releases end with.
    suffix: Box<str>,
    /// It is not served any more.
    retired: bool,
}

/// The cache. Every method that can affect releases returns the keys that need a pass.
pub struct Cache {
    /// The chunks of release records.
    pub chunks: Chunks,
    inner: Mutex<Inner>,
    /// The namespaces that are watched; empty for all.
    namespaces: Vec<Arc<str>>,
}

impl Cache {
    /// An empty cache for these watched namespaces (none: all).
    pub fn new(namespaces: Vec<Arc<str>>) -> Self {
        Self { chunks: Chunks::default(), inner: Mutex::default(), namespaces }
    }

    /// Adds a kind of custom resources, whose releases have names that end so; its number, from 0.
    pub fn add_kind(&self, gvk: &Gvk, suffix: &str) -> usize {
        let mut inner = self.write();
        inner.kinds.push(ServedKind { name: gvk.kind_group(), suffix: suffix.into(), retired: false });
        inner.kinds.len() - 1
    }

    /// Forgets the custom resources of a kind that is not served any more. Its number stays.
    pub fn retire(&self, kind: usize) {
        let mut inner = self.write();
        inner.crs.retain(|key, _| key.kind != kind);
        inner.named.retain(|key| key.kind != kind);
        inner.crs_synced.retain(|(known, _)| *known != kind);
        inner.kinds[kind].retired = true;
    }

    /// Serves a kind again, or with another suffix.
    pub fn revive(&self, kind: usize, suffix: &str) {
        let mut inner = self.write();
        inner.kinds[kind].retired = false;
        inner.kinds[kind].suffix = suffix.into();
    }

    /// Whether a kind is not served any more.
    pub fn is_retired(&self, kind: usize) -> bool {
        self.lock().kinds[kind].retired
    }

    /// The name of a custom resource's release: the name of the existing release, or the name that a new one will get.
    pub fn release_name(&self, key: &ReleaseKey) -> Arc<str> {
        self.lock().release_name(key)
    }

    /// The name that a custom resource's release should have, if it has another one.
    pub fn other_name(&self, key: &ReleaseKey) -> Option<Arc<str>> {
        let inner = self.lock();
        let wanted = inner.wanted_name(key);
        (inner.release_name(key) != wanted).then_some(wanted)
    }

    /// The custom resources whose release has this name.
    pub fn keys_of_release_named(&self, namespace: &Arc<str>, release: &str) -> Vec<ReleaseKey> {
        self.lock().keys_named(namespace, release)
    }

    /// Whether other custom resources would give their releases this name, or may do so because not all kinds are known
    /// yet.
    pub fn has_rivals(&self, namespace: &Arc<str>, release: &str) -> bool {
        let inner = self.lock();
        let scope = (!self.namespaces.is_empty()).then(|| Arc::clone(namespace));
        let known = inner
            .kinds
            .iter()
            .enumerate()
            .all(|(kind, served)| served.retired || inner.crs_synced.contains(&(kind, scope.clone())));
        !known || inner.keys_named(namespace, release).len() > 1
    }

    /// The watch that sees objects of a namespace (`None`: objects of a cluster-scoped kind).
    pub fn watch_key(&self, gvk: &Gvk, namespace: Option<&Arc<str>>) -> WatchKey {
        let namespace = if self.namespaces.is_empty() { None } else { namespace.cloned() };
        (gvk.clone(), namespace)
    }

    /// The scopes of list and watch requests for namespaced kinds.
    pub fn scopes(&self) -> Vec<Option<Arc<str>>> {
        if self.namespaces.is_empty() { vec![None] } else { self.namespaces.iter().cloned().map(Some).collect() }
    }

    /// Locks the cache for reading.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the cache for a change.
    fn write(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.lock();
        inner.changes += 1;
        inner
    }
}

impl Inner {
    /// Whether a release is deployed and its objects are as in its newest revision.
    fn is_as_recorded(&self, key: &ReleaseKey, now: i64) -> bool {
        let history = self.history.get(&(Arc::clone(&key.namespace), self.release_name(key)));
        let Some(newest) = history.and_then(|h| h.values().last()).filter(|r| r.status == Status::Deployed) else {
            return false;
        };
        if newest.is_due(now) {
            return false;
        }
        let Some(Inventory(listed)) = &newest.inventory else { return false };
        let live = |id: &ObjectId| Some(&self.objects.get(&id.gvk)?.get(id)?.live);
        let is_hook = |id: &ObjectId| live(id).is_some_and(|live| live.hook.is_some());
        let is_there = |(id, reference): (&ObjectId, &Reference)| {
            live(id).map_or(reference.finished, |live| {
                live.uid == reference.uid
                    && (!live.finished || reference.finished)
                    && live.digest.as_ref() == Some(&reference.digest)
                    && !live.deleting
            })
        };
        listed.iter().all(is_there)
            && self.by_owner.get(key).into_iter().flatten().all(|id| listed.contains_key(id) || is_hook(id))
            && self.crs.get(key).is_some_and(|cr| !cr.deleting)
    }

    /// The custom resources whose release has this name: more than one when two kinds collide.
    fn keys_named(&self, namespace: &Arc<str>, release: &str) -> Vec<ReleaseKey> {
        let name = |suffix: &str| release.strip_suffix(suffix).filter(|name| !name.is_empty());
        let kinds = self.kinds.iter().enumerate();
        let usual = kinds.filter_map(|(kind, served)| Some((kind, name(&served.suffix)?)));
        let usual = usual.map(|(kind, name)| ReleaseKey { kind, namespace: Arc::clone(namespace), name: name.into() });
        let has = |key: &ReleaseKey| {
            self.crs.contains_key(key) && key.namespace == *namespace && *self.release_name(key) == *release
        };
        let mut keys: Vec<_> = usual.chain(self.named.iter().cloned()).filter(has).collect();
        keys.sort();
        keys.dedup();
        if keys.is_empty() {
            // The annotation was removed, and the release continues under the name that it has.
            let history = self.history.get(&(Arc::clone(namespace), release.into()));
            let uid = history.and_then(|h| h.values().last()).and_then(|newest| newest.owner_uid.as_deref());
            keys.extend(self.crs.iter().find(|(_, cr)| Some(&*cr.uid) == uid).map(|(key, _)| key.clone()).filter(has));
        }
        keys
    }

    /// The name that a custom resource's release should have.
    fn wanted_name(&self, key: &ReleaseKey) -> Arc<str> {
        let cr = self.named.get(key).and_then(|key| self.crs.get(key));
        match (
            cr.and_then(|cr| cr.annotations.get(switches::RELEASE_NAME)),
            self.kinds.get(key.kind).map_or("", |kind| &kind.suffix),
        ) {
            (Some(name), _) => name.trim().into(),
            (None, "") => Arc::clone(&key.name),
            (None, suffix) => format!("{}{suffix}", key.name).into(),
        }
    }

    /// The same, unless there is a record of the release under another name.
    fn release_name(&self, key: &ReleaseKey) -> Arc<str> {
        let wanted = self.wanted_name(key);
        let Some(cr) = self.crs.get(key) else { return wanted };
        let newest = self.history.get(&(Arc::clone(&key.namespace), Arc::clone(&wanted)));
        let newest = newest.and_then(|history| history.values().last());
        if newest.is_some_and(|newest| newest.owner_uid.as_deref() == Some(&*cr.uid)) {
            return wanted;
        }
        self.recorded.get(&(Arc::clone(&key.namespace), (&*cr.uid).into())).cloned().unwrap_or(wanted)
    }

    /// The release of an object without an owner (`keep`) is in its annotations.
    fn keys_of_release(&self, object: &Value) -> Vec<ReleaseKey> {
        let annotation = |name: &str| object.pointer("/metadata/annotations")?.get(name)?.as_str();
        match (annotation(RELEASE_NAMESPACE), annotation(RELEASE_NAME)) {
            (Some(namespace), Some(name)) => self.keys_named(&namespace.into(), name),
            _ => Vec::new(),
        }
    }

    /// Enters that an object was deleted in this version; 0 if the version is unknown.
    fn enter_gone(&mut self, uid: Option<&str>, version: u64) {
        if let Some(uid) = uid.filter(|_| version != 0) {
            self.gone.enter(uid, version);
        }
    }

    fn disown(&mut self, owner: &ReleaseKey, id: &ObjectId) {
        if let Some(ids) = self.by_owner.get_mut(owner) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_owner.remove(owner);
            }
        }
    }
}

/// The id and the summary of an object.
pub fn summary(gvk: &Gvk, object: &Value) -> Option<(ObjectId, Live)> {
    let metadata = object.get("metadata")?;
    let text = |key: &str| metadata.get(key).and_then(Value::as_str);
    let namespace = text("namespace").filter(|n| !n.is_empty()).map(Into::into);
    let id = ObjectId { gvk: gvk.clone(), namespace, name: text("name")?.into() };
    let managed = metadata.get("managedFields").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let references = metadata.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let controller = references.into_iter().find(|r| r.get("controller") == Some(&Value::Bool(true)));
    let policy = metadata.get("annotations").and_then(|a| a.get(RESOURCE_POLICY)).and_then(Value::as_str);
    let health = readiness::health(gvk, object);
    let pods = if health.is_ready() { None } else { readiness::pod_selector(gvk, object).map(Into::into) };
    let live = Live {
        uid: text("uid")?.into(),
        resource_version: text("resourceVersion")?.parse().unwrap_or(0),
        digest: owned::digest(managed, object.as_object()?).map(Into::into),
        shared: managers::needs_hand_over(managed) || !managers::scalers(managed).is_empty(),
        owner_uid: controller.and_then(|r| r.get("uid")).and_then(Value::as_str).map(Into::into),
        marks: if controller.is_none() { marks(metadata).map(Into::into) } else { None },
        kept: policy.is_some_and(|p| p.trim().eq_ignore_ascii_case("keep")),
        deleting: metadata.get("deletionTimestamp").is_some_and(|t| !t.is_null()),
        finished: readiness::is_finished(gvk, object),
        hook: HookRun::read(gvk, object).map(Box::new),
        health,
        replicas: owned::steps_replicas(metadata)
            .then(|| object.pointer("/spec/replicas").and_then(Value::as_u64))
            .flatten()
            .and_then(|n| u32::try_from(n).ok()),
        pods,
        shown: Shown { scale: readiness::scale(gvk, object).map(Box::new), fields: BTreeMap::new() },
    };
    Some((id, live))
}

mod needs;

#[cfg(test)]
mod tests;

//! The state that the watches observed, in as few bytes as decisions need: custom resources, the metadata of release
//! records, and a summary of each object of a release.
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
use crate::kind::allow::Reach;
use crate::kind::intended::{ReleaseSettings, intended_release};
use crate::kind::{Kind, switches};
use crate::object::{Gvk, ObjectId, RESOURCE_POLICY};
use crate::release::hook_run::HookRun;
use crate::release::inventory::{Inventory, Reference};
use crate::release::live::{Live, Shown};
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
    /// Custom resources whose release may have another name or be in another namespace.
    named: BTreeSet<ReleaseKey>,
    /// The releases that have a record: their names by namespace, by the uid of their custom resource.
    recorded: HashMap<Box<str>, BTreeMap<Arc<str>, Arc<str>>>,
    history: HashMap<(Arc<str>, Arc<str>), History>,
    history_written: HashMap<(Arc<str>, Arc<str>), u64>,
    history_synced: HashSet<Option<Arc<str>>>,
    history_blind: HashMap<Option<Arc<str>>, String>,
    objects: HashMap<Gvk, HashMap<ObjectId, Entry>>,
    dependents: Dependents,
    /// The parts of objects that the documents of releases show.
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
    /// How its releases are named, and where they are.
    releases: Releases,
    /// Whether its custom resources have no namespace.
    is_cluster_scoped: bool,
    /// It is no longer served.
    retired: bool,
}

/// How the releases of a kind are named, and where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Releases {
    /// The suffix of their names.
    pub suffix: Box<str>,
    /// Their namespace, if that is not the one of the custom resource.
    pub namespace: Option<Arc<str>>,
    /// Whether an annotation of a custom resource may name another namespace.
    pub may_move: bool,
}

impl Releases {
    /// Those of a kind.
    pub fn of(kind: &Kind) -> Self {
        Self {
            suffix: kind.release_suffix.clone(),
            namespace: kind.placement.target.as_deref().map(Into::into),
            may_move: kind.allow.iter().any(|reach| reach == Reach::TargetNamespace),
        }
    }
}

/// Namespace and name of a release. The namespace is empty for a cluster-scoped custom resource without a named
/// namespace.
pub type Release = (Arc<str>, Arc<str>);

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

    /// Adds a kind of custom resources; its number, from 0.
    pub fn add_kind(&self, gvk: &Gvk, releases: Releases) -> usize {
        let mut inner = self.write();
        let name = gvk.kind_group();
        inner.kinds.push(ServedKind { name, releases, is_cluster_scoped: false, retired: false });
        inner.kinds.len() - 1
    }

    /// Enters whether the custom resources of a kind have a namespace. An object that refers to its owner names none.
    pub fn set_scope(&self, kind: usize, namespaced: bool) {
        let mut inner = self.write();
        inner.kinds[kind].is_cluster_scoped = !namespaced;
    }

    /// Forgets the custom resources of a kind that is no longer served. Its number stays.
    pub fn retire(&self, kind: usize) {
        let mut inner = self.write();
        inner.crs.retain(|key, _| key.kind != kind);
        inner.named.retain(|key| key.kind != kind);
        inner.crs_synced.retain(|(known, _)| *known != kind);
        inner.kinds[kind].retired = true;
    }

    /// Serves a kind again, or with other releases.
    pub fn revive(&self, kind: usize, releases: Releases) {
        let mut inner = self.write();
        inner.kinds[kind].retired = false;
        inner.kinds[kind].releases = releases;
        let of_kind: Vec<_> = inner.crs.keys().filter(|key| key.kind == kind).cloned().collect();
        for key in of_kind {
            inner.enter_named(key);
        }
    }

    /// Whether a kind is no longer served.
    pub fn is_retired(&self, kind: usize) -> bool {
        self.lock().kinds[kind].retired
    }

    /// The release of a custom resource: the existing one, or the one that will be made.
    pub fn release_of(&self, key: &ReleaseKey) -> Release {
        self.lock().release_of(key)
    }

    /// The release that a custom resource should have, if it has a different one.
    pub fn other_release(&self, key: &ReleaseKey) -> Option<Release> {
        let inner = self.lock();
        let wanted = inner.wanted_release(key);
        (inner.release_of(key) != wanted).then_some(wanted)
    }

    /// The custom resources whose release has this name.
    pub fn keys_of_release_named(&self, namespace: &Arc<str>, release: &str) -> Vec<ReleaseKey> {
        self.lock().keys_named(namespace, release)
    }

    /// Whether other custom resources would give their releases this name, or may do so because not all kinds are known
    /// yet.
    pub fn has_rivals(&self, namespace: &Arc<str>, release: &str) -> bool {
        let inner = self.lock();
        let known = inner.kinds.iter().enumerate().all(|(kind, served)| {
            // Custom resources of other namespaces may have their releases here.
            let moves = served.releases.may_move || served.releases.namespace.is_some();
            let here = || inner.crs_synced.contains(&(kind, self.scope_of(namespace)));
            served.retired || !moves && here() || self.is_synced(&inner, kind)
        });
        !known || inner.keys_named(namespace, release).len() > 1
    }

    /// The watch that sees objects of a namespace (`None`: objects of a cluster-scoped kind).
    pub fn watch_key(&self, gvk: &Gvk, namespace: Option<&Arc<str>>) -> WatchKey {
        let namespace = if self.namespaces.is_empty() { None } else { namespace.cloned() };
        (gvk.clone(), namespace)
    }

    /// Whether the operator watches a namespace.
    pub fn watches(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|watched| **watched == *namespace)
    }

    /// The scope of list and watch requests that sees the objects of a namespace.
    fn scope_of(&self, namespace: &Arc<str>) -> Option<Arc<str>> {
        (!self.namespaces.is_empty()).then(|| Arc::clone(namespace))
    }

    /// Whether the custom resources of a kind are known completely.
    fn is_synced(&self, inner: &Inner, kind: usize) -> bool {
        // One watch sees a cluster-scoped kind, whatever the namespaces are.
        inner.crs_synced.contains(&(kind, None))
            || self.scopes().into_iter().all(|scope| inner.crs_synced.contains(&(kind, scope)))
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
        let history = self.history.get(&self.release_of(key));
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
        let usual = kinds.filter_map(|(kind, served)| Some((kind, name(&served.releases.suffix)?)));
        let usual = usual.map(|(kind, name)| ReleaseKey { kind, namespace: Arc::clone(namespace), name: name.into() });
        let has = |key: &ReleaseKey| {
            let is_it = |(of, name): Release| of == *namespace && *name == *release;
            self.crs.contains_key(key) && is_it(self.release_of(key))
        };
        // There may be many of them, and most have other names.
        let may_be = |key: &&ReleaseKey| {
            let suffix = self.kinds.get(key.kind).map_or("", |kind| &kind.releases.suffix);
            let chooses = || self.crs.get(*key).is_some_and(|cr| cr.annotations.contains_key(switches::RELEASE_NAME));
            release.strip_suffix(suffix) == Some(&*key.name) || chooses()
        };
        let named = self.named.iter().filter(may_be).cloned();
        let mut keys: Vec<_> = usual.chain(named).filter(has).collect();
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

    /// Notes whether the release of a custom resource may have another name or be in another namespace.
    fn enter_named(&mut self, key: ReleaseKey) {
        let says = |name: &str| self.crs.get(&key).is_some_and(|cr| cr.annotations.contains_key(name));
        let target = self.kinds.get(key.kind).and_then(|kind| kind.releases.namespace.as_ref());
        let is_elsewhere = target.is_some_and(|target| *target != key.namespace);
        if says(switches::RELEASE_NAME) || says(switches::TARGET_NAMESPACE) || is_elsewhere {
            self.named.insert(key);
        } else {
            self.named.remove(&key);
        }
    }

    /// The release that a custom resource should have.
    fn wanted_release(&self, key: &ReleaseKey) -> Release {
        let cr = self.named.get(key).and_then(|key| self.crs.get(key));
        let settings = self.kinds.get(key.kind).map_or_else(ReleaseSettings::default, |kind| ReleaseSettings {
            suffix: &kind.releases.suffix,
            namespace: kind.releases.namespace.as_ref(),
        });
        let said = |name: &str| cr.and_then(|cr| cr.annotations.get(name)).map(|text| &**text);
        intended_release(&key.namespace, &key.name, said, settings)
    }

    /// The same, unless there is a record of the release under another name or in another namespace.
    fn release_of(&self, key: &ReleaseKey) -> Release {
        let wanted = self.wanted_release(key);
        let Some(cr) = self.crs.get(key) else { return wanted };
        let newest = self.history.get(&wanted).and_then(|history| history.values().last());
        if newest.is_some_and(|newest| newest.owner_uid.as_deref() == Some(&*cr.uid)) {
            return wanted;
        }
        let Some(recorded) = self.recorded.get(&*cr.uid) else { return wanted };
        let here = recorded.get_key_value(&wanted.0);
        let found = here.or_else(|| recorded.iter().find(|(namespace, _)| self.can_be_in(key, cr, namespace)));
        found.map_or(wanted, |(namespace, name)| (Arc::clone(namespace), Arc::clone(name)))
    }

    /// Whether a record in this namespace counts for a custom resource that does not name the namespace now. A user who
    /// can write Secrets anywhere can write a record that names this custom resource.
    fn can_be_in(&self, key: &ReleaseKey, cr: &Cr, namespace: &Arc<str>) -> bool {
        let releases = self.kinds.get(key.kind).map(|kind| &kind.releases);
        let of_status = || cr.status().get("release").and_then(|release| release.get("namespace").cloned());
        *namespace == key.namespace
            || releases.is_some_and(|of_kind| of_kind.may_move || of_kind.namespace.as_ref() == Some(namespace))
            || of_status().as_ref().and_then(Value::as_str) == Some(&**namespace)
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
        shared: managers::needs_hand_over(managed)
            || !managers::scalers(managed).is_empty()
            || managers::is_scaled_to_zero(managed, object),
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

//! What the watches saw, in as few bytes as decisions need: custom resources, release records' metadata, and a summary of each
//! object of a release.
//!
//! # Guarantees
//! - Own writes are entered at once with the API server's answer, and an event that is older than what is known is ignored: so
//!   nothing is judged by a state from before our own write (apply.md A6).
//! - A list replaces what was known, except for what was written since the list began.
//! - What a watch has seen go does not come back with an answer that is older than that.
//!
//! # Assumptions
//! - resourceVersions are numbers that can be compared, as API servers since 1.35 promise and all before did.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use super::chunks::Chunks;
use super::cr::Cr;
use super::gone::Gone;
use super::readiness;
use crate::kind::switches;
use crate::release::hook_run::HookRun;
use crate::release::inventory::{Inventory, Reference};
use crate::release::live::{Change, Live};
use crate::release::object::{Gvk, ObjectId, RESOURCE_POLICY};
use crate::release::owner::{PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE, RELEASE_NAME, RELEASE_NAMESPACE, marks};
use crate::release::record::Status;
use crate::release::secret::Revision;
use crate::release::{managers, owned};

/// A custom resource, and with it a release.
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

/// A summary with what it belongs to.
#[derive(Clone, Debug)]
struct Entry {
    live: Live,
    owner: Option<ReleaseKey>,
    /// When we wrote it, by [`Inner::clock`]; 0 when only a watch saw it.
    written: u64,
}

/// The revisions of a release by number.
type History = BTreeMap<u64, Arc<Revision>>;

#[derive(Default)]
struct Inner {
    crs: HashMap<ReleaseKey, Arc<Cr>>,
    crs_synced: HashSet<(usize, Option<Arc<str>>)>,
    /// Those whose annotation names their release.
    named: BTreeSet<ReleaseKey>,
    /// The names of releases that have a record, by the namespace and the uid of their custom resource.
    recorded: HashMap<(Arc<str>, Box<str>), Arc<str>>,
    history: HashMap<(Arc<str>, Arc<str>), History>,
    history_written: HashMap<(Arc<str>, Arc<str>), u64>,
    history_synced: HashSet<Option<Arc<str>>>,
    history_blind: HashMap<Option<Arc<str>>, String>,
    objects: HashMap<Gvk, HashMap<ObjectId, Entry>>,
    by_owner: HashMap<ReleaseKey, BTreeSet<ObjectId>>,
    /// Jobs and Pods that had come to their end when they went, by whom they belonged to, with their uids.
    ended: HashMap<ReleaseKey, BTreeMap<ObjectId, Box<str>>>,
    synced: HashSet<WatchKey>,
    blind: HashMap<WatchKey, String>,
    gone: Gone,
    clock: u64,
    /// How often anything has been changed.
    changes: u64,
}

/// The cache. Every method that can concern a release answers with the keys that deserve a pass.
pub struct Cache {
    /// The chunks of release records.
    pub chunks: Chunks,
    inner: Mutex<Inner>,
    /// `Kind.group` of each kind, in order.
    kinds: Vec<String>,
    /// What the names of their releases have behind those of their custom resources.
    suffixes: Vec<Box<str>>,
    /// The namespaces that are watched; empty for all.
    namespaces: Vec<Arc<str>>,
}

impl Cache {
    /// An empty cache for these kinds and watched namespaces (none: all).
    pub fn new(kinds: &[Gvk], namespaces: Vec<Arc<str>>) -> Self {
        Self {
            chunks: Chunks::default(),
            inner: Mutex::default(),
            kinds: kinds.iter().map(Gvk::kind_group).collect(),
            suffixes: vec![Box::default(); kinds.len()],
            namespaces,
        }
    }

    /// With what the names of each kind's releases have behind those of their custom resources.
    #[must_use]
    pub fn with_suffixes(mut self, suffixes: impl Iterator<Item = Box<str>>) -> Self {
        for (known, suffix) in self.suffixes.iter_mut().zip(suffixes) {
            *known = suffix;
        }
        self
    }

    /// The name of a custom resource's release: the one that it has, or else the one that it shall have.
    pub fn release_name(&self, key: &ReleaseKey) -> Arc<str> {
        self.lock().release_name(&self.suffixes, key)
    }

    /// The name that a custom resource's release shall have, when it has another.
    pub fn other_name(&self, key: &ReleaseKey) -> Option<Arc<str>> {
        let inner = self.lock();
        let wanted = inner.wanted_name(&self.suffixes, key);
        (inner.release_name(&self.suffixes, key) != wanted).then_some(wanted)
    }

    /// The custom resources whose release has this name.
    pub fn keys_of_release_named(&self, namespace: &Arc<str>, release: &str) -> Vec<ReleaseKey> {
        self.lock().keys_named(&self.suffixes, namespace, release)
    }

    /// Whether other custom resources would give their release this name, or may: not all kinds are known yet.
    pub fn has_rivals(&self, namespace: &Arc<str>, release: &str) -> bool {
        let inner = self.lock();
        let scope = (!self.namespaces.is_empty()).then(|| Arc::clone(namespace));
        let known = (0..self.kinds.len()).all(|kind| inner.crs_synced.contains(&(kind, scope.clone())));
        !known || inner.keys_named(&self.suffixes, namespace, release).len() > 1
    }

    /// The watch that sees objects of a namespace (`None`: a cluster-scoped kind).
    pub fn watch_key(&self, gvk: &Gvk, namespace: Option<&Arc<str>>) -> WatchKey {
        let namespace = if self.namespaces.is_empty() { None } else { namespace.cloned() };
        (gvk.clone(), namespace)
    }

    /// The scopes of list and watch requests for namespaced kinds.
    pub fn scopes(&self) -> Vec<Option<Arc<str>>> {
        if self.namespaces.is_empty() { vec![None] } else { self.namespaces.iter().cloned().map(Some).collect() }
    }

    // Custom resources.

    /// A custom resource.
    pub fn cr(&self, key: &ReleaseKey) -> Option<Arc<Cr>> {
        self.lock().crs.get(key).cloned()
    }

    /// The key of the custom resource with a uid.
    pub fn cr_with_uid(&self, uid: &str) -> Option<ReleaseKey> {
        self.lock().crs.iter().find(|(_, cr)| &*cr.uid == uid).map(|(key, _)| key.clone())
    }

    /// All custom resources of a kind.
    pub fn keys_of(&self, kind: usize) -> Vec<ReleaseKey> {
        self.lock().crs.keys().filter(|k| k.kind == kind).cloned().collect()
    }

    /// All custom resources.
    pub fn crs(&self) -> Vec<(ReleaseKey, Arc<Cr>)> {
        self.lock().crs.iter().map(|(key, cr)| (key.clone(), Arc::clone(cr))).collect()
    }

    /// All custom resources with when they were created.
    pub fn created_at(&self) -> Vec<(ReleaseKey, i64)> {
        self.lock().crs.iter().map(|(key, cr)| (key.clone(), cr.created)).collect()
    }

    /// A custom resource as a watch or an answer shows it. `true` when it deserves a pass.
    pub fn put_cr(&self, key: ReleaseKey, cr: Cr) -> bool {
        let mut inner = self.write();
        match inner.crs.get(&key) {
            Some(old) if old.uid == cr.uid && old.resource_version >= cr.resource_version => false,
            _ if inner.gone.has(&cr.uid, cr.resource_version) => false,
            old => {
                let concerns = old.is_none_or(|old| old.differs(&cr));
                if cr.annotations.contains_key(switches::RELEASE_NAME) {
                    inner.named.insert(key.clone());
                } else {
                    inner.named.remove(&key);
                }
                inner.crs.insert(key, Arc::new(cr));
                concerns
            }
        }
    }

    /// The status that a custom resource would have if its definition let it have one. The next change of it shows what is really there.
    pub fn keep_status(&self, key: &ReleaseKey, uid: &str, status: &Map<String, Value>) {
        let mut inner = self.write();
        if let Some(cr) = inner.crs.get_mut(key).filter(|cr| &*cr.uid == uid) {
            Arc::make_mut(cr).status = Value::Object(status.clone()).to_string().into();
        }
    }

    /// A custom resource is gone, or another operator's; in which version, when a watch said so, or else 0.
    pub fn remove_cr(&self, key: &ReleaseKey, uid: Option<&str>, version: u64) -> bool {
        let mut inner = self.write();
        inner.enter_gone(uid, version);
        if uid.is_some_and(|uid| inner.crs.get(key).is_some_and(|cr| &*cr.uid != uid)) {
            return false;
        }
        inner.named.remove(key);
        inner.ended.remove(key);
        inner.crs.remove(key).is_some()
    }

    /// A list of custom resources is complete.
    pub fn sync_crs(&self, kind: usize, namespace: Option<Arc<str>>, seen: &HashSet<ReleaseKey>) {
        let mut inner = self.write();
        let in_scope = |k: &ReleaseKey| k.kind == kind && namespace.as_ref().is_none_or(|ns| k.namespace == *ns);
        inner.crs.retain(|key, _| !in_scope(key) || seen.contains(key));
        inner.named.retain(|key| !in_scope(key) || seen.contains(key));
        inner.crs_synced.insert((kind, namespace));
    }

    // Release records.

    /// The revisions of a release, oldest first.
    pub fn history(&self, namespace: &Arc<str>, name: &Arc<str>) -> Vec<Revision> {
        let inner = self.lock();
        let history = inner.history.get(&(Arc::clone(namespace), Arc::clone(name)));
        history.into_iter().flat_map(BTreeMap::values).map(|r| (**r).clone()).collect()
    }

    /// A revision as a watch shows it.
    pub fn put_revision(&self, namespace: &Arc<str>, name: &Arc<str>, revision: Revision) -> Vec<ReleaseKey> {
        let mut inner = self.write();
        if inner.gone.has(&revision.uid, revision.version()) {
            return Vec::new();
        }
        let release = inner.history.entry((Arc::clone(namespace), Arc::clone(name))).or_default();
        let newest = release.keys().last().copied();
        match release.get(&revision.revision) {
            Some(old) if old.uid == revision.uid && old.version() >= revision.version() => Vec::new(),
            old => {
                let concerns = old.is_none_or(|old| {
                    old.status != revision.status
                        || old.inputs != revision.inputs
                        || old.inventory != revision.inventory
                        || old.members != revision.members
                        || old.operations != revision.operations
                });
                // Only the newest revision is judged by its inventory.
                let number = revision.revision;
                let owner = revision.owner_uid.clone();
                release.insert(number, Arc::new(revision));
                if let Some(old) = newest.filter(|n| *n < number).and_then(|n| release.get_mut(&n)) {
                    let old = Arc::make_mut(old);
                    old.kinds = Vec::new();
                    old.members = None;
                    old.lookups = None;
                }
                if let Some(uid) = owner {
                    inner.recorded.insert((Arc::clone(namespace), uid), Arc::clone(name));
                }
                if concerns { inner.keys_named(&self.suffixes, namespace, name) } else { Vec::new() }
            }
        }
    }

    /// A revision as the API server answered our own write. Nobody needs to be told.
    pub fn wrote_revision(&self, namespace: &Arc<str>, name: &Arc<str>, revision: Revision) {
        self.put_revision(namespace, name, revision);
        let mut inner = self.write();
        inner.clock += 1;
        let clock = inner.clock;
        inner.history_written.insert((Arc::clone(namespace), Arc::clone(name)), clock);
    }

    /// A revision is gone; `seen` is how a watch saw it go.
    pub fn remove_revision(
        &self,
        namespace: &Arc<str>,
        name: &Arc<str>,
        revision: u64,
        seen: Option<&Revision>,
    ) -> Vec<ReleaseKey> {
        let mut inner = self.write();
        let uid = seen.map(|seen| &*seen.uid);
        inner.enter_gone(uid, seen.map_or(0, Revision::version));
        let id = (Arc::clone(namespace), Arc::clone(name));
        let Some(release) = inner.history.get_mut(&id) else { return Vec::new() };
        if uid.is_some_and(|uid| release.get(&revision).is_some_and(|r| &*r.uid != uid)) {
            return Vec::new();
        }
        let removed = release.remove(&revision);
        if release.is_empty() {
            inner.history.remove(&id);
            inner.history_written.remove(&id);
            if let Some(uid) = removed.as_ref().and_then(|revision| revision.owner_uid.clone()) {
                let of_owner = (Arc::clone(namespace), uid);
                if inner.recorded.get(&of_owner) == Some(name) {
                    inner.recorded.remove(&of_owner);
                }
            }
        }
        if removed.is_some() { inner.keys_named(&self.suffixes, namespace, name) } else { Vec::new() }
    }

    /// A list of release records is complete.
    pub fn sync_history(
        &self,
        scope: Option<Arc<str>>,
        seen: &HashSet<(Arc<str>, Arc<str>, u64)>,
        since: u64,
    ) -> Vec<ReleaseKey> {
        let mut inner = self.write();
        let mut gone = Vec::new();
        for ((namespace, name), history) in &inner.history {
            let written = inner.history_written.get(&(Arc::clone(namespace), Arc::clone(name)));
            if scope.as_ref().is_some_and(|s| s != namespace) || written.is_some_and(|w| *w > since) {
                continue;
            }
            for revision in history.keys() {
                if !seen.contains(&(Arc::clone(namespace), Arc::clone(name), *revision)) {
                    gone.push((Arc::clone(namespace), Arc::clone(name), *revision));
                }
            }
        }
        let mut keys = Vec::new();
        for (namespace, name, revision) in gone {
            let id = (Arc::clone(&namespace), Arc::clone(&name));
            if let Some(history) = inner.history.get_mut(&id) {
                history.remove(&revision);
            }
            keys.extend(inner.keys_named(&self.suffixes, &namespace, &name));
        }
        inner.history.retain(|_, h| !h.is_empty());
        let Inner { history, recorded, .. } = &mut *inner;
        recorded.retain(|(namespace, _), name| history.contains_key(&(Arc::clone(namespace), Arc::clone(name))));
        inner.history_blind.remove(&scope);
        inner.history_synced.insert(scope);
        keys
    }

    /// The revisions of a custom resource's release, oldest first, and whether those were all at that moment: custom resources of the
    /// kind, and the releases in their namespace, are known completely.
    pub fn release(&self, key: &ReleaseKey) -> (Vec<Revision>, bool) {
        let name = self.release_name(key);
        let inner = self.lock();
        let scope = (!self.namespaces.is_empty()).then(|| Arc::clone(&key.namespace));
        let history = inner.history.get(&(Arc::clone(&key.namespace), name));
        let history = history.into_iter().flat_map(BTreeMap::values).map(|r| (**r).clone()).collect();
        (history, inner.history_synced.contains(&scope) && inner.crs_synced.contains(&(key.kind, scope)))
    }

    /// Whether the newest revision of a custom resource's release is deployed, and the custom resource stays.
    pub fn is_deployed(&self, key: &ReleaseKey) -> bool {
        let inner = self.lock();
        let newest = inner.history.get(&(Arc::clone(&key.namespace), inner.release_name(&self.suffixes, key)));
        let deployed = newest.and_then(|h| h.values().last()).is_some_and(|r| r.status == Status::Deployed);
        deployed && inner.crs.get(key).is_some_and(|cr| !cr.deleting)
    }

    /// Whether a custom resource's release is deployed and all its objects, and no more, are there as its newest revision has
    /// them, and the chart need not be rendered again at this time. What is neither is for a pass to judge. Answers with what the
    /// next question may be asked with as `seen`: nothing is compared when nothing at all has changed since.
    pub fn is_as_recorded(&self, key: &ReleaseKey, now: i64, seen: Option<u64>) -> Option<u64> {
        let inner = self.lock();
        let is = seen == Some(inner.changes) || inner.is_as_recorded(&self.suffixes, key, now);
        is.then_some(inner.changes)
    }

    /// Whether a release has a revision that is not uninstalled. One in a namespace that is not watched, or not known yet, counts as one.
    pub fn is_live(&self, namespace: &str, release: &str) -> bool {
        let inner = self.lock();
        let scope = (!self.namespaces.is_empty()).then(|| namespace.into());
        if !inner.history_synced.contains(&scope) {
            return true;
        }
        let newest = inner.history.get(&(namespace.into(), release.into())).and_then(|h| h.values().last());
        newest.is_some_and(|newest| newest.status != Status::Uninstalled)
    }

    /// Release records cannot be seen, and why.
    pub fn set_history_blind(&self, scope: Option<Arc<str>>, why: &str) -> Vec<ReleaseKey> {
        let mut inner = self.write();
        let keys = inner.crs.keys().filter(|k| scope.as_ref().is_none_or(|s| k.namespace == *s)).cloned().collect();
        let known = inner.history_blind.insert(scope, why.to_owned()).is_some_and(|old| old == why);
        if known { Vec::new() } else { keys }
    }

    /// Why the release records in a namespace cannot be seen.
    pub fn history_blind(&self, namespace: &Arc<str>) -> Option<String> {
        let scope = (!self.namespaces.is_empty()).then(|| Arc::clone(namespace));
        self.lock().history_blind.get(&scope).cloned()
    }

    /// Whether all release records are known.
    pub fn is_history_synced(&self) -> bool {
        let inner = self.lock();
        self.scopes().iter().all(|scope| inner.history_synced.contains(scope))
    }

    /// The kinds that the newest revisions of our releases use.
    pub fn kinds_in_use(&self) -> BTreeSet<WatchKey> {
        let inner = self.lock();
        let mut kinds = BTreeSet::new();
        for history in inner.history.values() {
            for revision in history.values().filter(|r| r.owner_uid.is_some()) {
                for (gvk, namespace) in revision.uses() {
                    kinds.insert(self.watch_key(gvk, namespace));
                }
            }
        }
        kinds
    }

    // Objects of releases.

    /// The summaries of the objects that name a custom resource as their owner, and of those listed.
    pub fn objects<'a>(
        &self,
        key: &ReleaseKey,
        listed: impl Iterator<Item = &'a ObjectId>,
    ) -> BTreeMap<ObjectId, Live> {
        self.objects_of(key, listed, std::iter::empty()).0
    }

    /// The same, and of these watches those that were not complete at that moment.
    pub fn objects_of<'a>(
        &self,
        key: &ReleaseKey,
        listed: impl Iterator<Item = &'a ObjectId>,
        watches: impl IntoIterator<Item = WatchKey>,
    ) -> (BTreeMap<ObjectId, Live>, BTreeSet<WatchKey>) {
        let guard = self.lock();
        let inner: &Inner = &guard;
        let known = |id: &ObjectId| inner.objects.get(&id.gvk)?.get(id).map(|e| (id.clone(), e.live.clone()));
        let mut objects: BTreeMap<ObjectId, Live> = listed.filter_map(known).collect();
        objects.extend(inner.by_owner.get(key).into_iter().flatten().filter_map(known));
        (objects, watches.into_iter().filter(|watch| !inner.synced.contains(watch)).collect())
    }

    /// The objects of a custom resource that had come to their end when they went, with their uids.
    pub fn ended(&self, key: &ReleaseKey) -> BTreeMap<ObjectId, Box<str>> {
        self.lock().ended.get(key).cloned().unwrap_or_default()
    }

    /// Whether an object is known as it is in this version, or as it was later: watches repeat what our own writes were answered with.
    pub fn is_known(&self, id: &ObjectId, metadata: &ObjectMeta) -> bool {
        let version = metadata.resource_version.as_deref().and_then(|v| v.parse::<u64>().ok());
        let inner = self.lock();
        let known = inner.objects.get(&id.gvk).and_then(|objects| objects.get(id)).map(|entry| &entry.live);
        known.zip(version).is_some_and(|(known, version)| {
            metadata.uid.as_deref() == Some(&*known.uid) && known.resource_version >= version
        })
    }

    /// An object as a watch shows it: whom it concerns, and what of it changed.
    pub fn put_object(&self, gvk: &Gvk, object: &Value) -> (Vec<ReleaseKey>, Change) {
        let Some((id, live)) = summary(gvk, object) else { return (Vec::new(), Change::None) };
        let owner = self.owner(object, &id);
        self.put(id, live, owner, false, object)
    }

    /// An object as the API server answered our own write. The summary is returned as well.
    pub fn wrote_object(&self, gvk: &Gvk, object: &Value) -> Option<(ObjectId, Live)> {
        let (id, live) = summary(gvk, object)?;
        let owner = self.owner(object, &id);
        self.put(id.clone(), live.clone(), owner, true, object);
        Some((id, live))
    }

    fn put(
        &self,
        id: ObjectId,
        live: Live,
        owner: Option<ReleaseKey>,
        written: bool,
        object: &Value,
    ) -> (Vec<ReleaseKey>, Change) {
        let mut inner = self.write();
        let mut keys = Vec::new();
        if inner.gone.has(&live.uid, live.resource_version) {
            return (keys, Change::None);
        }
        let old = inner.objects.get(&id.gvk).and_then(|o| o.get(&id)).cloned();
        if let Some(old) = &old {
            if old.live.uid == live.uid && old.live.resource_version >= live.resource_version {
                return (keys, Change::None);
            }
            if old.owner != owner
                && let Some(owner) = &old.owner
            {
                inner.disown(owner, &id);
                keys.push(owner.clone());
            }
        }
        let change = old.as_ref().map_or(Change::Content, |old| old.live.change(&live));
        if change != Change::None {
            keys.extend(owner.clone());
            if owner.is_none() {
                keys.extend(inner.keys_of_release(&self.suffixes, object));
            }
        }
        if let Some(owner) = &owner {
            inner.by_owner.entry(owner.clone()).or_default().insert(id.clone());
        }
        let stamp = if written {
            inner.clock += 1;
            inner.clock
        } else {
            old.map_or(0, |o| o.written)
        };
        let entry = Entry { live, owner, written: stamp };
        inner.objects.entry(id.gvk.clone()).or_default().insert(id, entry);
        (keys, change)
    }

    /// An object is gone, or has lost the label that our watches select by; in which version, when a watch said so, or else 0.
    pub fn remove_object(
        &self,
        id: &ObjectId,
        uid: Option<&str>,
        resource_version: u64,
        object: &Value,
    ) -> Vec<ReleaseKey> {
        let mut inner = self.write();
        inner.enter_gone(uid, resource_version);
        let Some(entry) = inner.objects.get(&id.gvk).and_then(|o| o.get(id)) else { return Vec::new() };
        let stale = entry.live.resource_version > resource_version && resource_version != 0;
        if stale || uid.is_some_and(|uid| &*entry.live.uid != uid) {
            return Vec::new();
        }
        let owner = entry.owner.clone();
        let ended = entry.live.finished.then(|| entry.live.uid.clone());
        if let Some(objects) = inner.objects.get_mut(&id.gvk) {
            objects.remove(id);
        }
        if let (Some(owner), Some(uid)) = (&owner, ended) {
            inner.ended.entry(owner.clone()).or_default().insert(id.clone(), uid);
        }
        match owner {
            Some(owner) => {
                inner.disown(&owner, id);
                vec![owner]
            }
            None => inner.keys_of_release(&self.suffixes, object),
        }
    }

    /// The time by which a list that begins now will be judged; see [`Cache::sync_objects`].
    pub fn clock(&self) -> u64 {
        self.lock().clock
    }

    /// A list of objects is complete: those that it did not show are gone, except what we wrote since it began.
    pub fn sync_objects(&self, watch: &WatchKey, seen: &HashSet<ObjectId>, since: u64) -> Vec<ReleaseKey> {
        let mut inner = self.write();
        let mut keys: BTreeSet<ReleaseKey> = BTreeSet::new();
        let mut gone = Vec::new();
        for (id, entry) in inner.objects.get(&watch.0).into_iter().flatten() {
            if watch.1.is_some() && id.namespace != watch.1 {
                continue;
            }
            keys.extend(entry.owner.clone());
            if !seen.contains(id) && entry.written <= since {
                gone.push((id.clone(), entry.owner.clone()));
            }
        }
        for (id, owner) in gone {
            if let Some(objects) = inner.objects.get_mut(&watch.0) {
                objects.remove(&id);
            }
            if let Some(owner) = owner {
                inner.disown(&owner, &id);
            }
        }
        inner.blind.remove(watch);
        if inner.synced.insert(watch.clone()) {
            // Releases that list objects of this kind, or may have left some, could not be judged before.
            for ((namespace, name), history) in &inner.history {
                if history.values().any(|r| r.uses().any(|(gvk, _)| *gvk == watch.0)) {
                    keys.extend(inner.keys_named(&self.suffixes, namespace, name));
                }
            }
            // First installations that were cut off, too.
            let began = inner.crs.iter().filter(|(_, cr)| cr.first_kinds().any(|gvk| gvk == watch.0));
            keys.extend(began.map(|(key, _)| key.clone()));
        }
        keys.into_iter().collect()
    }

    /// A watch cannot see its objects: why. Nothing is judged missing there until it can.
    pub fn set_blind(&self, watch: &WatchKey, why: &str) -> Vec<ReleaseKey> {
        let mut inner = self.write();
        inner.synced.remove(watch);
        if inner.blind.insert(watch.clone(), why.to_owned()).is_some_and(|old| old == why) {
            return Vec::new();
        }
        let mut keys = BTreeSet::new();
        for ((namespace, name), history) in &inner.history {
            let uses = |r: &Revision| r.inventory.as_ref().is_some_and(|i| i.0.keys().any(|id| id.gvk == watch.0));
            if history.values().last().is_some_and(|r| uses(r)) {
                keys.extend(inner.keys_named(&self.suffixes, namespace, name));
            }
        }
        keys.into_iter().collect()
    }

    /// Why the first of these watches that cannot see cannot.
    pub fn blind(&self, watches: &BTreeSet<WatchKey>) -> Option<String> {
        let inner = self.lock();
        watches.iter().find_map(|w| inner.blind.get(w).cloned())
    }

    /// The custom resource that an object names as its owner: by owner reference, or by operator-sdk's annotations.
    fn owner(&self, object: &Value, id: &ObjectId) -> Option<ReleaseKey> {
        let metadata = object.get("metadata")?;
        let references = metadata.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
        for reference in references {
            let text = |key: &str| reference.get(key).and_then(Value::as_str).unwrap_or_default();
            let kind = Gvk::from_api_version(text("apiVersion"), text("kind")).kind_group();
            if let Some(kind) = self.kinds.iter().position(|k| *k == kind) {
                let namespace = id.namespace.clone().unwrap_or_default();
                return Some(ReleaseKey { kind, namespace, name: text("name").into() });
            }
        }
        let annotation = |name: &str| metadata.get("annotations")?.get(name)?.as_str();
        let kind = annotation(PRIMARY_RESOURCE_TYPE)?;
        let kind = self.kinds.iter().position(|k| k == kind)?;
        let (namespace, name) = annotation(PRIMARY_RESOURCE)?.split_once('/')?;
        Some(ReleaseKey { kind, namespace: namespace.into(), name: name.into() })
    }

    /// To read.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To change something.
    fn write(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.lock();
        inner.changes += 1;
        inner
    }
}

impl Inner {
    /// Whether a release is deployed and as its newest revision has it.
    fn is_as_recorded(&self, suffixes: &[Box<str>], key: &ReleaseKey, now: i64) -> bool {
        let history = self.history.get(&(Arc::clone(&key.namespace), self.release_name(suffixes, key)));
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
    fn keys_named(&self, suffixes: &[Box<str>], namespace: &Arc<str>, release: &str) -> Vec<ReleaseKey> {
        let name = |suffix: &str| release.strip_suffix(suffix).filter(|name| !name.is_empty());
        let usual = suffixes.iter().enumerate().filter_map(|(kind, suffix)| Some((kind, name(suffix)?)));
        let usual = usual.map(|(kind, name)| ReleaseKey { kind, namespace: Arc::clone(namespace), name: name.into() });
        let has = |key: &ReleaseKey| {
            self.crs.contains_key(key) && key.namespace == *namespace && *self.release_name(suffixes, key) == *release
        };
        let mut keys: Vec<_> = usual.chain(self.named.iter().cloned()).filter(has).collect();
        keys.sort();
        keys.dedup();
        if keys.is_empty() {
            // Its annotation has gone, and its release goes on under the name that it has.
            let history = self.history.get(&(Arc::clone(namespace), release.into()));
            let uid = history.and_then(|h| h.values().last()).and_then(|newest| newest.owner_uid.as_deref());
            keys.extend(self.crs.iter().find(|(_, cr)| Some(&*cr.uid) == uid).map(|(key, _)| key.clone()).filter(has));
        }
        keys
    }

    /// The name that a custom resource's release shall have.
    fn wanted_name(&self, suffixes: &[Box<str>], key: &ReleaseKey) -> Arc<str> {
        let cr = self.named.get(key).and_then(|key| self.crs.get(key));
        match (cr.and_then(|cr| cr.annotations.get(switches::RELEASE_NAME)), suffixes.get(key.kind).map_or("", |s| s)) {
            (Some(name), _) => name.trim().into(),
            (None, "") => Arc::clone(&key.name),
            (None, suffix) => format!("{}{suffix}", key.name).into(),
        }
    }

    /// The same, unless there is a record of it under another name.
    fn release_name(&self, suffixes: &[Box<str>], key: &ReleaseKey) -> Arc<str> {
        let wanted = self.wanted_name(suffixes, key);
        let Some(cr) = self.crs.get(key) else { return wanted };
        let newest = self.history.get(&(Arc::clone(&key.namespace), Arc::clone(&wanted)));
        let newest = newest.and_then(|history| history.values().last());
        if newest.is_some_and(|newest| newest.owner_uid.as_deref() == Some(&*cr.uid)) {
            return wanted;
        }
        self.recorded.get(&(Arc::clone(&key.namespace), (&*cr.uid).into())).cloned().unwrap_or(wanted)
    }

    /// An object without an owner (`keep`) still names its release.
    fn keys_of_release(&self, suffixes: &[Box<str>], object: &Value) -> Vec<ReleaseKey> {
        let annotation = |name: &str| object.pointer("/metadata/annotations")?.get(name)?.as_str();
        match (annotation(RELEASE_NAMESPACE), annotation(RELEASE_NAME)) {
            (Some(namespace), Some(name)) => self.keys_named(suffixes, &namespace.into(), name),
            _ => Vec::new(),
        }
    }

    /// Something went in this version; 0 for one that nobody knows.
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

/// Identity and summary of an object.
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
    };
    Some((id, live))
}

mod needs;

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;

//! Live objects of releases.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{Cache, Entry, Inner, ReleaseKey, WatchKey, summary};
use crate::object::{Gvk, ObjectId};
use crate::release::live::{Live, LiveChange};
use crate::release::owner::{PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE};
use crate::release::secret::Revision;

impl Cache {
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

    /// The same, plus those of these watches that were not complete at that moment.
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

    /// The objects of a custom resource that had finished when they were deleted, with their uids.
    pub fn ended(&self, key: &ReleaseKey) -> BTreeMap<ObjectId, Box<str>> {
        self.lock().ended.get(key).cloned().unwrap_or_default()
    }

    /// Whether an object is known in this version or a newer one: watches repeat the answers to our own writes.
    pub fn is_known(&self, id: &ObjectId, metadata: &ObjectMeta) -> bool {
        let version = metadata.resource_version.as_deref().and_then(|v| v.parse::<u64>().ok());
        let inner = self.lock();
        let known = inner.objects.get(&id.gvk).and_then(|objects| objects.get(id)).map(|entry| &entry.live);
        known.zip(version).is_some_and(|(known, version)| {
            metadata.uid.as_deref() == Some(&*known.uid) && known.resource_version >= version
        })
    }

    /// Enters an object that a watch reports. Returns the releases that it affects, and the changes.
    pub fn put_object(&self, gvk: &Gvk, object: &Value) -> (Vec<ReleaseKey>, LiveChange) {
        let Some((id, mut live)) = summary(gvk, object) else { return (Vec::new(), LiveChange::None) };
        let owner = self.look(&id, &mut live, object);
        self.put(id, live, owner, false, object)
    }

    /// Enters an object from the API server's answer to our own write. Also returns its summary.
    pub fn wrote_object(&self, gvk: &Gvk, object: &Value) -> Option<(ObjectId, Live)> {
        let (id, mut live) = summary(gvk, object)?;
        let owner = self.look(&id, &mut live, object);
        self.put(id.clone(), live.clone(), owner, true, object);
        Some((id, live))
    }

    /// Adds what the status shows of an object. Returns the custom resource that the object names as its owner.
    fn look(&self, id: &ObjectId, live: &mut Live, object: &Value) -> Option<ReleaseKey> {
        let inner = self.lock();
        live.shown.fields = inner.wanted.of(id, object);
        inner.owner(object, id)
    }

    fn put(
        &self,
        id: ObjectId,
        live: Live,
        owner: Option<ReleaseKey>,
        written: bool,
        object: &Value,
    ) -> (Vec<ReleaseKey>, LiveChange) {
        let mut inner = self.write();
        let mut keys = Vec::new();
        if inner.gone.has(&live.uid, live.resource_version) {
            return (keys, LiveChange::None);
        }
        let old = inner.objects.get(&id.gvk).and_then(|o| o.get(&id)).cloned();
        if let Some(old) = &old {
            if old.live.uid == live.uid && old.live.resource_version >= live.resource_version {
                // The same version is looked at again when a document names other paths.
                if old.live.resource_version == live.resource_version
                    && let Some(known) = inner.objects.get_mut(&id.gvk).and_then(|objects| objects.get_mut(&id))
                {
                    known.live.shown = live.shown;
                }
                return (keys, LiveChange::None);
            }
            if old.owner != owner
                && let Some(owner) = &old.owner
            {
                inner.disown(owner, &id);
                keys.push(owner.clone());
            }
        }
        let change = old.as_ref().map_or(LiveChange::Content, |old| old.live.change(&live));
        if change != LiveChange::None {
            keys.extend(owner.clone());
            if owner.is_none() {
                keys.extend(inner.keys_of_release(object));
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

    /// Removes an object that was deleted, or has lost the label that our watches select. The version is the one that a
    /// watch reported, or 0.
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
        // Its kind may have come after the object.
        let owner = entry.owner.clone().or_else(|| inner.owner(object, id));
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
            None => inner.keys_of_release(object),
        }
    }

    /// The time to pass as `since` to [`Cache::sync_objects`] for a list that begins now.
    pub fn clock(&self) -> u64 {
        self.lock().clock
    }

    /// Enters that a list of objects is complete: removes the objects that it did not contain, except those that were
    /// written since it began.
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
            // Releases that list objects of this kind, or may have left some behind, could not be judged before.
            for ((namespace, name), history) in &inner.history {
                if history.values().any(|r| r.uses().any(|(gvk, _)| *gvk == watch.0)) {
                    keys.extend(inner.keys_named(namespace, name));
                }
            }
            // The same holds for interrupted first installations.
            let began = inner.crs.iter().filter(|(_, cr)| cr.first_kinds().any(|gvk| gvk == watch.0));
            keys.extend(began.map(|(key, _)| key.clone()));
        }
        keys.into_iter().collect()
    }

    /// Enters that a watch cannot see its objects. Until it can, none of them counts as missing.
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
                keys.extend(inner.keys_named(namespace, name));
            }
        }
        keys.into_iter().collect()
    }

    /// Why a watch cannot see its objects, from the first of these watches that cannot.
    pub fn blind(&self, watches: &BTreeSet<WatchKey>) -> Option<String> {
        let inner = self.lock();
        watches.iter().find_map(|w| inner.blind.get(w).cloned())
    }
}

impl Inner {
    /// The custom resource that an object names as its owner: by owner reference, or by operator-sdk's annotations.
    fn owner(&self, object: &Value, id: &ObjectId) -> Option<ReleaseKey> {
        let metadata = object.get("metadata")?;
        let references = metadata.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
        for reference in references {
            let text = |key: &str| reference.get(key).and_then(Value::as_str).unwrap_or_default();
            let kind = Gvk::from_api_version(text("apiVersion"), text("kind")).kind_group();
            if let Some(kind) = self.kinds.iter().position(|known| known.name == kind) {
                let of_owner = id.namespace.clone().filter(|_| !self.kinds[kind].is_cluster_scoped);
                let namespace = of_owner.unwrap_or_default();
                return Some(ReleaseKey { kind, namespace, name: text("name").into() });
            }
        }
        let annotation = |name: &str| metadata.get("annotations")?.get(name)?.as_str();
        let kind = annotation(PRIMARY_RESOURCE_TYPE)?;
        let kind = self.kinds.iter().position(|known| known.name == kind)?;
        let (namespace, name) = annotation(PRIMARY_RESOURCE)?.split_once('/')?;
        Some(ReleaseKey { kind, namespace: namespace.into(), name: name.into() })
    }
}

//! Live objects of releases.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{Cache, Entry, Inner, ReleaseKey, WatchKey, summary};
use crate::release::live::{Change, Live};
use crate::release::object::{Gvk, ObjectId};
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
}

//! Custom resources and the revisions of their releases.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Cache, Inner, Release, ReleaseKey, dependents};
use crate::cluster::cr::Cr;
use crate::release::record::Status;
use crate::release::secret::Revision;

impl Cache {
    // Custom resources.

    /// The custom resource with this key.
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

    /// All custom resources with their creation times.
    pub fn created_at(&self) -> Vec<(ReleaseKey, i64)> {
        self.lock().crs.iter().map(|(key, cr)| (key.clone(), cr.created)).collect()
    }

    /// Enters a custom resource from a watch or an answer. Returns whether it needs a pass, and the custom resources that need it and may
    /// need one.
    pub fn put_cr(&self, key: ReleaseKey, cr: Cr) -> (bool, Vec<ReleaseKey>) {
        let mut inner = self.write();
        match inner.crs.get(&key) {
            Some(old) if old.uid == cr.uid && old.resource_version >= cr.resource_version => (false, Vec::new()),
            _ if inner.gone.has(&cr.uid, cr.resource_version) => (false, Vec::new()),
            old => {
                let concerns = old.is_none_or(|old| old.differs(&cr));
                let matters = dependents::matters(old.map(|old| &**old), &cr);
                let users = if matters { inner.dependents.users(&key) } else { Vec::new() };
                inner.crs.insert(key.clone(), Arc::new(cr));
                inner.enter_named(key);
                (concerns, users)
            }
        }
    }

    /// Stores a status that the definition of the kind does not keep. The next change of the custom resource replaces
    /// it.
    pub fn keep_status(&self, key: &ReleaseKey, uid: &str, status: &Map<String, Value>) {
        let mut inner = self.write();
        if let Some(cr) = inner.crs.get_mut(key).filter(|cr| &*cr.uid == uid) {
            Arc::make_mut(cr).status = Value::Object(status.clone()).to_string().into();
        }
    }

    /// Removes a custom resource that was deleted, or that belongs to another operator. The version is the one that a
    /// watch reported, or 0.
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

    /// Enters that a list of custom resources is complete.
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

    /// Enters a revision that a watch reports.
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
                        || old.status_fields != revision.status_fields
                });
                // Only the newest revision needs its inventory.
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
                    inner.recorded.entry(uid).or_default().insert(Arc::clone(namespace), Arc::clone(name));
                }
                inner.follow_document(namespace, name);
                if concerns { inner.keys_named(namespace, name) } else { Vec::new() }
            }
        }
    }

    /// Enters a revision from the API server's answer to our own write. No release needs a pass for it.
    pub fn wrote_revision(&self, namespace: &Arc<str>, name: &Arc<str>, revision: Revision) {
        self.put_revision(namespace, name, revision);
        let mut inner = self.write();
        inner.clock += 1;
        let clock = inner.clock;
        inner.history_written.insert((Arc::clone(namespace), Arc::clone(name)), clock);
    }

    /// Removes a deleted revision; `seen` is its last state if a watch reported the deletion.
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
            if let Some(uid) = removed.as_ref().and_then(|revision| revision.owner_uid.as_ref())
                && let Some(recorded) = inner.recorded.get_mut(uid)
            {
                if recorded.get(namespace) == Some(name) {
                    recorded.remove(namespace);
                }
                if recorded.is_empty() {
                    inner.recorded.remove(uid);
                }
            }
        }
        inner.follow_document(namespace, name);
        if removed.is_some() { inner.keys_named(namespace, name) } else { Vec::new() }
    }

    /// Enters that a list of release records is complete.
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
            inner.follow_document(&namespace, &name);
            keys.extend(inner.keys_named(&namespace, &name));
        }
        inner.history.retain(|_, h| !h.is_empty());
        let Inner { history, recorded, .. } = &mut *inner;
        recorded.retain(|_, recorded| {
            recorded.retain(|namespace, name| history.contains_key(&(Arc::clone(namespace), Arc::clone(name))));
            !recorded.is_empty()
        });
        inner.history_blind.remove(&scope);
        inner.history_synced.insert(scope);
        keys
    }

    /// The revisions of a custom resource's release, oldest first, and whether they were complete at that moment: both
    /// the custom resources of the kind and the releases in the namespace of the release are completely known. There is no release in
    /// no namespace.
    pub fn revisions(&self, key: &ReleaseKey, release: &Release) -> (Vec<Revision>, bool) {
        let inner = self.lock();
        let history = inner.history.get(release);
        let history = history.into_iter().flat_map(BTreeMap::values).map(|r| (**r).clone()).collect();
        let crs =
            (key.kind, Some(&key.namespace).filter(|namespace| !namespace.is_empty()).and_then(|ns| self.scope_of(ns)));
        let is_known = release.0.is_empty() || inner.history_synced.contains(&self.scope_of(&release.0));
        (history, is_known && inner.crs_synced.contains(&crs))
    }

    /// Whether the newest revision of a custom resource's release is deployed, and the custom resource is not being
    /// deleted.
    pub fn is_deployed(&self, key: &ReleaseKey) -> bool {
        let inner = self.lock();
        let newest = inner.history.get(&inner.release_of(key));
        let deployed = newest.and_then(|h| h.values().last()).is_some_and(|r| r.status == Status::Deployed);
        deployed && inner.crs.get(key).is_some_and(|cr| !cr.deleting)
    }

    /// Whether a custom resource's release is deployed, has exactly the objects of its newest revision in their
    /// recorded state, and need not be rendered again at this time. If not, a pass has to decide. Returns the value to
    /// pass as `seen` with the next call: if nothing in the cache has changed since, nothing is compared.
    pub fn is_as_recorded(&self, key: &ReleaseKey, now: i64, seen: Option<u64>) -> Option<u64> {
        let inner = self.lock();
        let is = seen == Some(inner.changes) || inner.is_as_recorded(key, now);
        is.then_some(inner.changes)
    }

    /// Whether a release has a revision that is not uninstalled. A release in a namespace that is not watched, or not
    /// known yet, counts as live.
    pub fn is_live(&self, namespace: &str, release: &str) -> bool {
        let inner = self.lock();
        let scope = (!self.namespaces.is_empty()).then(|| namespace.into());
        if !inner.history_synced.contains(&scope) {
            return true;
        }
        let newest = inner.history.get(&(namespace.into(), release.into())).and_then(|h| h.values().last());
        newest.is_some_and(|newest| newest.status != Status::Uninstalled)
    }

    /// Enters that release records cannot be seen.
    pub fn set_history_blind(&self, scope: Option<Arc<str>>, why: &str) -> Vec<ReleaseKey> {
        let mut inner = self.write();
        let is_of = |key: &&ReleaseKey| scope.as_ref().is_none_or(|scope| inner.release_of(key).0 == *scope);
        let keys = inner.crs.keys().filter(is_of).cloned().collect();
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
}

//! Which watches the releases need.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Cache, Release, WatchKey};
use crate::object::Gvk;

impl Cache {
    /// The number of changes of the cache: if nothing was needed at one number, nothing is needed until the next one.
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Whether the custom resources of a kind are known completely.
    pub fn is_kind_synced(&self, kind: usize) -> bool {
        self.is_synced(&self.lock(), kind)
    }

    /// The watches that the releases of custom resources need: those of the kinds that their revisions use, and those
    /// of the objects that they own. A record without a custom resource needs none; a custom resource that continues
    /// its release asks for them again.
    pub fn needed(&self) -> HashSet<WatchKey> {
        let inner = self.lock();
        let uids: HashSet<&str> = inner.crs.values().map(|cr| &*cr.uid).collect();
        let releases: HashSet<Release> = inner.crs.keys().map(|key| inner.release_of(key)).collect();
        let mut needed: HashSet<(&Gvk, Option<&Arc<str>>)> = HashSet::new();
        let everywhere = self.namespaces.is_empty();
        for (release, history) in &inner.history {
            let is_owned =
                || history.values().any(|r| r.owner_uid.as_deref().is_some_and(|owner| uids.contains(owner)));
            if releases.contains(release) || is_owned() {
                let uses = history.values().flat_map(|revision| revision.uses());
                needed.extend(uses.map(|(gvk, namespace)| (gvk, namespace.filter(|_| !everywhere))));
            }
        }
        for (owner, ids) in &inner.by_owner {
            if inner.crs.contains_key(owner) {
                needed.extend(ids.iter().map(|id| (&id.gvk, id.namespace.as_ref().filter(|_| !everywhere))));
            }
        }
        needed.into_iter().map(|(gvk, namespace)| (gvk.clone(), namespace.cloned())).collect()
    }

    /// Drops the facts about the objects of a watch that has ended because no release needs it.
    pub fn unwatch(&self, watch: &WatchKey) {
        let mut inner = self.write();
        inner.synced.remove(watch);
        inner.blind.remove(watch);
        let Some(objects) = inner.objects.get_mut(&watch.0) else { return };
        let mut gone = Vec::new();
        objects.retain(|id, entry| {
            let stays = watch.1.is_some() && id.namespace != watch.1;
            if !stays {
                gone.push((id.clone(), entry.owner.take()));
            }
            stays
        });
        if objects.is_empty() {
            inner.objects.remove(&watch.0);
        }
        for (id, owner) in gone {
            if let Some(owner) = owner {
                inner.disown(&owner, &id);
            }
        }
    }
}

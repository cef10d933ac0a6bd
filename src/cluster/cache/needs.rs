//! Which watches somebody needs.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Cache, WatchKey};
use crate::release::object::Gvk;

impl Cache {
    /// How often anything has been changed: what needs nothing at one number needs nothing until the next.
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Whether the custom resources of a kind are known completely.
    pub fn is_kind_synced(&self, kind: usize) -> bool {
        let inner = self.lock();
        // A cluster-scoped kind is seen by one watch, whatever the namespaces.
        inner.crs_synced.contains(&(kind, None))
            || self.scopes().into_iter().all(|scope| inner.crs_synced.contains(&(kind, scope)))
    }

    /// The watches of objects that releases of custom resources need: of the kinds that their revisions use, and of those of which they
    /// have an object. A record without a custom resource needs none; who continues its release asks for them again.
    pub fn needed(&self) -> HashSet<WatchKey> {
        let inner = self.lock();
        let uids: HashSet<&str> = inner.crs.values().map(|cr| &*cr.uid).collect();
        let names: HashSet<(&str, Arc<str>)> =
            inner.crs.keys().map(|key| (&*key.namespace, inner.release_name(&self.suffixes, key))).collect();
        let mut needed: HashSet<(&Gvk, Option<&Arc<str>>)> = HashSet::new();
        let everywhere = self.namespaces.is_empty();
        for ((namespace, name), history) in &inner.history {
            let is_owned =
                || history.values().any(|r| r.owner_uid.as_deref().is_some_and(|owner| uids.contains(owner)));
            if names.contains(&(&**namespace, Arc::clone(name))) || is_owned() {
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

    /// A watch has ended since nobody needs it: nothing is known of its objects any more.
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

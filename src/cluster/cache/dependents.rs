//! Which custom resources need which others.

use std::collections::{BTreeSet, HashMap};

use super::{Cache, ReleaseKey};
use crate::cluster::cr::Cr;

/// The dependencies between custom resources.
#[derive(Default)]
pub(super) struct Dependents {
    needs: HashMap<ReleaseKey, Vec<ReleaseKey>>,
    users: HashMap<ReleaseKey, BTreeSet<ReleaseKey>>,
}

impl Dependents {
    fn set(&mut self, key: &ReleaseKey, needs: Vec<ReleaseKey>) {
        if self.needs.get(key).is_some_and(|known| *known == needs) {
            return;
        }
        for other in self.needs.remove(key).into_iter().flatten() {
            if let Some(users) = self.users.get_mut(&other) {
                users.remove(key);
                if users.is_empty() {
                    self.users.remove(&other);
                }
            }
        }
        for other in &needs {
            self.users.entry(other.clone()).or_default().insert(key.clone());
        }
        self.needs.insert(key.clone(), needs);
    }

    /// Those that need a custom resource.
    pub(super) fn users(&self, key: &ReleaseKey) -> Vec<ReleaseKey> {
        self.users.get(key).into_iter().flatten().cloned().collect()
    }
}

/// Whether others that need a custom resource may decide differently after a change of it.
pub(super) fn matters(old: Option<&Cr>, new: &Cr) -> bool {
    old.is_none_or(|old| {
        let Cr { uid, generation, deleting, status, .. } = old;
        *uid != new.uid || *generation != new.generation || *deleting != new.deleting || *status != new.status
    })
}

impl Cache {
    /// Sets the needs of a custom resource. After that, a change of those is a change for it.
    pub fn set_needs(&self, key: &ReleaseKey, needs: Vec<ReleaseKey>) {
        // Most need nothing, and have never needed anything.
        let mut inner = self.lock();
        inner.dependents.set(key, needs);
    }

    /// The needs of a custom resource; `None` if no pass has looked yet.
    pub fn needs(&self, key: &ReleaseKey) -> Option<Vec<ReleaseKey>> {
        self.lock().dependents.needs.get(key).cloned()
    }

    /// Drops the needs of a custom resource after it is gone.
    pub fn forget_needs(&self, key: &ReleaseKey) {
        let mut inner = self.lock();
        inner.dependents.set(key, Vec::new());
        inner.dependents.needs.remove(key);
    }

    /// The custom resources that need one.
    pub fn users(&self, key: &ReleaseKey) -> Vec<ReleaseKey> {
        self.lock().dependents.users(key)
    }

    /// The custom resources that need one of a kind.
    pub fn users_of_kind(&self, kind: usize) -> Vec<ReleaseKey> {
        let inner = self.lock();
        let of_kind = inner.dependents.users.iter().filter(|(key, _)| key.kind == kind);
        of_kind.flat_map(|(_, users)| users).cloned().collect()
    }
}

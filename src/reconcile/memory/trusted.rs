//! Records that count as they are: this process wrote them, or compared them with the rendered chart, in their current
//! version.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::store::PerRelease;
use crate::members::document::Members;
use crate::object::Object;
use crate::release::owner::Owner;
use crate::release::record::{HookRecord, Record, RecordError};
use crate::release::secret::Revision;
use crate::render::Hook;

/// Namespace and name of a release.
pub type Key = (Arc<str>, Arc<str>);

/// The trusted records, by the version of their Secrets.
pub type Trusted = PerRelease<BTreeMap<u64, Compared>, Key>;

/// A record that was written or compared.
pub struct Compared {
    uid: Box<str>,
    version: Box<str>,
    left_out: Arc<LeftOut>,
}

/// The parts of a record that do not count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeftOut {
    /// Indices of its objects.
    pub objects: BTreeSet<usize>,
    /// Indices of its hooks.
    pub hooks: BTreeSet<usize>,
    /// Its declarations about members.
    pub members: bool,
    /// Its declarations about operations.
    pub operations: bool,
    /// The fields of the status that it names.
    pub status_fields: bool,
    /// For a deletion: the rendered replacements of hooks and declarations about members that do not count.
    pub instead: Option<Arc<Instead>>,
}

/// The parts of a rendered chart that a deletion needs.
#[derive(Debug, PartialEq)]
pub struct Instead {
    pub hooks: Vec<Hook>,
    /// Its declarations about members.
    pub members: Option<Arc<Members>>,
}

impl LeftOut {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The objects of the record that count.
    pub fn objects(&self, record: &Record) -> Result<Vec<Object>, RecordError> {
        let all = record.objects()?.into_iter().enumerate();
        Ok(all.filter(|(at, _)| !self.objects.contains(at)).map(|(_, object)| object).collect())
    }

    /// The objects of the record that do not count.
    pub fn others(&self, record: &Record) -> Result<Vec<Object>, RecordError> {
        let all = record.objects()?.into_iter().enumerate();
        Ok(all.filter(|(at, _)| self.objects.contains(at)).map(|(_, object)| object).collect())
    }

    /// The hooks of the record. A hook that does not count keeps its place but has no events.
    pub fn hooks(&self, mut hooks: Vec<HookRecord>) -> Vec<HookRecord> {
        for (at, hook) in hooks.iter_mut().enumerate() {
            if self.hooks.contains(&at) {
                hook.events.clear();
            }
        }
        hooks
    }
}

impl PerRelease<BTreeMap<u64, Compared>, Key> {
    /// Enters a record that this process wrote or compared.
    pub fn enter(&self, owner: &Owner, revision: &Revision, left_out: LeftOut) {
        let known = Compared {
            uid: revision.uid.clone(),
            version: revision.resource_version.clone(),
            left_out: Arc::new(left_out),
        };
        self.lock().entry(key(owner)).or_default().insert(revision.revision, known);
    }

    /// The parts of a record that do not count. Returns `None` if another client has written the record since it was
    /// compared.
    pub fn get(&self, owner: &Owner, revision: &Revision) -> Option<Arc<LeftOut>> {
        let all = self.lock();
        let known = all.get(&key(owner))?.get(&revision.revision)?;
        let is_it = known.uid == revision.uid && known.version == revision.resource_version;
        is_it.then(|| Arc::clone(&known.left_out))
    }

    /// Whether the whole of a record counts.
    pub fn has(&self, owner: &Owner, revision: &Revision) -> bool {
        self.get(owner, revision).is_some_and(|left_out| left_out.is_empty())
    }

    /// Drops a deleted revision.
    pub fn forget_revision(&self, owner: &Owner, revision: u64) {
        if let Some(known) = self.lock().get_mut(&key(owner)) {
            known.remove(&revision);
        }
    }
}

fn key(owner: &Owner) -> Key {
    (Arc::clone(&owner.release_namespace), Arc::clone(&owner.release_name))
}

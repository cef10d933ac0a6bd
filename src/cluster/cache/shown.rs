//! The parts of objects that the caches keep for the status: only the values at the paths that releases name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::{Cache, Inner};
use crate::object::ObjectId;
use crate::object::field_path::FieldPath;
use crate::release::status_fields::{FieldSource, StatusFields, is_secret, is_too_long};

/// Namespace and name of a release.
type Release = (Arc<str>, Arc<str>);

/// Bytes of the values that are kept of one object.
const MAX_KEPT: usize = 16 << 10;

/// The paths that releases name.
#[derive(Default)]
pub(super) struct Wanted {
    /// The paths by object.
    paths: HashMap<ObjectId, BTreeMap<Release, Vec<FieldPath>>>,
    /// The encoded document of each release.
    documents: HashMap<Release, Arc<str>>,
}

impl Wanted {
    /// Sets the document of a release; `None` if it has none.
    fn set(&mut self, release: &Release, document: Option<&Arc<str>>) {
        if self.documents.get(release) == document {
            return;
        }
        if self.documents.remove(release).is_some() {
            self.paths.retain(|_, paths| {
                paths.remove(release);
                !paths.is_empty()
            });
        }
        let Some(document) = document else { return };
        self.documents.insert(release.clone(), Arc::clone(document));
        let Some(read) = StatusFields::decode(document) else { return };
        for field in read.fields {
            let FieldSource::From(place) = field.source else { continue };
            for id in place.candidates(&release.0) {
                let paths = self.paths.entry(id).or_default().entry(release.clone()).or_default();
                if !paths.contains(&place.path) {
                    paths.push(place.path.clone());
                }
            }
        }
    }

    /// The values that are kept of an object, at the paths that releases name.
    pub(super) fn of(&self, id: &ObjectId, object: &Value) -> BTreeMap<Box<str>, Option<Value>> {
        let mut kept = BTreeMap::new();
        let Some(wanted) = self.paths.get(id).filter(|_| !is_secret(&id.gvk)) else { return kept };
        let mut left = MAX_KEPT;
        for path in wanted.values().flatten() {
            let found = path.find(object).filter(|value| !is_too_long(value));
            let found = found.filter(|value| {
                let bytes = value.as_str().map_or_else(|| value.to_string().len(), str::len);
                left.checked_sub(bytes).inspect(|rest| left = *rest).is_some()
            });
            kept.entry(path.as_str().into()).or_insert_with(|| found.cloned());
        }
        kept
    }
}

impl Inner {
    /// Follows the newest revision of a release.
    pub(super) fn follow_document(&mut self, namespace: &Arc<str>, name: &Arc<str>) {
        let release = (Arc::clone(namespace), Arc::clone(name));
        let newest = self.history.get(&release).and_then(|history| history.values().last());
        let document = newest.and_then(|newest| newest.status_fields.clone());
        self.wanted.set(&release, document.as_ref());
    }
}

impl Cache {
    /// Sets the document of a release before its record has it, so that the answers to the writes of its objects are looked at.
    pub fn want(&self, namespace: &Arc<str>, name: &Arc<str>, document: &Arc<str>) {
        self.write().wanted.set(&(Arc::clone(namespace), Arc::clone(name)), Some(document));
    }

    /// The known objects in which paths of a release were not looked at: they became known before the document.
    pub fn not_looked_at(&self, document: &StatusFields, namespace: &str) -> BTreeSet<ObjectId> {
        let inner = self.lock();
        let mut found = BTreeSet::new();
        for field in &document.fields {
            let FieldSource::From(place) = &field.source else { continue };
            for id in place.candidates(namespace) {
                let Some(entry) = inner.objects.get(&id.gvk).and_then(|objects| objects.get(&id)) else { continue };
                if !entry.live.shown.fields.contains_key(place.path.as_str()) {
                    found.insert(id);
                }
            }
        }
        found
    }
}

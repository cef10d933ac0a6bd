//! The content of a revision: each applied object with the API server's own answer as its reference.
//!
//! It is kept in an annotation of the newest release Secret. So a metadata watch is enough to know, also after a
//! restart, whether anything changed and which object did (docs/design/applying.md A1; the inventory holds the objects digest of that
//! rule object by object).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::object::{Gvk, ObjectId};

/// The reference of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// [`owned::digest`](super::owned::digest) of the API server's answer to our apply.
    pub digest: Box<str>,
    /// It is a Job or a Pod that was seen to finish: when it is deleted, it is not created again.
    pub finished: bool,
}

/// The objects of a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory(pub BTreeMap<ObjectId, Reference>);

const FINISHED: &str = " finished";

/// Bytes that an inventory may take: Kubernetes allows 256 KiB for all annotations of an object.
pub const MAX_BYTES: usize = 200 * 1024;

impl Inventory {
    /// One line per kind, `GROUP/VERSION/KIND`, then one per object, indented: `NAMESPACE NAME UID DIGEST`, with `-`
    /// for no namespace and ` finished` at the end of an object that was seen to end. A person can read it with
    /// `kubectl describe`.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let mut last: Option<&Gvk> = None;
        for (id, reference) in &self.0 {
            if last != Some(&id.gvk) {
                let _ = writeln!(text, "{}/{}/{}", id.gvk.group, id.gvk.version, id.gvk.kind);
                last = Some(&id.gvk);
            }
            let namespace = id.namespace.as_deref().unwrap_or("-");
            let finished = if reference.finished { FINISHED } else { "" };
            let _ = writeln!(text, " {namespace} {} {} {}{finished}", id.name, reference.uid, reference.digest);
        }
        text
    }

    /// Reads what [`Inventory::encode`] wrote; `None` for anything else, which means that nothing is known.
    pub fn decode(text: &str) -> Option<Self> {
        let mut objects = BTreeMap::new();
        let mut gvk: Option<Gvk> = None;
        for line in text.lines() {
            if let Some(object) = line.strip_prefix(' ') {
                let mut words = object.split(' ');
                let (namespace, name, uid, digest) = (words.next()?, words.next()?, words.next()?, words.next()?);
                let namespace = (namespace != "-").then(|| namespace.into());
                let id = ObjectId { gvk: gvk.clone()?, namespace, name: name.into() };
                let finished = words.next() == Some(FINISHED.trim());
                objects.insert(id, Reference { uid: uid.into(), digest: digest.into(), finished });
            } else {
                let mut parts = line.splitn(3, '/');
                gvk = Some(Gvk::new(parts.next()?, parts.next()?, parts.next()?));
            }
        }
        Some(Self(objects))
    }

    /// The kinds in use, with the namespaces that hold objects of them.
    pub fn kinds(&self) -> BTreeSet<(Gvk, Option<std::sync::Arc<str>>)> {
        self.0.keys().map(|id| (id.gvk.clone(), id.namespace.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Inventory, Reference};
    use crate::object::{Gvk, ObjectId};

    #[test]
    fn what_is_written_is_read_back() {
        let id = |gvk: &Gvk, namespace: Option<&str>, name: &str| ObjectId {
            gvk: gvk.clone(),
            namespace: namespace.map(Into::into),
            name: name.into(),
        };
        let (role, map) = (Gvk::new("rbac.authorization.k8s.io", "v1", "ClusterRole"), Gvk::new("", "v1", "ConfigMap"));
        let reference = |digest: &str| Reference { uid: "u-1".into(), digest: digest.into(), finished: digest == "3" };
        let inventory = Inventory(
            [
                (id(&role, None, "system:a"), reference("1")),
                (id(&map, Some("x"), "a"), reference("2")),
                (id(&map, Some("y"), "a"), reference("3")),
            ]
            .into(),
        );
        assert_eq!(Inventory::decode(&inventory.encode()), Some(inventory.clone()));
        assert_eq!(inventory.kinds().len(), 3);
    }

    #[test]
    fn text_that_is_no_inventory_is_not_taken_for_one() {
        for text in ["hello", " a b c d", "/v1/ConfigMap\n a b"] {
            assert_eq!(Inventory::decode(text), None, "{text}");
        }
    }
}

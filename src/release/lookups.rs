//! The lookups of the templates of a release. It is an input of the release that no other digest covers
//! (docs/design/applying.md A4).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;

use super::digest::Hasher;
use crate::object::{Gvk, ObjectId};

/// Limit of the lookups that are remembered for one release. Lookups beyond it are read in a rendering only.
const MAX: usize = 200;

/// Objects, and lists of them (without a name), with the version in which they were read: `UID/RESOURCE_VERSION`, a digest of a list's
/// objects, nothing for an object that did not exist, or [`UNREAD`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lookups(BTreeMap<ObjectId, Box<str>>);

impl Lookups {
    /// Something was read.
    pub fn enter(&mut self, id: ObjectId, version: Box<str>) {
        let can_exist = |name: &str| !name.contains(char::is_whitespace);
        if can_exist(&id.name) && id.namespace.as_deref().is_none_or(can_exist) && self.0.len() < MAX {
            self.0.insert(id, version);
        }
    }

    /// Removes the release's own objects, which would be inputs of themselves.
    pub fn leave_out<'a>(&mut self, own: impl IntoIterator<Item = &'a ObjectId>) {
        for id in own {
            self.0.remove(id);
        }
    }

    /// Nothing was looked up.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The version in which this was read.
    pub fn get(&self, id: &ObjectId) -> Option<&str> {
        self.0.get(id).map(|version| &**version)
    }

    /// Each with its version.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectId, &str)> {
        self.0.iter().map(|(id, version)| (id, &**version))
    }

    /// Whether others read the same things, perhaps in other versions.
    pub fn is_of_the_same(&self, other: &Self) -> bool {
        self.0.keys().eq(other.0.keys())
    }

    /// As an annotation: `GROUP/VERSION/KIND NAMESPACE NAME VERSION` a line, with `-` for no namespace and no version, and `*` for a list.
    pub fn encode(&self) -> Option<String> {
        let mut text = String::new();
        for (id, version) in self.iter() {
            let ObjectId { gvk: Gvk { group, version: of, kind }, namespace, name } = id;
            let namespace = namespace.as_deref().unwrap_or("-");
            let name = if is_list(id) { "*" } else { name };
            let version = if version.is_empty() { "-" } else { version };
            let _ = writeln!(text, "{group}/{of}/{kind} {namespace} {name} {version}");
        }
        (!text.is_empty()).then_some(text)
    }

    /// Reads [`Lookups::encode`]; lines that say nothing are left out.
    pub fn decode(text: &str) -> Self {
        let line = |line: &str| {
            let mut words = line.split(' ');
            let mut gvk = words.next()?.splitn(3, '/');
            let gvk = Gvk::new(gvk.next()?, gvk.next()?, gvk.next()?);
            let namespace = Some(words.next()?).filter(|n| *n != "-").map(Arc::from);
            let name = Some(words.next()?).filter(|n| *n != "*").unwrap_or_default().into();
            let version = Some(words.next()?).filter(|v| *v != "-").unwrap_or_default().into();
            Some((ObjectId { gvk, namespace, name }, version))
        };
        Self(text.lines().filter_map(line).collect())
    }
}

/// The version of what could not be read. Any other version is a change.
pub const UNREAD: &str = "?";

/// Whether a lookup named no object.
pub fn is_list(id: &ObjectId) -> bool {
    id.name.is_empty()
}

/// The version of what a lookup found; `None` for an object of the release itself.
pub fn version(id: &ObjectId, found: Option<&Value>, is_own: impl Fn(&Value) -> bool) -> Option<Box<str>> {
    match found {
        None => Some(Box::default()),
        Some(list) if is_list(id) => {
            let items = list.get("items").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let mut versions: Vec<String> = items.iter().filter(|item| !is_own(item)).map(of_object).collect();
            versions.sort_unstable();
            let mut hasher = Hasher::default();
            for version in versions {
                hasher.text(version);
            }
            Some(hasher.finish_short(16).into())
        }
        Some(object) if is_own(object) => None,
        Some(object) => Some(of_object(object).into()),
    }
}

fn of_object(object: &Value) -> String {
    let text = |key: &str| object.pointer(key).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}", text("/metadata/uid"), text("/metadata/resourceVersion"))
}

/// Whether the present state differs from the state that was read. A watch that is behind is not a change.
pub fn is_change(read: &str, now: &str) -> bool {
    let parts = |version: &str| {
        let (uid, number) = version.split_once('/')?;
        Some((uid.to_owned(), number.parse::<u64>().ok()?))
    };
    match (parts(read), parts(now)) {
        (Some((of, read)), Some((uid, now))) if of == uid => now > read,
        _ => read != now,
    }
}

#[cfg(test)]
mod tests {
    use super::{Lookups, MAX, UNREAD, is_change, version};
    use crate::object::{Gvk, ObjectId};
    use serde_json::{Value, json};

    fn id(group: &str, kind: &str, namespace: Option<&str>, name: &str) -> ObjectId {
        ObjectId { gvk: Gvk::new(group, "v1", kind), namespace: namespace.map(Into::into), name: name.into() }
    }

    /// A4.
    #[test]
    fn what_is_written_is_read_back() {
        let mut lookups = Lookups::default();
        assert_eq!(lookups.encode(), None);
        lookups.enter(id("", "Secret", Some("a"), "b"), "u/1".into());
        lookups.enter(id("apps", "Deployment", Some("a"), ""), "d".into());
        lookups.enter(id("", "Node", None, "n"), "".into());
        lookups.enter(id("", "Node", None, "no name"), "".into());
        let text = lookups.encode().unwrap();
        assert_eq!(text, "/v1/Node - n -\n/v1/Secret a b u/1\napps/v1/Deployment a * d\n");
        assert_eq!(Lookups::decode(&text), lookups);
        assert!(Lookups::decode("nonsense\n/v1/Secret a\n").is_empty());
        let own = id("", "Secret", Some("a"), "b");
        let mut others = lookups.clone();
        others.leave_out([&own]);
        assert!(!others.is_of_the_same(&lookups) && others.iter().count() == 2);
        others.enter(own, "u/2".into());
        assert!(others.is_of_the_same(&lookups) && others != lookups);
        for n in 0..2 * MAX {
            others.enter(id("", "Secret", None, &n.to_string()), "".into());
        }
        assert_eq!(others.iter().count(), MAX);
    }

    /// A4.
    #[test]
    fn a_list_is_what_others_have_in_it_in_any_order() {
        let item = |uid: &str, version: &str| json!({"metadata": {"uid": uid, "resourceVersion": version}});
        let list = |items: &[Value]| {
            let own = |item: &Value| item["metadata"]["uid"] == "own";
            version(&id("", "Pod", Some("a"), ""), Some(&json!({"items": items})), own).unwrap()
        };
        let before = list(&[item("a", "1"), item("b", "2")]);
        assert_eq!(list(&[item("own", "5"), item("b", "2"), item("a", "1")]), before);
        assert_ne!(list(&[item("a", "1"), item("b", "3")]), before);
        assert_ne!(list(&[item("a", "1")]), before);
    }

    /// A4.
    #[test]
    fn a_watch_that_is_behind_is_no_change() {
        for (read, now, expected) in [
            ("u/5", "u/5", false),
            ("u/5", "u/4", false),
            ("u/5", "u/10", true),
            ("u/5", "w/4", true),
            ("u/5", "", true),
            ("", "u/4", true),
            ("", "", false),
            ("abc", "abd", true),
            (UNREAD, "u/4", true),
            (UNREAD, "", true),
        ] {
            assert_eq!(is_change(read, now), expected, "{read:?} {now:?}");
        }
    }
}

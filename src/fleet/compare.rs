//! The objects in which two renderings of a custom resource differ.

use indexmap::IndexMap;
use serde_json::Value;

use super::fields::{Differences, FieldDifference, Versions, differences};
use crate::object::ObjectId;

/// An object of a rendering.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetObject {
    /// Its identity.
    pub id: ObjectId,
    /// Its content.
    pub body: Value,
    /// It is a hook, or a declaration of the chart.
    pub is_hook: bool,
    /// It stays when the chart no longer has it.
    pub is_kept: bool,
}

/// The objects of a custom resource at one time.
#[derive(Clone, Debug, Default)]
pub struct FleetDrawing {
    pub objects: Vec<FleetObject>,
    /// The objects with other random values; `None` if nothing is random.
    pub again: Option<Vec<FleetObject>>,
}

/// The change of the existence of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existence {
    /// It is new.
    Created,
    /// It is deleted.
    Deleted,
    /// The chart no longer has it, and it stays.
    LeftBehind,
    /// It exists now and then.
    Same,
}

/// An object that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectDelta {
    /// Its identity then; now, for one that is gone.
    pub id: ObjectId,
    /// It is a hook, or a declaration of the chart.
    pub is_hook: bool,
    /// Whether it exists.
    pub existence: Existence,
    /// The fields that differ, if it exists now and then.
    pub fields: Vec<FieldDifference>,
    /// Its content now.
    pub now: Option<Value>,
    /// Its content then.
    pub then: Option<Value>,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compared {
    /// The objects that differ, in the order of the rendering.
    pub deltas: Vec<ObjectDelta>,
    /// Objects, each with the path of a random field.
    pub by_chance: Vec<(ObjectId, String)>,
}

/// The mark in a name in place of its random part.
const RANDOM: &str = "{random}";

/// Compares the objects of a custom resource now and then.
pub fn compare(mut now: FleetDrawing, mut then: FleetDrawing) -> Compared {
    now.make_names_steady();
    then.make_names_steady();
    let (now, then) = (Sides::new(now), Sides::new(then));
    let mut compared = Compared::default();
    for (key, object) in &then.objects {
        let versions = Versions {
            now: now.objects.get(key).map(|object| &object.body),
            then: Some(&object.body),
            now_again: now.again.get(key).map(|object| &object.body),
            then_again: then.again.get(key).map(|object| &object.body),
        };
        let existence = if versions.now.is_some() { Existence::Same } else { Existence::Created };
        let Differences { fields, by_chance } = match existence {
            Existence::Same => differences(versions),
            _ => Differences::default(),
        };
        compared.by_chance.extend(by_chance.into_iter().map(|path| (object.id.clone(), path)));
        if existence == Existence::Same && fields.is_empty() {
            continue;
        }
        compared.deltas.push(ObjectDelta {
            id: object.id.clone(),
            is_hook: object.is_hook,
            existence,
            fields,
            now: versions.now.cloned(),
            then: versions.then.cloned(),
        });
    }
    let gone = now.objects.into_iter().filter(|(key, _)| !then.objects.contains_key(key));
    compared.deltas.extend(gone.map(|(_, object)| of_gone(object)));
    compared
}

fn of_gone(object: FleetObject) -> ObjectDelta {
    ObjectDelta {
        id: object.id,
        is_hook: object.is_hook,
        existence: if object.is_kept { Existence::LeftBehind } else { Existence::Deleted },
        fields: Vec::new(),
        now: Some(object.body),
        then: None,
    }
}

/// What an object is found again by: in any version of its group.
type Key = (bool, String, String, Option<String>, String);

fn key(object: &FleetObject) -> Key {
    let (group, kind, namespace, name) = object.id.in_any_version();
    (object.is_hook, group.to_owned(), kind.to_owned(), namespace.map(str::to_owned), name.to_owned())
}

/// The objects of one time, by their keys. Of two with the same key the last one counts, as in a release.
struct Sides {
    objects: IndexMap<Key, FleetObject>,
    again: IndexMap<Key, FleetObject>,
}

impl Sides {
    fn new(drawing: FleetDrawing) -> Self {
        let by_key = |objects: Vec<FleetObject>| objects.into_iter().map(|object| (key(&object), object)).collect();
        Self { objects: by_key(drawing.objects), again: by_key(drawing.again.unwrap_or_default()) }
    }
}

impl FleetDrawing {
    /// Replaces the random parts of names, so that an object is found again by its name.
    fn make_names_steady(&mut self) {
        let Some(again) = self.again.as_mut().filter(|again| again.len() == self.objects.len()) else { return };
        for (one, other) in self.objects.iter_mut().zip(again) {
            if one.id.gvk != other.id.gvk || one.id.name == other.id.name {
                continue;
            }
            let steady = steady(&one.id.name, &other.id.name);
            for object in [one, other] {
                object.id.name = steady.as_str().into();
                if let Some(name) = object.body.pointer_mut("/metadata/name") {
                    *name = steady.as_str().into();
                }
            }
        }
    }
}

/// The common beginning and end of two names, with a mark between them.
fn steady(one: &str, other: &str) -> String {
    let begin: String = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c).collect();
    let (rest, other) = (&one[begin.len()..], &other[begin.len()..]);
    let end = rest.chars().rev().zip(other.chars().rev()).take_while(|(a, b)| a == b).count();
    let end: String = rest.chars().skip(rest.chars().count() - end).collect();
    format!("{begin}{RANDOM}{end}")
}

#[cfg(test)]
mod tests {
    use super::{Compared, Existence, FleetDrawing, FleetObject, compare};
    use crate::object::{Gvk, ObjectId};
    use serde_json::{Value, json};

    fn object(api_version: &str, kind: &str, name: &str, data: &Value) -> FleetObject {
        let gvk = Gvk::from_api_version(api_version, kind);
        let id = ObjectId { gvk, namespace: Some("ns".into()), name: name.into() };
        let body = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "data": data});
        FleetObject { id, body, is_hook: false, is_kept: false }
    }

    fn compared(now: &[FleetObject], then: &[FleetObject]) -> Vec<(String, Existence, Vec<String>)> {
        let drawing = |objects: &[FleetObject]| FleetDrawing { objects: objects.to_vec(), again: None };
        let row = |delta: super::ObjectDelta| {
            (delta.id.to_string(), delta.existence, delta.fields.into_iter().map(|field| field.path).collect())
        };
        compare(drawing(now), drawing(then)).deltas.into_iter().map(row).collect()
    }

    #[test]
    fn objects_come_go_stay_and_change() {
        let map = |name: &str, data: i32| object("v1", "ConfigMap", name, &json!(data));
        let kept = FleetObject { is_kept: true, ..map("kept", 1) };
        let found = compared(
            &[map("same", 1), map("a", 1), map("gone", 1), kept],
            &[map("a", 2), map("new", 1), map("same", 1)],
        );
        let expected = [
            ("ConfigMap a".to_owned(), Existence::Same, vec!["data".to_owned()]),
            ("ConfigMap new".to_owned(), Existence::Created, vec![]),
            ("ConfigMap gone".to_owned(), Existence::Deleted, vec![]),
            ("ConfigMap kept".to_owned(), Existence::LeftBehind, vec![]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_object_in_another_version_of_its_group_is_the_same_object() {
        let of = |version: &str| object(version, "HorizontalPodAutoscaler", "a", &json!(1));
        let found = compared(&[of("autoscaling/v1")], &[of("autoscaling/v2")]);
        let expected = ("HorizontalPodAutoscaler a".to_owned(), Existence::Same, vec!["apiVersion".to_owned()]);
        assert_eq!(found, [expected]);
    }

    #[test]
    fn an_object_with_a_random_name_is_found_again() {
        let job = |name: &str, data: i32| object("batch/v1", "Job", name, &json!(data));
        let drawing = |one: &str, other: &str, data: i32| FleetDrawing {
            objects: vec![job(one, data)],
            again: Some(vec![job(other, data)]),
        };
        let found = compare(drawing("a-x1-j", "a-y2-j", 1), drawing("a-z3-j", "a-w4-j", 2));
        let Compared { deltas, by_chance } = found;
        let [delta] = deltas.as_slice() else { panic!("{deltas:?}") };
        assert_eq!((&*delta.id.name, delta.existence), ("a-{random}-j", Existence::Same));
        assert_eq!(delta.fields.iter().map(|field| field.path.as_str()).collect::<Vec<_>>(), ["data"]);
        assert!(by_chance.is_empty());
    }
}

//! The fields of the status that a chart names in its `Status` documents: their values, from the known facts.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::members::progress::MembersStatus;
use crate::object::ObjectId;
use crate::release::inventory::Inventory;
use crate::release::live::Live;
use crate::release::status_fields::{Field, FieldSource, RESERVED, StatusFields, is_too_long, names_in};

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FoundField {
    /// It is this.
    Is(Value),
    /// There is none.
    Absent,
    /// It is not known now: the status keeps what it has.
    Unknown,
}

/// The facts about a release.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The namespace of the release.
    pub namespace: &'a str,
    /// The objects of its newest revision.
    pub inventory: Option<&'a Inventory>,
    /// Those that the caches know.
    pub live: &'a BTreeMap<ObjectId, Live>,
    /// The pass's findings about members, if it looked at them.
    pub members: Option<&'a MembersStatus>,
}

/// The values of all fields. Only objects that belong to the release count.
pub fn evaluate(
    document: &StatusFields,
    seen: &Seen<'_>,
    is_ours: impl Fn(&Live) -> bool,
) -> Vec<(String, FoundField)> {
    let value = |field: &Field| {
        let found = match &field.source {
            FieldSource::Value(value) => Some(Some(value)),
            FieldSource::From(place) => seen.inventory.and_then(|inventory| {
                let Some(id) = inventory.0.keys().find(|id| place.is(id, seen.namespace)) else { return Some(None) };
                // An object that is missing is made again soon.
                let live = seen.live.get(id).filter(|live| is_ours(live))?;
                live.shown.fields.get(place.path.as_str()).map(Option::as_ref)
            }),
            FieldSource::Members { document, field } => seen
                .members
                .and_then(|members| members.facts.get(document))
                .and_then(|facts| facts.get(field))
                .map(Some),
        };
        match found {
            None => FoundField::Unknown,
            Some(found) => {
                let fit = found.and_then(|value| field.kind.fit(value)).filter(|value| !is_too_long(value));
                fit.map_or(FoundField::Absent, FoundField::Is)
            }
        }
    };
    document.fields.iter().map(|field| (field.name.clone(), value(field))).collect()
}

/// Whether the values differ from those of a status.
pub fn is_news(fields: &[(String, FoundField)], status: &Map<String, Value>) -> bool {
    fields.iter().any(|(name, found)| match found {
        FoundField::Is(value) => status.get(name) != Some(value),
        FoundField::Absent => status.contains_key(name),
        FoundField::Unknown => false,
    })
}

/// Enters the values into a status, and removes those that the chart no longer names.
pub fn enter(status: &mut Map<String, Value>, fields: &[(String, FoundField)]) {
    let is_named = |name: &str| fields.iter().any(|(field, _)| field == name);
    let left: Vec<String> = names_in(status).filter(|name| !is_named(name)).map(str::to_owned).collect();
    for name in left {
        status.remove(&name);
    }
    for (name, found) in fields.iter().filter(|(name, _)| !RESERVED.contains(&name.as_str())) {
        match found {
            FoundField::Is(value) => drop(status.insert(name.clone(), value.clone())),
            FoundField::Absent => drop(status.remove(name)),
            FoundField::Unknown => {}
        }
    }
    if let Some(Value::Object(release)) = status.get_mut("release") {
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        if names.is_empty() {
            release.remove("statusFields");
        } else {
            release.insert("statusFields".into(), names.into());
        }
    }
}

/// Removes all fields of the chart from a status.
pub fn remove(status: &mut Map<String, Value>) {
    enter(status, &[]);
}

#[cfg(test)]
mod tests {
    use super::{FoundField, Seen, enter, evaluate, is_news, remove};
    use crate::members::progress::MembersStatus;
    use crate::object::field_path::FieldPath;
    use crate::object::{Gvk, ObjectId};
    use crate::release::inventory::{Inventory, Reference};
    use crate::release::live::Live;
    use crate::release::status_fields::{Field, FieldPlace, FieldSource, FieldType, StatusFields};
    use serde_json::{Map, Value, json};
    use std::collections::BTreeMap;

    fn field(name: &str, kind: FieldType, source: FieldSource) -> Field {
        Field { name: name.into(), kind, source, column: false, description: None }
    }

    fn from(path: &str) -> FieldSource {
        let path = FieldPath::parse(path).unwrap();
        FieldSource::From(FieldPlace {
            api_version: "v1".into(),
            kind: "Service".into(),
            namespace: None,
            name: "web".into(),
            path,
        })
    }

    fn map(value: Value) -> Map<String, Value> {
        let Value::Object(map) = value else { panic!("{value}") };
        map
    }

    #[test]
    fn each_source_gives_its_value_and_what_is_not_known_stays() {
        let members = FieldSource::Members { document: "db".into(), field: "ready".into() };
        let document = StatusFields {
            fields: vec![
                field("endpoint", FieldType::String, FieldSource::Value(json!("web:80"))),
                field("port", FieldType::String, from(".spec.port")),
                field("ip", FieldType::String, from(".status.ip")),
                field("wrong", FieldType::Integer, from(".spec.type")),
                field("later", FieldType::String, from(".spec.later")),
                field("ready", FieldType::Integer, members),
            ],
        };
        let id = ObjectId { gvk: Gvk::new("", "v1", "Service"), namespace: Some("ns".into()), name: "web".into() };
        let mut live = Live::example();
        let shown = [(".spec.port", Some(json!(80))), (".status.ip", None), (".spec.type", Some(json!("ClusterIP")))];
        live.shown.fields = shown.into_iter().map(|(path, value)| (path.into(), value)).collect();
        let live = BTreeMap::from([(id.clone(), live)]);
        let inventory =
            Inventory(BTreeMap::from([(id, Reference { uid: "u".into(), digest: "d".into(), finished: false })]));
        let mut members = MembersStatus::default();
        members.facts.insert("db".into(), map(json!({"ready": 2})));
        let seen = Seen { namespace: "ns", inventory: Some(&inventory), live: &live, members: Some(&members) };
        let found = evaluate(&document, &seen, |_| true);
        let values: Vec<&FoundField> = found.iter().map(|(_, found)| found).collect();
        let expected = [
            FoundField::Is(json!("web:80")),
            FoundField::Is(json!("80")),
            FoundField::Absent,
            FoundField::Absent,
            FoundField::Unknown,
            FoundField::Is(json!(2)),
        ];
        assert_eq!(values, expected.iter().collect::<Vec<_>>());
        let mut status = map(json!({"phase": "Old", "ip": "10.0.0.1", "later": "kept", "conditions": [],
            "release": {"revision": 1, "statusFields": ["phase", "ip", "conditions"]}}));
        assert!(is_news(&found, &status));
        enter(&mut status, &found);
        let names = ["endpoint", "port", "ip", "wrong", "later", "ready"];
        let expected = json!({"endpoint": "web:80", "port": "80", "later": "kept", "ready": 2, "conditions": [],
            "release": {"revision": 1, "statusFields": names}});
        assert_eq!(Value::Object(status.clone()), expected);
        assert!(!is_news(&found, &status));
        remove(&mut status);
        assert_eq!(Value::Object(status), json!({"conditions": [], "release": {"revision": 1}}));
        // An object of another owner shows nothing, and neither does an unknown object.
        let found = evaluate(&document, &Seen { members: None, ..seen }, |_| false);
        assert!(found[1..].iter().all(|(_, found)| *found == FoundField::Unknown), "{found:?}");
    }
}

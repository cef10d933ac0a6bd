//! The differences of one custom resource as entries: what they do, to which object, and the values as texts without secrets.

use serde_json::Value;

use super::compare::{Compared, ObjectDelta};
use super::effect::{Effect, of_field, of_object};
use crate::mask::secret_data::{HIDDEN, HIDDEN_CHANGE, hide};
use crate::object::ObjectId;
use crate::template::yaml;

/// The object of an entry, or the custom resource itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FleetSubject {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// Name; empty for the custom resource itself.
    pub name: String,
}

impl FleetSubject {
    /// An object.
    pub fn of(id: &ObjectId) -> Self {
        Self {
            group: id.gvk.group.to_string(),
            kind: id.gvk.kind.to_string(),
            namespace: id.namespace.as_deref().unwrap_or_default().to_owned(),
            name: id.name.to_string(),
        }
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FleetEntry {
    /// What it does.
    pub effect: Effect,
    /// To which object.
    pub subject: FleetSubject,
    /// The field; empty if the entry is about the whole object.
    pub path: String,
    /// The value now, as text.
    pub before: Option<String>,
    /// The value then, as text; for a whole custom resource the reason.
    pub after: Option<String>,
}

/// An entry, and the whole object as YAML for one that is created.
pub type WithBody = (FleetEntry, Option<String>);

/// Removes secrets from a text. `None` if too much of it may be secret.
pub type Masked<'m> = &'m dyn Fn(&str) -> Option<String>;

/// The text in place of one that may be secret as a whole.
const WITHHELD: &str = "(not shown: too much of it may be secret)";

/// The entries of a comparison. `may_recreate`: the custom resource allows recreating objects.
pub fn entries(compared: &Compared, may_recreate: bool, masked: Masked<'_>) -> Vec<WithBody> {
    compared.deltas.iter().flat_map(|delta| of_delta(delta, may_recreate, masked)).collect()
}

fn of_delta(delta: &ObjectDelta, may_recreate: bool, masked: Masked<'_>) -> Vec<WithBody> {
    let subject = FleetSubject::of(&delta.id);
    let show = |text: String| masked(&text).unwrap_or_else(|| WITHHELD.to_owned());
    if let Some(effect) = of_object(delta) {
        let body = delta.then.as_ref().map(|body| show(written(&delta.id, body)));
        return vec![(FleetEntry { effect, subject, path: String::new(), before: None, after: None }, body)];
    }
    let of = |field: &super::fields::FieldDifference| {
        let (before, after) = if is_data(&delta.id, &field.path) {
            let changed = if field.before.is_some() { HIDDEN_CHANGE } else { HIDDEN };
            (field.before.as_ref().map(|_| HIDDEN.to_owned()), field.after.as_ref().map(|_| changed.to_owned()))
        } else {
            let before = field.before.as_ref().map(|value| show(text(value)));
            let after = field.after.as_ref().map(|value| show(text(value)));
            // Only a secret in it changes.
            let is_hidden = before == after;
            (before, after.map(|text| if is_hidden { format!("{text} (changed)") } else { text }))
        };
        let effect = of_field(delta, field, may_recreate);
        (FleetEntry { effect, subject: subject.clone(), path: show(field.path.clone()), before, after }, None)
    };
    delta.fields.iter().map(of).collect()
}

/// Whether a field is part of the data of a Secret.
fn is_data(id: &ObjectId, path: &str) -> bool {
    is_secret(id) && (path.starts_with("data") || path.starts_with("stringData"))
}

/// Whether an object is a Secret.
pub fn is_secret(id: &ObjectId) -> bool {
    id.gvk.group.is_empty() && &*id.gvk.kind == "Secret"
}

/// A value as text: a text that could be read as something else is in quotes.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() || is_other(text) => Value::from(text.as_str()).to_string(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn is_other(text: &str) -> bool {
    ["true", "false", "null"].contains(&text)
        || text.parse::<f64>().is_ok()
        || !text.contains('\n') && text.trim() != text
}

/// An object as YAML, without the data of a Secret.
fn written(id: &ObjectId, body: &Value) -> String {
    let mut body = body.clone();
    if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
        metadata.shift_remove("ownerReferences");
    }
    if is_secret(id) {
        hide(None, Some(&mut body));
    }
    let text = yaml::of_json(&body);
    text.unwrap_or_else(|why| format!("# it cannot be written as YAML: {why}\n"))
}

#[cfg(test)]
mod tests {
    use super::entries;
    use crate::fleet::compare::{FleetDrawing, FleetObject, compare};
    use crate::object::{Gvk, ObjectId};
    use serde_json::{Value, json};

    fn drawing(kind: &str, body: Value) -> FleetDrawing {
        let id = ObjectId { gvk: Gvk::new("", "v1", kind), namespace: Some("ns".into()), name: "a".into() };
        FleetDrawing { objects: vec![FleetObject { id, body, is_hook: false, is_kept: false }], again: None }
    }

    fn lines(now: FleetDrawing, then: FleetDrawing) -> Vec<String> {
        let masked = |text: &str| Some(text.replace("hunter22", "****"));
        let all = entries(&compare(now, then), false, &masked);
        let line = |(entry, body): super::WithBody| {
            let side = |text: Option<String>| text.unwrap_or("-".to_owned());
            let line = format!("{} {} {} {}", entry.effect.word(), entry.path, side(entry.before), side(entry.after));
            body.map_or(line.clone(), |body| format!("{line} {body}"))
        };
        all.into_iter().map(line).collect()
    }

    #[test]
    fn the_data_of_a_secret_is_never_shown() {
        let of = |data: Value| drawing("Secret", json!({"kind": "Secret", "data": data}));
        let found = lines(of(json!({"a": "b25l", "c": "eA=="})), of(json!({"a": "dHdv", "b": "eQ=="})));
        assert_eq!(found, ["changed data.a *** *** (changed)", "changed data.c *** -", "changed data.b - ***"]);
        let whole = lines(of(json!({"a": "b25l"})), of(json!("eQ==")));
        assert_eq!(whole, ["changed data *** *** (changed)"]);
        let created = lines(FleetDrawing::default(), of(json!({"a": "eQ=="})));
        assert_eq!(created, ["created  - - data:\n  a: '***'\nkind: Secret\n"]);
    }

    #[test]
    fn a_text_of_a_secret_elsewhere_is_masked() {
        let of = |text: &str| drawing("ConfigMap", json!({"data": {"a": text}}));
        assert_eq!(lines(of("x"), of("p: hunter22")), ["changed data.a x p: ****"]);
        assert_eq!(lines(of("p: ****"), of("p: hunter22")), ["changed data.a p: **** p: **** (changed)"]);
    }

    #[test]
    fn a_text_that_looks_like_a_number_is_in_quotes() {
        let of = |value: Value| drawing("ConfigMap", json!({"data": value}));
        let table =
            [(json!("1"), "\"1\""), (json!(1), "1"), (json!(""), "\"\""), (json!("a b"), "a b"), (json!([1]), "[1]")];
        for (value, expected) in table {
            assert_eq!(lines(of(json!("old")), of(value)), [format!("changed data old {expected}")]);
        }
    }
}

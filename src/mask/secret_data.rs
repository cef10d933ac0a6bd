//! The data of a Secret for people: its keys, and which of them change.

use std::collections::BTreeMap;

use serde_json::Value;

/// The placeholder for the data of a Secret.
pub const HIDDEN: &str = "***";
/// The same, where it changes.
pub const HIDDEN_CHANGE: &str = "*** (changed)";

/// Replaces the data of a Secret, so that one sees which keys there are and which of them change.
pub fn hide(before: Option<&mut Value>, after: Option<&mut Value>) {
    let mut was: BTreeMap<String, Value> = BTreeMap::new();
    let each = |object: Option<&mut Value>, replace: &mut dyn FnMut(&str, &Value) -> &'static str| {
        let Some(object) = object else { return };
        for field in ["data", "stringData"] {
            match object.get_mut(field) {
                Some(Value::Object(data)) => {
                    for (key, value) in data {
                        *value = replace(key, value).into();
                    }
                }
                Some(other) if !other.is_null() => *other = HIDDEN.into(),
                _ => {}
            }
        }
    };
    each(before, &mut |key, value| {
        was.insert(key.to_owned(), value.clone());
        HIDDEN
    });
    each(after, &mut |key, value| if was.get(key).is_some_and(|was| was != value) { HIDDEN_CHANGE } else { HIDDEN });
}

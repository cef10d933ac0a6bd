//! `--objects`: the objects and fields that change with a value, found by rendering twice.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::chart::lines::at;
use crate::chart::{Values, values};
use crate::cli::common::error::CliError;
use crate::cli::common::line::line;
use crate::cli::common::values::Subject;
use crate::cli::common::values::paths::{joined, keys};
use crate::cli::common::values::rows::cut;
use crate::mask::MASK;
use crate::object::{Object, parse_manifest};
use crate::render::{Capabilities, Options, Release, render};

/// An object that changes.
pub(super) struct TouchedObject {
    kind: String,
    name: String,
    /// `created`, `deleted` or `changed`.
    change: &'static str,
    /// The fields that change: path, before and after.
    fields: Vec<(String, Value, Value)>,
}

/// A change of a value.
pub(super) struct ValueChange {
    path: Vec<String>,
    before: Value,
    after: Value,
}

impl ValueChange {
    /// The change of a value: to the text `to`, read as YAML, or to a different value of its type.
    pub(super) fn new(path: &str, to: Option<&str>, effective: &Values) -> Result<Self, CliError> {
        let path = keys(path);
        let before = at(effective, &path).cloned().unwrap_or_default();
        let after = match to {
            Some(text) => {
                crate::template::yaml::parse(text.as_bytes()).map_err(|_| CliError::new("--to is not YAML"))?
            }
            None => different(&before).ok_or_else(|| {
                let path = line(&joined(&path));
                CliError(format!("{path} is not a text, a number or a boolean: give the other value with --to"))
            })?,
        };
        if before == after {
            return Err(CliError(format!(
                "{} already has this value: give a different one with --to",
                line(&joined(&path))
            )));
        }
        Ok(Self { path, before, after })
    }

    /// The values with the change.
    fn applied(&self, given: &Values) -> Values {
        let mut changed = given.clone();
        let over = self
            .path
            .iter()
            .rev()
            .fold(self.after.clone(), |below, key| Value::Object(Map::from_iter([(key.clone(), below)])));
        if let Value::Object(over) = over {
            values::merge(&mut changed, over);
        }
        changed
    }
}

/// A value of the same type that differs.
fn different(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(is) => Some((!is).into()),
        Value::Number(number) => number
            .as_i64()
            .map(|n| Value::from(n.wrapping_add(1)))
            .or_else(|| number.as_f64().map(|n| (n + 1.0).into())),
        Value::String(text) => Some(format!("{text}-changed").into()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

type Rendering = BTreeMap<(String, String, String), Map<String, Value>>;

/// Renders twice and compares.
pub(super) fn touched(
    subject: &Subject,
    change: &ValueChange,
    is_secret: bool,
) -> Result<Vec<TouchedObject>, CliError> {
    let given = &subject.layers.given.merged;
    let before = rendered(subject, given)?;
    let after = rendered(subject, &change.applied(given)).map_err(|e| {
        CliError(format!("the chart does not render with the other value; give one that fits with --to: {e}"))
    })?;
    let none = Map::new();
    let mut touched = Vec::new();
    for key in before.keys().chain(after.keys().filter(|key| !before.contains_key(*key))) {
        let change = match (before.get(key), after.get(key)) {
            (Some(before), Some(after)) if before == after => continue,
            (Some(_), Some(_)) => "changed",
            (Some(_), None) => "deleted",
            (None, _) => "created",
        };
        let mut fields = Vec::new();
        if change == "changed" {
            let (before, after) = (before.get(key).unwrap_or(&none), after.get(key).unwrap_or(&none));
            let is_data =
                |path: &str| key.0 == "Secret" && (path.starts_with("data") || path.starts_with("stringData"));
            tables(before, after, "", &mut |path, before, after| {
                let show = |value: Option<&Value>| shown(value, is_secret || is_data(path), subject);
                fields.push((path.to_owned(), show(before), show(after)));
            });
        }
        let (kind, namespace, name) = key.clone();
        let name = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
        touched.push(TouchedObject { kind, name, change, fields });
    }
    Ok(touched)
}

/// The objects of a rendering, with its hooks, by kind, namespace and name.
fn rendered(subject: &Subject, values: &Values) -> Result<Rendering, CliError> {
    let (namespace, name) = &subject.release;
    let options = Options::for_a_look().skip_schema(true);
    let failed = |why: &str| CliError(line(&subject.layers.clean(why)));
    let release = Release::new(name.as_str(), namespace.as_str());
    let rendered = render(&subject.chart, values, &release, &Capabilities::default(), &options)
        .map_err(|e| failed(&e.to_string()))?;
    let mut objects = Rendering::new();
    for manifest in rendered.manifests.iter().chain(rendered.hooks.iter().map(|hook| &hook.manifest)) {
        for Object { gvk, namespace, name, body } in parse_manifest(&manifest.text).map_err(|e| failed(&e))? {
            objects.insert((gvk.kind.to_string(), namespace.unwrap_or_default(), name), body);
        }
    }
    Ok(objects)
}

/// A field as it may be shown, without texts from Secrets.
fn shown(value: Option<&Value>, is_secret: bool, subject: &Subject) -> Value {
    match value {
        None => Value::Null,
        Some(_) if is_secret => MASK.into(),
        Some(value) => subject.layers.clean_value(value),
    }
}

/// Takes the path of a field, and the field before and after.
type SeeField<'s> = dyn FnMut(&str, Option<&Value>, Option<&Value>) + 's;

/// Calls for each field that differs, with its path.
fn tables(before: &Map<String, Value>, after: &Map<String, Value>, path: &str, see: &mut SeeField<'_>) {
    for key in before.keys().chain(after.keys().filter(|key| !before.contains_key(*key))) {
        let own = joined(std::slice::from_ref(key));
        let path = if path.is_empty() { own } else { format!("{path}.{own}") };
        either(before.get(key), after.get(key), &path, see);
    }
}

fn either(before: Option<&Value>, after: Option<&Value>, path: &str, see: &mut SeeField<'_>) {
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => tables(before, after, path, see),
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            for at in 0..before.len().max(after.len()) {
                either(before.get(at), after.get(at), &format!("{path}[{at}]"), see);
            }
        }
        (before, after) => see(path, before, after),
    }
}

/// The objects as text.
pub(super) fn text(change: &ValueChange, touched: &[TouchedObject], is_secret: bool) -> String {
    let show = |value: &Value| if is_secret { MASK.to_owned() } else { cut(&value.to_string()) };
    let mut text = String::new();
    let mut write = |row: String| {
        let _ = writeln!(text, "{}", line(&row));
    };
    write(format!("{}: {} → {}", joined(&change.path), show(&change.before), show(&change.after)));
    if touched.is_empty() {
        write("  no object changes".to_owned());
    }
    for object in touched {
        write(format!("  {} {} is {}", object.kind, object.name, object.change));
        for (path, before, after) in &object.fields {
            write(format!("    {path}: {} → {}", cut(&before.to_string()), cut(&after.to_string())));
        }
    }
    text
}

/// The objects as a document.
pub(super) fn document(change: &ValueChange, touched: &[TouchedObject], is_secret: bool) -> Value {
    let show = |value: &Value| if is_secret { MASK.into() } else { value.clone() };
    let field =
        |(path, before, after): &(String, Value, Value)| json!({"path": path, "before": before, "after": after});
    let object = |object: &TouchedObject| {
        let fields: Vec<Value> = object.fields.iter().map(field).collect();
        json!({"kind": object.kind, "name": object.name, "change": object.change, "fields": fields})
    };
    json!({
        "value": joined(&change.path), "before": show(&change.before), "after": show(&change.after),
        "objects": touched.iter().map(object).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::{different, tables};
    use serde_json::{Value, json};

    #[test]
    fn a_different_value_has_the_same_type() {
        for (value, expected) in [
            (json!(true), Some(json!(false))),
            (json!(3), Some(json!(4))),
            (json!(0.5), Some(json!(1.5))),
            (json!("a"), Some(json!("a-changed"))),
            (json!(null), None),
            (json!([]), None),
        ] {
            assert_eq!(different(&value), expected);
        }
    }

    #[test]
    fn fields_that_differ_have_paths() {
        let before = json!({"a": 1, "l": [{"x": 1, "y": 1}], "gone": 1, "same": {"b": 1}});
        let after = json!({"a": 2, "l": [{"x": 1, "y": 2}, 3], "same": {"b": 1}, "e.w": 1});
        let mut seen = Vec::new();
        let (Value::Object(before), Value::Object(after)) = (before, after) else { unreachable!() };
        tables(&before, &after, "", &mut |path, _, _| seen.push(path.to_owned()));
        seen.sort();
        assert_eq!(seen, ["a", r"e\.w", "gone", "l[0].y", "l[1]"]);
    }
}

//! `dependsOn` of `watches.yaml` and the annotation `tillerman.dev/depends-on`: other custom resources that must be ready first, and
//! fields of their status that become values.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::bounds;
use crate::names;
use crate::object::Gvk;
use crate::object::field_error::FieldError;
use crate::object::field_path::FieldPath;

pub const ANNOTATION: &str = names::DEPENDS_ON;
/// The prefix of a path in another status.
const STATUS: &str = "status.";

/// A custom resource in the same namespace that must be ready first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    pub group: String,
    /// Its version; any that the operator serves if it is missing.
    pub version: Option<String>,
    pub kind: String,
    pub name: Name,
    /// Where fields of its status go in the values.
    pub values: Vec<Taken>,
    /// Whether changes of an installed release wait for it, too.
    pub upgrade_after: bool,
}

/// The name of a custom resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// This one.
    Fixed(Arc<str>),
    /// The text at this path of the values, such as `database.name`. Without a text there, nothing is depended on.
    From(FieldPath),
}

/// A field of a status that becomes a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Where it goes in the values: keys with dots between them, and `\.` for a dot in a key.
    pub target: String,
    /// The path of the field, from the status.
    pub source: FieldPath,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status{}", self.source)
    }
}

impl Dependency {
    /// Whether a kind that the operator serves is the one that is meant.
    pub fn is_of(&self, gvk: &Gvk) -> bool {
        let version = self.version.as_deref().is_none_or(|version| version == &*gvk.version);
        version && *gvk.group == *self.group && *gvk.kind == *self.kind
    }

    /// Its kind with its group, as messages and the status name it.
    pub fn kind_group(&self) -> String {
        Gvk::new(&self.group, "", &self.kind).kind_group()
    }
}

/// Reads a list of dependencies; only those in `watches.yaml` may take the name from a value.
pub fn parse(list: &Value, from_values: bool) -> Result<Vec<Dependency>, FieldError> {
    match list {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) if items.len() > bounds::DEPENDENCIES => {
            Err(format!("there are more than {} dependencies", bounds::DEPENDENCIES).into())
        }
        Value::Array(items) => {
            let read: Vec<_> = items.iter().map(|item| parse_one(item, from_values)).collect::<Result<_, _>>()?;
            let mut together = Map::new();
            for taken in read.iter().flat_map(|dependency| &dependency.values) {
                set(&taken.target, &Value::Null, &mut together).map_err(of_value(&taken.target))?;
            }
            Ok(read)
        }
        _ => Err("it is not a list".into()),
    }
}

/// Reads the annotation's text, JSON.
pub fn parse_text(text: &str) -> Result<Vec<Dependency>, FieldError> {
    parse(&bounds::ANNOTATION.json(text)?, false)
}

fn parse_one(item: &Value, from_values: bool) -> Result<Dependency, FieldError> {
    let item = item.as_object().ok_or("an entry is not an object")?;
    let known = ["group", "version", "kind", "name", "nameFrom", "values", "upgradeAfter"];
    if let Some(unknown) = item.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("unknown field {unknown:?}; the fields are {}", known.join(", ")).into());
    }
    let text = |key: &str| match item.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => {
            bounds::word(text).map_err(FieldError::within(key))?;
            Ok(Some(text.clone()))
        }
        Some(_) => Err(FieldError::must_be(key, "a text")),
    };
    let name = match (text("name")?, text("nameFrom")?) {
        (Some(name), None) => Name::Fixed(name.into()),
        (None, Some(_)) if !from_values => {
            return Err("nameFrom is for watches.yaml; an annotation gives the name".into());
        }
        (None, Some(path)) => Name::From(value_path(&path).map_err(FieldError::within("nameFrom"))?),
        (None, None) if from_values => return Err("an entry has neither name nor nameFrom".into()),
        (None, None) => return Err("an entry has no name".into()),
        (Some(_), Some(_)) => return Err("an entry has both name and nameFrom".into()),
    };
    let values = match item.get("values") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Object(values)) if values.len() > bounds::TAKEN => {
            return Err(format!("values has more than {} entries", bounds::TAKEN).into());
        }
        Some(Value::Object(values)) => {
            let read = values.iter().map(|(target, source)| taken(target, source).map_err(of_value(target)));
            read.collect::<Result<_, _>>()?
        }
        Some(_) => return Err("values must map paths of values to paths such as status.endpoint".into()),
    };
    let upgrade_after = match item.get("upgradeAfter") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(is)) => *is,
        Some(_) => return Err(FieldError::boolean("upgradeAfter")),
    };
    let group = text("group")?.ok_or("an entry has no group")?;
    Ok(Dependency {
        group,
        version: text("version")?,
        kind: text("kind")?.ok_or("an entry has no kind")?,
        name,
        values,
        upgrade_after,
    })
}

/// Names the place of a value in an error.
fn of_value(target: &str) -> impl FnOnce(FieldError) -> FieldError {
    FieldError::within(format!("values: {target:?}"))
}

fn taken(target: &str, source: &Value) -> Result<Taken, FieldError> {
    bounds::word(target)?;
    // Whether it can be set at all is known without the value.
    set(target, &Value::Null, &mut Map::new())?;
    let source = source.as_str().ok_or("it needs a path such as status.endpoint")?;
    let path = source.strip_prefix(STATUS).ok_or("the path must begin with status.")?;
    Ok(Taken { target: target.to_owned(), source: FieldPath::parse(&format!(".{path}"))? })
}

/// Puts a value where a target says.
pub fn set(target: &str, value: &Value, values: &mut Map<String, Value>) -> Result<(), FieldError> {
    let mut keys = vec![String::new()];
    let mut letters = target.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '.' => keys.push(String::new()),
            letter => {
                let letter = if letter == '\\' { letters.next().unwrap_or(letter) } else { letter };
                keys.last_mut().expect("there is a first").push(letter);
            }
        }
    }
    if keys.len() > bounds::PATH.names || keys.iter().any(String::is_empty) {
        let most = bounds::PATH.names;
        return Err(format!("it is not a path of a value such as database.host, with at most {most} keys").into());
    }
    let last = keys.pop().expect("there is a first");
    let mut at = values;
    for key in keys {
        let Value::Object(inner) = at.entry(key).or_insert_with(|| Map::new().into()) else {
            return Err("another value is set at a path above it".into());
        };
        at = inner;
    }
    if at.contains_key(&last) {
        return Err("another value is there".into());
    }
    at.insert(last, value.clone());
    Ok(())
}

/// A path of a value, with or without a dot at its beginning.
fn value_path(path: &str) -> Result<FieldPath, FieldError> {
    FieldPath::parse(&format!(".{}", path.strip_prefix('.').unwrap_or(path)))
}

#[cfg(test)]
mod tests {
    use super::{FieldError, Name, parse, parse_text, set};
    use serde_json::{Map, Value, json};

    #[test]
    fn a_value_goes_where_its_target_says() {
        let mut values = Map::new();
        for (target, expected) in [
            ("a.b", Ok(())),
            (r"a.c\.d", Ok(())),
            ("a.b.e", Err("another value is set at a path above it")),
            ("a", Err("another value is there")),
        ] {
            assert_eq!(set(target, &json!(1), &mut values), expected.map_err(FieldError::from), "{target}");
        }
        assert_eq!(Value::Object(values), json!({"a": {"b": 1, "c.d": 1}}));
    }

    #[test]
    fn dependencies_are_read_and_mistakes_are_named() {
        let list = json!([
            {"group": "db.example.com", "kind": "Database", "nameFrom": "database.name",
                "values": {"database.host": "status.endpoint", "database.first": "status.pods[0]"}},
            {"group": "db.example.com", "version": "v1", "kind": "Cache", "name": "c", "upgradeAfter": true},
        ]);
        let read = parse(&list, true).unwrap();
        assert!(matches!(&read[0].name, Name::From(path) if path.as_str() == ".database.name"));
        assert_eq!(read[0].values[0].to_string(), "status.endpoint");
        assert_eq!((read[0].upgrade_after, read[1].upgrade_after), (false, true));
        assert_eq!((read[0].kind_group().as_str(), read[1].values.len()), ("Database.db.example.com", 0));
        for (text, expected) in [
            ("{}", "it is not a list"),
            ("[", "it is not JSON"),
            (r#"[{"group": "g", "kind": "K"}]"#, "an entry has no name"),
            (r#"[{"group": "g", "kind": "K", "nameFrom": "a"}]"#, "nameFrom is for watches.yaml"),
            (r#"[{"kind": "K", "name": "a"}]"#, "an entry has no group"),
            (r#"[{"group": "g", "kind": "K", "name": "a", "names": 1}]"#, "unknown field \"names\""),
            (
                r#"[{"group": "g", "kind": "K", "name": "a", "upgradeAfter": "yes"}]"#,
                "upgradeAfter must be true or false",
            ),
            (
                r#"[{"group": "g", "kind": "K", "name": "a", "values": {"b": "spec.c"}}]"#,
                "values: \"b\": the path must begin with status.",
            ),
            (
                r#"[{"group": "g", "kind": "K", "name": "a", "values": {"b": "status.c d"}}]"#,
                "values: \"b\": \".c d\" is not a path",
            ),
            (
                r#"[{"group": "g", "kind": "K", "name": "a", "values": {"b": "status.a", "b.c": "status.d"}}]"#,
                "values: \"b.c\": another value is set at a path above it",
            ),
            (
                r#"[{"group": "g", "kind": "K", "name": "a", "values": {"b..c": "status.c"}}]"#,
                "values: \"b..c\": it is not a path",
            ),
        ] {
            let error = parse_text(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}

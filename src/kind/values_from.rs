//! `valuesFrom` of `watches.yaml` and the annotation `tillerman.dev/values-from`: values in Secrets and `ConfigMap`s.

use crate::names;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::dns;
use crate::bounds;
use crate::chart::strvals::{self, Mode};
use crate::object::field_error::{FieldError, FieldProblem};

pub const ANNOTATION: &str = names::VALUES_FROM;
/// The key where none is given, as in Flux.
const KEY: &str = "values.yaml";

/// The kinds that can hold values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceKind {
    /// A Secret: its values are shown nowhere.
    Secret,
    /// A `ConfigMap`.
    ConfigMap,
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        })
    }
}

/// One source of values, in the namespace of the custom resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesFrom {
    /// The kind of the object that has them.
    pub kind: SourceKind,
    pub name: Arc<str>,
    /// The key whose content is values as YAML, or one value when there is a target path.
    pub key: String,
    /// The path in the values, as in `--set`, where the content goes as text. Without it the content itself is values.
    pub target_path: Option<String>,
    /// It need not exist.
    pub optional: bool,
}

impl fmt::Display for ValuesFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// Reads a list of sources.
pub fn parse(list: &Value) -> Result<Vec<ValuesFrom>, FieldError> {
    match list {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) if items.len() > bounds::SOURCES => {
            Err(format!("there are more than {} sources of values", bounds::SOURCES).into())
        }
        Value::Array(items) => items.iter().map(parse_one).collect(),
        _ => Err("it is not a list".into()),
    }
}

/// Reads the annotation's text, JSON.
pub fn parse_text(text: &str) -> Result<Vec<ValuesFrom>, FieldError> {
    parse(&bounds::ANNOTATION.json(text)?)
}

fn parse_one(item: &Value) -> Result<ValuesFrom, FieldError> {
    let item = item.as_object().ok_or("an entry is not an object")?;
    let known = ["kind", "name", "key", "targetPath", "optional"];
    if let Some(unknown) = item.keys().find(|k| !known.contains(&k.as_str())) {
        return Err(format!("unknown field {unknown:?}; the fields are {}", known.join(", ")).into());
    }
    let text = |key: &str| match item.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(s)) if !s.is_empty() => {
            bounds::word(s).map_err(FieldError::within(key))?;
            Ok(Some(s.as_str()))
        }
        Some(_) => Err(FieldError::must_be(key, "a text")),
    };
    let target_path = text("targetPath")?;
    if let Some(path) = target_path {
        // Whether it can be set at all is known without the values.
        set_path(path, "", &mut Map::new()).map_err(FieldError::within(format!("targetPath {path:?}")))?;
    }
    let kind = match text("kind")? {
        Some("Secret") => SourceKind::Secret,
        Some("ConfigMap") => SourceKind::ConfigMap,
        _ => return Err(FieldError::new("kind", FieldProblem::OneOf(vec!["Secret", "ConfigMap"]))),
    };
    if let Some(name) = text("name")?.filter(|name| !dns::is_subdomain(name)) {
        return Err(FieldError::is_not(format!("name {name:?}"), "the name of an object"));
    }
    let optional = match item.get("optional") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(optional)) => *optional,
        Some(_) => return Err(FieldError::boolean("optional")),
    };
    Ok(ValuesFrom {
        kind,
        name: text("name")?.ok_or("an entry has no name")?.into(),
        key: text("key")?.unwrap_or(KEY).to_owned(),
        target_path: target_path.map(str::to_owned),
        optional,
    })
}

/// Puts a text where a target path says.
pub fn set_path(path: &str, text: &str, values: &mut Map<String, Value>) -> Result<(), String> {
    strvals::apply_within(&format!("{path}={text}"), values, &Mode::Literal, bounds::PATH)
}

#[cfg(test)]
mod tests {
    use super::{SourceKind, ValuesFrom, parse_text};

    #[test]
    fn sources_are_read_and_mistakes_are_named() {
        let text = r#"[{"kind": "Secret", "name": "a"}, {"kind": "ConfigMap", "name": "b", "key": "c", "targetPath": "d.e", "optional": true}]"#;
        let of = |kind, name: &str, key: &str, target_path: Option<&str>, optional| ValuesFrom {
            kind,
            name: name.into(),
            key: key.into(),
            target_path: target_path.map(str::to_owned),
            optional,
        };
        let expected = [
            of(SourceKind::Secret, "a", "values.yaml", None, false),
            of(SourceKind::ConfigMap, "b", "c", Some("d.e"), true),
        ];
        assert_eq!(parse_text(text).unwrap(), expected);
        for (text, expected) in [
            ("{}", "it is not a list"),
            ("[", "it is not JSON"),
            (r#"[{"kind": "Pod", "name": "a"}]"#, "kind must be Secret or ConfigMap"),
            (r#"[{"kind": "Secret"}]"#, "an entry has no name"),
            (r#"[{"kind": "Secret", "nmae": "a"}]"#, "unknown field \"nmae\""),
        ] {
            let error = parse_text(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}

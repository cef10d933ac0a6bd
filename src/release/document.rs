//! Reads the documents of a chart that the operator acts on and Helm skips.

use serde_json::{Map, Value};

use crate::object::Object;
use crate::render::Hook;

/// The whole document.
pub fn body(hook: &Hook) -> Result<Map<String, Value>, String> {
    Ok(Object::parse(&hook.manifest.text)?.ok_or("it is empty")?.body)
}

/// The fields of an object. Each is taken once; a field that is not known is an error.
pub struct DocumentFields<'a> {
    at: &'a str,
    left: Map<String, Value>,
    known: &'a [&'static str],
}

impl<'a> DocumentFields<'a> {
    /// The fields of the object at a place; messages have the name of the place. A missing object has no fields.
    pub fn of(at: &'a str, value: Option<Value>, known: &'a [&'static str]) -> Result<Self, String> {
        let fields = match value {
            Some(Value::Object(fields)) => fields,
            None | Some(Value::Null) => Map::new(),
            Some(_) => return Err(format!("{at} is not an object")),
        };
        match fields.keys().find(|key| !known.contains(&key.as_str())) {
            Some(unknown) => Err(format!("{at}.{unknown} is unknown; there are {}", known.join(", "))),
            None => Ok(Self { at, left: fields, known }),
        }
    }

    /// Takes a field. One that is null counts as missing.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        debug_assert!(self.known.contains(&key));
        self.left.remove(key).filter(|v| !v.is_null())
    }

    /// Takes a text that is not empty.
    pub fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err(format!("{}.{key} is not a text", self.at)),
        }
    }

    /// Takes a text that is one of the choices.
    pub fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)], default: Option<T>) -> Result<T, String> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let at = self.at;
        match (self.text(key)?, default) {
            (None, Some(default)) => Ok(default),
            (None, None) => Err(format!("{at}.{key} is missing; it is {}", names.join(" or "))),
            (Some(text), _) => {
                let found = choices.iter().find(|(name, _)| *name == text);
                found
                    .map(|(_, choice)| *choice)
                    .ok_or_else(|| format!("{at}.{key} {text:?} is unknown; it is {}", names.join(" or ")))
            }
        }
    }
}

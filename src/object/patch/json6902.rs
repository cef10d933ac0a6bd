//! JSON patches (RFC 6902).

use serde_json::Value;

use super::{PatchError, copied, look};
use crate::bounds;

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    kind: Kind,
    path: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Add(Value),
    Remove,
    Replace(Value),
    Move(String),
    Copy(String),
    Test(Value),
}

impl Operation {
    /// Reads one.
    pub fn parse(value: &Value) -> Result<Self, PatchError> {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        for key in ["path", "from"] {
            bounds::word(text(key).unwrap_or_default()).map_err(|why| format!("the {key} of an operation: {why}"))?;
        }
        let path = text("path").ok_or("an operation has no path")?.to_owned();
        let given = || {
            let mut given =
                value.get("value").cloned().ok_or_else(|| format!("the operation at {path} has no value"))?;
            crate::object::make_whole(&mut given);
            Ok::<_, PatchError>(given)
        };
        let from = || text("from").map(str::to_owned).ok_or_else(|| format!("the operation at {path} has no from"));
        let kind = match text("op").ok_or("an operation has no op")? {
            "add" => Kind::Add(given()?),
            "remove" => Kind::Remove,
            "replace" => Kind::Replace(given()?),
            "move" => Kind::Move(from()?),
            "copy" => Kind::Copy(from()?),
            "test" => Kind::Test(given()?),
            other => return Err(format!("there is no operation {other:?}").into()),
        };
        Ok(Self { kind, path })
    }

    /// Changes a document, and says how many bytes it may have grown. Errors name paths and no values.
    pub fn apply(&self, document: &mut Value) -> Result<usize, PatchError> {
        match &self.kind {
            Kind::Add(value) => {
                let bytes = copied(value)?;
                add(document, &self.path, value.clone())?;
                Ok(bytes)
            }
            Kind::Remove => remove(document, &self.path).map(|_| 0),
            Kind::Replace(value) => {
                let bytes = copied(value)?;
                shallow(&self.path, value)?;
                *document.pointer_mut(&self.path).ok_or_else(|| nothing(&self.path))? = value.clone();
                Ok(bytes)
            }
            Kind::Move(from) => {
                let value = remove(document, from)?;
                add(document, &self.path, value)?;
                Ok(0)
            }
            Kind::Copy(from) => {
                let value = document.pointer(from).ok_or_else(|| nothing(from))?;
                let bytes = copied(value)?;
                let value = value.clone();
                add(document, &self.path, value)?;
                Ok(bytes)
            }
            Kind::Test(value) => {
                look(value)?;
                if document.pointer(&self.path) == Some(value) {
                    return Ok(0);
                }
                Err(format!("the test of {} failed", self.path).into())
            }
        }
    }
}

/// No operation nests deeper than the limit of an object: unlimited nesting could not be read, written or dropped.
fn shallow(path: &str, value: &Value) -> Result<(), PatchError> {
    let (limit, above) = (bounds::SPEC.depth, path.matches('/').count());
    look(value)?;
    if above + bounds::weigh(value).1 > limit {
        return Err(format!("at {path} it would be nested more than {limit} levels deep").into());
    }
    Ok(())
}

fn nothing(path: &str) -> PatchError {
    PatchError::Nothing(path.to_owned())
}

/// The parent of the target of a path, and the last part of the path.
fn parent<'a>(document: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), PatchError> {
    let (above, last) = path.rsplit_once('/').ok_or_else(|| format!("{path:?} is not a path"))?;
    let place = document.pointer_mut(above).ok_or_else(|| nothing(path))?;
    Ok((place, last.replace("~1", "/").replace("~0", "~")))
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), PatchError> {
    shallow(path, &value)?;
    match parent(document, path)? {
        (Value::Object(map), key) => {
            map.insert(key, value);
            Ok(())
        }
        (Value::Array(items), key) => {
            let at = if key == "-" { Some(items.len()) } else { key.parse().ok().filter(|at| *at <= items.len()) };
            items.insert(at.ok_or_else(|| nothing(path))?, value);
            Ok(())
        }
        _ => Err(nothing(path)),
    }
}

fn remove(document: &mut Value, path: &str) -> Result<Value, PatchError> {
    match parent(document, path)? {
        (Value::Object(map), key) => map.shift_remove(&key).ok_or_else(|| nothing(path)),
        (Value::Array(items), key) => {
            let at = key.parse().ok().filter(|at| *at < items.len()).ok_or_else(|| nothing(path))?;
            Ok(items.remove(at))
        }
        _ => Err(nothing(path)),
    }
}

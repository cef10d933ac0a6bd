//! Merging maps as dario.cat/mergo 1.0.1 does it, and copying as mitchellh's copystructure does.

use super::defaults::empty;
use crate::template::budget;
use crate::template::function::{FnError, FnResult};
use crate::template::go::fmt::type_name;
use crate::template::stack::deeper;
use crate::template::value::{Elem, Kind, List, Map, MapType, Object, Str, Value};

/// Maps nested deeper than this hold themselves.
const MAX_DEPTH: usize = 1000;

/// mergo's message about two values that it cannot merge.
pub const DIFFERENT: &str = "src and dst must be of same type";

/// Puts the entries of `source` into `target`. Without `overwrite` only what is missing or empty there is set.
/// Values are not copied: values that were missing are shared with `source` afterwards. False where mergo gives up
/// ([`DIFFERENT`]); an error where it panics.
pub fn merge(target: &Map, source: &Map, overwrite: bool, depth: usize) -> Result<bool, FnError> {
    if depth > MAX_DEPTH {
        return Err("stack overflow".into());
    }
    budget::work_of(source.len())?;
    // A map of strings accepts no values of another map, which might have any type.
    let takes = target.kind != MapType::Str || source.kind == MapType::Str;
    let insert = |key: Str, new: Value| {
        if !takes {
            return Err("reflect.Value.SetMapIndex: value of type interface {} is not assignable to type string".into());
        }
        target.note_change(&new);
        target.insert(key, new);
        Ok::<_, FnError>(())
    };
    for (key, new) in source.entries() {
        budget::make(key.len())?;
        let old = target.get(key.bytes());
        if matches!(new, Value::Nil) {
            if overwrite {
                insert(key, new)?;
            }
            continue;
        }
        // A nil map inside another map cannot be made.
        if let (Value::Map(new), Some(Value::Map(old))) = (&new, &old)
            && (!old.is_nil() || new.is_nil())
            && !deeper(|| merge(old, new, overwrite, depth + 1))?
        {
            return Ok(false);
        }
        // Into what a pointer points to only another pointer is merged.
        if let (Some(Value::Object(old)), false) = (&old, overwrite)
            && old.kind() == Kind::Ptr
            && (is_map(&new) || matches!(&new, Value::Object(new) if new.kind() == Kind::Struct))
        {
            return Ok(false);
        }
        // `.Files` is a map of lists of bytes.
        if let (Value::Object(files), Some(Value::Map(old))) = (&new, &old)
            && files.kind() == Kind::Map
        {
            let entries =
                files.fields().into_iter().filter_map(|name| Some((name.clone(), files.field(&name.text())?)));
            if let Value::Map(files) = Value::map(entries)
                && !deeper(|| merge(old, &files, overwrite, depth + 1))?
            {
                return Ok(false);
            }
        }
        if let (Value::Map(_), Some(Value::Object(old))) = (&new, &old)
            && old.kind() == Kind::Struct
            && old.members().is_some()
        {
            return Err("reflect: call of reflect.Value.Field on map Value".into());
        }
        if let (Value::Map(new), Some(Value::Object(old))) = (&new, &old)
            && old.kind() == Kind::Map
        {
            merge_into_files(old.as_ref(), new, overwrite)?;
        }
        if let (Value::List(_), true) = (&new, overwrite) {
            // Even an empty list replaces another value.
            insert(key, new)?;
            continue;
        }
        let set = match &old {
            None => true,
            Some(old) if empty(old) => true,
            Some(old) if is_map(old) && is_map(&new) => false,
            Some(_) => overwrite,
        };
        if set {
            insert(key, new)?;
        }
    }
    Ok(true)
}

fn is_map(value: &Value) -> bool {
    match value {
        Value::Map(_) => true,
        Value::Object(object) => object.kind() == Kind::Map,
        _ => false,
    }
}

/// mergo's error when a map is merged into `.Files`, whose type accepts only bytes. The existing entries stay.
fn merge_into_files(files: &dyn Object, source: &Map, overwrite: bool) -> Result<(), FnError> {
    let names = files.fields();
    for (key, new) in source.entries() {
        let is_there = names.contains(&key);
        let set = match &new {
            Value::Nil => overwrite,
            _ => overwrite || !is_there,
        };
        let given = match &new {
            Value::List(List { elem: Elem::Byte, .. }) => continue,
            Value::List(_) => type_name(&new),
            _ => "interface {}".into(),
        };
        if set {
            return Err(
                format!("reflect.Value.SetMapIndex: value of type {given} is not assignable to type []uint8").into()
            );
        }
    }
    Ok(())
}

/// A copy that shares no map and no list with the value.
pub fn deep_copy(value: &Value) -> FnResult {
    copy(value, 0)
}

fn copy(value: &Value, depth: usize) -> FnResult {
    if depth > MAX_DEPTH {
        return Err("stack overflow".into());
    }
    Ok(match value {
        Value::Map(map) if map.is_nil() => value.clone(),
        Value::Map(map) => {
            let new = Map::new(map.kind);
            budget::entries(map.len() + 1)?;
            for (key, item) in map.borrow().iter() {
                new.insert(key.clone(), deeper(|| copy(item, depth + 1))?);
            }
            Value::Map(new)
        }
        // Lists are immutable, except that lists of strings can be sorted, and that maps in them can change.
        Value::List(list)
            if list.elem == Elem::Str && !list.items.is_empty()
                || list.items.iter().any(|i| matches!(i, Value::Map(_) | Value::List(_) | Value::Object(_))) =>
        {
            budget::elements(list.items.len() + 1)?;
            let items = list.items.iter().map(|item| deeper(|| copy(item, depth + 1))).collect::<Result<_, _>>()?;
            Value::List(List { elem: list.elem, items: list.items.copied(list.elem, items) })
        }
        Value::Object(object) => object.copied().unwrap_or_else(|| value.clone()),
        other => other.clone(),
    })
}

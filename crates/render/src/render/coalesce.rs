//! Values of the user over values of the charts, as Helm 4.3 coalesces them.
//!
//! There are two ways to combine tables: *coalescing* drops a key whose value is null, *merging* keeps it.
//! Tables are shared maps, and they are shared in the same way as in Helm, because templates may change values in
//! place.

use super::dependencies::ChartNode;
use crate::template::budget;
use crate::template::stack::deeper;
use crate::template::value::{Map, MapType, Value};

/// The key under which values reach all charts.
const GLOBAL: &str = "global";

/// A subchart's values that are not a table.
pub struct TypeMismatch {
    pub chart: String,
    pub value: Value,
}

/// The values a chart and its dependencies see, from a copy of the user's values.
pub fn coalesce_values(node: &ChartNode<'_>, user: &Map) -> Result<Map, TypeMismatch> {
    let values = deep_copy_map(user);
    coalesce(node, &values, false)?;
    Ok(values)
}

/// As [`coalesce_values`] of no values at all, but nulls stay.
pub fn merge_values(node: &ChartNode<'_>) -> Result<Map, TypeMismatch> {
    let values = Map::new(MapType::Any);
    coalesce(node, &values, true)?;
    Ok(values)
}

fn coalesce(node: &ChartNode<'_>, dest: &Map, merge: bool) -> Result<(), TypeMismatch> {
    coalesce_own(node, dest, merge);
    for child in &node.dependencies {
        let name = child.name();
        let table = match dest.get(name) {
            None => {
                let table = Map::new(MapType::Any);
                dest.insert(name, table.clone());
                table
            }
            Some(Value::Map(table)) => table,
            Some(value) => return Err(TypeMismatch { chart: name.into(), value }),
        };
        coalesce_globals(&table, dest);
        coalesce(child, &table, merge)?;
    }
    Ok(())
}

/// Globals go down: the parent's win over the child's.
fn coalesce_globals(dest: &Map, source: &Map) {
    let table = |map: &Map| match map.get(GLOBAL) {
        None => Some(Map::new(MapType::Any)),
        Some(Value::Map(globals)) => Some(globals),
        Some(_) => None,
    };
    let (Some(to), Some(from)) = (table(dest), table(source)) else { return };
    for (key, value) in from.entries() {
        let below = to.get(key.bytes());
        match (value, below) {
            (Value::Map(value), None) => to.insert(key, shallow_copy(&value)),
            (Value::Map(value), Some(Value::Map(below))) => {
                let copy = shallow_copy(&value);
                coalesce_tables(&copy, &below, true);
                to.insert(key, copy);
            }
            (Value::Map(_), Some(_)) | (_, Some(Value::Map(_))) => {}
            (value, _) => to.insert(key, value),
        }
    }
    dest.insert(GLOBAL, to);
}

/// Lays the values over the chart's own defaults.
fn coalesce_own(node: &ChartNode<'_>, values: &Map, merge: bool) {
    for (key, default) in node.defaults().entries() {
        match values.get(key.bytes()) {
            Some(Value::Nil) if !merge => {
                values.remove(key.bytes());
            }
            Some(Value::Map(dest)) => {
                if let Value::Map(source) = default {
                    let merge = merge || node.dependencies.iter().any(|d| d.name().as_bytes() == key.bytes());
                    if !merge {
                        remove_nulls(&source);
                    }
                    coalesce_tables(&dest, &source, merge);
                }
            }
            Some(_) => {}
            None => {
                if !merge {
                    match &default {
                        Value::Nil => continue,
                        Value::Map(table) => remove_nulls(table),
                        _ => {}
                    }
                }
                values.insert(key, default);
            }
        }
    }
}

/// Merges `dest` over `source`, in place; `source` is changed, too.
pub fn coalesce_tables(dest: &Map, source: &Map, merge: bool) {
    // Null removes a default, but stays where there was no default, or only a null.
    let defaults: Vec<_> =
        source.borrow().iter().filter(|(_, v)| !matches!(v, Value::Nil)).map(|(k, _)| k.clone()).collect();
    for (key, value) in dest.entries() {
        if matches!(value, Value::Nil) {
            source.insert(key, Value::Nil);
        }
    }
    for (key, value) in source.entries() {
        match (dest.get(key.bytes()), value) {
            (Some(Value::Nil), _) if !merge && defaults.binary_search(&key).is_ok() => {
                dest.remove(key.bytes());
            }
            (None, value) => dest.insert(key, value),
            (Some(Value::Map(below)), Value::Map(value)) => deeper(|| coalesce_tables(&below, &value, merge)),
            _ => {}
        }
    }
}

/// Removes keys without a value, at all levels.
pub fn remove_nulls(table: &Map) {
    let mut entries = table.borrow_mut();
    entries.retain(|_, v| !matches!(v, Value::Nil));
    for value in entries.values() {
        if let Value::Map(inner) = value {
            deeper(|| remove_nulls(inner));
        }
    }
}

fn shallow_copy(map: &Map) -> Map {
    let copy = Map::new(map.kind);
    copy.borrow_mut().extend(map.entries());
    copy
}

/// A copy that shares nothing.
pub fn deep_copy(value: &Value) -> Value {
    match value {
        Value::Map(map) => Value::Map(deep_copy_map(map)),
        Value::List(list) => {
            let items = list.items.iter().map(|item| deeper(|| deep_copy(item))).collect();
            let items = list.items.copied(list.elem, items);
            Value::List(crate::template::value::List { elem: list.elem, items })
        }
        other => other.clone(),
    }
}

/// A copy that shares nothing.
pub fn deep_copy_map(map: &Map) -> Map {
    let copy = Map::new(map.kind);
    // The budget reports a refusal at the next step.
    if budget::entries(map.len()).is_err() {
        return copy;
    }
    copy.borrow_mut().extend(map.borrow().iter().map(|(k, v)| (k.clone(), deeper(|| deep_copy(v)))));
    copy
}

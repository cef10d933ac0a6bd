//! Maps. `set`, `unset` and the merges change the map they are given; every holder of it sees that.

use super::args::{any, bytes, map, rest};
use super::merge::{DIFFERENT, deep_copy, merge};
use super::{fixed, text, variadic};
use crate::template::budget;
use crate::template::function::{Context, FnError, FnResult, Function, Param};
use crate::template::go::fmt;
use crate::template::value::{Map, MapType, Room, Str, Value};

use Param::{Any, Map as M, Str as S};

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[
    variadic("dict", &[Any], dict),
    fixed("get", &[M, S], |_, a| Ok(map(a, 0).and_then(|m| m.get(bytes(a, 1))).unwrap_or_else(|| "".into()))),
    fixed("set", &[M, S, Any], set),
    fixed("unset", &[M, S], unset),
    fixed("hasKey", &[M, S], |_, a| Ok(map(a, 0).is_some_and(|m| m.borrow().contains_key(bytes(a, 1))).into())),
    variadic("pluck", &[S, M], pluck),
    variadic("keys", &[M], keys),
    variadic("pick", &[M, S], pick),
    variadic("omit", &[M, S], omit),
    fixed("values", &[M], |_, a| {
        Ok(Value::grown(map(a, 0).map(|m| m.borrow().values().cloned().collect()).unwrap_or_default()))
    }),
    variadic("merge", &[M, M], |_, a| or_nothing(merge_all(a, false)?)),
    variadic("mustMerge", &[M, M], |_, a| merge_all(a, false)?.ok_or_else(|| DIFFERENT.into())),
    variadic("mergeOverwrite", &[M, M], |_, a| or_nothing(merge_all(a, true)?)),
    variadic("mustMergeOverwrite", &[M, M], |_, a| merge_all(a, true)?.ok_or_else(|| DIFFERENT.into())),
    fixed("deepCopy", &[Any], copied),
    fixed("mustDeepCopy", &[Any], copied),
    variadic("dig", &[Any], dig),
];

/// A map argument is a plain map to the function, whatever named type it had.
fn plain(map: &Map) -> Value {
    Value::Map(map.with_type(MapType::Any))
}

fn dict(_: &Context, args: &[Value]) -> FnResult {
    let map = Map::new(MapType::Any);
    for pair in args.chunks(2) {
        let key = match &pair[0] {
            Value::Str(key) => key.clone(),
            other => Str::from(text::strval(other)?),
        };
        map.insert(key, pair.get(1).cloned().unwrap_or_else(|| "".into()));
    }
    Ok(Value::Map(map))
}

fn set(_: &Context, args: &[Value]) -> FnResult {
    match (map(args, 0), any(args, 1)) {
        (Some(map), Value::Str(key)) => {
            budget::make(key.len() + 32)?;
            map.note_change(any(args, 2));
            map.insert(key.clone(), any(args, 2).clone());
            Ok(plain(map))
        }
        _ => Err("assignment to entry in nil map".into()),
    }
}

fn unset(_: &Context, args: &[Value]) -> FnResult {
    let Some(map) = map(args, 0) else { return Ok(Map::nil(MapType::Any).into()) };
    map.remove(bytes(args, 1));
    Ok(plain(map))
}

fn pluck(_: &Context, args: &[Value]) -> FnResult {
    let key = bytes(args, 0);
    let found = rest(args, 1).iter().filter_map(|m| if let Value::Map(m) = m { m.get(key) } else { None });
    Ok(Value::grown(found.collect()))
}

/// Go gives the keys in random order; here they are sorted.
fn keys(_: &Context, args: &[Value]) -> FnResult {
    let mut all = Vec::new();
    for arg in args {
        if let Value::Map(map) = arg {
            budget::elements(map.len())?;
            all.extend(map.borrow().keys().cloned());
        }
    }
    Ok(Value::strings_in(all, Room::Grown(0)))
}

fn pick(_: &Context, args: &[Value]) -> FnResult {
    let picked = Map::new(MapType::Any);
    if let Some(map) = map(args, 0) {
        for key in rest(args, 1) {
            if let Value::Str(key) = key
                && let Some(value) = map.get(key.bytes())
            {
                picked.insert(key.clone(), value);
            }
        }
    }
    Ok(Value::Map(picked))
}

fn omit(_: &Context, args: &[Value]) -> FnResult {
    let kept = Map::new(MapType::Any);
    if let Some(map) = map(args, 0) {
        let omitted = rest(args, 1);
        let is_omitted = |key: &Str| omitted.iter().any(|o| matches!(o, Value::Str(o) if o == key));
        let from = map.borrow();
        budget::work_of(from.len().saturating_mul(omitted.len() + 1))?;
        kept.borrow_mut().extend(from.iter().filter(|(k, _)| !is_omitted(k)).map(|(k, v)| (k.clone(), v.clone())));
    }
    Ok(Value::Map(kept))
}

/// None where mergo gives up.
fn merge_all(args: &[Value], overwrite: bool) -> Result<Option<Value>, FnError> {
    let given = map(args, 0);
    let mut sources =
        rest(args, 1).iter().filter_map(|source| if let Value::Map(map) = source { Some(map) } else { None });
    // A nil map stays one as long as the others are.
    if given.is_none() && sources.clone().all(Map::is_nil) {
        return Ok(Some(Map::nil(MapType::Any).into()));
    }
    let made = Map::new(MapType::Any);
    let target = given.unwrap_or(&made);
    let merged =
        sources.try_fold(true, |merged, source| Ok::<_, FnError>(merged && merge(target, source, overwrite, 0)?))?;
    Ok(merged.then(|| plain(target)))
}

/// Without "must" sprig answers with an empty text.
fn or_nothing(merged: Option<Value>) -> FnResult {
    Ok(merged.unwrap_or_else(|| Value::from("")))
}

fn copied(_: &Context, args: &[Value]) -> FnResult {
    match any(args, 0) {
        Value::Nil => Err(super::toml::ZERO_VALUE.into()),
        value => deep_copy(value),
    }
}

/// `dig "a" "b" DEFAULT MAP`
fn dig(_: &Context, args: &[Value]) -> FnResult {
    let [keys @ .., default, root] = args else { return Err("dig needs at least three arguments".into()) };
    if keys.is_empty() {
        return Err("dig needs at least three arguments".into());
    }
    let mut step = as_map(root)?;
    let mut names = Vec::with_capacity(keys.len());
    for key in keys {
        match key {
            Value::Str(key) => names.push(key),
            other => return Err(conversion(other, "string")),
        }
    }
    for (i, name) in names.iter().enumerate() {
        let Some(value) = step.get(name.bytes()) else { return Ok(default.clone()) };
        if i + 1 == names.len() {
            return Ok(value);
        }
        step = as_map(&value)?;
    }
    Ok(default.clone())
}

/// A type assertion to `map[string]interface {}`, which named map types fail.
fn as_map(value: &Value) -> Result<Map, FnError> {
    match value {
        Value::Map(map) if map.kind == MapType::Any => Ok(map.clone()),
        other => Err(conversion(other, "map[string]interface {}")),
    }
}

fn conversion(value: &Value, wanted: &str) -> FnError {
    let found = match value {
        Value::Nil => "nil".into(),
        other => fmt::type_name(other),
    };
    format!("interface conversion: interface {{}} is {found}, not {wanted}").into()
}

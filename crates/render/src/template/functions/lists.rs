//! Lists. None changes its argument: every function gives a new list.

use super::args::{any, int, items, rest};
use super::reflect::deep_equal;
use super::{defaults, fixed, number, variadic};
use crate::template::budget;
use crate::template::function::{Context, FnError, FnResult, Function, Param};
use crate::template::value::{Elem, Items, List, Room, Value};

use Param::{Any, Int};

/// The functions of this family. sprig's `mustX` differ from `X` only in how they fail, and both ways
/// come out as the same message.
pub const FUNCTIONS: &[Function] = &[
    variadic("tuple", &[Any], |_, a| Ok(Value::list(a.to_vec()))),
    variadic("list", &[Any], |_, a| Ok(Value::list(a.to_vec()))),
    fixed("append", &[Any, Any], push),
    fixed("push", &[Any, Any], push),
    fixed("mustAppend", &[Any, Any], push),
    fixed("mustPush", &[Any, Any], push),
    fixed("prepend", &[Any, Any], prepend),
    fixed("mustPrepend", &[Any, Any], prepend),
    fixed("first", &[Any], first),
    fixed("mustFirst", &[Any], first),
    fixed("last", &[Any], last),
    fixed("mustLast", &[Any], last),
    fixed("rest", &[Any], tail),
    fixed("mustRest", &[Any], tail),
    fixed("initial", &[Any], initial),
    fixed("mustInitial", &[Any], initial),
    fixed("reverse", &[Any], reverse),
    fixed("mustReverse", &[Any], reverse),
    fixed("uniq", &[Any], uniq),
    fixed("mustUniq", &[Any], uniq),
    fixed("compact", &[Any], compact),
    fixed("mustCompact", &[Any], compact),
    variadic("without", &[Any, Any], without),
    variadic("mustWithout", &[Any, Any], without),
    fixed("has", &[Any, Any], has),
    fixed("mustHas", &[Any, Any], has),
    variadic("slice", &[Any, Any], slice),
    variadic("mustSlice", &[Any, Any], slice),
    variadic("concat", &[Any], concat),
    fixed("chunk", &[Int, Any], chunk),
    fixed("mustChunk", &[Int, Any], chunk),
];

/// The items of an argument, or sprig's `Cannot … type`.
fn ends(value: &Value, what: &str) -> Result<Items, FnError> {
    items(value, |kind| format!("Cannot {what} type {kind}"))
}

/// As [`ends`], for functions that process every element.
fn list(value: &Value, what: &str) -> Result<Items, FnError> {
    let all = ends(value, what)?;
    budget::work_of(all.len() / 8)?;
    Ok(all)
}

fn push(_: &Context, args: &[Value]) -> FnResult {
    let old = list(any(args, 0), "push on")?;
    let mut new = Vec::with_capacity(old.len() + 1);
    new.extend_from_slice(&old);
    new.push(any(args, 1).clone());
    Ok(with_room(new, Room::Added(old.len())))
}

fn with_room(items: Vec<Value>, room: Room) -> Value {
    Value::List(List { elem: Elem::Any, items: Items::with_room(items, room) })
}

fn prepend(_: &Context, args: &[Value]) -> FnResult {
    let old = list(any(args, 0), "prepend on")?;
    let mut new = Vec::with_capacity(old.len() + 1);
    new.push(any(args, 1).clone());
    new.extend_from_slice(&old);
    Ok(with_room(new, Room::Added(1)))
}

fn first(_: &Context, args: &[Value]) -> FnResult {
    Ok(ends(any(args, 0), "find first on")?.first().cloned().unwrap_or(Value::Nil))
}

fn last(_: &Context, args: &[Value]) -> FnResult {
    Ok(ends(any(args, 0), "find last on")?.last().cloned().unwrap_or(Value::Nil))
}

fn nil() -> Value {
    Value::List(List::nil(Elem::Any))
}

fn tail(_: &Context, args: &[Value]) -> FnResult {
    let all = list(any(args, 0), "find rest on")?;
    Ok(all.split_first().map_or_else(nil, |(_, rest)| Value::list(rest.to_vec())))
}

fn initial(_: &Context, args: &[Value]) -> FnResult {
    let all = list(any(args, 0), "find initial on")?;
    Ok(all.split_last().map_or_else(nil, |(_, rest)| Value::list(rest.to_vec())))
}

fn reverse(_: &Context, args: &[Value]) -> FnResult {
    Ok(Value::list(list(any(args, 0), "find reverse on")?.iter().rev().cloned().collect()))
}

fn uniq(_: &Context, args: &[Value]) -> FnResult {
    let mut kept: Vec<Value> = Vec::new();
    for item in list(any(args, 0), "find uniq on")?.iter() {
        budget::work_of(kept.len())?;
        if !kept.iter().any(|k| deep_equal(k, item)) {
            kept.push(item.clone());
        }
    }
    Ok(Value::grown(kept))
}

fn compact(_: &Context, args: &[Value]) -> FnResult {
    let all = list(any(args, 0), "compact on")?;
    Ok(Value::grown(all.iter().filter(|item| !defaults::empty(item)).cloned().collect()))
}

fn without(_: &Context, args: &[Value]) -> FnResult {
    let all = list(any(args, 0), "find without on")?;
    let omit = rest(args, 1);
    budget::work_of(all.len().saturating_mul(omit.len()))?;
    Ok(Value::grown(all.iter().filter(|item| !omit.iter().any(|o| deep_equal(o, item))).cloned().collect()))
}

fn has(_: &Context, args: &[Value]) -> FnResult {
    if matches!(any(args, 1), Value::Nil) {
        return Ok(false.into());
    }
    let all = list(any(args, 1), "find has on")?;
    budget::work_of(all.len())?;
    Ok(all.iter().any(|item| deep_equal(item, any(args, 0))).into())
}

const BEYOND: &str = "reflect.Value.Slice: slice index out of bounds";

fn slice(_: &Context, args: &[Value]) -> FnResult {
    let all = items(any(args, 0), |kind| format!("list should be type of slice or array but {kind}"))?;
    if all.is_empty() {
        return Ok(Value::Nil);
    }
    let index = |i: usize| args.get(i).map(number::to_int64);
    let start = usize::try_from(index(1).unwrap_or(0));
    let end = index(2).map_or(Ok(all.len()), usize::try_from);
    let elem = if let Value::List(list) = any(args, 0) { list.elem } else { Elem::Str };
    let (Ok(start), Ok(end)) = (start, end) else { return Err(BEYOND.into()) };
    if end > all.len() {
        budget::elements(all.capacity(elem))?;
    }
    let items = all.part(elem, start, end).ok_or(BEYOND)?;
    match any(args, 0) {
        Value::Object(object) => object.with_items(items).ok_or_else(|| BEYOND.into()),
        _ => Ok(Value::List(List { elem, items })),
    }
}

fn concat(_: &Context, args: &[Value]) -> FnResult {
    let mut all = Vec::new();
    for arg in args {
        let items = items(arg, |kind| format!("Cannot concat type {kind} as list"))?;
        budget::elements(items.len())?;
        all.extend_from_slice(&items);
    }
    Ok(if all.is_empty() { nil() } else { Value::grown(all) })
}

fn chunk(_: &Context, args: &[Value]) -> FnResult {
    let all = list(any(args, 1), "chunk")?;
    budget::elements(all.len().saturating_mul(2))?;
    let size = int(args, 0);
    let chunks: Vec<Value> = match (usize::try_from(size), all.len()) {
        (Ok(size), _) if size > 0 => all.chunks(size).map(|c| Value::list(c.to_vec())).collect(),
        // sprig divides by the size, and makes chunks of a negative one unless there is only one, or less than one.
        (Err(_), 1) if size < -1 => vec![Value::list(all.to_vec())],
        (Err(_), length) if length > 1 && (length - 1) as u64 <= size.unsigned_abs() => Vec::new(),
        _ => return Err("runtime error: makeslice: len out of range".into()),
    };
    Ok(Value::List(List { elem: Elem::Object("[]interface {}"), items: chunks.into() }))
}

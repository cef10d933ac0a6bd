//! Access to arguments whose number and types the engine has checked.

use super::text;
use crate::template::budget;
use crate::template::function::FnError;
use crate::template::value::{Items, Kind, Map, Str, Value};
use std::borrow::Cow;

/// Go's message when a function asks a nil interface for its type.
pub const NIL_POINTER: &str = "runtime error: invalid memory address or nil pointer dereference";

/// A `string`.
pub fn bytes(args: &[Value], i: usize) -> &[u8] {
    match args.get(i) {
        Some(Value::Str(s)) => s.bytes(),
        _ => &[],
    }
}

/// A `string` as text; bytes that are not UTF-8 become U+FFFD.
pub fn string(args: &[Value], i: usize) -> Cow<'_, str> {
    text::valid(bytes(args, i))
}

/// An `int` or `int64`.
pub fn int(args: &[Value], i: usize) -> i64 {
    match args.get(i) {
        Some(Value::Int(_, n)) => *n,
        _ => 0,
    }
}

/// A `bool`.
pub fn boolean(args: &[Value], i: usize) -> bool {
    matches!(args.get(i), Some(Value::Bool(true)))
}

/// A `map[string]interface {}`; `None` is Go's nil map.
pub fn map(args: &[Value], i: usize) -> Option<&Map> {
    match args.get(i) {
        Some(Value::Map(map)) if !map.is_nil() => Some(map),
        _ => None,
    }
}

/// Any value.
pub fn any(args: &[Value], i: usize) -> &Value {
    static_nil(args.get(i))
}

fn static_nil(value: Option<&Value>) -> &Value {
    const NIL: Value = Value::Nil;
    value.unwrap_or(&NIL)
}

/// The arguments after the first ones.
pub fn rest(args: &[Value], from: usize) -> &[Value] {
    args.get(from..).unwrap_or_default()
}

/// The items of a slice, or sprig's complaint about any other type.
pub fn items(value: &Value, complaint: impl Fn(&str) -> String) -> Result<Items, FnError> {
    match value {
        Value::List(list) => Ok(list.items.clone()),
        Value::Nil => Err(NIL_POINTER.into()),
        Value::Object(object) if object.kind() == Kind::Slice => Ok(object.items().unwrap_or_default()),
        other => Err(complaint(kind_name(other.kind())).into()),
    }
}

/// The name that Go's `reflect` gives to a kind.
pub fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Invalid => "invalid",
        Kind::Bool => "bool",
        Kind::Int => "int",
        Kind::Int8 => "int8",
        Kind::Int16 => "int16",
        Kind::Int32 => "int32",
        Kind::Int64 => "int64",
        Kind::Uint => "uint",
        Kind::Uint8 => "uint8",
        Kind::Uint16 => "uint16",
        Kind::Uint32 => "uint32",
        Kind::Uint64 => "uint64",
        Kind::Float64 => "float64",
        Kind::String => "string",
        Kind::Slice => "slice",
        Kind::Map => "map",
        Kind::Struct => "struct",
        Kind::Ptr => "ptr",
        Kind::Func => "func",
        Kind::Complex128 => "complex128",
    }
}

/// A new map with string values.
pub fn string_map(entries: impl IntoIterator<Item = (Str, Value)>) -> Value {
    let map = Map::new(crate::template::value::MapType::Str);
    map.borrow_mut().extend(entries);
    Value::Map(map)
}

/// sprig's `strslice`: the conversion of the argument of `join` and `sortAlpha`.
pub fn strings(value: &Value) -> Result<Vec<Vec<u8>>, FnError> {
    let shown = |item: &Value| {
        budget::write(0)?;
        let text = text::strval(item)?;
        budget::make(text.len())?;
        Ok(text)
    };
    match value {
        Value::List(list) => list.items.iter().filter(|item| !matches!(item, Value::Nil)).map(shown).collect(),
        Value::Nil => Ok(Vec::new()),
        Value::Object(object) if object.kind() == Kind::Slice => {
            object.items().unwrap_or_default().iter().map(shown).collect()
        }
        other => Ok(vec![text::strval(other)?]),
    }
}

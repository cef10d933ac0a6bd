//! Go types that templates meet without any function making them: the methods of `common.Values`, which hide keys of
//! the same name, those of named integers, and complex constants.

use super::fmt::{round_duration, stringer};
use super::quote::quoted;
use crate::template::function::{FnError, FnResult, Param};
use crate::template::value::{IntType, Kind, Map, MapType, Object, Str, Value};
use std::rc::Rc;

/// The parameters of a method of `common.Values`.
pub fn method(name: &str) -> Option<&'static [Param]> {
    match name {
        "AsMap" | "YAML" => Some(&[]),
        "PathValue" | "Table" => Some(&[Param::Str]),
        _ => None,
    }
}

/// Calls one of them; `to_yaml` is the template function `mustToYaml`, which `YAML` is in other words.
pub fn call(map: &Map, name: &str, args: &[Value], to_yaml: impl FnOnce(&[Value]) -> FnResult) -> FnResult {
    let path = match args {
        [Value::Str(path)] => path.text(),
        _ => "".into(),
    };
    match name {
        "Table" => Ok(table(map, &path)?.into()),
        "PathValue" => path_value(map, &path),
        "YAML" => match to_yaml(&[Value::Map(map.with_type(MapType::Any))])? {
            Value::Str(text) => Ok(Value::str([text.bytes(), b"\n"].concat())),
            other => Ok(other),
        },
        _ => Ok(map.with_type(MapType::Any).into()),
    }
}

fn table(map: &Map, path: &str) -> Result<Map, FnError> {
    path.split('.').try_fold(map.with_type(MapType::Values), |map, key| match map.get(key) {
        Some(Value::Map(inner)) if inner.kind != MapType::Str => Ok(inner.with_type(MapType::Values)),
        _ => Err(format!("{} is not a table", quoted(key.as_bytes())).into()),
    })
}

fn path_value(map: &Map, path: &str) -> FnResult {
    if path.is_empty() {
        return Err("YAML path cannot be empty".into());
    }
    let (found, key) = match path.rsplit_once('.') {
        Some((tables, key)) => (table(map, tables).ok(), key),
        None => (Some(map.clone()), path),
    };
    match found.and_then(|map| map.get(key)) {
        None => Err(format!("{} is not a value", quoted(key.as_bytes())).into()),
        Some(Value::Map(inner)) if inner.kind == MapType::Any => {
            Err(format!("{} is not a value", quoted(key.as_bytes())).into())
        }
        Some(value) => Ok(value),
    }
}

/// The parameters of a method of `time.Duration`, `time.Month` or `time.Weekday`.
pub fn int_method(int: IntType, name: &str) -> Option<&'static [Param]> {
    match (int, name) {
        (IntType::Duration | IntType::Month | IntType::Weekday, "String")
        | (
            IntType::Duration,
            "Hours" | "Minutes" | "Seconds" | "Milliseconds" | "Microseconds" | "Nanoseconds" | "Abs",
        ) => Some(&[]),
        (IntType::Duration, "Round" | "Truncate") => Some(&[Param::Named("time.Duration")]),
        _ => None,
    }
}

/// Calls one of them.
pub fn call_int(int: IntType, n: i64, name: &str, args: &[Value]) -> Value {
    let whole = |unit: i64| Value::Int(IntType::Int64, n / unit);
    #[expect(clippy::cast_precision_loss, reason = "Go converts the whole units and the rest apart, as here")]
    let float = |unit: i64| Value::Float((n / unit) as f64 + (n % unit) as f64 / unit as f64);
    let duration = |n: i64| Value::Int(IntType::Duration, n);
    let multiple = if let Some(Value::Int(_, m)) = args.first() { *m } else { 0 };
    match name {
        "Hours" => float(3_600_000_000_000),
        "Minutes" => float(60_000_000_000),
        "Seconds" => float(1_000_000_000),
        "Milliseconds" => whole(1_000_000),
        "Microseconds" => whole(1_000),
        "Nanoseconds" => whole(1),
        "Abs" => duration(n.saturating_abs()),
        "Round" => duration(round_duration(n, multiple)),
        "Truncate" if multiple > 0 => duration(n - n % multiple),
        "Truncate" => duration(n),
        _ => Value::str(stringer(&Value::Int(int, n)).unwrap_or_default()),
    }
}

/// A struct of which templates see only what `printf` shows, or a pointer to one.
pub struct Unexported {
    type_name: &'static str,
    kind: Kind,
    /// `None` behind a nil pointer.
    fields: Option<Vec<(&'static str, Value)>>,
}

impl Unexported {
    /// A pointer, nil without fields.
    pub fn pointer(type_name: &'static str, fields: Option<Vec<(&'static str, Value)>>) -> Value {
        Value::Object(Rc::new(Self { type_name, kind: Kind::Ptr, fields }))
    }
    /// A struct.
    pub fn structure(type_name: &'static str, fields: Vec<(&'static str, Value)>) -> Value {
        Value::Object(Rc::new(Self { type_name, kind: Kind::Struct, fields: Some(fields) }))
    }
}

impl Object for Unexported {
    fn type_name(&self) -> &'static str {
        self.type_name
    }
    fn kind(&self) -> Kind {
        self.kind
    }
    fn field(&self, _name: &str) -> Option<Value> {
        None
    }
    fn fields(&self) -> Vec<Str> {
        Vec::new()
    }
    fn is_nil(&self) -> bool {
        self.fields.is_none()
    }
    fn shown(&self) -> Vec<(Str, Value)> {
        self.fields.iter().flatten().map(|(name, value)| (Str::from(*name), value.clone())).collect()
    }
    fn json(&self) -> Value {
        Value::Nil
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// A `complex128`, which only a constant makes and only printing uses.
pub struct Complex {
    /// The real part.
    pub real: f64,
    /// The imaginary part.
    pub imaginary: f64,
}

impl Object for Complex {
    fn type_name(&self) -> &'static str {
        "complex128"
    }
    fn kind(&self) -> Kind {
        Kind::Complex128
    }
    fn field(&self, _name: &str) -> Option<Value> {
        None
    }
    fn fields(&self) -> Vec<Str> {
        Vec::new()
    }
    fn truth(&self) -> bool {
        self.real != 0.0 || self.imaginary != 0.0
    }
    fn json(&self) -> Value {
        Value::Nil
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

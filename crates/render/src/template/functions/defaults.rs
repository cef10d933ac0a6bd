//! Empty values, and the defaults that replace them.

use super::args::{any, boolean, rest};
use super::{fixed, variadic};
use crate::template::function::{Context, FnResult, Function, Param};
use crate::template::value::{Kind, Value};

use Param::{Any, Bool};

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[
    variadic("default", &[Any, Any], default),
    fixed("empty", &[Any], |_, a| Ok(empty(any(a, 0)).into())),
    variadic("coalesce", &[Any], |_, a| Ok(a.iter().find(|v| !empty(v)).cloned().unwrap_or(Value::Nil))),
    variadic("all", &[Any], |_, a| Ok((!a.iter().any(empty)).into())),
    variadic("any", &[Any], |_, a| Ok(a.iter().any(|v| !empty(v)).into())),
    fixed("ternary", &[Any, Any, Bool], |_, a| Ok(any(a, usize::from(!boolean(a, 2))).clone())),
];

fn default(_: &Context, args: &[Value]) -> FnResult {
    match rest(args, 1).first() {
        Some(given) if !empty(given) => Ok(given.clone()),
        _ => Ok(any(args, 0).clone()),
    }
}

/// sprig's `empty`: zero numbers, `false`, nil, and values without length. A struct never is.
pub fn empty(value: &Value) -> bool {
    match value {
        Value::Nil => true,
        Value::Bool(b) => !b,
        Value::Int(_, i) => *i == 0,
        Value::Float(f) => *f == 0.0,
        Value::Str(s) => s.is_empty(),
        Value::List(list) => list.items.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Object(object) => object.kind() == Kind::Map && !object.truth(),
    }
}

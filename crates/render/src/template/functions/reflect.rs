//! Types and kinds of values, and equality.

use super::args::{any, kind_name, string};
use super::fixed;
use crate::template::budget;
use crate::template::function::{Function, Param};
use crate::template::go::fmt::type_name;
use crate::template::stack::deeper;
use crate::template::value::{Str, Value};
use std::rc::Rc;

use Param::{Any, Str as S};

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[
    fixed("typeOf", &[Any], |_, a| Ok(type_name(any(a, 0)).as_ref().into())),
    fixed("typeIs", &[S, Any], |_, a| Ok((string(a, 0) == type_name(any(a, 1))).into())),
    fixed("typeIsLike", &[S, Any], |_, a| {
        let (wanted, found) = (string(a, 0), type_name(any(a, 1)));
        Ok((wanted == found || found.strip_prefix('*') == Some(&wanted)).into())
    }),
    fixed("kindOf", &[Any], |_, a| Ok(kind_name(any(a, 0).kind()).into())),
    fixed("kindIs", &[S, Any], |_, a| Ok((string(a, 0) == kind_name(any(a, 1).kind())).into())),
    fixed("deepEqual", &[Any, Any], |_, a| Ok(deep_equal(any(a, 0), any(a, 1)).into())),
];

/// Go's `reflect.DeepEqual`: types count, so that an `int` is not an `int64`, and nil is not an empty slice.
pub fn deep_equal(a: &Value, b: &Value) -> bool {
    equal(a, b, 0)
}

fn all_equal(a: &[(Str, Value)], b: &[(Str, Value)], depth: usize) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|((j, a), (k, b))| j == k && deeper(|| equal(a, b, depth + 1)))
}

fn equal(a: &Value, b: &Value, depth: usize) -> bool {
    // Only maps that contain themselves are deeper. Go treats a pair that it is already comparing as equal.
    if depth > 1000 {
        return true;
    }
    // The budget reports a refusal at the next step.
    if budget::work(1).is_err() {
        return false;
    }
    match (a, b) {
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(s, a), Value::Int(t, b)) => s == t && a == b,
        #[expect(clippy::float_cmp, reason = "Go compares with ==")]
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::List(a), Value::List(b)) => {
            a.elem == b.elem
                && a.is_nil() == b.is_nil()
                && (a.items.is_same(&b.items)
                    || a.items.len() == b.items.len()
                        && a.items.iter().zip(b.items.iter()).all(|(a, b)| deeper(|| equal(a, b, depth + 1))))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.kind == b.kind
                && (a.is_same(b)
                    || a.len() == b.len()
                        && a.borrow()
                            .iter()
                            .zip(b.borrow().iter())
                            .all(|((j, a), (k, b))| j == k && deeper(|| equal(a, b, depth + 1))))
        }
        (Value::Object(a), Value::Object(b)) => {
            Rc::ptr_eq(a, b)
                || a.type_name() == b.type_name()
                    && a.display() == b.display()
                    && a.is_nil() == b.is_nil()
                    && all_equal(&a.shown(), &b.shown(), depth)
        }
        _ => false,
    }
}

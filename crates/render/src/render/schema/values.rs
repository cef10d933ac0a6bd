//! Values as JSON Schema sees them.

use super::compile::{Items, Schema};
use super::draft::Draft;
use super::number::Decimal;
use crate::template::functions::json::Number;
use crate::template::value::Value;
use std::collections::BTreeSet;

/// Which parts of a value no schema has looked at.
#[derive(Default)]
pub struct Unevaluated {
    pub keys: BTreeSet<String>,
    pub items: BTreeSet<usize>,
}

impl Unevaluated {
    /// All of them, where some schema will ask.
    pub fn of(value: &Value, schema: &Schema, caller_asks: bool) -> Self {
        let mut found = Self::default();
        match value {
            Value::Map(map)
                if (caller_asks || schema.unevaluated_properties.is_some())
                    && schema.additional_properties.is_none() =>
            {
                found.keys = map.borrow().keys().map(|k| k.text().into_owned()).collect();
            }
            Value::List(list) if caller_asks || schema.unevaluated_items.is_some() => {
                let (all, first) = if schema.draft >= Some(Draft::D2020) {
                    (schema.rest_items.is_some(), schema.prefix_items.len())
                } else {
                    match &schema.items {
                        Some(Items::All(_)) => (true, 0),
                        Some(Items::Each(each)) => (schema.additional_items.is_some(), each.len()),
                        None => (schema.additional_items.is_some(), 0),
                    }
                };
                if !all {
                    found.items = (first..list.items.len()).collect();
                }
            }
            _ => {}
        }
        found
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.items.is_empty()
    }

    /// Keeps the parts that both leave unevaluated.
    pub fn merge(&mut self, other: &Self) {
        self.keys.retain(|k| other.keys.contains(k));
        self.items.retain(|i| other.items.contains(i));
    }
}

/// The name of a value's type.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "null",
        Value::Bool(_) => "boolean",
        Value::Int(..) | Value::Float(_) => "number",
        Value::Object(object) if object.as_any().is::<Number>() => "number",
        Value::Str(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) => "object",
        Value::Object(_) => "",
    }
}

/// Whether a value is a number without a fraction.
pub fn is_integer(value: &Value) -> bool {
    Decimal::of(value).is_some_and(|n| n.is_integer())
}

/// JSON's equality: numbers are equal when their values are.
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len() && a.borrow().iter().zip(b.borrow().iter()).all(|((j, a), (k, b))| j == k && equal(a, b))
        }
        (Value::List(a), Value::List(b)) => {
            a.items.len() == b.items.len() && a.items.iter().zip(b.items.iter()).all(|(a, b)| equal(a, b))
        }
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a == b,
        _ => matches!((Decimal::of(a), Decimal::of(b)), (Some(a), Some(b)) if a == b),
    }
}

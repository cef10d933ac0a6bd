//! Values of `const` and `enum`: they are kept with the compiled schema, which threads share.

use super::error;
use super::number::{self, Decimal};
use crate::template::value::Value;

/// A value of a schema.
pub enum Constant {
    Nil,
    Bool(bool),
    /// The number, and its text.
    Number(Option<Decimal>, String),
    Text(Vec<u8>),
    List(Vec<Self>),
    /// Entries in the order of their keys.
    Table(Vec<(Vec<u8>, Self)>),
}

impl Constant {
    /// A copy of a value.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Bool(b) => Self::Bool(*b),
            Value::Str(s) => Self::Text(s.bytes().to_vec()),
            Value::List(list) => Self::List(list.items.iter().map(Self::of).collect()),
            Value::Map(map) => {
                Self::Table(map.borrow().iter().map(|(k, v)| (k.bytes().to_vec(), Self::of(v))).collect())
            }
            other => number::text(other).map_or(Self::Nil, |text| Self::Number(Decimal::of(other), text)),
        }
    }

    /// Whether a value is the same; numbers of all types are compared by value.
    pub fn equals(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Nil, Value::Nil) => true,
            (Self::Bool(a), Value::Bool(b)) => a == b,
            (Self::Text(a), Value::Str(b)) => a == b.bytes(),
            (Self::List(a), Value::List(b)) => {
                a.len() == b.items.len() && a.iter().zip(b.items.iter()).all(|(a, b)| a.equals(b))
            }
            (Self::Table(a), Value::Map(b)) => {
                let b = b.borrow();
                a.len() == b.len() && a.iter().zip(b.iter()).all(|((j, a), (k, b))| j == k.bytes() && a.equals(b))
            }
            (Self::Number(Some(a), _), b) => Decimal::of(b).is_some_and(|b| *a == b),
            _ => false,
        }
    }

    /// Whether the value is too large for a message.
    pub fn is_collection(&self) -> bool {
        matches!(self, Self::List(_) | Self::Table(_))
    }

    /// The value in a message; collections are never shown.
    pub fn shown(&self) -> String {
        match self {
            Self::Bool(b) => b.to_string(),
            Self::Number(_, text) => text.clone(),
            Self::Text(text) => error::quoted(&String::from_utf8_lossy(text)),
            Self::Nil | Self::List(_) | Self::Table(_) => "<nil>".into(),
        }
    }
}

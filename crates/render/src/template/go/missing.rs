//! Finds what a chain of fields lacked. Used only after an execution has failed.

use super::ast::{Expr, ExprKind, Span};
use super::exec::{Frame, Rv};
use crate::template::trace::{self, Missing};
use crate::template::value::Value;

impl Frame<'_, '_, '_> {
    /// Why the value before a field is nil: the first missing part of the chain.
    #[cold]
    pub fn missing_key(&self, dot: &Rv, node: &Expr, failed: Span) -> Option<Missing> {
        let (mut path, start, fields) = self.receiver(dot, node)?;
        let end = fields.iter().position(|f| *f == failed)?;
        let mut value = start;
        for field in &fields[..end] {
            let key = self.word(*field);
            let Value::Map(table) = &value else { return None };
            let found = table.get(key);
            match found {
                Some(found) if !matches!(found, Value::Nil) => value = found,
                found => {
                    let is_null = found.is_some();
                    let keys: Vec<_> = table.entries().into_iter().map(|(key, _)| key.text().into_owned()).collect();
                    let nearest = trace::nearest(key, keys.iter().map(String::as_str)).filter(|_| !is_null);
                    return Some(Missing::Key { table: path, key: key.into(), is_null, nearest });
                }
            }
            path = format!("{path}.{key}");
        }
        None
    }

    /// A value without fields, of which the template wants one.
    #[cold]
    pub fn missing_field(&self, receiver: &Rv, dot: &Rv, node: &Expr, failed: Span) -> Option<Missing> {
        let (path, _, fields) = self.receiver(dot, node)?;
        let end = fields.iter().position(|f| *f == failed)?;
        let path = fields[..end].iter().fold(path, |path, field| format!("{path}.{}", self.word(*field)));
        let is = match &receiver.value {
            Value::Bool(_) => "a boolean",
            Value::Int(..) | Value::Float(_) => "a number",
            Value::Str(_) => "a text",
            Value::List(_) => "a list",
            Value::Nil | Value::Map(_) | Value::Object(_) => return None,
        };
        Some(Missing::Table { path, field: self.word(failed).into(), is })
    }

    /// The start of a chain: its text, its value, and the fields after it.
    fn receiver<'e>(&self, dot: &Rv, node: &'e Expr) -> Option<(String, Value, &'e [Span])> {
        match &node.kind {
            ExprKind::Field(fields) => Some((String::new(), dot.value.clone(), fields)),
            ExprKind::Variable(variable, fields) => {
                let value = self.peek(variable.id)?;
                Some((self.word(variable.name).to_owned(), value, fields))
            }
            _ => None,
        }
    }
}

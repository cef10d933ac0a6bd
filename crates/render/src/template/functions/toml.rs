//! TOML as `BurntSushi/toml` 1.6 writes it: plain keys first, then tables, each level two spaces deeper.

use super::time::Time;
use super::toml_scalar::LocalTime;
use super::{json, text};
use crate::template::budget::{self, Spent};
use crate::template::go::fmt;
use crate::template::stack::deeper;
use crate::template::value::{IntType, Kind, List, Str, Value};
use std::fmt::Write as _;

/// Values nested deeper than this hold themselves.
const MAX_DEPTH: usize = 500;

/// The message of Go's `reflect` about a nil interface.
pub const ZERO_VALUE: &str = "reflect: call of reflect.Value.Type on zero Value";

/// Why a value cannot be written as TOML, or a text cannot be read; the words are those of `BurntSushi/toml`.
#[derive(Debug, thiserror::Error)]
pub enum TomlError {
    #[error("toml: top-level values must be Go maps or structs")]
    NoKey,
    #[error("toml: cannot encode array with nil element")]
    NilItem,
    #[error("toml: value is nested too deeply")]
    TooDeep,
    /// A panic of Go.
    #[error("{ZERO_VALUE}")]
    ZeroValue,
    #[error("unsupported type{place}: complex128")]
    Complex { place: &'static str },
    #[error("toml: line {line}{key}: {message}")]
    Text { line: i64, key: String, message: String },
    #[error(transparent)]
    Spent(#[from] Spent),
}

/// The value as TOML.
pub fn write(value: &Value) -> Result<Vec<u8>, TomlError> {
    let mut writer = Writer { out: String::new(), keys: Vec::new() };
    match plain(value) {
        _ if is_complex(value) => return Err(TomlError::Complex { place: " for key ''" }),
        Value::List(list) if is_table_list(&list)? => return Err(TomlError::NoKey),
        Value::Nil => return Err(TomlError::ZeroValue),
        other => match table(&other) {
            Some(entries) => writer.map(entries)?,
            // Go's encoder has no objection to a document that is one value.
            None => writer.element(&other, 0)?,
        },
    }
    // Bytes that are not UTF-8 stay as they are.
    Ok(text::unescaped(&writer.out).into_owned())
}

fn is_complex(value: &Value) -> bool {
    value.kind() == Kind::Complex128
}

struct Writer {
    out: String,
    /// The path to the value that is being written, ready to print.
    keys: Vec<String>,
}

/// The entries of a map by their keys, and the fields of a struct in their order.
fn table(value: &Value) -> Option<Vec<(Str, Value)>> {
    match value {
        Value::Map(map) => Some(map.entries()),
        Value::Object(object) if object.members().is_some() => {
            let field = |name: Str| (name.clone(), object.field(&name.text()).unwrap_or(Value::Nil));
            Some(object.fields().into_iter().map(field).collect())
        }
        _ => None,
    }
}

/// Types that are not written unchanged, with the types that are written instead.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(object) if object.as_any().is::<Time>() || object.as_any().is::<LocalTime>() => value.clone(),
        Value::Object(object) if object.kind() == Kind::Map => {
            let entry = |key: Str| (key.clone(), object.field(&key.text()).unwrap_or(Value::Nil));
            Value::map(object.fields().into_iter().map(entry))
        }
        Value::Object(object) if is_complex(value) || object.members().is_some() => value.clone(),
        Value::Object(object) => object.json(),
        other => other.clone(),
    }
}

/// Whether all items are tables, so that each gets a `[[header]]`.
fn is_table_list(list: &List) -> Result<bool, TomlError> {
    without_nil(list)?;
    Ok(!list.items.is_empty() && list.items.iter().all(|item| table(&plain(item)).is_some()))
}

/// A list has no nil in it, nor a map or a list that is one.
fn without_nil(list: &List) -> Result<(), TomlError> {
    let is_nil = |item: &Value| match item {
        Value::Nil => true,
        Value::Map(map) => map.is_nil(),
        Value::List(list) => list.is_nil(),
        _ => false,
    };
    if list.items.iter().any(is_nil) { Err(TomlError::NilItem) } else { Ok(()) }
}

impl Writer {
    fn map(&mut self, entries: Vec<(Str, Value)>) -> Result<(), TomlError> {
        if self.keys.len() > MAX_DEPTH {
            return Err(TomlError::TooDeep);
        }
        let (mut direct, mut tables) = (Vec::new(), Vec::new());
        for (key, value) in entries {
            budget::write(self.out.len())?;
            let value = plain(&value);
            let is_table = match &value {
                Value::Map(map) if map.is_nil() => continue,
                Value::List(list) if list.is_nil() => continue,
                Value::List(list) => is_table_list(list)?,
                Value::Nil => continue,
                value => table(value).is_some(),
            };
            if is_table { &mut tables } else { &mut direct }.push((key, value));
        }
        for (key, value) in direct.into_iter().chain(tables) {
            self.keys.push(key_text(&text::escaped(key.bytes())));
            self.entry(&value)?;
            self.keys.pop();
        }
        Ok(())
    }

    fn entry(&mut self, value: &Value) -> Result<(), TomlError> {
        let indent = "  ".repeat(self.keys.len() - 1);
        match value {
            Value::List(list) if is_table_list(list)? => {
                for entries in list.items.iter().filter_map(|item| table(&plain(item))) {
                    self.new_line();
                    let _ = write!(self.out, "{indent}[[{}]]", self.keys.join("."));
                    self.new_line();
                    deeper(|| self.map(entries))?;
                }
                Ok(())
            }
            value => {
                if let Some(entries) = table(value) {
                    if self.keys.len() == 1 {
                        self.new_line();
                    }
                    let _ = write!(self.out, "{indent}[{}]", self.keys.join("."));
                    self.new_line();
                    return deeper(|| self.map(entries));
                }
                let key = self.keys.last().cloned().unwrap_or_default();
                let _ = write!(self.out, "{indent}{key} = ");
                self.element(value, 0)?;
                self.new_line();
                Ok(())
            }
        }
    }

    /// The first item has no blank line before it.
    fn new_line(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    fn element(&mut self, value: &Value, depth: usize) -> Result<(), TomlError> {
        if depth > MAX_DEPTH {
            return Err(TomlError::TooDeep);
        }
        budget::write(self.out.len())?;
        let plain = plain(value);
        if let Some(entries) = table(&plain) {
            return match &plain {
                Value::Object(object) => {
                    let places: Vec<_> = object.shown().into_iter().map(|(name, _)| name).collect();
                    self.inline(entries, Some(&places), depth)
                }
                _ => self.inline(entries, None, depth),
            };
        }
        match plain {
            _ if is_complex(value) => return Err(TomlError::Complex { place: "" }),
            Value::Nil | Value::Map(_) => return Err(TomlError::NilItem),
            Value::Bool(b) => self.out.push_str(if b { "true" } else { "false" }),
            Value::Int(IntType::Duration, n) => self.quoted(&fmt::duration(n)),
            Value::Int(kind, i) => {
                let mut digits = Vec::new();
                json::integer(kind, i, &mut digits);
                self.out.push_str(&String::from_utf8_lossy(&digits));
            }
            Value::Float(f) => self.float(f),
            Value::Str(s) => self.quoted(&text::escaped(s.bytes())),
            Value::List(list) => {
                without_nil(&list)?;
                self.out.push('[');
                for (i, item) in list.items.iter().enumerate() {
                    if i > 0 {
                        self.out.push_str(", ");
                    }
                    self.element(item, depth + 1)?;
                }
                self.out.push(']');
            }
            Value::Object(object) => match object.as_any().downcast_ref::<LocalTime>() {
                Some(local) => self.out.push_str(local.text()),
                None => self.out.push_str(&String::from_utf8_lossy(&text::strval(&object.json()).unwrap_or_default())),
            },
        }
        Ok(())
    }

    /// A table in one line; of a struct with the names of all its fields.
    fn inline(&mut self, entries: Vec<(Str, Value)>, places: Option<&[Str]>, depth: usize) -> Result<(), TomlError> {
        let (mut direct, mut tables) = (Vec::new(), Vec::new());
        for (key, value) in entries {
            let is_table = match plain(&value) {
                Value::Map(map) => !map.is_nil(),
                Value::List(list) => !list.is_nil() && is_table_list(&list)?,
                value => table(&value).is_some(),
            };
            if is_table { &mut tables } else { &mut direct }.push((key, value));
        }
        self.out.push('{');
        let count = direct.len() + tables.len();
        // BurntSushi leaves out the comma after the field whose place in its struct, which has other fields too, is
        // that of the last one of those that are written.
        let is_last = |i: usize, key: &Str| match places {
            Some(places) => places.iter().position(|place| place == key).is_some_and(|place| place + 1 == count),
            None => i + 1 == count,
        };
        for (i, (key, value)) in direct.iter().chain(&tables).enumerate() {
            // A nil value is left out, but not the comma before it.
            match plain(value) {
                Value::Nil => continue,
                Value::Map(map) if map.is_nil() => continue,
                Value::List(list) if list.is_nil() => continue,
                _ => {}
            }
            let _ = write!(self.out, "{} = ", key_text(&text::escaped(key.bytes())));
            self.element(value, depth + 1)?;
            if !is_last(i, key) {
                self.out.push_str(", ");
            }
        }
        self.out.push('}');
        Ok(())
    }

    fn float(&mut self, f: f64) {
        if f.is_finite() {
            let digits = text::float(f);
            self.out.push_str(&digits);
            if !digits.contains(['.', 'e']) {
                self.out.push_str(".0");
            }
            return;
        }
        if f.is_sign_negative() {
            self.out.push('-');
        }
        self.out.push_str(if f.is_nan() { "nan" } else { "inf" });
    }

    fn quoted(&mut self, text: &str) {
        self.out.push('"');
        escape(text, &mut self.out);
        self.out.push('"');
    }
}

fn key_text(key: &str) -> String {
    if !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') {
        return key.into();
    }
    quoted_key(key)
}

/// A key between quotes.
pub fn quoted_key(key: &str) -> String {
    let mut out = String::from("\"");
    escape(key, &mut out);
    out.push('"');
    out
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x08' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\x0c' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if c < ' ' || c == '\x7f' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}

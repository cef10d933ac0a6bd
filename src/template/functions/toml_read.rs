//! TOML into values, with the types that `BurntSushi/toml` gives them.

use super::layout;
use super::text::quoted;
use super::time::Time;
use crate::template::value::{IntType, Kind, Object, Str, Value};
use std::any::Any;
use std::rc::Rc;
use toml::Value as Toml;

/// Reads a document. Helm hides errors in the result; their words are not always Go's.
pub fn parse(text: &str) -> Result<Value, String> {
    match text.parse::<toml::Table>() {
        Ok(table) => Ok(value(&Toml::Table(table))),
        Err(e) => {
            let line = e.span().map_or(1, |span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
            Err(format!("toml: line {line}: {}", e.message()))
        }
    }
}

fn value(toml: &Toml) -> Value {
    match toml {
        Toml::String(s) => s.as_str().into(),
        Toml::Integer(i) => Value::Int(IntType::Int64, *i),
        Toml::Float(f) => (*f).into(),
        Toml::Boolean(b) => (*b).into(),
        Toml::Datetime(datetime) => date(&datetime.to_string()),
        Toml::Array(items) => {
            let values: Vec<Value> = items.iter().map(value).collect();
            // A list of tables is a `[]map[string]interface {}`.
            if !items.is_empty() && items.iter().all(Toml::is_table) {
                return Value::List(crate::template::value::List {
                    elem: crate::template::value::Elem::Object("map[string]interface {}"),
                    items: values.into(),
                });
            }
            Value::list(values)
        }
        Toml::Table(table) => Value::map(table.iter().map(|(k, v)| (Str::from(k.as_str()), value(v)))),
    }
}

fn date(text: &str) -> Value {
    if let Ok(civil) = layout::parse("2006-01-02T15:04:05.999999999Z07:00", text) {
        return Time(civil).value();
    }
    let local = [
        ("2006-01-02T15:04:05.999999999", "datetime-local"),
        ("2006-01-02", "date-local"),
        ("15:04:05.999999999", "time-local"),
    ];
    for (form, zone) in local {
        if let Ok(mut civil) = layout::parse(form, text) {
            civil.zone = zone.into();
            return Value::Object(Rc::new(LocalTime { text: text.into(), time: Time(civil) }));
        }
    }
    Value::str(format!("invalid date {}", quoted(text)))
}

/// A date or time without a zone; Go marks it by a location that only the TOML package knows.
pub struct LocalTime {
    text: String,
    time: Time,
}

impl LocalTime {
    /// The time in UTC.
    pub fn time(&self) -> &Time {
        &self.time
    }
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Object for LocalTime {
    fn type_name(&self) -> &'static str {
        self.time.type_name()
    }
    fn kind(&self) -> Kind {
        Kind::Struct
    }
    fn field(&self, name: &str) -> Option<Value> {
        self.time.field(name)
    }
    fn fields(&self) -> Vec<Str> {
        self.time.fields()
    }
    fn method(&self, name: &str) -> Option<&'static [crate::template::function::Param]> {
        self.time.method(name)
    }
    fn call(&self, name: &str, args: &[Value]) -> crate::template::function::FnResult {
        self.time.call(name, args)
    }
    fn display(&self) -> Option<String> {
        self.time.display()
    }
    fn json(&self) -> Value {
        self.time.json()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

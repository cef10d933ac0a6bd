//! Values to and from YAML, JSON and TOML. The functions without `must` swallow errors, or hide them in their result.

use super::args::{any, bytes};
use super::json::{self, JsonError, Style};
use super::toml::{self, TomlError};
use super::{fixed, toml_read};
use crate::template::budget;
use crate::template::function::{Context, FnError, FnResult, Function, Param};
use crate::template::value::{Elem, List, Map, MapType, Str, Value};
use crate::template::yaml::{self, EmitError};
use std::fmt::Display;

use Param::{Any, Str as S};

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[
    fixed("toYaml", &[Any], |_, a| Ok(trimmed(yaml::emit(any(a, 0)).unwrap_or_default()))),
    fixed("mustToYaml", &[Any], |_, a| Ok(trimmed(yaml::emit(any(a, 0)).map_err(marshaling)?))),
    fixed("toYamlPretty", &[Any], |_, a| match yaml::emit_pretty(any(a, 0)) {
        Err(e @ EmitError::NotMarshalled) => Err(e.into()),
        text => Ok(trimmed(text.unwrap_or_default())),
    }),
    fixed("fromYaml", &[S], |_, a| Ok(or_error_map(from_yaml(bytes(a, 0), MAP, is_map)))),
    fixed("fromYamlArray", &[S], |_, a| Ok(or_error_list(from_yaml(bytes(a, 0), "[]interface {}", is_list)))),
    fixed("toJson", &[Any], |_, a| Ok(Value::str(json::write(any(a, 0), HTML).unwrap_or_default()))),
    fixed("mustToJson", &[Any], |_, a| Ok(Value::str(json::write(any(a, 0), HTML)?))),
    fixed("toPrettyJson", &[Any], |_, a| Ok(Value::str(json::write(any(a, 0), PRETTY).unwrap_or_default()))),
    fixed("mustToPrettyJson", &[Any], |_, a| Ok(Value::str(json::write(any(a, 0), PRETTY)?))),
    fixed("toRawJson", &[Any], |_, a| Ok(Value::str(json::write(any(a, 0), Style::default())?))),
    fixed("mustToRawJson", &[Any], |_, a| Ok(Value::str(json::write(any(a, 0), Style::default())?))),
    fixed("fromJson", &[S], |_, a| from_json_map(bytes(a, 0))),
    fixed("fromJsonArray", &[S], |_, a| Ok(from_json_array(bytes(a, 0)))),
    fixed("mustFromJson", &[S], |_, a| {
        budget::parse(bytes(a, 0))?;
        Ok(json::parse(bytes(a, 0))?)
    }),
    fixed("toToml", &[Any], to_toml),
    fixed("mustToToml", &[Any], |_, a| Ok(Value::str(toml::write(any(a, 0))?))),
    fixed("fromToml", &[S], from_toml),
];

const MAP: &str = "map[string]interface {}";
const HTML: Style = Style { escape_html: true, indent: false };
const PRETTY: Style = Style { escape_html: true, indent: true };

fn trimmed(mut text: Vec<u8>) -> Value {
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    Value::str(text)
}

fn is_map(value: &Value) -> bool {
    matches!(value, Value::Map(_))
}

fn is_list(value: &Value) -> bool {
    matches!(value, Value::List(_))
}

/// Helm's error for a value that could not be written: as JSON, which YAML is made from, or as YAML.
fn marshaling(error: EmitError) -> FnError {
    match error {
        EmitError::Json(error) => format!("error marshaling into JSON: {error}").into(),
        error => error.into(),
    }
}

/// An error becomes the result, except for the one that is a panic in Go.
fn to_toml(_: &Context, args: &[Value]) -> FnResult {
    match toml::write(any(args, 0)) {
        Err(e @ TomlError::ZeroValue) => Err(e.into()),
        result => Ok(Value::str(result.unwrap_or_else(|e| e.to_string().into_bytes()))),
    }
}

/// `Ok(Nil)` represents a null, which leaves Go's variable as it was.
fn from_yaml(text: &[u8], wanted: &'static str, fits: fn(&Value) -> bool) -> FnResult {
    budget::parse(text)?;
    let value = yaml::parse_value(text)?;
    if matches!(value, Value::Nil) || fits(&value) {
        return Ok(value);
    }
    Err(format!("error unmarshaling JSON: while decoding JSON: {}", json::mismatch(&value, wanted)).into())
}

fn from_json(text: &[u8], wanted: &'static str, fits: fn(&Value) -> bool) -> Result<Value, JsonError> {
    budget::parse(text)?;
    match json::read(text) {
        (Value::Nil, error) => error.map_or(Ok(Value::Nil), Err),
        (value, _) if !fits(&value) => Err(json::mismatch(&value, wanted)),
        (_, Some(error)) => Err(error),
        (value, None) => Ok(value),
    }
}

fn from_json_array(text: &[u8]) -> Value {
    match from_json(text, "[]interface {}", is_list) {
        Ok(Value::Nil) => Value::List(List::nil(Elem::Any)),
        other => or_error_list(other),
    }
}

/// The part that could be read stays, besides the error.
fn from_json_map(text: &[u8]) -> FnResult {
    budget::parse(text)?;
    let (value, mut error) = json::read(text);
    let map = match &value {
        Value::Map(map) => map.clone(),
        Value::Nil if error.is_none() => Map::nil(MapType::Any),
        other => {
            error.get_or_insert_with(|| json::mismatch(other, MAP));
            Map::new(MapType::Any)
        }
    };
    if let Some(error) = error {
        map.insert("Error", error.to_string());
    }
    Ok(map.into())
}

fn or_error_map(result: Result<Value, impl Display>) -> Value {
    match result {
        Ok(Value::Nil) => Value::map([]),
        Ok(value) => value,
        Err(message) => Value::map([(Str::from("Error"), message.to_string().into())]),
    }
}

fn or_error_list(result: Result<Value, impl Display>) -> Value {
    match result {
        Ok(Value::Nil) => Value::list(Vec::new()),
        Ok(value) => value,
        Err(message) => Value::list(vec![message.to_string().into()]),
    }
}

fn from_toml(_: &Context, args: &[Value]) -> FnResult {
    budget::parse(bytes(args, 0))?;
    Ok(or_error_map(toml_read::parse(bytes(args, 0))))
}

//! Values to and from YAML, JSON and TOML. The functions without `must` swallow errors, or hide them in their result.

use super::args::{any, bytes, string};
use super::json::{self, Style};
use super::{fixed, toml, toml_read};
use crate::template::function::{Context, FnResult, Function, Param};
use crate::template::value::{Str, Value};
use crate::template::yaml;

use Param::{Any, Str as S};

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[
    fixed("toYaml", &[Any], |_, a| Ok(trimmed(yaml::emit(any(a, 0)).unwrap_or_default()))),
    fixed("mustToYaml", &[Any], |_, a| Ok(trimmed(yaml::emit(any(a, 0))?))),
    fixed("toYamlPretty", &[Any], |_, a| Ok(trimmed(yaml::emit_pretty(any(a, 0)).unwrap_or_default()))),
    fixed("fromYaml", &[S], |_, a| Ok(or_error_map(from_yaml(bytes(a, 0), "map[string]interface {}", is_map)))),
    fixed("fromYamlArray", &[S], |_, a| Ok(or_error_list(from_yaml(bytes(a, 0), "[]interface {}", is_list)))),
    fixed("toJson", &[Any], |_, a| Ok(Value::str(json::write(any(a, 0), HTML).unwrap_or_default()))),
    fixed("mustToJson", &[Any], |_, a| Ok(Value::str(json::write(any(a, 0), HTML)?))),
    fixed("toPrettyJson", &[Any], |_, a| Ok(Value::str(json::write(any(a, 0), PRETTY).unwrap_or_default()))),
    fixed("mustToPrettyJson", &[Any], |_, a| Ok(Value::str(json::write(any(a, 0), PRETTY)?))),
    fixed("toRawJson", &[Any], |_, a| Ok(Value::str(json::write(any(a, 0), Style::default())?))),
    fixed("mustToRawJson", &[Any], |_, a| Ok(Value::str(json::write(any(a, 0), Style::default())?))),
    fixed("fromJson", &[S], |_, a| Ok(or_error_map(from_json(bytes(a, 0), "map[string]interface {}", is_map)))),
    fixed("fromJsonArray", &[S], |_, a| Ok(or_error_list(from_json(bytes(a, 0), "[]interface {}", is_list)))),
    fixed("mustFromJson", &[S], |_, a| Ok(json::parse(bytes(a, 0))?)),
    fixed("toToml", &[Any], |_, a| Ok(toml::write(any(a, 0)).unwrap_or_else(String::into_bytes).into())),
    fixed("mustToToml", &[Any], |_, a| Ok(Value::str(toml::write(any(a, 0))?))),
    fixed("fromToml", &[S], from_toml),
];

const HTML: Style = Style { escape_html: true, indent: false };
const PRETTY: Style = Style { escape_html: true, indent: true };

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::str(bytes)
    }
}

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

/// `Ok(Nil)` stands for a null, which leaves Go's variable as it was.
fn from_yaml(text: &[u8], wanted: &str, fits: fn(&Value) -> bool) -> Result<Value, String> {
    let value = yaml::parse_value(text).map_err(|e| e.to_string())?;
    if matches!(value, Value::Nil) || fits(&value) {
        return Ok(value);
    }
    Err(format!("error unmarshaling JSON: while decoding JSON: {}", json::mismatch(&value, wanted)))
}

fn from_json(text: &[u8], wanted: &str, fits: fn(&Value) -> bool) -> Result<Value, String> {
    let value = json::parse(text)?;
    if matches!(value, Value::Nil) || fits(&value) { Ok(value) } else { Err(json::mismatch(&value, wanted)) }
}

fn or_error_map(result: Result<Value, String>) -> Value {
    match result {
        Ok(Value::Nil) => Value::map([]),
        Ok(value) => value,
        Err(message) => Value::map([(Str::from("Error"), message.into())]),
    }
}

fn or_error_list(result: Result<Value, String>) -> Value {
    match result {
        Ok(Value::Nil) => Value::list(Vec::new()),
        Ok(value) => value,
        Err(message) => Value::list(vec![message.into()]),
    }
}

fn from_toml(_: &Context, args: &[Value]) -> FnResult {
    Ok(or_error_map(toml_read::parse(&string(args, 0))))
}

//! The strings, numbers and dates of TOML, and the errors of `BurntSushi/toml` for invalid ones.

use super::layout;
use super::text::quoted;
use super::time::Time;
use super::toml_lex::Fault;
use crate::template::value::{IntType, Kind, Object, Str, Value};
use std::any::Any;
use std::rc::Rc;

/// Why the text of a number or date has no value.
#[derive(Debug, thiserror::Error)]
pub enum ScalarError {
    #[error("Invalid {kind} {}: {why}", quoted(text))]
    Invalid { kind: &'static str, text: String, why: &'static str },
    #[error("{text} is out of range for {kind}")]
    Range { kind: &'static str, text: String },
    #[error("Invalid float value: {}", quoted(.0))]
    Float(String),
    #[error("invalid datetime: {}", quoted(.0))]
    Date(String),
}

const UNDERSCORES: &str = "underscores must be surrounded by digits";
const ZEROES: &str = "cannot have leading zeroes";

/// The line break after the opening quotes is not part of a string.
pub fn without_first_break(text: &str) -> &str {
    text.strip_prefix('\n').or_else(|| text.strip_prefix("\r\n")).unwrap_or(text)
}

/// Takes out a backslash at the end of a line, and all white space after it.
pub fn joined_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let after = &rest[at + 1..];
        if after.starts_with('\\') {
            out.push_str(&rest[..at + 2]);
            rest = &rest[at + 2..];
            continue;
        }
        let next = after.trim_start_matches([' ', '\t', '\r', '\n']);
        if after[..after.len() - next.len()].contains('\n') {
            out.push_str(&rest[..at]);
            rest = next;
        } else {
            out.push_str(&rest[..=at]);
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// A string with its escapes replaced.
pub fn unescape(text: &str, line: i64) -> Result<String, Fault> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let digits = match chars.next().unwrap_or('\\') {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            c @ (' ' | '\t') => return Err(Fault { line, message: format!(r"invalid escape: '\{c}'") }),
            c => {
                out.push(match c {
                    'b' => '\x08',
                    't' => '\t',
                    'n' => '\n',
                    'f' => '\x0c',
                    'r' => '\r',
                    'e' => '\x1b',
                    other => other,
                });
                continue;
            }
        };
        let code: String = chars.by_ref().take(digits).collect();
        let Some(c) = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32) else {
            let message = format!(r"Escaped character '\u{code}' is not valid UTF-8.");
            return Err(Fault { line, message });
        };
        out.push(c);
    }
    Ok(out)
}

fn has_leading_zero(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let signed = digits.len() < text.len();
    let based = !signed && matches!(digits.as_bytes().get(1), Some(b'b' | b'o' | b'x'));
    digits.len() > 1 && digits.starts_with('0') && !based
}

fn underscores_are_good(text: &str) -> bool {
    if matches!(text, "nan" | "+nan" | "-nan" | "inf" | "+inf" | "-inf") {
        return true;
    }
    let mut after_digit = false;
    for c in text.chars() {
        if c == '_' && !after_digit {
            return false;
        }
        after_digit = c.is_ascii_hexdigit();
    }
    after_digit
}

/// An integer in any base.
pub fn integer(text: &str) -> Result<Value, ScalarError> {
    let invalid = |why| Err(ScalarError::Invalid { kind: "integer", text: text.into(), why });
    if !underscores_are_good(text) {
        return invalid(UNDERSCORES);
    }
    if has_leading_zero(text) {
        return invalid(ZEROES);
    }
    let digits = text.replace('_', "");
    let parsed = match digits.get(..2) {
        Some("0b") => i64::from_str_radix(&digits[2..], 2),
        Some("0o") => i64::from_str_radix(&digits[2..], 8),
        Some("0x") => i64::from_str_radix(&digits[2..], 16),
        _ => digits.parse(),
    };
    let range = |_| ScalarError::Range { kind: "int64", text: text.into() };
    parsed.map(|i| Value::Int(IntType::Int64, i)).map_err(range)
}

/// A float.
pub fn float(text: &str) -> Result<Value, ScalarError> {
    let invalid = |why| Err(ScalarError::Invalid { kind: "float", text: text.into(), why });
    let mut parts = text.split(['.', 'e', 'E']).filter(|part| !part.is_empty());
    if !parts.clone().all(underscores_are_good) {
        return invalid(UNDERSCORES);
    }
    if parts.next().is_some_and(has_leading_zero) {
        return invalid(ZEROES);
    }
    let point_without_digit = text.split('.').skip(1).any(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
    if point_without_digit {
        return invalid("'.' must be followed by one or more digits");
    }
    let digits = text.replace('_', "");
    match digits.parse::<f64>() {
        Ok(f) if f.is_infinite() && !text.ends_with("inf") => {
            Err(ScalarError::Range { kind: "float64", text: text.into() })
        }
        Ok(f) => Ok(f.into()),
        Err(_) => Err(ScalarError::Float(text.into())),
    }
}

/// A date, a time, or both, with or without a zone.
pub fn date(text: &str) -> Result<Value, ScalarError> {
    const FORMS: [(&str, &str); 7] = [
        ("2006-01-02T15:04:05.999999999Z07:00", ""),
        ("2006-01-02T15:04:05.999999999", "datetime-local"),
        ("2006-01-02", "date-local"),
        ("15:04:05.999999999", "time-local"),
        ("2006-01-02T15:04Z07:00", ""),
        ("2006-01-02T15:04", "datetime-local"),
        ("15:04", "time-local"),
    ];
    let text = text.replace('z', "Z").replace(['t', ' '], "T");
    for (form, zone) in FORMS {
        let Ok(mut civil) = layout::parse(form, &text) else { continue };
        if lacks_zero(&text, form) {
            return Err(ScalarError::Date(text));
        }
        if zone.is_empty() {
            return Ok(Time(civil).value());
        }
        (civil.zone, civil.location) = (zone.into(), layout::Location::Fixed);
        let shown = match zone {
            "datetime-local" => FORMS[1].0,
            "date-local" => FORMS[2].0,
            _ => FORMS[3].0,
        };
        let text = layout::format(shown, &civil);
        return Ok(Value::Object(Rc::new(LocalTime { text, time: Time(civil) })));
    }
    Err(ScalarError::Date(text))
}

/// Go's `time` takes numbers without their leading zero; TOML does not.
fn lacks_zero(text: &str, form: &str) -> bool {
    let fixed = form.bytes().zip(text.bytes()).take_while(|(wanted, _)| !matches!(wanted, b'.' | b'Z'));
    fixed.into_iter().any(|(wanted, found)| !wanted.is_ascii_digit() && found != wanted)
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
    fn go_string(&self) -> Option<String> {
        self.time.go_string()
    }
    fn shown(&self) -> Vec<(Str, Value)> {
        self.time.shown()
    }
    fn json(&self) -> Value {
        self.time.json()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

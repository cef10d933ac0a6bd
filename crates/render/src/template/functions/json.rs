//! JSON as Go's `encoding/json` writes and reads it.

use super::text::{self, next_char};
use crate::template::budget::{self, Spent};
use crate::template::go::fmt::type_name;
use crate::template::go::number;
use crate::template::stack::deeper;
use crate::template::value::{IntType, Kind, List, Map, MapType, Object, Str, Value};
use base64::Engine as _;
use std::io::Write as _;

/// Values nested deeper than this are taken for maps that hold themselves.
const MAX_DEPTH: usize = 1000;

/// Why a value cannot be written as JSON, or a text cannot be read; the words are Go's.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// A value holds itself: the type of the value at which Go began to look for cycles.
    #[error("json: unsupported value: encountered a cycle via {0}")]
    Cycle(String),
    /// The text ends too early.
    #[error("unexpected end of JSON input")]
    End,
    /// A value does not have the type into which it should be read.
    #[error("json: cannot unmarshal {found} into Go value of type {wanted}")]
    Mismatch {
        /// The value.
        found: String,
        /// Go's type.
        wanted: &'static str,
    },
    /// A limit of the template.
    #[error(transparent)]
    Spent(#[from] Spent),
    /// Go's text about anything else.
    #[error("{0}")]
    Other(String),
}

impl From<String> for JsonError {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

impl From<&str> for JsonError {
    fn from(text: &str) -> Self {
        Self::Other(text.into())
    }
}

/// How JSON is written.
#[derive(Clone, Copy, Default)]
pub struct Style {
    /// Escape `<`, `>` and `&`, as Go does by default.
    pub escape_html: bool,
    /// Two spaces a level, as `toPrettyJson` does.
    pub indent: bool,
}

/// The value as JSON, or Go's error text.
pub fn write(value: &Value, style: Style) -> Result<Vec<u8>, JsonError> {
    let mut out = Vec::with_capacity(128);
    Writer { style, out: &mut out }.value(value, 0)?;
    Ok(out)
}

/// Whether a value is so deep that it must contain itself. Only maps and lists can.
pub fn is_cycle(value: &Value, depth: usize) -> bool {
    // The content of objects is a little deeper than Go counts it.
    depth > MAX_DEPTH + 16 && matches!(value, Value::Map(_) | Value::List(_))
}

/// Go names the type of the value at which it began to look for cycles.
pub fn cycle_from(value: &Value, depth: usize, error: JsonError) -> JsonError {
    if depth == MAX_DEPTH && matches!(error, JsonError::Cycle(_)) { cycle(value) } else { error }
}

/// Go's error for a value that holds itself.
pub fn cycle(value: &Value) -> JsonError {
    JsonError::Cycle(type_name(value).into_owned())
}

/// A float: decimal between 1e-6 and 1e21, with the shortest digits.
pub fn float(f: f64, out: &mut Vec<u8>) -> Result<(), JsonError> {
    if !f.is_finite() {
        return Err(format!("json: unsupported value: {}", text::float(f)).into());
    }
    let size = f.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        out.extend_from_slice(number::format_float(f, b'f', None).as_bytes());
        return Ok(());
    }
    let shown = number::format_float(f, b'e', None);
    // e-09 is written e-9.
    match shown.split_once("e-0") {
        Some((mantissa, digit)) => out.extend_from_slice(format!("{mantissa}e-{digit}").as_bytes()),
        None => out.extend_from_slice(shown.as_bytes()),
    }
    Ok(())
}

/// An integer; named types are plain numbers.
pub fn integer(kind: IntType, i: i64, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let _ = match kind {
        IntType::Uint | IntType::Uint64 => write!(out, "{}", i.cast_unsigned()),
        _ => write!(out, "{i}"),
    };
}

/// A `[]byte` is written as base64.
pub fn bytes(list: &List) -> Option<String> {
    let bytes = list.bytes().filter(|_| !list.is_nil())?;
    Some(base64::engine::general_purpose::STANDARD.encode(bytes))
}

/// How many characters a text takes in JSON, with its quotes.
pub fn string_length(text: &str) -> usize {
    let mut out = Vec::with_capacity(text.len() + 2);
    string(text.as_bytes(), true, &mut out);
    String::from_utf8_lossy(&out).chars().count()
}

struct Writer<'o> {
    style: Style,
    out: &'o mut Vec<u8>,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), JsonError> {
        if is_cycle(value, depth) {
            return Err(cycle(value));
        }
        budget::write(self.out.len())?;
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::Bool(b) => self.out.extend_from_slice(if *b { b"true" } else { b"false" }),
            Value::Int(kind, i) => integer(*kind, *i, self.out),
            Value::Float(f) => float(*f, self.out)?,
            Value::Str(s) => string(s.bytes(), self.style.escape_html, self.out),
            Value::List(list) => {
                if let Some(text) = bytes(list) {
                    string(text.as_bytes(), self.style.escape_html, self.out);
                } else if list.is_nil() {
                    self.out.extend_from_slice(b"null");
                } else {
                    deeper(|| self.list(&list.items, depth)).map_err(|e| cycle_from(value, depth, e))?;
                }
            }
            Value::Map(map) if map.is_nil() => self.out.extend_from_slice(b"null"),
            Value::Map(map) => deeper(|| self.map(map, depth)).map_err(|e| cycle_from(value, depth, e))?,
            Value::Object(object) if object.kind() == Kind::Complex128 => {
                return Err("json: unsupported type: complex128".into());
            }
            Value::Object(object) => match object.members() {
                Some(members) => self.members(&members, depth)?,
                None => self.value(&object.json(), depth)?,
            },
        }
        Ok(())
    }

    fn list(&mut self, items: &[Value], depth: usize) -> Result<(), JsonError> {
        self.out.push(b'[');
        for (i, item) in items.iter().enumerate() {
            self.separate(i, depth + 1);
            self.value(item, depth + 1)?;
        }
        self.close(items.is_empty(), depth);
        self.out.push(b']');
        Ok(())
    }

    fn map(&mut self, map: &Map, depth: usize) -> Result<(), JsonError> {
        self.out.push(b'{');
        for (i, (key, value)) in map.borrow().iter().enumerate() {
            self.member(i, key.bytes(), value, depth)?;
        }
        self.close(map.is_empty(), depth);
        self.out.push(b'}');
        Ok(())
    }

    fn members(&mut self, members: &[(&str, Value)], depth: usize) -> Result<(), JsonError> {
        self.out.push(b'{');
        for (i, (key, value)) in members.iter().enumerate() {
            self.member(i, key.as_bytes(), value, depth)?;
        }
        self.close(members.is_empty(), depth);
        self.out.push(b'}');
        Ok(())
    }

    fn member(&mut self, index: usize, key: &[u8], value: &Value, depth: usize) -> Result<(), JsonError> {
        self.separate(index, depth + 1);
        string(key, self.style.escape_html, self.out);
        self.out.extend_from_slice(if self.style.indent { b": " } else { b":" });
        self.value(value, depth + 1)
    }

    fn separate(&mut self, index: usize, depth: usize) {
        if index > 0 {
            self.out.push(b',');
        }
        self.new_line(depth);
    }

    fn close(&mut self, empty: bool, depth: usize) {
        if !empty {
            self.new_line(depth);
        }
    }

    fn new_line(&mut self, depth: usize) {
        if self.style.indent {
            self.out.push(b'\n');
            self.out.resize(self.out.len() + depth * 2, b' ');
        }
    }
}

/// A string with its quotes.
fn string(bytes: &[u8], escape_html: bool, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = bytes;
    while !rest.is_empty() {
        let is_plain = |b: &u8| {
            matches!(b, b' '..=0x7f) && !matches!(b, b'"' | b'\\') && !(escape_html && matches!(b, b'<' | b'>' | b'&'))
        };
        let plain = rest.iter().take_while(|b| is_plain(b)).count();
        out.extend_from_slice(&rest[..plain]);
        rest = &rest[plain..];
        let Some((c, width)) = next_char(rest) else { break };
        match c {
            Err(_) => out.extend_from_slice(b"\\ufffd"),
            Ok('"') => out.extend_from_slice(b"\\\""),
            Ok('\\') => out.extend_from_slice(b"\\\\"),
            Ok('\x08') => out.extend_from_slice(b"\\b"),
            Ok('\x0c') => out.extend_from_slice(b"\\f"),
            Ok('\n') => out.extend_from_slice(b"\\n"),
            Ok('\r') => out.extend_from_slice(b"\\r"),
            Ok('\t') => out.extend_from_slice(b"\\t"),
            Ok(c) if c.is_ascii() || matches!(c, '\u{2028}' | '\u{2029}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            Ok(_) => out.extend_from_slice(&rest[..width]),
        }
        rest = &rest[width..];
    }
    out.push(b'"');
}

/// Reads a JSON text; numbers are `float64`. The error is Go's text.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    let (value, error) = read(bytes);
    error.map_or(Ok(value), Err)
}

/// As [`parse`], with the part that could be read in addition to the error: `null` replaces a number that is out of
/// range.
pub fn read(bytes: &[u8]) -> (Value, Option<JsonError>) {
    let mut reader = Reader { bytes, at: 0, later: None, exact: false };
    match reader.document() {
        Ok(value) => (value, reader.later),
        Err(error) => (Value::Nil, Some(error)),
    }
}

/// Go's message about a value that does not have the type into which it should be read.
pub fn mismatch(value: &Value, wanted: &'static str) -> JsonError {
    let found = match value {
        Value::Bool(_) => "bool",
        Value::Float(_) | Value::Int(..) => "number",
        Value::Str(_) => "string",
        Value::List(_) => "array",
        _ => "object",
    };
    JsonError::Mismatch { found: found.into(), wanted }
}

/// Reads a JSON text as Go's decoder does with `UseNumber`: numbers are [`Number`]s, the error is the decoder's text.
pub fn parse_exact(bytes: &[u8]) -> Result<Value, JsonError> {
    let mut reader = Reader { bytes, at: 0, later: None, exact: true };
    reader.blanks();
    if reader.peek().is_none() {
        return Err("EOF".into());
    }
    let value = reader.value(0).map_err(|e| if matches!(e, JsonError::End) { "unexpected EOF".into() } else { e })?;
    reader.blanks();
    if reader.peek().is_some() {
        return Err("invalid character after top-level value".into());
    }
    Ok(value)
}

/// A number as it was written: Go's `json.Number`.
pub struct Number(pub String);

impl Object for Number {
    fn type_name(&self) -> &'static str {
        "json.Number"
    }
    fn kind(&self) -> Kind {
        Kind::String
    }
    fn field(&self, _: &str) -> Option<Value> {
        None
    }
    fn fields(&self) -> Vec<Str> {
        Vec::new()
    }
    fn display(&self) -> Option<String> {
        Some(self.0.clone())
    }
    fn json(&self) -> Value {
        self.0.parse().map_or(Value::Nil, Value::Float)
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    /// Whether numbers stay as they were written.
    exact: bool,
    /// A number that is out of range, reported only if the syntax is good.
    later: Option<JsonError>,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<Value, JsonError> {
        self.blanks();
        let value = self.value(0)?;
        self.blanks();
        match self.peek() {
            Some(_) => self.unexpected("after top-level value"),
            None => Ok(value),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn unexpected<T>(&self, context: &str) -> Result<T, JsonError> {
        let Some(byte) = self.peek() else {
            // At the end Go's scanner sees a space, which only some places allow.
            let allows_space = context == "in string literal"
                || ["looking for", "after object", "after array"].iter().any(|c| context.starts_with(c));
            return Err(if self.exact || allows_space {
                JsonError::End
            } else {
                format!("invalid character ' ' {context}").into()
            });
        };
        let shown = match byte {
            b'\'' => r"'\''".to_string(),
            b'"' => "'\"'".to_string(),
            _ => {
                let quoted = text::quoted(&char::from(byte).to_string());
                format!("'{}'", &quoted[1..quoted.len() - 1])
            }
        };
        Err(format!("invalid character {shown} {context}").into())
    }

    fn value(&mut self, depth: usize) -> Result<Value, JsonError> {
        if depth > MAX_DEPTH {
            return Err("exceeded max depth".into());
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Value::str(self.string()?)),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Nil),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.unexpected("looking for beginning of value"),
        }
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, JsonError> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                return self.unexpected(&format!("in literal {word} (expecting '{}')", char::from(expected)));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn object(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.at += 1;
        let map = Map::new(MapType::Any);
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Map(map));
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return self.unexpected("looking for beginning of object key string");
            }
            let key = self.string()?;
            self.blanks();
            if self.peek() != Some(b':') {
                return self.unexpected("after object key");
            }
            self.at += 1;
            self.blanks();
            let value = self.value(depth + 1)?;
            map.insert(Str::from(key), value);
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Map(map));
                }
                _ => return self.unexpected("after object key:value pair"),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::grown(items));
        }
        loop {
            self.blanks();
            items.push(self.value(depth + 1)?);
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::grown(items));
                }
                _ => return self.unexpected("after array element"),
            }
        }
    }

    fn digits(&mut self, context: &str) -> Result<(), JsonError> {
        if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
            return self.unexpected(context);
        }
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let text = String::from_utf8_lossy(&self.bytes[start..self.at]);
        if self.exact {
            return Ok(Value::Object(std::rc::Rc::new(Number(text.into_owned()))));
        }
        match text.parse::<f64>() {
            Ok(f) if f.is_finite() => Ok(Value::Float(f)),
            _ => {
                self.later.get_or_insert(JsonError::Mismatch { found: format!("number {text}"), wanted: "float64" });
                Ok(Value::Nil)
            }
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let plain = self.bytes[self.at..].iter().take_while(|b| !matches!(b, b'"' | b'\\' | 0..0x20)).count();
            out.push_str(&text::valid(&self.bytes[self.at..self.at + plain]));
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                _ => return self.unexpected("in string literal"),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let c = match self.peek() {
            Some(b @ (b'"' | b'\\' | b'/')) => char::from(b),
            Some(b'b') => '\x08',
            Some(b'f') => '\x0c',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return self.unexpected("in string escape code"),
        };
        self.at += 1;
        Ok(c)
    }

    fn hex(&mut self) -> Result<u32, JsonError> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|b| char::from(b).to_digit(16)) else {
                return self.unexpected(r"in \u hexadecimal character escape");
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    /// A surrogate without its other half is U+FFFD.
    fn unicode(&mut self) -> Result<char, JsonError> {
        let high = self.hex()?;
        if (0xd800..0xdc00).contains(&high) && self.bytes[self.at..].starts_with(b"\\u") {
            let before = self.at;
            self.at += 2;
            let low = self.hex()?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

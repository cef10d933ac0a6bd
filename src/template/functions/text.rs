//! Text of values as Go's `fmt` and `strconv` write it, for functions that make strings of their arguments.

use crate::template::value::{Elem, IntType, List, Value};
use std::io::Write as _;

/// Values nested deeper than this are cut short; only maps that hold themselves are.
const MAX_DEPTH: usize = 512;

/// The shortest decimal digits that read back as the same float: `0.DIGITS × 10^point`.
pub struct Digits {
    /// Whether there is a minus sign.
    pub negative: bool,
    /// ASCII digits without leading or trailing zeros; `0` for zero.
    pub digits: Vec<u8>,
    /// Position of the decimal point from the left of the digits.
    pub point: i32,
}

impl Digits {
    /// The digits of a finite `float64`.
    pub fn of(f: f64) -> Self {
        Self::from_ryu(ryu::Buffer::new().format_finite(f))
    }
    /// The digits of a finite `float32`.
    pub fn of_f32(f: f32) -> Self {
        Self::from_ryu(ryu::Buffer::new().format_finite(f))
    }
    /// Takes apart `-12.5e3`, the form ryu writes; it is always ASCII with one point.
    fn from_ryu(text: &str) -> Self {
        let negative = text.starts_with('-');
        let text = text.trim_start_matches('-');
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let leading = all.iter().take_while(|&&b| b == b'0').count();
        let trailing = all[leading..].iter().rev().take_while(|&&b| b == b'0').count();
        let digits = all[leading..all.len() - trailing].to_vec();
        if digits.is_empty() {
            return Self { negative, digits: b"0".to_vec(), point: 1 };
        }
        let size = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let point = size(whole.len()) - size(leading) + exponent.parse::<i32>().unwrap_or(0);
        Self { negative, digits, point }
    }
    /// Plain decimal notation, as `strconv`'s format `f` with precision -1.
    pub fn fixed(&self, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
        let point = usize::try_from(self.point).unwrap_or(0);
        if point == 0 {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + usize::try_from(-self.point).unwrap_or(0), b'0');
            out.extend_from_slice(&self.digits);
        } else if point >= self.digits.len() {
            out.extend_from_slice(&self.digits);
            out.resize(out.len() + point - self.digits.len(), b'0');
        } else {
            out.extend_from_slice(&self.digits[..point]);
            out.push(b'.');
            out.extend_from_slice(&self.digits[point..]);
        }
    }
    /// Exponent notation, as `strconv`'s format `e` with precision -1; at least two digits of exponent.
    pub fn scientific(&self, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
        out.push(self.digits[0]);
        if self.digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&self.digits[1..]);
        }
        let exponent = if self.digits == b"0" { 0 } else { self.point - 1 };
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "e{sign}{:02}", exponent.abs());
    }
    /// The shorter of both, as `strconv`'s format `g` with precision -1 chooses: exponents below -4 and from 6 on
    /// are scientific.
    fn general(&self, out: &mut Vec<u8>) {
        let exponent = self.point - 1;
        if self.digits != b"0" && !(-4..6).contains(&exponent) { self.scientific(out) } else { self.fixed(out) }
    }
}

/// Go's names for what is not a finite number.
fn not_finite(f: f64) -> Option<&'static str> {
    match f {
        f if f.is_nan() => Some("NaN"),
        f64::INFINITY => Some("+Inf"),
        f64::NEG_INFINITY => Some("-Inf"),
        _ => None,
    }
}

/// `strconv.FormatFloat(f, 'g', -1, 64)`, which is also what `%v` prints.
pub fn float(f: f64, out: &mut Vec<u8>) {
    match not_finite(f) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => Digits::of(f).general(out),
    }
}

/// `strconv.FormatFloat(f, 'g', -1, 32)`, which the YAML reader uses for keys.
pub fn float32(f: f32, out: &mut Vec<u8>) {
    match not_finite(f64::from(f)) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => Digits::of_f32(f).general(out),
    }
}

/// An integer; the unsigned 64-bit types keep their bits in an `i64`.
pub fn integer(kind: IntType, i: i64, out: &mut Vec<u8>) {
    match kind {
        IntType::Uint | IntType::Uint64 => {
            let _ = write!(out, "{}", i.cast_unsigned());
        }
        IntType::Duration => super::duration::write(i, out),
        IntType::Month => match usize::try_from(i).ok().and_then(|i| super::layout::MONTHS.get(i.wrapping_sub(1))) {
            Some(name) => out.extend_from_slice(name.as_bytes()),
            None => {
                let _ = write!(out, "%!Month({i})");
            }
        },
        IntType::Weekday => match usize::try_from(i).ok().and_then(|i| super::layout::WEEKDAYS.get(i)) {
            Some(name) => out.extend_from_slice(name.as_bytes()),
            None => {
                let _ = write!(out, "%!Weekday({i})");
            }
        },
        _ => {
            let _ = write!(out, "{i}");
        }
    }
}

/// A value as `%v` prints it.
pub fn verb_v(value: &Value, out: &mut Vec<u8>) {
    write_value(value, 0, out);
}

fn write_value(value: &Value, depth: usize, out: &mut Vec<u8>) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Nil => out.extend_from_slice(b"<nil>"),
        Value::Bool(b) => out.extend_from_slice(if *b { b"true" } else { b"false" }),
        Value::Int(kind, i) => integer(*kind, *i, out),
        Value::Float(f) => float(*f, out),
        Value::Str(s) => out.extend_from_slice(s.bytes()),
        Value::List(list) => {
            out.push(b'[');
            for (i, item) in list.items.iter().enumerate() {
                if i > 0 {
                    out.push(b' ');
                }
                write_value(item, depth + 1, out);
            }
            out.push(b']');
        }
        Value::Map(map) => {
            out.extend_from_slice(b"map[");
            for (i, (key, item)) in map.borrow().iter().enumerate() {
                if i > 0 {
                    out.push(b' ');
                }
                out.extend_from_slice(key.bytes());
                out.push(b':');
                write_value(item, depth + 1, out);
            }
            out.push(b']');
        }
        Value::Object(object) => {
            if let Some(text) = object.display() {
                out.extend_from_slice(text.as_bytes());
                return;
            }
            let is_map = object.kind() == crate::template::value::Kind::Map;
            let open: &[u8] = match object.kind() {
                crate::template::value::Kind::Map => b"map[",
                crate::template::value::Kind::Ptr => b"&{",
                _ => b"{",
            };
            out.extend_from_slice(open);
            for (i, name) in object.fields().iter().enumerate() {
                if i > 0 {
                    out.push(b' ');
                }
                if is_map {
                    out.extend_from_slice(name.bytes());
                    out.push(b':');
                }
                write_value(&object.field(&name.text()).unwrap_or(Value::Nil), depth + 1, out);
            }
            out.push(if is_map { b']' } else { b'}' });
        }
    }
}

/// sprig's `strval`: a string or `[]byte` as it is, everything else as `%v`.
pub fn strval(value: &Value) -> Vec<u8> {
    match value {
        Value::Str(s) => s.bytes().to_vec(),
        Value::List(List { elem: Elem::Byte, items }) => bytes_of(items),
        other => {
            let mut out = Vec::new();
            verb_v(other, &mut out);
            out
        }
    }
}

/// The bytes of a `[]uint8`.
pub fn bytes_of(items: &[Value]) -> Vec<u8> {
    items.iter().map(|item| if let Value::Int(_, i) = item { u8::try_from(*i).unwrap_or(0) } else { 0 }).collect()
}

/// The next character of a Go string, and how many bytes it takes; a byte that is no UTF-8 counts as one
/// U+FFFD, where Rust's lossy conversion makes one of several bytes.
pub fn next_char(bytes: &[u8]) -> Option<(Result<char, u8>, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((Ok(char::from(first)), 1));
    }
    let width = match first {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return Some((Err(first), 1)),
    };
    match bytes.get(..width).and_then(|b| std::str::from_utf8(b).ok()).and_then(|s| s.chars().next()) {
        Some(c) => Some((Ok(c), width)),
        None => Some((Err(first), 1)),
    }
}

/// The characters of a Go string, as `range` over it gives them.
pub fn chars(bytes: &[u8]) -> impl Iterator<Item = char> + '_ {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (c, width) = next_char(rest)?;
        rest = &rest[width..];
        Some(c.unwrap_or(char::REPLACEMENT_CHARACTER))
    })
}

/// The text with one U+FFFD for each byte that is not UTF-8.
pub fn valid(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(s) => s.into(),
        Err(_) => chars(bytes).collect::<String>().into(),
    }
}

/// Whether Go's `unicode.IsPrint` holds: letters, marks, numbers, punctuation, symbols and the ASCII space.
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    // Rust's Debug escapes what is not printable by the same categories; the letter in front keeps it from
    // escaping a combining mark as well.
    let text: String = ['a', c].iter().collect();
    format!("{text:?}").len() == text.len() + 2
}

/// `strconv.Quote`: what `%q` prints.
pub fn quote(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut rest = bytes;
    while let Some((c, width)) = next_char(rest) {
        let raw = &rest[..width];
        rest = &rest[width..];
        let c = match c {
            Ok(c) => c,
            Err(byte) => {
                let _ = write!(out, "\\x{byte:02x}");
                continue;
            }
        };
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            c if is_print(c) => out.extend_from_slice(raw),
            '\x07' => out.extend_from_slice(b"\\a"),
            '\x08' => out.extend_from_slice(b"\\b"),
            '\x0c' => out.extend_from_slice(b"\\f"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\x0b' => out.extend_from_slice(b"\\v"),
            c if c < ' ' || c == '\x7f' => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c if u32::from(c) < 0x10000 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => {
                let _ = write!(out, "\\U{:08x}", u32::from(c));
            }
        }
    }
    out.push(b'"');
}

/// `strconv.Quote` of a text, for messages.
pub fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    quote(text.as_bytes(), &mut out);
    String::from_utf8(out).unwrap_or_default()
}

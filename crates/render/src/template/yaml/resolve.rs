//! The meaning of plain scalars: the rules of go.yaml.in/yaml/v2 (`resolve.go`), a mix of YAML 1.1 and 1.2.

use crate::template::functions::{layout, number};

/// The meaning of a scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// `null`, `~` and nothing.
    Null,
    /// `true`, `yes`, `on`, `y` and their opposites.
    Bool(bool),
    /// A number that fits `int`.
    Int(i64),
    /// A number that fits only `uint64`.
    Uint(u64),
    /// Any other number.
    Float(f64),
    /// A date, which is handed on as text.
    Timestamp,
    /// A text.
    Text,
}

impl Scalar {
    /// The short tag, for messages.
    pub fn tag(self) -> &'static str {
        match self {
            Self::Null => "!!null",
            Self::Bool(_) => "!!bool",
            Self::Int(_) | Self::Uint(_) => "!!int",
            Self::Float(_) => "!!float",
            Self::Timestamp => "!!timestamp",
            Self::Text => "!!str",
        }
    }
}

/// The meaning of an untagged plain scalar. With `dates` false, dates are not considered (there was another tag).
pub fn resolve(text: &str, dates: bool) -> Scalar {
    let Some(&first) = text.as_bytes().first() else { return Scalar::Null };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => word(text),
        b'.' => match word(text) {
            Scalar::Text => number::parse_float(text).map_or(Scalar::Text, Scalar::Float),
            scalar => scalar,
        },
        b'0'..=b'9' | b'+' | b'-' => match word(text) {
            Scalar::Text if dates && is_timestamp(text) => Scalar::Timestamp,
            Scalar::Text => digits(text),
            scalar => scalar,
        },
        _ => Scalar::Text,
    }
}

fn word(text: &str) -> Scalar {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => Scalar::Text,
    }
}

fn digits(text: &str) -> Scalar {
    let without;
    let plain = if text.contains('_') {
        without = text.replace('_', "");
        without.as_str()
    } else {
        text
    };
    if let Some(i) = number::parse_int(plain, 0) {
        return Scalar::Int(i);
    }
    if let Some(u) = number::parse_uint(plain, 0) {
        return Scalar::Uint(u);
    }
    if is_float(plain.as_bytes())
        && let Some(f) = number::parse_float(plain)
    {
        return Scalar::Float(f);
    }
    // Binary numbers are read by parse_int already; only those with a second sign are left here.
    if let Some(binary) = plain.strip_prefix("0b") {
        if let Some(i) = number::parse_int(binary, 2) {
            return Scalar::Int(i);
        }
    } else if let Some(binary) = plain.strip_prefix("-0b")
        && let Some(i) = number::parse_int(&format!("-{binary}"), 2)
    {
        return Scalar::Int(i);
    }
    Scalar::Text
}

/// `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`
fn is_float(text: &[u8]) -> bool {
    let rest = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    let (whole, rest) = split_digits(rest);
    let rest = if whole > 0 {
        rest.strip_prefix(b".").map_or(rest, |r| split_digits(r).1)
    } else {
        match rest.strip_prefix(b".").map(split_digits) {
            Some((n, rest)) if n > 0 => rest,
            _ => return false,
        }
    };
    match rest {
        [] => true,
        [b'e' | b'E', exponent @ ..] => {
            let digits = exponent.strip_prefix(b"-").or_else(|| exponent.strip_prefix(b"+")).unwrap_or(exponent);
            matches!(split_digits(digits), (n, []) if n > 0)
        }
        _ => false,
    }
}

fn split_digits(text: &[u8]) -> (usize, &[u8]) {
    let n = text.iter().take_while(|b| b.is_ascii_digit()).count();
    (n, &text[n..])
}

/// Whether the text is one of the four date forms that go-yaml v2 knows.
fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < 8 || !bytes[..4].iter().all(u8::is_ascii_digit) || bytes[4] != b'-' {
        return false;
    }
    ["2006-1-2T15:4:5.999999999Z07:00", "2006-1-2t15:4:5.999999999Z07:00", "2006-1-2 15:4:5.999999999", "2006-1-2"]
        .iter()
        .any(|form| layout::parse(form, text).is_ok())
}

/// `1:30`, a number in base 60 of YAML 1.1: read as text, but quoted when written.
/// `^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$`
pub fn is_base60(text: &str) -> bool {
    let bytes = text.as_bytes();
    if !matches!(bytes.first(), Some(b'+' | b'-' | b'0'..=b'9')) || !bytes.contains(&b':') {
        return false;
    }
    let rest = bytes.strip_prefix(b"-").or_else(|| bytes.strip_prefix(b"+")).unwrap_or(bytes);
    let (body, fraction) = match rest.iter().position(|&b| b == b'.') {
        Some(dot) => (&rest[..dot], &rest[dot + 1..]),
        None => (rest, &rest[..0]),
    };
    let is_digit = |b: &u8| b.is_ascii_digit() || *b == b'_';
    let mut parts = body.split(|&b| b == b':');
    let first = parts.next().unwrap_or_default();
    first.first().is_some_and(u8::is_ascii_digit)
        && first.iter().all(is_digit)
        && fraction.iter().all(is_digit)
        && parts.all(|part| matches!(part, [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']))
}

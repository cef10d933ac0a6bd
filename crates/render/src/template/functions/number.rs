//! Numbers out of text and of other values, as Go's `strconv` and spf13's `cast` read them.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "Go's conversions between number types round and cut in the same way"
)]

use crate::template::go::number::parse_hex_float;
use crate::template::value::{IntType, Value};

/// `strconv.ParseInt(text, base, 64)`; base 0 takes `0x`, `0o`, `0b`, `0` prefixes and underscores.
pub fn parse_int(text: &str, base: u32) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = parse_uint(digits, base)?;
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// `strconv.ParseUint(text, base, 64)`.
pub fn parse_uint(text: &str, base: u32) -> Option<u64> {
    if base != 0 {
        return text.as_bytes().first().filter(|b| b.is_ascii_alphanumeric()).and_then(|_| radix(text, base));
    }
    let (base, digits) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &text[2..]),
        [b'0', b'b' | b'B', ..] => (2, &text[2..]),
        [b'0', b'o' | b'O', ..] => (8, &text[2..]),
        [b'0', _, ..] => (8, &text[1..]),
        _ => (10, text),
    };
    if digits.contains('_') {
        if !underscores_are_between_digits(text) {
            return None;
        }
        return radix(&digits.replace('_', ""), base);
    }
    radix(digits, base)
}

fn radix(digits: &str, base: u32) -> Option<u64> {
    // from_str_radix takes a sign, which Go takes only in front of the prefix.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(digits, base).ok()
}

/// Go's rule for underscores in number literals: between digits, or between a base prefix and a digit.
fn underscores_are_between_digits(text: &str) -> bool {
    let bytes = text.trim_start_matches(['+', '-']).as_bytes();
    let prefixed = matches!(bytes, [b'0', b'b' | b'B' | b'o' | b'O' | b'x' | b'X', ..]);
    let hex = matches!(bytes, [b'0', b'x' | b'X', ..]);
    let mut before = if prefixed { b'0' } else { b'^' };
    for &b in &bytes[if prefixed { 2 } else { 0 }..] {
        if b.is_ascii_digit() || hex && b.is_ascii_hexdigit() {
            before = b'0';
        } else if b == b'_' {
            if before != b'0' {
                return false;
            }
            before = b'_';
        } else {
            if before == b'_' {
                return false;
            }
            before = b'!';
        }
    }
    before != b'_'
}

/// `strconv.ParseFloat(text, 64)`, without the numbers that are out of range.
pub fn parse_float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let first = *unsigned.as_bytes().first()?;
    if first.is_ascii_alphabetic() {
        let negative = text.starts_with('-');
        let value = match unsigned.to_ascii_lowercase().as_str() {
            "inf" | "infinity" => f64::INFINITY,
            "nan" => return (unsigned.len() == text.len()).then_some(f64::NAN),
            _ => return None,
        };
        return Some(if negative { -value } else { value });
    }
    if !first.is_ascii_digit() && first != b'.' {
        return None;
    }
    let cleaned;
    let text = if text.contains('_') {
        if !underscores_are_between_digits(text) {
            return None;
        }
        cleaned = text.replace('_', "");
        cleaned.as_str()
    } else {
        text
    };
    let value = if unsigned.len() > 1 && unsigned.as_bytes()[1] | 0x20 == b'x' {
        let hex = text.trim_start_matches(['+', '-']).get(2..)?;
        parse_hex_float(hex).map(|f| if text.starts_with('-') { -f } else { f })?
    } else {
        text.parse::<f64>().ok()?
    };
    value.is_finite().then_some(value)
}

/// `cast.ToInt64`: sprig's way from anything to a whole number; a value without a number becomes 0.
pub fn to_int64(value: &Value) -> i64 {
    match value {
        Value::Bool(b) => i64::from(*b),
        // time.Duration is not a case of cast's type switch.
        Value::Int(IntType::Duration, _) => 0,
        Value::Int(_, i) => *i,
        Value::Float(f) => float_to_int(*f),
        Value::Str(s) => {
            std::str::from_utf8(s.bytes()).ok().and_then(|s| parse_int(trim_zero_decimal(s), 0)).unwrap_or(0)
        }
        _ => 0,
    }
}

/// `cast.ToFloat64`.
pub fn to_float64(value: &Value) -> f64 {
    match value {
        Value::Bool(b) => f64::from(*b),
        Value::Int(IntType::Duration, _) => 0.0,
        Value::Int(IntType::Uint | IntType::Uint64, i) => i.cast_unsigned() as f64,
        Value::Int(_, i) => *i as f64,
        Value::Float(f) => *f,
        Value::Str(s) => std::str::from_utf8(s.bytes()).ok().and_then(parse_float).unwrap_or(0.0),
        _ => 0.0,
    }
}

/// Go's conversion on amd64: a number that does not fit becomes the smallest integer.
pub fn float_to_int(f: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&f) { f as i64 } else { i64::MIN }
}

/// `cast` drops `.000` before it reads an integer.
fn trim_zero_decimal(text: &str) -> &str {
    match text.rsplit_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|b| b == b'0') => whole,
        _ => text,
    }
}

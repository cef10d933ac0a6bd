//! Go strings as characters, and values as text, for functions that make strings of their arguments.

use crate::template::function::FnError;
use crate::template::go::{fmt, number, quote};
use crate::template::value::Value;
use std::borrow::Cow;

/// `strconv.FormatFloat(f, 'g', -1, 64)`, which is also what `%v` prints.
pub fn float(f: f64) -> String {
    number::format_float(f, b'g', None)
}

/// `strconv.FormatFloat(f, 'g', -1, 32)`, which the YAML reader uses for keys.
pub fn float32(f: f32) -> String {
    if !f.is_finite() {
        return float(f64::from(f));
    }
    // The shortest digits of the float32, read as a float64, are the shortest of that too.
    float(ryu::Buffer::new().format_finite(f).parse().unwrap_or(f64::from(f)))
}

/// sprig's `strval`: a string or `[]byte` as it is, everything else as `%v`.
pub fn strval(value: &Value) -> Result<Vec<u8>, FnError> {
    match value {
        Value::Str(s) => Ok(s.bytes().to_vec()),
        Value::List(list) => list.bytes().map_or_else(|| verb_v(value), |bytes| Ok(bytes.into_owned())),
        other => verb_v(other),
    }
}

/// A value as `%v` prints it.
pub fn verb_v(value: &Value) -> Result<Vec<u8>, FnError> {
    let mut out = Vec::new();
    fmt::print_value(&mut out, value)?;
    Ok(out)
}

/// The next character of a Go string, and how many bytes it takes; a byte that is not UTF-8 counts as one
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
pub fn valid(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(s) => s.into(),
        Err(_) => chars(bytes).collect::<String>().into(),
    }
}

/// The text with a private-use character for each byte that is not UTF-8: for functions that work on
/// text and return bytes.
pub fn escaped(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.into();
    }
    let mut out = String::with_capacity(bytes.len() + 16);
    let mut rest = bytes;
    while let Some((c, width)) = next_char(rest) {
        out.push(c.unwrap_or_else(|b| char::from_u32(ESCAPED + u32::from(b)).unwrap_or_default()));
        rest = &rest[width..];
    }
    out.into()
}

/// Before the last characters there are, which nobody uses.
const ESCAPED: u32 = 0x10_fe00;

/// Whether it is such a character.
pub fn is_escaped(c: char) -> bool {
    (ESCAPED..ESCAPED + 256).contains(&u32::from(c))
}

/// The bytes of an [`escaped`] text.
pub fn unescaped(text: &str) -> Cow<'_, [u8]> {
    // They all begin with this byte, which few texts have.
    if memchr::memchr(0xF4, text.as_bytes()).is_none() || !text.contains(is_escaped) {
        return text.as_bytes().into();
    }
    let mut out = Vec::with_capacity(text.len());
    for c in text.chars() {
        match u32::from(c).checked_sub(ESCAPED).map(u8::try_from) {
            Some(Ok(byte)) => out.push(byte),
            _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.into()
}

/// `strconv.Quote` of a text, for messages.
pub fn quoted(text: &str) -> String {
    quote::quoted(&unescaped(text))
}

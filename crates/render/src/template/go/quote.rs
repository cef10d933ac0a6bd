//! Go's `strconv` for strings and characters: quoting and unquoting.

use super::lex::decode;
use std::fmt::Write as _;

/// The meaning of one escape or character of a quoted string.
pub(super) enum Unquoted {
    /// A character.
    Char(char),
    /// A byte, which need not be UTF-8.
    Byte(u8),
}

/// `strconv.UnquoteChar`: the first character, and the rest.
pub(super) fn unquote_char(text: &[u8], quote: u8) -> Option<(Unquoted, &[u8])> {
    let (first, width) = decode(text)?;
    if first == quote as char && matches!(quote, b'"' | b'\'') {
        return None;
    }
    if first != '\\' {
        // A byte that is not UTF-8 stays what it is.
        let raw = first == char::REPLACEMENT_CHARACTER && width == 1;
        let unquoted = if raw { Unquoted::Byte(text[0]) } else { Unquoted::Char(first) };
        return Some((unquoted, &text[width..]));
    }
    let escape = *text.get(1)?;
    let rest = &text[2..];
    let simple = |c| Some((Unquoted::Char(c), rest));
    match escape {
        b'a' => simple('\u{7}'),
        b'b' => simple('\u{8}'),
        b'f' => simple('\u{c}'),
        b'n' => simple('\n'),
        b'r' => simple('\r'),
        b't' => simple('\t'),
        b'v' => simple('\u{b}'),
        b'\\' => simple('\\'),
        b'\'' | b'"' if escape == quote => simple(quote as char),
        b'x' | b'u' | b'U' => {
            let digits = match escape {
                b'x' => 2,
                b'u' => 4,
                _ => 8,
            };
            let code = radix_digits(rest.get(..digits)?, 16)?;
            let rest = &rest[digits..];
            if escape == b'x' {
                return Some((Unquoted::Byte(u8::try_from(code).ok()?), rest));
            }
            Some((Unquoted::Char(char::from_u32(code)?), rest))
        }
        b'0'..=b'7' => {
            let code = radix_digits(text.get(1..4)?, 8)?;
            Some((Unquoted::Byte(u8::try_from(code).ok()?), &text[4..]))
        }
        _ => None,
    }
}

fn radix_digits(digits: &[u8], radix: u32) -> Option<u32> {
    digits.iter().try_fold(0_u32, |sum, &b| sum.checked_mul(radix)?.checked_add((b as char).to_digit(radix)?))
}

/// Whether a quoted text means exactly the text between the quotes.
pub fn is_plain(text: &[u8]) -> bool {
    let Some(inner) = text.get(1..text.len() - 1) else { return false };
    match text[0] {
        b'`' => memchr::memchr(b'\r', inner).is_none(),
        quote => memchr::memchr2(b'\\', quote, inner).is_none(),
    }
}

/// `strconv.Unquote` of a string in double quotes or backquotes; `None` when it is not well formed.
pub fn unquote(text: &[u8]) -> Option<Vec<u8>> {
    let (&quote, rest) = text.split_first()?;
    let inner = rest.strip_suffix(&[quote])?;
    if quote == b'`' {
        return Some(inner.iter().copied().filter(|&b| b != b'\r').collect());
    }
    if !inner.contains(&b'\\') && !inner.contains(&quote) {
        return Some(inner.to_vec());
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while !rest.is_empty() {
        let (unquoted, after) = unquote_char(rest, quote)?;
        match unquoted {
            Unquoted::Char(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Unquoted::Byte(b) => out.push(b),
        }
        rest = after;
    }
    Some(out)
}

/// `strconv.IsPrint`: letters, marks, numbers, punctuation, symbols, and the ASCII space.
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return c == ' ' || c.is_ascii_graphic();
    }
    // `escape_debug` of a string leaves what is printable; behind another character it leaves combining marks too.
    let mut buffer = [b'a'; 5];
    let length = c.encode_utf8(&mut buffer[1..]).len();
    std::str::from_utf8(&buffer[..=length]).is_ok_and(|s| s.escape_debug().nth(1) == Some(c))
}

/// `strconv.Quote`.
pub fn quoted(text: &[u8]) -> String {
    quote_with(text, '"', false)
}

/// `strconv.Quote`, or with `ascii` `strconv.QuoteToASCII`; a single quote quotes a character as `QuoteRune` does.
pub fn quote_with(text: &[u8], quote: char, ascii: bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    let mut rest = text;
    while let Some((c, width)) = decode(rest) {
        if c == char::REPLACEMENT_CHARACTER && width == 1 {
            let _ = write!(out, "\\x{:02x}", rest[0]);
        } else {
            escape(&mut out, c, quote, ascii);
        }
        rest = &rest[width..];
    }
    out.push(quote);
    out
}

fn escape(out: &mut String, c: char, quote: char, ascii: bool) {
    let code = u32::from(c);
    let _ = match c {
        '\\' => out.write_str("\\\\"),
        _ if c == quote => write!(out, "\\{c}"),
        _ if (c.is_ascii() || !ascii) && is_print(c) => out.write_char(c),
        '\u{7}' => out.write_str("\\a"),
        '\u{8}' => out.write_str("\\b"),
        '\u{c}' => out.write_str("\\f"),
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        '\u{b}' => out.write_str("\\v"),
        _ if c < ' ' || c == '\u{7f}' => write!(out, "\\x{code:02x}"),
        _ if code < 0x1_0000 => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
}

/// `%#U`: `U+002D '-'`.
pub fn unicode(c: char) -> String {
    let code = u32::from(c);
    if is_print(c) { format!("U+{code:04X} '{c}'") } else { format!("U+{code:04X}") }
}

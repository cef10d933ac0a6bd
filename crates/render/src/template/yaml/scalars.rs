//! Plain and quoted scalars. Those that are on one line, without escapes, are slices of the text.

use super::Fallible;
use super::scanner::{Scanner, break_at, is_blankz};
use std::borrow::Cow;

/// Bytes at which a run of plain characters may end in the block context, and in the flow context.
const BLOCK_STOP: u8 = 1;
const FLOW_STOP: u8 = 2;
const STOPS: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    // The first bytes of the line breaks outside of ASCII are among them.
    let block = b": \t\r\n\xC2\xE2";
    while i < block.len() {
        table[block[i] as usize] = BLOCK_STOP | FLOW_STOP;
        i += 1;
    }
    let flow = b",?[]{}";
    i = 0;
    while i < flow.len() {
        table[flow[i] as usize] = FLOW_STOP;
        i += 1;
    }
    table
};

impl<'a> Scanner<'a> {
    pub(super) fn slice(&self, from: usize, to: usize) -> &'a str {
        self.source.text.get(from..to).unwrap_or_default()
    }

    /// Where the run of plain characters from here ends. Blanks inside of a line belong to it, unless the text is read
    /// character by character.
    fn plain_run(&self) -> usize {
        let stop = if self.flow_level > 0 { FLOW_STOP } else { BLOCK_STOP };
        let bytes = self.bytes;
        let mut at = self.at;
        loop {
            at = if stop == BLOCK_STOP { ordinary_end(bytes, at) } else { at };
            while let Some(&b) = bytes.get(at)
                && STOPS[usize::from(b)] & stop == 0
            {
                at += 1;
            }
            match bytes.get(at) {
                Some(b':') if !is_blankz(bytes, at + 1) => at += 1,
                Some(0xC2 | 0xE2) if break_at(bytes, at).is_none() => at += 1,
                Some(b' ' | b'\t') if at > self.at && !self.is_careful() => {
                    let mut next = at + 1;
                    while matches!(bytes.get(next), Some(b' ' | b'\t')) {
                        next += 1;
                    }
                    match bytes.get(next) {
                        Some(b'#') | None => return at,
                        Some(b':') if !is_blankz(bytes, next + 1) => at = next + 1,
                        Some(0xC2 | 0xE2) if break_at(bytes, next).is_none() => at = next + 1,
                        Some(&b) if STOPS[usize::from(b)] & stop == 0 => at = next + 1,
                        Some(_) => return at,
                    }
                }
                _ => return at,
            }
        }
    }

    pub(super) fn plain_scalar(&mut self) -> Fallible<Cow<'a, str>> {
        let indent = self.indent + 1;
        let mut joined: Option<String> = None;
        // The text that is not yet joined, and whether line breaks follow it.
        let (mut piece, mut end, mut after_break) = (self.at, self.at, false);
        loop {
            self.ensure(4)?;
            if self.is_document_indicator() || self.byte(0) == b'#' {
                break;
            }
            let run = self.plain_run();
            if run > self.at {
                if after_break {
                    let text = joined.get_or_insert_default();
                    text.push_str(self.slice(piece, end));
                    fold(self.slice(end, self.at), false, text);
                    after_break = false;
                    piece = self.at;
                }
                self.go_to(run, 2)?;
                end = run;
            }
            if !self.is_blank() && !self.is_break() {
                break;
            }
            self.ensure(1)?;
            after_break = self.plain_blanks(indent, after_break)?;
            if self.flow_level == 0 && after_break && self.column() < indent {
                break;
            }
        }
        if after_break {
            self.simple_key_allowed = true;
        }
        let last = self.slice(piece, end);
        Ok(match joined {
            None => Cow::Borrowed(last),
            Some(mut text) => {
                text.push_str(last);
                Cow::Owned(text)
            }
        })
    }

    /// Skips blanks and line breaks inside or after a plain scalar.
    fn plain_blanks(&mut self, indent: isize, mut after_break: bool) -> Fallible<bool> {
        loop {
            if self.byte(0) == b'\n' && !self.is_careful() {
                self.at += 1;
                self.line += 1;
                self.line_start = self.at;
                self.at += spaces(self.bytes, self.at);
                after_break = true;
                if self.byte(0) > b' ' && self.byte(0) < 0x80 {
                    return Ok(true);
                }
            }
            match self.byte(0) {
                b'\t' if after_break && self.column() < indent => {
                    return self.fail("found a tab character that violates indentation");
                }
                b' ' | b'\t' => self.at += 1,
                _ if self.is_break() => {
                    self.ensure(2)?;
                    self.skip_line();
                    after_break = true;
                }
                _ => return Ok(after_break),
            }
            self.ensure(1)?;
        }
    }

    pub(super) fn quoted_scalar(&mut self, single: bool) -> Fallible<Cow<'a, str>> {
        self.at += 1;
        if let Some(text) = self.simple_quoted(single) {
            return Ok(text.into());
        }
        let quote = if single { b'\'' } else { b'"' };
        let mut text = String::new();
        loop {
            self.ensure(4)?;
            if self.is_document_indicator() {
                return self.fail("found unexpected document indicator");
            }
            if self.at >= self.bytes.len() {
                return self.fail("found unexpected end of stream");
            }
            let escaped_break = self.quoted_run(quote, &mut text)?;
            self.ensure(1)?;
            if self.byte(0) == quote {
                break;
            }
            let blanks = self.at;
            let mut after_break = escaped_break;
            while self.is_blank() || self.is_break() {
                if self.is_blank() {
                    self.at += 1;
                } else {
                    self.ensure(2)?;
                    self.skip_line();
                    after_break = true;
                }
                self.ensure(1)?;
            }
            let blanks = self.slice(blanks, self.at);
            if after_break {
                fold(blanks, escaped_break, &mut text);
            } else {
                text.push_str(blanks);
            }
        }
        self.at += 1;
        Ok(text.into())
    }

    /// The scalar, if it ends on this line and nothing in it is escaped.
    fn simple_quoted(&mut self, single: bool) -> Option<&'a str> {
        if self.is_careful() {
            return None;
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = if single { memchr::memchr(b'\'', rest) } else { memchr::memchr2(b'"', b'\\', rest) }?;
        let scalar = &rest[..end];
        let is_simple = if single { rest.get(end + 1) != Some(&b'\'') } else { rest[end] == b'"' };
        let is_broken = || {
            if self.source.simple_breaks {
                memchr::memchr(b'\n', scalar).is_some()
            } else {
                (self.at..self.at + end).any(|at| break_at(self.bytes, at).is_some())
            }
        };
        if !is_simple || is_broken() {
            return None;
        }
        let text = self.slice(self.at, self.at + end);
        self.at += end + 1;
        Some(text)
    }

    /// Characters up to a blank, a line break or the quote. Says whether it ended at an escaped line break.
    fn quoted_run(&mut self, quote: u8, text: &mut String) -> Fallible<bool> {
        while !self.is_blankz(0) {
            let byte = self.byte(0);
            if byte == quote {
                if quote == b'"' || self.byte(1) != b'\'' {
                    break;
                }
                text.push('\'');
                self.at += 2;
            } else if byte == b'\\' && quote == b'"' {
                if break_at(self.bytes, self.at + 1).is_some() {
                    self.ensure(3)?;
                    self.at += 1;
                    self.skip_line();
                    return Ok(true);
                }
                let c = self.escape()?;
                text.push(c);
            } else {
                let from = self.at;
                self.skip();
                if !self.is_careful() {
                    let rest = self.bytes.get(self.at..).unwrap_or_default();
                    let special =
                        |b: &u8| matches!(b, b' ' | b'\t' | b'\n' | b'\r' | b'\'' | b'"' | b'\\' | 0xC2 | 0xE2);
                    self.at += rest.iter().position(special).unwrap_or(rest.len());
                }
                text.push_str(self.slice(from, self.at));
            }
            self.ensure(2)?;
        }
        Ok(false)
    }

    /// The character of the escape sequence that is here.
    fn escape(&mut self) -> Fallible<char> {
        let digits = match self.byte(1) {
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            other => {
                let c = match other {
                    b'0' => '\0',
                    b'a' => '\u{7}',
                    b'b' => '\u{8}',
                    b't' | b'\t' => '\t',
                    b'n' => '\n',
                    b'v' => '\u{B}',
                    b'f' => '\u{C}',
                    b'r' => '\r',
                    b'e' => '\u{1B}',
                    b' ' | b'"' | b'\'' | b'\\' => char::from(other),
                    b'N' => '\u{85}',
                    b'_' => '\u{A0}',
                    b'L' => '\u{2028}',
                    b'P' => '\u{2029}',
                    _ => return self.fail("found unknown escape character"),
                };
                self.at += 2;
                return Ok(c);
            }
        };
        self.at += 2;
        self.ensure(digits)?;
        let mut code = 0u32;
        for ahead in 0..digits {
            let Some(digit) = char::from(self.byte(ahead)).to_digit(16) else {
                return self.fail("did not find expected hexdecimal number");
            };
            code = code << 4 | digit;
        }
        let Some(c) = char::from_u32(code) else {
            return self.fail("found invalid Unicode character escape code");
        };
        self.at += digits;
        Ok(c)
    }
}

/// Goes over characters of which eight at a time can be seen not to end a plain scalar in the block context. Stops at
/// one that may, or near the end of the text.
fn ordinary_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    while let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let eight = u64::from_le_bytes(*eight);
        // The lowest bit of each is right: a borrow only goes to higher bytes.
        let up_to_space = eight.wrapping_sub(ONES * 0x21) & !eight;
        let colon = eight ^ (ONES * u64::from(b':'));
        let colon = colon.wrapping_sub(ONES) & !colon;
        let found = (up_to_space | colon | eight) & HIGH;
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at
}

/// The number of spaces at a place.
pub(super) fn spaces(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let mut count = 0;
    while let Some(eight) = rest.get(count..).and_then(<[u8]>::first_chunk) {
        let other = u64::from_le_bytes(*eight) ^ u64::from_ne_bytes([b' '; 8]);
        if other != 0 {
            return count + (other.trailing_zeros() / 8) as usize;
        }
        count += 8;
    }
    count + rest[count..].iter().take_while(|&&b| b == b' ').count()
}

/// Blanks and line breaks inside of a scalar: one line feed becomes a space, of more the first is dropped. With
/// `escaped`, a line break was in front that is not part of the scalar.
fn fold(blanks: &str, escaped: bool, to: &mut String) {
    let bytes = blanks.as_bytes();
    let mut breaks = (0..bytes.len()).filter_map(|at| {
        // The second half of CR LF is not a separate line break.
        let is_half = bytes[at] == b'\n' && at > 0 && bytes[at - 1] == b'\r';
        break_at(bytes, at).filter(|_| !is_half).map(|(_, text)| text)
    });
    if escaped {
        to.extend(breaks);
        return;
    }
    let Some(first) = breaks.next() else { return };
    let from = to.len();
    if first != "\n" {
        to.push_str(first);
    }
    to.extend(breaks);
    if first == "\n" && to.len() == from {
        to.push(' ');
    }
}

//! The characters of a document as go-yaml's reader hands them to its scanner.
//!
//! go-yaml decodes its input in pieces of 512 bytes, and finds a broken or forbidden character only when the scanner
//! asks for the piece that has it. Which error is reported, and where a byte order mark inside a text counts, depends
//! on that. Documents with neither (nearly all) are read in place and without such bookkeeping.

use super::Fallible;
use std::borrow::Cow;

/// How much go-yaml reads at once.
const PIECE: usize = 512;
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// A text, ready to be scanned.
pub(super) struct Source<'a> {
    pub text: Cow<'a, str>,
    /// Whether there is no character outside of ASCII.
    pub ascii: bool,
    /// Whether `\n` is the only line break in it.
    pub simple_breaks: bool,
    /// Where the pieces end, if that may matter.
    pub pieces: Option<Pieces>,
}

/// The pieces of a text, and why the one behind the last could not be read.
#[derive(Clone)]
pub(super) struct Pieces {
    ends: Vec<usize>,
    failure: Option<&'static str>,
    /// The piece that was decoded last.
    current: usize,
    /// Where the decoded text that go-yaml still holds begins.
    start: usize,
    /// How many NUL characters go-yaml put behind the end of the text.
    nuls: usize,
}

impl Pieces {
    /// Decodes until `count` characters are there from `at` on, or until the end of the text.
    pub fn ensure(&mut self, text: &[u8], at: usize, count: usize) -> Fallible<()> {
        loop {
            let end = self.ends.get(self.current).copied().unwrap_or(text.len());
            let held = text.get(at..end).unwrap_or_default();
            // A character has four bytes at most.
            if held.len() >= 4 * count || characters(held) + self.nuls >= count {
                return Ok(());
            }
            self.start = at;
            if self.current + 1 < self.ends.len() {
                self.current += 1;
            } else if let Some(problem) = self.failure {
                return Err(format!("yaml: {problem}").into());
            } else {
                self.nuls += 1;
                return Ok(());
            }
        }
    }

    /// go-yaml's `is_bom`, which looks at the start of what it holds and not at the current character.
    pub fn is_bom(&self, text: &[u8]) -> bool {
        text.get(self.start..).is_some_and(|held| held.starts_with(BOM))
    }
}

/// How many characters start in these bytes.
pub(super) fn characters(bytes: &[u8]) -> usize {
    bytes.iter().map(|&b| usize::from(b & 0xC0 != 0x80)).sum()
}

impl<'a> Source<'a> {
    pub fn new(raw: &'a [u8]) -> Self {
        match raw {
            [0xFF, 0xFE, ..] => Self::in_pieces(raw, 2, |bytes| utf16(bytes, u16::from_le_bytes)),
            [0xFE, 0xFF, ..] => Self::in_pieces(raw, 2, |bytes| utf16(bytes, u16::from_be_bytes)),
            _ => {
                let body = raw.strip_prefix(BOM).unwrap_or(raw);
                Self::in_place(body).unwrap_or_else(|| Self::in_pieces(raw, raw.len() - body.len(), utf8))
            }
        }
    }

    /// The text as it is, if there is nothing to look after.
    fn in_place(raw: &'a [u8]) -> Option<Self> {
        let (mut all, mut forbidden, mut carriage_return) = (0, 0, 0);
        for &b in raw {
            // Without branches, so that many bytes are looked at in one step.
            let usual = u8::from(b == b'\n') | u8::from(b == b'\t') | u8::from(b == b'\r');
            all |= b;
            forbidden |= u8::from(b < b' ') & (usual ^ 1) | u8::from(b == 0x7F);
            carriage_return |= u8::from(b == b'\r');
        }
        let text = std::str::from_utf8(raw).ok().filter(|_| forbidden == 0)?;
        let ascii = all < 0x80;
        let mut simple_breaks = carriage_return == 0;
        if !ascii {
            for window in raw.windows(2).enumerate().filter(|(_, w)| matches!(w[0], 0xC2 | 0xE2 | 0xEF)) {
                match (window.1, raw.get(window.0 + 2)) {
                    ([0xC2, 0x85], _) | ([0xE2, 0x80], Some(0xA8 | 0xA9)) => simple_breaks = false,
                    ([0xC2, 0x80..=0x9F], _) | ([0xEF, 0xBF], Some(0xBE | 0xBF)) | ([0xEF, 0xBB], Some(0xBF)) => {
                        return None;
                    }
                    _ => {}
                }
            }
        }
        Some(Self { text: text.into(), ascii, simple_breaks, pieces: None })
    }

    /// Decodes as go-yaml does, up to the first piece that cannot be read. `skipped` bytes at the front are a mark.
    fn in_pieces(raw: &[u8], skipped: usize, decode: impl Fn(&[u8]) -> Result<Option<(char, usize)>, Problem>) -> Self {
        let mut text = String::with_capacity(raw.len());
        // There is only an empty piece before the first is requested. The one that cannot be read is not among
        // them: asking for it is the error.
        let mut ends = vec![0];
        let (mut start, mut at, mut failure) = (0, skipped, None);
        loop {
            let window = &raw[..raw.len().min(start + PIECE)];
            let kept = text.len();
            let problem = loop {
                match decode(&window[at..]) {
                    Ok(Some((c, width))) => {
                        text.push(c);
                        at += width;
                    }
                    Err(Problem::Cut(what)) if window.len() == raw.len() && start == at => break Some(what),
                    Ok(None) | Err(Problem::Cut(_)) => break None,
                    Err(Problem::Wrong(what)) => break Some(what),
                }
            };
            if problem.is_some() {
                text.truncate(kept);
                failure = problem;
                break;
            }
            ends.push(text.len());
            start = at;
            if at == raw.len() {
                break;
            }
        }
        let pieces = Pieces { ends, failure, current: 0, start: 0, nuls: 0 };
        Self { text: text.into(), ascii: false, simple_breaks: false, pieces: Some(pieces) }
    }
}

/// Why a character cannot be decoded.
enum Problem {
    /// Its end is missing.
    Cut(&'static str),
    Wrong(&'static str),
}

fn allowed(code: u32) -> Result<char, Problem> {
    match char::from_u32(code) {
        Some('\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{A0}'..='\u{FFFD}' | '\u{10000}'..) => {
            Ok(char::from_u32(code).unwrap_or_default())
        }
        _ => Err(Problem::Wrong("control characters are not allowed")),
    }
}

/// The first character, and its width; `None` at the end.
fn utf8(bytes: &[u8]) -> Result<Option<(char, usize)>, Problem> {
    let Some(&first) = bytes.first() else { return Ok(None) };
    let (width, lead) = match first {
        0..=0x7F => (1, first),
        0xC0..=0xDF => (2, first & 0x1F),
        0xE0..=0xEF => (3, first & 0x0F),
        0xF0..=0xF7 => (4, first & 0x07),
        _ => return Err(Problem::Wrong("invalid leading UTF-8 octet")),
    };
    let Some(rest) = bytes.get(1..width) else { return Err(Problem::Cut("incomplete UTF-8 octet sequence")) };
    let mut code = u32::from(lead);
    for &octet in rest {
        if octet & 0xC0 != 0x80 {
            return Err(Problem::Wrong("invalid trailing UTF-8 octet"));
        }
        code = code << 6 | u32::from(octet & 0x3F);
    }
    if code < [0, 0, 0x80, 0x800, 0x1_0000][width] {
        return Err(Problem::Wrong("invalid length of a UTF-8 sequence"));
    }
    if (0xD800..=0xDFFF).contains(&code) || code > 0x10_FFFF {
        return Err(Problem::Wrong("invalid Unicode character"));
    }
    Ok(Some((allowed(code)?, width)))
}

/// As [`utf8`] for UTF-16.
fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<Option<(char, usize)>, Problem> {
    let at = |i: usize| Some(u32::from(unit([*bytes.get(i)?, *bytes.get(i + 1)?])));
    if bytes.is_empty() {
        return Ok(None);
    }
    let Some(first) = at(0) else { return Err(Problem::Cut("incomplete UTF-16 character")) };
    match first & 0xFC00 {
        0xDC00 => Err(Problem::Wrong("unexpected low surrogate area")),
        0xD800 => match at(2) {
            None => Err(Problem::Cut("incomplete UTF-16 surrogate pair")),
            Some(second) if second & 0xFC00 != 0xDC00 => Err(Problem::Wrong("expected low surrogate area")),
            Some(second) => Ok(Some((allowed(0x1_0000 + ((first & 0x3FF) << 10) + (second & 0x3FF))?, 4))),
        },
        _ => Ok(Some((allowed(first)?, 2))),
    }
}

//! Go's regular expressions (RE2 syntax, as `regexp/syntax` reads it) for the `regex` crate.

use crate::template::budget::{self, Spent};
use regex::Error;
use regex::bytes::{Regex, RegexBuilder};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// Sizes of compiled patterns, in bytes, that are tried one after the other: the crate does not say how large a pattern
/// became, but refuses one that becomes larger than its limit. Nearly all patterns of charts fit into the first.
const SIZES: [usize; 5] = [4 << 10, 32 << 10, 256 << 10, 2 << 20, 10 << 20];
/// Bytes that a search may keep for its next one, besides the pattern itself.
const CACHE: usize = 256 << 10;
/// Bytes of compiled patterns that a thread keeps. A chart has a few dozen of the first size.
const KEPT: usize = 16 << 20;

/// Why a pattern cannot be compiled: Go's words, without `error parsing regexp: ` in front.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// A part of the pattern is wrong.
    #[error("{what}: `{at}`")]
    Syntax {
        /// The fault.
        what: &'static str,
        /// The part.
        at: String,
    },
    /// It takes too much room.
    #[error("expression too large")]
    TooLarge,
    /// A limit of the template.
    #[error(transparent)]
    Spent(#[from] Spent),
}

/// A compiled pattern.
#[derive(Debug)]
pub struct Pattern {
    regex: Regex,
    /// Which of [`SIZES`] it fits into.
    size: usize,
}

impl Pattern {
    /// The expression, for searches that are charged by [`Pattern::searched`].
    pub fn regex(&self) -> &Regex {
        &self.regex
    }

    /// Whether a text has a match.
    pub fn is_match(&self, text: &[u8]) -> Result<bool, Spent> {
        self.searched(text.len())?;
        Ok(self.regex.is_match(text))
    }

    /// Charges a search through this many bytes. In the worst case each state of the pattern visits each byte, and a
    /// search cannot be interrupted.
    pub fn searched(&self, bytes: usize) -> Result<(), Spent> {
        budget::work_of((bytes / 8).saturating_mul(self.size / SIZES[0]).saturating_add(1))
    }
}

/// Patterns that a thread has compiled.
#[derive(Default)]
struct Known {
    patterns: HashMap<Box<str>, Arc<Pattern>>,
    bytes: usize,
}

/// A Go pattern, compiled.
pub fn compile(pattern: &str) -> Result<Arc<Pattern>, PatternError> {
    thread_local! {
        static KNOWN: RefCell<Known> = RefCell::default();
    }
    if let Some(known) = KNOWN.with_borrow(|known| known.patterns.get(pattern).cloned()) {
        return Ok(known);
    }
    // A repetition copies its operand, and three bytes can name a class of many ranges.
    budget::work_of(pattern.len().saturating_mul(if pattern.contains('{') { 1024 } else { 128 }))?;
    budget::make(pattern.len().saturating_mul(if pattern.contains("\\p") || pattern.contains("\\P") {
        4096
    } else {
        256
    }))?;
    let translated = Translator::new(pattern).run()?;
    let compiled = Arc::new(build(&translated)?);
    KNOWN.with_borrow_mut(|known| {
        let bytes = compiled.size + pattern.len();
        if known.bytes + bytes > KEPT {
            *known = Known::default();
        }
        known.bytes += bytes;
        known.patterns.insert(pattern.into(), Arc::clone(&compiled));
    });
    Ok(compiled)
}

/// Compiles an expression, and charges the result: time and memory grow with its size.
fn build(expression: &str) -> Result<Pattern, PatternError> {
    for size in SIZES {
        budget::work_of(size / 4)?;
        budget::room(size * 2)?;
        let cache = CACHE.max(size);
        match RegexBuilder::new(expression).size_limit(size).dfa_size_limit(cache).build() {
            Ok(regex) => {
                budget::make(size * 2)?;
                return Ok(Pattern { regex, size });
            }
            Err(Error::CompiledTooBig(_)) => {}
            Err(_) => break,
        }
    }
    Err(PatternError::TooLarge)
}

fn wrong<T>(what: &'static str, at: &str) -> Result<T, PatternError> {
    Err(PatternError::Syntax { what, at: at.into() })
}

struct Translator<'p> {
    whole: &'p str,
    rest: &'p str,
    out: String,
    names: HashSet<&'p str>,
    /// Whether there is something that an operator of repetition could repeat.
    repeatable: bool,
    /// The start of the last operator, if nothing followed it.
    repeated: Option<&'p str>,
    /// Whether the flag `U` is set: greedy operators are lazy, and lazy ones greedy.
    swapped: bool,
    /// The same before each group that is open.
    outside: Vec<bool>,
    /// The last element was flags, or an empty quotation: its start in `out`, and whether `U` was set before.
    between: Option<(usize, bool)>,
}

impl<'p> Translator<'p> {
    fn new(pattern: &'p str) -> Self {
        Self {
            whole: pattern,
            rest: pattern,
            out: String::with_capacity(pattern.len() + 16),
            names: HashSet::new(),
            repeatable: false,
            repeated: None,
            swapped: false,
            outside: Vec::new(),
            between: None,
        }
    }

    fn run(mut self) -> Result<String, PatternError> {
        while let Some(c) = self.rest.chars().next() {
            let (repeated, between) = (self.repeated.take(), self.between.take());
            match c {
                '(' => self.open(between)?,
                '|' => {
                    self.copy(1);
                    self.repeatable = false;
                }
                ')' => {
                    let Some(outside) = self.outside.pop() else { return wrong("unexpected )", self.whole) };
                    self.swapped = outside;
                    self.copy(1);
                    self.repeatable = true;
                }
                '^' | '$' | '.' => {
                    self.copy(1);
                    self.repeatable = true;
                }
                '[' => {
                    let (class, rest) = class(self.rest)?;
                    self.out.push_str(&class);
                    self.rest = rest;
                    self.repeatable = true;
                }
                '*' => self.repeat(1, "{0,}", repeated, between)?,
                '+' => self.repeat(1, "{1,}", repeated, between)?,
                '?' => self.repeat(1, "{0,1}", repeated, between)?,
                '{' => match counted(self.rest) {
                    Some((low, high, length)) => {
                        let shown = &self.rest[..length];
                        if low > 1000 || high.is_some_and(|high| high > 1000 || high < low) {
                            return wrong("invalid repeat count", shown);
                        }
                        self.repeat(length, shown, repeated, between)?;
                    }
                    None => self.literal('{', 1),
                },
                '\\' => self.escape(between)?,
                c => self.literal(c, c.len_utf8()),
            }
        }
        if !self.outside.is_empty() {
            return wrong("missing closing )", self.whole);
        }
        Ok(self.out)
    }

    fn copy(&mut self, length: usize) {
        self.out.push_str(&self.rest[..length]);
        self.rest = &self.rest[length..];
    }

    fn literal(&mut self, c: char, length: usize) {
        push_char(c, &mut self.out);
        self.rest = &self.rest[length..];
        self.repeatable = true;
    }

    /// `times` is the content of the operator's braces.
    fn repeat(
        &mut self,
        length: usize,
        times: &str,
        repeated: Option<&'p str>,
        between: Option<(usize, bool)>,
    ) -> Result<(), PatternError> {
        let start = self.rest;
        let lazy = usize::from(start[length..].starts_with('?'));
        let shown = &start[..length + lazy];
        if !self.repeatable {
            return wrong("missing argument to repetition operator", shown);
        }
        if let Some(before) = repeated {
            let end = before.len() - start.len() + shown.len();
            return wrong("invalid nested repetition operator", &before[..end]);
        }
        if let Some((at, swapped)) = between {
            // Go repeats the expression before the flags, with the present flags; Rust wants the operator next to it. In
            // braces, because it may follow another repetition there.
            let flags = self.out.split_off(at);
            budget::work_of(flags.len())?;
            self.out.push_str(times);
            if (lazy == 1) != (swapped != self.swapped) {
                self.out.push('?');
            }
            self.between = Some((self.out.len(), swapped));
            self.out.push_str(&flags);
            self.rest = &start[length + lazy..];
        } else {
            self.copy(length + lazy);
        }
        self.repeated = Some(start);
        Ok(())
    }

    fn group(&mut self) {
        self.outside.push(self.swapped);
        self.repeatable = false;
    }

    fn open(&mut self, between: Option<(usize, bool)>) -> Result<(), PatternError> {
        if !self.rest.starts_with("(?") {
            self.copy(1);
            self.group();
            return Ok(());
        }
        let rest = self.rest;
        let named = [("(?P<", 4), ("(?<", 3)]
            .iter()
            .find(|(start, n)| rest.len() > *n && rest.starts_with(start))
            .map(|(_, n)| *n);
        if let Some(start) = named {
            let Some(end) = rest.find('>') else { return wrong("invalid named capture", rest) };
            let (capture, name) = (&rest[..=end], &rest[start..end]);
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return wrong("invalid named capture", capture);
            }
            if self.names.insert(name) {
                // Rust's names must not begin with a digit, unlike Go's; every name gets a letter in front.
                let _ = write!(self.out, "(?P<n{name}>");
            } else {
                // Go lets several groups have one name.
                self.out.push('(');
            }
            self.rest = &rest[end + 1..];
            self.group();
            return Ok(());
        }
        self.flags(between)
    }

    /// `(?i)` and `(?i:`
    fn flags(&mut self, between: Option<(usize, bool)>) -> Result<(), PatternError> {
        let start = self.rest;
        let (mut negative, mut seen) = (false, false);
        // Go accepts a flag several times, and the last one counts. Rust accepts it once.
        let (mut on, mut off) = (String::new(), String::new());
        for (i, c) in start.char_indices().skip(2) {
            let end = i + c.len_utf8();
            match c {
                'i' | 'm' | 's' | 'U' => {
                    seen = true;
                    on.retain(|flag| flag != c);
                    off.retain(|flag| flag != c);
                    if negative { &mut off } else { &mut on }.push(c);
                }
                '-' if !negative => (negative, seen) = (true, false),
                ':' | ')' if !negative || seen => {
                    // `(?)` means nothing to Go, and is an error to Rust.
                    let minus = if off.is_empty() { "" } else { "-" };
                    let here = (self.out.len(), self.swapped);
                    if end > 3 || c == ':' {
                        let _ = write!(self.out, "(?{on}{minus}{off}{c}");
                    }
                    self.rest = &start[end..];
                    if c == ':' {
                        self.group();
                    } else {
                        self.between = between.or(Some(here));
                    }
                    self.swapped = on.contains('U') || self.swapped && !off.contains('U');
                    return Ok(());
                }
                _ => return wrong("invalid or unsupported Perl syntax", &start[..end]),
            }
        }
        wrong("invalid or unsupported Perl syntax", start)
    }

    fn escape(&mut self, between: Option<(usize, bool)>) -> Result<(), PatternError> {
        let rest = self.rest;
        let repeatable = std::mem::replace(&mut self.repeatable, true);
        match rest.as_bytes().get(1) {
            Some(b'A') => self.fixed("\\A"),
            Some(b'z') => self.fixed("\\z"),
            // Go's word boundaries know only ASCII.
            Some(b'b') => self.fixed("(?-u:\\b)"),
            Some(b'B') => self.fixed("(?-u:\\B)"),
            Some(b'Q') => {
                let quoted = &rest[2..];
                let end = quoted.find("\\E").unwrap_or(quoted.len());
                for c in quoted[..end].chars() {
                    push_char(c, &mut self.out);
                }
                if end == 0 {
                    self.repeatable = repeatable;
                    self.between = between.or(Some((self.out.len(), self.swapped)));
                }
                self.rest = quoted[end..].strip_prefix("\\E").unwrap_or("");
            }
            _ => {
                if let Some((group, after)) = group_escape(rest)? {
                    let _ = write!(self.out, "[{group}]");
                    self.rest = after;
                } else {
                    let (c, after) = char_escape(rest)?;
                    push_char(c, &mut self.out);
                    self.rest = after;
                }
            }
        }
        Ok(())
    }

    fn fixed(&mut self, text: &str) {
        self.out.push_str(text);
        self.rest = &self.rest[2..];
    }
}

/// A character that means itself.
fn push_char(c: char, out: &mut String) {
    if c.is_ascii_alphanumeric() || matches!(c, '_' | ' ' | '/' | ':' | '=' | ',' | '"' | '@' | ';') {
        out.push(c);
    } else {
        let _ = write!(out, "\\x{{{:x}}}", u32::from(c));
    }
}

/// `{2}`, `{2,}`, `{2,3}`: bounds, and the length of the operator. Other braces are literal.
fn counted(text: &str) -> Option<(u32, Option<u32>, usize)> {
    let end = text.find('}')?;
    let inner = &text[1..end];
    let number = |digits: &str| -> Option<u32> {
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        // A leading zero makes the brace literal.
        (plain && (digits == "0" || !digits.starts_with('0'))).then(|| digits.parse().unwrap_or(u32::MAX))
    };
    let (low, high) = match inner.split_once(',') {
        None => (number(inner)?, Some(number(inner)?)),
        Some((low, "")) => (number(low)?, None),
        Some((low, high)) => (number(low)?, Some(number(high)?)),
    };
    Some((low, high, end + 1))
}

/// `\d`, `\pL` and the like, as members of a class.
fn group_escape(text: &str) -> Result<Option<(String, &str)>, PatternError> {
    let group = match text.as_bytes().get(1) {
        Some(b'd') => "0-9",
        Some(b's') => r"\t\n\f\r\x20",
        Some(b'w') => "0-9A-Za-z_",
        Some(b'D') => "[^0-9]",
        Some(b'S') => r"[^\t\n\f\r\x20]",
        Some(b'W') => "[^0-9A-Za-z_]",
        Some(b'p' | b'P') => return unicode_group(text).map(Some),
        _ => return Ok(None),
    };
    Ok(Some((group.into(), &text[2..])))
}

fn unicode_group(text: &str) -> Result<(String, &str), PatternError> {
    let mut negative = text.starts_with("\\P");
    let body = &text[2..];
    let (name, after) = match body.chars().next() {
        Some('{') => match body.find('}') {
            Some(end) => (&body[1..end], &body[end + 1..]),
            None => return wrong("invalid character class range", text),
        },
        Some(c) => body.split_at(c.len_utf8()),
        None => return wrong("invalid character class range", text),
    };
    let shown = &text[..text.len() - after.len()];
    let bare = name.strip_prefix('^').inspect(|_| negative = !negative).unwrap_or(name);
    let sign = if negative { 'P' } else { 'p' };
    let group = format!("\\{sign}{{{bare}}}");
    let known = !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_');
    if !known || regex_syntax::Parser::new().parse(&group).is_err() {
        return wrong("invalid character class range", shown);
    }
    Ok((group, after))
}

/// `\x{10FFFF}`: RE2 reads no further than the first fault.
fn braced_escape<'t>(text: &'t str, digits: &'t str) -> Result<(char, &'t str), PatternError> {
    let mut code = 0;
    for (at, c) in digits.char_indices() {
        let tail = &digits[at + c.len_utf8()..];
        let read = &text[..text.len() - tail.len()];
        if let ('}', Some(c), true) = (c, char::from_u32(code), at > 0) {
            return Ok((c, tail));
        }
        match c.to_digit(16) {
            Some(digit) if code * 16 + digit <= 0x10_ffff => code = code * 16 + digit,
            _ => return wrong("invalid escape sequence", read),
        }
    }
    wrong("invalid escape sequence", text)
}

/// An escape that means one character.
fn char_escape(text: &str) -> Result<(char, &str), PatternError> {
    let mut rest = text[1..].chars();
    let Some(c) = rest.next() else { return wrong("trailing backslash at end of expression", "") };
    let after = rest.as_str();
    let invalid = || wrong("invalid escape sequence", &text[..=c.len_utf8()]);
    let simple = |c| Ok((c, after));
    match c {
        '0'..='7' => {
            // A digit that is not zero is a reference to a group, which RE2 has not, unless more digits follow.
            if c != '0' && !after.starts_with(|c: char| ('0'..='7').contains(&c)) {
                return invalid();
            }
            let more = after.bytes().take(2).take_while(|b| (b'0'..=b'7').contains(b)).count();
            let digits = &text[1..2 + more];
            let code = u32::from_str_radix(digits, 8).ok().and_then(char::from_u32);
            Ok((code.unwrap_or('\0'), &after[more..]))
        }
        'x' => {
            if let Some(digits) = after.strip_prefix('{') {
                return braced_escape(text, digits);
            }
            let (digits, tail) = after.split_at(after.char_indices().nth(2).map_or(after.len(), |(at, _)| at));
            let hex = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
            match u32::from_str_radix(digits, 16).ok().filter(|_| hex).and_then(char::from_u32) {
                Some(c) => Ok((c, tail)),
                None => wrong("invalid escape sequence", &text[..text.len() - tail.len()]),
            }
        }
        'a' => simple('\x07'),
        'f' => simple('\x0c'),
        'n' => simple('\n'),
        'r' => simple('\r'),
        't' => simple('\t'),
        'v' => simple('\x0b'),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => simple(c),
        _ => invalid(),
    }
}

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// `[…]` for Rust, and what follows it.
fn class(text: &str) -> Result<(String, &str), PatternError> {
    let mut out = String::from("[");
    let mut rest = &text[1..];
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        rest = after;
    }
    let mut first = true;
    loop {
        if rest.starts_with(']') && !first {
            break;
        }
        first = false;
        if let Some(body) = rest.strip_prefix("[:")
            && let Some(end) = body.find(":]")
        {
            let named = &rest[..end + 4];
            let name = body[..end].trim_start_matches('^');
            if !POSIX.contains(&name) || body[..end].len() > name.len() + 1 {
                return wrong("invalid character class range", named);
            }
            out.push_str(named);
            rest = &rest[named.len()..];
            continue;
        }
        if rest.starts_with('\\')
            && let Some((group, after)) = group_escape(rest)?
        {
            out.push_str(&group);
            rest = after;
            continue;
        }
        let start = rest;
        let (low, after) = class_char(rest, text)?;
        rest = after;
        push_char(low, &mut out);
        if rest.len() >= 2 && rest.starts_with('-') && !rest[1..].starts_with(']') {
            let (high, after) = class_char(&rest[1..], text)?;
            rest = after;
            if high < low {
                return wrong("invalid character class range", &start[..start.len() - rest.len()]);
            }
            out.push('-');
            push_char(high, &mut out);
        }
    }
    out.push(']');
    Ok((out, &rest[1..]))
}

fn class_char<'t>(rest: &'t str, whole: &str) -> Result<(char, &'t str), PatternError> {
    match rest.chars().next() {
        None => wrong("missing closing ]", whole),
        Some('\\') => char_escape(rest),
        Some(c) => Ok((c, &rest[c.len_utf8()..])),
    }
}

#[cfg(test)]
mod tests {
    use super::compile;
    use crate::template::budget::{Budget, Limits};

    fn within<R>(run: impl FnOnce() -> R) -> R {
        Budget::new(Limits { steps: Some(50_000_000), memory: Some(64 << 20), ..Limits::default() }).run(run)
    }

    #[test]
    fn patterns_are_charged_for_what_they_become() {
        let compiled = within(|| (0..10_000).position(|n| compile(&format!("(?:x{{500}}){{200}}|{n}")).is_err()));
        assert!(compiled.is_some_and(|count| count < 10), "{compiled:?} large patterns");
        let small = within(|| (0..200).all(|n| compile(&format!("^[a-z0-9]([-a-z0-9]*[a-z0-9])?-{n}$")).is_ok()));
        assert!(small, "200 patterns of names");
    }

    #[test]
    fn a_search_is_charged_for_the_pattern_and_the_text() {
        let text = "ab".repeat(1 << 19);
        let slow = within(|| {
            let pattern = compile("(?:a|b)*a(?:a|b){400}c").unwrap();
            (0..10_000).position(|_| pattern.searched(text.len()).is_err())
        });
        assert!(slow.is_some_and(|count| count < 50), "{slow:?} searches");
        let quick = within(|| {
            let pattern = compile("^[a-z]+$").unwrap();
            (0..10_000).all(|_| pattern.is_match(b"some-name").is_ok_and(|found| !found))
        });
        assert!(quick, "10,000 names");
    }
}

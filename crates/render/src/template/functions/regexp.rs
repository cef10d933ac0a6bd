//! Regular expressions.

use super::args::{bytes, int, string};
use super::re2::{self, Pattern, PatternError};
use super::{fixed, text};
use crate::template::budget;
use crate::template::function::{Context, FnError, FnResult, Function, Param};
use crate::template::go::quote::quoted;
use crate::template::unicode::{is_digit, is_letter};
use crate::template::value::{Elem, List, Room, Value};
use regex::bytes::{Captures, Regex};
use std::borrow::Cow;
use std::sync::Arc;

use Param::{Int, Str as S};

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[
    fixed("regexMatch", &[S, S], |_, a| match pattern(a, true) {
        Ok(pattern) => Ok(pattern.is_match(&Subject::of(a).read)?.into()),
        Err(_) => Ok(false.into()),
    }),
    fixed("mustRegexMatch", &[S, S], |_, a| Ok(pattern(a, true)?.is_match(&Subject::of(a).read)?.into())),
    fixed("regexFind", &[S, S], |_, a| find(a, false)),
    fixed("mustRegexFind", &[S, S], |_, a| find(a, true)),
    fixed("regexFindAll", &[S, S, Int], |_, a| find_all(a, false)),
    fixed("mustRegexFindAll", &[S, S, Int], |_, a| find_all(a, true)),
    fixed("regexReplaceAll", &[S, S, S], |_, a| replace(a, false, expand)),
    fixed("mustRegexReplaceAll", &[S, S, S], |_, a| replace(a, true, expand)),
    fixed("regexReplaceAllLiteral", &[S, S, S], |_, a| replace(a, false, literal)),
    fixed("mustRegexReplaceAllLiteral", &[S, S, S], |_, a| replace(a, true, literal)),
    fixed("regexSplit", &[S, S, Int], |_, a| split(a, false)),
    fixed("mustRegexSplit", &[S, S, Int], |_, a| split(a, true)),
    fixed("regexQuoteMeta", &[S], quote_meta),
];

/// The first argument as a pattern. `must` returns Go's error; otherwise it is `MustCompile`'s panic.
fn pattern(args: &[Value], must: bool) -> Result<Arc<Pattern>, FnError> {
    let text = string(args, 0);
    let compiled = match std::str::from_utf8(bytes(args, 0)) {
        Ok(text) => re2::compile(text),
        Err(e) => {
            let at = text::valid(&bytes(args, 0)[e.valid_up_to()..]).into_owned();
            Err(PatternError::Syntax { what: "invalid UTF-8", at })
        }
    };
    compiled.map_err(|e| {
        if must {
            return format!("error parsing regexp: {e}").into();
        }
        // Go quotes with backquotes where it can.
        let is_text = std::str::from_utf8(bytes(args, 0)).is_ok();
        let plain =
            is_text && !text.contains(|c: char| matches!(c, '`' | '\u{feff}' | '\u{7f}') || c < ' ' && c != '\t');
        let shown = if plain { format!("`{text}`") } else { quoted(bytes(args, 0)) };
        format!("regexp: Compile({shown}): error parsing regexp: {e}").into()
    })
}

/// The second argument, as a pattern reads it: a byte that is not part of a character is one U+FFFD, as for Go.
struct Subject<'t> {
    bytes: &'t [u8],
    /// Always UTF-8.
    read: Cow<'t, [u8]>,
    /// For each position between characters in `read`, the position in `bytes`, where the two differ.
    places: Vec<usize>,
}

impl<'t> Subject<'t> {
    fn of(args: &'t [Value]) -> Self {
        let bytes = bytes(args, 1);
        if std::str::from_utf8(bytes).is_ok() {
            return Self { bytes, read: Cow::Borrowed(bytes), places: Vec::new() };
        }
        let (mut read, mut places) = (String::with_capacity(bytes.len()), Vec::with_capacity(bytes.len() + 1));
        let mut at = 0;
        while let Some((c, width)) = text::next_char(&bytes[at..]) {
            read.push(c.unwrap_or(char::REPLACEMENT_CHARACTER));
            places.resize(read.len(), at);
            at += width;
        }
        places.push(at);
        Self { bytes, read: Cow::Owned(read.into_bytes()), places }
    }

    /// The text between two places of `read`.
    fn part(&self, begin: usize, end: usize) -> &'t [u8] {
        let place = |at: usize| self.places.get(at).copied().unwrap_or(at);
        &self.bytes[place(begin)..place(end)]
    }

    /// All matches. Empty matches are only between characters.
    fn matches<'a>(&'a self, pattern: &'a Pattern) -> impl Iterator<Item = regex::bytes::Match<'a>> {
        let inside = |at: usize| self.read.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
        pattern.regex().find_iter(&self.read).filter(move |found| !found.is_empty() || !inside(found.start()))
    }
}

fn find(args: &[Value], must: bool) -> FnResult {
    let pattern = pattern(args, must)?;
    let subject = Subject::of(args);
    pattern.searched(subject.read.len())?;
    Ok(Value::str(pattern.regex().find(&subject.read).map_or(&b""[..], |m| subject.part(m.start(), m.end()))))
}

fn limit(args: &[Value], i: usize) -> usize {
    usize::try_from(int(args, i)).unwrap_or(usize::MAX)
}

fn find_all(args: &[Value], must: bool) -> FnResult {
    let pattern = pattern(args, must)?;
    let subject = Subject::of(args);
    pattern.searched(subject.read.len())?;
    let mut all = Vec::new();
    for found in subject.matches(&pattern).take(limit(args, 2)) {
        again(&pattern, subject.read.len() - found.start())?;
        budget::make(64 + found.len())?;
        all.push(subject.part(found.start(), found.end()));
    }
    if all.is_empty() {
        return Ok(Value::List(List::nil(Elem::Str)));
    }
    Ok(Value::strings_in(all, Room::Grown(10)))
}

fn split(args: &[Value], must: bool) -> FnResult {
    let pattern = pattern(args, must)?;
    let (subject, limit) = (Subject::of(args), limit(args, 2));
    if limit == 0 {
        return Ok(Value::List(List::nil(Elem::Str)));
    }
    let text = &*subject.read;
    if !bytes(args, 0).is_empty() && text.is_empty() {
        return Ok(Value::strings([""]));
    }
    pattern.searched(text.len())?;
    let mut parts: Vec<&[u8]> = Vec::new();
    let (mut begin, mut end, mut count) = (0, 0, 0);
    for found in subject.matches(&pattern).take(limit) {
        again(&pattern, text.len() - found.start())?;
        budget::make(64 + found.start() - begin)?;
        count += 1;
        if parts.len() + 1 == limit {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            parts.push(subject.part(begin, end));
        }
        begin = found.end();
    }
    if end != text.len() {
        parts.push(subject.part(begin, text.len()));
    }
    Ok(Value::strings_in(parts, Room::Grown(count)))
}

/// A search may read all of the remaining text, even if the match is short.
fn again(pattern: &Pattern, left: usize) -> Result<(), FnError> {
    Ok(pattern.searched(left / 128)?)
}

/// The replacement of a match.
type Replacement = fn(template: &[u8], pattern: &Regex, found: &Captures<'_>, subject: &Subject<'_>, out: &mut Vec<u8>);

fn replace(args: &[Value], must: bool, replacement: Replacement) -> FnResult {
    let pattern = pattern(args, must)?;
    let (subject, template) = (Subject::of(args), bytes(args, 2));
    let text = &*subject.read;
    pattern.searched(text.len())?;
    let mut out = Vec::with_capacity(text.len());
    let (mut copied, mut position) = (0, 0);
    while position <= text.len()
        && let Some(found) = pattern.regex().captures_at(text, position)
        && let Some(all) = found.get(0)
    {
        again(&pattern, text.len() - position)?;
        budget::room(out.len())?;
        out.extend_from_slice(subject.part(copied, all.start()));
        // Nothing is replaced right after another match.
        if all.end() > copied || all.start() == 0 {
            replacement(template, pattern.regex(), &found, &subject, &mut out);
        }
        copied = all.end();
        let width = text::next_char(&text[position..]).map_or(1, |(_, width)| width);
        position = (position + width).max(all.end());
    }
    if copied < text.len() {
        out.extend_from_slice(subject.part(copied, text.len()));
    }
    Ok(Value::str(out))
}

fn literal(template: &[u8], _: &Regex, _: &Captures<'_>, _: &Subject<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(template);
}

/// `$1`, `$name`, `${name}` and `$$`, as Go's `Expand` reads them.
fn expand(template: &[u8], pattern: &Regex, found: &Captures<'_>, subject: &Subject<'_>, out: &mut Vec<u8>) {
    let mut rest = template;
    while let Some(at) = rest.iter().position(|&b| b == b'$') {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(b"$") {
            out.push(b'$');
            rest = after;
            continue;
        }
        let Some((name, after)) = reference(rest) else {
            out.push(b'$');
            continue;
        };
        rest = after;
        let group = if name.bytes().all(|b| b.is_ascii_digit()) && !(name.len() > 1 && name.starts_with('0')) {
            name.parse().ok().and_then(|i| found.get(i))
        } else {
            // The translator put an `n` before every name.
            let named = format!("n{name}");
            pattern.capture_names().flatten().find(|n| *n == named).and_then(|n| found.name(n))
        };
        out.extend_from_slice(group.map_or(&[], |m| subject.part(m.start(), m.end())));
    }
    out.extend_from_slice(rest);
}

/// The name after a `$`: as many letters, digits and underscores as there are, or the text in braces.
fn reference(text: &[u8]) -> Option<(&str, &[u8])> {
    let (brace, body) = text.strip_prefix(b"{").map_or((false, text), |body| (true, body));
    let mut end = 0;
    while let Some((Ok(c), width)) = text::next_char(&body[end..]) {
        if !(is_letter(c) || is_digit(c) || c == '_') {
            break;
        }
        end += width;
    }
    let name = std::str::from_utf8(&body[..end]).ok().filter(|n| !n.is_empty())?;
    let after = &body[end..];
    if brace { after.strip_prefix(b"}").map(|after| (name, after)) } else { Some((name, after)) }
}

fn quote_meta(_: &Context, args: &[Value]) -> FnResult {
    let mut out = Vec::new();
    for &b in bytes(args, 0) {
        if br"\.+*?()|[]{}^$".contains(&b) {
            out.push(b'\\');
        }
        out.push(b);
    }
    Ok(Value::str(out))
}

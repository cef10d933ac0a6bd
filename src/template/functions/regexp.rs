//! Regular expressions.

use super::args::{bytes, int, string};
use super::{fixed, re2, text};
use crate::template::budget;
use crate::template::function::{Context, FnError, FnResult, Function, Param};
use crate::template::go::quote::quoted;
use crate::template::value::{Elem, List, Room, Value};
use regex::bytes::{Captures, Regex};
use std::sync::Arc;

use Param::{Int, Str as S};

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[
    fixed("regexMatch", &[S, S], |_, a| Ok(pattern(a, true).is_ok_and(|r| r.is_match(bytes(a, 1))).into())),
    fixed("mustRegexMatch", &[S, S], |_, a| Ok(pattern(a, true)?.is_match(bytes(a, 1)).into())),
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
fn pattern(args: &[Value], must: bool) -> Result<Arc<Regex>, FnError> {
    let text = string(args, 0);
    let compiled = match std::str::from_utf8(bytes(args, 0)) {
        Ok(text) => re2::compile(text),
        Err(e) => Err(format!("invalid UTF-8: `{}`", text::valid(&bytes(args, 0)[e.valid_up_to()..]))),
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

fn find(args: &[Value], must: bool) -> FnResult {
    Ok(Value::str(pattern(args, must)?.find(bytes(args, 1)).map_or(&b""[..], |m| m.as_bytes())))
}

fn limit(args: &[Value], i: usize) -> usize {
    usize::try_from(int(args, i)).unwrap_or(usize::MAX)
}

fn find_all(args: &[Value], must: bool) -> FnResult {
    let pattern = pattern(args, must)?;
    let text = bytes(args, 1);
    let mut all = Vec::new();
    for found in matches(&pattern, text).take(limit(args, 2)) {
        searched(&text[found.start()..])?;
        budget::make(64 + found.len())?;
        all.push(found.as_bytes());
    }
    if all.is_empty() {
        return Ok(Value::List(List::nil(Elem::Str)));
    }
    Ok(Value::strings_in(all, Room::Grown(10)))
}

/// All matches. Empty ones stand between characters only, where the text is UTF-8.
fn matches<'t>(pattern: &'t Regex, text: &'t [u8]) -> impl Iterator<Item = regex::bytes::Match<'t>> {
    let inside = |at: usize| {
        (1..4.min(at + 1)).any(|back| text::next_char(&text[at - back..]).is_some_and(|(_, width)| width > back))
    };
    pattern.find_iter(text).filter(move |found| !found.is_empty() || !inside(found.start()))
}

fn split(args: &[Value], must: bool) -> FnResult {
    let pattern = pattern(args, must)?;
    let (text, limit) = (bytes(args, 1), limit(args, 2));
    if limit == 0 {
        return Ok(Value::List(List::nil(Elem::Str)));
    }
    if !bytes(args, 0).is_empty() && text.is_empty() {
        return Ok(Value::strings([""]));
    }
    let mut parts: Vec<&[u8]> = Vec::new();
    let (mut begin, mut end, mut count) = (0, 0, 0);
    for found in matches(&pattern, text).take(limit) {
        searched(&text[found.start()..])?;
        budget::make(64 + found.start() - begin)?;
        count += 1;
        if parts.len() + 1 == limit {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            parts.push(&text[begin..end]);
        }
        begin = found.end();
    }
    if end != text.len() {
        parts.push(&text[begin..]);
    }
    Ok(Value::strings_in(parts, Room::Grown(count)))
}

/// A search may look at all that is left to find that the match is a short one.
fn searched(left: &[u8]) -> Result<(), FnError> {
    Ok(budget::work_of(1 + left.len() / 1024)?)
}

/// What a match is replaced with.
type Replacement = fn(template: &[u8], pattern: &Regex, found: &Captures<'_>, out: &mut Vec<u8>);

fn replace(args: &[Value], must: bool, replacement: Replacement) -> FnResult {
    let pattern = pattern(args, must)?;
    let (text, template) = (bytes(args, 1), bytes(args, 2));
    let mut out = Vec::with_capacity(text.len());
    let (mut copied, mut position) = (0, 0);
    while position <= text.len()
        && let Some(found) = pattern.captures_at(text, position)
        && let Some(all) = found.get(0)
    {
        searched(&text[position..])?;
        budget::room(out.len())?;
        out.extend_from_slice(&text[copied..all.start()]);
        // Nothing is replaced right behind another match.
        if all.end() > copied || all.start() == 0 {
            replacement(template, &pattern, &found, &mut out);
        }
        copied = all.end();
        let width = text::next_char(&text[position..]).map_or(1, |(_, width)| width);
        position = (position + width).max(all.end());
    }
    out.extend_from_slice(&text[copied.min(text.len())..]);
    Ok(Value::str(out))
}

fn literal(template: &[u8], _: &Regex, _: &Captures<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(template);
}

/// `$1`, `$name`, `${name}` and `$$`, as Go's `Expand` reads them.
fn expand(template: &[u8], pattern: &Regex, found: &Captures<'_>, out: &mut Vec<u8>) {
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
        out.extend_from_slice(group.map_or(&[], |m| m.as_bytes()));
    }
    out.extend_from_slice(rest);
}

/// The name behind a `$`: as many letters, digits and underscores as there are, or what is in braces.
fn reference(text: &[u8]) -> Option<(&str, &[u8])> {
    let (brace, body) = text.strip_prefix(b"{").map_or((false, text), |body| (true, body));
    let mut end = 0;
    while let Some((Ok(c), width)) = text::next_char(&body[end..]) {
        if !(c.is_alphanumeric() || c == '_') {
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

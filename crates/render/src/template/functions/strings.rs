//! Strings: cutting, joining, searching, padding.

use super::args::{any, bytes, int, string, string_map, strings};
use super::{fixed, text, variadic};
use crate::template::budget;
use crate::template::function::{Context, FnError, FnResult, Function, Param};
use crate::template::go::quote;
use crate::template::items::Room;
use crate::template::value::{Elem, Str, Value};

use Param::{Any, Int, Str as S};

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[
    fixed("hello", &[], |_, _| Ok("Hello!".into())),
    fixed("trim", &[S], |_, a| Ok(Value::str(trim_space(bytes(a, 0))))),
    fixed("trimall", &[S, S], trim_all),
    fixed("trimAll", &[S, S], trim_all),
    fixed("trimSuffix", &[S, S], |_, a| Ok(cut(a, bytes(a, 1).strip_suffix(bytes(a, 0))))),
    fixed("trimPrefix", &[S, S], |_, a| Ok(cut(a, bytes(a, 1).strip_prefix(bytes(a, 0))))),
    fixed("contains", &[S, S], |_, a| Ok((find(bytes(a, 1), bytes(a, 0)).is_some()).into())),
    fixed("hasPrefix", &[S, S], |_, a| Ok(bytes(a, 1).starts_with(bytes(a, 0)).into())),
    fixed("hasSuffix", &[S, S], |_, a| Ok(bytes(a, 1).ends_with(bytes(a, 0)).into())),
    fixed("trunc", &[Int, S], trunc),
    fixed("substr", &[Int, Int, S], substr),
    fixed("abbrev", &[Int, S], abbrev),
    fixed("abbrevboth", &[Int, Int, S], abbrev_both),
    fixed("repeat", &[Int, S], |_, a| Ok(Value::str(repeat(bytes(a, 1), int(a, 0))?))),
    fixed("nospace", &[S], nospace),
    fixed("wrap", &[Int, S], |_, a| Ok(Value::str(wrap(bytes(a, 1), int(a, 0), b"", false)?))),
    fixed("wrapWith", &[Int, S, S], |_, a| Ok(Value::str(wrap(bytes(a, 2), int(a, 0), bytes(a, 1), true)?))),
    variadic("quote", &[Any], quote_all),
    variadic("squote", &[Any], squote),
    variadic("cat", &[Any], cat),
    fixed("indent", &[Int, S], |_, a| Ok(Value::str(indent(int(a, 0), bytes(a, 1), false)?))),
    fixed("nindent", &[Int, S], |_, a| Ok(Value::str(indent(int(a, 0), bytes(a, 1), true)?))),
    fixed("replace", &[S, S, S], |_, a| replace(a)),
    fixed("plural", &[S, S, Int], |_, a| Ok(any(a, usize::from(int(a, 2) != 1)).clone())),
    fixed("toString", &[Any], |_, a| to_string(any(a, 0))),
    fixed("toStrings", &[Any], to_strings),
    fixed("join", &[S, Any], join),
    fixed("sortAlpha", &[Any], sort_alpha),
    fixed("split", &[S, S], |_, a| Ok(numbered(split(bytes(a, 1), bytes(a, 0), -1)?))),
    fixed("splitn", &[S, Int, S], |_, a| Ok(numbered(split(bytes(a, 2), bytes(a, 0), int(a, 1))?))),
    fixed("splitList", &[S, S], |_, a| Ok(Value::strings(split(bytes(a, 1), bytes(a, 0), -1)?))),
];

/// No string may grow beyond the limit of a template's output.
const MAX_LENGTH: usize = 256 << 20;

fn to_string(value: &Value) -> FnResult {
    match value {
        Value::Str(_) => Ok(value.clone()),
        other => Ok(Value::str(text::strval(other)?)),
    }
}

/// Go's `strings.TrimSpace`.
fn trim_space(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Ok(s) => s.trim().as_bytes(),
        Err(_) => bytes.trim_ascii(),
    }
}

/// The second argument, or the rest of it.
fn cut(args: &[Value], cut: Option<&[u8]>) -> Value {
    cut.map_or_else(|| any(args, 1).clone(), Value::str)
}

fn trim_all(_: &Context, args: &[Value]) -> FnResult {
    let set = string(args, 0);
    budget::work_of(set.len().saturating_mul(bytes(args, 1).len()) / 128)?;
    if let Ok(s) = std::str::from_utf8(bytes(args, 1)) {
        return Ok(s.trim_matches(|c| set.contains(c)).into());
    }
    // A byte that is not UTF-8 is taken for U+FFFD.
    let is_cut = |c: char| set.contains(if text::is_escaped(c) { char::REPLACEMENT_CHARACTER } else { c });
    let text = text::escaped(bytes(args, 1));
    Ok(Value::str(&*text::unescaped(text.trim_matches(is_cut))))
}

/// The position of a part in a string.
pub fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    match part {
        [] => Some(0),
        [byte] => memchr::memchr(*byte, text),
        _ => memchr::memmem::find(text, part),
    }
}

fn trunc(_: &Context, args: &[Value]) -> FnResult {
    let text = bytes(args, 1);
    let count = int(args, 0);
    let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    Ok(match count {
        _ if size >= text.len() => any(args, 1).clone(),
        ..0 => Value::str(&text[text.len() - size..]),
        0.. => Value::str(&text[..size]),
    })
}

fn substr(_: &Context, args: &[Value]) -> FnResult {
    let (start, end, text) = (int(args, 0), int(args, 1), bytes(args, 2));
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let (from, to) = match () {
        () if start < 0 => (0, end),
        () if end < 0 || end > length => (start, length),
        () => (start, end),
    };
    if to < 0 {
        return Err(format!("runtime error: slice bounds out of range [:{to}]").into());
    }
    if to > length {
        return Err(format!("runtime error: slice bounds out of range [:{to}] with length {length}").into());
    }
    if from > to {
        return Err(format!("runtime error: slice bounds out of range [{from}:{to}]").into());
    }
    let index = |i: i64| usize::try_from(i).unwrap_or(0);
    Ok(Value::str(&text[index(from)..index(to)]))
}

fn abbrev(_: &Context, args: &[Value]) -> FnResult {
    let (width, text) = (int(args, 0), bytes(args, 1));
    Ok(if width < 4 { any(args, 1).clone() } else { Value::str(abbreviate(text, 0, width)) })
}

fn abbrev_both(_: &Context, args: &[Value]) -> FnResult {
    let (left, right, text) = (int(args, 0), int(args, 1), bytes(args, 2));
    if right < 4 || left > 0 && right < 7 {
        return Ok(any(args, 2).clone());
    }
    Ok(Value::str(abbreviate(text, left, right)))
}

/// goutils' `AbbreviateFull`, in bytes.
fn abbreviate(text: &[u8], offset: i64, width: i64) -> Vec<u8> {
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let index = |i: i64| usize::try_from(i.clamp(0, length)).unwrap_or(0);
    if length <= width {
        return text.to_vec();
    }
    let mut offset = offset.min(length);
    if length - offset < width - 3 {
        offset = length - (width - 3);
    }
    if offset <= 4 {
        return [&text[..index(width - 3)], b"..."].concat();
    }
    if width < 7 {
        return Vec::new();
    }
    if offset + width - 3 < length {
        let tail = &text[index(offset)..];
        // There is no abbreviation of a width below 4. goutils returns nothing then.
        let tail = if width - 3 < 4 { Vec::new() } else { abbreviate(tail, 0, width - 3) };
        return [b"...".as_slice(), &tail].concat();
    }
    [b"...", &text[index(length - (width - 3))..]].concat()
}

/// Go's `strings.Repeat`.
fn repeat(text: &[u8], count: i64) -> Result<Vec<u8>, FnError> {
    let Ok(count) = usize::try_from(count) else { return Err("strings: negative Repeat count".into()) };
    match text.len().checked_mul(count) {
        Some(length) if length <= MAX_LENGTH => {
            budget::room(length)?;
            Ok(text.repeat(count))
        }
        _ => Err("strings: Repeat output length overflow".into()),
    }
}

/// goutils' `DeleteWhiteSpace` treats bytes as characters, so that it breaks text that is not ASCII.
fn nospace(_: &Context, args: &[Value]) -> FnResult {
    let text = bytes(args, 0);
    if !text.iter().any(|&b| char::from(b).is_whitespace()) {
        return Ok(any(args, 0).clone());
    }
    let kept: String = text.iter().map(|&b| char::from(b)).filter(|c| !c.is_whitespace()).collect();
    Ok(kept.into())
}

/// goutils' `WrapCustom`, in bytes.
fn wrap(text: &[u8], width: i64, separator: &[u8], long_words: bool) -> Result<Vec<u8>, FnError> {
    let separator = if separator.is_empty() { b"\n" } else { separator };
    let width = usize::try_from(width.max(1)).unwrap_or(1);
    let mut out = Vec::with_capacity(text.len() + 16);
    let mut rest = text;
    while rest.len() > width {
        if rest[0] == b' ' {
            rest = &rest[1..];
            continue;
        }
        let (line, after) = match rest[..=width].iter().rposition(|&b| b == b' ') {
            Some(space) => (&rest[..space], &rest[space + 1..]),
            None if long_words => rest.split_at(width),
            None => match rest[width..].iter().position(|&b| b == b' ') {
                Some(space) => (&rest[..width + space], &rest[width + space + 1..]),
                None => break,
            },
        };
        budget::write(out.len())?;
        out.extend_from_slice(line);
        out.extend_from_slice(separator);
        rest = after;
    }
    out.extend_from_slice(rest);
    Ok(out)
}

fn quote_all(_: &Context, args: &[Value]) -> FnResult {
    if let [Value::Str(s)] = args {
        return Ok(Value::str(quote_bytes(s.bytes())));
    }
    let mut out = Vec::new();
    for arg in args.iter().filter(|a| !matches!(a, Value::Nil)) {
        if !out.is_empty() {
            out.push(b' ');
        }
        out.extend_from_slice(&quote_bytes(&text::strval(arg)?));
    }
    Ok(Value::str(out))
}

/// `%q`; most strings need no escapes.
fn quote_bytes(text: &[u8]) -> Vec<u8> {
    if text.iter().all(|b| matches!(b, b' '..=b'~') && !matches!(b, b'"' | b'\\')) {
        return [b"\"", text, b"\""].concat();
    }
    quote::quoted(text).into_bytes()
}

fn squote(_: &Context, args: &[Value]) -> FnResult {
    let mut out = Vec::new();
    for arg in args.iter().filter(|a| !matches!(a, Value::Nil)) {
        if !out.is_empty() {
            out.push(b' ');
        }
        out.push(b'\'');
        crate::template::go::fmt::print_value(&mut out, arg)?;
        out.push(b'\'');
    }
    Ok(Value::str(out))
}

fn cat(_: &Context, args: &[Value]) -> FnResult {
    let mut out = Vec::new();
    for (i, arg) in args.iter().filter(|a| !matches!(a, Value::Nil)).enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        crate::template::go::fmt::print_value(&mut out, arg)?;
    }
    Ok(Value::str(out))
}

fn indent(spaces: i64, text: &[u8], new_line: bool) -> Result<Vec<u8>, FnError> {
    let Ok(spaces) = usize::try_from(spaces) else { return Err("strings: negative Repeat count".into()) };
    let lines = text.split(|&b| b == b'\n').count();
    let length = lines.checked_mul(spaces).and_then(|n| n.checked_add(text.len() + 1)).filter(|&n| n <= MAX_LENGTH);
    let Some(length) = length else { return Err("strings: Repeat output length overflow".into()) };
    budget::room(length)?;
    let mut out = Vec::with_capacity(length);
    if new_line {
        out.push(b'\n');
    }
    for (i, line) in text.split(|&b| b == b'\n').enumerate() {
        if i > 0 {
            out.push(b'\n');
        }
        out.resize(out.len() + spaces, b' ');
        out.extend_from_slice(line);
    }
    Ok(out)
}

/// Go's `strings.ReplaceAll`; nothing is found before each character and at the end.
fn replace(args: &[Value]) -> FnResult {
    let (old, new, text) = (bytes(args, 0), bytes(args, 1), bytes(args, 2));
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    if old.is_empty() {
        out.extend_from_slice(new);
        while let Some((_, width)) = text::next_char(rest) {
            budget::room(out.len())?;
            out.extend_from_slice(&rest[..width]);
            out.extend_from_slice(new);
            rest = &rest[width..];
        }
        return Ok(Value::str(out));
    }
    while let Some(at) = find(rest, old) {
        budget::room(out.len())?;
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(new);
        rest = &rest[at + old.len()..];
    }
    if rest.len() == text.len() {
        return Ok(any(args, 2).clone());
    }
    out.extend_from_slice(rest);
    Ok(Value::str(out))
}

fn join(_: &Context, args: &[Value]) -> FnResult {
    let parts = strings(any(args, 1))?;
    let separators = parts.len().saturating_mul(bytes(args, 0).len());
    budget::room(separators.saturating_add(parts.iter().map(Vec::len).sum()))?;
    Ok(Value::str(parts.join(bytes(args, 0))))
}

/// The argument itself, if it is a `[]string`.
fn to_strings(_: &Context, args: &[Value]) -> FnResult {
    match any(args, 0) {
        Value::List(list) if list.elem == Elem::Str => Ok(any(args, 0).clone()),
        other => Ok(Value::strings_in(strings(other)?, room(other))),
    }
}

/// The capacity of a list of texts that is made from another: nils are dropped, but still take room.
fn room(value: &Value) -> Room {
    match value {
        Value::List(list) => Room::For(list.items.len()),
        _ => Room::Exact,
    }
}

fn sort_alpha(_: &Context, args: &[Value]) -> FnResult {
    // A `[]string` is put in order where it is.
    if let Value::List(list) = any(args, 0)
        && list.elem == Elem::Str
    {
        budget::elements(list.items.array_len())?;
        list.items.sort();
        return Ok(any(args, 0).clone());
    }
    let value = any(args, 0);
    let mut list = match value {
        Value::List(_) | Value::Object(_) => strings(value)?,
        other => vec![text::strval(other)?],
    };
    budget::work_of(list.len())?;
    list.sort();
    Ok(Value::strings_in(list, room(value)))
}

/// Go's `strings.SplitN`; an empty separator splits into characters.
fn split<'t>(text: &'t [u8], separator: &[u8], count: i64) -> Result<Vec<&'t [u8]>, FnError> {
    let limit = if count < 0 { usize::MAX } else { usize::try_from(count).unwrap_or(usize::MAX) };
    let mut parts = Vec::new();
    if limit == 0 {
        return Ok(parts);
    }
    let mut rest = text;
    while parts.len() + 1 < limit {
        budget::make(64)?;
        let (at, width) = if separator.is_empty() {
            match text::next_char(rest) {
                Some((_, width)) if width < rest.len() => (width, 0),
                _ => break,
            }
        } else {
            match find(rest, separator) {
                Some(at) => (at, separator.len()),
                None => break,
            }
        };
        parts.push(&rest[..at]);
        rest = &rest[at + width..];
    }
    if !(separator.is_empty() && text.is_empty()) {
        parts.push(rest);
    }
    Ok(parts)
}

/// `map[string]string` with keys `_0`, `_1`, …
fn numbered(parts: Vec<&[u8]>) -> Value {
    string_map(parts.into_iter().enumerate().map(|(i, part)| (Str::from(format!("_{i}")), Value::str(part))))
}

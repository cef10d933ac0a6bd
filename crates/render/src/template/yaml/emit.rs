//! `toYaml`: the text of go-yaml v2 for a value that was converted to JSON before.
//!
//! Go marshals to JSON, reads that JSON as YAML, and writes it again. The detour has few effects, each
//! with its own rule here: numbers, broken UTF-8, U+0085, and characters and keys that the reader refuses.

use super::resolve::{Scalar, is_base60, resolve};
use crate::template::budget;
use crate::template::functions::json::{self, JsonError};
use crate::template::functions::text;
use crate::template::go::fmt;
use crate::template::stack::deeper;
use crate::template::unicode::{is_digit, is_letter};
use crate::template::value::{IntType, Kind, Str, Value};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::borrow::Cow;
use std::cmp::Ordering;

/// Lines are folded at the first space after this column.
const WIDTH: usize = 80;

/// Why a value cannot be written as YAML; the words are Go's.
#[derive(Debug, thiserror::Error)]
pub enum EmitError {
    /// It cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// go-yaml does not read the JSON.
    #[error("yaml: {0}")]
    Reader(&'static str),
    /// go-yaml v3's panic.
    #[error("cannot marshal type: complex128")]
    NotMarshalled,
}

impl From<EmitError> for String {
    fn from(error: EmitError) -> Self {
        error.to_string()
    }
}

/// The value as YAML with its last newline.
pub fn emit(value: &Value) -> Result<Vec<u8>, EmitError> {
    run(value, Style::Helm)
}

/// JSON as YAML with its last newline.
pub fn of_json(value: &serde_json::Value) -> Result<String, EmitError> {
    emit(&Value::from(value)).map(|text| String::from_utf8_lossy(&text).into_owned())
}

/// `toYamlPretty`: go-yaml v3 without the way through JSON.
pub fn emit_pretty(value: &Value) -> Result<Vec<u8>, EmitError> {
    run(value, Style::Pretty)
}

/// Which of Go's two libraries is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// sigs.k8s.io/yaml over go-yaml v2: lines are folded, lists under keys are not indented.
    Helm,
    /// go-yaml v3 with an indent of two: long lines stay, lists are indented, numbers print as Go prints them.
    Pretty,
}

/// [`json::cycle_from`]
fn cycle_from(value: &Value, depth: usize, error: EmitError) -> EmitError {
    match error {
        EmitError::Json(error) => json::cycle_from(value, depth, error).into(),
        error => error,
    }
}

fn run(value: &Value, style: Style) -> Result<Vec<u8>, EmitError> {
    let mut emitter = Emitter::new(style);
    emitter.node(value, Place::default(), 0)?;
    if !emitter.indention || emitter.column > 0 {
        emitter.line_break();
    }
    Ok(emitter.out)
}

/// The place of a node.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    /// The indent of the collection around it; `None` at the root.
    pub indent: Option<usize>,
    pub in_mapping: bool,
    pub simple_key: bool,
}

pub(super) struct Emitter {
    style: Style,
    pub out: Vec<u8>,
    pub column: usize,
    /// The last character written is a blank or indicator that needs none after it.
    pub whitespace: bool,
    /// This line has only blanks and indicators so far.
    pub indention: bool,
}

impl Emitter {
    pub fn new(style: Style) -> Self {
        Self { style, out: Vec::with_capacity(256), column: 0, whitespace: true, indention: true }
    }

    pub fn put(&mut self, byte: u8) {
        self.out.push(byte);
        self.column += 1;
    }

    fn put_ascii(&mut self, text: &[u8]) {
        self.out.extend_from_slice(text);
        self.column += text.len();
    }

    pub fn put_char(&mut self, c: char) {
        let mut buffer = [0; 4];
        self.out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
        self.column += 1;
    }

    pub fn line_break(&mut self) {
        self.out.push(b'\n');
        self.column = 0;
    }

    fn write_indent(&mut self, indent: usize) {
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.line_break();
        }
        if self.column < indent {
            self.out.resize(self.out.len() + indent - self.column, b' ');
            self.column = indent;
        }
        self.whitespace = true;
        self.indention = true;
    }

    pub fn indicator(&mut self, text: &[u8], need_whitespace: bool, is_whitespace: bool, is_indention: bool) {
        if need_whitespace && !self.whitespace {
            self.put(b' ');
        }
        self.put_ascii(text);
        self.whitespace = is_whitespace;
        self.indention = self.indention && is_indention;
    }

    fn plain(&mut self, text: &[u8]) {
        if !self.whitespace {
            self.put(b' ');
        }
        self.put_ascii(text);
        self.whitespace = false;
        self.indention = false;
    }

    fn node(&mut self, value: &Value, place: Place, depth: usize) -> Result<(), EmitError> {
        if json::is_cycle(value, depth) {
            return Err(json::cycle(value).into());
        }
        budget::write(self.out.len()).map_err(JsonError::from)?;
        match value {
            Value::Nil => self.plain(b"null"),
            Value::Bool(b) => self.plain(if *b { b"true" } else { b"false" }),
            Value::Int(IntType::Duration, n) if self.style == Style::Pretty => self.plain(fmt::duration(*n).as_bytes()),
            Value::Int(kind, i) => {
                let mut out = Vec::new();
                json::integer(*kind, *i, &mut out);
                self.plain(&out);
            }
            Value::Float(f) if self.style == Style::Pretty => self.plain(pretty_float(*f).as_bytes()),
            Value::Float(f) => {
                let mut out = Vec::new();
                number(*f, &mut out)?;
                self.plain(&out);
            }
            Value::Str(s) if self.style == Style::Pretty => match std::str::from_utf8(s.bytes()) {
                Ok(text) => self.string(text, place),
                Err(_) => self.binary(s.bytes(), place),
            },
            Value::Str(s) => self.string(&through_json(s.bytes())?, place),
            Value::List(list) => {
                if let Some(text) = json::bytes(list).filter(|_| self.style != Style::Pretty) {
                    self.string(&text, place);
                } else if list.is_nil() && self.style != Style::Pretty {
                    self.plain(b"null");
                } else {
                    deeper(|| self.sequence(&list.items, place, depth)).map_err(|e| cycle_from(value, depth, e))?;
                }
            }
            Value::Map(map) if map.is_nil() && self.style != Style::Pretty => self.plain(b"null"),
            Value::Map(map) => {
                let entries = map.borrow();
                let keys = entries.iter().map(|(key, value)| (key.bytes(), value));
                let keys = if self.style == Style::Pretty { pretty(keys) } else { sorted(keys)? };
                deeper(|| self.mapping(keys, place, depth)).map_err(|e| cycle_from(value, depth, e))?;
            }
            Value::Object(object) if object.kind() == Kind::Complex128 => {
                return Err(if self.style == Style::Pretty {
                    EmitError::NotMarshalled
                } else {
                    JsonError::from("json: unsupported type: complex128").into()
                });
            }
            Value::Object(object) if self.style == Style::Pretty && object.kind() == Kind::Map => {
                let value = |name: &Str| object.field(&name.text()).unwrap_or(Value::Nil);
                let entries = object.fields().into_iter().map(|name| (name.clone(), value(&name)));
                self.node(&Value::map(entries), place, depth + 1)?;
            }
            Value::Object(object) if self.style == Style::Pretty && object.type_name() == "time.Time" => {
                if let Value::Str(time) = object.json() {
                    self.plain(time.bytes());
                }
            }
            // go-yaml knows nothing of the names in JSON.
            Value::Object(object) if self.style == Style::Pretty && object.members().is_some() => {
                let names = object.fields();
                let values: Vec<_> = names.iter().map(|n| object.field(&n.text()).unwrap_or(Value::Nil)).collect();
                let names = names.iter().map(|name| Key { text: name.text().to_lowercase().into(), binary: None });
                self.mapping(names.zip(&values).collect(), place, depth)?;
            }
            Value::Object(object) => self.node(&object.json(), place, depth + 1)?,
        }
        Ok(())
    }

    fn sequence(&mut self, items: &[Value], place: Place, depth: usize) -> Result<(), EmitError> {
        if items.is_empty() {
            self.indicator(b"[", true, true, false);
            self.indicator(b"]", false, false, false);
            return Ok(());
        }
        let indent = match place.indent {
            None => 0,
            // The items of a list under a key are below the key.
            Some(indent) if self.style == Style::Helm && place.in_mapping && !self.indention => indent,
            Some(indent) => indent + 2,
        };
        for item in items {
            self.write_indent(indent);
            self.indicator(b"-", true, false, true);
            self.node(item, Place { indent: Some(indent), ..Place::default() }, depth + 1)?;
        }
        Ok(())
    }

    fn mapping(&mut self, entries: Vec<(Key<'_>, &Value)>, place: Place, depth: usize) -> Result<(), EmitError> {
        if entries.is_empty() {
            self.indicator(b"{", true, true, false);
            self.indicator(b"}", false, false, false);
            return Ok(());
        }
        let indent = place.indent.map_or(0, |indent| indent + 2);
        let place = Place { indent: Some(indent), in_mapping: true, simple_key: false };
        for (key, value) in entries {
            self.write_indent(indent);
            if key.is_simple() {
                self.key(&key, Place { simple_key: true, ..place });
                self.indicator(b":", false, false, false);
            } else {
                self.indicator(b"?", true, false, true);
                self.key(&key, place);
                self.write_indent(indent);
                self.indicator(b":", true, false, true);
            }
            self.node(value, place, depth + 1)?;
        }
        Ok(())
    }

    fn key(&mut self, key: &Key<'_>, place: Place) {
        match key.binary {
            Some(bytes) => self.binary(bytes, place),
            None => self.string(&key.text, place),
        }
    }

    /// Bytes that are not a text, as go-yaml v3 writes them: base64, in lines of 70 characters when it has that many.
    fn binary(&mut self, bytes: &[u8], place: Place) {
        self.indicator(b"!!binary", true, false, false);
        let encoded = BASE64.encode(bytes);
        if encoded.len() < 70 {
            self.plain(encoded.as_bytes());
            return;
        }
        let mut lines = String::new();
        for line in encoded.as_bytes().chunks(70) {
            lines.extend(line.iter().map(|b| char::from(*b)).chain(['\n']));
        }
        self.string(&lines, place);
    }

    fn string(&mut self, text: &str, place: Place) {
        let analysis = Analysis::of(text, self.style);
        // Continuation lines are two columns deeper than the collection.
        let indent = place.indent.map_or(2, |indent| indent + 2);
        let folds = !place.simple_key && self.style == Style::Helm;
        let literal = text.contains('\n');
        if literal {
            if analysis.block && !place.simple_key {
                self.literal(text, indent);
            } else {
                self.double_quoted(text, indent, folds);
            }
        } else if resolve(text, true) != Scalar::Text || is_base60(text) {
            self.double_quoted(text, indent, folds);
        } else if analysis.plain && !(text.is_empty() && place.simple_key) {
            self.plain_text(text, indent, folds, analysis.simple);
        } else if analysis.single_quoted {
            self.single_quoted(text, indent, folds);
        } else {
            self.double_quoted(text, indent, folds);
        }
    }

    pub fn plain_text(&mut self, text: &str, indent: usize, folds: bool, simple: bool) {
        if !self.whitespace {
            self.put(b' ');
        }
        // Text that ends before the width has nothing to fold.
        if simple && (!folds || self.column + text.len() <= WIDTH) {
            self.put_ascii(text.as_bytes());
        } else {
            let mut spaces = false;
            let mut rest = text.chars().peekable();
            while let Some(c) = rest.next() {
                if c == ' ' && folds && !spaces && self.column > WIDTH && rest.peek() != Some(&' ') {
                    self.write_indent(indent);
                } else {
                    self.put_char(c);
                    self.indention = false;
                }
                spaces = c == ' ';
            }
        }
        self.whitespace = false;
        self.indention = false;
    }

    pub fn single_quoted(&mut self, text: &str, indent: usize, folds: bool) {
        self.indicator(b"'", true, false, false);
        let (mut spaces, mut breaks) = (false, false);
        let last = text.len().saturating_sub(1);
        for (i, c) in text.char_indices() {
            if c == ' ' {
                let next_is_space = text.as_bytes().get(i + 1) == Some(&b' ');
                if folds && !spaces && self.column > WIDTH && i > 0 && i < last && !next_is_space {
                    self.write_indent(indent);
                } else {
                    self.put(b' ');
                }
                spaces = true;
            } else if is_break(c) {
                self.break_char(c);
                self.indention = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent(indent);
                }
                if c == '\'' {
                    self.put(b'\'');
                }
                self.put_char(c);
                self.indention = false;
                (spaces, breaks) = (false, false);
            }
        }
        self.indicator(b"'", false, false, false);
    }

    /// Writes a line break that the text itself holds; only `\n` becomes a plain newline.
    pub fn break_char(&mut self, c: char) {
        self.put_char(c);
        self.column = 0;
    }

    pub fn double_quoted(&mut self, text: &str, indent: usize, folds: bool) {
        self.indicator(b"\"", true, false, false);
        // go-yaml looks for a byte order mark at the start of the text, whatever character it is at.
        let all = text.starts_with('\u{feff}');
        let mut spaces = false;
        let last = text.len().saturating_sub(1);
        for (i, c) in text.char_indices() {
            if all || !is_printable(c) || is_break(c) || c == '"' || c == '\\' {
                self.escape(c);
                spaces = false;
            } else if c == ' ' {
                if folds && !spaces && self.column > WIDTH && i > 0 && i < last {
                    self.write_indent(indent);
                    if text.as_bytes()[i + 1] == b' ' {
                        self.put(b'\\');
                    }
                } else {
                    self.put(b' ');
                }
                spaces = true;
            } else {
                self.put_char(c);
                spaces = false;
            }
        }
        self.indicator(b"\"", false, false, false);
    }

    fn escape(&mut self, c: char) {
        let code = u32::from(c);
        let short = match c {
            '\0' => b'0',
            '\x07' => b'a',
            '\x08' => b'b',
            '\t' => b't',
            '\n' => b'n',
            '\x0b' => b'v',
            '\x0c' => b'f',
            '\r' => b'r',
            '\x1b' => b'e',
            '"' => b'"',
            '\\' => b'\\',
            '\u{85}' => b'N',
            '\u{a0}' => b'_',
            '\u{2028}' => b'L',
            '\u{2029}' => b'P',
            _ if code <= 0xff => return self.put_ascii(format!("\\x{code:02X}").as_bytes()),
            _ if code <= 0xffff => return self.put_ascii(format!("\\u{code:04X}").as_bytes()),
            _ => return self.put_ascii(format!("\\U{code:08X}").as_bytes()),
        };
        self.put_ascii(&[b'\\', short]);
    }

    /// How far block text is indented if its first line does not show it, and what becomes of its last breaks.
    pub fn block_hints(&mut self, text: &str) {
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.indicator(b"2", false, false, false);
        }
        let mut end = text.chars().rev();
        match (end.next().is_some_and(is_break), end.next()) {
            (false, _) => self.indicator(b"-", false, false, false),
            (true, None) => self.indicator(b"+", false, false, false),
            (true, Some(c)) if is_break(c) => self.indicator(b"+", false, false, false),
            _ => {}
        }
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.indicator(b"|", true, false, false);
        self.block_hints(text);
        self.line_break();
        self.indention = true;
        self.whitespace = true;
        let mut breaks = true;
        for line in text.split_inclusive(is_break) {
            let content = line.trim_end_matches(is_break);
            if !content.is_empty() {
                if breaks {
                    self.write_indent(indent);
                }
                self.put_ascii(content.as_bytes());
                self.indention = false;
                breaks = false;
            }
            if let Some(c) = line.chars().next_back().filter(|&c| is_break(c)) {
                self.break_char(c);
                self.indention = true;
                breaks = true;
            }
        }
    }
}

/// Which styles a text can be written in (libyaml's `analyze_scalar`, in block context).
#[expect(clippy::struct_excessive_bools, reason = "four independent answers about one text")]
pub(super) struct Analysis {
    pub plain: bool,
    pub single_quoted: bool,
    pub block: bool,
    /// Printable ASCII throughout.
    pub simple: bool,
}

impl Analysis {
    pub fn of(text: &str, style: Style) -> Self {
        let bytes = text.as_bytes();
        let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
            return Self { plain: true, single_quoted: true, block: false, simple: true };
        };
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let blank_follows = |i: usize| matches!(bytes.get(i), None | Some(b' ' | b'\t'));
        indicators |= match first {
            b'#' | b',' | b'[' | b']' | b'{' | b'}' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%' | b'@'
            | b'`' => true,
            b'?' | b':' | b'-' => blank_follows(1),
            _ => false,
        };
        let simple = bytes.iter().all(|b| (b' '..=b'~').contains(b));
        if simple {
            // Without line breaks and odd characters only blanks and indicators matter.
            for (i, &b) in bytes.iter().enumerate().skip(1) {
                indicators |= b == b':' && blank_follows(i + 1) || b == b'#' && bytes[i - 1] == b' ';
            }
            let edges = first == b' ' || last == b' ';
            return Self { plain: !indicators && !edges, single_quoted: true, block: last != b' ', simple };
        }
        Self::in_full(text, indicators, style)
    }

    fn in_full(text: &str, mut indicators: bool, style: Style) -> Self {
        let (mut breaks, mut special, mut break_space, mut space_break) = (false, false, false, false);
        let (mut previous_space, mut previous_break, mut blank_before, mut tab) = (false, false, true, false);
        let mut rest = text.chars().peekable();
        let mut at_start = true;
        while let Some(c) = rest.next() {
            let blank_after = matches!(rest.peek(), None | Some(' ' | '\t'));
            if !at_start {
                indicators |= c == ':' && blank_after || c == '#' && blank_before;
            }
            // go-yaml v3 writes tabs as they are in block scalars.
            if c == '\t' && style == Style::Pretty {
                tab = true;
            } else {
                special |= !is_printable(c);
            }
            if c == ' ' {
                break_space |= previous_break;
                (previous_space, previous_break) = (true, false);
            } else if is_break(c) {
                breaks = true;
                space_break |= previous_space;
                (previous_space, previous_break) = (false, true);
            } else {
                (previous_space, previous_break) = (false, false);
            }
            blank_before = matches!(c, ' ' | '\t' | '\0') || is_break(c);
            at_start = false;
        }
        let edge = |c: Option<char>| c.is_some_and(|c| c == ' ' || is_break(c));
        let edges = edge(text.chars().next()) || edge(text.chars().next_back());
        let bad = space_break || special;
        Self {
            plain: !(edges || break_space || bad || breaks || indicators || tab),
            single_quoted: !(break_space || bad || tab),
            block: !(text.ends_with(' ') || bad),
            simple: false,
        }
    }
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// go-yaml's idea of printable has no tab, no control characters from U+0080 to U+009F, and nothing beyond the basic plane.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// go-yaml v3 has YAML's own names for numbers that are not finite.
fn pretty_float(f: f64) -> String {
    match f {
        f64::INFINITY => ".inf".into(),
        f64::NEG_INFINITY => "-.inf".into(),
        f if f.is_nan() => ".nan".into(),
        f => text::float(f),
    }
}

/// A float as it looks after JSON: whole numbers that fit 64 bits are integers again.
pub(super) fn number(f: f64, out: &mut Vec<u8>) -> Result<(), EmitError> {
    json::float(f, out)?;
    let text = std::str::from_utf8(out).unwrap_or_default();
    match resolve(text, false) {
        Scalar::Int(0) => *out = b"0".to_vec(),
        Scalar::Int(_) | Scalar::Uint(_) => {}
        _ => {
            out.clear();
            out.extend_from_slice(text::float(f).as_bytes());
        }
    }
    Ok(())
}

/// The string after JSON and go-yaml's reader.
fn through_json(bytes: &[u8]) -> Result<Cow<'_, str>, EmitError> {
    let plain = bytes.iter().all(|b| *b < 0x7f);
    if plain && let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(text.into());
    }
    let text = text::valid(bytes);
    if text.contains(|c| matches!(c, '\u{7f}' | '\u{80}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}')) {
        return Err(EmitError::Reader("control characters are not allowed"));
    }
    if text.contains('\u{85}') { Ok(fold_next_lines(&text).into()) } else { Ok(text) }
}

/// U+0085 is the one line break that JSON does not escape; go-yaml's reader folds it as in any quoted text.
fn fold_next_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{85}') {
        out.push_str(rest[..at].trim_end_matches(' '));
        let after = rest[at..].trim_start_matches([' ', '\u{85}']);
        let breaks = rest[at..rest.len() - after.len()].matches('\u{85}').count();
        if breaks == 1 {
            out.push(' ');
        } else {
            out.extend(std::iter::repeat_n('\n', breaks - 1));
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The key of a mapping.
struct Key<'v> {
    text: Cow<'v, str>,
    /// Its bytes, if they are not a text and are written unchanged.
    binary: Option<&'v [u8]>,
}

impl Key<'_> {
    /// Whether it is on a line before its colon.
    fn is_simple(&self) -> bool {
        match self.binary {
            Some(bytes) => bytes.len().div_ceil(3) * 4 < 70,
            None => self.text.len() <= 128 && !self.text.contains(is_break),
        }
    }
}

/// The entries in go-yaml's order, with keys as they are.
fn pretty<'v>(entries: impl Iterator<Item = (&'v [u8], &'v Value)>) -> Vec<(Key<'v>, &'v Value)> {
    let key = |key: &'v [u8]| match std::str::from_utf8(key) {
        Ok(text) => Key { text: text.into(), binary: None },
        Err(_) => Key { text: text::valid(key), binary: Some(key) },
    };
    let list = entries.map(|(name, value)| (key(name), value)).collect();
    merge_sort(list, &|a, b| natural(&a.0.text, &b.0.text, Style::Pretty))
}

/// The entries in go-yaml's order, with keys as they are after JSON.
fn sorted<'v>(entries: impl Iterator<Item = (&'v [u8], &'v Value)>) -> Result<Vec<(Key<'v>, &'v Value)>, EmitError> {
    let mut list = Vec::with_capacity(entries.size_hint().0);
    for (key, value) in entries {
        let text = through_json(key)?;
        // A key is written before its colon is seen, so go-yaml's reader forgets keys beyond 1,024 characters,
        // and those that hold a line break.
        if key.len() > 150 && json::string_length(&text) > 1024 || matches!(&text, Cow::Owned(_)) && key_breaks(key) {
            return Err(EmitError::Reader("did not find expected ',' or '}'"));
        }
        list.push((Key { text, binary: None }, value));
    }
    Ok(merge_sort(list, &|a, b| natural(&a.0.text, &b.0.text, Style::Helm)))
}

/// Sorts with an order that may contradict itself, as go-yaml's does where keys mix digits and zeros: the standard library's sort
/// panics when it notices.
fn merge_sort<T>(mut list: Vec<T>, order: &impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    if list.is_sorted_by(|a, b| order(a, b).is_le()) {
        return list;
    }
    let right = merge_sort(list.split_off(list.len() / 2), order);
    let left = merge_sort(list, order);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let next = if order(a, b).is_le() { &mut left } else { &mut right };
        merged.extend(next.next());
    }
    merged.extend(left.chain(right));
    merged
}

fn key_breaks(key: &[u8]) -> bool {
    text::valid(key).contains('\u{85}')
}

/// The order of keys in go-yaml's `sorter.go`: letters after everything else, but in its version 3 (pretty) before it
/// where a digit is in front, and runs of digits by their value.
pub(super) fn natural(a: &str, b: &str, style: Style) -> Ordering {
    let common = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    // Usually the first difference is between two ASCII letters.
    if let (Some(x), Some(y)) = (a.as_bytes().get(common), b.as_bytes().get(common))
        && x.is_ascii_alphabetic()
        && y.is_ascii_alphabetic()
    {
        return x.cmp(y);
    }
    let (left, right): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let at = left.iter().zip(&right).take_while(|(x, y)| x == y).count();
    let (Some(&x), Some(&y)) = (left.get(at), right.get(at)) else { return left.len().cmp(&right.len()) };
    let letters_first = style == Style::Pretty && at > 0 && is_digit(left[at - 1]);
    match (is_letter(x), is_letter(y)) {
        (true, true) => x.cmp(&y),
        (true, false) | (false, true) if letters_first => is_letter(y).cmp(&is_letter(x)),
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            // A zero that follows other digits is not a leading zero.
            let zero = x == '0' || y == '0';
            let counts = zero && left[..at].iter().rev().take_while(|&&c| is_digit(c)).any(|&c| c != '0');
            number_at(&left, at, counts).cmp(&number_at(&right, at, counts)).then(x.cmp(&y))
        }
    }
}

/// The number that begins at a character, with another digit in front if `counts`, and where it ends.
fn number_at(text: &[char], at: usize, counts: bool) -> (i64, usize) {
    let mut number = i64::from(counts);
    let mut end = at;
    while let Some(&digit) = text.get(end).filter(|&&c| is_digit(c)) {
        number = number.wrapping_mul(10).wrapping_add(i64::from(u32::from(digit)) - 48);
        end += 1;
    }
    (number, end)
}

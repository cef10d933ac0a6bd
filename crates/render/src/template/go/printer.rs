//! The printer of [`super::fmt`]: verbs, flags, and how Go shows every kind of value.

mod format;
mod number;

use super::fmt::{stringer, type_name};
use super::lex::decode;
use super::quote;
use crate::template::budget;
use crate::template::function::FnError;
use crate::template::value::{Elem, Kind, List, MapType, Object, Value};
use std::fmt::Write as _;

/// Values nested deeper than this are not printed: a map may contain itself, on which Go's `fmt` never ends.
const MAX_DEPTH: usize = 500;
/// The text of every address. In Go addresses differ from run to run, so nothing can depend on them.
const ADDRESS: u64 = 0xc0_0000_0000;
/// A text longer than this is not printed: some lists that share their elements would fill any memory.
const MAX_TEXT: usize = 64 << 20;

#[derive(Clone, Copy, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "they are fmt's flags")]
struct Flags {
    width: Option<usize>,
    precision: Option<usize>,
    minus: bool,
    plus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    /// `%+v`
    plus_v: bool,
    /// `%#v`
    sharp_v: bool,
}

/// The bytes as decimal numbers with a blank behind, and how long that is.
static DECIMALS: [([u8; 4], usize); 256] = {
    let mut all = [([b' '; 4], 0); 256];
    let mut b = 0_u8;
    loop {
        let digits = [b'0' + b / 100, b'0' + b / 10 % 10, b'0' + b % 10];
        let skipped = if b >= 100 {
            0
        } else if b >= 10 {
            1
        } else {
            2
        };
        let mut i = skipped;
        while i < 3 {
            all[b as usize].0[i - skipped] = digits[i];
            i += 1;
        }
        all[b as usize].1 = 4 - skipped;
        if b == u8::MAX {
            break;
        }
        b += 1;
    }
    all
};

/// Appends values to a text, under the flags of one directive.
pub struct Printer<'o> {
    out: &'o mut Vec<u8>,
    /// Where the text began, behind that of others.
    start: usize,
    flags: Flags,
    depth: usize,
    /// While a wrong verb is reported, `String` methods are not used.
    erroring: bool,
    problem: Option<std::borrow::Cow<'static, str>>,
}

impl<'o> Printer<'o> {
    /// Without flags, as `%v` prints.
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        let start = out.len();
        Self { out, start, flags: Flags::default(), depth: 0, erroring: false, problem: None }
    }

    /// Prints, and returns whether all could be printed.
    pub fn finish(mut self, print: impl FnOnce(&mut Self)) -> Result<(), FnError> {
        print(&mut self);
        self.problem.map_or(Ok(()), |problem| Err(problem.into_owned().into()))
    }

    fn length(&self) -> usize {
        self.out.len().saturating_sub(self.start)
    }

    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn char(&mut self, c: char) {
        self.text(c.encode_utf8(&mut [0; 4]));
    }

    // Padding.

    fn padding(&mut self, count: usize) {
        if self.length() > MAX_TEXT {
            self.problem = Some("value takes more than 64 MiB to be printed".into());
            return;
        }
        if let Err(spent) = budget::room(self.length()) {
            self.problem = Some(String::from(spent).into());
            return;
        }
        let with = if self.flags.zero && !self.flags.minus { b'0' } else { b' ' };
        self.out.resize(self.out.len() + count, with);
    }

    fn pad(&mut self, text: &[u8]) {
        let Some(width) = self.flags.width else {
            self.out.extend_from_slice(text);
            return;
        };
        let missing = width.saturating_sub(rune_count(text));
        if !self.flags.minus {
            self.padding(missing);
        }
        self.out.extend_from_slice(text);
        if self.flags.minus {
            self.padding(missing);
        }
    }

    fn pad_without_zeros(&mut self, text: &[u8]) {
        let zero = std::mem::replace(&mut self.flags.zero, false);
        self.pad(text);
        self.flags.zero = zero;
    }

    // Values.

    fn bad_verb(&mut self, value: &Value, verb: char) {
        let erroring = std::mem::replace(&mut self.erroring, true);
        self.text("%!");
        self.char(verb);
        self.text("(");
        if matches!(value, Value::Nil) {
            self.text("<nil>");
        } else {
            self.text(&type_name(value));
            self.text("=");
            self.arg(value, 'v');
        }
        self.text(")");
        self.erroring = erroring;
    }

    /// An argument, whose type can be requested, unlike that of an element.
    pub fn arg(&mut self, value: &Value, verb: char) {
        match (value, verb) {
            (Value::Nil, 'v' | 'T') => self.pad(b"<nil>"),
            (Value::Nil, _) => self.bad_verb(value, verb),
            (_, 'T') => {
                let name = type_name(value);
                self.string(value, name.as_bytes(), 's');
            }
            (_, 'p') => match address(value) {
                Some(address) => self.pointer(value, address, verb),
                None => self.bad_verb(value, verb),
            },
            _ => self.value(value, verb, false),
        }
    }

    /// A value inside another value.
    fn element(&mut self, value: &Value, verb: char, of_interface: bool) {
        if self.depth >= MAX_DEPTH || crate::template::stack::is_exhausted() {
            self.problem = Some("value is nested too deeply to be printed".into());
        }
        if self.length() > MAX_TEXT {
            self.problem = Some("value takes more than 64 MiB to be printed".into());
        }
        if let Err(spent) = budget::write(self.length()) {
            self.problem = Some(String::from(spent).into());
        }
        if self.problem.is_some() {
            return;
        }
        self.depth += 1;
        match value {
            Value::Nil if self.flags.sharp_v && of_interface => self.text("interface {}(nil)"),
            Value::Nil => self.text("<nil>"),
            _ => self.value(value, verb, true),
        }
        self.depth -= 1;
    }

    fn value(&mut self, value: &Value, verb: char, nested: bool) {
        // Before any method of the value is asked, GoString too.
        if !self.erroring && verb == 'w' {
            self.bad_verb(value, verb);
            return;
        }
        let stringable = !self.erroring && !self.flags.sharp_v && matches!(verb, 'v' | 's' | 'x' | 'X' | 'q');
        if let (true, Some(text)) = (stringable, stringer(value)) {
            return self.string(value, text.as_bytes(), verb);
        }
        if let (true, false, Value::Object(object)) = (self.flags.sharp_v, self.erroring, value)
            && let Some(text) = object.go_string()
        {
            return self.pad(truncate(text.as_bytes(), self.flags.precision));
        }
        match value {
            Value::Nil => self.text("<nil>"),
            Value::Bool(b) if matches!(verb, 't' | 'v') => self.pad(if *b { b"true" } else { b"false" }),
            Value::Bool(_) => self.bad_verb(value, verb),
            Value::Int(t, i) => self.integer(value, *t, *i, verb),
            Value::Float(f) => self.float(value, *f, verb),
            Value::Str(s) => self.string(value, s.bytes(), verb),
            Value::List(list) => self.list(list, verb, nested),
            Value::Map(map) if self.flags.sharp_v && map.is_nil() => {
                self.text(&type_name(value));
                self.text("(nil)");
            }
            Value::Map(map) => {
                let entries = map.entries();
                let of_interface = map.kind != MapType::Str;
                let name = type_name(value);
                self.entries(&name, entries.iter().map(|(k, v)| (Value::Str(k.clone()), v)), verb, of_interface);
            }
            Value::Object(object) if object.kind() == Kind::Complex128 => self.complex(value, object.as_ref(), verb),
            Value::Object(object) if object.kind() == Kind::Ptr && (nested || object.is_nil()) => {
                self.pointer(value, address(value).unwrap_or(0), verb);
            }
            Value::Object(object) => self.object(object.as_ref(), verb, nested),
        }
    }

    fn separator(&mut self, index: usize) {
        if index > 0 {
            self.text(if self.flags.sharp_v { ", " } else { " " });
        }
    }

    fn entries<'v>(
        &mut self,
        type_name: &str,
        entries: impl Iterator<Item = (Value, &'v Value)>,
        verb: char,
        of_interface: bool,
    ) {
        if self.flags.sharp_v {
            self.text(type_name);
            self.text("{");
        } else {
            self.text("map[");
        }
        for (i, (key, value)) in entries.enumerate() {
            self.separator(i);
            self.element(&key, verb, false);
            self.text(":");
            self.element(value, verb, of_interface);
        }
        self.text(if self.flags.sharp_v { "}" } else { "]" });
    }

    fn list(&mut self, list: &List, verb: char, nested: bool) {
        if let Some(bytes) = list.bytes() {
            match verb {
                's' => {
                    let text = truncate(&bytes, self.flags.precision);
                    self.pad(text);
                    return;
                }
                'x' | 'X' => return self.hex(&bytes, verb),
                'q' => return self.quoted(&bytes),
                'v' | 'd' if self.flags.sharp_v && list.is_nil() => {
                    return self.text(if nested { "[]uint8(nil)" } else { "[]byte(nil)" });
                }
                'v' | 'd' if self.flags.sharp_v => {
                    self.text(if nested { "[]uint8{" } else { "[]byte{" });
                    for (i, b) in bytes.iter().enumerate() {
                        self.separator(i);
                        self.text(&format!("{b:#x}"));
                    }
                    self.text("}");
                    return;
                }
                'v' | 'd' if self.flags == Flags::default() => return self.decimals(&bytes),
                _ => {}
            }
        }
        if self.flags.sharp_v {
            let name = type_name(&Value::List(list.clone()));
            self.text(&name);
            if list.is_nil() {
                self.text("(nil)");
                return;
            }
        }
        self.items(list, verb);
    }

    fn items(&mut self, list: &List, verb: char) {
        self.text(if self.flags.sharp_v { "{" } else { "[" });
        for (i, item) in list.items.iter().enumerate() {
            self.separator(i);
            self.element(item, verb, list.elem == Elem::Any);
        }
        self.text(if self.flags.sharp_v { "}" } else { "]" });
    }

    /// Bytes as numbers, of which there may be many.
    fn decimals(&mut self, bytes: &[u8]) {
        self.text("[");
        let mut at = self.out.len();
        self.out.resize(at + 4 * bytes.len(), 0);
        for b in bytes {
            // Writing four bytes at once is faster than writing only those that are needed. The excess is overwritten.
            let (digits, length) = DECIMALS[usize::from(*b)];
            self.out[at..at + 4].copy_from_slice(&digits);
            at += length;
        }
        self.out.truncate(if bytes.is_empty() { at } else { at - 1 });
        self.text("]");
    }

    fn object(&mut self, object: &dyn Object, verb: char, nested: bool) {
        let name = object.type_name();
        match object.kind() {
            Kind::Map => {
                let fields = object.fields();
                let entries: Vec<_> = fields
                    .into_iter()
                    .filter_map(|k| Some((Value::Str(k.clone()), object.field(&k.text())?)))
                    .collect();
                self.entries(name, entries.iter().map(|(k, v)| (k.clone(), v)), verb, false);
            }
            Kind::Slice => match object.json() {
                Value::List(list) if self.flags.sharp_v => {
                    self.text(name);
                    self.items(&list, verb);
                }
                Value::List(list) => self.list(&list, verb, nested),
                other => self.element(&other, verb, false),
            },
            kind => {
                if kind == Kind::Ptr {
                    self.text("&");
                }
                self.fields(object, name.trim_start_matches('*'), verb);
            }
        }
    }

    fn fields(&mut self, object: &dyn Object, name: &str, verb: char) {
        if self.flags.sharp_v {
            self.text(name);
        }
        self.text("{");
        for (i, (field, value)) in object.shown().iter().enumerate() {
            self.separator(i);
            if self.flags.plus_v || self.flags.sharp_v {
                self.out.extend_from_slice(field.bytes());
                self.text(":");
            }
            self.element(value, verb, false);
        }
        self.text("}");
    }

    fn string(&mut self, value: &Value, text: &[u8], verb: char) {
        match verb {
            'v' if self.flags.sharp_v => self.quoted(text),
            'v' | 's' => self.pad(truncate(text, self.flags.precision)),
            'x' | 'X' => self.hex(text, verb),
            'q' => self.quoted(text),
            _ => self.bad_verb(value, verb),
        }
    }

    fn quoted(&mut self, text: &[u8]) {
        let text = truncate(text, self.flags.precision);
        if self.flags.sharp && can_backquote(text) {
            let quoted = [b"`", text, b"`"].concat();
            self.pad(&quoted);
        } else {
            let quoted = quote::quote_with(text, '"', self.flags.plus);
            self.pad(quoted.as_bytes());
        }
    }

    fn hex(&mut self, bytes: &[u8], verb: char) {
        let bytes = &bytes[..bytes.len().min(self.flags.precision.unwrap_or(usize::MAX))];
        let mut text = String::new();
        for (i, byte) in bytes.iter().enumerate() {
            if self.flags.space && i > 0 {
                text.push(' ');
            }
            if self.flags.sharp && (self.flags.space || i == 0) {
                text.push_str("0x");
            }
            let _ = write!(text, "{byte:02x}");
        }
        if verb == 'X' {
            text.make_ascii_uppercase();
        }
        self.pad(text.as_bytes());
    }
}

fn rune_count(text: &[u8]) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    let mut rest = text;
    let mut count = 0;
    while let Some((_, width)) = decode(rest) {
        rest = &rest[width..];
        count += 1;
    }
    count
}

fn truncate(text: &[u8], precision: Option<usize>) -> &[u8] {
    let Some(precision) = precision else { return text };
    let mut end = 0;
    for _ in 0..precision {
        match decode(&text[end..]) {
            Some((_, width)) => end += width,
            None => break,
        }
    }
    &text[..end]
}

/// The address that Go would have for the target of a value: nowhere, or its own place, which one place represents
/// here. `None` for a value that is not a reference.
fn address(value: &Value) -> Option<u64> {
    let nil = match value {
        Value::Map(map) => map.is_nil(),
        Value::List(list) => list.is_nil(),
        Value::Object(object) if matches!(object.kind(), Kind::Ptr | Kind::Map | Kind::Slice) => object.is_nil(),
        _ => return None,
    };
    Some(if nil { 0 } else { ADDRESS })
}

fn can_backquote(text: &[u8]) -> bool {
    std::str::from_utf8(text)
        .is_ok_and(|s| !s.chars().any(|c| (c < ' ' && c != '\t') || matches!(c, '`' | '\u{7f}' | '\u{feff}')))
}

//! The printer behind [`super::fmt`]: verbs, flags, and the way Go shows every kind of value.

use super::fmt::{stringer, type_name};
use super::lex::decode;
use super::{number, quote};
use crate::template::budget;
use crate::template::function::FnError;
use crate::template::value::{Elem, IntType, Kind, List, MapType, Object, Value};
use std::fmt::Write as _;

/// Values nested deeper than this are not printed: a map may contain itself, on which Go's `fmt` never ends.
const MAX_DEPTH: usize = 500;
/// A text longer than this is not printed: some lists that share their elements would fill any memory.
const MAX_TEXT: usize = 64 << 20;
/// `fmt` ignores widths and precisions above this.
const MAX_NUMBER: usize = 1_000_000;

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

    /// Prints, and tells whether all could be printed.
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

    /// An argument, which unlike an element may be asked for its type.
    pub fn arg(&mut self, value: &Value, verb: char) {
        match (value, verb) {
            (Value::Nil, 'v' | 'T') => self.pad(b"<nil>"),
            (Value::Nil, _) => self.bad_verb(value, verb),
            (_, 'T') => {
                let name = type_name(value);
                self.string(value, name.as_bytes(), 's');
            }
            // Addresses differ from run to run in Go, so nothing can depend on them.
            (Value::Map(_) | Value::List(_), 'p') => self.text("0xc000000000"),
            (Value::Object(o), 'p') if o.kind() == Kind::Ptr => self.text("0xc000000000"),
            (_, 'p') => self.bad_verb(value, verb),
            _ => self.value(value, verb, false),
        }
    }

    /// A value inside another one.
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
        let stringable = !self.erroring && !self.flags.sharp_v && matches!(verb, 'v' | 's' | 'x' | 'X' | 'q');
        if let (true, Some(text)) = (stringable, stringer(value)) {
            return self.string(value, text.as_bytes(), verb);
        }
        if let (true, false, Value::Object(object)) = (self.flags.sharp_v, self.erroring, value)
            && let Some(text) = object.go_string()
        {
            return self.pad(text.as_bytes());
        }
        if !self.erroring && verb == 'w' {
            self.bad_verb(value, verb);
            return;
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
            // An address is shown as a number or not at all.
            Value::Object(object)
                if nested && object.kind() == Kind::Ptr && !matches!(verb, 'v' | 'b' | 'o' | 'd' | 'x' | 'X') =>
            {
                self.bad_verb(value, verb);
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
            // Four bytes at once are quicker than as many as are needed; what is too much is written over.
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
            Kind::Ptr if object.is_nil() && verb == 'v' => self.pad(b"<nil>"),
            Kind::Ptr if object.is_nil() => self.integer(&Value::Nil, IntType::Uint64, 0, verb),
            Kind::Ptr if nested => self.text("0xc000000000"),
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

    fn integer(&mut self, value: &Value, int: IntType, i: i64, verb: char) {
        use IntType::{Uint, Uint8, Uint16, Uint32, Uint64};
        let unsigned = matches!(int, Uint | Uint8 | Uint16 | Uint32 | Uint64);
        let bits = i.cast_unsigned();
        let (negative, magnitude) = if unsigned { (false, bits) } else { (i < 0, i.unsigned_abs()) };
        let digits = match verb {
            'v' if self.flags.sharp_v && unsigned => {
                let sharp = std::mem::replace(&mut self.flags.sharp, true);
                self.digits(&format!("{magnitude:x}"), "0x", negative, magnitude, verb);
                self.flags.sharp = sharp;
                return;
            }
            'v' | 'd' => (magnitude.to_string(), ""),
            'b' => (format!("{magnitude:b}"), "0b"),
            'o' | 'O' => (format!("{magnitude:o}"), "0"),
            'x' => (format!("{magnitude:x}"), "0x"),
            'X' => (format!("{magnitude:X}"), "0X"),
            'c' => {
                let c = rune(bits);
                return self.pad(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            'q' => {
                let c = rune(bits);
                let quoted = quote::quote_with(c.encode_utf8(&mut [0; 4]).as_bytes(), '\'', self.flags.plus);
                return self.pad(quoted.as_bytes());
            }
            'U' => return self.unicode(bits),
            _ => return self.bad_verb(value, verb),
        };
        self.digits(&digits.0, digits.1, negative, magnitude, verb);
    }

    fn digits(&mut self, digits: &str, prefix: &str, negative: bool, magnitude: u64, verb: char) {
        let flags = self.flags;
        let mut wanted = 0;
        if let Some(precision) = flags.precision {
            if precision == 0 && magnitude == 0 {
                let zero = std::mem::replace(&mut self.flags.zero, false);
                self.padding(flags.width.unwrap_or(0));
                self.flags.zero = zero;
                return;
            }
            wanted = precision;
        } else if let (true, false, Some(width)) = (flags.zero, flags.minus, flags.width) {
            wanted = width.saturating_sub(usize::from(negative || flags.plus || flags.space));
        }
        let mut body = "0".repeat(wanted.saturating_sub(digits.len())) + digits;
        if flags.sharp && !(prefix == "0" && body.starts_with('0')) {
            body.insert_str(0, prefix);
        }
        if verb == 'O' {
            body.insert_str(0, "0o");
        }
        let sign = match () {
            () if negative => "-",
            () if flags.plus => "+",
            () if flags.space => " ",
            () => "",
        };
        body.insert_str(0, sign);
        self.pad_without_zeros(body.as_bytes());
    }

    fn unicode(&mut self, code: u64) {
        let digits = format!("{code:X}");
        let zeros = self.flags.precision.map_or(4, |p| p.max(4)).saturating_sub(digits.len());
        let mut text = format!("U+{}{digits}", "0".repeat(zeros));
        let printable = u32::try_from(code).ok().and_then(char::from_u32).filter(|&c| quote::is_print(c));
        if let (true, Some(c)) = (self.flags.sharp, printable) {
            let _ = write!(text, " '{c}'");
        }
        self.pad_without_zeros(text.as_bytes());
    }

    fn float(&mut self, value: &Value, f: f64, verb: char) {
        let (format, precision) = match verb {
            'v' => (b'g', None),
            'b' | 'g' | 'G' | 'x' | 'X' => (verb as u8, None),
            'f' | 'e' | 'E' => (verb as u8, Some(6)),
            'F' => (b'f', Some(6)),
            _ => return self.bad_verb(value, verb),
        };
        let precision = self.flags.precision.or(precision);
        let mut text = number::format_float(f, format, precision);
        if !text.starts_with(['+', '-']) {
            text.insert(0, '+');
        }
        let flags = self.flags;
        if flags.space && text.starts_with('+') && !flags.plus {
            text.replace_range(..1, " ");
        }
        if !f.is_finite() {
            // An infinity keeps its sign, as Go prints it.
            let shown = if f.is_nan() && !flags.space && !flags.plus { &text[1..] } else { &text };
            return self.pad_without_zeros(shown.as_bytes());
        }
        if flags.sharp && verb != 'b' {
            keep_zeros(&mut text, format, precision);
        }
        if !flags.plus && text.starts_with('+') {
            return self.pad(&text.as_bytes()[1..]);
        }
        match flags.width {
            Some(width) if flags.zero && !flags.minus && width > text.len() => {
                self.out.push(text.as_bytes()[0]);
                self.padding(width - text.len());
                self.text(&text[1..]);
            }
            _ => self.pad(text.as_bytes()),
        }
    }

    // Formats.

    /// `Sprintf`.
    pub fn printf(&mut self, format: &[u8], args: &[Value]) {
        let mut scan = Scan { format, pos: 0, arg: 0, reordered: false, good: true };
        loop {
            let rest = &format[scan.pos..];
            let plain = rest.iter().position(|&b| b == b'%').unwrap_or(rest.len());
            self.out.extend_from_slice(&rest[..plain]);
            scan.pos += plain;
            if scan.pos >= format.len() {
                break;
            }
            scan.pos += 1;
            if !self.verb(&mut scan, args) {
                self.text("%!(NOVERB)");
                break;
            }
        }
        if !scan.reordered && scan.arg < args.len() {
            self.flags = Flags::default();
            self.text("%!(EXTRA ");
            for (i, arg) in args[scan.arg..].iter().enumerate() {
                if i > 0 {
                    self.text(", ");
                }
                if matches!(arg, Value::Nil) {
                    self.text("<nil>");
                } else {
                    self.text(&type_name(arg));
                    self.text("=");
                    self.arg(arg, 'v');
                }
            }
            self.text(")");
        }
    }

    /// One directive; false when the format ends before its verb.
    fn verb(&mut self, scan: &mut Scan<'_>, args: &[Value]) -> bool {
        scan.good = true;
        self.flags = Flags::default();
        while let Some(b) = scan.peek() {
            match b {
                b'#' => self.flags.sharp = true,
                b'0' => self.flags.zero = true,
                b'+' => self.flags.plus = true,
                b'-' => self.flags.minus = true,
                b' ' => self.flags.space = true,
                _ => break,
            }
            scan.pos += 1;
        }
        let mut after_index = scan.index(args.len());
        if scan.eat(b'*') {
            match scan.int_arg(args) {
                Some(width) => {
                    self.flags.width = Some(width.unsigned_abs());
                    if width < 0 {
                        self.flags.minus = true;
                        self.flags.zero = false;
                    }
                }
                None => self.text("%!(BADWIDTH)"),
            }
            after_index = false;
        } else {
            self.flags.width = scan.number();
            if after_index && self.flags.width.is_some() {
                scan.good = false;
            }
        }
        if scan.pos + 1 < scan.format.len() && scan.eat(b'.') {
            if after_index {
                scan.good = false;
            }
            after_index = scan.index(args.len());
            if scan.eat(b'*') {
                match scan.int_arg(args).and_then(|p| usize::try_from(p).ok()) {
                    Some(precision) => self.flags.precision = Some(precision),
                    None => self.text("%!(BADPREC)"),
                }
                after_index = false;
            } else {
                self.flags.precision = Some(scan.number().unwrap_or(0));
            }
        }
        if !after_index {
            scan.index(args.len());
        }
        let Some((verb, width)) = decode(&scan.format[scan.pos..]) else { return false };
        scan.pos += width;
        if verb == '%' {
            self.text("%");
        } else if !scan.good {
            self.text("%!");
            self.char(verb);
            self.text("(BADINDEX)");
        } else if let Some(arg) = args.get(scan.arg) {
            if matches!(verb, 'v' | 'w') {
                self.flags.sharp_v = std::mem::take(&mut self.flags.sharp);
                self.flags.plus_v = std::mem::take(&mut self.flags.plus);
            }
            self.arg(arg, verb);
            scan.arg += 1;
        } else {
            self.text("%!");
            self.char(verb);
            self.text("(MISSING)");
        }
        true
    }
}

/// Where `printf` is in its format and arguments.
struct Scan<'f> {
    format: &'f [u8],
    pos: usize,
    arg: usize,
    reordered: bool,
    good: bool,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.format.get(self.pos).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let eaten = self.peek() == Some(byte);
        self.pos += usize::from(eaten);
        eaten
    }

    /// A decimal number. One that is too large ends the format, as in Go.
    fn number(&mut self) -> Option<usize> {
        let (number, end) = parse_number(self.format, self.pos, self.format.len());
        self.pos = end;
        number
    }

    /// An explicit argument index such as `[2]`; whether there was a good one.
    fn index(&mut self, args: usize) -> bool {
        if self.peek() != Some(b'[') {
            return false;
        }
        self.reordered = true;
        let rest = &self.format[self.pos..];
        let close = if rest.len() < 3 { None } else { rest.iter().position(|&b| b == b']') };
        let Some(close) = close else {
            self.pos += 1;
            self.good = false;
            return false;
        };
        let (number, end) = parse_number(rest, 1, close);
        self.pos += close + 1;
        let Some(index) = number.filter(|_| end == close) else {
            self.good = false;
            return false;
        };
        match index.checked_sub(1).filter(|&i| i < args) {
            Some(i) => self.arg = i,
            None => self.good = false,
        }
        true
    }

    /// The next argument as a width or precision.
    fn int_arg(&mut self, args: &[Value]) -> Option<isize> {
        let arg = args.get(self.arg)?;
        self.arg += 1;
        let Value::Int(_, i) = arg else { return None };
        isize::try_from(*i).ok().filter(|i| i.unsigned_abs() <= MAX_NUMBER)
    }
}

/// `fmt.parsenum`: the number, if there is one, and where it ends.
fn parse_number(text: &[u8], start: usize, end: usize) -> (Option<usize>, usize) {
    let mut number = None;
    for (i, b) in text.iter().enumerate().take(end).skip(start) {
        if !b.is_ascii_digit() {
            return (number, i);
        }
        let sum = number.unwrap_or(0);
        if sum > MAX_NUMBER {
            return (None, end);
        }
        number = Some(sum * 10 + usize::from(b - b'0'));
    }
    (number, end)
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

fn can_backquote(text: &[u8]) -> bool {
    std::str::from_utf8(text)
        .is_ok_and(|s| !s.chars().any(|c| (c < ' ' && c != '\t') || matches!(c, '`' | '\u{7f}' | '\u{feff}')))
}

fn rune(code: u64) -> char {
    u32::try_from(code).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// What `#` does to a float: a point always, and the zeros that the precision asks for.
fn keep_zeros(text: &mut String, format: u8, precision: Option<usize>) {
    let mut wanted = match format {
        b'g' | b'G' | b'x' => precision.unwrap_or(6),
        _ => 0,
    };
    let is_hex = matches!(format, b'x' | b'X');
    let tail_at = text.find(|c| matches!(c, 'p' | 'P') || !is_hex && matches!(c, 'e' | 'E'));
    let tail = tail_at.map(|at| text.split_off(at)).unwrap_or_default();
    let digits = &text[1..];
    let has_point = digits.contains('.');
    let significant = digits.trim_start_matches(['0', '.']).chars().filter(|&c| c != '.').count();
    wanted = wanted.saturating_sub(significant);
    if !has_point {
        if digits == "0" {
            wanted = wanted.saturating_sub(1);
        }
        text.push('.');
    }
    text.extend(std::iter::repeat_n('0', wanted));
    text.push_str(&tail);
}

//! Numbers under the verbs of `fmt`.

use super::Printer;
use crate::template::go::fmt::type_name;
use crate::template::go::values::Complex;
use crate::template::go::{number, quote};
use crate::template::value::{IntType, Object, Value};
use std::fmt::Write as _;

impl Printer<'_> {
    pub(super) fn integer(&mut self, value: &Value, int: IntType, i: i64, verb: char) {
        use IntType::{Uint, Uint8, Uint16, Uint32, Uint64};
        let unsigned = matches!(int, Uint | Uint8 | Uint16 | Uint32 | Uint64);
        let bits = i.cast_unsigned();
        let (negative, magnitude) = if unsigned { (false, bits) } else { (i < 0, i.unsigned_abs()) };
        let digits = match verb {
            'v' if self.flags.sharp_v && unsigned => return self.hexadecimal(magnitude, true),
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

    fn hexadecimal(&mut self, number: u64, prefix: bool) {
        let sharp = std::mem::replace(&mut self.flags.sharp, prefix);
        self.digits(&format!("{number:x}"), "0x", false, number, 'v');
        self.flags.sharp = sharp;
    }

    /// Go's `fmtPointer`.
    pub(super) fn pointer(&mut self, value: &Value, address: u64, verb: char) {
        match verb {
            'v' if self.flags.sharp_v => {
                self.text(&format!("({})(", type_name(value)));
                if address == 0 {
                    self.text("nil");
                } else {
                    self.hexadecimal(address, true);
                }
                self.text(")");
            }
            'v' if address == 0 => self.pad(b"<nil>"),
            'v' | 'p' => self.hexadecimal(address, !self.flags.sharp),
            'b' | 'o' | 'd' | 'x' | 'X' => self.integer(value, IntType::Uint64, address.cast_signed(), verb),
            _ => self.bad_verb(value, verb),
        }
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

    pub(super) fn complex(&mut self, value: &Value, object: &dyn Object, verb: char) {
        let is_verb = matches!(verb, 'v' | 'b' | 'g' | 'G' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E');
        let Some(complex) = object.as_any().downcast_ref::<Complex>().filter(|_| is_verb) else {
            return self.bad_verb(value, verb);
        };
        self.text("(");
        self.float(value, complex.real, verb);
        // The imaginary part always has a sign.
        let plus = std::mem::replace(&mut self.flags.plus, true);
        self.float(value, complex.imaginary, verb);
        self.flags.plus = plus;
        self.text("i)");
    }

    pub(super) fn float(&mut self, value: &Value, f: f64, verb: char) {
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
}

fn rune(code: u64) -> char {
    u32::try_from(code).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The effect of `#` on a float: always a point, and the zeros of the precision.
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

//! `Sprintf`: reads a format, and prints the arguments under its directives.

use super::{Flags, Printer};
use crate::template::go::fmt::type_name;
use crate::template::go::lex::decode;
use crate::template::value::Value;

/// `fmt` ignores widths and precisions above this.
const MAX_NUMBER: usize = 1_000_000;

impl Printer<'_> {
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

//! Go's `strconv` for numbers: constants of templates, and how floats are written.

use super::quote::{Unquoted, quoted, unquote_char};
use std::fmt::Write as _;

/// A numeric constant under every type that can hold it.
#[derive(Debug, PartialEq)]
pub struct Constant {
    /// As a signed integer.
    pub int: Option<i64>,
    /// As an unsigned integer.
    pub uint: Option<u64>,
    /// As a float.
    pub float: Option<f64>,
    /// Real and imaginary part, if it was written with the latter.
    pub complex: Option<(f64, f64)>,
    /// Whether, where any type would do, it is a float: its text has a point or exponent.
    pub prefers_float: bool,
}

/// Why a text is not a constant: Go's message.
#[derive(Debug, thiserror::Error)]
pub enum ConstantError {
    /// A number of another form.
    #[error("illegal number syntax: {0}")]
    Syntax(String),
    /// An integer of more than 64 bits.
    #[error("integer overflow: {0}")]
    Overflow(String),
    /// Not two numbers.
    #[error("syntax error scanning complex number")]
    Complex,
    /// A part of a complex number that is not a float.
    #[error("strconv.ParseFloat: parsing {text}: {why}")]
    Float {
        /// The part, between quotes.
        text: String,
        /// Whether it is too large.
        why: &'static str,
    },
    /// A character constant without a character.
    #[error("invalid syntax")]
    Character,
    /// A character constant of several characters.
    #[error("malformed character constant: {0}")]
    Characters(String),
}

/// Reads a number or character constant of a template.
pub fn constant(text: &[u8]) -> Result<Constant, ConstantError> {
    if text.first() == Some(&b'\'') {
        return character(text);
    }
    let syntax = || ConstantError::Syntax(quoted(text));
    let text_str = std::str::from_utf8(text).map_err(|_| syntax())?;
    if let Some(imaginary) = text_str.strip_suffix('i') {
        let imaginary = parse_float(imaginary).ok_or_else(syntax)?;
        return Ok(complex(0.0, imaginary));
    }
    let mut uint = parse_uint(text_str);
    let int = parse_int(text_str);
    if int == Some(0) {
        uint = Some(0);
    }
    let is_hex = text.len() > 2 && text_str[..2].eq_ignore_ascii_case("0x") && !text_str.contains(['p', 'P']);
    let mut constant = Constant { int, uint, float: None, complex: None, prefers_float: false };
    #[expect(clippy::cast_precision_loss, reason = "Go converts so")]
    if let Some(i) = int {
        constant.float = Some(i as f64);
    } else if let Some(u) = uint {
        constant.float = Some(u as f64);
    } else if let Some(f) = parse_float(text_str) {
        if !text_str.contains(['.', 'e', 'E', 'p', 'P']) {
            return Err(ConstantError::Overflow(quoted(text)));
        }
        constant.float = Some(f);
        (constant.int, constant.uint) = whole(f);
    } else {
        return Err(syntax());
    }
    constant.prefers_float = !is_hex && text_str.contains(['.', 'e', 'E', 'p', 'P']);
    Ok(constant)
}

/// A float as the integers that are equal to it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
fn whole(f: f64) -> (Option<i64>, Option<u64>) {
    let is_whole = f.fract() == 0.0;
    // 2^63 and 2^64: a smaller number fits.
    let int =
        (is_whole && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&f)).then_some(f as i64);
    (int, (is_whole && (0.0..18_446_744_073_709_551_616.0).contains(&f)).then_some(f as u64))
}

/// A complex constant of two parts, `1+2i`, as `fmt.Sscan` reads it: it does not accept everything that the lexer
/// accepts.
pub fn pair(text: &[u8]) -> Result<Constant, ConstantError> {
    let text = std::str::from_utf8(text).map_err(|_| ConstantError::Complex)?;
    let (real, rest) = text.split_at(float_length(text));
    let (imaginary, rest) = rest.split_at(float_length(rest));
    // A sign alone: what follows could be the beginning of `Inf`.
    if !imaginary.starts_with(['+', '-']) || imaginary.len() < 2 || !rest.starts_with('i') {
        return Err(ConstantError::Complex);
    }
    let float = |text: &str| {
        parse_float(text).ok_or_else(|| {
            let hex = text.contains(['x', 'X']);
            let (marks, none) = if hex { (['p', 'P'], "p0") } else { (['e', 'E'], "e0") };
            let number = text.split(marks).next().unwrap_or_default();
            let has_exponent = number.len() < text.len() && text.ends_with(|c: char| c.is_ascii_digit());
            let is_large = has_exponent && parse_float(&format!("{number}{none}")).is_some() || number.len() > 300;
            let why = if is_large { "value out of range" } else { "invalid syntax" };
            ConstantError::Float { text: quoted(text.as_bytes()), why }
        })
    };
    Ok(complex(float(real)?, float(imaginary)?))
}

/// How much of a text `fmt.Sscan` takes for a float.
fn float_length(text: &str) -> usize {
    let text = text.as_bytes();
    let is = |at: usize, among: &[u8]| text.get(at).is_some_and(|b| among.contains(b));
    let mut at = usize::from(is(0, b"+-"));
    let hex = is(at, b"0") && is(at + 1, b"xX");
    let is_digit = |at: usize, hex: bool| {
        text.get(at).is_some_and(|&b| b == b'_' || if hex { b.is_ascii_hexdigit() } else { b.is_ascii_digit() })
    };
    at += 2 * usize::from(hex);
    while is_digit(at, hex) {
        at += 1;
    }
    at += usize::from(is(at, b"."));
    while is_digit(at, hex) {
        at += 1;
    }
    if is(at, if hex { b"pP" } else { b"eEpP" }) {
        at += 1;
        at += usize::from(is(at, b"+-"));
        while is_digit(at, false) {
            at += 1;
        }
    }
    at
}

fn complex(real: f64, imaginary: f64) -> Constant {
    let float = (imaginary == 0.0).then_some(real);
    let (int, uint) = float.map_or((None, None), whole);
    Constant { int, uint, float, complex: Some((real, imaginary)), prefers_float: false }
}

fn character(text: &[u8]) -> Result<Constant, ConstantError> {
    let (char, rest) = unquote_char(&text[1..], b'\'').ok_or(ConstantError::Character)?;
    if rest != b"'" {
        return Err(ConstantError::Characters(String::from_utf8_lossy(text).into_owned()));
    }
    let code = match char {
        Unquoted::Char(c) => u32::from(c),
        Unquoted::Byte(b) => u32::from(b),
    };
    Ok(Constant {
        int: Some(i64::from(code)),
        uint: Some(u64::from(code)),
        float: Some(f64::from(code)),
        complex: None,
        prefers_float: false,
    })
}

/// Whether underscores are only between digits, or after a base prefix.
fn underscores_are_good(digits: &str, after_prefix: bool) -> bool {
    let mut previous = if after_prefix { b'0' } else { b'!' };
    for b in digits.bytes() {
        if b == b'_' && !previous.is_ascii_hexdigit() || previous == b'_' && !b.is_ascii_hexdigit() {
            return false;
        }
        previous = b;
    }
    previous != b'_'
}

/// `strconv.ParseUint(s, 0, 64)`.
fn parse_uint(text: &str) -> Option<u64> {
    let lower = text.get(..2).map(str::to_ascii_lowercase);
    let (digits, radix, prefixed) = match lower.as_deref() {
        Some("0x") => (&text[2..], 16, true),
        Some("0b") => (&text[2..], 2, true),
        Some("0o") => (&text[2..], 8, true),
        _ if text.len() > 1 && text.starts_with('0') => (&text[1..], 8, true),
        _ => (text, 10, false),
    };
    if digits.starts_with(['+', '-']) || !underscores_are_good(digits, prefixed) {
        return None;
    }
    if digits.contains('_') {
        return u64::from_str_radix(&digits.replace('_', ""), radix).ok();
    }
    u64::from_str_radix(digits, radix).ok()
}

/// `strconv.ParseInt(s, 0, 64)`.
fn parse_int(text: &str) -> Option<i64> {
    if let Some(digits) = text.strip_prefix('-') {
        let magnitude = parse_uint(digits)?;
        return 0_i64.checked_sub_unsigned(magnitude);
    }
    i64::try_from(parse_uint(text.strip_prefix('+').unwrap_or(text))?).ok()
}

/// `strconv.ParseFloat(s, 64)` of what a lexer accepts as a number.
fn parse_float(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let prefix = digits.get(..2).filter(|p| matches!(*p, "0b" | "0B" | "0o" | "0O" | "0x" | "0X"));
    let number = digits.split(['p', 'P']).next().unwrap_or_default();
    if !underscores_are_good(&number[prefix.map_or(0, str::len)..], prefix.is_some()) {
        return None;
    }
    let clean = text.replace('_', "");
    let (sign, magnitude) = match clean.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, clean.strip_prefix('+').unwrap_or(&clean)),
    };
    if let Some(hex) = magnitude.strip_prefix("0x").or_else(|| magnitude.strip_prefix("0X")) {
        return parse_hex_float(hex).map(|f| sign * f);
    }
    if !magnitude.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    magnitude.parse::<f64>().ok().filter(|f| f.is_finite()).map(|f| sign * f)
}

/// `strconv.ParseFloat` of a hexadecimal number, without its sign, `0x` and underscores. Of more than 16 digits the others count only for
/// rounding, which happens once.
pub fn parse_hex_float(text: &str) -> Option<f64> {
    let (digits, exponent) = text.split_once(['p', 'P'])?;
    let (negative, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => (true, exponent),
        None => (false, exponent.strip_prefix('+').unwrap_or(exponent)),
    };
    if exponent.is_empty() || !exponent.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // A longer one is beyond all numbers, however many digits there are.
    let exponent = exponent.parse::<i64>().unwrap_or(i64::MAX).min(1 << 40);
    let mut scale = if negative { -exponent } else { exponent };
    let (mut mantissa, mut inexact) = (0_u64, false);
    let (mut seen, mut behind_point) = (false, false);
    for c in digits.chars() {
        if c == '.' && !behind_point {
            behind_point = true;
            continue;
        }
        let digit = u64::from(c.to_digit(16)?);
        seen = true;
        let is_taken = mantissa >> 60 == 0;
        if is_taken {
            mantissa = mantissa << 4 | digit;
        } else {
            inexact |= digit != 0;
        }
        scale += 4 * (i64::from(!is_taken) - i64::from(behind_point));
    }
    if !seen || mantissa == 0 {
        return seen.then_some(0.0);
    }
    let zeros = mantissa.leading_zeros();
    let (mantissa, scale) = (mantissa << zeros, scale - i64::from(zeros));
    let top = scale + 63;
    // So many bits has a number of this size.
    let bits = (top + 1075).clamp(-1, 53);
    if top > 1023 || bits < 0 {
        return (bits < 0).then_some(0.0);
    }
    let cut = u32::try_from(64 - bits).ok()?;
    let kept = mantissa.checked_shr(cut).unwrap_or(0);
    let (rest, half) = (mantissa - kept.checked_shl(cut).unwrap_or(0), 1 << (cut - 1));
    let up = rest > half || rest == half && (inexact || kept & 1 == 1);
    let exponent = i32::try_from(scale).ok()? + cut.cast_signed();
    #[expect(clippy::cast_precision_loss, reason = "it has 53 bits at most, or is 2^53")]
    let value = scaled((kept + u64::from(up)) as f64, exponent);
    value.is_finite().then_some(value)
}

/// A number that is neither tiny nor huge times a power of two, rounded once, as Go's `math.Ldexp`.
pub fn scaled(number: f64, exponent: i32) -> f64 {
    // Two steps, the first of which is exact: a number becomes too small for a normal number only after the second.
    let first = exponent.clamp(-900, 900);
    number * 2_f64.powi(first) * 2_f64.powi((exponent - first).clamp(-1000, 1000))
}

/// No `f64` has more decimal digits, or more of them after its point. Further digits are zeros.
const MAX_DIGITS: usize = 1_100;

/// `strconv.FormatFloat(f, format, precision, 64)`; no precision is the shortest text that reads back the same.
///
/// `format` is one of `e E f g G b x X`.
pub fn format_float(f: f64, format: u8, precision: Option<usize>) -> String {
    if f.is_nan() {
        return "NaN".into();
    }
    if f.is_infinite() {
        return if f > 0.0 { "+Inf".into() } else { "-Inf".into() };
    }
    match format {
        b'b' => return binary_exponent(f),
        b'x' | b'X' => return hexadecimal(f, precision, format == b'X'),
        _ => {}
    }
    let mut out = String::with_capacity(24);
    if f.is_sign_negative() {
        out.push('-');
    }
    let f = f.abs();
    match (format, precision) {
        (b'f', Some(precision)) => {
            let exact = precision.min(MAX_DIGITS);
            let _ = write!(out, "{f:.exact$}");
            out.extend((exact..precision).map(|_| '0'));
        }
        (b'f', None) => {
            let decimal = Decimal::shortest(f);
            decimal.write_plain(&mut out);
        }
        (b'e' | b'E', Some(precision)) => {
            Decimal::rounded(f, precision + 1).write_exponent(&mut out, precision, format);
        }
        (b'e' | b'E', None) => {
            let decimal = Decimal::shortest(f);
            let precision = decimal.digits.len() - 1;
            decimal.write_exponent(&mut out, precision, format);
        }
        (_, precision) => {
            let (decimal, threshold) = match precision {
                None => (Decimal::shortest(f), 6),
                Some(precision) => {
                    let precision = precision.max(1);
                    let decimal = Decimal::rounded(f, precision).trimmed();
                    let digits = i32::try_from(decimal.digits.len()).unwrap_or(i32::MAX);
                    let wanted = i32::try_from(precision).unwrap_or(i32::MAX);
                    let is_whole = digits > decimal.exponent;
                    (decimal, if wanted > digits && is_whole { digits } else { wanted })
                }
            };
            if decimal.exponent < -4 || decimal.exponent >= threshold {
                let digits = decimal.digits.len() - 1;
                decimal.write_exponent(&mut out, digits, if format == b'G' { b'E' } else { b'e' });
            } else {
                decimal.write_plain(&mut out);
            }
        }
    }
    out
}

/// Decimal digits without a leading zero, and the exponent of the first one: `1.25e3` is (`125`, 3).
struct Decimal {
    digits: Vec<u8>,
    exponent: i32,
}

impl Decimal {
    fn parse(scientific: &str) -> Self {
        let (mantissa, exponent) = scientific.split_once(['e', 'E']).unwrap_or((scientific, "0"));
        let mut exponent: i32 = exponent.parse().unwrap_or(0);
        let whole = mantissa.find('.').unwrap_or(mantissa.len());
        let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
        exponent += i32::try_from(whole).unwrap_or(i32::MAX) - 1;
        let zeros = digits.iter().take_while(|&&d| d == b'0').count();
        if zeros == digits.len() {
            return Self { digits: b"0".to_vec(), exponent: 0 };
        }
        exponent -= i32::try_from(zeros).unwrap_or(0);
        Self { digits: digits[zeros..].to_vec(), exponent }
    }

    fn shortest(f: f64) -> Self {
        // The same algorithm as Go's, with the same choice between two equally short texts.
        Self::parse(ryu::Buffer::new().format_finite(f)).trimmed()
    }

    fn rounded(f: f64, digits: usize) -> Self {
        Self::parse(&format!("{f:.*e}", digits.clamp(1, MAX_DIGITS) - 1))
    }

    fn trimmed(mut self) -> Self {
        while self.digits.len() > 1 && self.digits.last() == Some(&b'0') {
            self.digits.pop();
        }
        self
    }

    fn push_digits(out: &mut String, digits: &[u8]) {
        out.extend(digits.iter().map(|&d| d as char));
    }

    fn write_plain(&self, out: &mut String) {
        let Ok(point) = usize::try_from(self.exponent) else {
            out.push_str("0.");
            out.extend((1..-self.exponent).map(|_| '0'));
            Self::push_digits(out, &self.digits);
            return;
        };
        let whole = self.digits.len().min(point + 1);
        Self::push_digits(out, &self.digits[..whole]);
        out.extend((whole..=point).map(|_| '0'));
        if self.digits.len() > whole {
            out.push('.');
            Self::push_digits(out, &self.digits[whole..]);
        }
    }

    fn write_exponent(&self, out: &mut String, precision: usize, e: u8) {
        Self::push_digits(out, &self.digits[..1]);
        if precision > 0 {
            out.push('.');
            let fraction = &self.digits[1..];
            Self::push_digits(out, &fraction[..fraction.len().min(precision)]);
            out.extend((fraction.len()..precision).map(|_| '0'));
        }
        let sign = if self.exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{}{sign}{:02}", e as char, self.exponent.abs());
    }
}

fn binary_exponent(f: f64) -> String {
    let (mantissa, exponent) = parts(f);
    let sign = if f.is_sign_negative() { "-" } else { "" };
    format!("{sign}{mantissa}p{exponent:+}")
}

/// Mantissa as an integer, and the power of two it is multiplied with.
fn parts(f: f64) -> (u64, i32) {
    let bits = f.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    match i32::try_from((bits >> 52) & 0x7FF).unwrap_or(0) {
        0 => (fraction, -1074),
        biased => (fraction | (1 << 52), biased - 1075),
    }
}

fn hexadecimal(f: f64, precision: Option<usize>, upper: bool) -> String {
    let (mut mantissa, mut exponent) = parts(f);
    exponent += 52;
    if mantissa == 0 {
        exponent = 0;
    } else {
        while mantissa >> 52 == 0 {
            mantissa <<= 1;
            exponent -= 1;
        }
    }
    // One digit before the point and thirteen after it.
    let mut kept = 13;
    if let Some(precision) = precision.filter(|&p| p < 13) {
        let shift = 4 * (13 - precision);
        let half = 1_u64 << (shift - 1);
        let rest = mantissa & ((1 << shift) - 1);
        mantissa >>= shift;
        if rest > half || rest == half && mantissa & 1 == 1 {
            mantissa += 1;
        }
        mantissa <<= shift;
        if mantissa >> 53 == 1 {
            mantissa >>= 1;
            exponent += 1;
        }
        kept = precision;
    }
    let mut fraction = format!("{:013x}", mantissa & ((1 << 52) - 1));
    fraction.truncate(kept);
    match precision {
        None => fraction.truncate(fraction.trim_end_matches('0').len()),
        Some(precision) => fraction.extend((kept..precision).map(|_| '0')),
    }
    let sign = if f.is_sign_negative() { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    let e = if exponent < 0 { '-' } else { '+' };
    let text = format!("{sign}0x{}{point}{fraction}p{e}{:02}", mantissa >> 52, exponent.abs());
    if upper { text.to_uppercase() } else { text }
}

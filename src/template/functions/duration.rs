//! Go's `time.Duration`: its text, and reading it.

use super::text::quoted;
use std::io::Write as _;

const SECOND: u64 = 1_000_000_000;

/// `Duration.String`: `1h2m3.5s`.
pub fn write(nanos: i64, out: &mut Vec<u8>) {
    let size = nanos.unsigned_abs();
    if size == 0 {
        out.extend_from_slice(b"0s");
        return;
    }
    if nanos < 0 {
        out.push(b'-');
    }
    if size < SECOND {
        let (unit, name) = match size {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            _ => (1_000_000, "ms"),
        };
        fraction(size, unit, out);
        out.extend_from_slice(name.as_bytes());
        return;
    }
    let (hours, minutes) = (size / SECOND / 3600, size / SECOND / 60 % 60);
    if hours > 0 {
        let _ = write!(out, "{hours}h");
    }
    if hours > 0 || minutes > 0 {
        let _ = write!(out, "{minutes}m");
    }
    fraction(size % (60 * SECOND), SECOND, out);
    out.push(b's');
}

/// Writes `size / unit` with as many digits as it needs.
fn fraction(size: u64, unit: u64, out: &mut Vec<u8>) {
    let _ = write!(out, "{}", size / unit);
    let rest = size % unit;
    if rest > 0 {
        let digits = format!("{:0width$}", rest, width = unit.ilog10() as usize);
        let _ = write!(out, ".{}", digits.trim_end_matches('0'));
    }
}

/// The text of a duration.
pub fn text(nanos: i64) -> String {
    let mut out = Vec::new();
    write(nanos, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// `time.ParseDuration`; the error is Go's text.
pub fn parse(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let whole_len = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, after) = rest.split_at(whole_len);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(a) => a.split_at(a.bytes().take_while(u8::is_ascii_digit).count()),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
        let unit_len = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (name, after) = after.split_at(unit_len);
        let unit: u64 = match name {
            "" => return Err(format!("time: missing unit in duration {}", quoted(text))),
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3600 * SECOND,
            _ => return Err(format!("time: unknown unit {} in duration {}", quoted(name), quoted(text))),
        };
        let part = whole.checked_mul(unit).filter(|&v| v <= 1 << 63).ok_or_else(invalid)?;
        let part = part.checked_add(part_of(fraction, unit)).filter(|&v| v <= 1 << 63).ok_or_else(invalid)?;
        total = total.checked_add(part).filter(|&v| v <= 1 << 63).ok_or_else(invalid)?;
        rest = after;
    }
    if negative {
        return 0i64.checked_sub_unsigned(total).ok_or_else(invalid);
    }
    i64::try_from(total).map_err(|_| invalid())
}

/// `0.FRACTION × unit`, cut down; digits beyond the eighteenth cannot matter.
fn part_of(fraction: &str, unit: u64) -> u64 {
    let digits = &fraction[..fraction.len().min(18)];
    let scale = 10u128.pow(u32::try_from(digits.len()).unwrap_or(0));
    let value: u128 = digits.parse().unwrap_or(0);
    u64::try_from(value * u128::from(unit) / scale).unwrap_or(0)
}

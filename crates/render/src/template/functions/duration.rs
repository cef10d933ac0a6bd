//! Go's `time.Duration` out of text.

use super::{layout, text};

const SECOND: u64 = 1_000_000_000;

/// Why a text is not a duration; the words are Go's, and the parts are between quotes.
#[derive(Debug, thiserror::Error)]
pub enum DurationError {
    /// It has another form, or is too long.
    #[error("time: invalid duration {0}")]
    Invalid(String),
    /// A number has no unit.
    #[error("time: missing unit in duration {0}")]
    MissingUnit(String),
    /// A number has another unit.
    #[error("time: unknown unit {unit} in duration {text}")]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

/// `time.ParseDuration`
pub fn parse(text: &str) -> Result<i64, DurationError> {
    let invalid = || DurationError::Invalid(quoted(text));
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
            "" => return Err(DurationError::MissingUnit(quoted(text))),
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3600 * SECOND,
            _ => return Err(DurationError::UnknownUnit { unit: quoted(name), text: quoted(text) }),
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

fn quoted(text: &str) -> String {
    layout::quoted(text::unescaped(text))
}

/// `0.FRACTION × unit`, cut down; digits beyond the eighteenth cannot matter.
fn part_of(fraction: &str, unit: u64) -> u64 {
    let digits = &fraction[..fraction.len().min(18)];
    let scale = 10u128.pow(u32::try_from(digits.len()).unwrap_or(0));
    let value: u128 = digits.parse().unwrap_or(0);
    u64::try_from(value * u128::from(unit) / scale).unwrap_or(0)
}

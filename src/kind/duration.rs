//! Durations as Go writes them: `90s`, `1h30m`, `1.5m`.

use std::time::Duration;

use crate::object::field_error::FieldError;

/// The longest duration. Durations of users are added to points in time, and a sum with this one fits every type of time.
/// A century is as good as never.
pub const MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// Characters of a text that an error repeats.
const SHOWN: usize = 64;

/// Parses a duration as Go's `time.ParseDuration` does, except that a negative one is refused, and that one which is longer than
/// [`MAX`] becomes [`MAX`].
pub fn parse(text: &str) -> Result<Duration, FieldError> {
    let error = || -> FieldError {
        let shown: String = text.chars().take(SHOWN).collect();
        let more = if shown.len() < text.len() { "…" } else { "" };
        format!("invalid duration {shown:?}{more}: expected something like 90s or 1h30m").into()
    };
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(error());
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
        let number: f64 = rest[..digits].parse().map_err(|_| error())?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let seconds = match &rest[..unit] {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(error()),
        };
        total += number * seconds;
        rest = &rest[unit..];
    }
    // A sum of so many digits that it is infinite, too.
    Ok(Duration::try_from_secs_f64(total).map_or(MAX, |duration| duration.min(MAX)))
}

#[cfg(test)]
mod tests {
    use super::{MAX, parse};
    use std::time::{Duration, Instant};

    #[test]
    fn a_duration_that_is_too_long_is_capped_so_that_it_can_be_added_to_any_point_in_time() {
        let endless = format!("{}h", "9".repeat(400));
        for text in ["5000000000000000h", "876001h", "1h5000000000000000h", &endless] {
            assert_eq!(parse(text), Ok(MAX), "{text}");
            assert!(Instant::now().checked_add(MAX).is_some());
            assert!(jiff::Timestamp::now().checked_add(MAX).is_ok());
        }
        let error = parse(&"x".repeat(100_000)).unwrap_err().to_string();
        assert!(error.len() < 200, "{error}");
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let table =
            [("0", 0), ("90s", 90_000), ("1h30m", 5_400_000), ("1.5m", 90_000), ("300ms", 300), ("1m0s", 60_000)];
        for (text, milliseconds) in table {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "5", "-1s", "1x", "s", "1..5s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

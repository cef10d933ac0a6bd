//! Durations as Go writes them: `90s`, `1h30m`, `1.5m`.

use std::time::Duration;

/// Parses a duration as Go's `time.ParseDuration` does, except that a negative one is refused.
pub fn parse(text: &str) -> Result<Duration, String> {
    let error = || format!("invalid duration {text:?}: expected something like 90s or 1h30m");
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
    Duration::try_from_secs_f64(total).map_err(|_| error())
}

#[cfg(test)]
mod tests {
    use super::parse;
    use std::time::Duration;

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

//! Flags whose values are numbers, in the words of Go's parsers.

use super::error::FlagError;
use crate::template::go::quote::quoted;

/// Go's integers, with base prefixes and underscores.
pub fn integer(text: &str) -> Result<String, FlagError> {
    let unsigned = text.trim_start_matches(['+', '-']).replace('_', "").to_ascii_lowercase();
    let parsed = match unsigned.get(..2) {
        Some("0x") => i64::from_str_radix(&unsigned[2..], 16),
        Some("0b") => i64::from_str_radix(&unsigned[2..], 2),
        Some("0o") => i64::from_str_radix(&unsigned[2..], 8),
        _ => unsigned.parse(),
    };
    parsed
        .map(|_| text.to_owned())
        .map_err(|_| format!("strconv.ParseInt: parsing {}: invalid syntax", quoted(text.as_bytes())).into())
}

/// Go's floating point numbers.
pub fn float(text: &str) -> Result<String, FlagError> {
    let parsed = text.parse::<f32>().map(|_| text.to_owned());
    parsed.map_err(|_| format!("strconv.ParseFloat: parsing {}: invalid syntax", quoted(text.as_bytes())).into())
}

#[cfg(test)]
mod tests {
    use super::{float, integer};

    #[test]
    fn values_are_refused_in_the_words_of_gos_parsers() {
        assert_eq!(integer("x").unwrap_err().0, r#"strconv.ParseInt: parsing "x": invalid syntax"#);
        assert_eq!(float("x").unwrap_err().0, r#"strconv.ParseFloat: parsing "x": invalid syntax"#);
        assert!(integer("0x1F").is_ok() && float("1e3").is_ok());
    }
}

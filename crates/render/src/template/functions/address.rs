//! IP addresses as Go's `net/netip` reads them, with its words for an invalid one.

use super::text::quoted;

/// The kind of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// Of 32 bits.
    V4,
    /// Of 128 bits.
    V6,
    /// With a zone (`fe80::1%eth0`).
    Zoned,
}

/// Why a text is not an address; the words are Go's.
#[derive(Debug, thiserror::Error)]
#[error("ParseAddr({text}): {fault}")]
pub struct AddressError {
    /// The text, between quotes.
    text: String,
    fault: String,
}

/// `netip.ParseAddr`
pub fn parse(text: &str) -> Result<Address, AddressError> {
    let fault = |(message, at): Fault| {
        let at = at.map(|at| format!(" (at {})", quoted(at))).unwrap_or_default();
        AddressError { text: quoted(text), fault: format!("{message}{at}") }
    };
    match text.chars().find(|c| matches!(c, '.' | ':' | '%')) {
        Some('.') => v4(text).map(|()| Address::V4).map_err(fault),
        Some(':') => v6(text).map_err(fault),
        Some(_) => Err(fault(("missing IPv6 address", None))),
        None => Err(fault(("unable to parse IP", None))),
    }
}

/// The fault, and the place where it begins.
type Fault<'t> = (&'static str, Option<&'t str>);

fn v4(text: &str) -> Result<(), Fault<'_>> {
    let (mut value, mut digits, mut fields) = (0, 0, 0);
    for (i, c) in text.char_indices() {
        match c.to_digit(10) {
            Some(_) if digits == 1 && value == 0 => return Err(("IPv4 field has octet with leading zero", None)),
            Some(digit) => {
                value = value * 10 + digit;
                digits += 1;
                if value > 255 {
                    return Err(("IPv4 field has value >255", None));
                }
            }
            None if c == '.' => {
                if digits == 0 || i + 1 == text.len() {
                    return Err(("IPv4 field must have at least one digit", Some(&text[i..])));
                }
                if fields == 3 {
                    return Err(("IPv4 address too long", None));
                }
                (value, digits, fields) = (0, 0, fields + 1);
            }
            None => return Err(("unexpected character", Some(&text[i..]))),
        }
    }
    if fields < 3 { Err(("IPv4 address too short", None)) } else { Ok(()) }
}

fn v6(text: &str) -> Result<Address, Fault<'_>> {
    let (mut rest, zone) = text.split_once('%').map_or((text, None), |(address, zone)| (address, Some(zone)));
    if zone == Some("") {
        return Err(("zone must be a non-empty string", None));
    }
    let kind = if zone.is_some() { Address::Zoned } else { Address::V6 };
    let mut shortened = false;
    if let Some(after) = rest.strip_prefix("::") {
        shortened = true;
        rest = after;
        if rest.is_empty() {
            return Ok(kind);
        }
    }
    let mut groups = 0;
    while groups < 8 {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        match digits {
            0 => return Err(("each colon-separated field must have at least one digit", Some(rest))),
            1..=4 => {}
            _ => return Err(("each group must have 4 or less digits", Some(rest))),
        }
        if rest[digits..].starts_with('.') {
            if !shortened && groups != 6 {
                return Err(("embedded IPv4 address must replace the final 2 fields of the address", Some(rest)));
            }
            if groups > 6 {
                return Err(("too many hex fields to fit an embedded IPv4 at the end of the address", Some(rest)));
            }
            v4(rest)?;
            groups += 2;
            rest = "";
            break;
        }
        groups += 1;
        rest = &rest[digits..];
        let Some(after) = rest.strip_prefix(':') else {
            if rest.is_empty() {
                break;
            }
            return Err(("unexpected character, want colon", Some(rest)));
        };
        if after.is_empty() {
            return Err(("colon must be followed by more characters", Some(rest)));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if shortened {
                return Err(("multiple :: in address", Some(rest)));
            }
            shortened = true;
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return Err(("trailing garbage after address", Some(rest)));
    }
    match (groups < 8, shortened) {
        (true, false) => Err(("address string too short", None)),
        (false, true) => Err(("the :: must expand to at least one field of zeros", None)),
        _ => Ok(kind),
    }
}

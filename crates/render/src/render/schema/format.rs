//! The values of `format` that Helm's validator knows, and its messages about a text that does not fit.

use crate::template::functions::address::{self, Address, AddressError};
use crate::template::functions::layout::{self, TimeError};
use crate::template::functions::re2;
use crate::template::functions::text::quoted as double_quoted;
use crate::template::functions::url::Url;
use crate::template::go::quote;

/// The fault of a text.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Time(#[from] TimeError),
    #[error("{0}")]
    Other(String),
}

impl From<String> for FormatError {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

impl From<&str> for FormatError {
    fn from(text: &str) -> Self {
        Self::Other(text.into())
    }
}

/// A format.
pub struct Format {
    pub name: &'static str,
    pub check: fn(&str) -> Checked,
}

/// A format by its name; unknown names are not a format.
pub fn find(name: &str) -> Option<Format> {
    const FORMATS: [Format; 19] = [
        Format { name: "regex", check: regex },
        Format { name: "json-pointer", check: json_pointer },
        Format { name: "relative-json-pointer", check: relative_json_pointer },
        Format { name: "uuid", check: uuid },
        Format { name: "duration", check: duration },
        Format { name: "period", check: period },
        Format { name: "ipv4", check: ipv4 },
        Format { name: "ipv6", check: ipv6 },
        Format { name: "hostname", check: hostname },
        Format { name: "email", check: email },
        Format { name: "date", check: date },
        Format { name: "time", check: time },
        Format { name: "date-time", check: date_time },
        Format { name: "uri", check: uri },
        Format { name: "iri", check: uri },
        Format { name: "uri-reference", check: uri_reference },
        Format { name: "iri-reference", check: uri_reference },
        Format { name: "uri-template", check: uri_template },
        Format { name: "semver", check: semver },
    ];
    FORMATS.into_iter().find(|format| format.name == name)
}

type Checked = Result<(), FormatError>;

fn wrong(text: &str) -> Checked {
    Err(text.into())
}

/// A character as Go's `%q` shows it.
fn quoted(c: char) -> String {
    quote::quote_with(c.encode_utf8(&mut [0; 4]).as_bytes(), '\'', false)
}

fn invalid_character(c: char) -> Checked {
    Err(format!("invalid character {}", quoted(c)).into())
}

fn regex(text: &str) -> Checked {
    re2::compile(text).map(|_| ()).map_err(|e| format!("error parsing regexp: {e}").into())
}

fn json_pointer(text: &str) -> Checked {
    const ESCAPE: &str = "~ must be followed by 0 or 1";
    if text.is_empty() {
        return Ok(());
    }
    let Some(keys) = text.strip_prefix('/') else { return wrong("not starting with /") };
    let good = keys.split('/').all(|key| key.split('~').skip(1).all(|rest| rest.starts_with(['0', '1'])));
    if good { Ok(()) } else { wrong(ESCAPE) }
}

fn relative_json_pointer(text: &str) -> Checked {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    match digits {
        0 => return wrong("must start with non-negative integer"),
        2.. if text.starts_with('0') => return wrong("starts with zero"),
        _ => {}
    }
    if &text[digits..] == "#" { Ok(()) } else { json_pointer(&text[digits..]) }
}

fn uuid(text: &str) -> Checked {
    let groups: Vec<&str> = text.split('-').collect();
    let sizes = [8, 4, 4, 4, 12];
    if groups.len() != sizes.len() {
        return wrong("must have 5 elements");
    }
    for (i, (group, size)) in groups.into_iter().zip(sizes).enumerate() {
        if group.len() != size {
            return Err(format!("element {} must be {size} characters long", i + 1).into());
        }
        if let Some(c) = group.chars().find(|c| !c.is_ascii_hexdigit()) {
            return Err(format!("non-hex character {}", quoted(c)).into());
        }
    }
    Ok(())
}

fn duration(text: &str) -> Checked {
    let Some(text) = text.strip_prefix('P') else { return wrong("must start with P") };
    if text.is_empty() {
        return wrong("nothing after P");
    }
    if let Some(weeks) = text.strip_suffix('W') {
        if weeks.is_empty() {
            return wrong("no number in week");
        }
        return if weeks.bytes().all(|b| b.is_ascii_digit()) { Ok(()) } else { wrong("invalid week") };
    }
    for (i, part) in text.split('T').enumerate() {
        if i > 0 && part.is_empty() {
            return wrong("no time elements");
        }
        let Some(all) = ["YMD", "HMS"].get(i) else { return wrong("more than one T") };
        duration_part(part, all)?;
    }
    Ok(())
}

fn duration_part(part: &str, all: &str) -> Checked {
    let (mut rest, mut units) = (part, all);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return wrong("missing number");
        }
        let Some(unit) = rest.as_bytes().get(digits).map(|b| char::from(*b)) else { return wrong("missing unit") };
        let Some(at) = units.find(unit) else {
            let out_of_order = all.contains(unit);
            let unit = quoted(unit);
            let fault = if out_of_order { format!("unit {unit} out of order") } else { format!("invalid unit {unit}") };
            return Err(fault.into());
        };
        units = &units[at + 1..];
        rest = &rest[digits + 1..];
    }
    Ok(())
}

fn period(text: &str) -> Checked {
    let Some((start, end)) = text.split_once('/') else { return wrong("missing slash") };
    let named = |what: &str, found: Checked| found.map_err(|e| format!("invalid {what}: {e}").into());
    if start.starts_with('P') {
        named("start duration", duration(start))?;
        return named("end date-time", date_time(end));
    }
    named("start date-time", date_time(start))?;
    if end.starts_with('P') { named("end duration", duration(end)) } else { named("end date-time", date_time(end)) }
}

/// `strconv.Atoi`
fn number(text: &str) -> Result<i64, FormatError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let reason = if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        "invalid syntax"
    } else {
        match text.parse() {
            Ok(n) => return Ok(n),
            Err(_) => "value out of range",
        }
    };
    Err(format!("strconv.Atoi: parsing {}: {reason}", double_quoted(text)).into())
}

fn ipv4(text: &str) -> Checked {
    let groups: Vec<&str> = text.split('.').collect();
    if groups.len() != 4 {
        return wrong("expected four decimals");
    }
    for group in groups {
        if group.len() > 1 && group.starts_with('0') {
            return wrong("leading zeros");
        }
        if !(0..=255).contains(&number(group)?) {
            return wrong("decimal must be between 0 and 255");
        }
    }
    Ok(())
}

fn ipv6(text: &str) -> Checked {
    if !text.contains(':') {
        return wrong("missing colon");
    }
    match address::parse(text)? {
        Address::Zoned => wrong("zone id is not a part of ipv6 address"),
        Address::V4 | Address::V6 => Ok(()),
    }
}

fn hostname(text: &str) -> Checked {
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.len() > 253 {
        return wrong("more than 253 characters long");
    }
    for label in text.split('.') {
        if label.is_empty() || label.len() > 63 {
            return wrong("label must be 1 to 63 characters long");
        }
        if label.starts_with('-') {
            return wrong("label starts with hyphen");
        }
        if label.ends_with('-') {
            return wrong("label ends with hyphen");
        }
        if let Some(c) = label.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '-') {
            return invalid_character(c);
        }
    }
    Ok(())
}

fn email(text: &str) -> Checked {
    if text.len() > 254 {
        return wrong("more than 255 characters long");
    }
    let Some((local, domain)) = text.rsplit_once('@') else { return wrong("missing @") };
    if local.len() > 64 {
        return wrong("local part more than 64 characters long");
    }
    if local.len() > 1 && local.starts_with('"') && local.ends_with('"') {
        if local[1..local.len() - 1].contains(['\\', '"']) {
            return wrong("backslash and quote are not allowed within quoted local part");
        }
    } else {
        unquoted_local(local)?;
    }
    if let Some(address) = domain.strip_prefix('[').and_then(|d| d.strip_suffix(']')) {
        return match address.strip_prefix("IPv6:") {
            Some(address) => ipv6(address).map_err(|e| format!("invalid ipv6 address: {e}").into()),
            None => ipv4(address).map_err(|e| format!("invalid ipv4 address: {e}").into()),
        };
    }
    hostname(domain).map_err(|e| format!("invalid domain: {e}").into())
}

fn unquoted_local(local: &str) -> Checked {
    if local.starts_with('.') {
        return wrong("starts with dot");
    }
    if local.ends_with('.') {
        return wrong("ends with dot");
    }
    if local.contains("..") {
        return wrong("consecutive dots");
    }
    let fits = |c: &char| c.is_ascii_alphanumeric() || ".!#$%&'*+-/=?^_`{|}~".contains(*c);
    local.chars().find(|c| !fits(c)).map_or(Ok(()), invalid_character)
}

fn date(text: &str) -> Checked {
    layout::parse("2006-01-02", text)?;
    Ok(())
}

fn time(text: &str) -> Checked {
    if text.len() < 9 {
        return wrong("less than 9 characters long");
    }
    let bytes = text.as_bytes();
    if bytes[2] != b':' || bytes[5] != b':' {
        return wrong("missing colon in correct place");
    }
    let mut parts = [0; 3];
    for (part, digits) in parts.iter_mut().zip([&bytes[..2], &bytes[3..5], &bytes[6..8]]) {
        *part = clock_part(digits, "hour/min/sec")?;
    }
    let [hour, minute, second] = parts;
    if hour > 23 || minute > 59 || second > 60 {
        return wrong("hour/min/sec out of range");
    }
    let mut rest = &bytes[8..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return wrong("no digits in second fraction");
        }
        rest = &fraction[digits..];
    }
    let offset = if matches!(rest, b"z" | b"Z") { 0 } else { time_offset(rest)? };
    let minutes = hour * 60 + minute + offset;
    let minutes = if minutes < 0 { minutes + 24 * 60 } else { minutes };
    if second >= 60 && minutes != 23 * 60 + 59 {
        return wrong("invalid leap second");
    }
    Ok(())
}

fn clock_part(digits: &[u8], what: &str) -> Result<i64, FormatError> {
    let n = std::str::from_utf8(digits).ok().and_then(|text| number(text).ok());
    match n {
        None => Err(format!("invalid {what}").into()),
        Some(..0) => Err(format!("non-positive {what}").into()),
        Some(n) => Ok(n),
    }
}

/// The minutes to add for universal time.
fn time_offset(text: &[u8]) -> Result<i64, FormatError> {
    if text.len() != 6 {
        return Err("offset must be 6 characters long".into());
    }
    let sign = match text[0] {
        b'+' => -1,
        b'-' => 1,
        _ => return Err("offset must begin with plus/minus".into()),
    };
    if text[3] != b':' {
        return Err("missing colon in offset in correct place".into());
    }
    let what = "hour/min in offset";
    let (hours, minutes) = (clock_part(&text[1..3], what)?, clock_part(&text[4..], what)?);
    if hours > 23 || minutes > 59 {
        return Err("hour/min in offset out of range".into());
    }
    Ok(sign * (hours * 60 + minutes))
}

fn date_time(text: &str) -> Checked {
    if text.len() < 20 {
        return wrong("less than 20 characters long");
    }
    if !matches!(text.as_bytes()[10], b't' | b'T') {
        return wrong("11th character must be t or T");
    }
    let (day, clock) = (text.get(..10).unwrap_or_default(), text.get(11..).unwrap_or_default());
    date(day).map_err(|e| format!("invalid date element: {e}"))?;
    time(clock).map_err(|e| format!("invalid time element: {e}").into())
}

fn parse_url(text: &str) -> Result<Url, FormatError> {
    let url = Url::parse(text).map_err(|e| format!("parse {}: {e}", double_quoted(text)))?;
    if url.hostname().contains(':') {
        if !url.host().contains('[') || !url.host().contains(']') {
            return Err("ipv6 address not enclosed in brackets".into());
        }
        ipv6(url.hostname()).map_err(|e| format!("invalid ipv6 address: {e}"))?;
    }
    Ok(url)
}

fn uri(text: &str) -> Checked {
    if parse_url(text)?.scheme().is_empty() { wrong("relative url") } else { Ok(()) }
}

fn uri_reference(text: &str) -> Checked {
    if text.contains('\\') {
        return wrong(r"contains \");
    }
    parse_url(text).map(|_| ())
}

fn uri_template(text: &str) -> Checked {
    // Go keeps the path as it was written only where its own spelling would be another.
    let url = parse_url(text)?;
    for part in url.raw_path().split('/') {
        let part = Url::unescape_segment(part).map_err(|e| format!("percent decode failed: {e}"))?;
        let mut open = false;
        for c in part.chars().filter(|c| matches!(c, '{' | '}')) {
            if (c == '{') == open {
                return wrong("nested curly braces");
            }
            open = !open;
        }
        if open {
            return wrong("no matching closing brace");
        }
    }
    Ok(())
}

fn semver(text: &str) -> Checked {
    let fits = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    let (text, build) = text.split_once('+').map_or((text, None), |(t, b)| (t, Some(b)));
    if let Some(build) = build {
        if build.is_empty() {
            return wrong("build is empty");
        }
        for id in build.split('.') {
            if id.is_empty() {
                return wrong("build identifier is empty");
            }
            if let Some(c) = id.chars().find(|c| !fits(c)) {
                return Err(format!("invalid character {} in build identifier", quoted(c)).into());
            }
        }
    }
    let (core, release) = text.split_once('-').map_or((text, None), |(t, r)| (t, Some(r)));
    for id in release.into_iter().flat_map(|r| r.split('.')) {
        if id.is_empty() {
            return wrong("pre-release identifier is empty");
        }
        if let Some(c) = id.chars().find(|c| !fits(c)) {
            return Err(format!("invalid character {} in pre-release identifier", quoted(c)).into());
        }
        if id.len() > 1 && id.starts_with('0') && id.bytes().all(|b| b.is_ascii_digit()) {
            return wrong("pre-release numeric identifier starts with zero");
        }
    }
    let numbers: Vec<&str> = core.split('.').collect();
    if numbers.len() != 3 {
        return wrong("versionCore must have 3 numbers separated by dot");
    }
    for (number, name) in numbers.into_iter().zip(["major", "minor", "patch"]) {
        if number.is_empty() {
            return Err(format!("{name} is empty").into());
        }
        if number.len() > 1 && number.starts_with('0') {
            return Err(format!("{name} starts with zero").into());
        }
        if !number.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!("{name} contains non-digit").into());
        }
    }
    Ok(())
}

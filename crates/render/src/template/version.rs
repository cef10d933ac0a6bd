//! Versions and constraints as Masterminds/semver 3.5.0 reads them: for `semverCompare`, dependencies of charts,
//! and `kubeVersion`.

use super::go::quote::quoted;
use std::cmp::Ordering;
use std::fmt;

/// Why a version or constraint could not be read; the words are Masterminds'.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionError(String);

impl fmt::Display for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for VersionError {}

fn error<T>(message: impl Into<String>) -> Result<T, VersionError> {
    Err(VersionError(message.into()))
}

/// A semantic version. Comparing looks at the numbers and the prerelease, never at the metadata.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// First number.
    pub major: u64,
    /// Second number.
    pub minor: u64,
    /// Third number.
    pub patch: u64,
    /// The text after `-`, or nothing.
    pub prerelease: String,
    /// The text after `+`, or nothing.
    pub metadata: String,
    /// The text the version was read from.
    pub original: String,
}

const MAX_VERSION: usize = 256;
const MAX_CONSTRAINT: usize = 512;
const MAX_GROUPS: usize = 32;

/// A version in a text, in parts that have their `.`, `-` and `+` in front.
struct Parts<'t> {
    whole: &'t str,
    major: &'t str,
    minor: &'t str,
    patch: &'t str,
    prerelease: &'t str,
    metadata: &'t str,
}

impl<'t> Parts<'t> {
    /// Takes a version off the front of a text: up to three numbers of the given characters, prerelease, metadata.
    fn take(text: &'t str, is_number: fn(u8) -> bool) -> Option<(Self, &'t str)> {
        let after_v = text.strip_prefix('v').unwrap_or(text);
        let (major, rest) = run(after_v, is_number)?;
        let (minor, rest) = part(rest, '.', is_number);
        let (patch, rest) = if minor.is_empty() { ("", rest) } else { part(rest, '.', is_number) };
        let (prerelease, rest) = identifiers(rest, '-');
        let (metadata, rest) = identifiers(rest, '+');
        let whole = &text[..text.len() - rest.len()];
        Some((Self { whole, major, minor, patch, prerelease, metadata }, rest))
    }
}

/// The characters at the front for which something holds, at least one, and the rest.
fn run(text: &str, is_part: fn(u8) -> bool) -> Option<(&str, &str)> {
    let length = text.bytes().take_while(|b| is_part(*b)).count();
    (length > 0).then(|| text.split_at(length))
}

/// A part with its separator; empty if there is none.
fn part(text: &str, separator: char, is_part: fn(u8) -> bool) -> (&str, &str) {
    match text.strip_prefix(separator).and_then(|rest| run(rest, is_part)) {
        Some((part, _)) => text.split_at(1 + part.len()),
        None => ("", text),
    }
}

/// A separator, and identifiers with dots between them; empty if there are none.
fn identifiers(text: &str, separator: char) -> (&str, &str) {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    let (first, mut rest) = part(text, separator, is_part);
    while !first.is_empty() {
        let (more, after) = part(rest, '.', is_part);
        if more.is_empty() {
            break;
        }
        rest = after;
    }
    text.split_at(text.len() - rest.len())
}

fn is_digit(b: u8) -> bool {
    b.is_ascii_digit()
}

/// A digit, or a character that can replace a number.
fn is_digit_or_x(b: u8) -> bool {
    b.is_ascii_digit() || matches!(b, b'|' | b'x' | b'X' | b'*')
}

/// Go's `\s`.
fn is_space(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\u{c}' | '\r' | ' ')
}

impl Version {
    /// Reads a version leniently: a `v` in front, missing numbers and leading zeros are accepted.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if text.len() > MAX_VERSION {
            return error(format!("version string is too long (max {MAX_VERSION} bytes)"));
        }
        let Some((found, "")) = Parts::take(text, is_digit) else { return error("invalid semantic version") };
        let number = |part: &str| {
            let digits = part.trim_start_matches('.');
            if digits.is_empty() {
                return Ok(0);
            }
            digits.parse().map_err(|_| {
                VersionError(format!(
                    "error parsing version segment: strconv.ParseUint: parsing {}: value out of range",
                    quoted(digits.as_bytes())
                ))
            })
        };
        let version = Self {
            major: number(found.major)?,
            minor: number(found.minor)?,
            patch: number(found.patch)?,
            prerelease: found.prerelease.get(1..).unwrap_or_default().into(),
            metadata: found.metadata.get(1..).unwrap_or_default().into(),
            original: text.into(),
        };
        check_prerelease(&version.prerelease)?;
        Ok(version)
    }

    /// Reads a version that keeps to the letter of semver.org.
    pub fn parse_strict(text: &str) -> Result<Self, VersionError> {
        if text.is_empty() {
            return error("version string empty");
        }
        if text.len() > MAX_VERSION {
            return error(format!("version string is too long (max {MAX_VERSION} bytes)"));
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts.as_slice() else { return error("invalid semantic version") };
        let (rest, metadata) = rest.split_once('+').map_or((*rest, None), |(r, m)| (r, Some(m)));
        if metadata.is_some_and(|m| !m.split('.').all(only_identifier)) {
            return error("invalid metadata string");
        }
        let (patch, prerelease) = rest.split_once('-').map_or((rest, None), |(r, p)| (r, Some(p)));
        if let Some(prerelease) = prerelease {
            check_prerelease(prerelease)?;
        }
        for number in [major, minor, patch] {
            if !number.bytes().all(|b| b.is_ascii_digit()) {
                return error("invalid characters in version");
            }
            if number.len() > 1 && number.starts_with('0') {
                return error("version segment starts with 0");
            }
        }
        let number = |digits: &str| {
            digits.parse().map_err(|_| {
                let why = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
                VersionError(format!("strconv.ParseUint: parsing {}: {why}", quoted(digits.as_bytes())))
            })
        };
        Ok(Self {
            major: number(major)?,
            minor: number(minor)?,
            patch: number(patch)?,
            prerelease: prerelease.unwrap_or_default().into(),
            metadata: metadata.unwrap_or_default().into(),
            original: text.into(),
        })
    }
}

fn only_identifier(part: &str) -> bool {
    part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn check_prerelease(text: &str) -> Result<(), VersionError> {
    for part in text.split('.') {
        if part.bytes().all(|b| b.is_ascii_digit()) {
            if part.len() > 1 && part.starts_with('0') {
                return error("version segment starts with 0");
            }
        } else if !only_identifier(part) {
            return error("invalid prerelease string");
        }
    }
    Ok(())
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Version {}
impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |v: &Self| (v.major, v.minor, v.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => compare_prerelease(&self.prerelease, &other.prerelease),
            }
        })
    }
}

fn compare_prerelease(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<&str>, Vec<&str>) = (a.split('.').collect(), b.split('.').collect());
    for i in 0..a.len().max(b.len()) {
        let (a, b) = (a.get(i).copied().unwrap_or(""), b.get(i).copied().unwrap_or(""));
        let order = match (a.parse::<u64>(), b.parse::<u64>()) {
            _ if a == b => Ordering::Equal,
            _ if a.is_empty() => Ordering::Less,
            _ if b.is_empty() => Ordering::Greater,
            (Ok(a), Ok(b)) => a.cmp(&b),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => a.cmp(b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

/// A constraint on versions: `>=1.2 <2 || ~3.1`.
#[derive(Clone, Debug)]
pub struct Constraints {
    /// One of the groups must hold, with all in it.
    groups: Vec<Group>,
}

#[derive(Clone, Debug)]
struct Group {
    all: Vec<Constraint>,
    /// Whether one of them names a prerelease; otherwise no prerelease is good enough.
    prereleases: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Tilde,
    Caret,
}

#[derive(Clone, Debug)]
struct Constraint {
    operator: Operator,
    version: Version,
    /// Some number is missing or an `x`; `minor_dirty` and `patch_dirty` say which.
    dirty: bool,
    minor_dirty: bool,
    patch_dirty: bool,
}

impl Constraints {
    /// Reads a constraint. Groups are separated by `||`, what must hold together by spaces or commas.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if text.len() > MAX_CONSTRAINT {
            return error(format!("constraint string is too long (max {MAX_CONSTRAINT} bytes)"));
        }
        let text = rewrite_ranges(text);
        let parts: Vec<&str> = text.split("||").collect();
        if parts.len() > MAX_GROUPS {
            return error(format!("too many constraint groups (max {MAX_GROUPS})"));
        }
        let groups = parts.into_iter().map(Group::parse).collect::<Result<_, _>>()?;
        Ok(Self { groups })
    }

    /// Whether a version fulfils the constraint.
    pub fn check(&self, version: &Version) -> bool {
        self.groups.iter().any(|group| {
            (group.prereleases || version.prerelease.is_empty()) && group.all.iter().all(|c| c.check(version))
        })
    }
}

/// `1.2 - 3` is `>= 1.2, <= 3`.
fn rewrite_ranges(text: &str) -> String {
    let mut out = text.to_owned();
    let mut from = 0;
    while let Some(start) = text[from..].find(|c| is_space(c) || is_digit_or_x(c as u8) && c.is_ascii() || c == 'v') {
        from += start;
        let Some((first, last, end)) = range(&text[from..]) else {
            from += 1;
            continue;
        };
        out = out.replacen(&text[from..from + end], &format!(">= {first}, <= {last} "), 1);
        from += end;
    }
    out
}

/// Two versions with a hyphen between them at the front of a text, and how much of it they and the spaces around take.
fn range(text: &str) -> Option<(&str, &str, usize)> {
    let (first, rest) = Parts::take(text.trim_start_matches(is_space), is_digit_or_x)?;
    let hyphen = rest.trim_start_matches(is_space);
    let after = hyphen.strip_prefix('-')?;
    let second = after.trim_start_matches(is_space);
    if hyphen.len() == rest.len() || second.len() == after.len() {
        return None;
    }
    let (last, rest) = Parts::take(second, is_digit_or_x)?;
    Some((first.whole, last.whole, text.len() - rest.trim_start_matches(is_space).len()))
}

impl Group {
    fn parse(text: &str) -> Result<Self, VersionError> {
        let improper = || VersionError(format!("improper constraint: {}", quoted(text.as_bytes())));
        let mut all = Vec::new();
        let mut rest = text.trim_start_matches(is_space);
        loop {
            let (constraint, after) = Constraint::take(rest).ok_or_else(improper)?;
            all.push(constraint);
            let next = after.trim_start_matches(is_space);
            if next.is_empty() {
                break;
            }
            rest = match next.strip_prefix(',') {
                Some(next) => next.trim_start_matches(is_space),
                None if next.len() < after.len() => next,
                None => return Err(improper()),
            };
        }
        // A text that is not a constraint is found before one that is not a version.
        let all = all.into_iter().collect::<Result<Vec<_>, _>>()?;
        let prereleases = all.iter().any(|c: &Constraint| !c.version.prerelease.is_empty());
        Ok(Self { all, prereleases })
    }
}

impl Constraint {
    /// Takes a constraint off the front of a text; `None` if there is none.
    fn take(text: &str) -> Option<(Result<Self, VersionError>, &str)> {
        let version = text.trim_start_matches(['=', '!', '<', '>', '~', '^']);
        let operator = match &text[..text.len() - version.len()] {
            "" | "=" => Operator::Equal,
            "!=" => Operator::NotEqual,
            ">" => Operator::Greater,
            "<" => Operator::Less,
            ">=" | "=>" => Operator::GreaterOrEqual,
            "<=" | "=<" => Operator::LessOrEqual,
            "~" | "~>" => Operator::Tilde,
            "^" => Operator::Caret,
            _ => return None,
        };
        let (parts, rest) = Parts::take(version.trim_start_matches(is_space), is_digit_or_x)?;
        Some((Self::new(operator, &parts), rest))
    }

    fn new(operator: Operator, parts: &Parts<'_>) -> Result<Self, VersionError> {
        let Parts { whole, major, minor, patch, prerelease, .. } = *parts;
        let is_x = |part: &str| matches!(part.trim_start_matches('.'), "x" | "X" | "*" | "");
        let (version, minor_dirty, patch_dirty) = if is_x(major) {
            (format!("0.0.0{prerelease}"), false, false)
        } else if is_x(minor) {
            (format!("{major}.0.0{prerelease}"), true, false)
        } else if is_x(patch) {
            (format!("{major}{minor}.0{prerelease}"), false, true)
        } else {
            (whole.to_owned(), false, false)
        };
        let Ok(version) = Version::parse(&version) else { return error("constraint parser error") };
        let dirty = minor_dirty || patch_dirty || is_x(major);
        Ok(Self { operator, version, dirty, minor_dirty, patch_dirty })
    }

    fn check(&self, v: &Version) -> bool {
        let c = &self.version;
        match self.operator {
            Operator::Equal if self.dirty => self.tilde(v),
            Operator::Equal => v == c,
            Operator::NotEqual => self.not_equal(v),
            // `>11` means 12 or more, `>11.1` means 11.2 or more.
            Operator::Greater if self.dirty && v.major == c.major && self.minor_dirty => false,
            Operator::Greater if self.dirty && v.major == c.major && self.patch_dirty => v.minor > c.minor,
            Operator::Greater if self.dirty && v.major != c.major => v.major > c.major,
            Operator::Greater => v > c,
            Operator::Less => v < c,
            Operator::GreaterOrEqual => v >= c,
            Operator::LessOrEqual if self.dirty => {
                v.major < c.major || v.major == c.major && (v.minor <= c.minor || self.minor_dirty)
            }
            Operator::LessOrEqual => v <= c,
            Operator::Tilde => self.tilde(v),
            Operator::Caret => self.caret(v),
        }
    }

    fn not_equal(&self, v: &Version) -> bool {
        let c = &self.version;
        if self.dirty {
            if v.major != c.major {
                return true;
            }
            if self.minor_dirty {
                return false;
            }
            if v.minor != c.minor {
                return true;
            }
            if self.patch_dirty {
                let either = !v.prerelease.is_empty() || !c.prerelease.is_empty();
                return either && compare_prerelease(&v.prerelease, &c.prerelease) != Ordering::Equal;
            }
            if v.patch != c.patch {
                return true;
            }
        }
        v != c
    }

    /// The last number given may grow.
    fn tilde(&self, v: &Version) -> bool {
        let c = &self.version;
        if v < c {
            return false;
        }
        if (c.major, c.minor, c.patch) == (0, 0, 0) && !self.minor_dirty && !self.patch_dirty {
            return true;
        }
        v.major == c.major && (v.minor == c.minor || self.minor_dirty)
    }

    /// The first number that is not zero must stay.
    fn caret(&self, v: &Version) -> bool {
        let c = &self.version;
        if v < c {
            return false;
        }
        if c.major > 0 || self.minor_dirty {
            return v.major == c.major;
        }
        if v.major > 0 {
            return false;
        }
        if c.minor > 0 || self.patch_dirty {
            return v.minor == c.minor;
        }
        v.minor == 0 && v.patch == c.patch
    }
}

/// Whether Helm takes the text for a version.
pub fn is_version(text: &str) -> bool {
    Version::parse(text).is_ok()
}

/// Whether a version fits a constraint; a text that is neither fits nothing (Helm's `IsCompatibleRange`).
pub fn is_compatible_range(constraint: &str, version: &str) -> bool {
    match (Constraints::parse(constraint), Version::parse(version)) {
        (Ok(constraint), Ok(version)) => constraint.check(&version),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fulfils(constraint: &str, version: &str) -> bool {
        Constraints::parse(constraint).unwrap().check(&Version::parse(version).unwrap())
    }

    #[test]
    fn ranges_tildes_and_carets_bound_the_right_number() {
        assert!(fulfils(">=1.19-0", "v1.37.0"));
        assert!(fulfils("1.2 - 3", "2.9.9"));
        assert!(fulfils("~1.2.3 || ^3", "3.99.0"));
        assert!(!fulfils("~1.2.3", "1.3.0"));
        assert!(fulfils("^0.2", "0.2.9") && !fulfils("^0.2", "0.3.0"));
        assert!(fulfils(">= 1.2, < 2", "1.9.0") && fulfils(">=1.2 <2", "1.9.0"));
        assert!(fulfils("*", "1.0.0") && !fulfils("*", "1.0.0-alpha"));
    }

    #[test]
    fn prereleases_sort_numbers_below_words() {
        let order = ["1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0"];
        let versions: Vec<Version> = order.iter().map(|v| Version::parse(v).unwrap()).collect();
        assert!(versions.is_sorted());
    }

    #[test]
    fn errors_have_masterminds_words() {
        assert_eq!(Constraints::parse("what").unwrap_err().to_string(), "improper constraint: \"what\"");
        assert_eq!(Version::parse("1.2.beta").unwrap_err().to_string(), "invalid semantic version");
        assert_eq!(Version::parse_strict("1.02.3").unwrap_err().to_string(), "version segment starts with 0");
    }
}

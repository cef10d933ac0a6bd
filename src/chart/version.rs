//! Semantic versions and constraints as Masterminds/semver 3.5 reads them, which Helm uses everywhere.
//!
//! It differs from other semver libraries: versions may be short (`v1.2`), constraints are joined with blanks or
//! commas, `||` separates alternatives, and a prerelease fits only a group that names a prerelease itself.

use std::cmp::Ordering;
use std::sync::LazyLock;

const MAX_VERSION: usize = 256;
const MAX_CONSTRAINT: usize = 512;
const MAX_GROUPS: usize = 32;

/// A version, with its text as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Major number.
    pub major: u64,
    /// Minor number.
    pub minor: u64,
    /// Patch number.
    pub patch: u64,
    /// What stands behind `-`.
    pub prerelease: String,
    /// What stands behind `+`; it does not count in comparisons.
    pub metadata: String,
    /// The text as written.
    pub original: String,
}

/// Why a text is no version or no constraint; the text is the library's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VersionError(pub String);

fn fail<T>(message: impl Into<String>) -> Result<T, VersionError> {
    Err(VersionError(message.into()))
}

impl Version {
    /// Reads a version leniently: a leading `v`, one to three numbers, leading zeros allowed.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if text.len() > MAX_VERSION {
            return fail(format!("version string is too long (max {MAX_VERSION} bytes)"));
        }
        let invalid = || VersionError("invalid semantic version".into());
        let (parts, rest) = Parts::read(text, false).ok_or_else(invalid)?;
        if !rest.is_empty() {
            return Err(invalid());
        }
        parts.version(text)
    }

    /// Order by the rules of semver.org; metadata does not count.
    pub fn compare(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => compare_prerelease(&self.prerelease, &other.prerelease),
            })
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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

fn compare_prerelease(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let (x, y) = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (x, y) => (x.unwrap_or(""), y.unwrap_or("")),
        };
        let order = if x == y {
            Ordering::Equal
        } else if x.is_empty() || y.is_empty() {
            x.len().cmp(&y.len())
        } else {
            match (x.parse::<u64>(), y.parse::<u64>()) {
                (Ok(m), Ok(n)) => m.cmp(&n),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => x.cmp(y),
            }
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// A version taken apart; the numbers may be wildcards in a constraint.
struct Parts<'a> {
    numbers: [&'a str; 3],
    prerelease: &'a str,
    metadata: &'a str,
}

impl<'a> Parts<'a> {
    /// Reads the longest version at the start of a text, and answers with what is left.
    fn read(text: &'a str, wildcards: bool) -> Option<(Self, &'a str)> {
        let digit = |c: char| c.is_ascii_digit() || wildcards && matches!(c, 'x' | 'X' | '*' | '|');
        let mut rest = text.strip_prefix('v').unwrap_or(text);
        let mut numbers = [""; 3];
        for (i, number) in numbers.iter_mut().enumerate() {
            let body = if i == 0 { Some(rest) } else { rest.strip_prefix('.') };
            let Some(body) = body else { break };
            let end = body.find(|c| !digit(c)).unwrap_or(body.len());
            if end == 0 {
                break;
            }
            *number = &body[..end];
            rest = &body[end..];
        }
        if numbers[0].is_empty() {
            return None;
        }
        let (prerelease, rest) = suffix(rest, '-');
        let (metadata, rest) = suffix(rest, '+');
        Some((Self { numbers, prerelease, metadata }, rest))
    }

    fn version(&self, original: &str) -> Result<Version, VersionError> {
        let number = |text: &str| match text {
            "" => Ok(0),
            text => text.parse::<u64>().map_err(|_| {
                let text = text.to_owned();
                VersionError(format!(
                    "error parsing version segment: strconv.ParseUint: parsing {text:?}: value out of range"
                ))
            }),
        };
        let zero = |part: &str| part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit());
        let version = Version {
            major: number(self.numbers[0])?,
            minor: number(self.numbers[1])?,
            patch: number(self.numbers[2])?,
            prerelease: self.prerelease.into(),
            metadata: self.metadata.into(),
            original: original.into(),
        };
        if self.prerelease.split('.').any(zero) {
            return fail("version segment starts with 0");
        }
        Ok(version)
    }
}

/// The identifiers behind a mark: letters, digits and hyphens, joined by dots.
fn suffix(text: &str, mark: char) -> (&str, &str) {
    let Some(body) = text.strip_prefix(mark) else { return ("", text) };
    let mut end = 0;
    loop {
        let part = &body[end..];
        let length = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(part.len());
        if length == 0 {
            // A dot with nothing behind it does not belong to the version.
            return if end == 0 { ("", text) } else { (&body[..end - 1], &body[end - 1..]) };
        }
        end += length;
        if !body[end..].starts_with('.') {
            return (&body[..end], &body[end..]);
        }
        end += 1;
    }
}

/// Whether Helm takes the text for a version.
pub fn is_version(text: &str) -> bool {
    Version::parse(text).is_ok()
}

/// Whether a version fits a constraint; a text that is neither fits nothing.
pub fn is_compatible_range(constraint: &str, version: &str) -> bool {
    match (Constraint::parse(constraint), Version::parse(version)) {
        (Ok(constraint), Ok(version)) => constraint.check(&version),
        _ => false,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    /// None or `=`: equal, or with wildcards as `~`.
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterEqual,
    LessEqual,
    Tilde,
    Caret,
}

/// Longer spellings first.
const OPERATORS: [(&str, Operator); 11] = [
    (">=", Operator::GreaterEqual),
    ("=>", Operator::GreaterEqual),
    ("<=", Operator::LessEqual),
    ("=<", Operator::LessEqual),
    ("!=", Operator::NotEqual),
    ("~>", Operator::Tilde),
    ("=", Operator::Equal),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("~", Operator::Tilde),
    ("^", Operator::Caret),
];

/// A constraint: alternatives of groups of conditions.
#[derive(Clone, Debug)]
pub struct Constraint(Vec<Vec<Condition>>);

#[derive(Clone, Debug)]
struct Condition {
    operator: Operator,
    version: Version,
    /// Some number is missing or a wildcard.
    dirty: bool,
    minor_dirty: bool,
    patch_dirty: bool,
}

impl Constraint {
    /// Reads a constraint.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if text.len() > MAX_CONSTRAINT {
            return fail(format!("constraint string is too long (max {MAX_CONSTRAINT} bytes)"));
        }
        let text = rewrite_ranges(text);
        let groups: Vec<&str> = text.split("||").collect();
        if groups.len() > MAX_GROUPS {
            return fail(format!("too many constraint groups (max {MAX_GROUPS})"));
        }
        groups.into_iter().map(group).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a version fits.
    pub fn check(&self, version: &Version) -> bool {
        self.0.iter().any(|group| {
            let names_prerelease = group.iter().any(|c| !c.version.prerelease.is_empty());
            (version.prerelease.is_empty() || names_prerelease) && group.iter().all(|c| c.fits(version))
        })
    }
}

/// `1.2 - 1.4` is `>= 1.2, <= 1.4`.
fn rewrite_ranges(text: &str) -> std::borrow::Cow<'_, str> {
    static RANGE: LazyLock<regex::Regex> = LazyLock::new(|| {
        let version = r"v?[0-9|xX*]+(?:\.[0-9|xX*]+)?(?:\.[0-9|xX*]+)?(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?";
        regex::Regex::new(&format!(r"\s*({version})\s+-\s+({version})\s*")).expect("the pattern is constant")
    });
    if text.contains(" - ") || text.contains("\t-") { RANGE.replace_all(text, ">= $1, <= $2 ") } else { text.into() }
}

fn group(text: &str) -> Result<Vec<Condition>, VersionError> {
    let improper = || VersionError(format!("improper constraint: {text:?}"));
    let mut conditions = Vec::new();
    let mut rest = text.trim_start();
    loop {
        let found = OPERATORS.iter().find_map(|(sign, operator)| Some((*operator, rest.strip_prefix(sign)?)));
        let (operator, behind) = found.unwrap_or((Operator::Equal, rest));
        let (parts, behind) = Parts::read(behind.trim_start(), true).ok_or_else(improper)?;
        conditions.push(Condition::new(operator, &parts)?);
        let next = behind.trim_start();
        if next.is_empty() {
            return Ok(conditions);
        }
        rest = match next.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if next.len() < behind.len() => next,
            None => return Err(improper()),
        };
    }
}

impl Condition {
    fn new(operator: Operator, parts: &Parts<'_>) -> Result<Self, VersionError> {
        let wild = |text: &str| matches!(text, "" | "x" | "X" | "*");
        let [major, minor, patch] = parts.numbers;
        let mut numbers = parts.numbers;
        let (mut dirty, mut minor_dirty, mut patch_dirty) = (true, false, false);
        if wild(major) {
            numbers = ["0", "0", "0"];
        } else if wild(minor) {
            minor_dirty = true;
            numbers = [major, "0", "0"];
        } else if wild(patch) {
            patch_dirty = true;
            numbers = [major, minor, "0"];
        } else {
            dirty = false;
        }
        let parts = Parts { numbers, prerelease: parts.prerelease, metadata: parts.metadata };
        let version = parts.version("").map_err(|_| VersionError("constraint parser error".into()))?;
        Ok(Self { operator, version, dirty, minor_dirty, patch_dirty })
    }

    /// Whether a version fits, prereleases aside.
    fn fits(&self, v: &Version) -> bool {
        let c = &self.version;
        match self.operator {
            Operator::Equal if self.dirty => self.tilde(v),
            Operator::Equal => v.compare(c) == Ordering::Equal,
            Operator::NotEqual => self.not_equal(v),
            Operator::Less => v.compare(c) == Ordering::Less,
            Operator::GreaterEqual => v.compare(c) != Ordering::Less,
            Operator::Greater => {
                if !self.dirty || v.major != c.major || !(self.minor_dirty || self.patch_dirty) {
                    return if self.dirty && v.major != c.major {
                        v.major > c.major
                    } else {
                        v.compare(c) == Ordering::Greater
                    };
                }
                !self.minor_dirty && v.minor > c.minor
            }
            Operator::LessEqual => {
                if !self.dirty {
                    return v.compare(c) != Ordering::Greater;
                }
                !(v.major > c.major || v.major == c.major && v.minor > c.minor && !self.minor_dirty)
            }
            Operator::Tilde => self.tilde(v),
            Operator::Caret => self.caret(v),
        }
    }

    fn not_equal(&self, v: &Version) -> bool {
        let c = &self.version;
        if self.dirty {
            if c.major != v.major {
                return true;
            }
            if self.minor_dirty {
                return false;
            }
            if c.minor != v.minor {
                return true;
            }
            if self.patch_dirty {
                return (!v.prerelease.is_empty() || !c.prerelease.is_empty())
                    && compare_prerelease(&v.prerelease, &c.prerelease) != Ordering::Equal;
            }
            if c.patch != v.patch {
                return true;
            }
        }
        v.compare(c) != Ordering::Equal
    }

    fn tilde(&self, v: &Version) -> bool {
        let c = &self.version;
        if v.compare(c) == Ordering::Less {
            return false;
        }
        if (c.major, c.minor, c.patch) == (0, 0, 0) && !self.minor_dirty && !self.patch_dirty {
            return true;
        }
        v.major == c.major && (v.minor == c.minor || self.minor_dirty)
    }

    fn caret(&self, v: &Version) -> bool {
        let c = &self.version;
        if v.compare(c) == Ordering::Less {
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

#[cfg(test)]
mod tests {
    use super::{Constraint, Version, is_compatible_range};

    #[test]
    fn constraints_decide_as_masterminds_semver_does() {
        for (constraint, version, want) in [
            (">=1.27.0-0", "1.29.0-gke.1", true),
            (">=1.27.0", "1.29.0-gke.1", false),
            ("*", "1.2.3", true),
            ("*", "1.2.3-beta", false),
            ("1.x", "1.9.0", true),
            ("1.x", "2.0.0", false),
            ("~1.2.3", "1.2.9", true),
            ("~1.2.3", "1.3.0", false),
            ("^1.2.3", "1.9.9", true),
            ("^0.2.3", "0.3.0", false),
            ("^0.0.3", "0.0.4", false),
            ("1.2 - 1.4", "1.4.9", true),
            ("1.2 - 1.4", "1.5.0", false),
            (">= 1.2, < 2", "1.5", true),
            (">= 1.2 < 2", "2.0", false),
            ("<1.0 || >2", "3.1.0", true),
            ("<1.0 || >2", "2.5.0", false),
            ("!=1.2", "1.2.9", false),
            ("=>1.2", "v1.2", true),
            (">1.2", "1.2.5", false),
            ("<=1.2", "1.2.9", true),
            ("0.x.x", "0.5.1", true),
            (">=v1.16.0-0 <1.22", "v1.20.1", true),
        ] {
            assert_eq!(is_compatible_range(constraint, version), want, "{constraint} {version}");
        }
    }

    #[test]
    fn what_is_no_version_or_constraint_is_told_as_there() {
        assert_eq!(Version::parse("abc").unwrap_err().to_string(), "invalid semantic version");
        assert_eq!(Version::parse("1.2.3.4").unwrap_err().to_string(), "invalid semantic version");
        assert_eq!(Version::parse("1.2.3-01").unwrap_err().to_string(), "version segment starts with 0");
        assert_eq!(Constraint::parse("bad").unwrap_err().to_string(), "improper constraint: \"bad\"");
        assert_eq!(Constraint::parse("1.2>3").unwrap_err().to_string(), "improper constraint: \"1.2>3\"");
        assert_eq!(Version::parse("v01.2-rc.1+b").unwrap().to_string(), "1.2.0-rc.1+b");
    }
}

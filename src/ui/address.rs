//! The addresses of the screens: paths to screens, and back.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The longest path with its query that is read, in bytes.
const LONGEST: usize = 4096;
/// The parameters of a query that are read.
const PARAMETERS: usize = 16;
/// The place of a namespace in a path, for a custom resource that has none. It is not a valid name of a namespace.
const NO_NAMESPACE: &str = "-";

/// A custom resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReleaseName {
    /// `Kind.group`.
    pub kind: String,
    /// Its namespace; empty for a cluster-scoped one.
    pub namespace: String,
    pub name: String,
}

/// The screens of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseScreen {
    /// Its tree.
    Status,
    /// The changes of the next pass.
    Next,
    /// Its revisions.
    History,
    /// The changes of a revision.
    Revision(u64),
    Values,
    /// The members of its databases.
    Members,
    /// The runs of its operations.
    Operations,
}

/// The subject of a page that is kept up to date.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// All releases.
    Fleet,
    /// One of them.
    Release(ReleaseName),
    /// The roll-outs of charts.
    Rollouts,
}

/// The answer that a path means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// All releases, filtered by a query.
    Fleet,
    /// A screen of a release.
    Release(ReleaseName, ReleaseScreen),
    /// The checks of the cluster and the operator.
    Operator,
    /// The roll-outs of charts.
    Rollouts,
    /// The changes of a subject, as server-sent events.
    Follow(Subject),
    /// The stylesheet.
    Style,
    Script,
    Icon,
}

impl Route {
    /// The route of a path; `None` for a page that does not exist.
    pub fn of(path: &str) -> Option<Self> {
        if path.len() > LONGEST {
            return None;
        }
        let parts: Vec<String> = path.strip_prefix('/')?.split('/').map(decoded).collect::<Option<_>>()?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        Some(match parts.as_slice() {
            [""] => Self::Fleet,
            ["operator"] => Self::Operator,
            ["rollouts"] => Self::Rollouts,
            ["style.css"] => Self::Style,
            ["script.js"] => Self::Script,
            ["icon.svg"] => Self::Icon,
            ["follow", "fleet"] => Self::Follow(Subject::Fleet),
            ["follow", "rollouts"] => Self::Follow(Subject::Rollouts),
            ["follow", "release", kind, namespace, name] => {
                Self::Follow(Subject::Release(ReleaseName::of(kind, namespace, name)?))
            }
            ["release", kind, namespace, name, rest @ ..] => {
                Self::Release(ReleaseName::of(kind, namespace, name)?, ReleaseScreen::of(rest)?)
            }
            _ => return None,
        })
    }
}

impl ReleaseScreen {
    fn of(parts: &[&str]) -> Option<Self> {
        Some(match parts {
            [] => Self::Status,
            ["next"] => Self::Next,
            ["history"] => Self::History,
            ["history", revision] => Self::Revision(revision.parse().ok()?),
            ["values"] => Self::Values,
            ["members"] => Self::Members,
            ["operations"] => Self::Operations,
            _ => return None,
        })
    }
}

impl ReleaseName {
    fn of(kind: &str, namespace: &str, name: &str) -> Option<Self> {
        let namespace = if namespace == NO_NAMESPACE { "" } else { namespace };
        let (kind_only, group) = kind.split_once('.')?;
        let is_valid = !kind_only.is_empty()
            && is_name(group)
            && kind_only.chars().all(|c| c.is_ascii_alphanumeric())
            && (namespace.is_empty() || is_name(namespace))
            && is_name(name);
        is_valid.then(|| Self { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// The path below `/release/` and `/follow/release/`.
    fn path(&self) -> String {
        let namespace = if self.namespace.is_empty() { NO_NAMESPACE } else { &self.namespace };
        [&self.kind, namespace, &self.name].map(encoded).join("/")
    }

    /// The address of its first screen.
    pub fn link(&self) -> String {
        format!("/release/{}", self.path())
    }
}

/// Whether a text can be the name of a custom resource, a namespace or a group: the API server accepts no other (RFC 1123). Any other text
/// could be more than a part of the request that is made from it.
fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    text.len() <= 253 && text.chars().all(is_part) && is_end(text.chars().next()) && is_end(text.chars().next_back())
}

impl Subject {
    /// The address of its changes.
    pub fn link(&self) -> String {
        match self {
            Self::Fleet => "/follow/fleet".to_owned(),
            Self::Rollouts => "/follow/rollouts".to_owned(),
            Self::Release(name) => format!("/follow/release/{}", name.path()),
        }
    }
}

/// The parameters of a query; of two with one name, the first.
pub fn parameters(query: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    if query.len() > LONGEST {
        return found;
    }
    for pair in query.split('&').take(PARAMETERS) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(name), Some(value)) = (decoded(name), decoded(&value.replace('+', " "))) {
            found.entry(name).or_insert(value);
        }
    }
    found
}

/// A query of the parameters that are not empty, with its question mark.
pub fn query<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs = parameters.into_iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> = pairs.map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// A text as a part of a path or a query: everything but the unreserved characters of RFC 3986 is escaped.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The text of a part; `None` if it is not UTF-8, or an escape is not complete.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, ReleaseName, ReleaseScreen, Route, Subject, parameters, query};

    fn name(kind: &str, namespace: &str, name: &str) -> ReleaseName {
        ReleaseName { kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }

    #[test]
    fn every_screen_has_an_address() {
        let web = name("Web.a.example.com", "shop", "app");
        let global = name("Web.a.example.com", "", "app");
        let release = |screen| Some(Route::Release(web.clone(), screen));
        let table = [
            ("/", Some(Route::Fleet)),
            ("/operator", Some(Route::Operator)),
            ("/style.css", Some(Route::Style)),
            ("/release/Web.a.example.com/shop/app", release(ReleaseScreen::Status)),
            ("/release/Web.a.example.com/shop/app/next", release(ReleaseScreen::Next)),
            ("/release/Web.a.example.com/shop/app/history", release(ReleaseScreen::History)),
            ("/release/Web.a.example.com/shop/app/history/3", release(ReleaseScreen::Revision(3))),
            ("/release/Web.a.example.com/-/app", Some(Route::Release(global.clone(), ReleaseScreen::Status))),
            ("/follow/release/Web.a.example.com/-/app", Some(Route::Follow(Subject::Release(global.clone())))),
            ("/release/Web.a.example.com/shop/app/history/x", None),
            ("/release/Web.a.example.com/shop/app/other", None),
            ("/release/Web/shop/app", None),
            ("/release/Web.a.example.com/shop/", None),
            ("/release/%FF/shop/app", None),
            ("/release/Web.a%2/shop/app", None),
            ("/release/Web.a%+1/shop/app", None),
            ("//", None),
            ("/../style.css", None),
            ("", None),
        ];
        for (path, expected) in table {
            assert_eq!(Route::of(path), expected, "{path}");
        }
        assert_eq!(Route::of(&format!("/{}", "a".repeat(LONGEST))), None);
    }

    #[test]
    fn a_name_with_markup_is_harmless_in_its_address_which_leads_nowhere() {
        let hostile = name("Web.a", "sh/op", "<script>\"'&?#% ä");
        let link = hostile.link();
        assert!(link.chars().all(|c| c.is_ascii_alphanumeric() || "/-._~%".contains(c)), "{link}");
        assert_eq!(Route::of(&link), None);
        for name in ["..", "a/b", "a,metadata.namespace=b", "A", "a%2Cb", "?watch=true", "-a", "a."] {
            assert_eq!(Route::of(&format!("/release/Web.a/ns/{}", super::encoded(name))), None, "{name}");
            assert_eq!(Route::of(&format!("/release/Web.a/{}/x", super::encoded(name))), None, "{name}");
        }
    }

    #[test]
    fn a_query_is_read_and_written() {
        let read = parameters("state=Stalled&text=a+b%26c&state=Ready&bad=%zz&flag");
        assert_eq!(read["state"], "Stalled");
        assert_eq!((read["text"].as_str(), read["flag"].as_str(), read.get("bad")), ("a b&c", "", None));
        assert_eq!(query([("state", ""), ("text", "a b&c")]), "?text=a%20b%26c");
        assert_eq!(query([("state", "")]), "");
        assert!(parameters(&"a&".repeat(LONGEST)).is_empty());
    }
}

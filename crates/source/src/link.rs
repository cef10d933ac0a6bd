//! Links of charts and repositories, as Go's `net/url` reads them, as far as Helm needs it.

use super::{SourceError, fail};
use fluent_uri::{Uri, UriRef};
use std::borrow::Cow;

/// Scheme and host with port of an absolute link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// In lower case.
    pub scheme: String,
    /// With the port if the link has one, without user and password.
    pub host: String,
}

/// The origin of a link; `None` when it is not absolute or has no host.
pub fn origin(link: &str) -> Option<Origin> {
    let uri = UriRef::parse(link).ok()?;
    let scheme = uri.scheme()?.as_str().to_ascii_lowercase();
    let authority = uri.authority()?;
    let port = authority.port().filter(|p| !p.as_str().is_empty()).map(|p| format!(":{p}")).unwrap_or_default();
    let host = format!("{}{port}", authority.host());
    (!host.is_empty()).then_some(Origin { scheme, host })
}

/// Whether credentials for one link may go to the other: the same scheme, host and port.
pub fn same_origin(a: &str, b: &str) -> bool {
    matches!((origin(a), origin(b)), (Some(a), Some(b)) if a.normal() == b.normal())
}

impl Origin {
    fn normal(&self) -> (String, String) {
        let default = match self.scheme.as_str() {
            "https" => ":443",
            "http" => ":80",
            _ => "",
        };
        let host = self.host.to_ascii_lowercase();
        let host = host.strip_suffix(default).map_or(host.clone(), str::to_owned);
        (self.scheme.clone(), host)
    }
}

/// The scheme of a link, in lower case; nothing when it has none.
pub fn scheme(link: &str) -> String {
    UriRef::parse(link).ok().and_then(|uri| uri.scheme().map(|s| s.as_str().to_ascii_lowercase())).unwrap_or_default()
}

/// The path of a link with its `%` escapes read.
pub fn path(link: &str) -> Option<String> {
    let uri = UriRef::parse(link).ok()?;
    Some(uri.path().decode().to_string_lossy().into_owned())
}

/// The last part of a link's path: the name of a download.
pub fn file_name(link: &str) -> String {
    let path = path(link).unwrap_or_default();
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()
}

/// The link of `reference` as seen from a repository at `base`, which counts as a folder; the query of the base is kept,
/// because some repositories carry a token there.
pub fn resolve(base: &str, reference: &str) -> Result<String, SourceError> {
    let Ok(parsed) = UriRef::parse(reference) else {
        return fail(format!("failed to parse {} as URL", shown(reference)));
    };
    if parsed.scheme().is_some() {
        return Ok(reference.to_owned());
    }
    let (without_query, query) = base.split_once('?').map_or((base, None), |(b, q)| (b, Some(q)));
    let folder = format!("{}/", without_query.split('#').next().unwrap_or_default().trim_end_matches('/'));
    let resolved = Uri::parse(folder.as_str()).ok().and_then(|base| parsed.resolve_against(&base).ok());
    let Some(resolved) = resolved else { return fail(format!("failed to parse {} as URL", shown(base))) };
    let resolved = resolved.into_string();
    Ok(match query {
        Some(query) => format!("{}?{query}", resolved.split(['?', '#']).next().unwrap_or_default()),
        None => resolved,
    })
}

/// Whether two links mean the same: a missing path is `/`, and `/a/./b/` is `/a/b`.
pub fn equal(a: &str, b: &str) -> bool {
    normal(a) == normal(b)
}

fn normal(link: &str) -> Cow<'_, str> {
    let Ok(uri) = UriRef::parse(link) else { return Cow::Borrowed(link) };
    let rooted = uri.authority().is_some() || uri.path().as_str().starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in uri.path().as_str().split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let scheme = uri.scheme().map(|s| format!("{}:", s.as_str().to_ascii_lowercase())).unwrap_or_default();
    let authority = uri.authority().map(|a| format!("//{a}")).unwrap_or_default();
    let root = if rooted { "/" } else { "" };
    let query = uri.query().map(|q| format!("?{q}")).unwrap_or_default();
    Cow::Owned(format!("{scheme}{authority}{root}{}{query}", parts.join("/")))
}

/// A link as messages may show it: a password in it becomes `xxxxx`, as in Go's `Redacted`.
pub fn shown(link: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = link.split_once("://") else { return Cow::Borrowed(link) };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let Some((user, host)) = rest[..end].rsplit_once('@') else { return Cow::Borrowed(link) };
    let Some((name, _)) = user.split_once(':') else { return Cow::Borrowed(link) };
    Cow::Owned(format!("{scheme}://{name}:xxxxx@{host}{}", &rest[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_counts_as_a_folder_and_keeps_its_query() {
        let table = [
            ("https://a.b/charts", "x-1.tgz", "https://a.b/charts/x-1.tgz"),
            ("https://a.b/charts/", "sub/x-1.tgz", "https://a.b/charts/sub/x-1.tgz"),
            ("https://a.b", "index.yaml", "https://a.b/index.yaml"),
            ("https://a.b/charts?token=t", "index.yaml", "https://a.b/charts/index.yaml?token=t"),
            ("https://a.b/charts", "https://c.d/x-1.tgz", "https://c.d/x-1.tgz"),
            ("https://a.b/charts", "/x-1+m.tgz", "https://a.b/x-1+m.tgz"),
        ];
        for (base, reference, expected) in table {
            assert_eq!(resolve(base, reference).unwrap(), expected);
        }
    }

    #[test]
    fn credentials_stay_with_scheme_host_and_port() {
        assert!(same_origin("https://a.b/x", "https://A.b:443/y"));
        assert!(!same_origin("https://a.b/x", "http://a.b/x"));
        assert!(!same_origin("https://a.b/x", "https://a.b:444/x"));
        assert!(!same_origin("https://a.b/x", "https://a.b.c/x"));
        assert!(!same_origin("x", "x"));
    }

    #[test]
    fn links_are_equal_when_they_mean_the_same() {
        assert!(equal("https://a.b", "https://a.b/"));
        assert!(equal("https://a.b/c/", "https://a.b/./c"));
        assert!(!equal("https://a.b/c", "https://a.b/d"));
    }

    #[test]
    fn a_password_in_a_link_is_not_shown() {
        assert_eq!(shown("https://u:secret@a.b/x@y"), "https://u:xxxxx@a.b/x@y");
        assert_eq!(shown("https://a.b/u:v@x"), "https://a.b/u:v@x");
        assert_eq!(file_name("https://a.b/x-1.0.0%2Bm.tgz?t"), "x-1.0.0+m.tgz");
    }
}

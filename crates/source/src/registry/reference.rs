//! `registry/repository:tag@digest`, as oras-go and Helm read it.

use crate::{SourceError, fail};
use regex::Regex;
use std::fmt;
use std::sync::LazyLock;

static REPOSITORY: LazyLock<Regex> = LazyLock::new(|| {
    let part = "[a-z0-9]+(?:(?:[._]|__|-*)[a-z0-9]+)*";
    Regex::new(&format!("^{part}(?:/{part})*$")).expect("a constant that the tests compile")
});
static TAG: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}$").expect("a constant that the tests compile"));

/// A reference to a chart in a registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    /// Host, with a port if it has one.
    pub registry: String,
    /// The path in the registry.
    pub repository: String,
    /// The tag, with `_` for the `+` of versions, or nothing.
    pub tag: String,
    /// The manifest's digest, or nothing.
    pub digest: String,
}

impl Reference {
    /// Reads a reference, with or without `oci://`.
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let invalid = |what: String| SourceError(format!("invalid reference: {what}"));
        let text = text.strip_prefix("oci://").unwrap_or(text);
        let (text, digest) = text.rsplit_once('@').map_or((text, ""), |(t, d)| (t, d));
        let Some((registry, path)) = text.split_once('/') else {
            return Err(invalid("missing registry or repository".into()));
        };
        let (repository, tag) = path.split_once(':').unwrap_or((path, ""));
        let tag = tag.replace('+', "_");
        let host = fluent_uri::UriRef::parse(format!("//{registry}"))
            .is_ok_and(|u| u.authority().is_some_and(|a| a.userinfo().is_none() && !a.host().is_empty()));
        if !host || registry.contains(['?', '#', '@']) {
            return Err(invalid(format!("invalid registry {registry:?}")));
        }
        if !REPOSITORY.is_match(repository) {
            return Err(invalid(format!("invalid repository {repository:?}")));
        }
        if !tag.is_empty() && !TAG.is_match(&tag) {
            return Err(invalid(format!("invalid tag {tag:?}")));
        }
        let sum = digest.strip_prefix("sha256:").unwrap_or_default();
        let lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if !digest.is_empty() && (sum.len() != 64 || !sum.bytes().all(lower)) {
            return fail(format!(
                "invalid reference: invalid digest {digest:?}: a digest is sha256: and 64 hexadecimal digits"
            ));
        }
        let (registry, repository, digest) = (registry.into(), repository.into(), digest.into());
        Ok(Self { registry, repository, tag, digest })
    }

    /// The host to ask.
    pub fn host(&self) -> &str {
        if self.registry == "docker.io" { "registry-1.docker.io" } else { &self.registry }
    }

    /// The reference to request a manifest by: the digest if there is one, since it cannot change.
    pub fn name(&self) -> &str {
        match (self.digest.as_str(), self.tag.as_str()) {
            ("", "") => "latest",
            ("", tag) => tag,
            (digest, _) => digest,
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        match (self.tag.as_str(), self.digest.as_str()) {
            ("", digest) => write!(f, "@{digest}"),
            (tag, _) => write!(f, ":{tag}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Reference;

    #[test]
    fn tags_digests_and_ports_are_distinguished() {
        let sum = "a".repeat(64);
        let table = [
            ("oci://a.b/c", "a.b", "c", "", ""),
            ("a.b:5000/c/d:1.0.0+m", "a.b:5000", "c/d", "1.0.0_m", ""),
            (&format!("oci://a.b/c@sha256:{sum}"), "a.b", "c", "", &format!("sha256:{sum}")),
            (&format!("oci://a.b/c:1@sha256:{sum}"), "a.b", "c", "1", &format!("sha256:{sum}")),
        ];
        for (text, registry, repository, tag, digest) in table {
            let r = Reference::parse(text).unwrap();
            assert_eq!((&*r.registry, &*r.repository, &*r.tag, &*r.digest), (registry, repository, tag, digest));
        }
    }

    #[test]
    fn what_is_no_reference_is_refused_before_anything_is_asked() {
        let message = |text: &str| Reference::parse(text).unwrap_err().0;
        assert_eq!(message("oci://a.b"), "invalid reference: missing registry or repository");
        assert_eq!(message("a.b/C"), "invalid reference: invalid repository \"C\"");
        assert_eq!(message("a.b/c:-"), "invalid reference: invalid tag \"-\"");
        assert_eq!(message("u:p@a.b/c"), "invalid reference: missing registry or repository");
        assert!(message("a.b/c@sha256:1").starts_with("invalid reference: invalid digest"));
        assert_eq!(message("a.b/../c"), "invalid reference: invalid repository \"../c\"");
    }
}

//! The name of an image: `[REGISTRY/]REPOSITORY[:TAG]`, as Docker reads it (`distribution/reference`).

use super::{ImageError, fail};
use regex::Regex;
use std::fmt;
use std::sync::LazyLock;

static REGISTRY: LazyLock<Regex> = LazyLock::new(|| {
    let part = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    Regex::new(&format!(r"^(?:{part}(?:\.{part})*|\[[a-fA-F0-9:]+\])(?::[0-9]{{1,5}})?$"))
        .expect("a constant that the tests compile")
});
static REPOSITORY: LazyLock<Regex> = LazyLock::new(|| {
    let part = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
    Regex::new(&format!("^{part}(?:/{part})*$")).expect("a constant that the tests compile")
});
static TAG: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("^[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}$").expect("a constant that the tests compile"));
/// The longest registry and repository together, which is Docker's limit.
const LIMIT: usize = 255;

/// The name of an image, with everything that Docker adds to a short one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName {
    /// Host, with a port if it has one.
    pub registry: String,
    /// The path in the registry.
    pub repository: String,
    pub tag: String,
}

impl ImageName {
    /// Reads a name. Without a registry it is Docker's, without a tag `latest`.
    ///
    /// # Errors
    /// If it is not a name of an image, or has a digest.
    pub fn parse(text: &str) -> Result<Self, ImageError> {
        let text = text.strip_prefix("docker://").or_else(|| text.strip_prefix("oci://")).unwrap_or(text);
        let refuse = |why: &str| fail(format!("{text:?} is not a name of an image: {why}"));
        if text.contains('@') {
            return refuse("its digest follows from its content, so you cannot give it");
        }
        let (path, tag) = match text.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, tag),
            _ => (text, "latest"),
        };
        let host = |first: &str| first.contains(['.', ':']) || first == "localhost" || first != first.to_lowercase();
        let (registry, repository) = match path.split_once('/') {
            Some((first, rest)) if host(first) => (first, rest.to_owned()),
            Some(_) => ("docker.io", path.to_owned()),
            None => ("docker.io", format!("library/{path}")),
        };
        if !REGISTRY.is_match(registry) {
            return refuse("its registry is not a host");
        }
        if !REPOSITORY.is_match(&repository) {
            return refuse("a repository has lower-case letters, digits, and -, _ or . between them");
        }
        if !TAG.is_match(tag) {
            return refuse("a tag has up to 128 letters, digits, -, _ and .");
        }
        if registry.len() + repository.len() >= LIMIT {
            return refuse("it is longer than 255 characters");
        }
        Ok(Self { registry: registry.into(), repository, tag: tag.into() })
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.registry, self.repository, self.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::ImageName;

    #[test]
    fn short_names_are_read_as_docker_reads_them() {
        for (text, whole) in [
            ("controller", "docker.io/library/controller:latest"),
            ("a/b:1", "docker.io/a/b:1"),
            ("localhost/b:1", "localhost/b:1"),
            ("localhost:5000/b", "localhost:5000/b:latest"),
            ("127.0.0.1:5000/a/b:v1.0", "127.0.0.1:5000/a/b:v1.0"),
            ("[::1]:5000/b:1", "[::1]:5000/b:1"),
            ("example.com/a/b-c__d.e:1", "example.com/a/b-c__d.e:1"),
        ] {
            assert_eq!(ImageName::parse(text).unwrap().to_string(), whole);
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in [
            "",
            ":1",
            "a/",
            "/a",
            "A",
            "a/B",
            "a:",
            "a:-",
            "a:1+2",
            "u:p@a.b/c",
            "a.b/../c",
            "a b",
            "a\n",
            "a..b/c/d",
            "-a.b/c",
            "a.b/c@sha256:0",
        ] {
            assert!(ImageName::parse(text).is_err(), "{text}");
        }
        assert!(ImageName::parse(&"a".repeat(300)).is_err());
    }
}

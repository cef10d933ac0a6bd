//! `.helmignore`: which files of a chart directory are not part of the chart.

use super::pattern::{self, BadPattern};

/// The rules of one `.helmignore`, in their order.
#[derive(Debug, Default)]
pub struct Rules(Vec<Rule>);

#[derive(Debug)]
enum Pattern {
    /// A text without special characters.
    Literal(String),
    /// `*` and a text: what most rules look like.
    Suffix(String),
    /// Anything else.
    Other(String),
}

impl Pattern {
    fn new(text: &str, whole_path: bool) -> Self {
        let is_plain = |text: &str| !text.contains(['*', '?', '[', '\\']);
        match text.strip_prefix('*') {
            _ if is_plain(text) => Self::Literal(text.into()),
            // In a whole path `*` stops at a `/`.
            Some(suffix) if is_plain(suffix) && !whole_path => Self::Suffix(suffix.into()),
            _ => Self::Other(text.into()),
        }
    }

    fn fits(&self, subject: &str) -> bool {
        match self {
            Self::Literal(text) => subject == text,
            Self::Suffix(text) => subject.ends_with(text.as_str()),
            Self::Other(pattern) => pattern::matches(pattern, subject).unwrap_or(false),
        }
    }
}

#[derive(Debug)]
struct Rule {
    pattern: Pattern,
    negate: bool,
    only_directories: bool,
    /// Without a `/` inside, a pattern is compared with the last element of the path only.
    whole_path: bool,
}

/// A rule that Helm refuses.
#[derive(Debug, thiserror::Error)]
pub enum IgnoreError {
    /// `**` is not supported.
    #[error("double-star (**) syntax is not supported")]
    DoubleStar,
    /// The pattern does not compile.
    #[error(transparent)]
    Pattern(#[from] BadPattern),
}

impl Rules {
    /// Parses the file. Helm's own rule, dot files in `templates/`, is added at the end.
    pub fn parse(text: &[u8]) -> Result<Self, IgnoreError> {
        let text = String::from_utf8_lossy(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)).into_owned();
        let mut rules = Self::default();
        for line in text.lines().chain(["templates/.?*"]) {
            rules.add(line.trim())?;
        }
        Ok(rules)
    }

    fn add(&mut self, line: &str) -> Result<(), IgnoreError> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line.contains("**") {
            return Err(IgnoreError::DoubleStar);
        }
        pattern::matches(line, "abc")?;
        let (negate, rest) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let (only_directories, rest) = rest.strip_suffix('/').map_or((false, rest), |rest| (true, rest));
        let (whole_path, rest) = rest.strip_prefix('/').map_or((rest.contains('/'), rest), |rest| (true, rest));
        self.0.push(Rule { pattern: Pattern::new(rest, whole_path), negate, only_directories, whole_path });
        Ok(())
    }

    /// Whether the path (relative to the chart, with `/`) is left out. The first rule that decides wins; a negated
    /// rule leaves out everything that it does *not* match, as in Helm.
    pub fn ignores(&self, path: &str, is_directory: bool) -> bool {
        let base = path.rsplit('/').next().unwrap_or(path);
        for rule in &self.0 {
            let hit = rule.pattern.fits(if rule.whole_path { path } else { base });
            let applies = !rule.only_directories || is_directory;
            match (rule.negate, applies, hit) {
                (true, false, _) | (true, true, false) | (false, true, true) => return true,
                _ => {}
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::Rules;

    #[test]
    fn rules_decide_as_in_helm() {
        for (rules, path, directory, want) in [
            ("*.bak", "a/b.bak", false, true),
            ("/a.txt", "a.txt", false, true),
            ("/a.txt", "b/a.txt", false, false),
            ("docs/", "docs", true, true),
            ("docs/", "docs", false, false),
            ("a/*.txt", "a/b.txt", false, true),
            ("a/*.txt", "c/a/b.txt", false, false),
            ("!*.yaml", "a.txt", false, true),
            ("!*.yaml", "a.yaml", false, false),
            ("# *.txt", "a.txt", false, false),
            ("", "templates/.hidden", false, true),
        ] {
            assert_eq!(Rules::parse(rules.as_bytes()).unwrap().ignores(path, directory), want, "{rules} {path}");
        }
    }

    #[test]
    fn a_double_star_is_refused() {
        assert!(Rules::parse(b"a/**/b").is_err());
    }
}

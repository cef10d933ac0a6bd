//! Patterns of `.Files.Glob`, as gobwas/glob reads them with `/` as separator.

use regex::Regex;

/// A compiled pattern: `*` and `?` stop at `/`, `**` does not, `[a-c]` and `[!a-c]` are classes, `{a,b}` alternatives.
pub struct Glob(Regex);

impl Glob {
    /// Compiles a pattern. One that is malformed matches everything, as in Helm.
    pub fn new(pattern: &str) -> Self {
        let regex = translate(pattern).and_then(|text| Regex::new(&text).ok());
        Self(regex.unwrap_or_else(|| Regex::new("").expect("the pattern is constant")))
    }

    /// Whether the whole name fits.
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

fn translate(pattern: &str) -> Option<String> {
    let mut regex = String::from(r"\A(?s:");
    let mut chars = pattern.chars().peekable();
    let mut depth = 0;
    while let Some(c) = chars.next() {
        match c {
            '*' if chars.peek() == Some(&'*') => {
                while chars.next_if_eq(&'*').is_some() {}
                regex.push_str(".*");
            }
            '*' => regex.push_str("[^/]*"),
            '?' => regex.push_str("[^/]"),
            '\\' => regex.push_str(&regex::escape(&chars.next()?.to_string())),
            '{' => {
                depth += 1;
                regex.push_str("(?:");
            }
            '}' if depth > 0 => {
                depth -= 1;
                regex.push(')');
            }
            ',' if depth > 0 => regex.push('|'),
            '[' => {
                regex.push('[');
                if chars.next_if_eq(&'!').is_some() {
                    regex.push('^');
                }
                loop {
                    match chars.next()? {
                        ']' => break,
                        '-' => regex.push('-'),
                        '\\' => regex.push_str(&regex::escape(&chars.next()?.to_string())),
                        c => regex.push_str(&regex::escape(&c.to_string())),
                    }
                }
                regex.push(']');
            }
            c => regex.push_str(&regex::escape(&c.to_string())),
        }
    }
    if depth > 0 {
        return None;
    }
    regex.push_str(r")\z");
    Some(regex)
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, want) in [
            ("files/*.conf", "files/a.conf", true),
            ("files/*.conf", "files/b/a.conf", false),
            ("files/**.conf", "files/b/a.conf", true),
            ("**", "a/b/c", true),
            ("conf/{a,b}.y?ml", "conf/b.yaml", true),
            ("conf/{a,b}.yaml", "conf/c.yaml", false),
            ("[!a]x", "bx", true),
            ("[a-c]x", "dx", false),
            ("a+b", "a+b", true),
            ("a", "ab", false),
        ] {
            assert_eq!(Glob::new(pattern).matches(name), want, "{pattern} {name}");
        }
    }

    #[test]
    fn a_malformed_pattern_matches_everything() {
        assert!(Glob::new("a{b").matches("anything"));
        assert!(Glob::new("[a").matches("anything"));
    }
}

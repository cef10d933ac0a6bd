//! Patterns of `.Files.Glob`: gobwas/glob with `/` as the separator.
//!
//! `*` and `?` stop at `/`, `**` does not; `[abc]`, `[a-z]`, `[!a]` and `{a,b}` are known; `\` takes the next character as
//! it is. Helm uses `**` for an invalid pattern.

use regex::{Regex, RegexBuilder};

/// Bytes of a compiled pattern, and of the state of a search.
const MAX_SIZE: usize = 1 << 20;

/// A pattern, for matching more than one path.
pub struct Glob(Kind);

enum Kind {
    /// Texts and stars: what nearly all patterns are made of, and cheap to make.
    Simple(Vec<Piece>),
    Regex(Regex),
}

enum Piece {
    Text(String),
    Star,
    DoubleStar,
}

impl Glob {
    /// Whether a path matches.
    pub fn is_match(&self, path: &str) -> bool {
        match &self.0 {
            Kind::Simple(pieces) => is_simple_match(pieces, path.as_bytes()),
            Kind::Regex(regex) => regex.is_match(path),
        }
    }
}

/// Follows all places at once that the pieces so far may have reached.
fn is_simple_match(pieces: &[Piece], path: &[u8]) -> bool {
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    for piece in pieces {
        let mut next = vec![false; path.len() + 1];
        let mut inside = false;
        for (at, from) in reached.iter().enumerate() {
            match piece {
                Piece::Text(text) if *from && path[at..].starts_with(text.as_bytes()) => next[at + text.len()] = true,
                Piece::Text(_) => {}
                Piece::Star | Piece::DoubleStar => {
                    inside |= from;
                    next[at] = inside;
                    inside &= matches!(piece, Piece::DoubleStar) || path.get(at) != Some(&b'/');
                }
            }
        }
        reached = next;
    }
    reached[path.len()]
}

fn simple(pattern: &str) -> Option<Vec<Piece>> {
    if pattern.contains(['?', '\\', '[', ']', '{', '}']) {
        return None;
    }
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        let text = &rest[..rest.find('*').unwrap_or(rest.len())];
        if !text.is_empty() {
            pieces.push(Piece::Text(text.to_owned()));
        }
        let after = rest[text.len()..].trim_start_matches('*');
        match rest.len() - text.len() - after.len() {
            0 => {}
            1 => pieces.push(Piece::Star),
            _ => pieces.push(Piece::DoubleStar),
        }
        rest = after;
    }
    Some(pieces)
}

/// Makes a pattern ready; `None` if it is not valid.
pub fn compile(pattern: &str) -> Option<Glob> {
    match simple(pattern) {
        Some(pieces) => Some(Glob(Kind::Simple(pieces))),
        None => regex(pattern).map(|regex| Glob(Kind::Regex(regex))),
    }
}

fn regex(pattern: &str) -> Option<Regex> {
    let mut out = String::from(r"(?s)\A(?:");
    let mut rest = pattern.chars().peekable();
    let mut groups = 0usize;
    while let Some(c) = rest.next() {
        match c {
            '*' => {
                let mut double = false;
                while rest.next_if_eq(&'*').is_some() {
                    double = true;
                }
                out.push_str(if double { ".*" } else { "[^/]*" });
            }
            '?' => out.push_str("[^/]"),
            '\\' => out.push_str(&regex::escape(&rest.next()?.to_string())),
            '[' => class(&mut rest, &mut out)?,
            '{' => {
                groups += 1;
                out.push_str("(?:");
            }
            '}' if groups > 0 => {
                groups -= 1;
                out.push(')');
            }
            ',' if groups > 0 => out.push('|'),
            ']' | '}' => return None,
            c => out.push_str(&regex::escape(&c.to_string())),
        }
    }
    if groups > 0 {
        return None;
    }
    out.push_str(r")\z");
    RegexBuilder::new(&out).size_limit(MAX_SIZE).dfa_size_limit(MAX_SIZE).build().ok()
}

/// A list of characters or one range.
fn class(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) -> Option<()> {
    let not = if rest.next_if_eq(&'!').is_some() { "^" } else { "" };
    let mut members = Vec::new();
    loop {
        match rest.next()? {
            ']' => break,
            '\\' => members.push((rest.next()?, false)),
            c => members.push((c, c == '-')),
        }
    }
    let shown = |c: char| regex::escape(&c.to_string());
    match members.as_slice() {
        [(low, false), (_, true), (high, _)] if low <= high => {
            out.extend(["[", not, &shown(*low), "-", &shown(*high), "]"]);
        }
        [] | [(_, false), (_, true), _] => return None,
        list => {
            out.push('[');
            out.push_str(not);
            for (c, _) in list {
                out.push_str(&shown(*c));
            }
            out.push(']');
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::{compile, regex};

    #[test]
    fn the_cheap_way_agrees_with_the_regular_expression() {
        let patterns =
            ["", "*", "**", "a", "a/*", "a/**", "**.yaml", "*.yaml", "a*b*c", "*/*", "**/b", "a***c", "*a*", "/*"];
        let paths =
            ["", "a", "b", "a/b", "a/b/c.yaml", "x.yaml", "a/x.yaml", "abc", "aXbXc", "a/b/c", "/a", "aa", "yaml"];
        for pattern in patterns {
            for path in paths {
                let want = regex(pattern).unwrap().is_match(path);
                assert_eq!(compile(pattern).unwrap().is_match(path), want, "{pattern} {path}");
            }
        }
    }
}

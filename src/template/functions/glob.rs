//! Patterns of `.Files.Glob`: gobwas/glob with `/` as the separator.

use regex::Regex;

/// Whether a path matches a pattern; `None` if the pattern is not valid (Helm takes `**` then).
///
/// `*` and `?` stop at `/`, `**` does not; `[abc]`, `[a-z]`, `[!a]` and `{a,b}` are known; `\` takes the next
/// character as it is.
pub fn glob_match(pattern: &str, path: &str) -> Option<bool> {
    Some(compile(pattern)?.is_match(path))
}

/// A pattern as a regular expression, for matching more than one path.
pub fn compile(pattern: &str) -> Option<Regex> {
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
    Regex::new(&out).ok()
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
        [] => return None,
        [(low, false), (_, true), (high, _)] if low <= high => {
            out.push_str(&format!("[{not}{}-{}]", shown(*low), shown(*high)));
        }
        [(_, false), (_, true), _] => return None,
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

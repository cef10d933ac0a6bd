//! Shell patterns as Go's `path/filepath.Match` reads them: `*`, `?`, `[a-z]`, `[^a]` and `\`; `*` stops at `/`.

/// A pattern that Go would not compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("syntax error in pattern")]
pub struct BadPattern;

/// Whether the whole of `name` matches `pattern`.
pub fn matches(pattern: &str, name: &str) -> Result<bool, BadPattern> {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    check(&pattern)?;
    Ok(match_from(&pattern, &name))
}

/// Go reports a malformed pattern only when it reaches the malformed part. Charts see no difference,
/// because Helm compiles each pattern against a probe first.
fn check(pattern: &[char]) -> Result<(), BadPattern> {
    let mut at = 0;
    while at < pattern.len() {
        match pattern[at] {
            '\\' if at + 1 == pattern.len() => return Err(BadPattern),
            '\\' => at += 2,
            '[' => at = class(pattern, at, None).ok_or(BadPattern)?.1,
            _ => at += 1,
        }
    }
    Ok(())
}

/// Reads the class that opens at `at`: whether it holds `c`, and the position after its `]`.
fn class(pattern: &[char], at: usize, c: Option<char>) -> Option<(bool, usize)> {
    let mut i = at + 1;
    let negated = pattern.get(i) == Some(&'^');
    if negated {
        i += 1;
    }
    let mut found = false;
    let mut ranges = 0;
    loop {
        if ranges > 0 && *pattern.get(i)? == ']' {
            return Some((found != negated, i + 1));
        }
        let low = class_char(pattern, &mut i)?;
        let mut high = low;
        if *pattern.get(i)? == '-' {
            i += 1;
            high = class_char(pattern, &mut i)?;
        }
        found |= c.is_some_and(|c| low <= c && c <= high);
        ranges += 1;
    }
}

fn class_char(pattern: &[char], i: &mut usize) -> Option<char> {
    let mut c = *pattern.get(*i)?;
    if c == '-' || c == ']' {
        return None;
    }
    if c == '\\' {
        *i += 1;
        c = *pattern.get(*i)?;
    }
    *i += 1;
    Some(c)
}

/// Backtracks only to the last star, so the time is bounded by the product of the lengths.
fn match_from(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() || p < pattern.len() {
        let step = match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some('?') if n < name.len() && name[n] != '/' => Some(p + 1),
            Some('[') if n < name.len() => class(pattern, p, Some(name[n])).and_then(|(hit, end)| hit.then_some(end)),
            Some('\\') if n < name.len() && pattern.get(p + 1) == Some(&name[n]) => Some(p + 2),
            Some(c) if !matches!(c, '?' | '[' | '\\') && n < name.len() && *c == name[n] => Some(p + 1),
            _ => None,
        };
        match (step, star) {
            (Some(next), _) => {
                p = next;
                n += 1;
            }
            (None, Some((sp, sn))) if sn < name.len() && name[sn] != '/' => {
                star = Some((sp, sn + 1));
                p = sp + 1;
                n = sn + 1;
            }
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, name, want) in [
            ("abc", "abc", true),
            ("*", "abc", true),
            ("*c", "abc", true),
            ("a*", "a/b", false),
            ("a*/b", "abc/b", true),
            ("a*b*c*d*e*/f", "axbxcxdxe/f", true),
            ("a*b?c*x", "abxbbxdbxebxczzx", true),
            ("a*b?c*x", "abxbbxdbxebxczzy", false),
            ("ab[c]", "abc", true),
            ("ab[b-d]", "abc", true),
            ("ab[^c]", "abc", false),
            ("ab[^b-d]", "abe", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "ab", false),
            ("a?b", "a☺b", true),
            ("a?b", "a/b", false),
            ("*x", "xxx", true),
            ("templates/.?*", "templates/.x", true),
            ("templates/.?*", "templates/.", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern, name), Ok(want), "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_that_go_refuses_is_refused() {
        for pattern in ["[", "[^", "[a", "[a-", "[-x]", "a\\", "[]a]"] {
            assert!(matches(pattern, "a").is_err(), "{pattern}");
        }
    }
}

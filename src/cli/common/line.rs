//! Texts for a terminal. Tenants write names, annotations and records, so no control character of these reaches a terminal.

/// A text in one line, in which control characters, and characters that change the direction of a line, are escaped.
pub fn line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => line.push(' '),
            '\r' => {}
            c if is_unsafe(c) => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    line
}

/// A text of several lines, each as [`line`] writes it.
pub fn lines(text: &str) -> String {
    text.split('\n').map(|text| line(text).trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::{line, lines};

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(line("a\u{1b}[2Jb\u{202e}c\u{9b}d\r\ne\u{7f}"), "a\\u{1b}[2Jb\\u{202e}c\\u{9b}d e\\u{7f}");
        assert_eq!(lines("a \nb\u{1b}"), "a\nb\\u{1b}");
        assert_eq!(line("größer ✓"), "größer ✓");
    }
}

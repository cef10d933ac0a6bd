//! What the commands for people print: tables, JSON and YAML. Names, annotations and records are written by tenants, so no control
//! character of theirs reaches a terminal.

use serde_json::Value;

use super::CliError;
use super::chart_path::print;
use crate::template::value::Value as Yaml;
use crate::template::yaml;

/// The longest cell of a table in characters; a tenant's text may be much longer.
const LONGEST_CELL: usize = 200;

/// `-o`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For people, with more columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// The flag `-o`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct OutputArgs {
    /// How to print it.
    #[arg(short, long, value_enum, default_value = "text", hide_default_value = true, value_name = "FORMAT")]
    pub output: Format,
}

impl OutputArgs {
    /// Prints a document, if one is asked for. Returns whether it did.
    pub fn print(self, document: &Value) -> Result<bool, CliError> {
        match self.output {
            Format::Text | Format::Wide => return Ok(false),
            Format::Json => print(&(serde_json::to_string_pretty(document).map_err(CliError::new)? + "\n")),
            Format::Yaml => print(&as_yaml(document)?),
        }
        Ok(true)
    }
}

/// A document as YAML.
pub fn as_yaml(document: &Value) -> Result<String, CliError> {
    let text = yaml::emit(&Yaml::from(document)).map_err(CliError::new)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

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

/// Rows in columns, the first row being the head. Cells are cut where they are very long.
pub fn table(rows: &[Vec<String>]) -> String {
    let cell = |text: &String| {
        let text = line(text);
        match text.char_indices().nth(LONGEST_CELL) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    };
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let width = |text: &str| text.chars().count();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|n| rows.iter().filter_map(|row| row.get(n)).map(|cell| width(cell)).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("   ").trim_end());
        text.push('\n');
    }
    text
}

/// How long ago something was, as kubectl writes it: in the largest unit, with the next one while the number is small.
pub fn age(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let with = |unit: i64, word: char, next: i64, small: char| {
        let rest = seconds % unit / next;
        if rest == 0 { format!("{}{word}", seconds / unit) } else { format!("{}{word}{rest}{small}", seconds / unit) }
    };
    match seconds.max(0) {
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => with(MINUTE, 'm', 1, 's'),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => with(HOUR, 'h', MINUTE, 'm'),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => with(DAY, 'd', HOUR, 'h'),
        s => format!("{}d", s / DAY),
    }
}

/// The age of something that was created then (RFC 3339); `<unknown>` for a text that is no time.
pub fn age_of(created: &str) -> String {
    let at = created.parse::<jiff::Timestamp>().ok();
    at.map_or_else(|| "<unknown>".to_owned(), |at| age(jiff::Timestamp::now().as_second() - at.as_second()))
}

#[cfg(test)]
mod tests {
    use super::{age, line, lines, table};

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(line("a\u{1b}[2Jb\u{202e}c\u{9b}d\r\ne\u{7f}"), "a\\u{1b}[2Jb\\u{202e}c\\u{9b}d e\\u{7f}");
        assert_eq!(lines("a \nb\u{1b}"), "a\nb\\u{1b}");
        assert_eq!(line("größer ✓"), "größer ✓");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_long_cells_are_cut() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(table(&[row(["NAME", "X"]), row(["ä", "longer"])]), "NAME   X\nä      longer\n");
        assert!(table(&[row(["a", &"x".repeat(10_000)])]).chars().count() < 300);
    }

    #[test]
    fn ages_are_those_of_kubectl() {
        let table = [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (3_599, "59m"),
            (14_460, "4h1m"),
            (100_000, "27h"),
            (200_000, "2d7h"),
            (900_000, "10d"),
        ];
        for (seconds, expected) in table {
            assert_eq!(age(seconds), expected);
        }
    }
}

//! Tables, and the ages in their cells.

use super::line::line;

/// The longest cell of a table in characters; a tenant's text may be much longer.
const LONGEST_CELL: usize = 200;

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

/// The age of something that was created then (RFC 3339); `<unknown>` for a text that does not parse as a time.
pub fn age_of(created: &str) -> String {
    let at = created.parse::<jiff::Timestamp>().ok();
    at.map_or_else(|| "<unknown>".to_owned(), |at| age(jiff::Timestamp::now().as_second() - at.as_second()))
}

#[cfg(test)]
mod tests {
    use super::{age, table};

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

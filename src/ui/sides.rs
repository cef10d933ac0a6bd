//! A unified diff as two columns.

use serde::Serialize;

/// The lines of a diff that a page shows.
pub const MOST_LINES: usize = 2000;

/// A row of a side-by-side difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SideRow {
    /// `same`, `changed` or `place`.
    pub mark: &'static str,
    /// The line before; `None` if there is none.
    pub before: Option<String>,
    /// The line after; `None` if there is none.
    pub after: Option<String>,
}

/// The rows of a unified diff, as `tillerman diff -o json` has it, and how many of its lines are left out.
pub fn sides(diff: &str) -> (Vec<SideRow>, usize) {
    let mut rows = Vec::new();
    let mut lines = diff.lines();
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    for line in lines.by_ref().take(MOST_LINES) {
        let text = line.get(1..).unwrap_or_default().to_owned();
        match line.chars().next() {
            Some('-') if added.is_empty() => removed.push(text),
            Some('-') => {
                pair(&mut removed, &mut added, &mut rows);
                removed.push(text);
            }
            Some('+') => added.push(text),
            Some('@') => {
                pair(&mut removed, &mut added, &mut rows);
                rows.push(SideRow { mark: "place", before: Some(line.to_owned()), after: None });
            }
            _ => {
                pair(&mut removed, &mut added, &mut rows);
                rows.push(SideRow { mark: "same", before: Some(text.clone()), after: Some(text) });
            }
        }
    }
    pair(&mut removed, &mut added, &mut rows);
    (rows, lines.count())
}

/// Puts removed lines beside the added ones that follow them.
fn pair(removed: &mut Vec<String>, added: &mut Vec<String>, rows: &mut Vec<SideRow>) {
    let (mut before, mut after) = (removed.drain(..), added.drain(..));
    loop {
        match (before.next(), after.next()) {
            (None, None) => return,
            (before, after) => rows.push(SideRow { mark: "changed", before, after }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_LINES, SideRow, sides};

    #[test]
    fn a_removed_line_is_beside_the_line_that_replaces_it() {
        let row = |mark, before: Option<&str>, after: Option<&str>| SideRow {
            mark,
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
        };
        let diff = "@@ -1,4 +1,4 @@\n a: 1\n-b: 2\n-c: 3\n+b: 4\n d: 5\n+e: 6\n-f: 7";
        let expected = [
            row("place", Some("@@ -1,4 +1,4 @@"), None),
            row("same", Some("a: 1"), Some("a: 1")),
            row("changed", Some("b: 2"), Some("b: 4")),
            row("changed", Some("c: 3"), None),
            row("same", Some("d: 5"), Some("d: 5")),
            row("changed", None, Some("e: 6")),
            row("changed", Some("f: 7"), None),
        ];
        assert_eq!(sides(diff), (expected.to_vec(), 0));
        assert_eq!(sides(""), (vec![], 0));
    }

    #[test]
    fn the_lines_that_are_left_out_are_counted() {
        let (rows, left) = sides(&"+a\n".repeat(MOST_LINES + 7));
        assert_eq!((rows.len(), left), (MOST_LINES, 7));
    }
}

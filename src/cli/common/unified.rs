//! Two texts as a unified diff.

use diffy::{DiffOptions, HunkRange, Line};

/// Lines around a change.
const CONTEXT: usize = 3;

/// The largest product of the numbers of lines that are compared: larger parts are shown as removed and added whole.
const MAX_PAIRS: usize = 16 << 20;

/// The change of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It is in both texts.
    Same,
    /// Only in the first.
    Removed,
    /// Only in the second.
    Added,
    /// It gives the position of the lines after it.
    Place,
}

/// The lines of a unified diff without the two lines of names; empty for equal texts.
pub fn unified(before: &str, after: &str) -> Vec<(Mark, String)> {
    let (a, b): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let start = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let end = a[start..].iter().rev().zip(b[start..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (removed, added) = (&a[start..a.len() - end], &b[start..b.len() - end]);
    if removed.len().saturating_mul(added.len()) > MAX_PAIRS {
        let mut whole = vec![(Mark::Place, place((start + 1, removed.len()), (start + 1, added.len())))];
        whole.extend(removed.iter().map(|line| (Mark::Removed, format!("-{line}"))));
        whole.extend(added.iter().map(|line| (Mark::Added, format!("+{line}"))));
        return whole;
    }
    // Each line has an end, so that a text without a last one does not differ from one with it.
    let ended = |lines: &[&str]| lines.iter().flat_map(|line| [line, "\n"]).collect::<String>();
    let (before, after) = (ended(&a), ended(&b));
    let patch = DiffOptions::new().set_context_len(CONTEXT).create_patch(&before, &after);
    let mut shown = Vec::new();
    for hunk in patch.hunks() {
        let range = |range: HunkRange| (range.start(), range.len());
        shown.push((Mark::Place, place(range(hunk.old_range()), range(hunk.new_range()))));
        shown.extend(hunk.lines().iter().map(|line| {
            let (mark, sign, text) = match line {
                Line::Context(text) => (Mark::Same, ' ', text),
                Line::Delete(text) => (Mark::Removed, '-', text),
                Line::Insert(text) => (Mark::Added, '+', text),
            };
            (mark, format!("{sign}{}", text.trim_end_matches('\n')))
        }));
    }
    shown
}

/// The line with the first line and the number of lines of both parts.
fn place((old, olds): (usize, usize), (new, news): (usize, usize)) -> String {
    format!("@@ -{old},{olds} +{new},{news} @@")
}

#[cfg(test)]
mod tests {
    use super::unified;

    fn text(before: &str, after: &str) -> String {
        unified(before, after).into_iter().map(|(_, line)| line + "\n").collect()
    }

    #[test]
    fn changed_lines_are_shown_with_three_lines_around_them() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        assert_eq!(
            text(before, &before.replace('5', "five\n5.5")),
            "@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+5.5\n 6\n 7\n 8\n"
        );
        assert_eq!(text(before, before), "");
    }

    #[test]
    fn what_is_far_apart_has_places_of_its_own() {
        let before = (1..=20).map(|n| n.to_string()).collect::<Vec<_>>().join("\n") + "\n";
        let after = before.replacen("2\n", "two\n", 1).replacen("19\n", "", 1);
        let expected = "@@ -1,5 +1,5 @@\n 1\n-2\n+two\n 3\n 4\n 5\n@@ -16,5 +16,4 @@\n 16\n 17\n 18\n-19\n 20\n";
        assert_eq!(text(&before, &after), expected);
    }

    #[test]
    fn an_object_that_comes_or_goes_is_whole() {
        assert_eq!(text("", "a\nb\n"), "@@ -0,0 +1,2 @@\n+a\n+b\n");
        assert_eq!(text("a\n", ""), "@@ -1,1 +0,0 @@\n-a\n");
    }

    #[test]
    fn very_long_texts_are_not_compared_line_by_line() {
        let long = |word: &str| (0..5000).map(|n| format!("{word}{n}")).collect::<Vec<_>>().join("\n");
        assert_eq!(unified(&long("a"), &long("b")).len(), 10_001);
    }
}

//! Two texts as a unified diff.

use std::fmt::Write as _;

/// Lines around a change.
const CONTEXT: usize = 3;

/// The largest table of lines that is compared: a larger middle part is shown as removed and added whole.
const MAX_CELLS: usize = 16 << 20;

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
    hunks(&lines(&a, &b))
}

/// All lines of both texts, marked.
fn lines<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<(Mark, &'a str)> {
    let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let end = a[start..].iter().rev().zip(b[start..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (middle_a, middle_b) = (&a[start..a.len() - end], &b[start..b.len() - end]);
    let same = |lines: &[&'a str]| lines.iter().map(|line| (Mark::Same, *line)).collect::<Vec<_>>();
    let mut all = same(&a[..start]);
    all.extend(middle(middle_a, middle_b));
    all.extend(same(&a[a.len() - end..]));
    all
}

/// The lines of the parts that differ, with the longest common sequence of them unchanged.
fn middle<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<(Mark, &'a str)> {
    let mut all = Vec::with_capacity(a.len() + b.len());
    if a.len().saturating_mul(b.len()) > MAX_CELLS {
        all.extend(a.iter().map(|line| (Mark::Removed, *line)));
        all.extend(b.iter().map(|line| (Mark::Added, *line)));
        return all;
    }
    let width = b.len() + 1;
    let mut longest = vec![0_u32; (a.len() + 1) * width];
    for (i, one) in a.iter().enumerate().rev() {
        for (j, other) in b.iter().enumerate().rev() {
            longest[i * width + j] = if one == other {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            all.push((Mark::Same, a[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || (i < a.len() && longest[(i + 1) * width + j] >= longest[i * width + j + 1]) {
            all.push((Mark::Removed, a[i]));
            i += 1;
        } else {
            all.push((Mark::Added, b[j]));
            j += 1;
        }
    }
    all
}

/// The changed lines with those around them.
fn hunks(lines: &[(Mark, &str)]) -> Vec<(Mark, String)> {
    let mut shown = Vec::new();
    let is_near = |at: usize| {
        let around = at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(lines.len());
        lines[around].iter().any(|(mark, _)| *mark != Mark::Same)
    };
    let (mut old, mut new, mut at) = (1, 1, 0);
    while at < lines.len() {
        if !is_near(at) {
            (old, new, at) = (old + 1, new + 1, at + 1);
            continue;
        }
        let end = (at..lines.len()).find(|at| !is_near(*at)).unwrap_or(lines.len());
        let count = |without: Mark| lines[at..end].iter().filter(|(mark, _)| *mark != without).count();
        let (olds, news) = (count(Mark::Added), count(Mark::Removed));
        // As in diff, an empty part comes after the line before it.
        let place = |start: usize, count: usize| {
            let mut text = String::new();
            let _ = write!(text, "{},{count}", if count == 0 { start - 1 } else { start });
            text
        };
        shown.push((Mark::Place, format!("@@ -{} +{} @@", place(old, olds), place(new, news))));
        for (mark, line) in &lines[at..end] {
            let sign = match mark {
                Mark::Removed => '-',
                Mark::Added => '+',
                Mark::Same | Mark::Place => ' ',
            };
            shown.push((*mark, format!("{sign}{line}")));
        }
        (old, new, at) = (old + olds, new + news, end);
    }
    shown
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

//! The place in templates where something failed, and the missing name: the data for an explanation of an error.

use std::fmt;

/// A place in a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Location {
    /// The file, or `gotpl` for a text given to `tpl`.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 0 as Go counts it; unknown for errors of the parser.
    pub column: Option<usize>,
    /// The template that was being executed: a file's own path, or the name of a `define`. Empty when unknown.
    pub template: String,
    /// The source line, if it belongs to the chart.
    pub excerpt: Option<Excerpt>,
}

impl Location {
    /// A line of a file.
    pub fn line(file: &str, line: usize) -> Self {
        Self { file: file.into(), line, ..Self::default() }
    }
}

impl fmt::Display for Location {
    /// `FILE:LINE:COLUMN`, as Go writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        self.column.map_or(Ok(()), |column| write!(f, ":{column}"))
    }
}

/// A line of a template, and the part of it that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Excerpt {
    /// Number of the line, from 1. Of an expression of several lines it is the first one.
    pub line: usize,
    /// The line.
    pub text: String,
    /// Bytes of the line that failed; the whole text without surrounding blanks when nothing closer is known.
    pub range: std::ops::Range<usize>,
}

impl Excerpt {
    /// A part of a line: what of the range lies outside of the line is left out.
    pub fn new(line: usize, text: &str, range: std::ops::Range<usize>) -> Self {
        let text = text.trim_end();
        let floor = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let range = floor(range.start)..floor(range.end);
        Self { line, text: text.into(), range }
    }

    /// A whole line.
    pub fn whole(line: usize, text: &str) -> Self {
        let blank = text.len() - text.trim_start().len();
        Self::new(line, text, blank..text.len())
    }
}

/// The name that a template looked for and did not find. Only names of keys and the kinds of values, never a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// A key that a table does not have, or whose value is null.
    Key {
        /// The table, as the template writes it: `.Values.image`; empty for the dot of the place.
        table: String,
        /// The key.
        key: String,
        /// Whether the key is there, but null.
        is_null: bool,
        /// A key of the table that may be meant.
        nearest: Option<String>,
    },
    /// A value of which a field was wanted, and that has none.
    Table {
        /// The value, as the template writes it.
        path: String,
        /// The field that was wanted.
        field: String,
        /// The kind of the value: `a text`, `a number`, `a list`.
        is: &'static str,
    },
    /// A function.
    Function {
        /// The name that was called.
        name: String,
        /// A function that may be meant.
        nearest: Option<String>,
    },
    /// A template of an `include` or `template`.
    Template {
        /// The name that was called.
        name: String,
        /// A template that may be meant.
        nearest: Option<String>,
    },
}

/// The name that a misspelt one may mean: the one with the fewest edits, at most a third of its letters.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let limit = (name.chars().count() / 3).max(1);
    let lower = name.to_lowercase();
    let distance = |other: &str| {
        if other.to_lowercase() == lower { 0 } else { strsim::damerau_levenshtein(name, other) }
    };
    names
        .into_iter()
        .filter(|other| !other.is_empty() && *other != name && other.len().abs_diff(name.len()) <= limit)
        .map(|other| (distance(other), other))
        .filter(|(distance, other)| *distance <= limit && *distance < other.chars().count())
        .min()
        .map(|(_, other)| other.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Excerpt, nearest};

    #[test]
    fn the_nearest_name_has_few_edits_and_case_counts_least() {
        let keys = ["image", "images", "ingress", "Image", "replicaCount"];
        for (name, want) in [
            ("imge", Some("image")),
            ("IMAGE", Some("Image")),
            ("replicacount", Some("replicaCount")),
            ("replicsCuont", Some("replicaCount")),
            ("resources", None),
            ("x", None),
            ("image", Some("Image")),
        ] {
            assert_eq!(nearest(name, keys).as_deref(), want, "{name}");
        }
    }

    #[test]
    fn an_excerpt_stays_within_its_line() {
        let excerpt = Excerpt::new(3, "a: {{ ü }}\r", 6..40);
        assert_eq!((excerpt.text.as_str(), excerpt.range), ("a: {{ ü }}", 6..11));
        assert_eq!(Excerpt::whole(1, "  b: c").range, 2..6);
    }
}

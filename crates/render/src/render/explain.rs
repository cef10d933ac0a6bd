//! Explanations beside Helm's text: the lines, the way there, and hints.

use crate::template::go::Origins;
use crate::template::trace::{Excerpt, Location, Missing};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Details of a [`super::Diagnostic`], as data and as a text. They hold names of keys and lines of the chart, and no
/// value, but for [`Explanation::rendered`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The places that were being executed, from the rendered file inwards.
    pub trace: Vec<Location>,
    /// The name that the innermost place looked for and did not find.
    pub missing: Option<Missing>,
    /// Values that a schema does not allow, as paths of keys from the chart's own values: `["image", "tag"]`.
    pub violations: Vec<Vec<String>>,
    /// Rendered text that is not YAML. It may contain values of the user, so it is only for the user.
    pub rendered: Option<RenderedExcerpt>,
}

/// Lines of a rendered file around the one that is not YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenderedExcerpt {
    /// The file's name.
    pub file: String,
    /// The line in the rendered file, from 1.
    pub line: usize,
    /// Neighbours and the line itself, with their numbers. Of a Secret only keys are left.
    pub lines: Vec<(usize, String)>,
    /// The line of a template that it comes from, if known.
    pub origin: Option<Location>,
}

/// The template that each rendered file's text comes from; empty unless it was requested.
pub type FileOrigins = BTreeMap<String, Origins>;

/// Lines that are shown before and after a wrong line.
const NEIGHBOURS: usize = 3;
/// How many places at either end of a long way are shown.
const SHOWN_PLACES: usize = 6;
/// Characters of a line that are shown.
const WIDTH: usize = 140;

/// The messages of YAML parsers about the line before the one at which they stopped.
const ABOUT_THE_LINE_BEFORE: [&str; 5] = [
    "did not find expected key",
    "did not find expected '-' indicator",
    "did not find expected ',' or",
    "did not find expected node content",
    "did not find expected <document start>",
];

impl Explanation {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The text, for a terminal with or without colours; it ends with a line break unless it is empty.
    pub fn text(&self, colours: bool) -> String {
        let mut page = Page { out: String::new(), colours };
        if let Some(place) = self.trace.last() {
            page.place(place);
        }
        if self.trace.len() > 1 {
            page.way(&self.trace);
        }
        if let Some(rendered) = &self.rendered {
            page.rendered(rendered);
        }
        if let Some(missing) = &self.missing {
            page.hint(&hint(missing, &self.prefix()));
        }
        page.out
    }

    /// The keys of the values of the rendered file's chart in the values of the whole: `sub.` for a file
    /// of `web/charts/sub`.
    fn prefix(&self) -> String {
        let file = self.trace.first().map_or("", |place| place.file.as_str());
        let below = file.split_once("/templates/").map_or("", |(chart, _)| chart);
        below.split("/charts/").skip(1).fold(String::new(), |keys, chart| keys + chart + ".")
    }
}

/// The remedy for something that is missing.
fn hint(missing: &Missing, prefix: &str) -> String {
    match missing {
        Missing::Key { table, key, is_null, nearest } => {
            let of = if table.is_empty() { "the dot here".to_owned() } else { format!("`{table}`") };
            let mut text = match (is_null, nearest) {
                (true, _) => format!("in {of}, `{key}` is null"),
                (false, None) => format!("{of} has no `{key}`"),
                (false, Some(nearest)) => return format!("{of} has no `{key}`; did you mean `{nearest}`?"),
            };
            if let Some(path) = values_path(table) {
                let _ = write!(text, ": set `{prefix}{path}{key}` in the values, or test for it in the template");
            }
            text
        }
        Missing::Table { path, field, is } => {
            let of = if path.is_empty() { "the dot here" } else { &format!("`{path}`") };
            format!("{of} is {is}, but the template reads `{field}` of it, which only a table has")
        }
        Missing::Function { name, nearest } => {
            let meant = nearest.as_ref().map_or(String::new(), |name| format!("; did you mean `{name}`?"));
            format!("there is no function `{name}`{meant}")
        }
        Missing::Template { name, nearest } => {
            let meant = nearest.as_ref().map_or_else(
                || ": is a library chart missing in charts/?".to_owned(),
                |nearest| format!("; did you mean \"{nearest}\"?"),
            );
            format!("no template defines \"{name}\"{meant}")
        }
    }
}

/// The keys of a table below the values, each with a dot behind it; `None` if it is not part of the values.
fn values_path(table: &str) -> Option<String> {
    let below = ["$.Values", ".Values", "values"].iter().find_map(|root| table.strip_prefix(root))?;
    if below.is_empty() {
        return Some(String::new());
    }
    below.strip_prefix('.').map(|path| format!("{path}."))
}

struct Page {
    out: String,
    colours: bool,
}

impl Page {
    fn paint(&mut self, code: &str, text: &str) {
        if self.colours {
            let _ = write!(self.out, "\u{1b}[{code}m{text}\u{1b}[0m");
        } else {
            self.out.push_str(text);
        }
    }

    fn margin(&mut self, number: &str) {
        self.paint("1;34", &format!("{number:>5} | "));
    }

    fn place(&mut self, place: &Location) {
        self.paint("1;34", "  --> ");
        let _ = writeln!(self.out, "{}", shown_place(place));
        if let Some(excerpt) = &place.excerpt {
            self.excerpt(excerpt);
        }
    }

    fn excerpt(&mut self, excerpt: &Excerpt) {
        let (line, start, length) = window(excerpt);
        self.margin(&excerpt.line.to_string());
        let _ = writeln!(self.out, "{line}");
        self.margin("");
        let blank: String = line.chars().take(start).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        self.out.push_str(&blank);
        self.paint("1;31", &"^".repeat(length.max(1)));
        self.out.push('\n');
    }

    fn way(&mut self, trace: &[Location]) {
        self.paint("1;34", "  the way there:\n");
        let hidden = trace.len().saturating_sub(2 * SHOWN_PLACES);
        for (i, place) in trace.iter().enumerate() {
            if hidden > 0 && i == SHOWN_PLACES {
                let _ = writeln!(self.out, "    … {hidden} more");
            }
            if hidden > 0 && (SHOWN_PLACES..SHOWN_PLACES + hidden).contains(&i) {
                continue;
            }
            let expression = place.excerpt.as_ref().map_or("", |e| &e.text[e.range.clone()]);
            let shown = shown_place(place);
            let _ = writeln!(self.out, "    {shown}  {expression}");
        }
    }

    fn rendered(&mut self, rendered: &RenderedExcerpt) {
        self.paint("1;34", "  rendered ");
        let _ = writeln!(self.out, "{}, line {}:", rendered.file, rendered.line);
        for (number, line) in &rendered.lines {
            let mark = if *number == rendered.line { ">" } else { "" };
            let line: String = line.chars().take(WIDTH).collect();
            self.margin(&format!("{mark}{number}"));
            let _ = writeln!(self.out, "{line}");
        }
        if let Some(origin) = &rendered.origin {
            self.paint("1;34", "  which comes from\n");
            self.place(origin);
        }
    }

    fn hint(&mut self, text: &str) {
        self.paint("1;32", "  hint: ");
        let _ = writeln!(self.out, "{text}");
    }
}

/// `FILE:LINE:COLUMN`, the column from 1 as editors count, and the template's name.
fn shown_place(place: &Location) -> String {
    let Location { file, line, column, template, excerpt } = place;
    let (line, column) = match (excerpt, column) {
        (Some(excerpt), _) => (excerpt.line, Some(excerpt.range.start)),
        (None, _) => (*line, *column),
    };
    let mut text = if line == 0 { file.clone() } else { format!("{file}:{line}") };
    if let Some(column) = column {
        let _ = write!(text, ":{}", column + 1);
    }
    if file == "gotpl" {
        text.push_str(" (in a text given to tpl)");
    } else if !template.is_empty() && template != file {
        let _ = write!(text, " (in \"{template}\")");
    }
    text
}

/// A line that is not too wide, where in it the marked part starts, and that part's length; in characters.
fn window(excerpt: &Excerpt) -> (String, usize, usize) {
    let start = excerpt.text[..excerpt.range.start].chars().count();
    let length = excerpt.text[excerpt.range.clone()].chars().count();
    let total = excerpt.text.chars().count();
    if total <= WIDTH {
        return (excerpt.text.clone(), start, length);
    }
    let from = start.saturating_sub(WIDTH / 4);
    let mut line: String = excerpt.text.chars().skip(from).take(WIDTH).collect();
    let mut at = start - from;
    if from > 0 {
        line.insert(0, '…');
        at += 1;
    }
    if from + WIDTH < total {
        line.push('…');
    }
    (line, at, length.min(WIDTH - WIDTH / 4))
}

/// The paths that the text of violations names, with the keys of the subchart that each group is about.
pub fn violations(text: &str, root: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut chart: Option<&str> = None;
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("- at '") {
            let Some((pointer, _)) = rest.split_once("': ") else { continue };
            let keys = pointer.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~"));
            let path: Vec<String> = chart.map(str::to_owned).into_iter().chain(keys).collect();
            if !path.is_empty() && !found.contains(&path) {
                found.push(path);
            }
        } else if let Some(name) = line.strip_suffix(':') {
            chart = (name != root).then_some(name);
        }
    }
    found
}

/// The first rendered document that is not YAML: the line of it that the problem names.
pub fn rendered(problem: &str, files: &[(String, String)], origins: &FileOrigins) -> Option<RenderedExcerpt> {
    let (file, said) = problem.strip_prefix("YAML parse error on ")?.split_once(": ")?;
    let (_, text) = files.iter().find(|(name, _)| name == file)?;
    let document = super::order::split(text).into_iter().find(|d| super::order::head(d).is_err())?;
    let first = text[..document.as_ptr() as usize - text.as_ptr() as usize].matches('\n').count();
    let within = line_of(said)?.clamp(1, document.lines().count().max(1));
    let line = first + within;
    let hide = is_secret(text);
    let shown = |(i, text): (usize, &str)| (i + 1, if hide { without_value(text) } else { text.to_owned() });
    let lines = text.lines().enumerate().skip(line.saturating_sub(NEIGHBOURS + 1)).take(2 * NEIGHBOURS + 1).map(shown);
    let start = text.split_inclusive('\n').take(line - 1).map(str::len).sum::<usize>();
    let blank = text[start..].bytes().take_while(|b| *b == b' ').count();
    let origin = origins.get(file).and_then(|origins| origins.at(start + blank));
    Some(RenderedExcerpt { file: file.into(), line, lines: lines.collect(), origin })
}

/// The line, from 1, that a parser's text is about.
fn line_of(problem: &str) -> Option<usize> {
    let (_, rest) = problem.split_once("line ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    let behind = ABOUT_THE_LINE_BEFORE.iter().any(|text| problem.contains(text));
    digits.parse::<usize>().ok().map(|line| line + usize::from(behind))
}

fn is_secret(text: &str) -> bool {
    text.lines().any(|line| {
        let kind = line.trim_start().trim_start_matches("- ").strip_prefix("kind:");
        kind.is_some_and(|kind| kind.trim().trim_matches(['"', '\'']).starts_with("Secret"))
    })
}

/// A line of a Secret: its key, if it has one.
fn without_value(line: &str) -> String {
    let blank = line.len() - line.trim_start().len();
    match line.split_once(':') {
        Some((key, value)) if value.is_empty() || value.starts_with(' ') => {
            let hidden = if value.trim().is_empty() { "" } else { " (hidden)" };
            format!("{key}:{hidden}")
        }
        _ if line.trim().is_empty() || line.starts_with("---") => line.to_owned(),
        _ => format!("{}(hidden)", &line[..blank]),
    }
}

#[cfg(test)]
mod tests {
    use super::{Explanation, Missing, hint, is_secret, line_of, violations, without_value};
    use crate::template::trace::{Excerpt, Location};

    #[test]
    fn a_hint_names_the_key_where_it_would_be_set() {
        let key = |table: &str, is_null, nearest: Option<&str>| Missing::Key {
            table: table.into(),
            key: "tag".into(),
            is_null,
            nearest: nearest.map(str::to_owned),
        };
        for (missing, want) in [
            (key(".Values", false, Some("tags")), "`.Values` has no `tag`; did you mean `tags`?"),
            (
                key("$.Values.image", false, None),
                "`$.Values.image` has no `tag`: set `sub.image.tag` in the values, or test for it in the template",
            ),
            (
                key(".Values", true, None),
                "in `.Values`, `tag` is null: set `sub.tag` in the values, or test for it in the template",
            ),
            (key("", false, None), "the dot here has no `tag`"),
        ] {
            assert_eq!(hint(&missing, "sub."), want);
        }
    }

    #[test]
    fn carets_stand_below_the_expression() {
        let mut place = Location::line("web/charts/a/templates/x.yaml", 3);
        place.column = Some(9);
        place.excerpt = Some(Excerpt::new(3, "\tü: {{ .a.b }}", 8..12));
        let explanation = Explanation { trace: vec![place], ..Explanation::default() };
        assert_eq!(explanation.prefix(), "a.");
        assert_eq!(
            explanation.text(false),
            "  --> web/charts/a/templates/x.yaml:3:9\n    3 | \tü: {{ .a.b }}\n      | \t      ^^^^\n"
        );
        assert!(explanation.text(true).contains("\u{1b}[1;31m^^^^\u{1b}[0m"));
    }

    #[test]
    fn violations_are_paths_below_the_charts() {
        let text =
            "values don't…:\nweb:\n- at '/a~1b': got string, want integer\nsub:\n- at '': missing property 'x'\n";
        assert_eq!(violations(text, "web"), [vec!["a/b".to_owned()], vec!["sub".to_owned()]]);
    }

    #[test]
    fn a_secret_shows_its_keys_only() {
        assert!(is_secret("a: 1\nkind: \"Secret\"\n") && !is_secret("kind: ConfigMap\n# a Secret"));
        assert_eq!(without_value("  password: hunter2"), "  password: (hidden)");
        assert_eq!(without_value("    aHVudGVyMg=="), "    (hidden)");
        assert_eq!(without_value("stringData:"), "stringData:");
    }

    #[test]
    fn a_parser_stops_behind_the_line_it_names() {
        assert_eq!(line_of("yaml: line 4: mapping values are not allowed in this context"), Some(4));
        assert_eq!(line_of("yaml: line 4: did not find expected key"), Some(5));
        assert_eq!(line_of("error unmarshaling JSON"), None);
    }
}

//! The documents in a text, by their lines `apiVersion:` and `kind:`. The output of an action appears in it as a mark.

use regex::Regex;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::LazyLock;

/// The possible kinds of one document of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateDocument {
    /// The files that may make it.
    pub files: BTreeSet<Box<str>>,
    /// The values that its `apiVersion:` may have; empty if that is not known.
    pub api_versions: BTreeSet<String>,
    /// The values that its `kind:` may have.
    pub kinds: BTreeSet<String>,
    /// The number of lines `kind:` of which nothing is known.
    pub unknown: usize,
}

/// The characters around the number of an action.
pub const MARK: char = '\u{1}';

/// Appends the mark of an action.
pub fn mark(number: usize, out: &mut String) {
    let _ = write!(out, "{MARK}{number}{MARK}");
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

/// Actions before a key print nothing, or a part of the document before.
static BEFORE: LazyLock<Regex> = LazyLock::new(|| pattern("^(?:\u{1}\\d+\u{1}[ \t]*)+(apiVersion|kind)"));
static LINE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(- )?( *)(apiVersion|kind):[ \t]*(.+?)[ \t]*(?:#.*)?$"));
static VERSION: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?:[a-z0-9.-]+/)?v[0-9]+(?:(?:alpha|beta)[0-9]+)?$"));
static KIND: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[A-Za-z][A-Za-z0-9]+$"));
/// Objects that `helm test` makes, and the operator does not.
static TEST: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"(?m)^[ \t]*["']?helm\.sh/hook["']?:[ \t]*["']?test(?:-success|-failure)?["']?[ \t]*(?:#.*)?\r?$"#)
});

/// A line of a document.
struct Line<'t> {
    indent: usize,
    value: &'t str,
}

/// Reads the documents of a text. `is_part`: it is a part of some text, so its objects may be indented. `resolve` returns the texts that a
/// value with marks may be; its second argument is the character behind which an unknown part does no harm.
pub fn documents(
    text: &str,
    is_part: bool,
    resolve: impl Fn(&str, Option<char>) -> BTreeSet<String>,
    mut found: impl FnMut(TemplateDocument),
) {
    for part in split(text) {
        if TEST.is_match(&part) {
            continue;
        }
        let (mut apis, mut kinds) = (Vec::new(), Vec::new());
        let lines: Vec<String> =
            part.lines().map(|line| BEFORE.replace(line.trim_end_matches('\r'), "$1").into_owned()).collect();
        for line in &lines {
            let Some(matched) = LINE.captures(line) else { continue };
            let indent = matched[2].len() + if matched.get(1).is_some() { 2 } else { 0 };
            let value = matched.get(4).map_or("", |value| value.as_str());
            let line = Line { indent, value: value.trim().trim_matches(['"', '\'']) };
            if &matched[3] == "kind" { kinds.push(line) } else { apis.push(line) }
        }
        if let Some(document) = document(&apis, &kinds, is_part, &resolve) {
            found(document);
        }
    }
}

fn document(
    apis: &[Line<'_>],
    kinds: &[Line<'_>],
    is_part: bool,
    resolve: &impl Fn(&str, Option<char>) -> BTreeSet<String>,
) -> Option<TemplateDocument> {
    // Objects begin at the left-most level at which there is a kind.
    let mut top: Vec<&Line<'_>> = kinds.iter().filter(|line| line.indent == 0).collect();
    if is_part
        && top.is_empty()
        && let Some(least) = apis.iter().map(|line| line.indent).min()
    {
        top.extend(kinds.iter().find(|line| line.indent == least));
    }
    let first = top.first()?.indent;
    let mut items = Vec::new();
    if top.iter().any(|line| line.value.ends_with("List")) {
        let below: Vec<&Line<'_>> = kinds.iter().filter(|line| line.indent > 0).collect();
        let least = below.iter().map(|line| line.indent).min();
        items.extend(below.into_iter().filter(|line| Some(line.indent) == least));
    }
    let of_object = |line: &&Line<'_>| line.indent == first || !items.is_empty();
    let versions = apis.iter().filter(of_object).flat_map(|line| resolve(line.value, Some('/')));
    let mut document = TemplateDocument {
        api_versions: versions.map(|text| unquoted(&text)).filter(|text| VERSION.is_match(text)).collect(),
        ..TemplateDocument::default()
    };
    for line in top.iter().chain(&items) {
        // Some kinds are in lower case, and most texts of an action that are, too, are not kinds.
        let is_made = line.value.contains(MARK);
        let is_kind =
            |text: &String| KIND.is_match(text) && !(is_made && text.starts_with(|c: char| c.is_ascii_lowercase()));
        let names = resolve(line.value, None).into_iter().map(|text| unquoted(&text));
        let names: Vec<String> = names.filter(is_kind).collect();
        document.unknown += usize::from(names.is_empty());
        let is_item = |name: &String| name != "List" && (items.is_empty() || !name.ends_with("List"));
        document.kinds.extend(names.into_iter().filter(is_item));
    }
    (!document.kinds.is_empty() || document.unknown > 0).then_some(document)
}

fn unquoted(text: &str) -> String {
    text.trim().trim_matches(['"', '\'']).to_owned()
}

/// The documents, as Helm splits them: `---` ends one, and what follows on its line begins the next.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        let line = match line.strip_prefix("---") {
            Some(rest) => {
                parts.push(String::new());
                rest.trim_start_matches(['-', ' ', '\t'])
            }
            None => line,
        };
        if let Some(part) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    parts
}

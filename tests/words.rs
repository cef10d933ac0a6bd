//! The words and constructions that documents, comments and messages do not use (CONTRIBUTING.md), each with a better one.
//!
//! Checked are paragraphs of documents, comments in the YAML and templates of charts, examples and projects, descriptions of schemas, comments of
//! Rust sources, and their string literals. Code between backticks is left out, and so are the generated parts of documents: their sentences
//! are checked in the sources.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

struct Construction {
    name: &'static str,
    /// Matched without regard to case.
    pattern: &'static str,
    /// What matches here, from the start of a match, is allowed. Empty: nothing is.
    except: &'static str,
    better: &'static str,
}

const fn refused(
    name: &'static str,
    pattern: &'static str,
    except: &'static str,
    better: &'static str,
) -> Construction {
    Construction { name, pattern, except, better }
}

const CONSTRUCTIONS: [Construction; 25] = [
    refused("told", r"\btold\b", "", "said, reported"),
    refused("tells", r"\btells\b", "", "says, reports, shows"),
    refused("anew", r"\banew\b", "", "again, or recreate, renew, rewrite"),
    refused("otherwise than", r"\botherwise than\b", "", "differently from"),
    refused("goes on", r"\b(goes|go|going|gone|went) on\b", "", "continues"),
    refused("let again", r"\blet again\b", "", "allowed again"),
    refused("shall", r"\bshall\b", "", "must, should, will, or the plain verb"),
    refused("as it were", r"\bas it were\b", "", "say it directly"),
    refused("what is not so", r"\bwhat is not so\b", "", "facts that do not hold"),
    refused("from then on", r"\bfrom then on\b", "", "after that, later"),
    refused(
        "is no X",
        r"(\bthere )?\b(is|are|was|were|be|been) no \w+",
        r"there |\w+ no (longer\b|(\w+er|more|less) than\b)",
        "is not a X",
    ),
    refused("is there no", r"\b(is|are) there no\b", "", "there is no"),
    refused("another one", r"\banother one\b", "", "another, with its noun; a different one"),
    refused("any more", r"\bany ?more\b", "", "no longer"),
    refused("stands", r"\bstands?\b", r"stands? (for|out|by)\b|stand-", "is, is written, remains"),
    refused("all that", r"\ball that\b", "", "everything that, or all with a noun"),
    refused(
        "asked for",
        r"\basked for( (by|again|in|at|with|without|and|or|when|while|before|after|here|there|as)\b|[.,;:)]|$)",
        "",
        "requested",
    ),
    refused("bears", r"\b(bears?|bore)\b", "", "tolerates, has"),
    refused("mends", r"\bmend(s|ed|ing)?\b", "", "repairs, corrects"),
    refused(
        "may without a verb",
        r"\bmay (only )?(what|nothing|everything|anything|all)\b",
        "",
        "may read, may do, is allowed to",
    ),
    refused("of which one", r"\bof which one\b", "", "one of which"),
    refused("whose it is", r"\bwhose (it is|they are)\b", "", "its owner"),
    refused("what it becomes", r"\b(what|who) (it|they) becomes?\b", "", "the result"),
    refused(
        "a sentence that begins with what or who",
        r"(^|[.;!?] )(?-i:What|Who|Whoever|Whatever)\b[^.?!]*([.;!]|$)",
        "",
        "begin with the noun: the value that, the person who",
    ),
    refused(
        "an inverted condition",
        r"(^|[.;:!?] )(?-i:Had|Should|Were|Was|Is|Are|Does|Do|Did|Has|Have)( not)? (it|they|one|the|an?|this|that|nobody|nothing)\b[^.?!]*,[^.?!]*([.;!]|$)",
        "",
        "if it had, if it does not",
    ),
];

/// Constructions, by name, that comments of sources may still have: `//! What …` is a title.
const NOT_IN_COMMENTS: [&str; 1] = ["a sentence that begins with what or who"];

/// Constructions, by name, that string literals of sources may still have.
const NOT_IN_MESSAGES: [&str; 0] = [];

/// String literals with words of other programs: the file, a part of the literal, and the reason.
const EXCEPTIONS: [(&str, &str, &str); 0] = [];

/// Folders and files of Rust sources.
const SOURCES: [&str; 5] = ["benches", "crates", "examples", "src", "tests"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files with an extension below folders. A file counts as a folder that contains only itself.
fn files(folders: &[&str], extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        if folder.is_file() {
            found.push(folder);
            continue;
        }
        for entry in fs::read_dir(&folder).expect("the folder is part of the repository") {
            let path = entry.expect("the folder can be read").path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Sentences that belong together, with the lines that they are on.
#[derive(Debug, Default)]
struct Prose {
    text: String,
    /// Where the text of a line begins, and the number of the line.
    starts: Vec<(usize, usize)>,
}

impl Prose {
    fn of(line: usize, text: &str) -> Self {
        let mut prose = Self::default();
        prose.push(line, text);
        prose
    }

    fn push(&mut self, line: usize, text: &str) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.starts.push((self.text.len(), line));
        self.text.push_str(text.trim());
    }

    fn line(&self, at: usize) -> usize {
        self.starts.iter().rev().find(|(start, _)| *start <= at).map_or(0, |(_, line)| *line)
    }

    /// The text in which each character between two marks, and the marks, are the letter `c`: code is a word.
    fn without(&self, open: char, close: char) -> String {
        let (mut out, mut rest) = (String::new(), self.text.as_str());
        while let Some((start, end)) = rest.find(open).and_then(|start| {
            let after = start + open.len_utf8();
            rest[after..].find(close).map(|end| (start, after + end + close.len_utf8()))
        }) {
            out.push_str(&rest[..start]);
            out.push_str(&"c".repeat(end - start));
            rest = &rest[end..];
        }
        out + rest
    }
}

/// The paragraphs, list items, headings and cells of a document, and the comments in its code. Headings and cells begin with their mark: they
/// are titles, and not sentences.
fn paragraphs(text: &str) -> Vec<Prose> {
    let (mut found, mut current) = (Vec::new(), Prose::default());
    let (mut fence, mut is_generated): (Option<&str>, bool) = (None, false);
    let (mut is_code, mut follows_blank) = (false, true);
    for (number, line) in (1..).zip(text.lines()) {
        is_code = line.starts_with("    ") && (is_code || follows_blank);
        let line = line.trim();
        follows_blank = line.is_empty();
        is_generated = is_generated && line != "<!-- end -->" || line.starts_with("<!-- generated: ");
        let is_left_out = is_generated || is_code && fence.is_none();
        let is_item = line.starts_with("- ") || line.split_once(". ").is_some_and(|(n, _)| n.parse::<u8>().is_ok());
        if line.is_empty() || line.starts_with(['#', '|', '`', '<']) || fence.is_some() || is_left_out || is_item {
            found.push(std::mem::take(&mut current));
        }
        if let Some(language) = line.strip_prefix("```") {
            fence = fence.is_none().then_some(language);
        } else if let Some(language) = fence {
            let has_comments = ["sh", "yaml", "dockerfile", "toml"].contains(&language);
            found.extend(comment(line, "#").filter(|_| has_comments).map(|text| Prose::of(number, text)));
        } else if is_left_out {
        } else if line.starts_with('|') {
            let row = Prose::of(number, &line.replace("\\|", "  ")).without('`', '`');
            found.extend(row.split('|').map(|cell| Prose::of(number, &format!("| {}", cell.trim()))));
        } else {
            current.push(number, line.strip_prefix("- ").unwrap_or(line));
            if line.starts_with(['#', '<']) {
                found.push(std::mem::take(&mut current));
            }
        }
    }
    found.push(current);
    found
}

/// What follows the mark of a comment, at the start of a line or after a space.
fn comment<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    let line = line.trim();
    line.strip_prefix(mark).or_else(|| line.split_once(&format!(" {mark} ")).map(|(_, comment)| comment))
}

/// Comments on lines that follow each other are one text; an empty comment or a fence ends it, and code between fences is left out.
fn comments(text: &str, mark: &str) -> Vec<Prose> {
    let (mut found, mut current, mut is_code) = (Vec::new(), Prose::default(), false);
    for (number, line) in (1..).zip(text.lines()) {
        let is_whole = line.trim_start().starts_with(mark);
        let comment = comment(line, mark).map(|text| text.trim_start_matches(['/', '!', '#']).trim());
        let is_fence = comment.is_some_and(|text| text.starts_with("```"));
        is_code = is_whole && (is_code ^ is_fence);
        let is_item = comment.is_some_and(|text| text.starts_with("- ") || text.starts_with('|'));
        if !is_whole || is_item || is_fence || comment.is_none_or(str::is_empty) {
            found.push(std::mem::take(&mut current));
        }
        if let Some(text) = comment.filter(|_| !is_code && !is_fence) {
            current.push(number, text.trim_start_matches("- "));
        }
    }
    found.push(current);
    found
}

/// The comments of Go templates (`{{/* … */}}`) and of minijinja (`{# … #}`).
fn template_comments(text: &str) -> Vec<Prose> {
    let comment = Regex::new(r"(?s)\{\{-?\s*/\*(.*?)\*/\s*-?\}\}|\{#-?(.*?)-?#\}").expect("it is an expression");
    let found = comment.captures_iter(text).map(|found| {
        let inner = found.get(1).or_else(|| found.get(2)).expect("one of the two matched");
        let first = text[..inner.start()].matches('\n').count() + 1;
        let mut prose = Prose::default();
        for (number, line) in (first..).zip(inner.as_str().lines()) {
            prose.push(number, line);
        }
        prose
    });
    found.collect()
}

/// The descriptions of a JSON schema.
fn descriptions(text: &str) -> Vec<Prose> {
    let description = Regex::new(r#""description":\s*"((?:[^"\\]|\\.)*)""#).expect("it is an expression");
    let lines = (1..).zip(text.lines());
    lines
        .flat_map(|(number, line)| description.captures_iter(line).map(move |found| Prose::of(number, &found[1])))
        .collect()
}

/// The string literals of a Rust source before its tests. Lines that end with a backslash continue a literal.
fn literals(source: &str) -> Vec<Prose> {
    let source = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let (mut found, mut line, mut at) = (Vec::new(), 1, 0);
    while let Some(c) = source[at..].chars().next() {
        let rest = &source[at..];
        let before = source[..at].chars().next_back();
        let raw = rest
            .strip_prefix('r')
            .filter(|_| before.is_none_or(|c| c == 'b' || c == 'c' || !(c.is_alphanumeric() || c == '_')));
        let hashes = raw.map_or(0, |raw| raw.len() - raw.trim_start_matches('#').len());
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(raw) = raw.and_then(|raw| raw[hashes..].strip_prefix('"')) {
            let end = raw.find(&format!("\"{}", "#".repeat(hashes))).unwrap_or(raw.len());
            found.push(lines_of(line, &raw[..end], false));
            (1 + hashes + 1 + end + 1 + hashes).min(rest.len())
        } else if let Some(text) = rest.strip_prefix('"') {
            let mut escaped = false;
            let end = text.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let end = end.unwrap_or(text.len());
            found.push(lines_of(line, &text[..end], true));
            (end + 2).min(rest.len())
        } else if rest.starts_with("'\\") {
            // A character such as '\''.
            rest[3..].find('\'').map_or(1, |end| 3 + end + 1)
        } else if rest.starts_with("'\"'") {
            3
        } else {
            c.len_utf8()
        };
        line += rest[..length].matches('\n').count();
        at += length;
    }
    found
}

/// A literal of several lines, of which a backslash at an end joins two.
fn lines_of(first: usize, text: &str, has_escapes: bool) -> Prose {
    let mut prose = Prose::default();
    for (number, line) in (first..).zip(text.lines()) {
        let line = if has_escapes {
            line.trim_end_matches('\\').replace("\\n", ". ").replace("\\\"", "'")
        } else {
            line.to_owned()
        };
        prose.push(number, &line);
    }
    prose
}

/// The table with its expressions.
struct Matcher(Vec<(&'static Construction, Regex, Option<Regex>)>);

impl Matcher {
    fn new(wanted: impl Fn(&Construction) -> bool) -> Self {
        let expression = |pattern: &str| Regex::new(&format!("(?i){pattern}")).expect("it is an expression");
        let rows = CONSTRUCTIONS.iter().filter(|row| wanted(row)).map(|row| {
            let except = (!row.except.is_empty()).then(|| expression(&format!("^(?:{})", row.except)));
            (row, expression(row.pattern), except)
        });
        Self(rows.collect())
    }

    /// What is refused in a text, with its place in it.
    fn find(&self, text: &str) -> Vec<(usize, &'static Construction, String)> {
        let mut found = Vec::new();
        for (row, pattern, except) in &self.0 {
            let mut at = 0;
            while let Some(hit) = pattern.find_at(text, at) {
                // The end of a sentence is the start of the next.
                at = hit.end() - hit.as_str().chars().next_back().map_or(0, char::len_utf8);
                if !except.as_ref().is_some_and(|except| except.is_match(&text[hit.start()..])) {
                    found.push((hit.start(), *row, hit.as_str().to_owned()));
                }
            }
        }
        found
    }

    /// The same for texts of a file, one sentence each.
    fn check(&self, path: &Path, texts: &[Prose], marks: (char, char)) -> Vec<String> {
        let path = path.strip_prefix(root()).unwrap_or(path).display().to_string();
        let mut found = Vec::new();
        for prose in texts {
            let is_exception = |(file, part, _): &(&str, &str, &str)| *file == path && prose.text.contains(part);
            if EXCEPTIONS.iter().any(is_exception) {
                continue;
            }
            for (at, row, hit) in self.find(&prose.without(marks.0, marks.1)) {
                found.push(format!("{path}:{}: {}: {hit:?}; better: {}", prose.line(at), row.name, row.better));
            }
        }
        found
    }
}

const CODE: (char, char) = ('`', '`');

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("it is text")
}

fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "{} sentences:\n{}", found.len(), found.join("\n"));
}

#[test]
fn documents_use_the_words_of_the_field() {
    let at_the_top = fs::read_dir(root()).expect("it is a folder").map(|entry| entry.expect("it can be read").path());
    let at_the_top = at_the_top.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let all = at_the_top.chain(files(&["docs", "examples", "charts", "crates", "deploy", "src/scaffold"], "md"));
    let matcher = Matcher::new(|_| true);
    assert_none(&all.flat_map(|path| matcher.check(&path, &paragraphs(&read(&path)), CODE)).collect::<Vec<_>>());
}

#[test]
fn charts_and_examples_use_the_words_of_the_field() {
    let matcher = Matcher::new(|_| true);
    let folders = ["charts", "examples", "deploy", "src/scaffold/files"];
    let mut found = Vec::new();
    for extension in ["yaml", "jinja", "tpl", "txt", "php", "sh", "Dockerfile"] {
        for path in files(&folders, extension) {
            let text = read(&path);
            found.extend(matcher.check(&path, &comments(&text, "#"), CODE));
            found.extend(matcher.check(&path, &template_comments(&text), CODE));
            if extension == "txt" {
                found.extend(matcher.check(&path, &paragraphs(&text), CODE));
            }
        }
    }
    for path in files(&folders, "json") {
        found.extend(matcher.check(&path, &descriptions(&read(&path)), CODE));
    }
    assert_none(&found);
}

#[test]
fn comments_use_the_words_of_the_field() {
    let matcher = Matcher::new(|row| !NOT_IN_COMMENTS.contains(&row.name));
    let check = |path: PathBuf| matcher.check(&path, &comments(&read(&path), "//"), CODE);
    assert_none(&files(&SOURCES, "rs").into_iter().flat_map(check).collect::<Vec<_>>());
}

#[test]
fn messages_use_the_words_of_the_field() {
    let matcher = Matcher::new(|row| !NOT_IN_MESSAGES.contains(&row.name));
    let is_test = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        name == "tests"
            || name.ends_with("_tests")
            || path.strip_prefix(root()).is_ok_and(|path| path.components().any(|part| part.as_os_str() == "tests"))
    };
    let sources = files(&["crates", "examples", "src"], "rs").into_iter().filter(|path| !is_test(path));
    assert_none(
        &sources.flat_map(|path| matcher.check(&path, &literals(&read(&path)), ('{', '}'))).collect::<Vec<_>>(),
    );
}

#[test]
fn a_construction_is_found_and_its_exceptions_are_not() {
    let matcher = Matcher::new(|_| true);
    let names = |text: &str| matcher.find(text).into_iter().map(|(_, row, _)| row.name).collect::<Vec<_>>();
    for (text, expected) in [
        ("It told us.", "told"),
        ("This tells why, anew.", "tells, anew"),
        ("It works otherwise than Helm.", "otherwise than"),
        ("It goes on with the next. It was gone on with.", "goes on, goes on"),
        ("Nobody Shall see it.", "shall"),
        ("It is, as it were, a copy.", "as it were"),
        ("What is not so is absent.", "what is not so, a sentence that begins with what or who"),
        ("From then on it is yours.", "from then on"),
        ("It is no value, and they are no values.", "is no X, is no X"),
        ("There is no value, and it is no longer used; it is no more than a test, and no older than it.", ""),
        ("It is no older than a day.", ""),
        ("Is there no value?", "is there no"),
        ("Take another one. It does not run any more.", "another one, any more"),
        ("It stands in the file. It stands for a value, stands out, and stands by.", "stands"),
        ("All that it has.", "all that"),
        ("A backup is asked for. It was asked for its state.", "asked for"),
        ("It bears one failure, and mends it.", "bears, mends"),
        ("The operator may only what the chart needs.", "may without a verb"),
        ("Two files, of which one is read; nobody says whose it is.", "of which one, whose it is"),
        ("It is what it becomes.", "what it becomes"),
        ("Who set them removes them.", "a sentence that begins with what or who"),
        ("What does it do? It asks who sets them.", ""),
        (
            "Had it failed, it would stop. Does it not answer, it is lost.",
            "an inverted condition, an inverted condition",
        ),
        ("Does it answer? It is lost.", ""),
    ] {
        assert_eq!(names(text).join(", "), expected, "{text}");
    }
}

#[test]
fn sentences_are_found_where_they_are_written() {
    let texts = |found: &[Prose]| -> Vec<(usize, String)> {
        let found = found.iter().filter(|prose| !prose.text.is_empty());
        found.map(|prose| (prose.line(0), prose.text.clone())).collect()
    };
    let expect = |found: &[Prose], expected: &[(usize, &str)]| {
        let expected: Vec<_> = expected.iter().map(|(line, text)| (*line, (*text).to_owned())).collect();
        assert_eq!(texts(found), expected);
    };
    let page = [
        "# A",
        "It is",
        "no value.",
        "- one",
        "- two",
        "",
        "```sh",
        "run it  # it runs",
        "```",
        r"| a | `b \| c` |",
        "",
        "    code",
        "",
        "<!-- generated: x -->",
        "left out",
        "<!-- end -->",
    ];
    expect(
        &paragraphs(&page.join("\n")),
        &[
            (1, "# A"),
            (2, "It is no value."),
            (4, "one"),
            (5, "two"),
            (8, "it runs"),
            (10, "|"),
            (10, "| a"),
            (10, "| cccccccc"),
            (10, "|"),
            (16, "<!-- end -->"),
        ],
    );
    let source = [
        "//! It is",
        "//! no value.",
        "",
        r#"let a = "it \"is\" \"#,
        r#"    no value"; // late"#,
        "let b = ('\"', r#\"raw \"text\"\"#, 'a, b\"bytes\");",
        "#[cfg(test)]",
        r#"mod tests { "no" }"#,
    ];
    let source = source.join("\n");
    expect(&comments(&source, "//"), &[(1, "It is no value."), (5, "late")]);
    expect(&literals(&source), &[(4, "it 'is' no value"), (6, "raw \"text\""), (6, "bytes")]);
    expect(&template_comments("a\n{{- /* one\ntwo */ -}}\n{# three #}"), &[(2, "one two"), (4, "three")]);
    expect(&descriptions("{\n  \"description\": \"A \\\"b\\\".\"\n}"), &[(2, "A \\\"b\\\".")]);
    assert_eq!(Prose::of(1, "is no `x`, `").without('`', '`'), "is no ccc, `");
    let broken = paragraphs("One.\n\nIt is a list, but it is\nno `value`.");
    let found = Matcher::new(|_| true).check(Path::new("a.md"), &broken, CODE);
    assert_eq!(found, ["a.md:3: is no X: \"is no ccccccc\"; better: is not a X"]);
}

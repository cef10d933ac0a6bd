//! References resolve: rules and faults that comments cite by a code, rows that they cite by a name, links between
//! documents, and paths of documents.
//!
//! A comment cites `docs/design/applying.md A3` or `docs/design/lessons.md pain 4`. If the page is not beside the code, the documentation of
//! the file (`//!`) names it: then it is the page of all codes in the file. On its page a code has an anchor: it begins a heading, a list
//! item in bold, or a row of a table. Names of tests have no codes: they are sentences.
//!
//! A row of a table of decisions is cited by the name of its function, in backticks after the word: its number changes with the order. Its
//! anchor is the second cell of the row.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Letters of codes: rules (A to D), faults (F), invariants (I), messages (M) and reports (R).
const LETTERS: &str = "ABCDFIMR";
/// Words before numbers that are codes.
const NUMBERED: [&str; 2] = ["row", "pain"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files with an extension below folders, by their path from the root.
fn files(folders: &[&str], extension: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is part of the repository") {
            let path = entry.expect("the folder can be read").path();
            if path.is_dir() && !path.is_symlink() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let text = fs::read_to_string(&path).expect("it is text");
                found.push((path.strip_prefix(root()).expect("it is below").display().to_string(), text));
            }
        }
    }
    found
}

/// All sources but this one, which has wrong references in its tests.
fn sources() -> Vec<(String, String)> {
    let mut found = files(&["src", "tests"], "rs");
    found.retain(|(path, _)| path != "tests/references.rs");
    found
}

fn documents() -> Vec<(String, String)> {
    let mut found = files(&["docs", "examples", "charts", "deploy"], "md");
    for name in ["README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"] {
        found.push((name.to_owned(), fs::read_to_string(root().join(name)).expect("it is part of the repository")));
    }
    found
}

/// Pages by their path, with the codes that have an anchor there.
fn pages() -> BTreeMap<String, BTreeSet<String>> {
    documents().into_iter().map(|(path, text)| (path, anchors(&text))).collect()
}

fn anchors(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in page.lines() {
        let start = if line.starts_with('#') {
            line.trim_start_matches('#').trim()
        } else if let Some(item) = line.strip_prefix("- **") {
            item.split("**").next().unwrap_or_default()
        } else if let Some(row) = line.strip_prefix("| ") {
            let cell = row.split('|').next().unwrap_or_default().trim().trim_matches('*');
            let name = row.split('|').nth(1).unwrap_or_default().trim();
            if is_number(cell) && is_name(name) {
                found.insert(format!("row {name}"));
            }
            cell
        } else {
            continue;
        };
        let mut words = start.split([' ', ':', '.', ',']);
        let first = words.next().unwrap_or_default();
        if is_code(first) {
            found.insert(first.to_owned());
        } else if let Some(number) = words.next().filter(|number| is_number(number)) {
            found.insert(format!("{} {number}", first.to_lowercase()));
        }
    }
    found
}

/// A letter and a number, such as `A3` or `F13b`.
fn is_code(word: &str) -> bool {
    word.starts_with(|first| LETTERS.contains(first)) && is_number(&word[1..])
}

/// A number of one or two digits, perhaps with a letter behind it.
fn is_number(word: &str) -> bool {
    let digits = word.strip_suffix(|last: char| last.is_ascii_lowercase()).unwrap_or(word);
    (1..=2).contains(&digits.len()) && digits.chars().all(|digit| digit.is_ascii_digit())
}

/// The name of a function, in backticks.
fn is_name(word: &str) -> bool {
    let name = word.strip_prefix('`').and_then(|word| word.strip_suffix('`')).unwrap_or_default();
    !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

/// A code that a text cites, with the page that the text names for it.
#[derive(Debug, PartialEq)]
struct Citation {
    code: String,
    page: Option<String>,
}

/// The codes in a comment or a document.
fn citations(text: &str) -> Vec<Citation> {
    let mut found = Vec::new();
    let mut page: Option<String> = None;
    let mut kind: Option<&str> = None;
    for word in text.split_whitespace() {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '§' && c != '`');
        let path = word.split(['(', ')', '#', '`']).find(|part| is_page(part.trim_end_matches([',', '.', ':', ';'])));
        if let Some(path) = path {
            page = Some(path.trim_end_matches([',', '.', ':', ';']).to_owned());
        } else if is_code(bare) || is_code(&bare.replacen('-', "", 1)) || bare.starts_with('§') {
            found.push(Citation { code: bare.to_owned(), page: page.clone() });
        } else if let Some(kind) = kind.filter(|kind| is_number(bare) || *kind == "row" && is_name(bare)) {
            found.push(Citation { code: format!("{kind} {bare}"), page: page.clone() });
            continue;
        }
        let singular = bare.to_lowercase();
        let singular = singular.strip_suffix('s').unwrap_or(&singular);
        kind = NUMBERED.into_iter().find(|numbered| *numbered == singular).or(kind.filter(|_| bare == "and"));
    }
    found
}

fn is_page(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "md")
}

/// Comments on consecutive lines, each with the number of its first line.
fn comments(source: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut before = 0;
    for (index, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let Some(text) = line.strip_prefix("//") else { continue };
        let text = text.trim_start_matches(['/', '!']);
        match found.last_mut() {
            Some((_, comment)) if before == index => {
                comment.push('\n');
                comment.push_str(text);
            }
            _ => found.push((index + 1, text.to_owned())),
        }
        before = index + 1;
    }
    found
}

/// The pages that the documentation of a file names.
fn header(source: &str) -> Vec<String> {
    let lines = source.lines().filter_map(|line| line.strip_prefix("//!"));
    let words = lines
        .flat_map(|line| line.split([' ', '(', ')', '#', ',', '`']))
        .map(|word| word.trim_end_matches(['.', ':', ';']));
    words.filter(|word| is_page(word)).map(ToOwned::to_owned).collect()
}

/// Codes at the beginning of names of tests, and numbers of rows at that of any function.
fn names(source: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_test = false;
    for (index, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let Some((_, name)) = line.split_once("fn ").filter(|_| !line.starts_with("//")) else {
            is_test = line.contains("test]") || line.contains("test(") || is_test && line.starts_with(['#', '/']);
            continue;
        };
        let mut parts = name.split(['_', '(']);
        let first = parts.next().unwrap_or_default();
        let code = match (first, parts.next()) {
            ("row", Some(number)) if is_number(number) => Some(format!("row {number}")),
            _ if !is_test => None,
            (first, _) if first.strip_prefix("row").is_some_and(is_number) => Some(first.replace("row", "row ")),
            (first, _) => {
                let letter = first.chars().take(1).map(|letter| letter.to_ascii_uppercase());
                let upper: String = letter.chain(first.chars().skip(1)).collect();
                is_code(&upper).then_some(upper)
            }
        };
        found.extend(code.map(|code| (index + 1, code)));
        is_test = false;
    }
    found
}

/// Texts of assertions that begin with an invariant or a row.
fn messages(source: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in source.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
        for text in line.split('"').skip(1).step_by(2) {
            if text.starts_with("row ")
                || text.split([':', ',']).next().is_some_and(|first| first.starts_with('I') && is_code(first))
            {
                found.push((index + 1, text.to_owned()));
            }
        }
    }
    found
}

/// Whether a code begins something on a page. `F13b` is a second test of `F13`.
fn has_anchor(pages: &BTreeMap<String, BTreeSet<String>>, page: &str, code: &str) -> bool {
    let Some(anchors) = pages.get(page) else { return false };
    let fault = code.strip_suffix(|last: char| last.is_ascii_lowercase()).filter(|code| code.starts_with('F'));
    anchors.contains(code) || fault.is_some_and(|fault| anchors.contains(fault))
}

/// What is wrong with the codes of a source, one sentence each.
fn wrong_codes(path: &str, source: &str, pages: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let header = header(source);
    let mut cited: Vec<(usize, Citation)> = Vec::new();
    for (line, text) in comments(source).into_iter().chain(messages(source)) {
        cited.extend(citations(&text).into_iter().map(|citation| (line, citation)));
    }
    let coded = names(source).into_iter();
    let mut wrong: Vec<_> = coded.map(|(line, code)| format!("{path}:{line}: a name begins with {code}")).collect();
    for (line, Citation { code, page }) in cited {
        let candidates: Vec<&String> = page.iter().chain(&header).collect();
        if candidates.is_empty() {
            wrong.push(format!("{path}:{line}: {code} is cited without a page"));
        } else if !candidates.iter().any(|page| has_anchor(pages, page, &code)) {
            wrong.push(format!("{path}:{line}: {code} has no anchor in {candidates:?}"));
        }
    }
    wrong
}

/// A document without blocks and pieces of code.
fn prose(document: &str) -> String {
    let mut inside = false;
    let mut found = String::new();
    for line in document.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside && !line.starts_with("    ") {
            found.push_str(&line.split('`').step_by(2).collect::<Vec<_>>().join("`"));
        }
        found.push('\n');
    }
    found
}

/// Targets of the links in a document.
fn links(document: &str) -> Vec<String> {
    let targets = document.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:")).map(ToOwned::to_owned).collect()
}

/// The anchors that headings have: lower case, no punctuation, hyphens for spaces.
fn slugs(document: &str) -> BTreeSet<String> {
    let mut inside = false;
    let mut found = BTreeSet::new();
    for line in document.lines() {
        inside ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !inside) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        found.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
    }
    found
}

/// Paths of documents in a text, from the root.
fn cited_paths(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (start, _) in text.match_indices("docs/") {
        let is_inner = text[..start].ends_with(|c: char| c.is_alphanumeric() || "/._-".contains(c));
        let rest = &text[start..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "/._-".contains(c))).unwrap_or(rest.len());
        let path = rest[..end].trim_end_matches('.');
        if !is_inner && is_page(path) {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_code_has_an_anchor_on_its_page() {
    let pages = pages();
    let wrong: Vec<_> = sources().iter().flat_map(|(path, source)| wrong_codes(path, source, &pages)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn codes_that_documents_cite_with_a_page_have_an_anchor_there() {
    let pages = pages();
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        for Citation { code, page } in citations(&prose(&text)) {
            let Some(page) = page.filter(|page| page.starts_with("docs/design/")) else { continue };
            if !has_anchor(&pages, &page, &code) && !has_anchor(&pages, &path, &code) {
                wrong.push(format!("{path}: {code} has no anchor in {page}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        if part == std::path::Component::ParentDir {
            found.pop();
        } else {
            found.push(part);
        }
    }
    found
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        let file = root().join(&path);
        for link in links(&prose(&text)) {
            let (target, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if target.is_empty() { file.clone() } else { file.with_file_name("").join(target) };
            let target = plain(&target);
            if !target.exists() {
                wrong.push(format!("{path}: {link} does not exist"));
            } else if !anchor.is_empty() && is_page(&target.display().to_string()) {
                let text = fs::read_to_string(&target).expect("it is text");
                if !slugs(&text).contains(anchor) {
                    wrong.push(format!("{path}: {link} has no such heading"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_path_of_a_document_exists() {
    let mut wrong = Vec::new();
    for (path, text) in sources().into_iter().chain(documents()) {
        // The path of a document in another project is an address.
        let missing = cited_paths(&text).into_iter().filter(|cited| !root().join(cited).exists());
        wrong.extend(missing.map(|cited| format!("{path}: {cited} does not exist")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_code_without_a_page_or_an_anchor_is_found() {
    let page =
        "# Page\n### A3: Failed inputs\n- **I1** One.\n| 7 | `joins` | a row |\n| F2 | killed |\n### Pain 4: Pending\n";
    let pages = BTreeMap::from([("docs/page.md".to_owned(), anchors(page))]);
    for (source, expected) in [
        ("// So it is (docs/page.md A3).", None),
        ("// docs/page.md A3 and I1, row `joins` and pain 4.", None),
        ("//! Faults of docs/page.md.\n\n/// F2.\n#[test]\nfn it_is_killed() {}", None),
        ("//! docs/page.md\nfn joins() {}\nassert!(x, \"row `joins`: late\");", None),
        ("fn a9_is_no_test() {}", None),
        ("// As A3 says.", Some("A3 is cited without a page")),
        ("// So it is (page.md A3).", Some("A3 has no anchor")),
        ("// So it is (docs/page.md A4).", Some("A4 has no anchor")),
        ("// Row `joins` of docs/page.md.", Some("row `joins` is cited without a page")),
        ("//! docs/page.md\n// Row 7.", Some("row 7 has no anchor")),
        ("//! docs/page.md\n// Rows `joins` and `leaves`.", Some("row `leaves` has no anchor")),
        ("//! docs/page.md\nfn row_7_joins() {}", Some("a name begins with row 7")),
        ("//! docs/page.md\n// Pains 4 and 5.", Some("pain 5 has no anchor")),
        ("// C-13: as before.", Some("C-13 is cited without a page")),
        ("// §0.1: as in the contract.", Some("§0.1 is cited without a page")),
        ("//! docs/page.md\n#[test]\nfn a3_is_tried() {}", Some("a name begins with A3")),
        ("//! docs/page.md\n#[test]\nfn row8_is_tried() {}", Some("a name begins with row 8")),
        ("assert!(x, \"I1: two\");", Some("I1 is cited without a page")),
    ] {
        let wrong = wrong_codes("a.rs", source, &pages).join("\n");
        assert_eq!(wrong.is_empty(), expected.is_none(), "{source}: {wrong}");
        assert!(wrong.contains(expected.unwrap_or_default()), "{source}: {wrong}");
    }
    assert_eq!(links(&prose("[a](b.md#c) `[d](e)` [f](https://g)")), ["b.md#c"]);
    assert!(slugs("## A `code`, and more").contains("a-code-and-more"));
    assert_eq!(cited_paths("see docs/a.md. and other/docs/b.md"), ["docs/a.md"]);
}

//! The words that documents and comments do not use (CONTRIBUTING.md), each with a better one.

use std::fs;
use std::path::{Path, PathBuf};

/// The word, in lower case, and what to write.
const REFUSED: [(&str, &str); 7] = [
    ("told", "said, reported"),
    ("tells", "says, reports, shows"),
    ("anew", "again, or recreate, renew, rewrite"),
    ("otherwise than", "differently from"),
    ("gone on with", "continued"),
    ("goes on with", "continues"),
    ("let again", "allowed again"),
];

/// Folders and files with sources whose comments are checked.
const SOURCES: [&str; 25] = [
    "crates",
    "src/backup",
    "src/chaos",
    "src/cli",
    "src/cluster",
    "src/crd",
    "src/definition",
    "src/harm.rs",
    "src/host.rs",
    "src/image",
    "src/kind",
    "src/lint",
    "src/lookup.rs",
    "src/mask",
    "src/members",
    "src/notices",
    "src/plan",
    "src/rbac",
    "src/reconcile",
    "src/release",
    "src/runs",
    "src/scaffold",
    "src/server",
    "src/telemetry",
    "tests",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn documents() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = ["README.md", "CHANGELOG.md", "ARCHITECTURE.md"].map(|name| root().join(name)).into();
    found.extend(files(&["docs", "examples", "charts", "deploy"], "md"));
    found
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
    found
}

/// The text without what stands between backticks, in lower case, with a space for all that is no letter.
fn words(line: &str) -> String {
    let outside: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let letters = outside.chars().map(|c| if c.is_alphabetic() { c.to_ascii_lowercase() } else { ' ' });
    format!(" {} ", letters.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" "))
}

/// What is refused in the lines of a file that `wanted` picks, one sentence each.
fn refused(path: &Path, wanted: fn(&str) -> bool) -> Vec<String> {
    let text = fs::read_to_string(path).expect("it is text");
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| wanted(line)) {
        let words = words(line);
        for (word, better) in REFUSED {
            if words.contains(&format!(" {word} ")) {
                found.push(format!("{}:{}: {word:?}; better: {better}", path.display(), number + 1));
            }
        }
    }
    found
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

#[test]
fn documents_use_the_words_of_the_field() {
    let found: Vec<_> = documents().iter().flat_map(|path| refused(path, |_| true)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn comments_use_the_words_of_the_field() {
    let found: Vec<_> = files(&SOURCES, "rs").iter().flat_map(|path| refused(path, is_comment)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn code_is_no_sentence() {
    assert_eq!(words("It `told` us, Anew."), " it us anew ");
    assert!(is_comment("    /// It says."));
    assert!(!is_comment("let told = 1;"));
}

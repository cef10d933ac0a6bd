//! The words that documents do not use (CONTRIBUTING.md), each with a better one.

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

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found: Vec<PathBuf> = ["README.md", "CHANGELOG.md", "ARCHITECTURE.md"].map(|name| root.join(name)).into();
    let mut folders: Vec<PathBuf> = ["docs", "examples", "charts", "deploy"].map(|name| root.join(name)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is part of the repository") {
            let path = entry.expect("the folder can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
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

#[test]
fn documents_use_the_words_of_the_field() {
    let mut found = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).expect("the document can be read");
        for (number, line) in text.lines().enumerate() {
            let words = words(line);
            for (word, better) in REFUSED {
                if words.contains(&format!(" {word} ")) {
                    found.push(format!("{}:{}: {word:?}; better: {better}", document.display(), number + 1));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn code_is_no_sentence() {
    assert_eq!(words("It `told` us, Anew."), " it us anew ");
}

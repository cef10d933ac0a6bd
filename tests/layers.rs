//! The layers of ARCHITECTURE.md, read off the sources.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders of `src`, without the command line's.
const FOLDERS: [&str; 14] = [
    "backup",
    "chaos",
    "chart",
    "cluster",
    "kind",
    "lint",
    "members",
    "plan",
    "reconcile",
    "release",
    "render",
    "server",
    "source",
    "template",
];

/// Source files below a folder of `src`.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    fn walk(path: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(path).expect("the folder is part of the crate") {
            let path = entry.expect("the folder can be read").path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") && !is_test(&path) {
                let text = fs::read_to_string(&path).expect("sources are text");
                found.push((path, text));
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder), &mut found);
    assert!(!found.is_empty(), "{folder} has no sources");
    found
}

/// Whether the file holds only tests, which may do what they like.
fn is_test(path: &Path) -> bool {
    path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| stem == "tests" || stem.ends_with("_tests"))
}

/// A source without its tests and comments.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn assert_without(folders: &[&str], forbidden: &[&str]) {
    for folder in folders {
        for (path, text) in sources(folder) {
            let code = code(&text);
            for word in forbidden {
                assert!(!code.contains(word), "{} uses {word}", path.display());
            }
        }
    }
}

#[test]
fn what_decides_has_no_client_no_socket_and_no_clock() {
    assert_without(
        &["chart", "template", "render", "release", "plan"],
        &[
            "kube::",
            "TcpStream",
            "TcpListener",
            "UdpSocket",
            "UnixStream",
            "ToSocketAddrs",
            "tokio::",
            "SystemTime::now",
            "Instant::now",
            "Timestamp::now",
            "Zoned::now",
            "getrandom",
        ],
    );
}

#[test]
fn only_chart_and_cli_read_files() {
    assert_without(&["template", "render", "release", "plan"], &["std::fs", "File::open"]);
}

#[test]
fn the_cluster_knows_nothing_of_charts() {
    assert_without(&["cluster"], &["crate::chart", "crate::render", "crate::template"]);
}

#[test]
fn only_source_fetches_charts_and_it_knows_nothing_of_clusters() {
    assert_without(
        &["chart", "cluster", "kind", "plan", "release", "render", "server", "template"],
        &["crate::source", "ureq::", "pgp::"],
    );
    assert_without(&["source"], &["kube::", "tokio::", "crate::cluster", "crate::reconcile", "crate::release"]);
}

#[test]
fn backups_know_nothing_of_charts_and_of_the_api_server() {
    assert_without(
        &["backup"],
        &[
            "kube::",
            "crate::chart",
            "crate::cluster",
            "crate::plan",
            "crate::reconcile",
            "crate::render",
            "crate::template",
        ],
    );
}

#[test]
fn nothing_needs_the_command_line() {
    for folder in FOLDERS {
        assert_without(&[folder], &["crate::cli", "clap::"]);
    }
}

#[test]
fn no_file_imports_everything_of_a_module() {
    for folder in FOLDERS.into_iter().chain(["cli"]) {
        for (path, text) in sources(folder) {
            let glob = code(&text).lines().any(|line| line.trim_start().starts_with("use ") && line.contains("::*"));
            assert!(!glob, "{} imports with a star", path.display());
        }
    }
}

#[test]
fn every_dependency_has_a_row_with_its_version() {
    let read = |name: &str| {
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name))
            .expect("the file is part of the repository")
    };
    let (manifest, lock, table) = (read("Cargo.toml"), read("Cargo.lock"), read("docs/dependencies.md"));
    let mut inside = false;
    let mut wrong = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line == "[dependencies]" || line == "[dev-dependencies]";
        } else if let Some((name, _)) = line.split_once(" = ").filter(|(name, _)| inside && !name.starts_with('#')) {
            let row = table.lines().find_map(|row| row.strip_prefix(&format!("| {name} | ")));
            let version = row.and_then(|row| row.split(" | ").next()).unwrap_or("no row");
            if !lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")) {
                wrong.push(format!("{name}: {version}"));
            }
        }
    }
    assert!(wrong.is_empty(), "docs/dependencies.md does not give the versions of Cargo.lock: {wrong:?}");
}

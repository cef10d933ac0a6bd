//! The crates in the tree, against `deny.toml`: licences, duplicates and sources. What `cargo deny check licenses bans sources` says,
//! without the tool, which takes minutes to build.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// The texts in quotes that an array of `deny.toml` holds behind a key, or as its entries.
fn listed(section: &str, name: &str, key: Option<&str>) -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deny.toml");
    let text = std::fs::read_to_string(path).expect("it is part of the repository");
    let section = text.split(&format!("\n[{section}]\n")).nth(1).expect("the section is there");
    let section = section.split("\n[").next().unwrap_or_default();
    let array = section.split(&format!("{name} = [")).nth(1).expect("the array is there");
    let lines = array.split("\n]").next().unwrap_or_default().lines().map(str::trim);
    let quoted = |line: &str| line.split('"').nth(1).map(str::to_owned);
    let entries = lines.filter(|line| !line.starts_with('#'));
    entries
        .filter_map(|line| match key {
            None => quoted(line),
            Some(key) => quoted(line.split_once(&format!("{key} = "))?.1),
        })
        .collect()
}

fn packages() -> Vec<Value> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let targets = listed("graph", "targets", None);
    let target = targets.first().map_or("x86_64-unknown-linux-gnu", String::as_str);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--offline", "--format-version=1", "--filter-platform", target])
        .args(["--manifest-path", manifest])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut metadata: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    metadata["packages"].as_array_mut().map(std::mem::take).expect("there are packages")
}

/// Whether an SPDX expression (of old crates with `/` for `OR`) can be met with these licences.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.trim();
    for (word, all) in [(" OR ", false), (" AND ", true)] {
        let mut depth = 0;
        let at = expression.char_indices().find(|(at, c)| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            depth == 0 && expression[*at..].starts_with(word)
        });
        if let Some((at, _)) = at {
            let (left, right) = (&expression[..at], &expression[at + word.len()..]);
            let (left, right) = (is_allowed(left, allowed), is_allowed(right, allowed));
            return if all { left && right } else { left || right };
        }
    }
    match expression.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => is_allowed(inner, allowed),
        None => allowed.contains(expression) || expression.split('/').any(|one| allowed.contains(one.trim())),
    }
}

#[test]
fn every_crate_has_a_licence_that_is_allowed_and_comes_from_the_registry() {
    let allowed = listed("licenses", "allow", None);
    for package in packages() {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let licence = text("license");
        assert!(
            is_allowed(licence, &allowed),
            "{} has the licence {licence:?}: deny.toml allows {allowed:?}",
            text("name")
        );
        let ours = package["source"].is_null() && text("name").starts_with("tillerman");
        assert!(ours || text("source").starts_with("registry+"), "{} comes from {}", text("name"), package["source"]);
    }
}

#[test]
fn a_crate_is_there_once_unless_the_list_says_why_not() {
    let skipped = listed("bans", "skip", Some("crate"));
    let mut versions: BTreeMap<String, BTreeMap<Vec<u64>, String>> = BTreeMap::new();
    for package in packages() {
        let (name, version) = (package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
        let numbers = version.split(['.', '-']).map_while(|part| part.parse().ok()).collect();
        versions.entry(name.to_owned()).or_default().insert(numbers, version.to_owned());
    }
    let older = versions
        .iter()
        .flat_map(|(name, all)| all.values().rev().skip(1).map(move |version| (name.as_str(), version.as_str())));
    let older: Vec<_> = older.collect();
    let fits = |entry: &str, (name, version): (&str, &str)| {
        entry.split_once('@').is_some_and(|(n, v)| n == name && version.starts_with(&format!("{v}.")))
    };
    for found in &older {
        let known = skipped.iter().any(|entry| fits(entry, *found));
        assert!(
            known,
            "{} {} stands beside a newer one: {:?}. Avoid it, or add it to skip in deny.toml",
            found.0,
            found.1,
            versions[found.0].values()
        );
    }
    for entry in &skipped {
        assert!(older.iter().any(|found| fits(entry, *found)), "deny.toml skips {entry}, which is not there any more");
    }
}

#[test]
fn licences_are_read_as_expressions() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "Apache-2.0".to_owned()]);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR GPL-3.0) AND Apache-2.0", true),
        ("Unlicense/MIT", true),
        ("Apache-2.0 / MIT", true),
        ("", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}

//! The YAML documents of a project, and which of them count.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::template::yaml;

/// A document of a file.
pub struct Document<'a> {
    /// The file.
    pub path: &'a str,
    /// The line of the file at which it begins, from 0.
    pub start: usize,
    /// Behind its last line.
    pub end: usize,
    /// Its content.
    pub value: Value,
}

impl Document<'_> {
    /// A text below a JSON pointer; empty if there is none.
    pub fn text(&self, pointer: &str) -> &str {
        self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn kind(&self) -> &str {
        self.text("/kind")
    }
}

/// The folders whose files describe the operator.
const FOLDERS: [&str; 2] = ["config/", "deploy/"];

/// The documents that kustomize would take, and all of those in folders without a `kustomization.yaml`. Text that is
/// not YAML is left out.
pub fn used(files: &BTreeMap<String, String>) -> Vec<Document<'_>> {
    let yamls = files.iter().filter(|(path, _)| is_yaml(path) && FOLDERS.iter().any(|folder| path.starts_with(folder)));
    let all: Vec<(&str, Vec<Document<'_>>)> = yamls.map(|(path, text)| (path.as_str(), of_file(path, text))).collect();
    let folder = |path: &str| path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let mut listed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, documents) in all.iter().filter(|(path, _)| path.ends_with("/kustomization.yaml")) {
        let files = listed.entry(folder(path)).or_default();
        for document in documents {
            names_in(&document.value, files);
        }
    }
    // bases/ of config/crd and patches/ have none of their own: they count if the folder above names them.
    let is_named = |path: &str| {
        let mut above = folder(path);
        loop {
            if let Some(names) = listed.get(&above) {
                return names.contains(path[above.len()..].trim_start_matches('/'));
            }
            let Some((next, _)) = above.rsplit_once('/') else { return true };
            above = next.to_owned();
        }
    };
    all.into_iter()
        .filter(|(path, _)| path.ends_with("/kustomization.yaml") || is_named(path))
        .flat_map(|(_, documents)| documents)
        .collect()
}

/// The documents of a file.
pub fn of_file<'a>(path: &'a str, text: &str) -> Vec<Document<'a>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut starts = vec![0];
    starts.extend(lines.iter().enumerate().filter(|(_, line)| line.starts_with("---")).map(|(at, _)| at + 1));
    let ends = starts.iter().skip(1).map(|next| next - 1).chain([lines.len()]).collect::<Vec<_>>();
    let read = |(start, end): (&usize, usize)| {
        let value = yaml::parse(lines.get(*start..end)?.join("\n").as_bytes()).ok()?;
        (!value.is_null()).then_some(Document { path, start: *start, end, value })
    };
    starts.iter().zip(ends).filter_map(read).collect()
}

/// Whether a file is YAML by its name.
pub fn is_yaml(path: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// The files that a `kustomization.yaml` names.
fn names_in(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => drop(names.insert(text.trim_start_matches("./").to_owned())),
        Value::Array(items) => items.iter().for_each(|item| names_in(item, names)),
        Value::Object(fields) => fields.values().for_each(|field| names_in(field, names)),
        _ => {}
    }
}

/// The first line of a part of a text that has only this value: an item of a list, or the value of a patch.
pub fn line_of(text: &str, (start, end): (usize, usize), value: &str) -> Option<usize> {
    text.lines().enumerate().take(end).skip(start).find(|(_, line)| bare(line) == value).map(|(at, _)| at)
}

/// The value of a line of a list or patch, without quotes.
fn bare(line: &str) -> &str {
    let line = line.trim();
    let line = line.strip_prefix("- ").unwrap_or(line).trim_start();
    let line = line.strip_prefix("value:").unwrap_or(line).trim_start();
    for quote in ['"', '\''] {
        if let Some(inner) = line.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    line
}

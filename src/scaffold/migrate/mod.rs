//! The changes that a project of operator-sdk's Helm plugin needs so that Tillerman runs it, and the parts that stay.
//! Projects of v1.0 to v1.42 have `config/`, those before have `deploy/` and `build/Dockerfile` (operator-sdk,
//! `internal/plugins/helm/v1` and `internal/scaffold/helm`).
//!
//! All decisions are about texts: the caller has read the files, and writes them.

mod charts;
mod definitions;
mod deployment;
mod dockerfile;
mod documents;
mod makefile;
mod roles;
mod watches;

use std::collections::BTreeMap;

use crate::chart::{Chart, LoadError};
use crate::kind::Kind;
use crate::rbac::rules::Rule;

pub use deployment::Argument;
pub use watches::read as read_watches;

/// The work that a finding requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It has to change.
    Change,
    /// It works, and is worth a note.
    Note,
    /// It stays as it is.
    Stays,
}

/// Something found in a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The work that it requires.
    pub verdict: Verdict,
    /// The file.
    pub path: String,
    /// The line, from 1.
    pub line: Option<usize>,
    /// The present state.
    pub what: String,
    /// The remedy; empty for nothing.
    pub remedy: String,
    /// The edits of the report do it.
    pub is_edited: bool,
}

/// An edit of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Edit {
    /// The line becomes these.
    Replace(Vec<String>),
    /// These come after it.
    After(Vec<String>),
}

/// All findings, and the edits for those that are understood.
#[derive(Clone, Debug, Default)]
pub struct MigrationReport {
    /// In the order of the project's parts.
    pub findings: Vec<Finding>,
    /// By file and line, from 0.
    edits: BTreeMap<(String, usize), Vec<Edit>>,
}

/// A project, and the facts about it.
pub struct Project<'a> {
    /// The texts of its files, by path.
    pub files: &'a BTreeMap<String, String>,
    /// The base image for its Dockerfile.
    pub base: &'a str,
    /// The effect of an argument on `tillerman run`.
    pub argument: &'a dyn Fn(&str) -> Argument,
    /// The kinds of `watches.yaml`, each with its chart or why it does not load.
    pub kinds: &'a [(Kind, Result<Chart, LoadError>)],
    /// The rules that an operator of the charts needs.
    pub needed: &'a [Rule],
}

/// Looks at a project.
pub fn look(project: &Project<'_>) -> MigrationReport {
    let mut report = MigrationReport::default();
    let manager = deployment::Manager::find(project.files);
    dockerfile::look(project, &mut report);
    watches::look(project, &manager, &mut report);
    charts::look(project, &mut report);
    definitions::look(project, &mut report);
    deployment::look(project, &manager, &mut report);
    roles::look(project, &manager, &mut report);
    makefile::look(project, &mut report);
    own_files(project, &mut report);
    report
}

/// `PROJECT`, and the bundle.
fn own_files(project: &Project<'_>, report: &mut MigrationReport) {
    match project.files.get("PROJECT").map(|text| super::project::Project::read(text)) {
        Some(Ok(_)) => report.stays("PROJECT", "tillerman create api and tillerman bundle read it"),
        Some(Err(why)) => report.note(
            "PROJECT",
            None,
            &format!("tillerman create api does not read it: {why}"),
            "nothing, unless kinds are to be added with it",
        ),
        None => {}
    }
    if let Some(path) = project.files.keys().find(|path| path.starts_with("bundle/manifests/")) {
        report.note(path, None, "a bundle was made of the project as it was", "make it again with make bundle");
    }
}

impl MigrationReport {
    fn add(&mut self, verdict: Verdict, path: &str, line: Option<usize>, what: &str, remedy: &str) {
        self.findings.push(Finding {
            verdict,
            path: path.to_owned(),
            line: line.map(|line| line + 1),
            what: what.to_owned(),
            remedy: remedy.to_owned(),
            is_edited: false,
        });
    }

    /// Something to change by hand. The line is counted from 0.
    fn change(&mut self, path: &str, line: Option<usize>, what: &str, remedy: &str) {
        self.add(Verdict::Change, path, line, what, remedy);
    }

    /// Something to change, and the edit that does it.
    fn edit(&mut self, path: &str, line: usize, edit: Edit, what: &str, remedy: &str) {
        self.add(Verdict::Change, path, Some(line), what, remedy);
        if let Some(finding) = self.findings.last_mut() {
            finding.is_edited = true;
        }
        self.edits.entry((path.to_owned(), line)).or_default().push(edit);
    }

    fn note(&mut self, path: &str, line: Option<usize>, what: &str, remedy: &str) {
        self.add(Verdict::Note, path, line, what, remedy);
    }

    fn stays(&mut self, path: &str, what: &str) {
        self.add(Verdict::Stays, path, None, what, "");
    }

    /// The files that the edits change, as they become. Lines that no edit names stay to the byte.
    pub fn edited(&self, files: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut edited = BTreeMap::new();
        for (path, text) in files {
            let mut becomes = String::with_capacity(text.len());
            let mut is_changed = false;
            for (number, line) in text.split_inclusive('\n').enumerate() {
                let edits = self.edits.get(&(path.clone(), number)).map(Vec::as_slice).unwrap_or_default();
                is_changed |= !edits.is_empty();
                let ending = if line.ends_with("\r\n") { "\r\n" } else { "\n" };
                let replaced = edits.iter().find_map(|edit| match edit {
                    Edit::Replace(lines) => Some(lines),
                    Edit::After(_) => None,
                });
                let mut push = |line: &String| {
                    becomes.push_str(line);
                    becomes.push_str(ending);
                };
                match replaced {
                    Some(lines) => lines.iter().for_each(&mut push),
                    None if edits.is_empty() => becomes.push_str(line),
                    None => push(&line.trim_end_matches(['\n', '\r']).to_owned()),
                }
                let behind = edits.iter().filter_map(|edit| match edit {
                    Edit::After(lines) => Some(lines),
                    Edit::Replace(_) => None,
                });
                behind.flatten().for_each(&mut |line: &String| {
                    becomes.push_str(line);
                    becomes.push_str(ending);
                });
            }
            if is_changed && becomes != *text {
                edited.insert(path.clone(), becomes);
            }
        }
        edited
    }
}

#[cfg(test)]
mod tests;

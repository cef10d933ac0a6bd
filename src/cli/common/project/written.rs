//! Writes generated files into the project, next to what people edited.

use crate::cli::common::error::CliError;
use crate::scaffold::merge::{Outcome, has_conflict, merge, with_added};
use crate::scaffold::{CHARTS, GENERATED, ProjectFiles};
use crate::source::archive::write_below;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// The action on each file.
#[derive(Debug, Default)]
pub struct Written {
    outcomes: BTreeMap<String, Outcome>,
    /// The changes in the values of the chart, in lines.
    pub values: Vec<String>,
}

impl Written {
    /// Writes the files. A file that was generated before, that `is_one` selects and that is no longer generated is
    /// removed. `before` is what was generated for a project that does not know.
    pub fn update(
        &mut self,
        files: &ProjectFiles,
        before: &ProjectFiles,
        is_one: impl Fn(&str) -> bool,
    ) -> Result<(), CliError> {
        let root = Path::new(".");
        let kept = root.join(GENERATED);
        let mut paths: BTreeSet<String> = files.keys().cloned().collect();
        let mut known = Vec::new();
        below(&kept, "", &mut known);
        paths.extend(known.into_iter().filter(|path| is_one(path)));
        for path in paths {
            let stored = read(&kept.join(&path))?;
            let (ours, new) = (read(&root.join(&path))?, files.get(&path));
            let base = stored.as_ref().or_else(|| before.get(&path).filter(|_| ours.is_some()));
            let (mut outcome, mut content) = merge(base.map(Vec::as_slice), ours.as_deref(), new.map(Vec::as_slice));
            if outcome == Outcome::Conflict && stored.is_none() {
                // Nobody knows what of it was edited: it stays as it is, but for what came.
                let added = || with_added(before.get(&path)?, ours.as_ref()?, new?);
                (outcome, content) = added().map_or((Outcome::NotOurs, None), |text| (Outcome::Merged, Some(text)));
            }
            if let Some(content) = content {
                write_below(root, Path::new(&path), &content)?;
            }
            if outcome == Outcome::Removed {
                remove(&root.join(&path))?;
            }
            match new {
                Some(new) if stored.as_ref() != Some(new) => write_below(&kept, Path::new(&path), new)?,
                Some(_) => {}
                None => remove(&kept.join(&path))?,
            }
            self.note(path, outcome);
        }
        Ok(())
    }

    /// Checks that no file has the conflicts of a run before.
    pub fn check() -> Result<(), CliError> {
        let mut known = Vec::new();
        below(Path::new(GENERATED), "", &mut known);
        for path in known {
            if read(Path::new(&path))?.is_some_and(|text| has_conflict(&text)) {
                return Err(CliError(format!(
                    "{path} has the conflicts of the last run: look for <<<<<<< there, choose, and run the command again"
                )));
            }
        }
        Ok(())
    }

    /// Writes a file that nobody edits.
    pub fn replace(&mut self, path: &str, content: &[u8]) -> Result<(), CliError> {
        let outcome = match read(Path::new(path))? {
            Some(is) if is == content => return Ok(()),
            Some(_) => Outcome::Updated,
            None => Outcome::Created,
        };
        self.note(path.to_owned(), outcome);
        Ok(write_below(Path::new("."), Path::new(path), content)?)
    }

    /// A file that is created and updated in one run was created.
    fn note(&mut self, path: String, outcome: Outcome) {
        let before = self.outcomes.entry(path).or_insert(outcome);
        if *before != Outcome::Created {
            *before = outcome;
        }
    }

    /// Whether the project itself is new.
    fn is_new(&self) -> bool {
        self.outcomes.get("PROJECT") == Some(&Outcome::Created)
    }

    /// The files with conflicts.
    pub fn conflicts(&self) -> Vec<&String> {
        self.outcomes.iter().filter(|(_, outcome)| **outcome == Outcome::Conflict).map(|(path, _)| path).collect()
    }

    /// Prints what was done.
    ///
    /// # Errors
    /// If a file has a conflict.
    pub fn report(&self) -> Result<(), CliError> {
        print!("{}", self.lines());
        let conflicts = self.conflicts();
        if conflicts.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = conflicts.into_iter().map(String::as_str).collect();
        Err(CliError(format!(
            "edits and changes are at the same places of {}: look for <<<<<<< there, choose, and run the command again",
            names.join(", ")
        )))
    }

    fn lines(&self) -> String {
        let mut out = String::new();
        let mut folders: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (path, outcome) in &self.outcomes {
            let Some(word) = word(*outcome) else { continue };
            match self.folder(path) {
                Some(folder) if *outcome == Outcome::Created || *outcome == Outcome::Updated => {
                    *folders.entry((word, folder)).or_default() += 1;
                }
                _ => drop(writeln!(out, "{word} {path}{}", remark(*outcome, path))),
            }
        }
        for ((word, folder), count) in folders {
            let files = if count == 1 { "file" } else { "files" };
            let _ = writeln!(out, "{word} {folder} ({count} {files})");
        }
        for line in &self.values {
            let _ = writeln!(out, "{line}");
        }
        out
    }

    /// The folder that represents a file in the output: a chart, and in a new project each folder.
    fn folder<'a>(&self, path: &'a str) -> Option<&'a str> {
        let depth = if path.starts_with(&format!("{CHARTS}/")) {
            1
        } else if self.is_new() {
            0
        } else {
            return None;
        };
        path.match_indices('/').nth(depth).map(|(at, _)| &path[..at])
    }
}

fn word(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Same | Outcome::Deleted | Outcome::Kept => None,
        Outcome::Created => Some("created"),
        Outcome::Updated => Some("updated"),
        Outcome::Merged => Some("merged"),
        Outcome::Conflict => Some("conflict in"),
        Outcome::NotOurs | Outcome::Left => Some("kept"),
        Outcome::Removed => Some("removed"),
    }
}

fn remark(outcome: Outcome, path: &str) -> String {
    match outcome {
        Outcome::NotOurs => format!(": it existed before; the generated file is {GENERATED}/{path}"),
        Outcome::Left => ": you edited it; it is no longer generated".to_owned(),
        Outcome::Merged => ": it has your edits and the changes".to_owned(),
        _ => String::new(),
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, CliError> {
    match std::fs::read(path) {
        Ok(data) => Ok(Some(data)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(CliError(format!("{}: {e}", path.display()))),
    }
}

fn remove(path: &Path) -> Result<(), CliError> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(CliError(format!("{}: {e}", path.display()))),
        _ => Ok(()),
    }
}

/// The paths of all files below a folder.
fn below(root: &Path, folder: &str, found: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else { return };
    for entry in entries.flatten() {
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => below(root, &path, found),
            Ok(kind) if kind.is_file() => found.push(path),
            _ => {}
        }
    }
}

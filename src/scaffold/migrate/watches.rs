//! `watches.yaml`: fields that Tillerman does not know, and the environment that it uses.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::deployment::Manager;
use super::{MigrationReport, Project};
use crate::kind::watches::{self, Watches, WatchesError};
use crate::kind::{ChartRef, overrides};
use crate::template::yaml;

/// The name of the file.
const WATCHES: &str = "watches.yaml";

/// The working directory of helm-operator's image. Old projects name charts by their place in it.
const HOME: &str = "/opt/helm";

/// Reads the text of a project's `watches.yaml`. Paths of charts are those in the project's directory.
///
/// # Errors
/// The fault.
pub fn read(text: &str) -> Result<Watches, WatchesError> {
    let mut watches = watches::parse(text, Path::new(HOME))?;
    for kind in &mut watches.kinds {
        if let ChartRef::Path(path) = &mut kind.chart {
            *path = path.strip_prefix(HOME).map_or_else(|_| PathBuf::from(&path), Path::to_owned);
        }
    }
    Ok(watches)
}

pub fn look(project: &Project<'_>, manager: &Manager<'_>, report: &mut MigrationReport) {
    let Some(text) = project.files.get(WATCHES) else {
        return report.change(WATCHES, None, "there is none", "write one: docs/reference/watches.md");
    };
    let watches = match read(text) {
        Ok(watches) => watches,
        Err(why) => {
            return report.change(WATCHES, None, &why.to_string(), "fix it; tillerman run does not start with it");
        }
    };
    for warning in &watches.warnings {
        report.note(WATCHES, line_in(warning), warning, "helm-operator ignores it too: remove it, or correct its name");
    }
    let used = variables(text);
    let missing: Vec<&str> =
        used.iter().map(String::as_str).filter(|name| !manager.environment.contains(*name)).collect();
    if !missing.is_empty() && !manager.has_more_environment {
        report.note(
            WATCHES,
            None,
            &format!("overrideValues uses variables that the Deployment does not set: {}", missing.join(", ")),
            "nothing, if they are meant to be empty, as they are with helm-operator",
        );
    }
    // The variables of the operator's environment are not available here.
    for why in watches.kinds.iter().filter_map(|kind| kind.unusable.as_ref()).filter(|_| used.is_empty()) {
        report.change(WATCHES, None, why, "correct overrideValues");
    }
    let kinds = if watches.kinds.len() == 1 { "kind" } else { "kinds" };
    let known = if watches.warnings.is_empty() { ", all fields are known" } else { "" };
    report.stays(WATCHES, &format!("{} {kinds}{known}", watches.kinds.len()));
}

/// The line of a warning, from 0.
fn line_in(warning: &str) -> Option<usize> {
    let number = warning.strip_prefix("line ")?.split(':').next()?.parse::<usize>().ok()?;
    number.checked_sub(1)
}

/// The variables of the environment that `overrideValues` names.
fn variables(text: &str) -> BTreeSet<String> {
    let document = yaml::parse(text.as_bytes()).unwrap_or_default();
    let names = std::cell::RefCell::new(BTreeSet::new());
    let entries = document.as_array().into_iter().flatten();
    let texts = entries.filter_map(|entry| entry.get("overrideValues")?.as_object()).flat_map(serde_json::Map::values);
    for text in texts.filter_map(Value::as_str) {
        overrides::expand(text, &|name| {
            names.borrow_mut().insert(name.to_owned());
            None
        });
    }
    names.into_inner()
}

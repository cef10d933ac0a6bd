//! Documents of a chart that the operator reads and Helm skips: `Members` and `Status` documents, scale hooks and operations.

use std::collections::BTreeMap;

use super::{LintReport, LintSettings};
use crate::members::document::{KIND, Members};
use crate::members::drivers::Drivers;
use crate::members::progress;
use crate::object::{Object, push_flat};
use crate::plan::operations::document::Operations;
use crate::plan::unknown_hooks;
use crate::release::status_fields::{self, Known, StatusFields};
use crate::render::RenderedFiles;

/// Reports which of them the operator would refuse, by rendered file.
pub fn check(folder: &str, files: BTreeMap<String, String>, settings: &LintSettings, report: &mut LintReport) {
    let mut all = RenderedFiles::default();
    all.texts = files.into_iter().filter(|(path, _)| !path.ends_with("NOTES.txt")).collect();
    // Invalid YAML was reported for its file.
    let Ok(rendered) = all.sort() else { return };
    if rendered.unknown.is_empty()
        && !rendered.manifests.iter().any(|manifest| [KIND, status_fields::KIND].contains(&manifest.kind.as_str()))
    {
        return;
    }
    let mut objects = Vec::new();
    for manifest in &rendered.manifests {
        if let Ok(Some(object)) = Object::parse(&manifest.text) {
            // Nor does a list keep the others from being looked at.
            let _ = push_flat(object, &mut objects);
        }
    }
    let members = Members::read(&rendered.unknown, &objects, &settings.namespace, &Drivers::new());
    let sets = members.as_ref().ok().and_then(Option::as_ref).into_iter().flat_map(|members| &members.sets);
    let names: Vec<String> = sets.map(|set| set.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let facts = progress::facts(&Drivers::new());
    let known = Known { objects: &objects, namespace: &settings.namespace, members: &names, facts: &facts };
    let fields = StatusFields::read(&rendered.unknown, known);
    report.check(folder, members);
    report.check(folder, fields);
    report.check(folder, Operations::read(&rendered.unknown, &objects));
    if settings.strict {
        for text in unknown_hooks::describe(&rendered.unknown) {
            report.warning(folder, text);
        }
    }
}

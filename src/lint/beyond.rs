//! Documents of a chart that the operator reads and Helm skips: `Members` documents, scale hooks and operations.

use std::collections::BTreeMap;

use super::{Report, Settings};
use crate::members::document::{KIND, Members};
use crate::plan::operations::document::Operations;
use crate::plan::unknown_hooks;
use crate::release::object::{Object, push_flat};
use crate::render::Files;

/// Reports which of them the operator would refuse, by rendered file.
pub fn check(folder: &str, files: BTreeMap<String, String>, settings: &Settings, report: &mut Report) {
    let mut all = Files::default();
    all.texts = files.into_iter().filter(|(path, _)| !path.ends_with("NOTES.txt")).collect();
    // Invalid YAML was reported for its file.
    let Ok(rendered) = all.sort() else { return };
    if rendered.unknown.is_empty() && !rendered.manifests.iter().any(|manifest| manifest.kind == KIND) {
        return;
    }
    let mut objects = Vec::new();
    for manifest in &rendered.manifests {
        if let Ok(Some(object)) = Object::parse(&manifest.text) {
            // Nor does a list keep the others from being looked at.
            let _ = push_flat(object, &mut objects);
        }
    }
    report.check(folder, Members::read(&rendered.unknown, &objects, &settings.namespace));
    report.check(folder, Operations::read(&rendered.unknown, &objects));
    if settings.strict {
        for text in unknown_hooks::describe(&rendered.unknown) {
            report.warning(folder, text);
        }
    }
}

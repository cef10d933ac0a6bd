//! The `CustomResourceDefinition`s of the kinds.

use serde_json::Value;

use super::documents::{self, Document};
use super::{MigrationReport, Project, charts};
use crate::crd;
use crate::kind::Kind;

pub fn look(project: &Project<'_>, report: &mut MigrationReport) {
    let files = project.files.iter().filter(|(path, _)| documents::is_yaml(path) && !path.starts_with("bundle/"));
    let all: Vec<Document<'_>> = files
        .flat_map(|(path, text)| documents::of_file(path, text))
        .filter(|document| document.kind() == "CustomResourceDefinition")
        .collect();
    for (kind, _) in project.kinds {
        let of_kind = |d: &&Document<'_>| {
            d.text("/spec/group") == &*kind.gvk.group && d.text("/spec/names/kind") == &*kind.gvk.kind
        };
        match all.iter().find(of_kind) {
            Some(definition) => one(kind, definition, report),
            None => report.note(
                "watches.yaml",
                None,
                &format!("the project has no CustomResourceDefinition of {}", kind.gvk),
                &command(kind, None),
            ),
        }
    }
}

fn one(kind: &Kind, document: &Document<'_>, report: &mut MigrationReport) {
    let (path, definition) = (document.path, &document.value);
    let plural = Some(document.text("/spec/names/plural")).filter(|plural| !plural.is_empty());
    if document.text("/apiVersion") != "apiextensions.k8s.io/v1" {
        return report.change(
            path,
            Some(document.start),
            &format!("Kubernetes has not served {} since 1.22", document.text("/apiVersion")),
            &command(kind, plural),
        );
    }
    if let Some(fault) = crd::status_fault(definition, &kind.gvk.version) {
        return report.change(
            path,
            None,
            &format!("a status of {} is lost: {fault}", kind.gvk.kind),
            &format!("{}: {}", crd::STATUS_REMEDY, command(kind, plural)),
        );
    }
    if is_untyped(definition, &kind.gvk.version) {
        return report.note(
            path,
            None,
            "spec takes any value (x-kubernetes-preserve-unknown-fields)",
            &format!("nothing; for a typed API, {}", command(kind, plural)),
        );
    }
    report.stays(path, "it keeps the status, and has types");
}

/// Whether the schema says nothing of the fields of `spec`.
fn is_untyped(definition: &Value, version: &str) -> bool {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let version = versions.into_iter().find(|v| v.get("name").and_then(Value::as_str) == Some(version));
    let schema = version.and_then(|version| version.pointer("/schema/openAPIV3Schema"));
    let has_types = |schema: &Value| schema.pointer("/properties/spec/properties").is_some();
    schema.is_some_and(|schema| !has_types(schema))
}

/// The command that writes the definition.
fn command(kind: &Kind, plural: Option<&str>) -> String {
    let group = match &*kind.gvk.group {
        "" => String::new(),
        group => format!(" --group {group}"),
    };
    let plural = plural.map(|plural| format!(" --plural {plural}")).unwrap_or_default();
    let (chart, gvk) = (charts::path_of(kind), &kind.gvk);
    format!("tillerman crd {chart}{group} --version {} --kind {}{plural}", gvk.version, gvk.kind)
}

//! The charts: whether they load, and render with the project's samples.

use std::path::Path;

use super::{MigrationReport, Project, documents};
use crate::chart::{Chart, Values, schema_documents};
use crate::kind::{ChartRef, Kind};
use crate::render::{Capabilities, Options, Release, render};
use serde_json::Value;

pub fn look(project: &Project<'_>, report: &mut MigrationReport) {
    for (kind, chart) in project.kinds {
        let path = path_of(kind);
        match chart {
            Err(why) => report.change(
                &path,
                None,
                &format!("the chart of {} does not load: {why}", kind.gvk.kind),
                "fix the chart, or its path in watches.yaml",
            ),
            Ok(chart) => {
                schemas(kind, chart, &path, report);
                renders(project, kind, chart, &path, report);
            }
        }
    }
}

/// Where the chart is.
pub fn path_of(kind: &Kind) -> String {
    match &kind.chart {
        ChartRef::Path(path) => path.strip_prefix(".").unwrap_or(path).to_string_lossy().into_owned(),
        ChartRef::Link(link) => link.clone(),
    }
}

/// Names the documents that the chart's schema refers to and that nobody has.
fn schemas(kind: &Kind, chart: &Chart, path: &str, report: &mut MigrationReport) {
    let is_known = |url: &str| kind.schema_documents.keys().any(|known| schema_documents::covers(known, url));
    for url in schema_documents::missing(chart).iter().filter(|url| !is_known(url)) {
        report.change(
            path,
            None,
            &format!("the schema of the chart refers to {url}, and schemas are not fetched while rendering"),
            &format!(
                "add to the entry of {} in watches.yaml: schemaDocuments: {{\"{url}\": any}}, or the path of a copy instead of any",
                kind.gvk.kind
            ),
        );
    }
}

fn renders(project: &Project<'_>, kind: &Kind, chart: &Chart, path: &str, report: &mut MigrationReport) {
    let mut tried = samples(project, kind);
    if tried.is_empty() {
        tried.push(("its defaults".to_owned(), Values::new()));
    }
    for (name, values) in &tried {
        let mut values = values.clone();
        crate::chart::values::merge(&mut values, kind.overrides.values.clone());
        let release = Release::new("sample", "default");
        match render(chart, &values, &release, &Capabilities::default(), &Options::for_a_look()) {
            Ok(rendered) => {
                let objects = rendered.manifests.len() + rendered.hooks.len();
                report.stays(path, &format!("the chart renders with {name}: {objects} manifests and hooks"));
            }
            Err(why) => report.note(
                path,
                None,
                &format!("the chart does not render with {name}: {why}"),
                "see whether helm template renders it; if so, this is an error of Tillerman",
            ),
        }
    }
}

/// The specs of the samples of a kind, with the names of their files.
fn samples(project: &Project<'_>, kind: &Kind) -> Vec<(String, Values)> {
    let is_sample = |path: &str| {
        let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
        path.starts_with("config/samples/") || path.starts_with("deploy/") && name.ends_with("_cr.yaml")
    };
    let files = project.files.iter().filter(|(path, _)| is_sample(path) && documents::is_yaml(path));
    let of_file = files.flat_map(|(path, text)| documents::of_file(path, text));
    let group = |version: &str| version.split_once('/').map_or(String::new(), |(group, _)| group.to_owned());
    of_file
        .filter(|d| d.kind() == &*kind.gvk.kind && group(d.text("/apiVersion")) == *kind.gvk.group)
        .map(|d| {
            let spec = d.value.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
            (format!("the sample {}", d.path), spec)
        })
        .collect()
}

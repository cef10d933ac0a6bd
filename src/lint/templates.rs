//! Checks of templates and of their output.

use super::{LintReport, LintSettings, Message, Severity, deprecations, later, manifest, names, twice};
use crate::chart::{Chart, LoadError, Values};
use crate::crd;
use crate::render::{self, Capabilities, Diagnostic, KubeVersion, Release};
use crate::template::go::quote;
use std::collections::BTreeMap;
use std::path::Path;

const FOLDER: &str = "templates/";

/// Renders the chart as for an install, and checks every file.
pub fn check(
    folder: &Path,
    loaded: &Result<Chart, LoadError>,
    values: &Values,
    settings: &LintSettings,
    report: &mut LintReport,
) {
    match std::fs::metadata(folder.join("templates")) {
        Err(_) => return report.warning(FOLDER, "directory does not exist"),
        Ok(info) if !info.is_dir() => return report.error(FOLDER, "not a directory"),
        Ok(_) => {}
    }
    let chart = match loaded {
        Ok(chart) => chart,
        Err(e) => return report.error(FOLDER, &*e.0),
    };
    let mut capabilities = Capabilities::default();
    if let Some(version) = &settings.kube_version {
        capabilities.kube_version.clone_from(version);
    }
    let Some(kube) = report.check(FOLDER, KubeVersion::parse(&capabilities.kube_version)) else { return };
    let namespace = settings.namespace.clone();
    let release = Release { name: "test-release".into(), namespace, revision: 1, is_upgrade: false };
    let options = settings.options.clone().lint(true).skip_schema(settings.skip_schema);
    let render = |values: &Values| render::lint_files(chart, values, &release, &capabilities, &options);
    let files = match render(values).or_else(|e| with_carried(chart, values, render, report).ok_or(e)) {
        Ok(Some(files)) => files,
        Ok(None) => return,
        Err(e) => {
            let (path, text) = (FOLDER.into(), e.message.clone());
            let diagnostic = Some(Box::new(e));
            report.messages.push(Message { severity: Severity::Error, path, text, diagnostic });
            return;
        }
    };
    for template in &chart.templates {
        let name = &template.name;
        let extension = extension(name);
        let is_jinja = chart.is_minijinja() && [".jinja", ".j2"].contains(&extension);
        if !is_jinja && ![".yaml", ".yml", ".tpl", ".txt"].contains(&extension) {
            report.error(
                name,
                format!("file extension '{extension}' not valid. Valid extensions are .yaml, .yml, .tpl, or .txt"),
            );
        }
        if ![".yaml", ".yml"].iter().any(|yaml| extension.eq_ignore_ascii_case(yaml)) {
            continue;
        }
        let text = files.get(&format!("{}/{name}", chart.metadata.name)).map_or("", String::as_str);
        if !text.trim().is_empty() && check_file(name, text, &kube, report).is_none() {
            return;
        }
        later::annotations(name, text, report);
        if settings.strict {
            twice::check(name, text, report);
        }
    }
    super::beyond::check(FOLDER, files, settings, report);
}

type Files = Option<BTreeMap<String, String>>;

/// What a chart for custom resources renders with values of its own, if it does not render without values: its users must give some.
fn with_carried(
    chart: &Chart,
    values: &Values,
    render: impl Fn(&Values) -> Result<Files, Diagnostic>,
    report: &mut LintReport,
) -> Option<Files> {
    let carried = if chart.is_minijinja() && values.is_empty() { crd::carried(chart) } else { Vec::new() };
    let (name, files) = carried.iter().find_map(|file| Some((&file.name, render(&file.values).ok()?)))?;
    report.info(FOLDER, format!("the chart does not render with its defaults, and was checked with {name}"));
    Some(files)
}

/// Go's `filepath.Ext`.
fn extension(name: &str) -> &str {
    let base = name.rsplit('/').next().unwrap_or(name);
    base.rfind('.').map_or("", |at| &base[at..])
}

/// `None` when the file is not YAML: Helm then looks at no other.
fn check_file(name: &str, text: &str, kube: &KubeVersion, report: &mut LintReport) -> Option<()> {
    if let Some(line) = text.lines().find(|line| !line.trim().is_empty())
        && line.starts_with([' ', '\t'])
    {
        let line = quote::quoted(line.as_bytes());
        let problem = format!("document starts with an illegal indent: {line}, which may cause parsing problems");
        report.warning(name, problem);
    }
    for document in manifest::documents(text) {
        let document = document.map_err(|e| format!("unable to parse YAML: {e}"));
        let Some(head) = report.check(name, document)? else { continue };
        if let Some(problem) = names::problem(&head.kind, &head.name) {
            report.warning(name, problem);
        }
        if let Some(problem) = deprecations::warning(&head.api_version, &head.kind, kube) {
            report.warning(name, problem);
        }
        let kind = head.kind.as_str();
        if matches!(kind, "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet")
            && !["matchLabels", "matchExpressions"].iter().any(|word| text.contains(word))
        {
            let object = quote::quoted(head.name.as_bytes());
            report.error(name, format!("a {kind} must contain matchLabels or matchExpressions, and {object} does not"));
        }
        if kind == "List" && report.check(name, manifest::has_kept_item(text)) == Some(true) {
            report.error(name, "annotation 'helm.sh/resource-policy' within List objects are ignored");
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::{LintReport, check_file, extension};
    use crate::render::KubeVersion;

    #[test]
    fn a_file_is_checked_document_by_document() {
        let mut report = LintReport::default();
        let text = "  kind: Deployment\n  metadata: {name: B}\n";
        check_file("templates/a.yaml", text, &KubeVersion::parse("v1.37.0").unwrap(), &mut report).unwrap();
        let texts: Vec<_> = report.messages.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 3);
        assert_eq!(
            texts[0],
            "[WARNING] templates/a.yaml: document starts with an illegal indent: \"  kind: Deployment\", which may cause \
             parsing problems"
        );
        assert!(texts[1].starts_with("[WARNING] templates/a.yaml: object name does not conform"));
        assert!(texts[2].ends_with("a Deployment must contain matchLabels or matchExpressions, and \"B\" does not"));
    }

    #[test]
    fn an_extension_is_what_follows_the_last_dot_of_the_last_name() {
        assert_eq!((extension("a.b/c"), extension("a/b.yaml"), extension("a/.x")), ("", ".yaml", ".x"));
    }
}

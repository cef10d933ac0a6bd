//! What Helm 4.3.1 ignores or reads differently than a later Helm will: the order of resources and subcharts (HIP-0025), and `!` in
//! `.helmignore`. A chart that has it changes its meaning when Helm is upgraded.

use super::LintReport;
use crate::template::yaml;
use serde_json::Value;

const RESOURCE_GROUP: &str = "helm.sh/resource-group";
const DEPENDS_ON: &str = "helm.sh/depends-on/";

/// Warns of annotations in a rendered file.
pub fn annotations(file: &str, text: &str, report: &mut LintReport) {
    // Most files have none, and are not parsed again.
    if !text.contains(RESOURCE_GROUP) && !text.contains(DEPENDS_ON) {
        return;
    }
    let documents = yaml::split_documents(text.as_bytes()).unwrap_or_default();
    for object in documents.iter().filter_map(|document| yaml::parse(document).ok()) {
        let names = object["metadata"]["annotations"].as_object().into_iter().flat_map(|all| all.keys());
        for name in names.filter(|name| *name == RESOURCE_GROUP || name.starts_with(DEPENDS_ON)) {
            report.warning(file, format!("annotation '{name}' is ignored; a later Helm will order objects by it"));
        }
    }
}

/// Warns of fields of Chart.yaml, and says which charts are supported.
pub fn chartfile(document: &Value, file: &str, report: &mut LintReport) {
    for dependency in document["dependencies"].as_array().into_iter().flatten() {
        if dependency.get("depends-on").is_some() {
            let name = dependency["alias"].as_str().or(dependency["name"].as_str()).unwrap_or_default();
            let text = format!("depends-on of dependency '{name}' is ignored; a later Helm will order subcharts by it");
            report.warning(file, text);
        }
    }
    if document["apiVersion"] == "v3" {
        report.info(
            file,
            "charts of apiVersion v3 are an experiment of Helm (HELM_EXPERIMENTAL_CHART_V3); Tillerman supports v1 and v2",
        );
    }
}

/// Warns of lines of `.helmignore` that begin with `!`. Helm ignores all files that such a line does not match; Git, whose rules a later
/// Helm takes over, keeps those that it matches.
pub fn helmignore(text: &str, report: &mut LintReport) {
    for line in text.lines().map(str::trim).filter(|line| line.starts_with('!')) {
        let text = format!(
            "'{line}' excludes all files with other names; a later Helm will read it as Git does: it keeps the files that it names"
        );
        report.warning(".helmignore", text);
    }
}

#[cfg(test)]
mod tests {
    use super::{LintReport, annotations, chartfile, helmignore};
    use serde_json::json;

    fn texts(report: &LintReport) -> Vec<String> {
        report.messages.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn annotations_that_order_objects_are_warned_of() {
        let mut report = LintReport::default();
        let text = "metadata: {annotations: {helm.sh/resource-group: db, helm.sh/hook: test}}\n---\n\
                    metadata: {annotations: {helm.sh/depends-on/resource-groups: '[db]'}}\n---\ndata: {a: helm.sh/resource-group}\n";
        annotations("templates/a.yaml", text, &mut report);
        let all = texts(&report);
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[1].contains("'helm.sh/depends-on/resource-groups' is ignored"), "{all:?}");
    }

    #[test]
    fn fields_of_a_later_chart_are_warned_of() {
        let mut report = LintReport::default();
        let document = json!({"apiVersion": "v3", "dependencies": [{"name": "a"}, {"name": "b", "depends-on": ["a"], "alias": "c"}]});
        chartfile(&document, "Chart.yaml", &mut report);
        let all = texts(&report);
        assert!(all[0].contains("depends-on of dependency 'c'") && all[1].contains("CHART_V3"), "{all:?}");
    }

    #[test]
    fn exceptions_of_helmignore_are_warned_of() {
        let mut report = LintReport::default();
        helmignore("# !none\n*.md\n !README.md\n", &mut report);
        let all = texts(&report);
        assert!(all.len() == 1 && all[0].contains("'!README.md' excludes all files"), "{all:?}");
    }
}

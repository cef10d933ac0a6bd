//! Finds faults of a chart, with the checks and words of `helm lint` of Helm 4.3.1, checks of the files that only the
//! operator reads, and checks that only `--strict` makes.

pub mod accounts;
mod address;
mod beyond;
mod chartfile;
pub(crate) mod deprecations;
mod later;
mod manifest;
mod names;
mod templates;
mod twice;
mod unused;

use crate::chart::{self, Chart, LoadError, Values};
use crate::render::{Diagnostic, Options};
use crate::template::yaml::YamlError;
use std::fmt;
use std::path::{Path, PathBuf};
pub use unused::unread;

/// Why a chart, or a file of it, cannot be checked; the words are Helm's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LintError {
    /// A file is not YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// A value has another type.
    #[error("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go {wanted}")]
    Type {
        /// The type in JSON.
        found: &'static str,
        /// The place in Go, with its type.
        wanted: String,
    },
    /// There is nothing to check.
    #[error("{0}")]
    Other(String),
}

impl From<String> for LintError {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For the author to know.
    Info,
    /// Against conventions, but it will likely work.
    Warning,
    /// Will likely not work.
    Error,
}

/// A finding.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Message {
    /// How bad it is.
    pub severity: Severity,
    /// The file or folder, relative to the chart.
    pub path: String,
    /// The fault.
    pub text: String,
    /// Of a rendering that failed: the details.
    pub diagnostic: Option<Box<Diagnostic>>,
}

impl fmt::Display for Message {
    /// `[SEVERITY] PATH: TEXT`, as helm prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Info => "INFO",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
        };
        write!(f, "[{severity}] {}: {}", self.path, self.text)
    }
}

/// The settings of the check of a chart.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct LintSettings {
    /// Warnings fail too. Values that no template uses or no default defines are reported, and list items that server-side
    /// apply would refuse.
    pub strict: bool,
    /// Do not check values against schemas.
    pub skip_schema: bool,
    /// The namespace to render for.
    pub namespace: String,
    /// The Kubernetes version to render for and to look for deprecated APIs in; that of Helm's client by default.
    pub kube_version: Option<String>,
    /// How the chart is rendered.
    pub options: Options,
}

/// The findings of a chart.
#[derive(Clone, Debug, Default)]
pub struct LintReport {
    /// The findings, in Helm's order.
    pub messages: Vec<Message>,
}

impl LintReport {
    /// Whether a finding is as bad as this, or worse.
    pub fn has(&self, severity: Severity) -> bool {
        self.messages.iter().any(|m| m.severity >= severity)
    }

    fn add(&mut self, severity: Severity, path: &str, text: impl Into<String>) {
        self.messages.push(Message { severity, path: path.into(), text: text.into(), diagnostic: None });
    }

    fn info(&mut self, path: &str, text: impl Into<String>) {
        self.add(Severity::Info, path, text);
    }

    fn warning(&mut self, path: &str, text: impl Into<String>) {
        self.add(Severity::Warning, path, text);
    }

    fn error(&mut self, path: &str, text: impl Into<String>) {
        self.add(Severity::Error, path, text);
    }

    /// Records an error; returns the value if there is none.
    fn check<T>(&mut self, path: &str, result: Result<T, impl fmt::Display>) -> Option<T> {
        result.map_err(|e| self.error(path, e.to_string())).ok()
    }
}

/// Checks the chart in a folder or archive.
///
/// # Errors
/// When there is no chart to check, in Helm's words.
pub fn run(path: &Path, values: &Values, settings: &LintSettings) -> Result<LintReport, LintError> {
    let name = path.to_string_lossy();
    if is_archive(&name) {
        let unpacked = Unpacked::new(path)?;
        return check(&unpacked.chart, values, settings);
    }
    check(path, values, settings)
}

/// Whether a file's name is that of an archive, as Helm sees it.
pub fn is_archive(name: &str) -> bool {
    [".tgz", ".tar.gz"].iter().any(|end| name.ends_with(end))
}

fn check(folder: &Path, values: &Values, settings: &LintSettings) -> Result<LintReport, LintError> {
    let absolute = std::path::absolute(folder).map_err(|e| e.to_string())?;
    let file = folder.join("Chart.yaml");
    if let Err(e) = std::fs::metadata(&file) {
        let (file, problem) = (file.display(), chart::go_io(&e));
        return Err(format!("unable to check Chart.yaml file in chart: stat {file}: {problem}").into());
    }
    let mut report = LintReport::default();
    chartfile::check(&absolute, &mut report);
    later::helmignore(&std::fs::read_to_string(absolute.join(".helmignore")).unwrap_or_default(), &mut report);
    check_values(&absolute, values, settings, &mut report);
    let loaded = chart::load(&absolute);
    templates::check(&absolute, &loaded, values, settings, &mut report);
    check_dependencies(&absolute, &loaded, &mut report);
    check_crds(&absolute, &loaded, &mut report);
    if let Ok(chart) = &loaded {
        check_resource(chart, &mut report);
        if settings.strict {
            unused::check(chart, &mut report);
        }
    }
    Ok(report)
}

/// A chart's archive, unpacked for as long as it is checked.
struct Unpacked {
    folder: PathBuf,
    chart: PathBuf,
}

impl Unpacked {
    fn new(archive: &Path) -> Result<Self, LintError> {
        let data = std::fs::read(archive)
            .map_err(|e| format!("unable to open tarball: open {}: {}", archive.display(), chart::go_io(&e)))?;
        let failed = |e: &dyn fmt::Display| format!("unable to extract tarball: {e}");
        let files = chart::archive_files(&data, &chart::ChartLimits::default()).map_err(|e| failed(&e))?;
        let name = chart::load_archive(&data, &chart::ChartLimits::default()).map(|chart| chart.metadata.name);
        let folder = std::env::temp_dir().join(format!("tillerman-lint-{}", std::process::id()));
        let chart = folder.join(name.map_err(|e| failed(&e))?);
        let unpacked = Self { folder, chart };
        for file in files {
            let path = unpacked.chart.join(&file.name);
            let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            made.and_then(|()| std::fs::write(&path, &*file.data)).map_err(|e| failed(&e))?;
        }
        Ok(unpacked)
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        // If it cannot be removed, the system cleans its temporary folder.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn check_values(folder: &Path, values: &Values, settings: &LintSettings, report: &mut LintReport) {
    const FILE: &str = "values.yaml";
    let path = folder.join(FILE);
    if std::fs::metadata(&path).is_err() {
        report.info(FILE, "file does not exist");
        return;
    }
    let own = std::fs::read(&path)
        .map_err(|e| format!("read {}: {}", path.display(), chart::go_io(&e)).into())
        .and_then(|text| first_document(&text))
        .map_err(|e| format!("unable to parse YAML: {e}"));
    let Some(own) = report.check(FILE, own) else { return };
    let schema = std::fs::read(folder.join("values.schema.json")).unwrap_or_default();
    if !schema.is_empty() && !settings.skip_schema {
        report.check(FILE, crate::render::lint_values(values, &own, &schema));
    }
}

/// The first document of a values file: the linter reads no other.
fn first_document(text: &[u8]) -> Result<Values, LintError> {
    match crate::template::yaml::parse(text)? {
        serde_json::Value::Null => Ok(Values::new()),
        serde_json::Value::Object(values) => Ok(values),
        other => {
            let wanted = "value of type common.Values".to_owned();
            Err(LintError::Type { found: chart::values::json_type(&other), wanted })
        }
    }
}

fn check_dependencies(folder: &Path, loaded: &Result<Chart, LoadError>, report: &mut LintReport) {
    let chart = match loaded {
        Ok(chart) => chart,
        Err(e) => return report.error("", format!("unable to load chart\n\t{e}")),
    };
    let folder = folder.display().to_string();
    let wanted = &chart.metadata.dependencies;
    let unnamed: Vec<&str> = chart.dependencies.iter().map(|c| c.metadata.name.as_str()).collect();
    let unnamed: Vec<&str> = unnamed.into_iter().filter(|name| !wanted.iter().any(|d| d.name == *name)).collect();
    if !unnamed.is_empty() {
        report.error(&folder, format!("chart metadata is missing these dependencies: {}", unnamed.join(",")));
    }
    let key = |d: &chart::Dependency| if d.alias.is_empty() { d.name.clone() } else { d.alias.clone() };
    let twice: Vec<String> = wanted
        .iter()
        .enumerate()
        .filter(|(i, d)| wanted[..*i].iter().any(|other| key(other) == key(d)))
        .map(|(_, d)| key(d))
        .collect();
    if !twice.is_empty() {
        report.error(&folder, format!("multiple dependencies with name or alias: {}", twice.join(",")));
    }
    let missing: Vec<&str> = wanted
        .iter()
        .map(|d| d.name.as_str())
        .filter(|name| !chart.dependencies.iter().any(|c| c.metadata.name == *name))
        .collect();
    if !missing.is_empty() {
        report.warning(&folder, format!("chart directory is missing these dependencies: {}", missing.join(",")));
    }
}

fn check_crds(folder: &Path, loaded: &Result<Chart, LoadError>, report: &mut LintReport) {
    const FOLDER: &str = "crds/";
    match std::fs::metadata(folder.join("crds")) {
        Err(_) => return,
        Ok(info) if !info.is_dir() => return report.error(FOLDER, "not a directory"),
        Ok(_) => {}
    }
    let chart = match loaded {
        Ok(chart) => chart,
        Err(e) => return report.error(FOLDER, &*e.0),
    };
    let mut files = Vec::new();
    gather_crds(chart, &mut files);
    for file in files {
        for document in manifest::documents(&String::from_utf8_lossy(&file.data)) {
            let document = document.map_err(|e| format!("unable to parse YAML: {e}"));
            let Some(document) = report.check(&file.name, document) else { return };
            let Some(head) = document else { continue };
            if !head.api_version.starts_with("apiextensions.k8s.io") {
                report.error(&file.name, "apiVersion is not in 'apiextensions.k8s.io'");
            }
            if head.kind != "CustomResourceDefinition" {
                report.error(&file.name, "object kind is not 'CustomResourceDefinition'");
            }
        }
    }
}

fn gather_crds<'c>(chart: &'c Chart, files: &mut Vec<&'c chart::File>) {
    files.extend(chart.crds());
    for dependency in &chart.dependencies {
        gather_crds(dependency, files);
    }
}

/// Checks whether the schema of a chart for custom resources can become that of a definition.
fn check_resource(chart: &Chart, report: &mut LintReport) {
    use crate::crd::{CrdSettings, Names, of_chart};
    if (chart.is_minijinja() || chart.metadata.annotation(crate::names::GROUP).is_some())
        && let Err(e) = of_chart(chart, &Names::of_chart(chart), CrdSettings::default(), &[], &[])
    {
        report.error("values.schema.json", e);
    }
}

#[cfg(test)]
mod tests {
    use super::{LintSettings, Severity, run};
    use crate::chart::Values;
    use std::path::Path;

    #[test]
    fn a_folder_without_a_chart_is_no_report_but_an_error() {
        let error = run(Path::new("/nowhere"), &Values::new(), &LintSettings::default()).unwrap_err().to_string();
        assert_eq!(
            error,
            "unable to check Chart.yaml file in chart: stat /nowhere/Chart.yaml: no such file or directory"
        );
    }

    #[test]
    fn severities_are_ordered() {
        assert!(Severity::Error > Severity::Warning && Severity::Warning > Severity::Info);
    }
}

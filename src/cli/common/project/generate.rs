//! The generated files of a project.

use super::written::Written;
use crate::chart::{self, Chart, Values};
use crate::cli::common::definition::definition;
use crate::cli::common::error::CliError;
use crate::cli::common::rights::of_project;
use crate::cli::common::values_files;
use crate::crd::{CrdSettings, Evidence, Names, Scope};
use crate::kind::{ChartRef, watches};
use crate::rbac::Rights;
use crate::render::{Capabilities, Options, Release, render};
use crate::scaffold::project::{Project, ProjectResource};
use crate::scaffold::{self, Api, CHARTS, bounds, dependencies, pinned, sample};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const PROJECT: &str = "PROJECT";
const WATCHES: &str = "watches.yaml";

/// The project in this folder, which has no conflicts.
pub fn read() -> Result<Option<Project>, CliError> {
    Written::check()?;
    match std::fs::read_to_string(PROJECT) {
        Ok(text) => Project::read(&text).map(Some).map_err(|e| CliError(format!("{PROJECT}: {e}"))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(CliError(format!("{PROJECT}: {e}"))),
    }
}

/// Writes a project with the kinds that it has. `before` is the earlier project.
pub fn project(project: &Project, before: &Project, written: &mut Written) -> Result<(), CliError> {
    generate(project, before, written, None)
}

/// The chart in a folder.
pub fn load(path: &Path) -> Result<Chart, CliError> {
    chart::load(path).map_err(CliError::new)
}

/// The folder of a kind's chart, as `watches.yaml` has it.
pub fn folder_of(resource: &ProjectResource) -> Result<PathBuf, CliError> {
    let text = std::fs::read_to_string(WATCHES).map_err(|e| CliError(format!("{WATCHES}: {e}")))?;
    let base = std::env::current_dir().map_err(CliError::new)?;
    let watches = watches::parse(&text, &base).map_err(|e| CliError(format!("{WATCHES}: {e}")))?;
    let group = resource.qualified_group();
    let found = watches.kinds.into_iter().find(|kind| *kind.gvk.kind == *resource.kind && *kind.gvk.group == *group);
    match found.map(|kind| kind.chart) {
        Some(ChartRef::Path(path)) => Ok(path.strip_prefix(&base).map(Path::to_owned).unwrap_or(path)),
        Some(ChartRef::Link(link)) => {
            Err(CliError(format!("{WATCHES}: the chart of {} is at {link}, not in the project", resource.kind)))
        }
        None => Err(CliError(format!("{WATCHES} has no kind {} of {group}, which is in {PROJECT}", resource.kind))),
    }
}

/// A kind with what its files are made from.
struct Made {
    api: Api,
    chart: Chart,
    evidence: Vec<Evidence>,
}

/// Generates all files but the charts. `before` is the project before, and `added` the index and the chart's folder of the kind that came.
pub fn generate(
    project: &Project,
    before: &Project,
    written: &mut Written,
    added: Option<(usize, &Path)>,
) -> Result<(), CliError> {
    let mut kinds = Vec::new();
    for (index, resource) in project.resources.iter().enumerate() {
        let folder = match added {
            Some((new, folder)) if new == index => folder.to_owned(),
            _ => folder_of(resource)?,
        };
        kinds.push(made(resource, project, &folder)?);
    }
    let apis: Vec<Api> = kinds.iter().map(|made| made.api.clone()).collect();
    // If nothing records the earlier generated text, as in a project of operator-sdk, it is the text that would have
    // been generated.
    let known: Vec<Api> = match added {
        Some(_) => apis
            .iter()
            .zip(&project.resources)
            .filter(|(_, r)| before.resources.contains(r))
            .map(|(api, _)| api.clone())
            .collect(),
        None => apis.clone(),
    };
    let watches = |apis: &[Api]| BTreeMap::from([(WATCHES.to_owned(), scaffold::watches(apis))]);
    written.update(&watches(&apis), &watches(&known), |path| path == WATCHES)?;
    if written.conflicts().iter().any(|path| *path == WATCHES) {
        return Ok(());
    }
    let mut files = scaffold::files(project, &apis, env!("CARGO_PKG_VERSION"));
    let (role, own) = of_project(Path::new(WATCHES), project.notices)?;
    files.insert("config/rbac/role.yaml".to_owned(), role.into_bytes());
    files.insert("config/rbac/leader_election_role.yaml".to_owned(), own.into_bytes());
    for kind in &kinds {
        files.insert(kind.api.crd_path(), kind.definition()?.into_bytes());
        files.insert(kind.api.sample_path(), kind.sample()?);
    }
    let text = project.write(scaffold::PROJECT_HEAD)?;
    written.replace(PROJECT, text.as_bytes())?;
    let is_other = |path: &str| path != WATCHES && !path.starts_with(&format!("{CHARTS}/"));
    written.update(&files, &scaffold::files(before, &known, env!("CARGO_PKG_VERSION")), is_other)
}

fn made(resource: &ProjectResource, project: &Project, folder: &Path) -> Result<Made, CliError> {
    let chart = load(folder)?;
    let evidence = values_files::beside(folder, &chart);
    let (namespaces, cluster_scoped) = bounds::of(&Rights::of(&chart, &evidence));
    let plural = resource.plural.clone().unwrap_or_else(|| crate::crd::plural(&resource.kind));
    let api = Api {
        chart: folder.to_string_lossy().into_owned(),
        chart_name: chart.metadata.name.clone(),
        chart_version: chart.metadata.version.clone(),
        namespaces,
        cluster_scoped,
        pinned: pinned::of(&chart),
        depends_on: dependencies::of(&chart, project)?,
        ..Api::new(resource, plural, project)
    };
    Ok(Made { api, chart, evidence })
}

impl Made {
    fn definition(&self) -> Result<String, CliError> {
        let Api { group, version, kind, plural, chart_name, chart_version, .. } = &self.api;
        let names = Names {
            group: group.clone(),
            version: version.clone(),
            kind: kind.clone(),
            plural: plural.clone(),
            scope: Scope::Namespaced,
        };
        let text = definition(&self.chart, &names, CrdSettings::default(), &self.evidence)?;
        Ok(format!("# From the chart {chart_name} {chart_version}.\n---\n{text}"))
    }

    /// The sample, with values from the chart's files where it does not render without.
    fn sample(&self) -> Result<Vec<u8>, CliError> {
        let renders = |values: &Values| {
            let release = Release::new("sample", "default");
            render(&self.chart, values, &release, &Capabilities::default(), &Options::for_a_look()).is_ok()
        };
        let none = Values::new();
        let found = if renders(&none) { None } else { self.evidence.iter().find(|file| renders(&file.values)) };
        let (values, from) = found.map_or((&none, None), |file| (&file.values, Some(&*file.name)));
        Ok(sample::of(&self.api, &self.chart, values, from)?)
    }
}

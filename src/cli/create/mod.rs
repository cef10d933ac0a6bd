//! `tillerman create api`: adds a kind to a project, or updates it, with the flags of `operator-sdk create api`.

mod fetched;
mod written;

use super::chart_path::ServerArgs;
use super::rbac::of_project;
use super::{CliError, crd, values_files};
use crate::chart::{self, Chart, Values};
use crate::crd::{Evidence, Names, Scope, Settings};
use crate::kind::{ChartRef, dns, watches};
use crate::rbac::Rights;
use crate::render::{Capabilities, Options, Release, render};
use crate::scaffold::project::{Project, Resource, Source};
use crate::scaffold::starter::{self, Engine};
use crate::scaffold::{self, Api, CHARTS, Files, GENERATED, bounds, pinned, sample};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
pub use written::Written;

/// What is added.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Add a kind with its chart, or update it: what is generated is written again, and what you edited is kept.
    Api(CreateArgs),
}

/// A kind, or all that the project has.
#[derive(Debug, clap::Args)]
pub struct CreateArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Update the files of all kinds of the project from helm-charts/ and watches.yaml.
    #[arg(long, conflicts_with_all = ["group", "version", "kind", "plural", "helm_chart", "native"])]
    all: bool,
}

/// A kind and its chart.
#[derive(Debug, clap::Args)]
pub struct ApiArgs {
    /// First part of the API group; the domain follows [default: the chart's annotation tillerman.dev/group, or charts].
    #[arg(long)]
    group: Option<String>,
    /// API version [default: the chart's annotation, or v1alpha1].
    #[arg(long)]
    version: Option<String>,
    /// Kind [default: the chart's annotation, or the chart's name in camel case].
    #[arg(long)]
    kind: Option<String>,
    /// Plural name [default: the chart's annotation, or made from the kind].
    #[arg(long)]
    plural: Option<String>,
    /// The chart: a directory, an archive, a URL, oci://…, REPOSITORY/NAME, or with --helm-chart-repo a name. Without it, a chart to begin
    /// with is written.
    #[arg(long, visible_alias = "chart", value_name = "CHART")]
    helm_chart: Option<String>,
    /// The repository of the chart, as a link.
    #[arg(long, value_name = "URL", requires = "helm_chart")]
    helm_chart_repo: Option<String>,
    /// A version of the chart, or a constraint such as `^1.2` [default: the newest].
    #[arg(long, value_name = "VERSION", requires = "helm_chart")]
    helm_chart_version: Option<String>,
    /// The chart to begin with has minijinja templates, in which no value breaks the YAML, instead of Helm's.
    #[arg(long, conflicts_with = "helm_chart")]
    native: bool,
    #[command(flatten)]
    server: ServerArgs,
    /// Accepted as of operator-sdk: v1 is the only one.
    #[arg(long, hide = true, default_value = "v1")]
    crd_version: String,
}

impl ApiArgs {
    /// Whether there is a kind to add.
    pub fn is_given(&self) -> bool {
        self.native || [&self.group, &self.version, &self.kind, &self.helm_chart].iter().any(|given| given.is_some())
    }
}

/// What to do with a new kind.
const NEXT: &str = "Next:
  make install run                   # the operator on this machine, for the cluster of your kubeconfig
  kubectl apply -k config/samples    # a custom resource
README.md has the rest.";
/// What to do with a new version of a chart: a pod of the operator stays as it is while the name of its image does.
const NEXT_OF_AN_UPDATE: &str = "Next, with a VERSION that you have not deployed yet:
  make image-push deploy VERSION=0.0.2    # or image-load for a local cluster";

const PROJECT: &str = "PROJECT";
const WATCHES: &str = "watches.yaml";

/// Adds or updates.
pub fn run(Command::Api(args): &Command) -> Result<(), CliError> {
    let Some(project) = read()? else {
        return Err(CliError::new(
            "there is no file PROJECT here: start a project with tillerman init, or change to its folder",
        ));
    };
    if args.all {
        let mut written = Written::default();
        generate(&project, &project, &mut written, None)?;
        return written.report();
    }
    api(&args.api, project, Written::default())
}

/// The project in this folder, which has no conflicts.
pub fn read() -> Result<Option<Project>, CliError> {
    Written::check()?;
    match std::fs::read_to_string(PROJECT) {
        Ok(text) => Project::read(&text).map(Some).map_err(|e| CliError(format!("{PROJECT}: {e}"))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(CliError(format!("{PROJECT}: {e}"))),
    }
}

/// Writes a project with the kinds that it has. `before` is what it was.
pub fn project(project: &Project, before: &Project, written: &mut Written) -> Result<(), CliError> {
    generate(project, before, written, None)
}

/// Adds a kind to a project, or updates it.
pub fn api(args: &ApiArgs, mut project: Project, mut written: Written) -> Result<(), CliError> {
    if args.crd_version != "v1" {
        return Err(CliError(format!("--crd-version {}: v1 is the only one that clusters have", args.crd_version)));
    }
    let before = project.clone();
    let known = |kind: &String| project.resources.iter().find(|resource| resource.kind == *kind);
    let (files, chart) = match (&args.helm_chart, &args.kind) {
        (Some(chart), _) => {
            let (repo, version) = (args.helm_chart_repo.as_deref(), args.helm_chart_version.as_deref());
            let files = fetched::chart(chart, repo.unwrap_or_default(), version.unwrap_or_default(), &args.server)?;
            let loaded = fetched::load(&files)?;
            (Some(files), loaded)
        }
        (None, None) => return Err(CliError::new("give --helm-chart, or --kind for a chart to begin with")),
        (None, Some(kind)) => {
            if let Some(resource) = known(kind) {
                // Its chart is there.
                (None, load(&folder_of(resource)?)?)
            } else {
                let engine = if args.native { Engine::Minijinja } else { Engine::Helm };
                let files = starter::chart(&kind.to_ascii_lowercase(), engine);
                let loaded = fetched::load(&files)?;
                (Some(files), loaded)
            }
        }
    };
    let resource = resource(args, &chart, &project)?;
    let name = &chart.metadata.name;
    let folder = format!("{CHARTS}/{name}");
    let stands_behind =
        |other: &&Resource| other.kind != resource.kind && folder_of(other).is_ok_and(|path| path.ends_with(&folder));
    if let Some(other) = project.resources.iter().find(stands_behind).filter(|_| files.is_some()) {
        return Err(CliError(format!(
            "{folder} is the chart of {}: two kinds with charts of one name cannot be in a project",
            other.kind
        )));
    }
    let index = project.add(resource);
    if let Some(files) = files {
        let older = Path::new(GENERATED).join(&folder);
        let older = older.is_dir().then(|| load(&older)).transpose()?;
        let files: Files = files.into_iter().map(|(path, data)| (format!("{folder}/{path}"), data)).collect();
        written.update(&files, &Files::new(), |path| path.starts_with(&format!("{folder}/")))?;
        if !written.conflicts().is_empty() {
            return written.report();
        }
        if let Some(older) = older.filter(|older| older.metadata.version != chart.metadata.version) {
            written.values = fetched::changes(&older, &chart)?;
        }
    }
    generate(&project, &before, &mut written, Some((index, Path::new(&folder))))?;
    written.report()?;
    let is_known = before.resources.iter().any(|known| known.is(&project.resources[index]));
    println!("{}", if is_known { NEXT_OF_AN_UPDATE } else { NEXT });
    Ok(())
}

/// The kind that flags and chart give.
fn resource(args: &ApiArgs, chart: &Chart, project: &Project) -> Result<Resource, CliError> {
    let names = Names::of_chart(chart);
    let kind = args.kind.clone().unwrap_or_else(|| names.kind.clone());
    let (group, domain) = match (&args.group, names.group.split_once('.')) {
        (Some(group), _) => (group.clone(), project.domain.clone()),
        (None, Some((group, domain))) => (group.to_owned(), domain.to_owned()),
        (None, None) => ("charts".to_owned(), project.domain.clone()),
    };
    let version = args.version.clone().unwrap_or(names.version);
    let same = |resource: &&Resource| resource.kind == kind && (args.group.is_none() || resource.group == group);
    let known = project.resources.iter().find(same).filter(|known| args.version.is_none() || known.version == version);
    let by_rule = crate::crd::plural(&kind);
    let of_chart = (kind == names.kind).then_some(names.plural);
    let plural = args.plural.clone().or(of_chart).filter(|plural| *plural != by_rule);
    let source = args.helm_chart.as_ref().map(|chart| Source {
        chart: chart.clone(),
        repo: args.helm_chart_repo.clone().unwrap_or_default(),
        version: args.helm_chart_version.clone().unwrap_or_default(),
    });
    let resource = match known {
        Some(known) => Resource { source: source.or_else(|| known.source.clone()), ..known.clone() },
        None => Resource { group, version, kind, domain, plural, source },
    };
    check(&resource)?;
    Ok(resource)
}

fn check(resource: &Resource) -> Result<(), CliError> {
    let Resource { version, kind, .. } = resource;
    let group = resource.qualified_group();
    if !dns::is_subdomain(&group) {
        return Err(CliError(format!("--group: {group:?} is no API group such as apps.example.com")));
    }
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = version.strip_prefix('v').is_some_and(|rest| {
        let (major, minor) = ["alpha", "beta"].iter().find_map(|word| rest.split_once(word)).unwrap_or((rest, "1"));
        number(major) && number(minor)
    });
    if !is_version {
        return Err(CliError(format!("--version: {version:?} is no API version such as v1alpha1")));
    }
    let is_kind =
        kind.starts_with(|c: char| c.is_ascii_uppercase()) && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !is_kind || kind.len() > 50 {
        return Err(CliError(format!("--kind: {kind:?} is no kind such as WebServer")));
    }
    if let Some(plural) = resource.plural.as_ref().filter(|plural| !dns::is_label(plural)) {
        return Err(CliError(format!("--plural: {plural:?} is no plural such as webservers")));
    }
    Ok(())
}

fn load(path: &Path) -> Result<Chart, CliError> {
    chart::load(path).map_err(CliError::new)
}

/// The folder of a kind's chart, as `watches.yaml` has it.
fn folder_of(resource: &Resource) -> Result<PathBuf, CliError> {
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
fn generate(
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
    // Where nothing says what was generated before, as in a project of operator-sdk, it is what would have been.
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
    let text = project.write(scaffold::PROJECT_HEAD).map_err(CliError)?;
    written.replace(PROJECT, text.as_bytes())?;
    let is_other = |path: &str| path != WATCHES && !path.starts_with(&format!("{CHARTS}/"));
    written.update(&files, &scaffold::files(before, &known, env!("CARGO_PKG_VERSION")), is_other)
}

fn made(resource: &Resource, project: &Project, folder: &Path) -> Result<Made, CliError> {
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
        let text = crd::definition(&self.chart, &names, Settings::default(), &self.evidence)?;
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
        sample::of(&self.api, &self.chart, values, from).map_err(CliError)
    }
}

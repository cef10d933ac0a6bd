//! A kind that comes into a project, or is updated.

use super::fetched;
use super::generate::{folder_of, generate, load};
use super::written::Written;
use crate::chart::Chart;
use crate::cli::common::chart_server::ServerArgs;
use crate::cli::common::error::CliError;
use crate::cli::common::kind_args::KindArgs;
use crate::crd::Names;
use crate::kind::dns;
use crate::scaffold::built_in::{self, BuiltIn};
use crate::scaffold::project::{ChartOrigin, Project, ProjectResource};
use crate::scaffold::starter::{self, Engine};
use crate::scaffold::{CHARTS, GENERATED, ProjectFiles};
use std::path::Path;

/// A kind and its chart.
#[derive(Debug, Default, clap::Args)]
pub struct ApiArgs {
    /// First part of the API group; the domain follows [default: the chart's annotation tillerman.dev/group, or charts].
    #[arg(long)]
    group: Option<String>,
    #[command(flatten)]
    names: KindArgs,
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
        self.native
            || [&self.group, &self.names.version, &self.names.kind, &self.helm_chart]
                .iter()
                .any(|given| given.is_some())
    }
}

/// The next steps with a new kind.
const NEXT: &str = "Next:
  make install run                   # the operator on this machine, for the cluster of your kubeconfig
  kubectl apply -k config/samples    # a custom resource
README.md has the rest.";
/// The next steps with a new version of a chart: a pod of the operator stays as it is while the name of its image
/// stays.
const NEXT_OF_AN_UPDATE: &str = "Next, with a VERSION that you have not deployed yet:
  make image-push deploy VERSION=0.0.2    # or image-load for a local cluster";

/// Adds a kind to a project, or updates it.
pub fn api(args: &ApiArgs, mut project: Project, mut written: Written) -> Result<(), CliError> {
    if args.crd_version != "v1" {
        return Err(CliError(format!("--crd-version {}: v1 is the only one that clusters have", args.crd_version)));
    }
    let known = |kind: &String| project.resources.iter().find(|resource| resource.kind == *kind);
    let (files, chart) = match (&args.helm_chart, &args.names.kind) {
        (Some(chart), _) => {
            let (repo, version) = (args.helm_chart_repo.as_deref(), args.helm_chart_version.as_deref());
            let files = fetched::chart(chart, repo.unwrap_or_default(), version.unwrap_or_default(), &args.server)?;
            let loaded = fetched::load(&files)?;
            (Some(files), loaded)
        }
        (None, None) => return Err(CliError::new("give --helm-chart, or --kind for a chart to begin with")),
        (None, Some(kind)) => {
            if let Some(resource) = known(kind) {
                // Its chart exists.
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
    let is_new = add(resource, &chart, files, &mut project, &mut written)?;
    written.report()?;
    println!("{}", if is_new { NEXT } else { NEXT_OF_AN_UPDATE });
    Ok(())
}

/// Adds the kinds of charts that are part of the program, or updates them.
pub fn built_in(kinds: &[BuiltIn], mut project: Project, mut written: Written) -> Result<(), CliError> {
    let mut is_new = false;
    for name in kinds.iter().flat_map(|kind| kind.charts()) {
        let files = built_in::files(name);
        let chart = fetched::load(&files)?;
        let resource = resource(&ApiArgs::default(), &chart, &project)?;
        is_new |= add(resource, &chart, Some(files), &mut project, &mut written)?;
    }
    written.report()?;
    println!("{}", if is_new { NEXT } else { NEXT_OF_AN_UPDATE });
    Ok(())
}

/// Puts a kind and the files of its chart, where they are not there, into a project. Whether the kind is new.
fn add(
    resource: ProjectResource,
    chart: &Chart,
    files: Option<ProjectFiles>,
    project: &mut Project,
    written: &mut Written,
) -> Result<bool, CliError> {
    let before = project.clone();
    let name = &chart.metadata.name;
    let folder = format!("{CHARTS}/{name}");
    let stands_behind = |other: &&ProjectResource| {
        other.kind != resource.kind && folder_of(other).is_ok_and(|path| path.ends_with(&folder))
    };
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
        let files: ProjectFiles = files.into_iter().map(|(path, data)| (format!("{folder}/{path}"), data)).collect();
        written.update(&files, &ProjectFiles::new(), |path| path.starts_with(&format!("{folder}/")))?;
        if !written.conflicts().is_empty() {
            written.report()?;
        }
        if let Some(older) = older.filter(|older| older.metadata.version != chart.metadata.version) {
            written.values.extend(fetched::changes(&older, chart)?);
        }
    }
    generate(project, &before, written, Some((index, Path::new(&folder))))?;
    Ok(!before.resources.iter().any(|known| known.is(&project.resources[index])))
}

/// The kind that flags and chart give.
fn resource(args: &ApiArgs, chart: &Chart, project: &Project) -> Result<ProjectResource, CliError> {
    let names = Names::of_chart(chart);
    let kind = args.names.kind.clone().unwrap_or_else(|| names.kind.clone());
    let (group, domain) = match (&args.group, names.group.split_once('.')) {
        (Some(group), _) => (group.clone(), project.domain.clone()),
        (None, Some((group, domain))) => (group.to_owned(), domain.to_owned()),
        (None, None) => ("charts".to_owned(), project.domain.clone()),
    };
    let version = args.names.version.clone().unwrap_or(names.version);
    let same = |resource: &&ProjectResource| resource.kind == kind && (args.group.is_none() || resource.group == group);
    let known =
        project.resources.iter().find(same).filter(|known| args.names.version.is_none() || known.version == version);
    let by_rule = crate::crd::plural(&kind);
    let of_chart = (kind == names.kind).then_some(names.plural);
    let plural = args.names.plural.clone().or(of_chart).filter(|plural| *plural != by_rule);
    let source = args.helm_chart.as_ref().map(|chart| ChartOrigin {
        chart: chart.clone(),
        repo: args.helm_chart_repo.clone().unwrap_or_default(),
        version: args.helm_chart_version.clone().unwrap_or_default(),
    });
    let resource = match known {
        Some(known) => ProjectResource { source: source.or_else(|| known.source.clone()), ..known.clone() },
        None => ProjectResource { group, version, kind, domain, plural, source },
    };
    check(&resource)?;
    Ok(resource)
}

fn check(resource: &ProjectResource) -> Result<(), CliError> {
    let ProjectResource { version, kind, .. } = resource;
    let group = resource.qualified_group();
    if !dns::is_subdomain(&group) {
        return Err(CliError(format!("--group: {group:?} is not an API group such as apps.example.com")));
    }
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = version.strip_prefix('v').is_some_and(|rest| {
        let (major, minor) = ["alpha", "beta"].iter().find_map(|word| rest.split_once(word)).unwrap_or((rest, "1"));
        number(major) && number(minor)
    });
    if !is_version {
        return Err(CliError(format!("--version: {version:?} is not an API version such as v1alpha1")));
    }
    let is_kind =
        kind.starts_with(|c: char| c.is_ascii_uppercase()) && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !is_kind || kind.len() > 50 {
        return Err(CliError(format!("--kind: {kind:?} is not a kind such as WebServer")));
    }
    if let Some(plural) = resource.plural.as_ref().filter(|plural| !dns::is_label(plural)) {
        return Err(CliError(format!("--plural: {plural:?} is not a plural such as webservers")));
    }
    Ok(())
}

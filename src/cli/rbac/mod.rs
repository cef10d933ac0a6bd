//! `tillerman rbac`: prints the roles that an operator of some charts needs, or checks that a ServiceAccount has them.

mod check;

use super::template::context::ClusterArgs;
use super::{CliError, chart_path, values_files};
use crate::chart::Chart;
use crate::crd::{Evidence, Names, plural};
use crate::kind::allow;
use crate::kind::placement::ClusterScoped;
use crate::kind::values_from::SourceKind;
use crate::kind::watches;
use crate::kind::{ChartRef, Kind};
use crate::rbac::own::{self, Impersonated, Served, Settings};
use crate::rbac::rules::Rule;
use crate::rbac::{Reach, Rights, Subject, print};
use std::path::{Path, PathBuf};

/// Charts, and how the operator is run.
#[derive(Debug, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct Args {
    /// The charts: directories or .tgz archives.
    #[arg(required_unless_present = "watches", value_name = "CHART")]
    charts: Vec<PathBuf>,
    /// A watches.yaml, for its kinds and charts, which are looked for from the working directory.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["charts", "group", "kind", "plural"])]
    watches: Option<PathBuf>,
    /// API group of the custom resource [default: the chart's annotation tillerman.dev/group].
    #[arg(long)]
    group: Option<String>,
    /// Kind [default: the chart's annotation, or the chart's name in camel case].
    #[arg(long)]
    kind: Option<String>,
    /// Plural name [default: the chart's annotation, or made from the kind].
    #[arg(long)]
    plural: Option<String>,
    /// Render with these values too; may be repeated, and each is tried by itself, as those in ci/ of the chart are.
    #[arg(short = 'f', long = "values", value_name = "FILE")]
    values: Vec<PathBuf>,
    /// The namespaces that the operator serves, as in `WATCH_NAMESPACE` [default: the one in which the roles are applied].
    #[arg(short, long, value_name = "NAME", value_delimiter = ',')]
    namespace: Vec<String>,
    /// The operator serves all namespaces: one `ClusterRole` has all rules.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// The ServiceAccount of the operator, as NAME or NAMESPACE:NAME: bindings are printed too.
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    /// Give the `ClusterRole` the label tillerman.dev/aggregate-to-operator, by which the role of an operator with --chart-definitions takes
    /// its rules (deploy/definitions-role.yaml). The rules are those of the charts and their custom resources alone.
    #[arg(long, requires = "all_namespaces", conflicts_with = "service_account")]
    aggregate: bool,
    /// Name of the roles and bindings [default: that of the ServiceAccount, or the chart's with -operator].
    #[arg(long)]
    name: Option<String>,
    /// The operator carries out notices (`run --notices`).
    #[arg(long)]
    notices: bool,
    /// Do not copy what the chart's own Roles grant; let the operator grant anything. Kubernetes lets nobody create a Role with more rights
    /// than they have, so the operator gets those of its chart's Roles. With the verbs escalate and bind instead, it can create any Role:
    /// who makes it do so has all rights. It is for charts whose Roles depend on values in ways that no rendering shows.
    #[arg(long)]
    escalate: bool,
    /// Ask the cluster whether the ServiceAccount has all of it, and print what it lacks.
    #[arg(long, requires = "service_account")]
    check: bool,
    /// The kubeconfig for --check [default: KUBECONFIG, or ~/.kube/config].
    #[arg(long, value_name = "FILE", requires = "check")]
    kubeconfig: Option<PathBuf>,
    /// Its context.
    #[arg(long, value_name = "NAME", requires = "check")]
    kube_context: Option<String>,
}

/// A chart with what is known of its custom resources.
struct Input {
    chart: Chart,
    files: Vec<Evidence>,
    served: Served,
    /// The entry of `watches.yaml`.
    kind: Option<Kind>,
}

/// What an account lacks of the rights for the charts of a watches file, in one namespace or in all: who it is, how many rights were asked
/// for, and the rules to add.
pub fn lacking(
    watches: &Path,
    account: &str,
    namespace: Option<String>,
    cluster: &ClusterArgs,
) -> Result<(String, usize, Vec<String>), CliError> {
    let mut args = Args {
        watches: Some(watches.to_owned()),
        service_account: Some(account.to_owned()),
        all_namespaces: namespace.is_none(),
        ..Args::default()
    };
    args.namespace.extend(namespace);
    let found = found(&args)?;
    check::missing(cluster, &found.rules, &found.subject)
}

/// The rights that the arguments mean.
struct Found {
    inputs: Vec<Input>,
    charts: Vec<Rights>,
    rules: Vec<Rule>,
    subject: Subject,
}

/// Prints the roles as YAML, or what a ServiceAccount lacks.
pub fn run(args: &Args) -> Result<(), CliError> {
    let Found { inputs, charts, rules, subject } = found(args)?;
    if args.check {
        return check::run(args, &rules, &subject);
    }
    chart_path::print(&print(&title(&inputs), &charts, &rules, &subject));
    Ok(())
}

fn found(args: &Args) -> Result<Found, CliError> {
    let inputs = inputs(args)?;
    let Args { escalate, aggregate: charts_only, notices, .. } = *args;
    let settings = Settings { escalate, notices, charts_only, ..Settings::default() };
    let (charts, rules) = rules(&inputs, settings);
    let subject = subject(args, &inputs)?;
    Ok(Found { inputs, charts, rules, subject })
}

/// The files with the roles of a project's operator, for the charts of `watches.yaml`: the `ClusterRole` for everything, and the Role in
/// the operator's own namespace `system`, whose name kustomize changes. `notices`: it carries out notices.
pub fn of_project(watches: &Path, notices: bool) -> Result<(String, String), CliError> {
    let inputs = of_watches(watches, &[])?;
    let (charts, rules) = rules(&inputs, Settings { notices, ..Settings::default() });
    let (own, served): (Vec<Rule>, Vec<Rule>) = rules.into_iter().partition(|rule| rule.reach == Reach::Operator);
    let role = |name: &str| Subject { name: name.to_owned(), ..Subject::default() };
    let everywhere = Subject { everywhere: true, ..role("manager-role") };
    let in_system = Subject { namespaces: vec!["system".to_owned()], ..role("leader-election-role") };
    let own_title = "What the operator needs in its own namespace.";
    Ok((print(&title(&inputs), &charts, &served, &everywhere), print(own_title, &[], &own, &in_system)))
}

/// The rules that an operator of these kinds needs. Paths of charts begin in the working directory.
pub fn needed(kinds: &[Kind]) -> Result<Vec<Rule>, CliError> {
    let of_path = |kind: &Kind| match &kind.chart {
        ChartRef::Path(path) => Some(input(path, Some(kind.clone()), &[], [None; 3])),
        ChartRef::Link(_) => None,
    };
    let inputs = kinds.iter().filter_map(of_path).collect::<Result<Vec<_>, _>>()?;
    Ok(rules(&inputs, Settings::default()).1)
}

fn title(inputs: &[Input]) -> String {
    let names: Vec<String> =
        inputs.iter().map(|i| format!("{} {}", i.chart.metadata.name, i.chart.metadata.version)).collect();
    format!("The rights of an operator of {}, as tillerman rbac found them.", names.join(", "))
}

/// What is known of the charts, and all rules.
fn rules(inputs: &[Input], mut settings: Settings) -> (Vec<Rights>, Vec<Rule>) {
    let mut charts = Vec::new();
    for input in inputs {
        let mut rights = Rights::of(&input.chart, &input.files);
        if let Some(kind) = &input.kind {
            bound(&mut rights, kind);
            settings.rollouts |= kind.rollout.is_some();
            settings.config_maps |= kind.values_from.iter().any(|source| source.kind == SourceKind::ConfigMap);
            settings.impersonated.extend(impersonated(kind));
        }
        if settings.escalate {
            // No rule depends on what is not known of Roles.
            rights.granted.aggregated.clear();
            rights.granted.unseen.clear();
        }
        settings.served.insert(input.served.clone());
        charts.push(rights);
    }
    let mut rules = own::rules(&charts, &settings);
    for target in inputs.iter().filter_map(|input| input.kind.as_ref()?.placement.target.as_deref()) {
        let of_releases = rules.iter().filter(|rule| rule.reach == Reach::Release).cloned();
        let there: Vec<_> =
            of_releases.map(|rule| Rule { reach: Reach::Namespace(target.to_owned()), ..rule }).collect();
        rules.extend(there);
    }
    (charts, rules)
}

fn inputs(args: &Args) -> Result<Vec<Input>, CliError> {
    let mut more = Vec::new();
    for path in &args.values {
        more.push(values_files::read(path)?);
    }
    if let Some(file) = &args.watches {
        return of_watches(file, &more);
    }
    if args.charts.len() > 1 && (args.group.is_some() || args.kind.is_some() || args.plural.is_some()) {
        return Err(CliError::new(
            "--group, --kind and --plural are for one chart; give several in a file, with --watches",
        ));
    }
    let of_path = |path: &PathBuf| {
        let names = [&args.group, &args.kind, &args.plural].map(Option::as_deref);
        input(path, None, &more, names)
    };
    args.charts.iter().map(of_path).collect()
}

/// The kinds of a `watches.yaml`, with their charts.
fn of_watches(file: &Path, more: &[Evidence]) -> Result<Vec<Input>, CliError> {
    let text = std::fs::read_to_string(file).map_err(|e| CliError(format!("{}: {e}", file.display())))?;
    let base = std::env::current_dir().map_err(CliError::new)?;
    let watches = watches::parse(&text, &base).map_err(|e| CliError(format!("{}: {e}", file.display())))?;
    let of_kind = |kind: Kind| match kind.chart.clone() {
        ChartRef::Path(path) => input(&path, Some(kind), more, [None; 3]),
        ChartRef::Link(link) => Err(CliError(format!(
            "{}: the chart {link} is not fetched here: pull it (tillerman pull), and give its archive as CHART",
            kind.gvk
        ))),
    };
    watches.kinds.into_iter().map(of_kind).collect()
}

/// A chart, with its values files and `more`. The names are group, kind and plural, where they are given.
fn input(path: &Path, kind: Option<Kind>, more: &[Evidence], names: [Option<&str>; 3]) -> Result<Input, CliError> {
    let chart = crate::chart::load(path).map_err(CliError::new)?;
    let mut files = values_files::beside(path, &chart);
    files.extend(more.iter().cloned());
    if let Some(over) = kind.as_ref().map(|kind| &kind.overrides.values).filter(|over| !over.is_empty()) {
        files.push(Evidence { name: "overrideValues".to_owned(), values: over.clone() });
    }
    let served = served(names, &chart, kind.as_ref())?;
    Ok(Input { chart, files, served, kind })
}

fn served(
    [group, wanted, as_plural]: [Option<&str>; 3],
    chart: &Chart,
    kind: Option<&Kind>,
) -> Result<Served, CliError> {
    let mut names = Names::of_chart(chart);
    let given = kind.map(|kind| kind.gvk.kind.to_string()).or_else(|| wanted.map(str::to_owned));
    if let Some(given) = given.filter(|given| *given != names.kind) {
        names.plural = plural(&given);
        names.kind = given;
    }
    if let Some(kind) = kind {
        names.group = kind.gvk.group.to_string();
    }
    names.group = group.map_or(names.group, str::to_owned);
    names.plural = as_plural.map_or(names.plural, str::to_owned);
    if names.group.is_empty() {
        return Err(CliError(format!(
            "the chart {} names no API group: give --group, or the annotation tillerman.dev/group in Chart.yaml",
            chart.metadata.name
        )));
    }
    Ok(Served { group: names.group, plural: names.plural })
}

/// The accounts with whose rights the releases of a kind are handled.
fn impersonated(kind: &Kind) -> impl Iterator<Item = Impersonated> {
    let of_kind = kind.service_account.as_ref().map(|account| Impersonated {
        reach: account.namespace.as_ref().map_or(Reach::Release, |namespace| Reach::Namespace(namespace.to_string())),
        name: Some(account.name.to_string()),
    });
    let may_choose = kind.allow.iter().any(|reach| reach == allow::Reach::ServiceAccount);
    let chosen = may_choose.then_some(Impersonated { reach: Reach::Release, name: None });
    of_kind.into_iter().chain(chosen)
}

/// Leaves out what `watches.yaml` does not let the chart make.
fn bound(rights: &mut Rights, kind: &Kind) {
    let is_allowed = |pair: &crate::rbac::Pair| match &kind.placement.cluster_scoped {
        ClusterScoped::Any => true,
        ClusterScoped::Nothing => false,
        ClusterScoped::Kinds(kinds) => kinds.contains(&*pair.kind) || kinds.contains(&*pair.to_string()),
    };
    let scopes: Vec<_> = rights.made.keys().map(|pair| (pair.clone(), rights.resource(pair).namespaced)).collect();
    for (pair, namespaced) in scopes {
        if !namespaced && !is_allowed(&pair) {
            rights.made.remove(&pair);
            rights
                .unknown
                .push(format!("{pair}: the chart may make it, and clusterScoped in watches.yaml does not let it"));
        }
    }
}

fn subject(args: &Args, inputs: &[Input]) -> Result<Subject, CliError> {
    let account = match &args.service_account {
        None => None,
        Some(text) => Some(match (text.split_once(':'), args.namespace.first()) {
            (Some((namespace, name)), _) => (namespace.to_owned(), name.to_owned()),
            (None, Some(namespace)) => (namespace.clone(), text.clone()),
            (None, None) => {
                return Err(CliError::new(
                    "which namespace is the ServiceAccount in? Give it as NAMESPACE:NAME, or --namespace",
                ));
            }
        }),
    };
    let of_chart = || match inputs {
        [one] => format!("{}-operator", one.chart.metadata.name),
        _ => "operator".to_owned(),
    };
    let name = args.name.clone().or_else(|| Some(account.as_ref()?.1.clone())).unwrap_or_else(of_chart);
    let (namespaces, everywhere, aggregate) = (args.namespace.clone(), args.all_namespaces, args.aggregate);
    Ok(Subject { name, namespaces, everywhere, aggregate, account })
}

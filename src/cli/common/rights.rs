//! The rights that an operator of some charts needs.

use super::cluster_args::ClusterArgs;
use super::error::CliError;
use super::missing_rights::missing;
use super::values_files;
use crate::chart::Chart;
use crate::crd::{Evidence, Names, plural};
use crate::kind::allow;
use crate::kind::placement::ClusterScoped;
use crate::kind::values_from::SourceKind;
use crate::kind::watches;
use crate::kind::{ChartRef, Kind};
use crate::rbac::own::{self, Impersonated, RunSettings, Served};
use crate::rbac::rules::Rule;
use crate::rbac::{Reach, Rights, Subject, print};
use std::path::Path;

/// A chart with the facts about its custom resources.
pub struct Input {
    pub chart: Chart,
    files: Vec<Evidence>,
    served: Served,
    /// The entry of `watches.yaml`.
    kind: Option<Kind>,
}

/// The rights that an account lacks for the charts of a watches file, in one namespace or in all: the account, the number of questions to
/// the API server, and the rules to add.
pub fn lacking(
    watches: &Path,
    account: &str,
    namespace: Option<String>,
    cluster: &ClusterArgs,
) -> Result<(String, usize, Vec<String>), CliError> {
    let inputs = of_watches(watches, &[])?;
    let (_, rules) = rules(&inputs, RunSettings::default());
    let (place, name) = account_of(account, namespace.as_deref())?;
    let everywhere = namespace.is_none();
    let namespaces = namespace.into_iter().collect();
    let subject =
        Subject { name: name.clone(), namespaces, everywhere, account: Some((place, name)), ..Subject::default() };
    missing(cluster, &rules, &subject)
}

/// Namespace and name of the ServiceAccount that a text means: NAMESPACE:NAME, or NAME in this namespace.
pub fn account_of(text: &str, namespace: Option<&str>) -> Result<(String, String), CliError> {
    match (text.split_once(':'), namespace) {
        (Some((namespace, name)), _) => Ok((namespace.to_owned(), name.to_owned())),
        (None, Some(namespace)) => Ok((namespace.to_owned(), text.to_owned())),
        (None, None) => {
            Err(CliError::new("which namespace is the ServiceAccount in? Give it as NAMESPACE:NAME, or --namespace"))
        }
    }
}

/// The files with the roles of a project's operator, for the charts of `watches.yaml`: the `ClusterRole` for everything, and the Role in
/// the operator's own namespace `system`, whose name kustomize changes. `notices`: it carries out notices.
pub fn of_project(watches: &Path, notices: bool) -> Result<(String, String), CliError> {
    let inputs = of_watches(watches, &[])?;
    let (charts, rules) = rules(&inputs, RunSettings { notices, ..RunSettings::default() });
    let (own, served): (Vec<Rule>, Vec<Rule>) = rules.into_iter().partition(|rule| rule.reach == Reach::Operator);
    let role = |name: &str| Subject { name: name.to_owned(), ..Subject::default() };
    let everywhere = Subject { everywhere: true, ..role("manager-role") };
    let in_system = Subject { namespaces: vec!["system".to_owned()], ..role("leader-election-role") };
    let own_title = "The rights that the operator needs in its own namespace.";
    Ok((print(&title(&inputs), &charts, &served, &everywhere), print(own_title, &[], &own, &in_system)))
}

/// The rules that an operator of these kinds needs. Paths of charts begin in the working directory.
pub fn needed(kinds: &[Kind]) -> Result<Vec<Rule>, CliError> {
    let of_path = |kind: &Kind| match &kind.chart {
        ChartRef::Path(path) => Some(input(path, Some(kind.clone()), &[], [None; 3])),
        ChartRef::Link(_) => None,
    };
    let inputs = kinds.iter().filter_map(of_path).collect::<Result<Vec<_>, _>>()?;
    Ok(rules(&inputs, RunSettings::default()).1)
}

/// The purpose of the roles, in a sentence.
pub fn title(inputs: &[Input]) -> String {
    let names: Vec<String> =
        inputs.iter().map(|i| format!("{} {}", i.chart.metadata.name, i.chart.metadata.version)).collect();
    format!("The rights of an operator of {}, as tillerman rbac found them.", names.join(", "))
}

/// The facts about the charts, and all rules.
pub fn rules(inputs: &[Input], mut settings: RunSettings) -> (Vec<Rights>, Vec<Rule>) {
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
            // No rule depends on unknown facts about Roles.
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

/// The kinds of a `watches.yaml`, with their charts.
pub fn of_watches(file: &Path, more: &[Evidence]) -> Result<Vec<Input>, CliError> {
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
pub fn input(path: &Path, kind: Option<Kind>, more: &[Evidence], names: [Option<&str>; 3]) -> Result<Input, CliError> {
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

//! `tillerman rbac`: prints the roles that an operator of some charts needs, or checks that a ServiceAccount has them.

mod check;

use crate::cli::common::error::CliError;
use crate::cli::common::rights::{Input, account_of, input, of_watches, rules, title};
use crate::cli::common::{streams, values_files};
use crate::rbac::own::RunSettings;
use crate::rbac::rules::Rule;
use crate::rbac::{Rights, Subject, print};
use std::path::PathBuf;

/// Charts, and how the operator is run.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct RbacArgs {
    /// The charts: directories or .tgz archives.
    #[arg(required_unless_present = "watches", value_name = "CHART")]
    charts: Vec<PathBuf>,
    /// A watches.yaml, for its kinds and charts; paths are relative to the working directory.
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
    /// Render with these values too; can be repeated, and each file is tried separately, like those in ci/ of the
    /// chart.
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
    /// Do not copy the rules of the chart's own Roles; let the operator grant anything. Kubernetes lets no client
    /// create a Role with more rights than the client has, so the operator gets those of its chart's Roles. With the
    /// verbs escalate and bind instead, it can create any Role: a user who can make it do so has all rights. Use it for
    /// charts whose Roles depend on values in ways that no rendering shows.
    #[arg(long)]
    escalate: bool,
    /// Ask the cluster whether the ServiceAccount has all these rights, and print those that it lacks.
    #[arg(long, requires = "service_account")]
    check: bool,
    /// The kubeconfig for --check [default: KUBECONFIG, or ~/.kube/config].
    #[arg(long, value_name = "FILE", requires = "check")]
    kubeconfig: Option<PathBuf>,
    /// Its context.
    #[arg(long, value_name = "NAME", requires = "check")]
    kube_context: Option<String>,
}

/// The rights that the arguments mean.
struct Found {
    inputs: Vec<Input>,
    charts: Vec<Rights>,
    rules: Vec<Rule>,
    subject: Subject,
}

/// Prints the roles as YAML, or what a ServiceAccount lacks.
pub fn run(args: &RbacArgs) -> Result<(), CliError> {
    let Found { inputs, charts, rules, subject } = found(args)?;
    if args.check {
        return check::run(args, &rules, &subject);
    }
    streams::print(&print(&title(&inputs), &charts, &rules, &subject));
    Ok(())
}

fn found(args: &RbacArgs) -> Result<Found, CliError> {
    let inputs = inputs(args)?;
    let RbacArgs { escalate, aggregate: charts_only, notices, .. } = *args;
    let settings = RunSettings { escalate, notices, charts_only, ..RunSettings::default() };
    let (charts, rules) = rules(&inputs, settings);
    let subject = subject(args, &inputs)?;
    Ok(Found { inputs, charts, rules, subject })
}

fn inputs(args: &RbacArgs) -> Result<Vec<Input>, CliError> {
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

fn subject(args: &RbacArgs, inputs: &[Input]) -> Result<Subject, CliError> {
    let namespace = args.namespace.first().map(String::as_str);
    let account = args.service_account.as_deref().map(|text| account_of(text, namespace)).transpose()?;
    let of_chart = || match inputs {
        [one] => format!("{}-operator", one.chart.metadata.name),
        _ => "operator".to_owned(),
    };
    let name = args.name.clone().or_else(|| Some(account.as_ref()?.1.clone())).unwrap_or_else(of_chart);
    let (namespaces, everywhere, aggregate) = (args.namespace.clone(), args.all_namespaces, args.aggregate);
    Ok(Subject { name, namespaces, everywhere, aggregate, account })
}

//! `tillerman fleet`: the effect of a change on many custom resources.

mod live;
mod markdown;
mod patch;
mod read;
mod report;
mod server;
mod sides;
mod table;
mod work;

use crate::cli::common::connect::ConnectArgs;
use crate::cli::common::error::CliError;
use crate::cli::common::line::line;
use crate::cli::common::streams::print;
use crate::render::{Capabilities, KubeVersion};
use report::FleetReport;
use sides::{FleetCase, Sides};
use std::path::PathBuf;

/// Arguments of `tillerman fleet`.
#[derive(Debug, clap::Args)]
pub(super) struct FleetArgs {
    /// Files with the custom resources as they are now, or folders that are searched for .yaml, .yml and .json files [default: the live
    /// cluster's, which are listed].
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The chart now: a directory, an archive, or a link.
    #[arg(long, value_name = "CHART", required_unless_present = "watches_file", conflicts_with = "watches_file")]
    chart: Option<String>,
    /// The operator's watches.yaml now, or a manifest of chart definitions; paths of charts are relative to its folder, or to the
    /// working directory.
    #[arg(long, value_name = "FILE")]
    watches_file: Option<PathBuf>,
    /// The kind of the custom resources of --chart [default: the chart's annotation, or the chart's name in camel case].
    #[arg(long, value_name = "KIND", conflicts_with = "watches_file")]
    kind: Option<String>,
    /// The chart then. With --watches-file it replaces the chart of the same name.
    #[arg(long, value_name = "CHART", conflicts_with = "then_watches_file")]
    then_chart: Option<String>,
    /// The watches.yaml then, or a manifest of chart definitions; paths of charts are relative to its folder, or to the working directory.
    #[arg(long, value_name = "FILE", requires = "watches_file")]
    then_watches_file: Option<PathBuf>,
    /// Files or folders with the custom resources that change.
    #[arg(long, value_name = "PATH")]
    then_resources: Vec<PathBuf>,
    /// Custom resources that are not in --then-resources are deleted; else they stay as they are.
    #[arg(long, requires = "then_resources")]
    prune: bool,
    /// A YAML file with a merge patch for every custom resource, such as `spec: {replicas: 3}`.
    #[arg(long, value_name = "FILE")]
    then_patch: Option<PathBuf>,
    /// Only write the custom resources of the live cluster to this file, with the API versions that it serves. The file is a PATH for
    /// later, where the cluster cannot be reached. It contains specs as they are, and nothing of Secrets.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paths", "then_chart", "then_watches_file", "then_resources", "then_patch"])]
    save: Option<PathBuf>,
    /// Without a cluster: the Kubernetes version to render for.
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<String>,
    /// Without a cluster: more API versions that it serves.
    #[arg(short, long, value_name = "VERSION", value_delimiter = ',')]
    api_versions: Vec<String>,
    /// With a live cluster: in all namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// With a live cluster: compare the live objects with dry runs of the next passes, as `tillerman diff` does. Defaults, webhooks and
    /// refusals of the API server count.
    #[arg(long, conflicts_with = "paths")]
    server: bool,
    /// With --server: the average number of requests per second.
    #[arg(long, value_name = "NUMBER", default_value_t = 10, requires = "server", value_parser = clap::value_parser!(u32).range(1..))]
    qps: u32,
    /// How to print it.
    #[arg(short, long, value_enum, default_value = "table", hide_default_value = true, value_name = "FORMAT")]
    output: FleetFormat,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The format of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FleetFormat {
    /// For a terminal.
    Table,
    /// For the comment of a pull request; at most 64 KiB.
    Markdown,
    /// For programs.
    Json,
    /// All values, line by line.
    Diff,
}

/// Prints the report. Ends with 0 if nothing changes, with 1 if something does, with 3 if something hurts, and with 2 after an error.
pub(super) fn run(args: &FleetArgs) -> Result<(), CliError> {
    let failed = |error: CliError| -> ! {
        eprintln!("Error: {}", line(&error.0));
        std::process::exit(2);
    };
    if let Some(file) = &args.save {
        let saved = live::save(args, file).unwrap_or_else(|error| failed(error));
        eprintln!("{saved} custom resources are in {}", file.display());
        return Ok(());
    }
    let report = made(args).unwrap_or_else(|error| failed(error));
    match args.output {
        FleetFormat::Table => {
            report.notes.iter().for_each(|note| eprintln!("note: {}", line(note)));
            print(&table::text(&report));
        }
        FleetFormat::Diff => {
            report.notes.iter().for_each(|note| eprintln!("note: {}", line(note)));
            print(&patch::text(&report));
        }
        FleetFormat::Markdown => print(&markdown::text(&report)),
        FleetFormat::Json => {
            print(&(serde_json::to_string_pretty(&report.document()).map_err(CliError::new)? + "\n"));
        }
    }
    match report.exit() {
        0 => Ok(()),
        code => std::process::exit(code),
    }
}

fn made(args: &FleetArgs) -> Result<FleetReport, CliError> {
    let changes = [args.then_chart.is_some(), args.then_watches_file.is_some(), args.then_patch.is_some()];
    if !changes.contains(&true) && args.then_resources.is_empty() {
        return Err(CliError::new(
            "nothing changes: give --then-chart, --then-watches-file, --then-resources or --then-patch, and the command compares with it",
        ));
    }
    let (sides, cases, capabilities) = if args.paths.is_empty() { live::found(args)? } else { without_cluster(args)? };
    if cases.is_empty() {
        return Err(CliError(format!("there is no custom resource of {}", sides.kinds())));
    }
    let done = if args.server { server::all(&cases, &sides, args)? } else { work::all(&cases, &capabilities) };
    Ok(FleetReport::new(&cases, done))
}

/// The custom resources in files.
fn without_cluster(args: &FleetArgs) -> Result<(Sides, Vec<FleetCase>, Capabilities), CliError> {
    let mut capabilities = read::saved_capabilities(&args.paths)?.unwrap_or_default();
    if let Some(version) = args.kube_version.as_deref() {
        let parsed = KubeVersion::parse(version).map_err(|e| CliError(format!("--kube-version {version}: {e}")))?;
        capabilities.kube_version = parsed.version;
    }
    capabilities.api_versions.extend(args.api_versions.iter().cloned());
    let namespace = args.connect.namespace();
    let sides = Sides::load(args)?;
    let now = read::custom_resources(&args.paths, &sides.now, &namespace)?;
    let cases = sides.cases(now, args, &namespace)?;
    Ok((sides, cases, capabilities))
}

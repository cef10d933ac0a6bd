//! `tillerman values`: the values of a release, and the source of each.

mod files;
mod objects;
mod why;

use std::path::PathBuf;

use crate::cli::common::connect::ConnectArgs;
use crate::cli::common::error::CliError;
use crate::cli::common::line::line;
use crate::cli::common::output::{OutputArgs, OutputFormat};
use crate::cli::common::streams::print;
use crate::cli::common::table::table;
use crate::cli::common::target::{Target, two_words};
use crate::cli::common::values::rows::{Describer, rows_json, table_rows};
use crate::cli::common::values::{Subject, live, paths};
use crate::lint::unread;
use crate::render::provenance::{EffectiveValue, ValueTrace};
use crate::render::{Diagnostic, Options};
use objects::{ValueChange, touched};

/// Arguments of `tillerman values`.
#[derive(Debug, clap::Args)]
pub(super) struct ValuesArgs {
    /// A custom resource of the cluster, KIND NAME or KIND/NAME; or a chart, a directory or a .tgz archive.
    #[arg(required = true, num_args = 1..=2, value_names = ["KIND|CHART", "NAME"])]
    what: Vec<String>,
    /// With a chart: the custom resource, in a YAML file; `-` for standard input [default: one with an empty spec].
    #[arg(long, value_name = "FILE")]
    cr: Option<PathBuf>,
    /// With a chart: the Secrets and `ConfigMap`s that the custom resource or its kind names, in a YAML file.
    #[arg(long, value_name = "FILE")]
    sources: Option<PathBuf>,
    /// With a custom resource: its chart [default: that of --watches-file, or the one in the release's record].
    #[arg(long, value_name = "PATH", conflicts_with_all = ["cr", "sources"])]
    chart: Option<PathBuf>,
    /// The operator's watches.yaml, for the `valuesFrom` and `overrideValues` of the kind.
    #[arg(long, value_name = "FILE")]
    watches_file: Option<PathBuf>,
    /// All sources of this value and the values below it, such as image.tag, also those that are overridden.
    #[arg(long, value_name = "VALUE", conflicts_with_all = ["unused", "objects"])]
    why: Option<String>,
    /// Only values that no template reads.
    #[arg(long, conflicts_with = "objects")]
    unused: bool,
    /// The objects and fields that change when this value does: a boolean is inverted, a number is increased by one, and a text gets a
    /// suffix.
    #[arg(long, value_name = "VALUE")]
    objects: Option<String>,
    /// With --objects: the other value, as YAML.
    #[arg(long, value_name = "YAML", requires = "objects", allow_hyphen_values = true)]
    to: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Prints the values.
pub(super) fn run(args: &ValuesArgs) -> Result<(), CliError> {
    let subject = match files::chart_path(args) {
        Some(path) => files::subject(args, &path)?,
        None => live_subject(args)?,
    };
    for note in &subject.layers.notes {
        eprintln!("note: {}", line(note));
    }
    let failed = |e: Diagnostic| subject.failed(&e);
    let trace = ValueTrace::new(&subject.chart, &subject.layers.given, &Options::for_a_look()).map_err(failed)?;
    if let Some(path) = &args.objects {
        return print_objects(args, path, &subject, &trace);
    }
    let rows = trace.values().map_err(failed)?;
    let mut describer = Describer::new(&trace, &subject.layers);
    if let Some(path) = &args.why {
        let all = why::explained(&paths::keys(path), &rows, &trace, &mut describer).map_err(failed)?;
        if all.is_empty() {
            return Err(CliError(format!("nothing gives a value {}", line(path))));
        }
        if !args.output.print(&why::document(&all))? {
            print(&why::text(&all));
        }
        return Ok(());
    }
    let rows = if args.unused { unused(&subject, &trace, rows)? } else { rows };
    if !args.output.print(&rows_json(&rows, &mut describer))? {
        print(&table(&table_rows(&rows, &mut describer, args.output.output == OutputFormat::Wide)));
    }
    Ok(())
}

/// Reads the custom resource that the arguments name.
fn live_subject(args: &ValuesArgs) -> Result<Subject, CliError> {
    let (kind, name) = two_words(&args.what)?;
    let server = args.connect.connect()?;
    let namespace = args.connect.namespace();
    server.block_on(async |cluster, discovery| {
        discovery.refresh().await.map_err(CliError::new)?;
        let target = Target::find(kind, name, &namespace, discovery).await?;
        let cr = target.get(cluster).await?;
        let kind = live::kind_of(args.watches_file.as_deref(), &target.resource.gvk)?;
        live::subject(&cr, kind.as_ref(), args.chart.as_deref(), cluster).await
    })
}

/// The values that no template reads.
fn unused(
    subject: &Subject,
    trace: &ValueTrace<'_>,
    mut rows: Vec<EffectiveValue>,
) -> Result<Vec<EffectiveValue>, CliError> {
    let unread = unread(&subject.chart, &trace.effective).ok_or_else(|| {
        CliError::new(
            "the values that templates read are not known, because a template does not parse: see tillerman lint",
        )
    })?;
    let is_below = |path: &[String], table: &[Box<str>]| {
        path.len() >= table.len() && path.iter().zip(table).all(|(a, b)| **a == **b)
    };
    rows.retain(|row| unread.iter().any(|table| is_below(&row.path, table)));
    Ok(rows)
}

fn print_objects(args: &ValuesArgs, path: &str, subject: &Subject, trace: &ValueTrace<'_>) -> Result<(), CliError> {
    let change = ValueChange::new(path, args.to.as_deref(), &trace.effective)?;
    let is_secret = subject.layers.is_secret_at(&paths::keys(path));
    let touched = touched(subject, &change, is_secret)?;
    if !args.output.print(&objects::document(&change, &touched, is_secret))? {
        print(&objects::text(&change, &touched, is_secret));
    }
    Ok(())
}

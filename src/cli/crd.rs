//! `tillerman crd`: prints the CustomResourceDefinition of a chart.

use crate::chart::Chart;
use crate::cli::common::definition::definition;
use crate::cli::common::error::CliError;
use crate::cli::common::kind_args::KindArgs;
use crate::cli::common::output::as_yaml;
use crate::cli::common::streams::print;
use crate::cli::common::values_files;
use crate::crd::{self, CrdSettings, Evidence, Names, Scope, Types};
use std::path::{Path, PathBuf};

/// A chart, and the names of the custom resource where the chart's annotations do not give them.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct CrdArgs {
    /// The chart: a directory or a .tgz archive.
    chart: PathBuf,
    /// API group of the custom resource [default: the chart's annotation tillerman.dev/group].
    #[arg(long)]
    group: Option<String>,
    #[command(flatten)]
    names: KindArgs,
    /// Whether custom resources are in a namespace. Those of a cluster-scoped kind need targetNamespace in watches.yaml, or an annotation.
    #[arg(long, value_enum, default_value = "namespaced", ignore_case = true)]
    scope: ScopeFlag,
    /// How strict the types are for values that the chart's values.schema.json does not describe.
    #[arg(long, value_enum, default_value = "plain")]
    types: Level,
    /// A values file that the CRD must accept, besides those that come with the chart; types that refuse it are opened.
    #[arg(short = 'f', long = "values", value_name = "FILE")]
    values: Vec<PathBuf>,
    /// Write the chart's default values as defaults: the API server stores them in each custom resource, where they outlive the
    /// chart's.
    #[arg(long)]
    defaults: bool,
    /// Require in each custom resource the values that values.schema.json requires and values.yaml does not give.
    #[arg(long)]
    require: bool,
    /// Print also a validating admission policy that warns of top-level keys that the chart does not know.
    #[arg(long)]
    warn_unknown: bool,
    /// Print the types as a values.schema.json to edit and keep in the chart.
    #[arg(long, conflicts_with_all = ["against", "warn_unknown"])]
    write_schema: bool,
    /// An older version of the chart: print the custom resources that the change breaks. The command fails if something
    /// breaks.
    #[arg(long, value_name = "OLD", conflicts_with = "warn_unknown")]
    against: Option<PathBuf>,
}

/// [`Types`], as the flag names them.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Level {
    /// Types that `kubectl explain` shows: boolean, object, array, integer or string.
    Plain,
    /// Types that also accept values that templates treat as empty, such as a text in place of a table.
    Zero,
    /// Plain types, and no unknown key at the top.
    Closed,
    /// No types but those of the chart's own schema.
    Author,
}

/// [`Scope`], as the flag names it.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ScopeFlag {
    /// Each custom resource is in a namespace.
    Namespaced,
    /// None is.
    Cluster,
}

impl From<ScopeFlag> for Scope {
    fn from(scope: ScopeFlag) -> Self {
        match scope {
            ScopeFlag::Namespaced => Self::Namespaced,
            ScopeFlag::Cluster => Self::Cluster,
        }
    }
}

impl From<Level> for Types {
    fn from(level: Level) -> Self {
        match level {
            Level::Plain => Self::Plain,
            Level::Zero => Self::Zero,
            Level::Closed => Self::Closed,
            Level::Author => Self::Author,
        }
    }
}

/// Prints the CRD as YAML.
pub fn run(args: &CrdArgs) -> Result<(), CliError> {
    let chart = crate::chart::load(&args.chart).map_err(CliError::new)?;
    let settings = CrdSettings { types: args.types.into(), with_defaults: args.defaults, with_required: args.require };
    let mut evidence = values_files::beside(&args.chart, &chart);
    for path in &args.values {
        evidence.push(values_files::read(path)?);
    }
    if let Some(old) = &args.against {
        return against(old, &chart, settings, &evidence);
    }
    if args.write_schema {
        let types = crd::types(&chart, settings, &evidence)?;
        let schema = crd::json_schema(&types.schema, &chart.metadata.name);
        print(&(serde_json::to_string_pretty(&schema).map_err(CliError::new)? + "\n"));
        return Ok(());
    }
    let names = names(args, &chart)?;
    let mut text = definition(&chart, &names, settings, &evidence)?;
    if args.warn_unknown {
        match &*crd::known(&chart) {
            Some(known) => {
                for document in known.policy(&names) {
                    text += "---\n";
                    text += &as_yaml(&document)?;
                }
            }
            None => text += "# No policy: the chart uses its values as a whole, so no key is unknown to it.\n",
        }
    }
    print(&text);
    Ok(())
}

/// The names that flags give over those of the chart.
fn names(args: &CrdArgs, chart: &Chart) -> Result<Names, CliError> {
    let mut names = Names { scope: args.scope.into(), ..Names::of_chart(chart) };
    if let Some(kind) = &args.names.kind {
        names.kind.clone_from(kind);
        names.plural = crd::plural(kind);
    }
    for (given, name) in [
        (&args.group, &mut names.group),
        (&args.names.version, &mut names.version),
        (&args.names.plural, &mut names.plural),
    ] {
        if let Some(given) = given {
            name.clone_from(given);
        }
    }
    if names.group.is_empty() {
        return Err(CliError(format!(
            "the chart {} names no API group: give --group, or the annotation tillerman.dev/group in Chart.yaml",
            chart.metadata.name
        )));
    }
    Ok(names)
}

/// Prints the changes from another version of the chart.
fn against(old: &Path, new: &Chart, settings: CrdSettings, evidence: &[Evidence]) -> Result<(), CliError> {
    let before = crate::chart::load(old).map_err(CliError::new)?;
    let was = crd::types(&before, settings, &values_files::beside(old, &before))?;
    let is = crd::types(new, settings, evidence)?;
    let changes = crd::changes(&was.schema, &is.schema);
    let lines: Vec<String> = changes.iter().map(|change| format!("{change}\n")).collect();
    print(&lines.concat());
    let breaking = changes.iter().filter(|change| change.breaks()).count();
    let versions = format!("{} {} to {}", new.metadata.name, before.metadata.version, new.metadata.version);
    if breaking > 0 {
        let changes = if breaking == 1 { "change".to_owned() } else { format!("{breaking} changes") };
        return Err(CliError(format!(
            "{versions}: custom resources may be refused, or lose a value, by the {changes} above"
        )));
    }
    print(&format!("{versions}: every custom resource that was accepted is accepted, and keeps its values\n"));
    Ok(())
}

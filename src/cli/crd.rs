//! `tillerman crd`: prints the CustomResourceDefinition of a chart.

use super::CliError;
use crate::kind::crd::{self, Names};
use crate::template::value::Value;
use crate::template::yaml;
use std::path::PathBuf;

/// A chart, and the names of the custom resource where the chart's annotations do not give them.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The chart: a directory or a .tgz archive.
    chart: PathBuf,
    /// API group of the custom resource [default: the chart's annotation tillerman.dev/group].
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
}

/// Prints the CRD as YAML.
pub fn run(args: &Args) -> Result<(), CliError> {
    let chart = crate::chart::load(&args.chart).map_err(CliError::new)?;
    let mut names = Names::of_chart(&chart);
    if let Some(kind) = &args.kind {
        names.kind.clone_from(kind);
        names.plural = crd::plural(kind);
    }
    for (given, name) in
        [(&args.group, &mut names.group), (&args.version, &mut names.version), (&args.plural, &mut names.plural)]
    {
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
    let crd = crd::of_chart(&chart, &names).map_err(CliError)?;
    let text = yaml::emit(&Value::from(&crd)).map_err(CliError::new)?;
    print!("{}", String::from_utf8_lossy(&text));
    Ok(())
}

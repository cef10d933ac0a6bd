//! `tillerman lint`: loads a chart, renders it with its own values, and says what is wrong.

use super::CliError;
use super::chart_path::ChartPathArgs;
use super::values::ValueArgs;
use crate::host;
use crate::kind::crd::{self, Names};
use crate::render::{self, Capabilities, Release};

/// A chart and values to try it with.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The chart: a directory, a .tgz archive, a link, oci://… or repository/chart.
    chart: String,
    #[command(flatten)]
    chart_path: ChartPathArgs,
    #[command(flatten)]
    values: ValueArgs,
}

/// Prints findings, one a line, as `[LEVEL] FILE: what`; fails when one is an error.
pub fn run(args: &Args) -> Result<(), CliError> {
    println!("==> Linting {}", args.chart);
    let mut failed = false;
    let mut report = |level: &str, what: &str| {
        println!("[{level}] {what}");
        failed |= level == "ERROR";
    };
    let values = args.values.merge()?;
    match crate::chart::load(&args.chart_path.locate(&args.chart)?) {
        Err(e) => report("ERROR", &e.to_string()),
        Ok(chart) => {
            let metadata = &chart.metadata;
            if metadata.icon.is_empty() {
                report("INFO", "Chart.yaml: icon is recommended");
            }
            if metadata.deprecated {
                report("WARNING", "Chart.yaml: this chart is deprecated");
            }
            if let Err(e) = crd::of_chart(&chart, &Names::of_chart(&chart)) {
                report("ERROR", &e);
            }
            if chart.is_library() {
                report("INFO", "a library chart renders nothing by itself");
            } else if let Err(e) = super::template::installable(&chart) {
                report("ERROR", &e.to_string());
            } else {
                let release = Release {
                    name: "test-release".into(),
                    namespace: "default".into(),
                    revision: 1,
                    is_upgrade: false,
                };
                let rendered = render::render(&chart, &values, &release, &Capabilities::default(), &host::options());
                match rendered {
                    Err(e) => report("ERROR", &e.message),
                    Ok(rendered) => {
                        for manifest in rendered.manifests.iter().chain(rendered.hooks.iter().map(|h| &h.manifest)) {
                            let empty = manifest.kind.is_empty() && manifest.name.is_empty();
                            if !empty && (manifest.api_version.is_empty() || manifest.kind.is_empty()) {
                                let source = &manifest.source;
                                report("ERROR", &format!("{source}: a document without apiVersion or kind"));
                            }
                        }
                    }
                }
            }
        }
    }
    if failed {
        return Err(CliError("1 chart(s) linted, 1 chart(s) failed".into()));
    }
    println!("\n1 chart(s) linted, 0 chart(s) failed");
    Ok(())
}

//! `tillerman history`: the revisions of a release, with the names of the values that each of them changed.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::cli::common::chart_label::name_and_version;
use crate::cli::common::connect::ConnectArgs;
use crate::cli::common::error::CliError;
use crate::cli::common::output::{OutputArgs, OutputFormat};
use crate::cli::common::release::{entries, revisions};
use crate::cli::common::streams::print;
use crate::cli::common::table::table;
use crate::cli::common::target::{Target, two_words};

/// The names of values in a row, but for `-o wide`.
const SHOWN: usize = 4;

/// Arguments of `tillerman history`.
#[derive(Debug, clap::Args)]
pub(super) struct HistoryArgs {
    /// The custom resource: KIND NAME, or KIND/NAME.
    #[arg(required = true, num_args = 1..=2, value_names = ["KIND", "NAME"])]
    what: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Prints the revisions.
pub(super) fn run(args: &HistoryArgs) -> Result<(), CliError> {
    let server = args.connect.connect()?;
    let namespace = args.connect.namespace();
    server.block_on(async |cluster, discovery| {
        discovery.refresh().await.map_err(CliError::new)?;
        let (kind, name) = two_words(&args.what)?;
        let target = Target::find(kind, name, &namespace, discovery).await?;
        let cr = target.get(cluster).await?;
        let kept = revisions(&cr, cluster).await?;
        let found = entries(&kept);
        if !args.output.print(&json!({"revisions": found}))? {
            print(&table(&rows(&found, args.output.output == OutputFormat::Wide)));
        }
        Ok(())
    })
}

fn rows(entries: &[Value], is_wide: bool) -> Vec<Vec<String>> {
    let head = ["REVISION", "UPDATED", "STATUS", "CHART", "VERSION", "APP", "DESCRIPTION", "CHANGED VALUES"];
    let row = |entry: &Value| {
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let (chart, version) = name_and_version(entry["chart"].as_str().unwrap_or_default());
        let names: Vec<&str> =
            entry["changedValues"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut changed =
            names.iter().take(if is_wide { usize::MAX } else { SHOWN }).copied().collect::<Vec<_>>().join(", ");
        if !is_wide && names.len() > SHOWN {
            let _ = write!(changed, " and {} more", names.len() - SHOWN);
        }
        vec![
            entry["revision"].to_string(),
            text("updated"),
            text("status"),
            chart.to_owned(),
            version.to_owned(),
            text("appVersion"),
            text("description"),
            changed,
        ]
    };
    std::iter::once(head.map(str::to_owned).to_vec()).chain(entries.iter().map(row)).collect()
}

//! `tillerman list`: the custom resources of charts, in one table.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cli::common::connect::ConnectArgs;
use crate::cli::common::error::CliError;
use crate::cli::common::kinds::WantedKinds;
use crate::cli::common::line::line;
use crate::cli::common::output::{OutputArgs, OutputFormat};
use crate::cli::common::streams::print;
use crate::cli::common::summary::summary;
use crate::cli::common::table::{age_of, table};

/// Arguments of `tillerman list`.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Only custom resources of this kind: a kind or plural, also with a dot and the group.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only those of the kinds in this watches.yaml [default: kinds of `tillerman crd`, and those that have releases].
    #[arg(long, value_name = "FILE", conflicts_with = "kind")]
    watches_file: Option<PathBuf>,
    /// In all namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Prints the table.
pub(super) fn run(args: &ListArgs) -> Result<(), CliError> {
    let server = args.connect.connect()?;
    let namespace = (!args.all_namespaces).then(|| args.connect.namespace());
    server.block_on(async |cluster, discovery| {
        discovery.refresh().await.map_err(CliError::new)?;
        let wanted =
            WantedKinds { words: args.kind.clone().into_iter().collect(), watches_file: args.watches_file.clone() };
        let kinds = wanted.find(namespace.as_deref(), cluster, discovery).await?;
        let mut found = Vec::new();
        for kind in &kinds {
            let listed = match &namespace {
                Some(namespace) if kind.namespaced => cluster.list(kind, namespace, "").await,
                _ => cluster.list_all(kind, "").await,
            };
            match listed {
                Ok(crs) => found.extend(crs.iter().map(|cr| summary(kind, cr))),
                // The definition of another project may be gone now, or the user may not have the right to list this
                // kind.
                Err(e) if args.kind.is_none() && (e.is_forbidden() || e.is_not_found()) => {
                    eprintln!("warning: {}", line(&e.whole()));
                }
                Err(e) => return Err(CliError(line(&e.whole()))),
            }
        }
        found.sort_by_key(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            (text("namespace"), text("kind"), text("name"))
        });
        if args.output.print(&json!({"items": found}))? {
            return Ok(());
        }
        if found.is_empty() {
            let place = namespace.as_deref().map_or_else(String::new, |name| format!(" in namespace {name}"));
            eprintln!("no custom resources of charts{place}");
            return Ok(());
        }
        print(&table(&rows(&found, args.all_namespaces, args.output.output == OutputFormat::Wide)));
        Ok(())
    })
}

fn rows(found: &[Value], with_namespace: bool, is_wide: bool) -> Vec<Vec<String>> {
    let mut head = vec!["NAME", "KIND", "CHART", "VERSION", "REVISION", "STATE", "READY", "AGE"];
    let mut keys = vec!["name", "kind", "chart", "version", "revision", "state", "ready"];
    if with_namespace {
        head.insert(0, "NAMESPACE");
        keys.insert(0, "namespace");
    }
    if is_wide {
        head.extend(["GROUP", "RELEASE", "REASON", "MESSAGE"]);
    }
    let cell = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let row = |entry: &Value| {
        let mut row: Vec<String> = keys.iter().map(|key| cell(&entry[*key])).collect();
        row.push(age_of(entry["created"].as_str().unwrap_or_default()));
        if is_wide {
            row.extend(["group", "release", "reason", "message"].map(|key| cell(&entry[key])));
        }
        row
    };
    std::iter::once(head.into_iter().map(str::to_owned).collect()).chain(found.iter().map(row)).collect()
}

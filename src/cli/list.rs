//! `tillerman list`: the custom resources of charts, in one table.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::cli::common::chart_label::name_and_version;
use crate::cli::common::connect::ConnectArgs;
use crate::cli::common::error::CliError;
use crate::cli::common::kinds::served;
use crate::cli::common::line::line;
use crate::cli::common::output::{OutputArgs, OutputFormat};
use crate::cli::common::streams::print;
use crate::cli::common::table::{age_of, table};
use crate::cli::common::target::resource;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::{Discovery, Resource};
use crate::kind::watches;
use crate::names;
use crate::object::conditions::Conditions;

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
        let kinds = kinds(args, namespace.as_deref(), cluster, discovery).await?;
        let mut found = Vec::new();
        for kind in &kinds {
            let listed = match &namespace {
                Some(namespace) if kind.namespaced => cluster.list(kind, namespace, "").await,
                _ => cluster.list_all(kind, "").await,
            };
            match listed {
                Ok(crs) => found.extend(crs.iter().map(|cr| entry(kind, cr))),
                // Somebody else's definition may be gone by now, or this one may not be for everybody.
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

/// The kinds to list.
async fn kinds(
    args: &ListArgs,
    namespace: Option<&str>,
    cluster: &Cluster,
    discovery: &Discovery,
) -> Result<Vec<Arc<Resource>>, CliError> {
    if let Some(word) = &args.kind {
        return Ok(vec![resource(word, discovery).await?]);
    }
    if let Some(file) = &args.watches_file {
        let text = std::fs::read_to_string(file).map_err(|e| CliError(format!("{}: {e}", file.display())))?;
        let base = std::env::current_dir().map_err(CliError::new)?;
        let watches = watches::parse(&text, &base).map_err(|e| CliError(format!("{}: {e}", file.display())))?;
        let served = watches.kinds.iter().filter_map(|kind| discovery.cached(&kind.gvk));
        return Ok(served.collect());
    }
    served(namespace, cluster, discovery).await
}

/// The facts about a custom resource.
fn entry(kind: &Resource, cr: &Value) -> Value {
    let text = |pointer: &str| cr.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (chart, version) = name_and_version(text("/status/release/chart"));
    let ready = Conditions::of_object(cr).get("Ready");
    let (status, reason, message) = ready.map_or(("", "", ""), |c| (c.status(), c.reason(), c.message()));
    let (state, pause) =
        (state(cr), cr.pointer("/metadata/annotations").and_then(|a| a.get(names::PAUSE_REASON)?.as_str()));
    let paused = pause.filter(|_| state == "Paused");
    json!({
        "namespace": text("/metadata/namespace"),
        "name": text("/metadata/name"),
        "kind": &*kind.gvk.kind,
        "group": &*kind.gvk.group,
        "chart": chart,
        "version": version,
        "release": text("/status/release/name"),
        "revision": cr.pointer("/status/release/revision").cloned().unwrap_or_default(),
        "state": state,
        "ready": if status.is_empty() { "Unknown" } else { status },
        "reason": if paused.is_some() { "Paused" } else { reason },
        "message": paused.unwrap_or(message),
        "created": text("/metadata/creationTimestamp"),
    })
}

/// The state of a release, in one word.
fn state(cr: &Value) -> &'static str {
    let is = |name: &str| Conditions::of_object(cr).is_true(name);
    match () {
        () if cr.pointer("/metadata/deletionTimestamp").is_some() => "Uninstalling",
        () if is("Paused") => "Paused",
        () if is("Stalled") => "Stalled",
        () if is("Ready") => "Ready",
        () if cr.pointer("/status/conditions").is_none() => "Unseen",
        () => "Progressing",
    }
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

#[cfg(test)]
mod tests {
    use super::state;
    use serde_json::json;

    #[test]
    fn the_state_is_what_matters_most() {
        let cr = |conditions: &[(&str, &str)]| {
            let conditions: Vec<_> =
                conditions.iter().map(|(name, status)| json!({"type": name, "status": status})).collect();
            json!({"metadata": {}, "status": {"conditions": conditions}})
        };
        assert_eq!(state(&cr(&[("Ready", "True"), ("Paused", "True")])), "Paused");
        assert_eq!(state(&cr(&[("Ready", "False"), ("Stalled", "True")])), "Stalled");
        assert_eq!(state(&cr(&[("Ready", "True"), ("Stalled", "False")])), "Ready");
        assert_eq!(state(&cr(&[])), "Progressing");
        assert_eq!(state(&json!({"metadata": {}})), "Unseen");
        assert_eq!(state(&json!({"metadata": {"deletionTimestamp": "x"}})), "Uninstalling");
    }
}

//! `tillerman list`: the custom resources that charts stand behind, in one table.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::CliError;
use super::chart_path::print;
use super::output::{Format, OutputArgs, age_of, line, table};
use super::target::{ConnectArgs, resource};
use crate::cluster::client::Cluster;
use crate::cluster::discovery::{Discovery, Resource};
use crate::cluster::error::ApiError;
use crate::kind::watches;
use crate::names;
use crate::release::object::Gvk;

/// Arguments of `tillerman list`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
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
pub(super) fn run(args: &Args) -> Result<(), CliError> {
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
        print(&table(&rows(&found, args.all_namespaces, args.output.output == Format::Wide)));
        Ok(())
    })
}

/// The kinds to list.
async fn kinds(
    args: &Args,
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

/// The kinds that charts stand behind: those whose definition has the category of `tillerman crd`, and those of releases.
pub(super) async fn served(
    namespace: Option<&str>,
    cluster: &Cluster,
    discovery: &Discovery,
) -> Result<Vec<Arc<Resource>>, CliError> {
    let mut kinds: BTreeMap<(String, String), Arc<Resource>> = BTreeMap::new();
    let mut enter = |word: &str| {
        if let Some(found) = discovery.named(word).first() {
            let Gvk { group, kind, .. } = &found.gvk;
            kinds.entry((group.to_string(), kind.to_string())).or_insert_with(|| Arc::clone(found));
        }
    };
    let definitions = allowed(cluster.list_all(&Resource::crds(), "").await)?;
    let has_category = |definition: &&Value| {
        let categories = definition.pointer("/spec/names/categories").and_then(Value::as_array);
        categories.is_some_and(|all| all.iter().any(|category| category == "tillerman"))
    };
    for definition in definitions.iter().flatten().filter(has_category) {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        enter(&format!("{}.{}", text("/spec/names/kind"), text("/spec/group")));
    }
    let selector = format!("owner=helm,{}", names::OWNER_UID);
    let records = allowed(cluster.list_metadata(&Resource::secrets(), namespace, &selector).await)?;
    for record in records.iter().flatten() {
        let owner = record.pointer("/metadata/annotations").and_then(|a| a.get(names::OWNER)).and_then(Value::as_str);
        if let Some((word, _)) = owner.and_then(|owner| owner.split_once(' ')) {
            enter(word);
        }
    }
    if definitions.is_none() && records.is_none() {
        return Err(CliError::new(
            "neither definitions nor release records may be listed: say which kind is meant, with --kind or --watches-file",
        ));
    }
    Ok(kinds.into_values().collect())
}

/// `None` for what may not be listed.
fn allowed<T>(answer: Result<T, ApiError>) -> Result<Option<T>, CliError> {
    match answer {
        Ok(list) => Ok(Some(list)),
        Err(e) if e.is_forbidden() => Ok(None),
        Err(e) => Err(CliError(line(&e.whole()))),
    }
}

/// What is said of a custom resource.
fn entry(kind: &Resource, cr: &Value) -> Value {
    let text = |pointer: &str| cr.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (chart, version) = name_and_version(text("/status/release/chart"));
    let ready = condition(cr, "Ready");
    let field = |name: &str| ready.and_then(|c| c.get(name)).and_then(Value::as_str).unwrap_or_default();
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
        "ready": if field("status").is_empty() { "Unknown" } else { field("status") },
        "reason": if paused.is_some() { "Paused" } else { field("reason") },
        "message": paused.unwrap_or_else(|| field("message")),
        "created": text("/metadata/creationTimestamp"),
    })
}

/// A condition of a custom resource.
pub(super) fn condition<'a>(cr: &'a Value, name: &str) -> Option<&'a Value> {
    let conditions = cr.pointer("/status/conditions").and_then(Value::as_array)?;
    conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(name))
}

/// The state of a release, in one word.
fn state(cr: &Value) -> &'static str {
    let is = |name: &str| condition(cr, name).and_then(|c| c.get("status")).and_then(Value::as_str) == Some("True");
    match () {
        () if cr.pointer("/metadata/deletionTimestamp").is_some() => "Uninstalling",
        () if is("Paused") => "Paused",
        () if is("Stalled") => "Stalled",
        () if is("Ready") => "Ready",
        () if cr.pointer("/status/conditions").is_none() => "Unseen",
        () => "Progressing",
    }
}

/// Splits `my-chart-1.2.3` before its version: at the first dash before a digit that numbers and dots follow.
pub(super) fn name_and_version(label: &str) -> (&str, &str) {
    let is_version = |text: &str| {
        let number = text.split(['-', '+']).next().unwrap_or_default().trim_start_matches('v');
        number.split('.').count() > 1
            && number.split('.').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let dashes = label.match_indices('-').map(|(at, _)| (&label[..at], &label[at + 1..]));
    dashes.into_iter().find(|(_, rest)| is_version(rest)).unwrap_or((label, ""))
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
    use super::{name_and_version, state};
    use serde_json::json;

    #[test]
    fn a_chart_is_its_name_and_its_version() {
        let table = [
            ("web-1.2.3", ("web", "1.2.3")),
            ("my-2-web-1.2.3-rc.1+x", ("my-2-web", "1.2.3-rc.1+x")),
            ("web-v1.0.0", ("web", "v1.0.0")),
            ("web", ("web", "")),
            ("", ("", "")),
        ];
        for (label, expected) in table {
            assert_eq!(name_and_version(label), expected);
        }
    }

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

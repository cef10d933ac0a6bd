//! The kinds of charts: those of a watches file, and those that a cluster serves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::error::CliError;
use super::line::line;
use super::target::resource;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::{Discovery, Resource};
use crate::cluster::error::ApiError;
use crate::kind::allow::Reach;
use crate::kind::{Kind, watches};
use crate::names;
use crate::object::Gvk;

/// The kinds of the watches file, or one kind that allows what its custom resource asks for.
pub fn kinds(file: Option<&Path>, gvk: &Gvk) -> Result<Vec<Kind>, CliError> {
    let base = std::env::current_dir().map_err(CliError::new)?;
    let (text, name) = if let Some(file) = file {
        let text = std::fs::read_to_string(file).map_err(|e| CliError(format!("{}: {e}", file.display())))?;
        (text, file.display().to_string())
    } else {
        let allow: Vec<&str> = Reach::ALL.iter().map(|reach| reach.field()).collect();
        let Gvk { group, version, kind } = gvk;
        let entry = json!([{"group": &**group, "version": &**version, "kind": &**kind, "chart": ".", "allow": allow}]);
        (entry.to_string(), "the kind".to_owned())
    };
    Ok(watches::parse(&text, &base).map_err(|e| CliError(format!("{name}: {e}")))?.kinds)
}

/// The kinds that a command is about.
#[derive(Clone, Debug, Default)]
pub struct WantedKinds {
    /// Kinds that the user named, as kubectl takes them.
    pub words: Vec<String>,
    /// A watches.yaml with the kinds, if no kind was named.
    pub watches_file: Option<PathBuf>,
}

impl WantedKinds {
    /// The kinds that the API server serves: those that were named, those of the watches file, or all of charts.
    pub async fn find(
        &self,
        namespace: Option<&str>,
        cluster: &Cluster,
        discovery: &Discovery,
    ) -> Result<Vec<Arc<Resource>>, CliError> {
        if !self.words.is_empty() {
            let mut found = Vec::with_capacity(self.words.len());
            for word in &self.words {
                found.push(resource(word, discovery).await?);
            }
            return Ok(found);
        }
        let Some(file) = &self.watches_file else { return served(namespace, cluster, discovery).await };
        let found = kinds(Some(file), &Gvk::new("", "", ""))?;
        Ok(found.iter().filter_map(|kind| discovery.cached(&kind.gvk)).collect())
    }
}

/// The kinds of charts: those whose definition has the category of `tillerman crd`, and those of releases.
pub async fn served(
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
            "you are not allowed to list definitions or release records: name the kind with --kind or --watches-file",
        ));
    }
    Ok(kinds.into_values().collect())
}

/// `None` for kinds that may not be listed.
fn allowed<T>(answer: Result<T, ApiError>) -> Result<Option<T>, CliError> {
    match answer {
        Ok(list) => Ok(Some(list)),
        Err(e) if e.is_forbidden() => Ok(None),
        Err(e) => Err(CliError(line(&e.whole()))),
    }
}

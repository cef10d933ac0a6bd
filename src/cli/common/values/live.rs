//! A custom resource of a cluster, its sources and its chart, read with the rights of the user.

use std::path::Path;

use serde_json::Value;

use super::super::error::CliError;
use super::super::kinds::kinds;
use super::super::line::line;
use super::super::next_pass::recorded;
use super::super::release::release_of;
use super::Subject;
use super::layers::{Layers, SourceObjects, layers, sources};
use crate::chart::{self, Chart};
use crate::cluster::client::Cluster;
use crate::kind::values_from::ValuesFrom;
use crate::kind::{ChartRef, Kind};
use crate::object::{Gvk, ObjectId};
use crate::reconcile::value_layers::resource;

/// Reads the values of a custom resource. The kind, if it is known, has sources and overrides of its own; the chart is the one in a file,
/// that of the kind, or the one in the release's record.
pub async fn subject(
    cr: &Value,
    kind: Option<&Kind>,
    chart_file: Option<&Path>,
    cluster: &Cluster,
) -> Result<Subject, CliError> {
    let release = release_of(cr);
    let mut layers = layers_of(cr, kind, cluster).await?;
    let (chart, note) = chart(chart_file, kind, &release, cluster).await?;
    layers.notes.extend(note);
    Ok(Subject { chart, layers, release })
}

/// The layers of a custom resource's values.
pub async fn layers_of(cr: &Value, kind: Option<&Kind>, cluster: &Cluster) -> Result<Layers, CliError> {
    let mut notes = Vec::new();
    let sources = sources(cr, kind, &mut notes)?;
    let own = cr.pointer("/metadata/namespace").and_then(Value::as_str).map(str::to_owned);
    let place = own.unwrap_or_else(|| release_of(cr).0);
    let objects = objects(&sources, &place, cluster).await?;
    layers(cr, kind, sources, &objects, notes)
}

/// The kind of a resource in a watches file, if one is given.
pub fn kind_of(watches_file: Option<&Path>, of: &Gvk) -> Result<Option<Kind>, CliError> {
    let Some(file) = watches_file else { return Ok(None) };
    let found = kinds(Some(file), of)?.into_iter().find(|kind| kind.gvk.group == of.group && kind.gvk.kind == of.kind);
    found.map(Some).ok_or_else(|| CliError(format!("the watches file has no kind {of}")))
}

async fn objects(sources: &[ValuesFrom], namespace: &str, cluster: &Cluster) -> Result<SourceObjects, CliError> {
    let mut objects = SourceObjects::new();
    for source in sources {
        let resource = resource(source.kind);
        let name = source.name.to_string();
        if objects.contains_key(&(source.kind, name.clone())) {
            continue;
        }
        let id = ObjectId { gvk: resource.gvk.clone(), namespace: Some(namespace.into()), name: source.name.clone() };
        let found: Option<Value> = cluster
            .get(&resource, &id)
            .await
            .map_err(|e| CliError(line(&format!("values-from: {source} cannot be read: {}", e.whole()))))?;
        objects.insert((source.kind, name), found);
    }
    Ok(objects)
}

/// The chart in the file, or that of the kind, or the one in the release's record with a note about it.
async fn chart(
    file: Option<&Path>,
    kind: Option<&Kind>,
    release: &(String, String),
    cluster: &Cluster,
) -> Result<(Chart, Option<String>), CliError> {
    match (file, kind.map(|kind| &kind.chart)) {
        (Some(path), _) => Ok((chart::load(path).map_err(CliError::new)?, None)),
        (None, Some(ChartRef::Path(path))) => Ok((chart::load(path).map_err(CliError::new)?, None)),
        (None, Some(ChartRef::Link(link))) => Err(CliError(format!(
            "the watches file names {link}: fetch it with tillerman pull, and give it with --chart"
        ))),
        (None, None) => {
            let (recorded, note) = recorded(release, cluster).await?;
            Ok((recorded.chart, Some(note)))
        }
    }
}

//! A custom resource of a cluster, its sources and its chart, read with the rights of the user.

use serde_json::Value;

use super::layers::{SourceObjects, layers, sources};
use super::{Subject, ValuesArgs};
use crate::chart::{self, Chart};
use crate::cli::common::error::CliError;
use crate::cli::common::kinds::kinds;
use crate::cli::common::line::line;
use crate::cli::common::next_pass::recorded;
use crate::cli::common::release::release_of;
use crate::cli::common::target::{Target, two_words};
use crate::cluster::client::Cluster;
use crate::kind::values_from::ValuesFrom;
use crate::kind::{ChartRef, Kind};
use crate::object::ObjectId;
use crate::reconcile::value_layers::resource;

/// Reads them.
pub(super) fn subject(args: &ValuesArgs) -> Result<Subject, CliError> {
    let (kind, name) = two_words(&args.what)?;
    let server = args.connect.connect()?;
    let namespace = args.connect.namespace();
    server.block_on(async |cluster, discovery| {
        discovery.refresh().await.map_err(CliError::new)?;
        let target = Target::find(kind, name, &namespace, discovery).await?;
        let cr = target.get(cluster).await?;
        let kind = kind_of(args, &target)?;
        let release = release_of(&cr);
        let mut notes = Vec::new();
        let sources = sources(&cr, kind.as_ref(), &mut notes)?;
        let place = target.id.namespace.as_deref().unwrap_or(&release.0);
        let objects = objects(&sources, place, cluster).await?;
        let chart = chart(args, kind.as_ref(), &release, cluster).await?;
        Ok(Subject { chart, layers: layers(&cr, kind.as_ref(), sources, &objects, notes)?, release })
    })
}

/// The kind in the watches file, if one is given.
fn kind_of(args: &ValuesArgs, target: &Target) -> Result<Option<Kind>, CliError> {
    let Some(file) = &args.watches_file else { return Ok(None) };
    let of = &target.resource.gvk;
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

/// The chart that is given, or that of the watches file, or the one in the release's record.
async fn chart(
    args: &ValuesArgs,
    kind: Option<&Kind>,
    release: &(String, String),
    cluster: &Cluster,
) -> Result<Chart, CliError> {
    match (&args.chart, kind.map(|kind| &kind.chart)) {
        (Some(path), _) | (None, Some(ChartRef::Path(path))) => chart::load(path).map_err(CliError::new),
        (None, Some(ChartRef::Link(link))) => Err(CliError(format!(
            "the watches file names {link}: fetch it with tillerman pull, and give it with --chart"
        ))),
        (None, None) => {
            let (recorded, note) = recorded(release, cluster).await?;
            eprintln!("note: {note}");
            Ok(recorded.chart)
        }
    }
}

//! `tillerman status`: a release as a tree, from what its custom resource says of it and from the pods of its workloads.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::cli::common::cluster_args::ClusterArgs;
use crate::cli::common::error::CliError;
use crate::cli::common::rollouts;
use crate::cli::common::server::Server;
use crate::cli::common::status_tree::tree_of;
use crate::cli::common::target::resource;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::{Discovery, Resource};
use crate::object::ObjectId;
use crate::release::secret::Revision;

/// How often `--watch` looks.
const LOOK: Duration = Duration::from_secs(2);

/// Arguments of `tillerman status`.
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    /// The release; or its custom resource as KIND/NAME, which does not need the right to read Secrets.
    #[arg(required_unless_present = "rollouts")]
    name: Option<String>,
    /// Print the progress of the roll-outs of charts, from the namespace of the operator; needs the right to read
    /// Secrets there.
    #[arg(long, conflicts_with = "name")]
    rollouts: bool,
    /// Continue, and print it again whenever it has changed, until interrupted.
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Prints the tree of a release.
pub(super) fn run(args: &StatusArgs) -> Result<(), CliError> {
    let server = Server::connect(&args.cluster)?;
    let namespace = args.cluster.namespace();
    server.block_on(async |cluster, discovery| {
        discovery.refresh().await.map_err(CliError::new)?;
        let found = match &args.name {
            Some(name) => Some(find(name, &namespace, cluster, discovery).await?),
            None => None,
        };
        let mut last = String::new();
        loop {
            let text = match &found {
                Some((resource, id)) => tree_of(&read(resource, id, cluster).await?, cluster).await.to_string(),
                None => rollouts::look(&namespace, cluster).await?,
            };
            if text != last {
                let rule = if last.is_empty() { "" } else { "\n" };
                print!("{rule}{text}");
                last = text;
            }
            if !args.watch {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
    })
}

/// The custom resource that is meant.
async fn find(
    name: &str,
    namespace: &str,
    cluster: &Cluster,
    discovery: &Discovery,
) -> Result<(Arc<Resource>, ObjectId), CliError> {
    if let Some((word, name)) = name.split_once('/') {
        let resource = resource(word, discovery).await?;
        let namespace = resource.namespaced.then(|| namespace.into());
        let id = ObjectId { gvk: resource.gvk.clone(), namespace, name: name.into() };
        return Ok((resource, id));
    }
    let selector = format!("owner=helm,name={name}");
    let secrets = cluster.list(&Resource::secrets(), namespace, &selector).await.map_err(|e| {
        CliError::new(format!("{e}; if you cannot read Secrets, name the custom resource: KIND/{name}"))
    })?;
    let read = |secret: &Value| secret.get("metadata").and_then(Revision::read).map(|(_, revision)| revision);
    let newest = secrets.iter().filter_map(read).max_by_key(|revision| revision.revision);
    let Some(newest) = newest else {
        return Err(CliError::new(format!(
            "no release {name} in namespace {namespace}; if it was never installed, name the custom resource: \
             KIND/{name}"
        )));
    };
    let owner = newest.owner.as_deref().and_then(|owner| owner.split_once(' '));
    let Some((word, place)) = owner else {
        return Err(CliError::new(format!(
            "release {name} was not made by an operator: `helm status {name}` shows it"
        )));
    };
    let (group_kind, (namespace, name)) = (word, place.split_once('/').unwrap_or(("", place)));
    let resource = resource(group_kind, discovery).await?;
    let namespace = Some(namespace).filter(|n| !n.is_empty() && resource.namespaced).map(Into::into);
    let id = ObjectId { gvk: resource.gvk.clone(), namespace, name: name.into() };
    Ok((resource, id))
}

async fn read(resource: &Resource, id: &ObjectId, cluster: &Cluster) -> Result<Value, CliError> {
    let cr = cluster.get(resource, id).await.map_err(CliError::new)?;
    cr.ok_or_else(|| CliError::new(format!("there is no {id}")))
}

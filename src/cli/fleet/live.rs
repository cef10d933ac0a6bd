//! The custom resources of a live cluster, read with lists alone.

use super::FleetArgs;
use super::sides::{FleetCase, Sides};
use crate::cli::common::error::CliError;
use crate::cli::common::line::line;
use crate::cli::common::target::resource;
use crate::reconcile::offline::PlainResource;
use crate::render::Capabilities;

/// The custom resources of the kinds, in the namespace of the arguments or in all.
pub fn found(args: &FleetArgs) -> Result<(Sides, Vec<FleetCase>, Capabilities), CliError> {
    let sides = Sides::load(args)?;
    let server = args.connect.connect()?;
    let namespace = args.connect.namespace();
    let (now, capabilities) = server.block_on(async |cluster, discovery| {
        discovery.refresh().await.map_err(CliError::new)?;
        let mut now = Vec::new();
        for served in &sides.now {
            let gvk = &served.kind.gvk;
            let word = if gvk.group.is_empty() { gvk.kind.to_string() } else { gvk.kind_group() };
            let kind = resource(&word, discovery).await?;
            let selector = served.kind.selector.as_deref().unwrap_or_default();
            let listed = if kind.namespaced && !args.all_namespaces {
                cluster.list(&kind, &namespace, selector).await
            } else {
                cluster.list_all(&kind, selector).await
            };
            for mut object in listed.map_err(|e| CliError(line(&e.whole())))? {
                // The items of a list do not name their kind.
                object["apiVersion"] = kind.gvk.api_version().into();
                object["kind"] = kind.gvk.kind.to_string().into();
                now.push(PlainResource::read(&object, "").map_err(CliError)?);
            }
        }
        let info = discovery.info();
        let capabilities =
            Capabilities { kube_version: info.kube_version.clone(), api_versions: info.api_versions.clone() };
        Ok::<_, CliError>((now, capabilities))
    })?;
    let cases = sides.cases(now, args, &namespace)?;
    Ok((sides, cases, capabilities))
}

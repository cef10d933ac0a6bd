//! The custom resources of a live cluster, read with lists alone.

use super::FleetArgs;
use super::read::{SAVED_API_VERSION, SAVED_KIND};
use super::sides::{FleetCase, Sides};
use crate::chart::go_io;
use crate::cli::common::error::CliError;
use crate::cli::common::line::line;
use crate::reconcile::offline::PlainResource;
use crate::render::Capabilities;
use crate::template::yaml;
use serde_json::json;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// The custom resources of the kinds, in the namespace of the arguments or in all.
pub fn found(args: &FleetArgs) -> Result<(Sides, Vec<FleetCase>, Capabilities), CliError> {
    let sides = Sides::load(args)?;
    let (now, capabilities) = listed(&sides, args)?;
    let cases = sides.cases(now, args, &args.connect.namespace())?;
    Ok((sides, cases, capabilities))
}

/// Writes the custom resources to a file, and returns how many there are.
pub fn save(args: &FleetArgs, file: &Path) -> Result<usize, CliError> {
    let (mut now, capabilities) = listed(&Sides::load(args)?, args)?;
    let head = json!({"apiVersion": SAVED_API_VERSION, "kind": SAVED_KIND, "metadata": {"name": "fleet"}, "kubeVersion": capabilities.kube_version,
        "apiVersions": capabilities.api_versions});
    let mut text = yaml::of_json(&head)?;
    for cr in &mut now {
        // kubectl keeps the whole object there once more.
        cr.annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        text.push_str("---\n");
        text.push_str(&yaml::of_json(&cr.object())?);
    }
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    // A spec may contain a password.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(file).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|e| CliError(format!("{}: {}", file.display(), go_io(&e))))?;
    Ok(now.len())
}

fn listed(sides: &Sides, args: &FleetArgs) -> Result<(Vec<PlainResource>, Capabilities), CliError> {
    let server = args.connect.connect()?;
    let namespace = args.connect.namespace();
    server.block_on(async |cluster, discovery| {
        discovery.refresh().await.map_err(CliError::new)?;
        let mut now = Vec::new();
        for served in &sides.now {
            let kind = served.resource(discovery).await?;
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
        Ok((now, capabilities))
    })
}

//! `tillerman bundle`: writes the bundle of a project for the Operator Lifecycle Manager.

use crate::cli::common::error::CliError;
use crate::scaffold::bundle::{self, BundleSettings};
use crate::source::archive::write_below;
use crate::template::version::Version;
use crate::template::yaml;
use std::io::Read;
use std::path::Path;

/// The facts that the objects on standard input do not have.
#[derive(Debug, clap::Args)]
pub struct BundleArgs {
    /// Version of the operator.
    #[arg(long)]
    version: String,
    /// Name of the package [default: as the `ClusterServiceVersion` is named].
    #[arg(long, default_value = "", hide_default_value = true)]
    package: String,
    /// Channels of the package, divided by commas.
    #[arg(long, default_value = "alpha")]
    channels: String,
    /// The channel that is chosen by default [default: the first].
    #[arg(long, default_value = "", hide_default_value = true)]
    default_channel: String,
}

/// Reads the objects (`kubectl kustomize config/manifests`), and writes bundle/ and bundle.Dockerfile into this folder.
pub fn run(args: &BundleArgs) -> Result<(), CliError> {
    if Version::parse(&args.version).is_err() {
        return Err(CliError(format!("--version: {:?} is not a version such as 0.1.0", args.version)));
    }
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).map_err(|e| CliError(format!("cannot read standard input: {e}")))?;
    let mut objects = Vec::new();
    for document in yaml::split_documents(&text).map_err(|e| CliError(format!("standard input: {e}")))? {
        let object = yaml::parse(&document).map_err(|e| CliError(format!("standard input: {e}")))?;
        if object.is_object() {
            objects.push(crate::crd::plain(&object));
        }
    }
    let settings = BundleSettings {
        version: args.version.clone(),
        package: args.package.clone(),
        channels: args.channels.clone(),
        default_channel: args.default_channel.clone(),
    };
    let files = bundle::of(&objects, &settings)?;
    // Files that are no longer in the bundle are removed; all of it is generated.
    match std::fs::remove_dir_all("bundle/manifests") {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(CliError(format!("bundle/manifests: {e}"))),
        _ => {}
    }
    for (path, data) in &files {
        write_below(Path::new("."), Path::new(path), data)?;
    }
    println!("wrote bundle/ ({} files) and bundle.Dockerfile", files.len() - 1);
    Ok(())
}

//! `tillerman push`: pushes the archive of a chart to a registry, as `helm push` does, and signs it there.

use crate::chart;
use crate::cli::common::chart_server::ServerArgs;
use crate::cli::common::error::CliError;
use crate::cli::common::signing::{SigningArgs, read};
use crate::cli::common::streams::{ON_ERROR, print};
use crate::image::manifest;
use crate::source::SourceSettings;
use crate::source::registry::push::ChartArtifact;
use crate::source::registry::{Reference, is_oci};
use std::path::PathBuf;

/// The chart, and where it goes.
#[derive(Debug, clap::Args)]
pub struct PushArgs {
    /// The archive of a chart. FILE.prov, if it is beside it, is pushed, too.
    #[arg(value_name = "FILE")]
    chart: PathBuf,
    /// A registry as `oci://REGISTRY/REPOSITORY`, below which the chart gets a repository with its name.
    #[arg(value_name = "REMOTE")]
    remote: String,
    /// Refuse a version that the registry has with other content. What an interrupted push left out is pushed.
    #[arg(long)]
    new: bool,
    #[command(flatten)]
    signing: SigningArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Pushes the chart, then what signs it.
pub fn run(args: &PushArgs) -> Result<(), CliError> {
    if !is_oci(&args.remote) {
        return Err(CliError(format!("{}: a registry is oci://REGISTRY/REPOSITORY", args.remote)));
    }
    let signing = args.signing.read()?;
    let archive = read(&args.chart)?;
    let chart = chart::load(&args.chart).map_err(CliError::new)?;
    let mut provenance = args.chart.clone().into_os_string();
    provenance.push(".prov");
    let provenance = PathBuf::from(provenance);
    let provenance = if provenance.is_file() { Some(read(&provenance)?) } else { None };

    let metadata = serde_json::to_value(&chart.metadata).map_err(CliError::new)?;
    let remote = args.remote.trim_end_matches('/');
    let reference = Reference::parse(&format!("{remote}/{}:{}", chart.metadata.name, chart.metadata.version))?;
    let settings = SourceSettings::from_env();
    let login = args.server.login()?;
    let registry = args.server.registry(&settings, &login, ON_ERROR)?;
    let artifact = ChartArtifact::new(&metadata, &archive, provenance.as_deref());
    let pushed = manifest(artifact.manifest.clone());
    if args.new {
        registry.refuse_other(&reference, &pushed.digest)?;
    }
    registry.push_chart(&reference, &artifact)?;
    for (manifest, blobs) in
        signing.iter().flat_map(|signing| signing.key.attached(&pushed, signing.provenance.as_ref()))
    {
        for blob in &blobs {
            registry.push_blob(&reference, &blob.data, &|_| {})?;
        }
        registry.push_referrer(&reference, manifest.media_type, &manifest.data)?;
    }
    print(&format!("Pushed: {reference}\nDigest: {}\n", pushed.digest));
    Ok(())
}

//! `tillerman pull`: downloads charts, as `helm pull` does.

use crate::chart::go_io;
use crate::cli::common::chart_path::ChartPathArgs;
use crate::cli::common::error::CliError;
use crate::cli::common::scratch::Scratch;
use crate::cli::common::streams::{ON_OUTPUT, print};
use crate::source::download::Verify;
use crate::source::{Messages, SourceSettings, archive};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Charts, and where to put them.
#[derive(Debug, clap::Args)]
pub struct PullArgs {
    /// The charts: links, oci://… or repository/chart; with --repo, names.
    #[arg(value_name = "CHART", required = true)]
    charts: Vec<String>,
    #[command(flatten)]
    chart_path: ChartPathArgs,
    /// Unpack the chart.
    #[arg(long)]
    untar: bool,
    /// Where to unpack, below --destination.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    untardir: PathBuf,
    /// The folder to write to.
    #[arg(short, long, value_name = "FOLDER", default_value = ".")]
    destination: PathBuf,
    /// Download the provenance file too, without verifying it.
    #[arg(long)]
    prov: bool,
}

/// Downloads all charts; the first that fails ends it.
pub fn run(args: &PullArgs) -> Result<(), CliError> {
    args.charts.iter().try_for_each(|chart| pull(args, chart))
}

fn pull(args: &PullArgs, chart: &str) -> Result<(), CliError> {
    let verify = match (args.chart_path.server.verify, args.prov) {
        (true, _) => Verify::Always,
        (false, true) => Verify::Later,
        (false, false) => Verify::Never,
    };
    // The report of the download is printed when it succeeded.
    let report = Mutex::new(String::new());
    let out = |text: &str| report.lock().expect("nobody panics while holding it").push_str(text);
    let messages = Messages { out: &out, ..ON_OUTPUT };
    let scratch = if args.untar {
        Some(Scratch::new().map_err(|e| CliError(format!("failed to untar: {}", e.0)))?)
    } else {
        None
    };
    let folder = scratch.as_ref().map_or(&*args.destination, Scratch::path);
    let settings = SourceSettings::from_env();
    let (path, verification) = args.chart_path.with_downloader(&settings, messages, verify, |downloader| {
        downloader.pull(&args.chart_path.wanted(chart), folder)
    })?;
    if let Some(verification) = verification {
        for name in &verification.signed_by {
            out(&format!("Signed by: {name}\n"));
        }
        out(&format!("Using Key With Fingerprint: {}\n", verification.fingerprint));
        out(&format!("Chart Hash Verified: {}\n", verification.file_hash));
    }
    if args.untar {
        unpack(args, chart, &path)?;
    }
    print(&report.lock().expect("nobody panics while holding it"));
    Ok(())
}

/// Unpacks an archive. An existing folder or file is an error. As in Helm, its name is the last part of the chart's
/// reference.
fn unpack(args: &PullArgs, chart: &str, archive: &Path) -> Result<(), CliError> {
    let folder = args.destination.join(&args.untardir);
    let folder: PathBuf = folder.components().filter(|c| !matches!(c, std::path::Component::CurDir)).collect();
    let name = chart.rsplit('/').next().unwrap_or_default();
    let wanted = folder.join(name);
    if wanted.exists() {
        return Err(CliError(format!(
            "failed to untar: a file or directory with the name {} already exists",
            wanted.display()
        )));
    }
    std::fs::create_dir_all(&wanted)
        .map_err(|e| CliError(format!("failed to untar (mkdir): mkdir {}: {}", wanted.display(), go_io(&e))))?;
    let data = std::fs::read(archive).map_err(|e| CliError(format!("open {}: {}", archive.display(), go_io(&e))))?;
    Ok(archive::expand(&data, &folder)?)
}

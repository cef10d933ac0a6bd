//! The work of the next pass over a custom resource: a pass that writes nothing.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::Config;
use serde_json::Value;

use super::connect::ConnectArgs;
use super::error::CliError;
use super::kinds::kinds;
use super::line::line;
use super::release::{is_label_value, release_of};
use super::stored::{as_stored, whole_numbers};
use super::target::{Target, two_words};
use crate::chart;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Discovery;
use crate::kind::Kind;
use crate::object::Gvk;
use crate::reconcile::charts::Loaded;
use crate::reconcile::history::history;
use crate::reconcile::preview::{Preview, PreviewTarget, preview};
use crate::template::yaml;

/// Arguments of the commands that show the work of the next pass.
#[derive(Debug, clap::Args)]
pub struct AskArgs {
    /// The custom resource: KIND NAME, or KIND/NAME.
    #[arg(required_unless_present = "file", num_args = 1..=2, value_names = ["KIND", "NAME"])]
    pub what: Vec<String>,
    /// The changed custom resource, in a YAML file; `-` for standard input.
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The chart: a directory or an archive [default: that of --watches-file, or the one in the release's record].
    #[arg(long, value_name = "PATH")]
    pub chart: Option<PathBuf>,
    /// The operator's watches.yaml, for its settings of the kind.
    #[arg(long, value_name = "FILE")]
    pub watches_file: Option<PathBuf>,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Asks.
pub fn ask(args: &AskArgs) -> Result<Preview, CliError> {
    let changed = args.file.as_deref().map(read).transpose()?;
    let server = args.connect.connect()?;
    let namespace = args.connect.namespace();
    let found = server.block_on(async |cluster, discovery| {
        discovery.refresh().await.map_err(CliError::new)?;
        let target = target(&args.what, changed.as_ref(), &namespace, discovery).await?;
        let live = cluster.get(&target.resource, &target.id).await.map_err(|e| CliError(line(&e.whole())))?;
        let changed = match changed {
            Some(changed) => Some(as_stored(&changed, live.as_ref(), &target, cluster).await?),
            None if live.is_none() => return Err(CliError(format!("there is no {}", line(&target.id.to_string())))),
            None => None,
        };
        let release = release_of(changed.as_ref().or(live.as_ref()).unwrap_or(&Value::Null));
        let chart = chart(args, live.is_some(), &release, cluster).await?;
        Ok((target, changed, release, chart))
    });
    let (target, changed, release, chart) = found?;
    let kinds = kinds(args.watches_file.as_deref(), &target.resource.gvk)?;
    let config = server.config().clone();
    server.block_on(async |_, _| asked(config, kinds, &target, chart, release.0, changed).await)
}

/// Asks about one custom resource.
pub async fn asked(
    config: Config,
    kinds: Vec<Kind>,
    target: &Target,
    chart: Option<Arc<Loaded>>,
    release_namespace: String,
    changed: Option<Value>,
) -> Result<Preview, CliError> {
    let of = &target.resource.gvk;
    let gvk = kinds.iter().map(|kind| &kind.gvk).find(|gvk| gvk.group == of.group && gvk.kind == of.kind);
    let gvk = gvk.ok_or_else(|| CliError(format!("the watches file has no kind {of}")))?.clone();
    let wanted = PreviewTarget {
        kinds,
        gvk,
        chart,
        namespace: target.id.namespace.as_deref().unwrap_or_default().to_owned(),
        name: target.id.name.to_string(),
        release_namespace,
        changed,
    };
    preview(wanted, config).await.map_err(|why| CliError(line(&why)))
}

/// Reads a custom resource from a file.
pub fn read(path: &Path) -> Result<Value, CliError> {
    let wrong = |why: String| CliError(format!("{}: {why}", path.display()));
    let mut text = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut text).map_err(|e| wrong(e.to_string()))?;
    } else {
        text = std::fs::read(path).map_err(|e| wrong(chart::go_io(&e)))?;
    }
    let mut object = yaml::parse(&text).map_err(|e| wrong(e.to_string()))?;
    whole_numbers(&mut object);
    if object.get("kind").and_then(Value::as_str).is_none() {
        return Err(wrong("it is not a custom resource".to_owned()));
    }
    Ok(object)
}

/// The custom resource that the arguments mean, or that the file has.
async fn target(
    what: &[String],
    file: Option<&Value>,
    namespace: &str,
    discovery: &Discovery,
) -> Result<Target, CliError> {
    let Some(file) = file else {
        let (kind, name) = two_words(what)?;
        return Target::find(kind, name, namespace, discovery).await;
    };
    let text = |pointer: &str| file.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let gvk = Gvk::from_api_version(text("/apiVersion"), text("/kind"));
    let resource = discovery.cached(&gvk).ok_or_else(|| CliError(format!("the API server has no kind {gvk}")))?;
    let place = match text("/metadata/namespace") {
        "" => namespace,
        own => own,
    };
    let target = Target::find(&format!("{}.{}", gvk.kind, gvk.group), text("/metadata/name"), place, discovery).await?;
    if !what.is_empty() {
        let (kind, name) = two_words(what)?;
        let meant = Target::find(kind, name, namespace, discovery).await?;
        if meant.id.in_any_version() != target.id.in_any_version() {
            return Err(CliError(format!("the file has {}, and not {}", target.id, meant.id)));
        }
    }
    Ok(Target { resource, ..target })
}

/// The chart that is given, or that of the newest revision where nothing names one.
async fn chart(
    args: &AskArgs,
    exists: bool,
    release: &(String, String),
    cluster: &Cluster,
) -> Result<Option<Arc<Loaded>>, CliError> {
    if let Some(path) = &args.chart {
        return Ok(Some(Arc::new(Loaded::new(chart::load(path).map_err(CliError::new)?))));
    }
    if args.watches_file.is_some() {
        return Ok(None);
    }
    if !exists {
        return Err(no_release());
    }
    let (chart, note) = recorded(release, cluster).await?;
    eprintln!("note: {note}");
    Ok(Some(Arc::new(chart)))
}

/// The remedy if there is no chart.
const GIVE: &str = "give the chart with --chart or --watches-file";

fn no_release() -> CliError {
    CliError(format!("there is no release yet: {GIVE}"))
}

/// The chart in the record of the newest revision of a release (namespace and name), and a note about it for the reader.
pub async fn recorded(
    (namespace, release): &(String, String),
    cluster: &Cluster,
) -> Result<(Loaded, String), CliError> {
    if !is_label_value(release) {
        return Err(no_release());
    }
    let kept = history(namespace, release, cluster)
        .await
        .map_err(|e| CliError(line(&format!("{}; if you cannot read Secrets, {GIVE}", e.whole()))))?;
    let newest = kept.last().ok_or_else(no_release)?;
    let revision = newest.revision.revision;
    let wrong = |why: &str| CliError(line(&format!("the chart of revision {revision} cannot be used: {why}; {GIVE}")));
    let record = newest.record.as_ref().map_err(|why| wrong(why))?;
    let mut loaded = Loaded::new(record.embedded_chart().map_err(|why| wrong(&why))?);
    if let Some(digest) = &newest.revision.chart {
        // The chart counts as the one that the operator has.
        loaded.digest = digest.to_string();
    }
    let note = format!(
        "with the chart in the record of revision {revision}, and without the settings of the kind in watches.yaml"
    );
    Ok((loaded, note))
}

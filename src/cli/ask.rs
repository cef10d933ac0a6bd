//! What `diff`, `plan` and `adopt` ask: a pass that writes nothing over one custom resource.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::CliError;
use super::output::line;
use super::target::{ConnectArgs, Target, is_label_value, release_of, two_words};
use super::template::server::Server;
use crate::chart;
use crate::cluster::client::{Answer, Cluster};
use crate::cluster::discovery::Discovery;
use crate::kind::allow::Reach;
use crate::kind::{Kind, watches};
use crate::reconcile::charts::Loaded;
use crate::reconcile::history::history;
use crate::reconcile::preview::{Preview, Wanted, preview};
use crate::release::object::Gvk;
use crate::template::yaml;

/// Arguments of the commands that ask what the next pass would do.
#[derive(Debug, clap::Args)]
pub struct AskArgs {
    /// The custom resource: KIND NAME, or KIND/NAME.
    #[arg(required_unless_present = "file", num_args = 1..=2, value_names = ["KIND", "NAME"])]
    pub what: Vec<String>,
    /// The custom resource as it would be, in a YAML file; `-` for standard input.
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The chart: a directory or an archive [default: that of --watches-file, or else the one in the release's record].
    #[arg(long, value_name = "PATH")]
    pub chart: Option<PathBuf>,
    /// The operator's watches.yaml, for what it says of the kind.
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
    asked(&server, kinds, &target, chart, release.0, changed)
}

/// Asks about one custom resource.
pub fn asked(
    server: &Server,
    kinds: Vec<Kind>,
    target: &Target,
    chart: Option<Arc<Loaded>>,
    release_namespace: String,
    changed: Option<Value>,
) -> Result<Preview, CliError> {
    let of = &target.resource.gvk;
    let gvk = kinds.iter().map(|kind| &kind.gvk).find(|gvk| gvk.group == of.group && gvk.kind == of.kind);
    let gvk = gvk.ok_or_else(|| CliError(format!("the watches file has no kind {of}")))?.clone();
    let wanted = Wanted {
        kinds,
        gvk,
        chart,
        namespace: target.id.namespace.as_deref().unwrap_or_default().to_owned(),
        name: target.id.name.to_string(),
        release_namespace,
        changed,
    };
    let config = server.config().clone();
    server.block_on(async |_, _| preview(wanted, config).await).map_err(|why| CliError(line(&why)))
}

/// Reads a custom resource from a file.
fn read(path: &Path) -> Result<Value, CliError> {
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
        return Err(wrong("it is no custom resource".to_owned()));
    }
    Ok(object)
}

/// Writes the whole numbers of YAML as integers, which the API server wants.
pub fn whole_numbers(value: &mut Value) {
    /// The largest number of which a float has all whole numbers below it.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|n| number.is_f64() && n.fract() == 0.0 && n.abs() < EXACT) {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(map) => map.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
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

/// The custom resource as the API server would store it, with its defaults.
pub async fn as_stored(
    changed: &Value,
    live: Option<&Value>,
    target: &Target,
    cluster: &Cluster,
) -> Result<Value, CliError> {
    let answer = if let Some(live) = live {
        let mut body = live.clone();
        body["spec"] = changed.get("spec").cloned().unwrap_or_else(|| json!({}));
        for part in ["annotations", "labels"] {
            let Some(Value::Object(own)) = changed.get("metadata").and_then(|m| m.get(part)) else { continue };
            match &mut body["metadata"][part] {
                Value::Object(map) => map.extend(own.clone()),
                other => *other = Value::Object(own.clone()),
            }
        }
        cluster.replace(&target.resource, &target.id, &body, true, Answer::Object).await
    } else {
        let mut body = changed.as_object().cloned().unwrap_or_default();
        let metadata = body.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let (Value::Object(metadata), Some(namespace)) = (metadata, &target.id.namespace) {
            metadata.insert("namespace".into(), Value::from(&**namespace));
        }
        cluster.apply_new(&target.resource, &target.id, &body, true).await
    };
    answer.map_err(|e| CliError(line(&e.whole())))
}

/// The chart that is given, or that of the newest revision where nothing names one.
async fn chart(
    args: &AskArgs,
    exists: bool,
    (namespace, release): &(String, String),
    cluster: &Cluster,
) -> Result<Option<Arc<Loaded>>, CliError> {
    if let Some(path) = &args.chart {
        return Ok(Some(Arc::new(Loaded::new(chart::load(path).map_err(CliError::new)?))));
    }
    if args.watches_file.is_some() {
        return Ok(None);
    }
    let give = "give the chart with --chart or --watches-file";
    if !exists || !is_label_value(release) {
        return Err(CliError(format!("there is no release yet: {give}")));
    }
    let kept = history(namespace, release, cluster)
        .await
        .map_err(|e| CliError(line(&format!("{}; without the right to read Secrets, {give}", e.whole()))))?;
    let newest = kept.last().ok_or_else(|| CliError(format!("there is no release yet: {give}")))?;
    let revision = newest.revision.revision;
    let wrong = |why: &str| CliError(line(&format!("the chart of revision {revision} cannot be used: {why}; {give}")));
    let record = newest.record.as_ref().map_err(|why| wrong(why))?;
    let mut loaded = Loaded::new(record.embedded_chart().map_err(|why| wrong(&why))?);
    if let Some(digest) = &newest.revision.chart {
        // The chart counts as the one that the operator has.
        loaded.digest = digest.to_string();
    }
    eprintln!(
        "note: with the chart in the record of revision {revision}, and without what watches.yaml says of the kind"
    );
    Ok(Some(Arc::new(loaded)))
}

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

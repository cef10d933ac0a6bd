//! A chart, a custom resource and its sources in files.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::ValuesArgs;
use crate::chart;
use crate::cli::common::error::CliError;
use crate::cli::common::fields::text;
use crate::cli::common::kinds::kinds;
use crate::cli::common::next_pass::read;
use crate::cli::common::release::release_of;
use crate::cli::common::values::Subject;
use crate::cli::common::values::layers::{SourceObjects, layers, sources};
use crate::kind::Kind;
use crate::kind::values_from::SourceKind;
use crate::object::{Gvk, parse_manifest};

/// The name of a release, where no custom resource names it, as in `helm template`.
const RELEASE: &str = "release-name";

/// The chart that the arguments name: a single word that is a path. A custom resource has a kind and a name.
pub(super) fn chart_path(args: &ValuesArgs) -> Option<PathBuf> {
    let [word] = args.what.as_slice() else { return None };
    let path = PathBuf::from(word);
    let is_chart = path.exists() || args.cr.is_some() || args.sources.is_some() || !word.contains('/');
    is_chart.then_some(path)
}

/// Reads the files.
pub(super) fn subject(args: &ValuesArgs, chart: &Path) -> Result<Subject, CliError> {
    let chart = chart::load(chart).map_err(CliError::new)?;
    let cr = args.cr.as_deref().map_or_else(|| Ok(json!({})), read)?;
    let kind = args.watches_file.as_deref().map(|file| kind(file, &cr)).transpose()?;
    let mut notes = Vec::new();
    let sources = sources(&cr, kind.as_ref(), &mut notes)?;
    let namespace = cr.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let objects = match &args.sources {
        Some(file) => objects(file, namespace)?,
        None if sources.is_empty() => SourceObjects::new(),
        None => return Err(CliError(format!("values-from: give the file that has {} with --sources", sources[0]))),
    };
    let (mut namespace, mut name) = release_of(&cr);
    for (text, default) in [(&mut namespace, "default"), (&mut name, RELEASE)] {
        if text.is_empty() {
            default.clone_into(text);
        }
    }
    Ok(Subject { chart, layers: layers(&cr, kind.as_ref(), sources, &objects, notes)?, release: (namespace, name) })
}

/// The kind of a custom resource; without one, the only kind of the file.
fn kind(file: &Path, cr: &Value) -> Result<Kind, CliError> {
    let of = Gvk::from_api_version(text(cr, "apiVersion"), text(cr, "kind"));
    let all = kinds(Some(file), &of)?;
    let is_one = all.len() == 1 && of.kind.is_empty();
    let found = all.into_iter().find(|kind| is_one || kind.gvk.group == of.group && kind.gvk.kind == of.kind);
    found.ok_or_else(|| match &*of.kind {
        "" => CliError(format!("{} has several kinds: give a custom resource with --cr", file.display())),
        _ => CliError(format!("the watches file has no kind {of}")),
    })
}

/// The Secrets and `ConfigMap`s of a file, in the namespace of the custom resource or in none.
fn objects(file: &Path, namespace: &str) -> Result<SourceObjects, CliError> {
    let wrong = |why: String| CliError(format!("{}: {why}", file.display()));
    let content = fs::read_to_string(file).map_err(|e| wrong(chart::go_io(&e)))?;
    let mut found = SourceObjects::new();
    // The parser's message may quote a Secret.
    for object in parse_manifest(&content).map_err(|_| wrong("it is not a list of objects in YAML".to_owned()))? {
        let kind = match &*object.gvk.kind {
            "Secret" => SourceKind::Secret,
            "ConfigMap" => SourceKind::ConfigMap,
            _ => continue,
        };
        let place = object.namespace.as_deref().unwrap_or_default();
        if place.is_empty() || namespace.is_empty() || place == namespace {
            found.insert((kind, object.name), Some(encoded(object.body)));
        }
    }
    Ok(found)
}

/// A Secret as the API server returns it: `stringData` is in `data`, in base64.
fn encoded(mut object: Map<String, Value>) -> Value {
    let texts = object.get("stringData").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Value::Object(data) = object.entry("data").or_insert_with(|| json!({})) {
        let encoded = |text: &Value| Value::from(STANDARD.encode(text.as_str().unwrap_or_default()));
        data.extend(texts.iter().map(|(key, text)| (key.clone(), encoded(text))));
    }
    Value::Object(object)
}

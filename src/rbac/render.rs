//! The objects that a chart renders with its defaults, and with each of its values files.

use super::{Pair, RoleResource};
use crate::chart::{Chart, Values};
use crate::crd::Evidence;
use crate::object::{Object, parse_manifest};
use crate::render::{self, Capabilities, Diagnostic, Manifest, Options, Release};
use serde_json::{Map, Value};

/// The name and the namespace of the release that is rendered: names that contain them depend on the release.
pub(super) const RELEASE: &str = "rel-of-rbac";
pub(super) const NAMESPACE: &str = "ns-of-rbac";

/// A rendering.
#[derive(Debug)]
pub(super) struct Made {
    /// The values that it was rendered with, in words.
    pub name: String,
    /// The objects, or the error.
    pub result: Result<Vec<Rendered>, Diagnostic>,
}

/// An object of a rendering.
#[derive(Clone, Debug)]
pub(crate) struct Rendered {
    /// Its kind.
    pub pair: Pair,
    /// The namespace that it is in, if that is not the release's.
    pub namespace: Option<String>,
    /// The template, relative to the chart.
    pub file: String,
    /// The kind that it defines.
    pub defines: Option<(Pair, RoleResource)>,
    /// The object; empty where the text is not an object.
    pub body: Map<String, Value>,
}

/// The defaults first, then each file.
pub(super) fn all(chart: &Chart, files: &[Evidence]) -> Vec<Made> {
    let mut made = vec![Made { name: "its defaults".to_owned(), result: objects(chart, &Values::new()) }];
    made.extend(files.iter().map(|file| Made { name: file.name.clone(), result: objects(chart, &file.values) }));
    made
}

/// The objects that a chart renders with these values.
pub(crate) fn objects(chart: &Chart, values: &Values) -> Result<Vec<Rendered>, Diagnostic> {
    if chart.is_library() {
        return Ok(Vec::new());
    }
    let options = Options::for_a_look().skip_schema(true);
    let release = Release::new(RELEASE, NAMESPACE);
    let rendered = render::render(chart, values, &release, &Capabilities::default(), &options)?;
    let is_test = |event: &String| event.starts_with("test");
    let hooks = rendered.hooks.iter().chain(&rendered.unknown).filter(|hook| !hook.events.iter().all(is_test));
    let manifests = rendered.manifests.iter().chain(hooks.map(|hook| &hook.manifest));
    let chart = format!("{}/", chart.metadata.name);
    Ok(manifests.flat_map(|manifest| of_manifest(manifest, &chart)).collect())
}

fn of_manifest(manifest: &Manifest, chart: &str) -> Vec<Rendered> {
    let file = manifest.source.strip_prefix(chart).unwrap_or(&manifest.source).to_owned();
    match parse_manifest(&manifest.text) {
        Ok(objects) => objects.into_iter().map(|object| of_object(object, &file)).collect(),
        // An object that cannot be applied still shows its intended kind.
        Err(_) => vec![Rendered {
            pair: Pair::of(&manifest.api_version, &manifest.kind),
            namespace: None,
            file,
            defines: None,
            body: Map::new(),
        }],
    }
}

fn of_object(object: Object, file: &str) -> Rendered {
    let defines = definition(&object.body);
    Rendered {
        pair: Pair::new(&*object.gvk.group, &*object.gvk.kind),
        namespace: object.namespace.filter(|namespace| namespace != NAMESPACE),
        file: file.to_owned(),
        defines,
        body: object.body,
    }
}

/// The kind that an object defines.
pub(super) fn definition(body: &Map<String, Value>) -> Option<(Pair, RoleResource)> {
    if body.get("kind").and_then(Value::as_str) != Some("CustomResourceDefinition") {
        return None;
    }
    let spec = body.get("spec")?;
    let text = |pointer: &str| spec.pointer(pointer).and_then(Value::as_str);
    let pair = Pair::new(text("/group")?, text("/names/kind")?);
    let namespaced = text("/scope").unwrap_or("Namespaced") == "Namespaced";
    Some((pair, RoleResource { plural: text("/names/plural")?.to_owned(), namespaced }))
}

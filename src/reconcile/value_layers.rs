//! The layers of the values of a release, the lowest first: sources of the kind, sources of the custom resource, the status of others,
//! the spec, and the kind's `overrideValues`. A pass and `tillerman values` merge them here.

use base64::Engine as _;
use serde_json::{Map, Value};

use crate::bounds;
use crate::chart::values;
use crate::cluster::discovery::Resource;
use crate::kind::Kind;
use crate::kind::values_from::{self, SourceKind, ValuesFrom};
use crate::mask::Secrets;
use crate::object::Gvk;

/// Lays the kind's `overrideValues` over the spec of a custom resource.
pub fn override_values(spec: &mut Map<String, Value>, kind: &Kind) {
    values::merge(spec, kind.overrides.values.clone());
}

/// The values of a release: those of its sources, below those from the status of others, below its own.
pub fn whole(
    mut sources: Map<String, Value>,
    linked: Map<String, Value>,
    own: Map<String, Value>,
) -> Map<String, Value> {
    values::merge(&mut sources, linked);
    values::merge(&mut sources, own);
    sources
}

/// The total number of bytes and values of the sources so far.
#[derive(Default)]
pub struct SourcesSize {
    bytes: usize,
    values: usize,
}

/// Lays the content of a source over values, and adds it to the secrets to mask.
///
/// # Errors
/// A sentence that does not quote the content: it is not values, or too large.
pub fn lay_over(
    all: &mut Map<String, Value>,
    source: &ValuesFrom,
    content: &str,
    secrets: &mut Secrets,
    size: &mut SourcesSize,
) -> Result<(), String> {
    // The parser's message would quote the content.
    let wrong = |why: &str| format!("values-from: {source}: key {}: {why}", source.key);
    let limit = bounds::ALL_SOURCES;
    size.bytes += content.len();
    if size.bytes > limit.bytes {
        return Err(wrong(&format!("all sources together have more than {} bytes", limit.bytes)));
    }
    let Some(path) = &source.target_path else {
        let read = bounds::SOURCE.reads(content.as_bytes(), || {
            values::load(content.as_bytes()).map(Value::Object).map_err(|e| bounds::why(&e, "it is not values in YAML"))
        });
        let values = match read {
            Ok(Value::Object(values)) => values,
            Ok(_) => return Ok(()),
            Err(why) => {
                secrets.add(content);
                return Err(wrong(&why));
            }
        };
        values.values().for_each(|value| secrets.add_values(value));
        size.values += values.values().map(|value| bounds::weigh(value).0).sum::<usize>();
        if size.values > limit.values {
            return Err(wrong(&format!("all sources together have more than {} values", limit.values)));
        }
        values::merge(all, values);
        return Ok(());
    };
    secrets.add(content);
    bounds::SOURCE.text(content.as_bytes()).map_err(|why| wrong(&why.to_string()))?;
    values_from::set_path(path, content, all)
        .map_err(|_| format!("values-from: {source}: targetPath {path:?} cannot be set"))
}

/// The text of the key that a source names; `None` if the object does not have it.
pub fn content(source: &ValuesFrom, object: &Value) -> Option<String> {
    let text = object.get("data")?.get(&source.key)?.as_str()?;
    match source.kind {
        SourceKind::ConfigMap => Some(text.to_owned()),
        SourceKind::Secret => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
    }
}

/// The resource of the objects of a kind of sources.
pub fn resource(kind: SourceKind) -> Resource {
    let plural = match kind {
        SourceKind::Secret => "secrets",
        SourceKind::ConfigMap => "configmaps",
    };
    Resource { gvk: Gvk::new("", "v1", &kind.to_string()), plural: plural.into(), namespaced: true }
}

//! The values of a release come from the sources of the kind, the sources of the custom resource, the status of others that it
//! needs, its spec, and the kind's `overrideValues`; the later ones override the earlier ones. Watches report which sources exist and in which
//! version, and that is an input of the release. This module reads their content when a pass renders.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use serde_json::{Map, Value};

use crate::bounds;
use crate::chart::values;
use crate::cluster::discovery::Resource;
use crate::kind::values_from;
use crate::kind::values_from::{SourceKind, ValuesFrom};
use crate::mask::Secrets;
use crate::reconcile::blocking::off;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::observe::observed::Observed;
use crate::reconcile::observe::values::id;

/// Reads all values of the release, including those of its sources. After that, the content of Secrets is masked.
pub async fn complete(observed: &Observed, ctx: &Context) -> Result<Map<String, Value>, Error> {
    let mut all = Map::new();
    let mut read: HashMap<(SourceKind, Arc<str>), Option<Value>> = HashMap::new();
    let mut size = Size::default();
    for source in &observed.extras.sources {
        let id = (source.kind, Arc::clone(&source.name));
        if !read.contains_key(&id) {
            let object = get(source, observed).await?;
            read.insert(id.clone(), object);
        }
        let Some(object) = &read[&id] else {
            if source.optional {
                continue;
            }
            return Err(Error::Values(format!("values-from: {source} does not exist")));
        };
        let Some(content) = content(source, object) else {
            if source.optional {
                continue;
            }
            return Err(Error::Values(format!("values-from: {source} has no key {}", source.key)));
        };
        let (laid, secrets, result) = {
            let (source, all, size) = (source.clone(), std::mem::take(&mut all), std::mem::take(&mut size));
            // Parsing a megabyte takes long enough to delay other passes.
            let lay = move || {
                let (mut all, mut size, mut secrets) = (all, size, Secrets::default());
                let result = lay_over(&mut all, &source, &content, &mut secrets, &mut size);
                ((all, size), secrets, result)
            };
            off(lay).await?
        };
        (all, size) = laid;
        if source.kind == SourceKind::Secret {
            ctx.memory.masks.learn(&observed.key, secrets);
        }
        result?;
    }
    ctx.memory.masks.learn(&observed.key, Secrets::all_sources());
    values::merge(&mut all, observed.extras.linked.clone());
    values::merge(&mut all, observed.values.clone());
    Ok(all)
}

/// Reads the sources to learn what to mask: the pass reports about a record that was rendered with them.
pub async fn learn(observed: &Observed, ctx: &Context) {
    if !observed.extras.sources.is_empty()
        && let Err(error) = complete(observed, ctx).await
    {
        tracing::debug!(name = %observed.key.name, reason = error.reason(), "sources of values cannot be read");
    }
}

/// The total number of bytes and values of the sources so far.
#[derive(Default)]
struct Size {
    bytes: usize,
    values: usize,
}

fn lay_over(
    all: &mut Map<String, Value>,
    source: &ValuesFrom,
    content: &str,
    secrets: &mut Secrets,
    size: &mut Size,
) -> Result<(), Error> {
    // The parser's message would quote the content.
    let wrong = |why: &str| Error::Values(format!("values-from: {source}: key {}: {why}", source.key));
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
    bounds::SOURCE.text(content.as_bytes()).map_err(|why| wrong(&why))?;
    values_from::set_path(path, content, all)
        .map_err(|_| Error::Values(format!("values-from: {source}: targetPath {path:?} cannot be set")))
}

async fn get(source: &ValuesFrom, observed: &Observed) -> Result<Option<Value>, Error> {
    let plural = match source.kind {
        SourceKind::Secret => "secrets",
        SourceKind::ConfigMap => "configmaps",
    };
    let id = id(source, &observed.owner);
    let resource = Resource { gvk: id.gvk.clone(), plural: plural.into(), namespaced: true };
    Ok(observed.cluster.get(&resource, &id).await?)
}

fn content(source: &ValuesFrom, object: &Value) -> Option<String> {
    let text = object.get("data")?.get(&source.key)?.as_str()?;
    match source.kind {
        SourceKind::ConfigMap => Some(text.to_owned()),
        SourceKind::Secret => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
    }
}

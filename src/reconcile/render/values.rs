//! The values of a release come from the sources of the kind, the sources of the custom resource, the status of others that it
//! needs, its spec, and the kind's `overrideValues`; the later ones override the earlier ones. Watches report which sources exist and in which
//! version, and that is an input of the release. This module reads their content when a pass renders.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::kind::values_from::{SourceKind, ValuesFrom};
use crate::mask::Secrets;
use crate::reconcile::blocking::off;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::observe::values::id;
use crate::reconcile::observed::Observed;
use crate::reconcile::value_layers::{SourcesSize, content, lay_over, resource, whole};

/// Reads all values of the release, including those of its sources. After that, the content of Secrets is masked.
pub async fn complete(observed: &Observed, ctx: &Context) -> Result<Map<String, Value>, Error> {
    let mut all = Map::new();
    let mut read: HashMap<(SourceKind, Arc<str>), Option<Value>> = HashMap::new();
    let mut size = SourcesSize::default();
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
        result.map_err(Error::Values)?;
    }
    ctx.memory.masks.learn(&observed.key, Secrets::all_sources());
    Ok(whole(all, observed.extras.linked.clone(), observed.values.clone()))
}

/// Reads the sources to learn what to mask: the pass reports about a record that was rendered with them.
pub async fn learn(observed: &Observed, ctx: &Context) {
    if !observed.extras.sources.is_empty()
        && let Err(error) = complete(observed, ctx).await
    {
        tracing::debug!(name = %observed.key.name, reason = error.reason(), "sources of values cannot be read");
    }
}

async fn get(source: &ValuesFrom, observed: &Observed) -> Result<Option<Value>, Error> {
    let id = id(source, &observed.owner);
    Ok(observed.cluster.get(&resource(source.kind), &id).await?)
}

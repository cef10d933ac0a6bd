//! Where the values of a release come from, the later over the earlier: the sources of the kind, those of the custom resource,
//! its spec, and the kind's `overrideValues`. A watch knows which sources there are and in which version, and that is an input of the
//! release; a pass that renders reads what is in them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::chart::values;
use crate::cluster::cache::ReleaseKey;
use crate::cluster::sources::Version;
use crate::kind::annotations::Annotations;
use crate::kind::bounds;
use crate::kind::values_from::ValuesFrom;
use crate::plan::situation::Refusal;
use crate::reconcile::context::Context;
use crate::release::digest::Hasher;
use crate::release::object::{Gvk, ObjectId};
use crate::release::patch::Patch;

/// What values depend on beside the custom resource's spec.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// The sources in their order.
    pub sources: Vec<ValuesFrom>,
    /// Patches of what the chart renders.
    pub patches: Vec<Patch>,
    /// Digest of the sources' versions and the patches; empty when there are none.
    pub digest: String,
    /// The objects that the sources name.
    pub used: BTreeSet<ObjectId>,
    /// Why they cannot be used.
    pub refusal: Option<Refusal>,
    /// A watch is not complete yet.
    pub waits: bool,
}

/// Looks at what the annotations and the kind name, and makes sure that it is watched. Puts the overrides into the values.
pub fn gather(values: &mut Map<String, Value>, key: &ReleaseKey, own: &Annotations, ctx: &Context) -> Extras {
    let kind = &ctx.kinds[key.kind].kind;
    values::merge(values, kind.overrides.values.clone());
    let mut extras = Extras { sources: kind.values_from.clone(), patches: kind.patches.clone(), ..Extras::default() };
    let refuse = |reason: &'static str, message: String| Some(Refusal { reason, message });
    match &own.sources {
        Ok(sources) => extras.sources.extend(sources.iter().cloned()),
        Err(why) => extras.refusal = refuse("InvalidAnnotation", why.clone()),
    }
    match &own.patches {
        Ok(patches) => extras.patches.extend(patches.iter().cloned()),
        Err(why) => extras.refusal = refuse("InvalidAnnotation", why.clone()),
    }
    if extras.sources.len() > bounds::SOURCES {
        extras.sources.truncate(bounds::SOURCES);
        let message = format!("there are more than {} sources of values", bounds::SOURCES);
        extras.refusal = refuse("InvalidAnnotation", message);
    }
    extras.used = extras.sources.iter().map(|source| id(source, key)).collect();
    ctx.sources.add_used(key, &extras.used);
    let mut hasher = Hasher::default();
    for source in &extras.sources {
        let id = id(source, key);
        let watch = ctx.cache.watch_key(&id.gvk, id.namespace.as_ref());
        ctx.watching.sources.ensure(&watch);
        hasher.text(format!("{source:?}"));
        match ctx.sources.version(&id, &watch) {
            Version::Unknown => extras.waits = true,
            Version::Blind(why) => extras.refusal = extras.refusal.or_else(|| refuse("Forbidden", why)),
            Version::Missing if source.optional => {}
            Version::Missing => {
                let message = format!("values-from: {source} does not exist in namespace {}", key.namespace);
                extras.refusal = extras.refusal.or_else(|| refuse("ValuesFromMissing", message));
            }
            Version::Is(version) => {
                hasher.text(&*version);
            }
        }
    }
    for patch in &extras.patches {
        hasher.json(patch.source());
    }
    if !extras.sources.is_empty() || !extras.patches.is_empty() {
        extras.digest = hasher.finish();
    }
    extras
}

pub fn id(source: &ValuesFrom, key: &ReleaseKey) -> ObjectId {
    let gvk = Gvk::new("", "v1", &source.kind.to_string());
    ObjectId { gvk, namespace: Some(Arc::clone(&key.namespace)), name: Arc::clone(&source.name) }
}

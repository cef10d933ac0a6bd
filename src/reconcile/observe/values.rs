//! The values of a release come from the sources of the kind, the sources of the custom resource, its spec, and the
//! kind's `overrideValues`; the later ones override the earlier ones. Watches report which sources exist and in which
//! version, and that is an input of the release. A pass that renders reads their content.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::dependencies::Linked;
use crate::bounds;
use crate::cluster::cache::ReleaseKey;
use crate::cluster::sources::Version;
use crate::kind::annotations::Annotations;
use crate::kind::values_from::ValuesFrom;
use crate::object::patch::Patch;
use crate::object::{Gvk, ObjectId};
use crate::plan::situation::Refusal;
use crate::reconcile::context::Context;
use crate::reconcile::value_layers::override_values;
use crate::release::digest::Hasher;
use crate::release::owner::Owner;

/// The inputs of the values besides the spec of the custom resource.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// The sources, in order of precedence.
    pub sources: Vec<ValuesFrom>,
    /// Patches to apply to the rendered objects.
    pub patches: Vec<Patch>,
    /// Values from the status of other custom resources.
    pub linked: Map<String, Value>,
    /// Digest of the sources' versions, the patches and the values of others; empty when there are none.
    pub digest: String,
    /// The objects that the sources name.
    pub used: BTreeSet<ObjectId>,
    /// Why the sources or patches cannot be used.
    pub refusal: Option<Refusal>,
    /// Whether a watch of a source is not complete yet.
    pub waits: bool,
}

impl Extras {
    /// Adds the values of other custom resources.
    pub fn link(&mut self, linked: &Linked) {
        if !linked.digest.is_empty() {
            let mut hasher = Hasher::default();
            hasher.text(&self.digest).text(&linked.digest);
            self.digest = hasher.finish();
        }
        self.linked.clone_from(&linked.values);
    }
}

/// Collects the sources and patches that the annotations and the kind name, and makes sure that the sources are
/// watched. Merges the overrides into the values.
pub fn gather(
    values: &mut Map<String, Value>,
    key: &ReleaseKey,
    owner: &Owner,
    own: &Annotations,
    ctx: &Context,
) -> Extras {
    let kind = &ctx.kinds.get(key.kind).kind;
    override_values(values, kind);
    let mut extras = Extras { sources: kind.values_from.clone(), patches: kind.patches.clone(), ..Extras::default() };
    let refuse = |reason: &'static str, message: String| Some(Refusal { reason, message });
    match &own.sources {
        Ok(sources) => extras.sources.extend(sources.iter().cloned()),
        Err(why) => extras.refusal = refuse("InvalidAnnotation", why.to_string()),
    }
    match &own.patches {
        Ok(patches) => extras.patches.extend(patches.iter().cloned()),
        Err(why) => extras.refusal = refuse("InvalidAnnotation", why.to_string()),
    }
    if extras.sources.len() > bounds::SOURCES {
        extras.sources.truncate(bounds::SOURCES);
        let message = format!("there are more than {} sources of values", bounds::SOURCES);
        extras.refusal = refuse("InvalidAnnotation", message);
    }
    extras.used = extras.sources.iter().map(|source| id(source, owner)).collect();
    ctx.sources.add_used(key, &extras.used);
    let mut hasher = Hasher::default();
    for source in &extras.sources {
        let id = id(source, owner);
        let watch = ctx.cache.watch_key(&id.gvk, id.namespace.as_ref());
        ctx.watching.sources.ensure(&watch);
        hasher.text(format!("{source:?}"));
        match ctx.sources.version(&id, &watch) {
            Version::Unknown => extras.waits = true,
            Version::Blind(why) => extras.refusal = extras.refusal.or_else(|| refuse("Forbidden", why)),
            Version::Missing if source.optional => {}
            Version::Missing => {
                let message = format!("values-from: {source} does not exist in namespace {}", namespace(owner));
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

/// The namespace of the sources: that of the custom resource, or of its release where it has none.
fn namespace(owner: &Owner) -> &Arc<str> {
    owner.namespace.as_ref().unwrap_or(&owner.release_namespace)
}

pub fn id(source: &ValuesFrom, owner: &Owner) -> ObjectId {
    let gvk = Gvk::new("", "v1", &source.kind.to_string());
    ObjectId { gvk, namespace: Some(Arc::clone(namespace(owner))), name: Arc::clone(&source.name) }
}

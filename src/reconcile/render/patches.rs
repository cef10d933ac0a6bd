//! Patches a rendered chart, and puts its objects to sleep, before it becomes the content of the release: the record has the changed
//! objects.

use serde_json::Value;

use super::parse::reading;
use crate::object::patch;
use crate::object::patch::Patch;
use crate::object::{Object, push_flat};
use crate::reconcile::error::Error;
use crate::release::asleep::put_to_sleep;
use crate::render::Manifest;
use crate::template::yaml;

/// The changes to what a chart renders.
#[derive(Clone, Debug, Default)]
pub struct Alterations {
    pub patches: Vec<Patch>,
    /// Whether the release sleeps.
    pub asleep: bool,
}

/// Applies the changes to the manifests. A manifest that does not change keeps its text.
pub fn apply(manifests: Vec<Manifest>, alterations: &Alterations) -> Result<Vec<Manifest>, Error> {
    let Alterations { patches, asleep } = alterations;
    if patches.is_empty() && !asleep {
        return Ok(manifests);
    }
    let (objects, of_manifest) = reading(|| {
        let mut objects = Vec::new();
        let mut of_manifest = Vec::new();
        for manifest in &manifests {
            let wrong = |e: String| Error::Manifest(format!("{}: {e}", manifest.source));
            let before = objects.len();
            if let Some(object) = Object::parse(&manifest.text).map_err(wrong)? {
                push_flat(object, &mut objects).map_err(wrong)?;
            }
            of_manifest.push(before..objects.len());
        }
        Ok((objects, of_manifest))
    })?;
    let mut changed: Vec<Option<Object>> = objects.iter().cloned().map(Some).collect();
    patch::apply(patches, &mut changed).map_err(|e| Error::Manifest(format!("patches: {e}")))?;
    if *asleep {
        changed.iter_mut().flatten().for_each(put_to_sleep);
    }
    let mut result = Vec::with_capacity(manifests.len());
    for (manifest, range) in manifests.into_iter().zip(of_manifest) {
        let is_same = range.clone().all(|at| changed[at].as_ref() == Some(&objects[at]));
        if is_same {
            result.push(manifest);
            continue;
        }
        for object in changed[range].iter().flatten() {
            result.push(written(object, &manifest.source)?);
        }
    }
    Ok(result)
}

fn written(object: &Object, source: &str) -> Result<Manifest, Error> {
    let text = yaml::of_json(&Value::Object(object.body.clone()));
    let text = text.map_err(|e| Error::Manifest(format!("{source}: {e}")))?;
    let mut manifest = Manifest::default();
    source.clone_into(&mut manifest.source);
    text.trim_end().clone_into(&mut manifest.text);
    manifest.api_version = object.gvk.api_version();
    manifest.kind = object.gvk.kind.to_string();
    manifest.name.clone_from(&object.name);
    Ok(manifest)
}

//! Parses manifests into objects, within limits.

use crate::object::{Object, push_flat};
use crate::reconcile::error::Error;
use crate::render::{Limits, Manifest};
use crate::template::budget::Budget;

/// Limits for parsing the manifests of a rendering.
const READING: Limits = Limits { steps: Some(50_000_000), output: usize::MAX, memory: Some(256 << 20) };

pub fn parse(manifests: &[Manifest]) -> Result<Vec<Object>, Error> {
    let objects_of = |manifest: &Manifest, objects: &mut Vec<Object>| -> Result<(), Error> {
        let wrong = |e: String| Error::Manifest(format!("{}: {e}", manifest.source));
        if let Some(object) = Object::parse(&manifest.text).map_err(wrong)? {
            push_flat(object, objects).map_err(wrong)?;
        }
        Ok(())
    };
    reading(|| {
        let mut objects = Vec::new();
        manifests.iter().try_for_each(|manifest| objects_of(manifest, &mut objects))?;
        Ok(objects)
    })
}

/// Runs a parser within limits: aliases can expand a short text into a huge value.
pub fn reading<T>(read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let mut budget = Budget::new(READING);
    let read = budget.run(read);
    if budget.is_spent() {
        let limit = READING.memory.unwrap_or_default();
        return Err(Error::Manifest(format!("the manifests have values of more than {limit} bytes together")));
    }
    read
}

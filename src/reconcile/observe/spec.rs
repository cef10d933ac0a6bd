//! The spec of a custom resource, which is the values of its chart.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::bounds;
use crate::cluster::cr::Cr;
use crate::plan::situation::Refusal;
use crate::reconcile::blocking::off;

/// The size in bytes up to which a spec is parsed in place. A longer one is parsed outside the threads that run passes.
pub const SHORT: usize = 32 << 10;

/// The values of a custom resource.
pub async fn values(cr: &Arc<Cr>) -> Result<Map<String, Value>, Refusal> {
    if cr.spec.as_ref().is_none_or(|spec| spec.len() <= SHORT) {
        return read(cr);
    }
    let cr = Arc::clone(cr);
    let internal = || Refusal { reason: "InvalidSpec", message: "spec cannot be read: internal error".to_owned() };
    off(move || read(&cr)).await.unwrap_or_else(|_| Err(internal()))
}

/// Reads them in place.
pub fn read(cr: &Cr) -> Result<Map<String, Value>, Refusal> {
    let refuse = |message: String| Err(Refusal { reason: "InvalidSpec", message });
    let Some(spec) = cr.spec.as_deref() else { return Ok(Map::new()) };
    if let Err(why) = bounds::SPEC.fits(spec) {
        return refuse(format!("spec: {why}"));
    }
    match bounds::SPEC.json(spec) {
        Ok(Value::Object(values)) => Ok(values),
        Ok(_) => refuse("spec is not an object, so it cannot be the values of a chart".to_owned()),
        // The parser's message would quote the content.
        Err(_) => refuse("spec cannot be read".to_owned()),
    }
}

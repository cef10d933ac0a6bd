//! Annotations that contain lists are parsed once per text, outside the threads that run passes. The result is kept for
//! each custom resource.

use std::sync::Arc;

use super::store::PerRelease;
use crate::cluster::cache::ReleaseKey;
use crate::cluster::cr::Cr;
use crate::kind::annotations;
use crate::kind::annotations::Texts;
use crate::reconcile::blocking::off;

/// The parsed annotations of custom resources that have such annotations; most have none.
pub type Annotations = PerRelease<ParsedAnnotations>;

/// The parsed annotations of one custom resource.
pub struct ParsedAnnotations {
    texts: Texts,
    read: Arc<annotations::Annotations>,
}

impl PerRelease<ParsedAnnotations> {
    /// The parsed annotations of a custom resource.
    pub async fn of(&self, key: &ReleaseKey, cr: &Cr) -> Arc<annotations::Annotations> {
        let Some(texts) = annotations::texts(&cr.annotations) else {
            self.forget(key);
            return Arc::default();
        };
        if let Some(known) = self.lock().get(key).filter(|known| annotations::are_of(&known.texts, &cr.annotations)) {
            return Arc::clone(&known.read);
        }
        let read = off(move || (annotations::Annotations::read(&texts), texts)).await;
        let (read, texts) = match read {
            Ok((read, texts)) => (Arc::new(read), texts),
            // A panic here is a fault of the operator, but must not fail all passes.
            Err(error) => {
                let read = annotations::Annotations { patches: Err(error.to_string().into()), ..Default::default() };
                return Arc::new(read);
            }
        };
        self.lock().insert(key.clone(), ParsedAnnotations { texts, read: Arc::clone(&read) });
        read
    }
}

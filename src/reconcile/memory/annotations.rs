//! Annotations that hold lists are read once for each text, off the threads that run passes, and kept with their custom resource.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cluster::cache::ReleaseKey;
use crate::cluster::cr::Cr;
use crate::kind::annotations;
use crate::kind::annotations::Texts;
use crate::reconcile::blocking::off;

/// What is known of custom resources that have such annotations; most have none.
#[derive(Default)]
pub struct Annotations(Mutex<HashMap<ReleaseKey, Known>>);

struct Known {
    texts: Texts,
    read: Arc<annotations::Annotations>,
}

impl Annotations {
    /// What the annotations of a custom resource say.
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
            // A panic is a fault of ours, and may not be one of all passes.
            Err(error) => {
                let read = annotations::Annotations { patches: Err(error.to_string()), ..Default::default() };
                return Arc::new(read);
            }
        };
        self.lock().insert(key.clone(), Known { texts, read: Arc::clone(&read) });
        read
    }

    /// The custom resource is gone.
    pub fn forget(&self, key: &ReleaseKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ReleaseKey, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

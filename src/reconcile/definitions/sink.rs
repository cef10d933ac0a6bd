//! The events of the watch of definitions.

use std::collections::HashSet;
use std::sync::PoisonError;

use kube::core::DynamicObject;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::seen::Seen;
use crate::cluster::watch::Sink;

/// Keeps the definitions, and names those that changed.
pub struct DefinitionSink {
    seen: Seen,
    changed: UnboundedSender<String>,
    listed: HashSet<String>,
}

impl DefinitionSink {
    pub fn new(seen: Seen, changed: UnboundedSender<String>) -> Self {
        Self { seen, changed, listed: HashSet::new() }
    }
}

/// The part of an object that starts work: not its status, which is our own.
fn wanted(object: &Value) -> (Option<&Value>, [Option<&Value>; 3]) {
    let metadata = |key: &str| object.get("metadata")?.get(key);
    (object.get("spec"), [metadata("uid"), metadata("deletionTimestamp"), metadata("finalizers")])
}

impl Sink<DynamicObject> for DefinitionSink {
    fn begin(&mut self) {
        self.listed.clear();
    }

    fn put(&mut self, object: DynamicObject, listed: bool) {
        let (Some(name), Ok(object)) = (object.metadata.name.clone(), serde_json::to_value(object)) else { return };
        if listed {
            self.listed.insert(name.clone());
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = seen.get(&name).is_none_or(|old| wanted(old) != wanted(&object));
        seen.insert(name.clone(), object);
        if is_news {
            // The receiver ends with the operator.
            let _ = self.changed.send(name);
        }
    }

    fn remove(&mut self, object: DynamicObject) {
        let Some(name) = object.metadata.name else { return };
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
        let _ = self.changed.send(name);
    }

    fn complete(&mut self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<String> = seen.keys().filter(|name| !self.listed.contains(*name)).cloned().collect();
        for name in gone {
            seen.remove(&name);
            let _ = self.changed.send(name);
        }
    }

    fn blind(&mut self, why: String) {
        tracing::error!(%why, "definitions of charts cannot be watched");
    }
}

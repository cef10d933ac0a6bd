//! The events of the watch of notices.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::core::DynamicObject;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use crate::cluster::watch::Sink;

/// Namespace and name.
pub type Id = (Arc<str>, Arc<str>);

/// The events of a watch.
#[derive(Clone, Debug)]
pub enum News {
    /// This notice came, changed or went.
    Changed(Id),
    /// All notices of a namespace, or of all namespaces, were reported; or none can be seen there.
    Complete(Option<Arc<str>>),
}

/// The notices that the watch has seen.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<BTreeMap<Id, Value>>>);

impl Seen {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Id, Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A notice.
    pub fn get(&self, id: &Id) -> Option<Value> {
        self.lock().get(id).cloned()
    }

    /// Enters an object, unless a newer one is known. Returns whether more than its status is new.
    pub fn put(&self, id: Id, object: Value) -> bool {
        let version = |object: &Value| {
            let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
            version.and_then(|version| version.parse::<u64>().ok()).unwrap_or(0)
        };
        let of = |object: &Value| {
            let metadata = |key: &str| object["metadata"][key].clone();
            (metadata("uid"), metadata("generation"), metadata("deletionTimestamp"))
        };
        let mut seen = self.lock();
        let old = seen.get(&id);
        if old
            .is_some_and(|old| old["metadata"]["uid"] == object["metadata"]["uid"] && version(old) >= version(&object))
        {
            return false;
        }
        let is_news = old.is_none_or(|old| of(old) != of(&object));
        seen.insert(id, object);
        is_news
    }
}

/// Keeps the notices of one namespace or of all, and names those that changed.
pub struct NoticeSink {
    scope: Option<Arc<str>>,
    seen: Seen,
    news: UnboundedSender<News>,
    /// Ends the watch when notices cannot be seen.
    blind: CancellationToken,
    listed: HashSet<Id>,
}

impl NoticeSink {
    pub fn new(scope: Option<Arc<str>>, seen: Seen, news: UnboundedSender<News>, blind: CancellationToken) -> Self {
        Self { scope, seen, news, blind, listed: HashSet::new() }
    }
}

fn id(object: &DynamicObject) -> Option<Id> {
    Some((object.metadata.namespace.as_deref()?.into(), object.metadata.name.as_deref()?.into()))
}

impl Sink<DynamicObject> for NoticeSink {
    fn begin(&mut self) {
        self.listed.clear();
    }

    fn put(&mut self, object: DynamicObject, listed: bool) {
        let (Some(id), Ok(object)) = (id(&object), serde_json::to_value(object)) else { return };
        if listed {
            self.listed.insert(id.clone());
        }
        if self.seen.put(id.clone(), object) {
            // The receiver ends with the operator.
            let _ = self.news.send(News::Changed(id));
        }
    }

    fn remove(&mut self, object: DynamicObject) {
        let Some(id) = id(&object) else { return };
        self.seen.lock().remove(&id);
        let _ = self.news.send(News::Changed(id));
    }

    fn complete(&mut self) {
        let mut seen = self.seen.lock();
        let in_scope = |id: &Id| self.scope.as_ref().is_none_or(|scope| *scope == id.0);
        let gone: Vec<Id> = seen.keys().filter(|id| in_scope(id) && !self.listed.contains(*id)).cloned().collect();
        for id in gone {
            seen.remove(&id);
            let _ = self.news.send(News::Changed(id));
        }
        let _ = self.news.send(News::Complete(self.scope.clone()));
    }

    fn blind(&mut self, why: String) {
        tracing::warn!(%why, "notices cannot be watched: no message is sent");
        let _ = self.news.send(News::Complete(self.scope.clone()));
        self.blind.cancel();
    }
}

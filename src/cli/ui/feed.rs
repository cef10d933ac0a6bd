//! The objects of a page that somebody looks at, kept up to date by watches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::Api;
use kube::core::DynamicObject;
use kube::core::discovery::Scope;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cli::common::summary::summary;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Resource;
use crate::cluster::watch::{End, Manner, Selection, Sink, watch_selected};
use crate::ui::source::PageError;

/// How long a page waits for the first lists.
const PATIENCE: Duration = Duration::from_secs(20);

/// The number of the next change: each of this program has its own, so a page that is older than a feed is recognised.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The kind, the namespace and the name of a custom resource.
type RowKey = (String, String, String);

/// What a feed keeps of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// The facts of a row.
    Summary,
    /// All of it.
    Whole,
    /// Its metadata: of a Secret, nothing else is kept.
    Metadata,
}

/// The objects that a watch sees.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    /// Their kind.
    pub resource: Arc<Resource>,
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only this name.
    pub name: Option<String>,
    /// Only objects with this label.
    pub label: Option<&'static str>,
}

/// The state of a feed.
#[derive(Default)]
struct Seen {
    rows: BTreeMap<RowKey, Arc<Value>>,
    /// Kinds that are not listed yet.
    waiting: BTreeSet<String>,
    /// Why a kind cannot be seen.
    blind: BTreeMap<String, String>,
}

/// A feed: watches that run while somebody is interested.
pub(super) struct Feed {
    seen: Mutex<Seen>,
    version: watch::Sender<u64>,
    used: Mutex<Instant>,
    stop: CancellationToken,
}

impl Feed {
    /// Starts the watches.
    pub(super) fn start(keep: Keep, watched: Vec<Watched>, cluster: &Cluster) -> Arc<Self> {
        let waiting = watched.iter().map(|each| each.resource.gvk.kind_group()).collect();
        let feed = Arc::new(Self {
            seen: Mutex::new(Seen { waiting, ..Seen::default() }),
            version: watch::Sender::new(NEXT.fetch_add(1, Ordering::Relaxed)),
            used: Mutex::new(Instant::now()),
            stop: CancellationToken::new(),
        });
        for each in watched {
            let sink = FeedSink {
                feed: Arc::clone(&feed),
                resource: Arc::clone(&each.resource),
                keep,
                listed: BTreeSet::new(),
            };
            tokio::spawn(run(each, sink, cluster.clone(), feed.stop.clone()));
        }
        feed
    }

    /// Waits until each kind is listed, or is known to be invisible.
    pub(super) async fn ready(&self) -> Result<(), PageError> {
        self.touch();
        let mut changes = self.version.subscribe();
        let listed = changes.wait_for(|_| self.lock().waiting.is_empty());
        match tokio::time::timeout(PATIENCE, listed).await {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("the API server did not answer within {} seconds", PATIENCE.as_secs()).into()),
        }
    }

    /// The rows, in the order of their kinds.
    pub(super) fn rows(&self) -> Vec<Arc<Value>> {
        self.lock().rows.values().cloned().collect()
    }

    /// Why kinds cannot be seen.
    pub(super) fn notes(&self) -> Vec<String> {
        self.lock().blind.iter().map(|(kind, why)| format!("{kind} cannot be seen: {why}")).collect()
    }

    /// Whether none of its kinds can be seen.
    pub(super) fn is_blind(&self) -> bool {
        let seen = self.lock();
        seen.rows.is_empty() && !seen.blind.is_empty() && seen.waiting.is_empty()
    }

    /// The number of the last change.
    pub(super) fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// The changes. The feed runs at least as long as the receiver exists.
    pub(super) fn follow(&self) -> watch::Receiver<u64> {
        self.touch();
        self.version.subscribe()
    }

    /// Ends the watches.
    pub(super) fn end(&self) {
        self.stop.cancel();
    }

    /// Whether nobody has been interested for a time.
    pub(super) fn is_unused(&self, time: Duration) -> bool {
        if self.version.receiver_count() > 0 {
            self.touch();
            return false;
        }
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= time
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.version.send_modify(|version| *version = NEXT.fetch_add(1, Ordering::Relaxed));
    }
}

async fn run(watched: Watched, mut sink: FeedSink, cluster: Cluster, stop: CancellationToken) {
    let scope = if watched.resource.namespaced { Scope::Namespaced } else { Scope::Cluster };
    let api: Api<DynamicObject> = Api::dynamic(cluster.client(), &watched.resource.api_resource(), &scope);
    let api = match watched.namespace.as_deref().filter(|_| watched.resource.namespaced) {
        Some(namespace) => api.constrain(namespace),
        None => api,
    };
    let field = watched.name.map(|name| format!("metadata.name={name}"));
    let selection = Selection { labels: watched.label, fields: field.as_deref() };
    let manner = Manner { streaming: true, back: cluster.back() };
    if watch_selected(api, selection, manner, &mut sink, &stop).await == End::Gone {
        sink.blind("the API server does not serve it".to_owned());
    }
}

/// Enters what a watch sees.
struct FeedSink {
    feed: Arc<Feed>,
    resource: Arc<Resource>,
    keep: Keep,
    /// The custom resources of the list that runs.
    listed: BTreeSet<RowKey>,
}

impl FeedSink {
    fn key(&self, object: &DynamicObject) -> RowKey {
        let metadata = &object.metadata;
        let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
        (self.resource.gvk.kind_group(), namespace.unwrap_or_default(), name.unwrap_or_default())
    }

    fn kept(&self, mut object: DynamicObject) -> Value {
        // They are large, and nobody reads them here.
        object.metadata.managed_fields = None;
        if self.keep == Keep::Metadata {
            object.data = Value::Null;
        }
        let mut cr = serde_json::to_value(&object).unwrap_or_default();
        let gvk = &self.resource.gvk;
        cr["apiVersion"] = gvk.api_version().into();
        cr["kind"] = Value::from(&*gvk.kind);
        match self.keep {
            Keep::Summary => summary(&self.resource, &cr),
            Keep::Whole | Keep::Metadata => cr,
        }
    }
}

impl Sink<DynamicObject> for FeedSink {
    fn begin(&mut self) {
        self.listed.clear();
    }

    fn put(&mut self, object: DynamicObject, listed: bool) {
        let key = self.key(&object);
        let row = Arc::new(self.kept(object));
        if listed {
            self.listed.insert(key.clone());
        }
        let old = self.feed.lock().rows.insert(key, Arc::clone(&row));
        if !listed && old.is_none_or(|old| old != row) {
            self.feed.changed();
        }
    }

    fn remove(&mut self, object: DynamicObject) {
        self.feed.lock().rows.remove(&self.key(&object));
        self.feed.changed();
    }

    fn complete(&mut self) {
        let kind = self.resource.gvk.kind_group();
        {
            let mut seen = self.feed.lock();
            seen.rows.retain(|key, _| key.0 != kind || self.listed.contains(key));
            seen.waiting.remove(&kind);
            seen.blind.remove(&kind);
        }
        self.listed.clear();
        self.feed.changed();
    }

    fn blind(&mut self, why: String) {
        let kind = self.resource.gvk.kind_group();
        let is_news = {
            let mut seen = self.feed.lock();
            // Rights that were taken away apply to what was seen before, too.
            seen.rows.retain(|key, _| key.0 != kind);
            seen.waiting.remove(&kind);
            seen.blind.insert(kind, why.clone()) != Some(why)
        };
        if is_news {
            self.feed.changed();
        }
    }
}

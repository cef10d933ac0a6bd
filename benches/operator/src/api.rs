//! Requests of the API server, and a watch that remembers when it saw what.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures::TryStreamExt as _;
use http::Request;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::core::WatchEvent;
use serde::Deserialize;
use serde_json::Value;
use tokio::task::JoinHandle;

/// Anything that ends the measurement.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A user of the API server, with connections of its own.
#[derive(Clone)]
pub struct Api(Client);

impl Api {
    /// As the user of a kubeconfig.
    pub async fn new(kubeconfig: &Path) -> Result<Self, Error> {
        let config = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        Ok(Self(Client::try_from(config)?))
    }

    /// The API server's version.
    pub async fn version(&self) -> Result<String, Error> {
        Ok(self.0.apiserver_version().await?.git_version)
    }

    pub async fn get(&self, path: &str) -> Result<Value, Error> {
        self.send("GET", path, "application/json", None).await
    }

    pub async fn create(&self, collection: &str, body: &Value) -> Result<Value, Error> {
        self.send("POST", collection, "application/json", Some(body)).await
    }

    pub async fn merge(&self, path: &str, body: &Value) -> Result<Value, Error> {
        self.send("PATCH", path, "application/merge-patch+json", Some(body)).await
    }

    /// Server-side apply.
    pub async fn apply(&self, path: &str, body: &Value) -> Result<Value, Error> {
        let path = format!("{path}?fieldManager=bench&force=true");
        self.send("PATCH", &path, "application/apply-patch+yaml", Some(body)).await
    }

    pub async fn delete(&self, path: &str) -> Result<Value, Error> {
        self.send("DELETE", path, "application/json", None).await
    }

    async fn send(&self, method: &str, path: &str, content: &str, body: Option<&Value>) -> Result<Value, Error> {
        let body = body.map_or_else(Vec::new, |b| b.to_string().into_bytes());
        let request = Request::builder().method(method).uri(path).header("Content-Type", content).body(body)?;
        self.0.request(request).await.map_err(|e| format!("{method} {path}: {e}").into())
    }
}

/// Whether an error says that something does not exist.
pub fn is_missing(error: &Error) -> bool {
    error.to_string().contains("NotFound")
}

/// One state of an object.
pub struct Event {
    /// When the watch delivered it.
    pub at: Instant,
    /// It was deleted.
    pub gone: bool,
    /// `spec.replicas`.
    pub replicas: Option<u64>,
}

/// Everything that a watch has delivered.
#[derive(Default)]
pub struct Log {
    /// The states of each object, by its name.
    pub of: HashMap<String, Vec<Event>>,
    /// When each object was first `Deployed=True`.
    pub deployed: HashMap<String, Instant>,
    /// How many are gone, and when the last one went.
    pub gone: (usize, Option<Instant>),
}

/// A watch of a collection, from now on.
pub struct Watch {
    log: Arc<Mutex<Log>>,
    changes: tokio::sync::watch::Receiver<()>,
    task: JoinHandle<()>,
}

#[derive(Clone, Deserialize)]
struct Seen {
    metadata: kube::core::ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Default, Deserialize)]
struct Spec {
    replicas: Option<u64>,
}

#[derive(Clone, Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Clone, Deserialize)]
struct Condition {
    r#type: String,
    status: String,
}

impl Watch {
    pub async fn start(api: &Api, collection: &str) -> Result<Self, Error> {
        let list = api.get(&format!("{collection}?limit=1")).await?;
        let mut version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let log = Arc::new(Mutex::new(Log::default()));
        let (sender, changes) = tokio::sync::watch::channel(());
        let (client, collection, shared) = (api.0.clone(), collection.to_owned(), Arc::clone(&log));
        let task = tokio::spawn(async move {
            // The API server ends a watch after some minutes; it continues where it was.
            loop {
                if let Err(e) = follow(&client, &collection, &mut version, &shared, &sender).await {
                    eprintln!("watch of {collection}: {e}");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        });
        Ok(Self { log, changes, task })
    }

    /// Looks at once and after each event, until something is found or the deadline has passed.
    pub async fn until<T>(&self, deadline: Instant, mut look: impl FnMut(&Log) -> Option<T>) -> Option<T> {
        let mut changes = self.changes.clone();
        loop {
            changes.mark_unchanged();
            if let Some(found) = self.look(&mut look) {
                return Some(found);
            }
            tokio::time::timeout_at(deadline.into(), changes.changed()).await.ok()?.ok()?;
        }
    }

    /// The current state.
    pub fn look<T>(&self, look: impl FnOnce(&Log) -> T) -> T {
        look(&self.log.lock().expect("nothing panics while it holds this"))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(
    client: &Client,
    collection: &str,
    version: &mut String,
    log: &Mutex<Log>,
    sender: &tokio::sync::watch::Sender<()>,
) -> Result<(), Error> {
    let path = format!("{collection}?watch=1&resourceVersion={version}&timeoutSeconds=7200");
    let mut events = std::pin::pin!(client.request_events::<Seen>(Request::get(path).body(Vec::new())?).await?);
    while let Some(event) = events.try_next().await? {
        let at = Instant::now();
        let (object, gone) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(e) => return Err(e.to_string().into()),
        };
        *version = object.metadata.resource_version.clone().unwrap_or_default();
        let name = object.metadata.name.unwrap_or_default();
        let mut log = log.lock().expect("nothing panics while it holds this");
        if gone {
            log.gone = (log.gone.0 + 1, Some(at));
        } else if object.status.conditions.iter().any(|c| c.r#type == "Deployed" && c.status == "True") {
            log.deployed.entry(name.clone()).or_insert(at);
        }
        log.of.entry(name).or_default().push(Event { at, gone, replicas: object.spec.replicas });
        sender.send_replace(());
    }
    Ok(())
}

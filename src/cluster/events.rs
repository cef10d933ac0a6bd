//! Kubernetes events: a few, for what people want to know of a release; sent in the background and never in the way.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::json;
use tokio::sync::mpsc;

use super::cache::ReleaseKey;
use super::client::Cluster;
use super::discovery::Resource;
use crate::mask::Masks;
use crate::release::object::{Gvk, ObjectId};

/// Events that may wait to be sent; more than this are dropped.
const WAITING: usize = 1024;
/// Kubernetes refuses a longer message.
const MAX_NOTE: usize = 1000;

/// An event about a custom resource.
#[derive(Clone, Debug)]
pub struct Event {
    /// Kind of the custom resource.
    pub gvk: Gvk,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// `Warning`, or else `Normal`.
    pub warning: bool,
    /// `PascalCase`.
    pub reason: &'static str,
    /// A sentence.
    pub note: String,
}

/// Where events are handed over.
#[derive(Clone)]
pub struct Events(mpsc::Sender<Event>);

impl Events {
    /// Hands over, and the task that sends until all senders are gone.
    pub fn new(
        cluster: Cluster,
        reporter: String,
        masks: Arc<Masks<ReleaseKey>>,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, mut receiver) = mpsc::channel::<Event>(WAITING);
        let sending = async move {
            while let Some(mut event) = receiver.recv().await {
                if let Cow::Owned(clean) = masks.clean(&event.note) {
                    event.note = clean;
                }
                if let Err(error) = send(&cluster, &event, &reporter).await {
                    tracing::debug!(%error, reason = event.reason, "an event could not be written");
                }
            }
        };
        (Self(sender), sending)
    }

    /// Sends an event soon.
    pub fn send(&self, event: Event) {
        // A full queue means that the API server is slow; an event less is better than a pass that waits.
        let _ = self.0.try_send(event);
    }
}

/// `v1/Event`, because that is what the roles that operator-sdk scaffolds allow; `events.k8s.io` shows it too.
async fn send(cluster: &Cluster, event: &Event, reporter: &str) -> Result<(), super::error::ApiError> {
    let now = jiff::Timestamp::now();
    let id = ObjectId {
        gvk: Resource::events().gvk,
        namespace: Some(event.namespace.as_str().into()),
        name: format!("{}.{:x}", event.name, now.as_nanosecond()).into(),
    };
    let mut note = event.note.clone();
    if note.len() > MAX_NOTE {
        let mut end = MAX_NOTE;
        while !note.is_char_boundary(end) {
            end -= 1;
        }
        note.truncate(end);
    }
    let seconds = format!("{now:.0}");
    let body = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": &*id.name, "namespace": event.namespace},
        "involvedObject": {"apiVersion": event.gvk.api_version(), "kind": &*event.gvk.kind, "namespace": event.namespace,
            "name": event.name, "uid": event.uid},
        "type": if event.warning { "Warning" } else { "Normal" },
        "reason": event.reason, "message": note, "count": 1,
        "firstTimestamp": seconds, "lastTimestamp": seconds,
        "source": {"component": reporter}, "reportingComponent": reporter, "reportingInstance": "",
    });
    cluster.create(&Resource::events(), &id, &body).await.map(|_| ())
}

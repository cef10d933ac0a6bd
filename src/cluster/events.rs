//! Kubernetes events: a small number, about what people want to know of a release. They are sent in the background and
//! never delay a pass.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;
use tokio::sync::mpsc;

use super::client::{Cluster, Returned};
use super::discovery::Resource;
use crate::object::{Gvk, ObjectId};
use crate::telemetry::metrics::Metrics;

/// The maximum number of warnings, and of other events, that wait to be sent. Further ones are dropped.
const WAITING: usize = 4096;
/// How long a normal event may wait for more important work: the time to install a thousand custom resources.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two checks for more important work.
const LOOK: Duration = Duration::from_millis(50);
/// The maximum length of a message. Kubernetes refuses a longer one.
const MAX_NOTE: usize = 1000;

/// An event about a custom resource.
#[derive(Clone, Debug)]
pub struct Event {
    /// Kind of the custom resource.
    pub gvk: Gvk,
    /// Its namespace; empty when it is cluster-scoped.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Whether its type is `Warning`; if not, it is `Normal`.
    pub warning: bool,
    /// `PascalCase`.
    pub reason: &'static str,
    /// A sentence without secrets.
    pub note: String,
}

/// The number of events with one reason that an object may send at once, as in client-go
/// (`EventSourceObjectSpamFilter`).
const BURST: u32 = 25;
/// The time after which it may send one more.
const REFILL: Duration = Duration::from_secs(60);
/// The maximum number of objects and reasons to remember.
const REMEMBERED: usize = 10_000;

/// Prevents an object from filling the API server with repeated events.
#[derive(Default)]
struct Limits(HashMap<(String, &'static str), Limit>);

struct Limit {
    left: u32,
    /// When `left` was last increased.
    filled: Instant,
    left_out: u32,
}

impl Limits {
    /// Whether to send an event, and how many were left out since the last one that was sent.
    fn admit(&mut self, event: &Event, now: Instant) -> Option<u32> {
        if self.0.len() >= REMEMBERED {
            self.0.retain(|_, limit| now.duration_since(limit.filled) < REFILL * BURST);
        }
        let limit =
            self.0.entry((event.uid.clone(), event.reason)).or_insert(Limit { left: BURST, filled: now, left_out: 0 });
        let more = u32::try_from(now.duration_since(limit.filled).as_secs() / REFILL.as_secs()).unwrap_or(u32::MAX);
        if more > 0 {
            limit.left = limit.left.saturating_add(more).min(BURST);
            limit.filled = now;
        }
        if limit.left == 0 {
            limit.left_out += 1;
            return None;
        }
        limit.left -= 1;
        Some(std::mem::take(&mut limit.left_out))
    }
}

/// An event that waits, and when it was created.
struct Came {
    event: Event,
    since: Instant,
    at: Timestamp,
}

/// The queues of events: warnings, which never wait for other work, and normal events.
#[derive(Clone)]
pub struct Events {
    warnings: mpsc::Sender<Came>,
    others: mpsc::Sender<Came>,
}

impl Events {
    /// Creates the queues, and the task that sends events until all senders are dropped. While there is more important
    /// work, normal events wait: if a thousand releases are installed at once, their events would take a tenth of the
    /// API server's time.
    pub fn new(
        cluster: Cluster,
        reporter: String,
        metrics: Arc<Metrics>,
        is_busy: impl Fn() -> bool + Send + Sync,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (events, mut warnings, mut others) = Self::channels();
        let sending = async move {
            let sender = Sender { cluster, reporter, metrics };
            let warnings = async {
                let mut limits = Limits::default();
                while let Some(came) = warnings.recv().await {
                    sender.send(came, &mut limits).await;
                }
            };
            let others = async {
                let mut limits = Limits::default();
                while let Some(came) = next(&mut others, &is_busy).await {
                    sender.send(came, &mut limits).await;
                }
            };
            tokio::join!(warnings, others);
        };
        (events, sending)
    }

    fn channels() -> (Self, mpsc::Receiver<Came>, mpsc::Receiver<Came>) {
        let ((warnings, first), (others, second)) = (mpsc::channel(WAITING), mpsc::channel(WAITING));
        (Self { warnings, others }, first, second)
    }

    /// Queues an event.
    pub fn send(&self, event: Event) {
        let channel = if event.warning { &self.warnings } else { &self.others };
        // A full queue means that the API server is slow. Losing an event is better than delaying a pass.
        let _ = channel.try_send(Came { event, since: Instant::now(), at: Timestamp::now() });
    }
}

/// The next normal event, when there is no more important work or the event has waited long enough.
async fn next(events: &mut mpsc::Receiver<Came>, is_busy: impl Fn() -> bool) -> Option<Came> {
    let came = events.recv().await?;
    while is_busy() && came.since.elapsed() < PATIENCE {
        tokio::time::sleep(LOOK).await;
    }
    Some(came)
}

/// The sender of events.
struct Sender {
    cluster: Cluster,
    reporter: String,
    metrics: Arc<Metrics>,
}

impl Sender {
    async fn send(&self, Came { mut event, at, .. }: Came, limits: &mut Limits) {
        let Some(left_out) = limits.admit(&event, Instant::now()) else {
            self.metrics.event_left_out();
            return;
        };
        if left_out > 0 {
            event.note = format!("{} ({left_out} more events of this kind were left out)", event.note);
        }
        if let Err(error) = send(&self.cluster, &event, at, &self.reporter).await {
            tracing::debug!(%error, reason = event.reason, "an event could not be written");
        }
    }
}

/// Writes a `v1/Event`, since the roles that operator-sdk scaffolds allow these; `events.k8s.io` shows them too.
async fn send(cluster: &Cluster, event: &Event, at: Timestamp, reporter: &str) -> Result<(), super::error::ApiError> {
    // The API server takes events about objects that are in no namespace in this one only (`pkg/apis/core/validation/events.go`).
    let namespace = if event.namespace.is_empty() { "default" } else { &event.namespace };
    let id = ObjectId {
        gvk: Resource::events().gvk,
        namespace: Some(namespace.into()),
        name: format!("{}.{:x}", event.name, at.as_nanosecond()).into(),
    };
    let mut note = event.note.clone();
    if note.len() > MAX_NOTE {
        let mut end = MAX_NOTE;
        while !note.is_char_boundary(end) {
            end -= 1;
        }
        note.truncate(end);
    }
    let seconds = format!("{at:.0}");
    let body = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": &*id.name, "namespace": namespace},
        "involvedObject": {"apiVersion": event.gvk.api_version(), "kind": &*event.gvk.kind, "namespace": event.namespace,
            "name": event.name, "uid": event.uid},
        "type": if event.warning { "Warning" } else { "Normal" },
        "reason": event.reason, "message": note, "count": 1,
        "firstTimestamp": seconds, "lastTimestamp": seconds,
        "source": {"component": reporter}, "reportingComponent": reporter, "reportingInstance": "",
    });
    cluster.create(&Resource::events(), &id, &body, Returned::Metadata).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::{BURST, Event, Events, LOOK, Limits, REFILL, next};
    use crate::object::Gvk;
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;
    use tokio::time::timeout;

    #[tokio::test]
    async fn what_is_no_warning_waits_for_work_and_no_warning_for_it() {
        let (events, mut warnings, mut others) = Events::channels();
        events.send(event("1", "Installed"));
        events.send(Event { warning: true, ..event("2", "RolledBack") });
        assert_eq!(warnings.recv().await.unwrap().event.reason, "RolledBack");
        let busy = AtomicBool::new(true);
        let mut other = pin!(next(&mut others, || busy.load(Ordering::Relaxed)));
        assert!(timeout(2 * LOOK, &mut other).await.is_err());
        busy.store(false, Ordering::Relaxed);
        assert_eq!(other.await.unwrap().event.reason, "Installed");
    }

    fn event(uid: &str, reason: &'static str) -> Event {
        let (namespace, name, note) = ("ns".to_owned(), "a".to_owned(), String::new());
        Event { gvk: Gvk::new("g", "v1", "K"), namespace, name, uid: uid.to_owned(), warning: false, reason, note }
    }

    #[test]
    fn an_object_that_repeats_itself_is_heard_less_often_and_others_as_before() {
        let (mut limits, start) = (Limits::default(), Instant::now());
        let sent = (0..100).filter(|_| limits.admit(&event("1", "Drift"), start).is_some()).count();
        assert_eq!(sent, BURST as usize);
        assert_eq!(limits.admit(&event("1", "Upgraded"), start), Some(0));
        assert_eq!(limits.admit(&event("2", "Drift"), start), Some(0));
        assert_eq!(limits.admit(&event("1", "Drift"), start + REFILL), Some(100 - BURST));
        assert_eq!(limits.admit(&event("1", "Drift"), start + REFILL), None);
        assert_eq!(limits.admit(&event("1", "Drift"), start + REFILL * 3), Some(1));
    }
}

//! Watches: one task each, which keeps a part of the cache complete and retries for ever.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt as _};
use kube::core::Status;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;

use super::forbidden;

/// Pauses after errors: doubling from the first to the last, with jitter.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(15);

/// Objects per page if the API server does not support streaming lists.
const PAGE: u32 = 200;

/// Receives the events of a watch.
pub trait Sink<K>: Send {
    /// A list begins.
    fn begin(&mut self);
    /// The current state of an object; `listed` is true during a list.
    fn put(&mut self, object: K, listed: bool);
    /// An object is deleted.
    fn remove(&mut self, object: K);
    /// The list is complete.
    fn complete(&mut self);
    /// The objects cannot be seen, for this reason. The watch keeps trying.
    fn blind(&mut self, why: String);
}

/// Why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The API server does not serve the kind, or no longer serves it.
    Gone,
    /// It was cancelled.
    Cancelled,
}

/// The settings of all watches.
#[derive(Clone)]
pub struct Manner {
    /// Whether lists come as streams (the default since Kubernetes 1.34), which takes no more memory than a watch. If a
    /// server refuses this, the client requests pages.
    pub streaming: bool,
    /// Changes when the API server answers again after it was down. This ends the pauses of all watches.
    pub back: Receiver<()>,
}

/// The objects that a watch sees.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection<'a> {
    /// A label selector.
    pub labels: Option<&'a str>,
    /// A field selector.
    pub fields: Option<&'a str>,
}

/// Watches the objects with a label until the API server no longer serves the kind, or the token is cancelled.
pub async fn watch<K, S>(
    api: Api<K>,
    selector: Option<&str>,
    manner: Manner,
    sink: &mut S,
    stop: &CancellationToken,
) -> End
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    S: Sink<K>,
{
    watch_selected(api, Selection { labels: selector, fields: None }, manner, sink, stop).await
}

/// The same for objects that are selected in another way.
pub async fn watch_selected<K, S>(
    api: Api<K>,
    selection: Selection<'_>,
    Manner { mut streaming, mut back }: Manner,
    sink: &mut S,
    stop: &CancellationToken,
) -> End
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    S: Sink<K>,
{
    // Earlier changes do not count for this watch.
    back.mark_unchanged();
    let mut pause = Pause { next: FIRST_PAUSE, last: Instant::now(), back };
    loop {
        let mut config = Config::default().page_size(PAGE);
        config.label_selector = selection.labels.map(str::to_owned);
        config.field_selector = selection.fields.map(str::to_owned);
        if streaming {
            config = config.streaming_lists();
        }
        let mut stream = std::pin::pin!(watcher(api.clone(), config));
        match follow(&mut stream, sink, &mut pause, stop).await {
            Stopped::End(end) => return end,
            Stopped::NoStreaming if streaming => streaming = false,
            Stopped::NoStreaming | Stopped::Blind => pause.rest(stop).await,
        }
    }
}

enum Stopped {
    End(End),
    /// The server refused the request itself.
    NoStreaming,
    /// The request was forbidden. A watch that continued at its last position would not report that it can see again,
    /// so it starts with a list.
    Blind,
}

async fn follow<K, S, W>(stream: &mut W, sink: &mut S, pause: &mut Pause, stop: &CancellationToken) -> Stopped
where
    W: Stream<Item = watcher::Result<Event<K>>> + Unpin,
    S: Sink<K>,
{
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => return Stopped::End(End::Cancelled),
            event = stream.next() => event,
        };
        match event {
            None => return Stopped::End(End::Cancelled),
            Some(Ok(event)) => {
                if !matches!(event, Event::Init) {
                    pause.next = FIRST_PAUSE;
                }
                match event {
                    Event::Init => sink.begin(),
                    Event::InitApply(object) => sink.put(object, true),
                    Event::InitDone => sink.complete(),
                    Event::Apply(object) => sink.put(object, false),
                    Event::Delete(object) => sink.remove(object),
                }
            }
            Some(Err(error)) => match code(&error) {
                Some(404) => return Stopped::End(End::Gone),
                Some(400 | 422) => return Stopped::NoStreaming,
                // The resourceVersion is too old. The next poll lists again.
                Some(410) => {}
                Some(403) => {
                    sink.blind(message(&error));
                    return Stopped::Blind;
                }
                _ => {
                    tracing::debug!(%error, "watch interrupted");
                    pause.rest(stop).await;
                }
            },
        }
    }
}

/// The pause after an error of a watch.
struct Pause {
    next: Duration,
    /// When the last pause ended.
    last: Instant,
    back: Receiver<()>,
}

impl Pause {
    /// Sleeps, and doubles the next pause, until the API server is back. If the watch was healthy for a while, the
    /// pauses start from the shortest again: a watch that continues at its last position reports nothing.
    async fn rest(&mut self, stop: &CancellationToken) {
        if self.last.elapsed() > LAST_PAUSE {
            self.next = FIRST_PAUSE;
        }
        let jitter = f64::from(fastrand_percent()) / 100.0;
        let sleep = self.next.mul_f64(1.0 + jitter * 0.5);
        self.next = (self.next * 2).min(LAST_PAUSE);
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(sleep) => {}
            Ok(()) = self.back.changed() => self.next = FIRST_PAUSE,
        }
        self.last = Instant::now();
    }
}

/// A number from 0 to 99, from the nanoseconds of the clock: random enough to keep watches from retrying at the same
/// time.
pub(crate) fn fastrand_percent() -> u32 {
    let nanoseconds = jiff::Timestamp::now().as_nanosecond() / 1000 % 100;
    u32::try_from(nanoseconds).unwrap_or(0)
}

/// The API server's error, if the error came from the API server.
fn status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

fn code(error: &watcher::Error) -> Option<u16> {
    status(error).map(|s| s.code)
}

fn message(error: &watcher::Error) -> String {
    status(error).map_or_else(
        || error.to_string(),
        |s| match forbidden::remedy(&s.message, None) {
            Some(remedy) => format!("{}. {remedy}", s.message),
            None => s.message.clone(),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::{FIRST_PAUSE, LAST_PAUSE, Pause};
    use std::time::Instant;
    use tokio_util::sync::CancellationToken;

    #[tokio::test]
    async fn no_pause_outlasts_the_absence_of_the_api_server() {
        let sender = tokio::sync::watch::Sender::new(());
        let mut pause = Pause { next: LAST_PAUSE, last: Instant::now(), back: sender.subscribe() };
        sender.send_replace(());
        let began = Instant::now();
        pause.rest(&CancellationToken::new()).await;
        assert!(began.elapsed() < LAST_PAUSE);
        assert_eq!(pause.next, FIRST_PAUSE, "and what fails then is tried again soon");
        pause.rest(&CancellationToken::new()).await;
        assert_eq!(pause.next, FIRST_PAUSE * 2, "once for each time it comes back");
    }

    #[tokio::test]
    async fn a_watch_that_was_well_for_a_while_begins_anew() {
        let sender = tokio::sync::watch::Sender::new(());
        let long_ago = Instant::now().checked_sub(LAST_PAUSE * 2).unwrap();
        let mut pause = Pause { next: LAST_PAUSE, last: long_ago, back: sender.subscribe() };
        pause.rest(&CancellationToken::new()).await;
        assert_eq!(pause.next, FIRST_PAUSE * 2);
    }
}

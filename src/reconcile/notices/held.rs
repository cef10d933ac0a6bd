//! The state of a notice that is kept between its turns. Everything that must survive the operator is in the notice's status.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::cache::ReleaseKey;
use crate::notices::document::Notice;
use crate::notices::state::NoticeState;
use crate::notices::status::{NoticeReason, bound};

/// Pauses after a status could not be stored.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(15);

/// The custom resources that have to be checked.
#[derive(Debug)]
pub enum Dirty {
    /// All.
    All,
    /// These.
    Some(BTreeSet<ReleaseKey>),
}

impl Dirty {
    pub fn add(&mut self, key: ReleaseKey) {
        if let Self::Some(keys) = self {
            keys.insert(key);
        }
    }
}

/// A notice.
#[derive(Debug)]
pub struct Held {
    pub uid: String,
    pub generation: i64,
    pub notice: Result<Notice, String>,
    pub dirty: Dirty,
    /// Attempts run.
    pub is_sending: bool,
    /// Attempts have to wait until another notice has ended its own.
    pub waits_for_turn: bool,
    /// The messages that were taken and are still in the status.
    pub taken: Vec<String>,
    /// Why a message was not taken when all were last tried.
    pub problem: Option<String>,
    /// The same of the attempts that run.
    pub failed: Option<String>,
    /// When the next attempt may be made, and the pause after that.
    pub retry: Option<Instant>,
    pause: Option<Duration>,
    store_pause: Option<Duration>,
    /// The result of the templates for messages that were composed since the last status: the error, if one failed.
    pub templates: Vec<Option<String>>,
    /// Messages have to wait, because as many were sent as can be sent in an hour.
    pub is_limited: bool,
    /// Recipients of the messages that are being sent.
    pub reserved: usize,
    /// Messages that wait.
    pub waiting: usize,
    /// When its next turn is.
    pub wakes: Option<Instant>,
}

impl Default for Held {
    fn default() -> Self {
        Self {
            uid: String::new(),
            generation: 0,
            notice: Err(String::new()),
            dirty: Dirty::All,
            is_sending: false,
            waits_for_turn: false,
            taken: Vec::new(),
            problem: None,
            failed: None,
            retry: None,
            pause: None,
            store_pause: None,
            templates: Vec::new(),
            is_limited: false,
            reserved: 0,
            waiting: 0,
            wakes: None,
        }
    }
}

impl Held {
    /// Reads the object. After a restart a notice that failed is tried at once, as is one that was changed; until then it fails.
    pub fn read(&mut self, object: &Value) {
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        if self.uid != uid {
            *self = Self { uid: uid.to_owned(), problem: failing(object), ..Self::default() };
        }
        self.generation = object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
        self.notice = Notice::read(object);
        (self.retry, self.pause) = (None, None);
    }

    pub fn needs_pods(&self) -> bool {
        self.notice.as_ref().is_ok_and(Notice::needs_pods)
    }

    /// How many get each message.
    pub fn recipients(&self) -> usize {
        self.notice.as_ref().map_or(0, |notice| notice.target.recipients())
    }

    pub fn target(&self) -> &'static str {
        self.notice.as_ref().map_or("", |notice| notice.target.word())
    }

    /// Moves the next turn forward to this time.
    pub fn wake_at(&mut self, at: Instant) {
        self.wakes = Some(self.wakes.map_or(at, |wakes| wakes.min(at)));
    }

    /// The attempts are over: if one failed, the next begins after a pause.
    pub fn ended(&mut self, first: Duration, last: Duration) {
        (self.is_sending, self.reserved) = (false, 0);
        self.problem = self.failed.take();
        if self.problem.is_none() {
            (self.retry, self.pause) = (None, None);
            return;
        }
        let pause = self.pause.unwrap_or(first);
        self.retry = Some(Instant::now() + pause);
        self.pause = Some((pause * 2).min(last));
    }

    /// The status was stored.
    pub fn stored(&mut self, state: &NoticeState) {
        self.taken.clear();
        self.templates.clear();
        self.store_pause = None;
        self.waiting = state.outbox.len();
    }

    /// It was not.
    pub fn not_stored(&mut self) {
        let pause = self.store_pause.unwrap_or(FIRST_PAUSE);
        self.store_pause = Some((pause * 2).min(LAST_PAUSE));
        self.wake_at(Instant::now() + pause);
    }
}

/// Why the target did not take messages, as the status says.
fn failing(object: &Value) -> Option<String> {
    let waits = object.pointer("/status/waiting").and_then(Value::as_u64).is_some_and(|count| count > 0);
    let ready = object.pointer("/status/conditions/0").filter(|_| waits);
    let ready = ready.filter(|ready| ready["reason"] == NoticeReason::SendFailed.word())?;
    Some(bound(ready["message"].as_str().unwrap_or_default()))
}

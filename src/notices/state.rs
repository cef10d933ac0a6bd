//! The events that a notice has seen, and the messages that it has to send: the data in its status, and how a change
//! enters it.
//!
//! A change and the message about it are entered together, and written in one request before anything is sent. A message is removed after
//! its target took it. A message accepts changes until it is due. After that it stays as it is, so that a second
//! attempt sends the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::changes::{Change, Course, changes, remembered};
use super::document::Notice;
use super::events::NoticeEvent;
use super::facts::ResourceFacts;
use crate::bounds;

/// Custom resources that one notice follows.
pub const MAX_RELEASES: usize = 1000;
/// Pods that one notice follows.
pub const MAX_PODS: usize = 2000;
/// Messages that wait.
pub const MAX_MESSAGES: usize = 20;
/// Lines of a message.
pub const MAX_LINES: usize = 40;
/// Names in a line.
const MAX_ABOUT: usize = 5;
/// Incidents that last.
const MAX_INCIDENTS: usize = 500;
/// Bytes of a text in a line.
const MAX_TEXT: usize = 200;
/// Messages in a row for which a template of the notice can fail. Further ones have the usual words.
const MAX_TEMPLATE_FAILURES: u32 = 3;
/// Incidents that a message names.
const MAX_REFERENCES: usize = 10;

const HOUR: i64 = 3600;

/// The data of one notice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NoticeState {
    /// Since when the present selector counts, in seconds since 1970. A custom resource that is older and not known is only looked at.
    pub since: i64,
    /// The number of the next message.
    pub next: u64,
    /// The last seen state, by `Kind.group/name`.
    pub releases: BTreeMap<String, ResourceFacts>,
    /// Problems that last and were reported, by release and subject.
    pub incidents: BTreeMap<String, Incident>,
    /// Problems that are reported if they last, by release and subject.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pending: BTreeMap<String, Pending>,
    /// The messages that were not taken yet, the oldest first.
    pub outbox: Vec<Entry>,
    /// When the messages of the last hour were due.
    pub recent: Vec<i64>,
    /// Changes that no message describes, because too many wait.
    pub left_out: u64,
    /// The pods of the custom resources were looked at.
    pub knows_pods: bool,
    /// The error of the templates, if they failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub templates: Option<TemplateFailures>,
}

/// How often the templates of a notice failed one message after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateFailures {
    /// The generation of the notice that has these templates.
    pub generation: i64,
    /// Messages in a row for which a template failed.
    pub count: u32,
    /// The last error.
    pub why: String,
}

/// Something that lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Incident {
    /// The message that reported it first.
    pub thread: String,
    /// How it began.
    pub event: NoticeEvent,
    pub reason: String,
    /// When it was last reported.
    pub reported: i64,
    /// When it happened last.
    pub last: i64,
    /// How often it happened since it was reported.
    pub more: u64,
    /// It is over after a quiet time.
    pub flares: bool,
}

/// Something that is reported if it lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// The event that it would be.
    pub event: NoticeEvent,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// When it began.
    pub since: i64,
}

/// A message that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its name, which no other message of any notice has.
    pub id: String,
    /// When it is sent, in seconds since 1970. Until then it takes changes.
    pub due: i64,
    /// Its text.
    pub lines: Vec<Line>,
    /// How many changes it counts and does not describe.
    #[serde(default)]
    pub more: u64,
}

/// The part of a message about one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// `Kind.group/name`.
    pub release: String,
    pub event: NoticeEvent,
    /// To which part.
    pub subject: String,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The objects that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub about: Vec<String>,
    /// How often.
    pub count: u64,
    /// It was reported before, and lasts.
    #[serde(default)]
    pub still: bool,
    /// The message that reported it first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// When it happened first.
    pub at: i64,
}

impl Serialize for NoticeEvent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for NoticeEvent {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = super::events::EVENTS.iter().find(|known| known.name == name);
        known.map(|known| known.event).ok_or_else(|| serde::de::Error::custom("an event that is not known"))
    }
}

/// A look at one custom resource.
#[derive(Clone, Debug)]
pub struct Look {
    /// `Kind.group/name`.
    pub release: String,
    /// The state; `None` if it is gone.
    pub facts: Option<ResourceFacts>,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// It is the first check with the present spec: an existing state is not news.
    pub is_first: bool,
}

/// The notice whose state changes, and the time.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'t> {
    pub notice: &'t Notice,
    pub uid: &'t str,
    /// Now, in seconds since 1970.
    pub now: i64,
    /// The times that no notice sets.
    pub times: Times,
}

/// The times that no notice sets, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// After how long without a crash a workload is well again.
    pub quiet: i64,
    /// How long something lasts before it is reported, see [`Course::Lingers`].
    pub linger: i64,
}

impl NoticeState {
    /// From a status. A field that cannot be read counts as absent: then nothing is known, and nothing old is sent.
    pub fn read(status: Option<&Value>) -> Self {
        status
            .and_then(|status| status.get("state"))
            .filter(|state| bounds::NOTICE_STATE.value(state).is_ok())
            .and_then(|s| serde_json::from_value(s.clone()).ok())
            .unwrap_or_default()
    }

    /// Enters the result of the templates of this generation for one message: the error, if one failed.
    pub fn note_templates(&mut self, generation: i64, error: Option<String>) {
        let count =
            self.templates.as_ref().filter(|known| known.generation == generation).map_or(0, |known| known.count);
        self.templates =
            error.map(|why| TemplateFailures { generation, count: count.saturating_add(1), why: cut(&why) });
    }

    /// Why the templates of this generation are left out, if they are.
    pub fn templates_left_out(&self, generation: i64) -> Option<&str> {
        let known = self.templates.as_ref().filter(|known| known.generation == generation)?;
        (known.count >= MAX_TEMPLATE_FAILURES).then_some(&*known.why)
    }

    /// Enters the state of a custom resource.
    pub fn look(&mut self, look: Look, turn: &Turn<'_>) {
        let Look { release, facts, created, is_first } = look;
        let before = self.releases.get(&release).cloned();
        if before.is_none() && facts.is_none() {
            return;
        }
        if before.is_none() && self.releases.len() >= MAX_RELEASES {
            return;
        }
        let after = facts.map(|facts| remembered(before.as_ref(), facts));
        let is_old = before.is_none() && (is_first || created < self.since);
        if !is_old {
            for change in changes(before.as_ref(), after.as_ref()) {
                self.enter(&release, change, turn);
            }
        }
        if let Some(after) = after {
            self.releases.insert(release, after);
        } else {
            self.forget(&release);
        }
    }

    /// Forgets a custom resource that the notice no longer covers. No message reports that.
    pub fn forget(&mut self, release: &str) {
        let of = format!("{release}|");
        self.incidents.retain(|key, _| !key.starts_with(&of));
        self.pending.retain(|key, _| !key.starts_with(&of));
        self.releases.remove(release);
    }

    fn enter(&mut self, release: &str, change: Change, turn: &Turn<'_>) {
        let key = format!("{release}|{}", change.subject);
        match change.course {
            Course::Once if turn.notice.wants(change.event) => self.say(release, change, None, 1, false, turn),
            Course::Once => {}
            Course::Ends => {
                self.pending.remove(&key);
                if let Some(incident) = self.incidents.remove(&key) {
                    let count = incident.more.max(1);
                    let change = Change { reason: incident.reason, ..change };
                    self.say(release, change, Some(incident.thread), count, false, turn);
                }
            }
            Course::Begins | Course::Flares | Course::Lingers if !turn.notice.wants(change.event) => {}
            Course::Lingers if self.incidents.contains_key(&key) || self.pending.len() >= MAX_INCIDENTS => {}
            Course::Lingers => {
                let pending = Pending { event: change.event, reason: cut(&change.reason), since: turn.now };
                self.pending.entry(key).or_insert(pending);
            }
            Course::Begins | Course::Flares => self.begin(release, &key, change, turn),
        }
    }

    fn begin(&mut self, release: &str, key: &str, change: Change, turn: &Turn<'_>) {
        let flares = change.course == Course::Flares;
        let known = self.incidents.get_mut(key);
        if let Some(incident) = known.filter(|known| flares && known.event == change.event) {
            incident.last = turn.now;
            // An open message counts it; if there is none, the next message counts it.
            let line = self.outbox.last_mut().filter(|entry| turn.now < entry.due).and_then(|entry| {
                entry
                    .lines
                    .iter_mut()
                    .find(|l| l.release == release && l.event == change.event && l.subject == change.subject)
            });
            match line {
                Some(line) => line.add(change.about, 1),
                None => incident.more += 1,
            }
            return;
        }
        let thread = self.incidents.get(key).map(|known| known.thread.clone());
        let (event, reason) = (change.event, change.reason.clone());
        self.say(release, change, thread.clone(), 1, false, turn);
        if self.incidents.len() >= MAX_INCIDENTS && thread.is_none() {
            return;
        }
        let thread = thread.or_else(|| self.outbox.last().map(|entry| entry.id.clone())).unwrap_or_default();
        let incident =
            Incident { thread, event, reason: cut(&reason), reported: turn.now, last: turn.now, more: 0, flares };
        self.incidents.insert(key.to_owned(), incident);
    }

    /// Reports what lasts by now, what lasts again, and that crashes have ended.
    pub fn remind(&mut self, turn: &Turn<'_>) {
        self.report_what_lingers(turn);
        let keys: Vec<String> = self.incidents.keys().cloned().collect();
        for key in keys {
            let Some((release, subject)) = key.split_once('|') else { continue };
            let Some(incident) = self.incidents.get(&key).cloned() else { continue };
            let change = |event| Change {
                event,
                subject: subject.to_owned(),
                reason: incident.reason.clone(),
                about: Vec::new(),
                course: Course::Once,
            };
            if incident.flares && turn.now >= incident.last + turn.times.quiet {
                self.incidents.remove(&key);
                self.say(
                    release,
                    change(NoticeEvent::Recovered),
                    Some(incident.thread),
                    incident.more.max(1),
                    false,
                    turn,
                );
            } else if turn.notice.repeat > 0 && turn.now >= incident.reported + turn.notice.repeat {
                self.say(release, change(incident.event), Some(incident.thread), incident.more.max(1), true, turn);
                if let Some(incident) = self.incidents.get_mut(&key) {
                    (incident.reported, incident.more) = (turn.now, 0);
                }
            }
        }
        if self.left_out > 0 && self.outbox.len() < MAX_MESSAGES {
            let more = std::mem::take(&mut self.left_out);
            if let Some(entry) = self.open(turn) {
                entry.more += more;
            }
        }
    }

    fn report_what_lingers(&mut self, turn: &Turn<'_>) {
        let lasts = |pending: &Pending| turn.now >= pending.since + turn.times.linger;
        let keys: Vec<String> =
            self.pending.iter().filter(|(_, pending)| lasts(pending)).map(|(key, _)| key.clone()).collect();
        for key in keys {
            let (Some((release, subject)), Some(pending)) = (key.split_once('|'), self.pending.remove(&key)) else {
                continue;
            };
            let Pending { event, reason, .. } = pending;
            // The notice may be about other events by now.
            if turn.notice.wants(event) {
                let subject = subject.to_owned();
                let change = Change { event, subject, reason, about: Vec::new(), course: Course::Begins };
                self.begin(release, &key, change, turn);
            }
        }
    }

    /// Puts a line into the message that takes changes now.
    fn say(&mut self, release: &str, change: Change, thread: Option<String>, count: u64, still: bool, turn: &Turn<'_>) {
        let Some(entry) = self.open(turn) else {
            self.left_out += count;
            return;
        };
        let Change { event, subject, reason, about, .. } = change;
        let reason = cut(&reason);
        let same =
            |l: &&mut Line| l.release == release && l.event == event && l.subject == subject && l.reason == reason;
        if let Some(line) = entry.lines.iter_mut().find(same) {
            line.add(about, count);
            return;
        }
        if entry.lines.len() >= MAX_LINES {
            entry.more += count;
            return;
        }
        let thread = thread.filter(|thread| *thread != entry.id);
        let mut line = Line {
            release: cut(release),
            event,
            subject: cut(&subject),
            reason,
            about: Vec::new(),
            count: 0,
            still,
            thread,
            at: turn.now,
        };
        line.add(about, count);
        entry.lines.push(line);
    }

    /// The message that takes changes now; `None` if too many wait.
    fn open(&mut self, turn: &Turn<'_>) -> Option<&mut Entry> {
        let is_open = self.outbox.last().is_some_and(|entry| turn.now < entry.due);
        if !is_open {
            if self.outbox.len() >= MAX_MESSAGES {
                return None;
            }
            self.recent.retain(|due| *due > turn.now - HOUR);
            // The last message of an hour waits until the first is an hour old, and takes all events that happen
            // meanwhile.
            let first = self.recent.len().checked_sub(turn.notice.cap).map(|at| self.recent[at] + HOUR);
            let due = first.unwrap_or(0).max(turn.now + turn.notice.window);
            self.recent.push(due);
            let id = format!("{}.{}.{}", turn.now, self.next, turn.uid);
            self.next += 1;
            self.outbox.push(Entry { id, due, lines: Vec::new(), more: 0 });
        }
        self.outbox.last_mut()
    }

    /// The messages that are to be sent.
    pub fn due(&self, now: i64) -> impl Iterator<Item = &Entry> {
        self.outbox.iter().filter(move |entry| entry.due <= now)
    }

    /// Removes a message that was taken.
    pub fn strike(&mut self, id: &str) -> bool {
        let before = self.outbox.len();
        self.outbox.retain(|entry| entry.id != id);
        self.outbox.len() < before
    }

    /// When something happens without a change: a message is due, or something is reported again.
    pub fn wakes(&self, notice: &Notice, times: Times) -> Option<i64> {
        let of = |incident: &Incident| {
            let repeats = (notice.repeat > 0).then_some(incident.reported + notice.repeat);
            let ends = incident.flares.then_some(incident.last + times.quiet);
            repeats.into_iter().chain(ends).min()
        };
        let pending = self.pending.values().map(|pending| pending.since + times.linger);
        self.outbox.iter().map(|entry| entry.due).chain(self.incidents.values().filter_map(of)).chain(pending).min()
    }
}

impl Line {
    fn add(&mut self, about: Vec<String>, count: u64) {
        self.count += count;
        for name in about {
            if self.about.len() < MAX_ABOUT && !self.about.contains(&name) {
                self.about.push(cut(&name));
            }
        }
    }
}

impl Entry {
    /// How many changes it counts.
    pub fn count(&self) -> u64 {
        self.lines.iter().map(|line| line.count).sum::<u64>() + self.more
    }

    /// The messages that it belongs to.
    pub fn references(&self) -> Vec<&str> {
        let mut all = Vec::new();
        for thread in self.lines.iter().filter_map(|line| line.thread.as_deref()) {
            if !all.contains(&thread) && all.len() < MAX_REFERENCES {
                all.push(thread);
            }
        }
        all
    }
}

fn cut(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;

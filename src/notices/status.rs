//! The status of a notice.

use serde_json::{Map, Value, json};

use super::state::NoticeState;
use crate::object::conditions::{Conditions, ConditionsWriter};

/// Bytes of a message of the condition.
const MAX: usize = 500;

/// Why a notice is ready or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeReason {
    /// The last message was taken, or none was sent yet.
    Watching,
    /// The spec is wrong; nothing is sent.
    InvalidSpec,
    /// More custom resources or pods match than a notice follows.
    TooMany,
    /// The target does not take messages. They wait.
    SendFailed,
    /// The notices of the namespace, or all of them, have written to as many people as they can in an hour. Messages wait.
    Limited,
    /// A template failed for three messages in a row. Messages have the default text until the spec changes.
    TemplateFailed,
}

impl NoticeReason {
    /// The word of the condition.
    pub fn word(self) -> &'static str {
        match self {
            Self::Watching => "Watching",
            Self::InvalidSpec => "InvalidSpec",
            Self::TooMany => "TooMany",
            Self::SendFailed => "SendFailed",
            Self::Limited => "Limited",
            Self::TemplateFailed => "TemplateFailed",
        }
    }
}

/// The state of a notice.
#[derive(Clone, Debug)]
pub struct NoticeReport<'r> {
    pub generation: i64,
    /// Now, RFC 3339.
    pub now: &'r str,
    /// Why it is ready or not.
    pub reason: NoticeReason,
    /// In sentences.
    pub message: &'r str,
    /// Its data.
    pub state: &'r NoticeState,
    /// Messages that were taken since the last status.
    pub sent: u64,
}

/// The new status. The message of a condition that stays is kept: servers put numbers into their answers, which would be news each time.
pub fn status(old: &Map<String, Value>, report: &NoticeReport<'_>) -> Map<String, Value> {
    let mut status = old.clone();
    let same = Conditions::of(old).get("Ready").filter(|before| {
        let fails = before.is_false() && report.reason == NoticeReason::SendFailed;
        fails && before.reason() == report.reason.word()
    });
    let message = same.map_or_else(|| bound(report.message), |before| before.message().to_owned());
    let mut conditions = ConditionsWriter::new(old, report.generation, report.now);
    conditions.set("Ready", report.reason == NoticeReason::Watching, report.reason.word(), &message);
    conditions.write(&mut status);
    status.insert("observedGeneration".into(), report.generation.into());
    let sent = old.get("sent").and_then(Value::as_u64).unwrap_or(0).saturating_add(report.sent);
    status.insert("sent".into(), sent.into());
    status.insert("waiting".into(), report.state.outbox.len().into());
    status.insert("state".into(), json!(report.state));
    status
}

/// A text of others for a status: without control characters, and short.
pub fn bound(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let end = (0..=MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::{NoticeReason, NoticeReport, bound, status};
    use crate::notices::state::NoticeState;
    use serde_json::{Map, json};

    #[test]
    fn an_answer_with_a_number_in_it_is_no_news() {
        let state = NoticeState::default();
        let report =
            |now, reason, message, sent| NoticeReport { generation: 1, now, reason, message, state: &state, sent };
        let first = status(&Map::new(), &report("a", NoticeReason::SendFailed, "try 1", 0));
        assert_eq!(status(&first, &report("b", NoticeReason::SendFailed, "try 2", 0)), first);
        let after = status(&first, &report("c", NoticeReason::Watching, "", 3));
        assert_eq!((&after["sent"], &after["conditions"][0]["lastTransitionTime"]), (&json!(3), &json!("c")));
        assert_eq!(bound("a\r\nb"), "a  b");
    }
}

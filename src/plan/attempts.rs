//! Attempts: how often a failed change is tried again, and when. The status of the custom resource counts them, so
//! that a restart of the operator does not start over (docs/design/applying.md A3).

use std::time::Duration;

use serde_json::{Map, Value, json};

/// Attempts at the same inputs that may fail before the release is stalled. With the pauses between them, about ten seconds.
pub const MAX_ATTEMPTS: u64 = 5;
/// The first pause after a failure; it doubles up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(300);
/// The version that tried.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Whether a failure is tried again although nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Never: only a change of the inputs can help.
    Never,
    /// As often as [`MAX_ATTEMPTS`] says: the API server or a hook refused the release.
    Bounded,
    /// Without end, with growing pauses: the missing thing is outside the release, such as a right or a kind.
    Always,
}

/// The pause after so many failures in a row: 0.5 s, 1 s, 2 s … 5 min.
pub fn pause(failures: u64) -> Duration {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    FIRST_PAUSE.saturating_mul(1 << doublings).min(LAST_PAUSE)
}

/// `status.lastAttempted`, as far as it is about an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// How many failed.
    pub failed: u64,
    /// Nothing is tried again.
    pub spent: bool,
    /// The next one is not made before this time, in milliseconds since 1970.
    pub not_before: i64,
}

/// The attempts for a digest. None if the last attempt was for another digest, or by another version of the operator.
pub fn read(status: &Map<String, Value>, digest: &str) -> Attempts {
    let Some(last) = status.get("lastAttempted") else { return Attempts::default() };
    let text = |key: &str| last.get(key).and_then(Value::as_str).unwrap_or_default();
    // Another version may be able to do what this one could not.
    if text("digest") != digest || text("version") != VERSION {
        return Attempts::default();
    }
    let failed = last.get("attempts").and_then(Value::as_u64).unwrap_or_default();
    let at = text("at").parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_millisecond);
    Attempts {
        failed,
        spent: last.get("terminal") == Some(&Value::Bool(true)),
        not_before: at.saturating_add(i64::try_from(pause(failed).as_millis()).unwrap_or(0)),
    }
}

/// Why the last attempt failed.
pub fn reason(status: &Map<String, Value>) -> Option<&str> {
    status.get("lastAttempted")?.get("reason")?.as_str()
}

/// The digest of the chart with which the last attempt failed.
pub fn chart(status: &Map<String, Value>) -> Option<&str> {
    status.get("lastAttempted")?.get("chart")?.as_str()
}

/// `status.lastAttempted` after one more failure, with this chart.
pub fn failed(
    status: &Map<String, Value>,
    digest: &str,
    chart: Option<&str>,
    reason: &str,
    retry: Retry,
    now: &str,
) -> Value {
    let attempts = read(status, digest).failed.saturating_add(1);
    let mut last = json!({"digest": digest, "attempts": attempts, "reason": reason, "at": now,
        "terminal": is_last(retry, attempts), "version": VERSION});
    if let Some(chart) = chart {
        last["chart"] = chart.into();
    }
    last
}

/// Whether so many failures end the attempts.
pub fn is_last(retry: Retry, failed: u64) -> bool {
    match retry {
        Retry::Never => true,
        Retry::Bounded => failed >= MAX_ATTEMPTS,
        Retry::Always => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Attempts, MAX_ATTEMPTS, Retry, failed, pause, read};
    use serde_json::{Map, Value, json};
    use std::time::Duration;

    fn status(last: &Value) -> Map<String, Value> {
        json!({"lastAttempted": last}).as_object().unwrap().clone()
    }

    #[test]
    fn attempts_at_the_same_inputs_add_up_until_they_are_spent() {
        let mut last = Value::Null;
        for attempt in 1..=MAX_ATTEMPTS {
            assert!(!read(&status(&last), "d").spent, "{attempt}");
            last = failed(&status(&last), "d", None, "Invalid", Retry::Bounded, "1970-01-01T00:00:10Z");
            assert_eq!(last["attempts"], attempt);
        }
        assert!(read(&status(&last), "d").spent);
        assert_eq!(read(&status(&last), "other"), Attempts::default());
        last["version"] = "0".into();
        assert_eq!(read(&status(&last), "d"), Attempts::default());
    }

    #[test]
    fn what_cannot_work_is_spent_at_once_and_what_is_outside_never() {
        let none = Map::new();
        assert_eq!(failed(&none, "d", None, "RenderError", Retry::Never, "")["terminal"], true);
        let mut last = Value::Null;
        for _ in 0..50 {
            last = failed(&status(&last), "d", None, "Forbidden", Retry::Always, "1970-01-01T00:00:10Z");
        }
        let attempts = read(&status(&last), "d");
        assert_eq!((attempts.failed, attempts.spent, attempts.not_before), (50, false, 310_000));
    }

    #[test]
    fn pauses_grow_and_are_bounded() {
        assert_eq!(pause(1), Duration::from_millis(500));
        assert_eq!(pause(3), Duration::from_secs(2));
        assert_eq!(pause(60), Duration::from_secs(300));
    }
}

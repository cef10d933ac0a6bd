//! The requests of clients and their answers. A line of JSON for each operation:
//!
//! ```json
//! {"client":0,"call":12,"return":15,"operation":"put","key":"a","value":"0-1","outcome":"ok"}
//! {"client":1,"call":13,"return":16,"operation":"get","key":"a","outcome":"ok","found":null}
//! {"client":0,"call":17,"return":19,"operation":"compare-and-swap","key":"a","expected":"0-1","value":"0-2","outcome":"unknown","why":"…"}
//! ```
//!
//! Times are nanoseconds since the clients started. No two writes have the same value, so that a value identifies its writer.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

/// An operation of a client, and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    pub client: u32,
    /// When it was asked.
    pub call: u64,
    /// When it was answered or given up.
    #[serde(rename = "return")]
    pub returned: u64,
    /// The request.
    #[serde(flatten)]
    pub operation: ClientCall,
    /// The answer.
    #[serde(flatten)]
    pub outcome: CallOutcome,
}

/// The requests about a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "operation", rename_all = "kebab-case")]
pub enum ClientCall {
    /// To have this value.
    Put { key: String, value: String },
    /// Which value it has.
    Get { key: String },
    /// To have this value if it has the other one.
    CompareAndSwap {
        key: String,
        /// The value that it must have; None: it must not be there.
        expected: Option<String>,
        value: String,
    },
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum CallOutcome {
    /// It was done.
    Ok(KeyAnswer),
    /// It was not done, and never will be.
    Failed {
        /// Why.
        why: String,
    },
    /// It may have been done, or may be done later.
    Unknown {
        /// Why that is not known.
        why: String,
    },
}

/// The state of a key in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum KeyAnswer {
    /// Of a put.
    Written {},
    /// Of a get.
    Read {
        /// The value.
        found: Option<String>,
    },
    /// Of a compare-and-swap.
    Compared {
        /// Whether it has the new value.
        swapped: bool,
        /// The value that was found instead of the expected one.
        found: Option<String>,
    },
}

impl ClientCall {
    pub fn key(&self) -> &str {
        match self {
            Self::Put { key, .. } | Self::Get { key } | Self::CompareAndSwap { key, .. } => key,
        }
    }

    fn writes(&self) -> bool {
        !matches!(self, Self::Get { .. })
    }
}

/// Writes a history.
pub fn write(entries: &[Entry], mut to: impl Write) -> io::Result<()> {
    for entry in entries {
        serde_json::to_writer(&mut to, entry)?;
        to.write_all(b"\n")?;
    }
    to.flush()
}

/// How writes fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Availability {
    /// How many were acknowledged.
    pub acknowledged: usize,
    /// How many certainly were not done.
    pub failed: usize,
    /// Of how many the outcome is not known.
    pub unknown: usize,
    /// The longest time without an acknowledgement.
    pub longest_gap: Duration,
}

/// Statistics of the writes that returned in a period, in nanoseconds. A gap that reaches into the period counts in full.
pub fn availability(entries: &[Entry], from: u64, to: u64) -> Availability {
    let mut result = Availability::default();
    let mut acknowledged = BTreeSet::new();
    for entry in entries.iter().filter(|entry| entry.operation.writes()) {
        let counter = match entry.outcome {
            CallOutcome::Ok(_) => {
                acknowledged.insert(entry.returned);
                &mut result.acknowledged
            }
            CallOutcome::Failed { .. } => &mut result.failed,
            CallOutcome::Unknown { .. } => &mut result.unknown,
        };
        *counter += usize::from((from..=to).contains(&entry.returned));
    }
    let before = acknowledged.range(..=from).next_back().copied().unwrap_or(0);
    let after = acknowledged.range(to..).next().copied().unwrap_or(to);
    let times = acknowledged.range(from..=to).copied().chain([after]);
    let gaps = times.scan(before, |last, time| {
        let gap = time.saturating_sub(*last);
        *last = time;
        Some(gap)
    });
    result.longest_gap = Duration::from_nanos(gaps.max().unwrap_or(0));
    result
}

/// Keys that were written once and acknowledged, and whose last answer has another value.
pub fn lost(entries: &[Entry], is_unique: impl Fn(&str) -> bool) -> Vec<String> {
    let mut acknowledged = std::collections::BTreeMap::new();
    let mut found = std::collections::BTreeMap::new();
    for entry in entries.iter().filter(|entry| is_unique(entry.operation.key())) {
        match (&entry.operation, &entry.outcome) {
            (ClientCall::Put { key, value }, CallOutcome::Ok(_)) => drop(acknowledged.insert(key, value)),
            (ClientCall::Get { key }, CallOutcome::Ok(KeyAnswer::Read { found: value })) => {
                found.insert(key, value);
            }
            _ => {}
        }
    }
    let kept = |key: &String, value: &String| found.get(key).is_some_and(|found| found.as_ref() == Some(value));
    acknowledged.into_iter().filter(|(key, value)| !kept(key, value)).map(|(key, _)| key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Availability, CallOutcome, ClientCall, Entry, KeyAnswer, availability, lost, write};
    use std::time::Duration;

    fn put(client: u32, call: u64, returned: u64, key: &str, outcome: CallOutcome) -> Entry {
        let operation = ClientCall::Put { key: key.into(), value: format!("{client}-{call}") };
        Entry { client, call, returned, operation, outcome }
    }

    fn ok() -> CallOutcome {
        CallOutcome::Ok(KeyAnswer::Written {})
    }

    fn unknown() -> CallOutcome {
        CallOutcome::Unknown { why: "no answer".into() }
    }

    #[test]
    fn a_line_says_what_was_asked_and_what_was_answered() {
        let get = ClientCall::Get { key: "a".into() };
        let swap = ClientCall::CompareAndSwap { key: "a".into(), expected: Some("0-1".into()), value: "1-4".into() };
        let compared = KeyAnswer::Compared { swapped: false, found: Some("0-2".into()) };
        let of = |operation, outcome| Entry { client: 1, call: 4, returned: 5, operation, outcome };
        let entries = [
            put(0, 1, 2, "a", ok()),
            put(0, 3, 4, "a", unknown()),
            of(get, CallOutcome::Ok(KeyAnswer::Read { found: None })),
            of(swap, CallOutcome::Ok(compared)),
        ];
        let mut text = Vec::new();
        write(&entries, &mut text).unwrap();
        let expected = concat!(
            r#"{"client":0,"call":1,"return":2,"operation":"put","key":"a","value":"0-1","outcome":"ok"}"#,
            "\n",
            r#"{"client":0,"call":3,"return":4,"operation":"put","key":"a","value":"0-3","outcome":"unknown","why":"no answer"}"#,
            "\n",
            r#"{"client":1,"call":4,"return":5,"operation":"get","key":"a","outcome":"ok","found":null}"#,
            "\n",
            r#"{"client":1,"call":4,"return":5,"operation":"compare-and-swap","key":"a","expected":"0-1","value":"1-4","outcome":"ok","swapped":false,"found":"0-2"}"#,
            "\n",
        );
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn a_gap_counts_for_every_time_that_it_reaches_into() {
        let entries = [
            put(0, 1, 10, "a", ok()),
            put(0, 11, 20, "b", ok()),
            put(1, 12, 60, "c", unknown()),
            put(0, 21, 100, "d", ok()),
            put(0, 101, 110, "e", CallOutcome::Failed { why: "refused".into() }),
            put(0, 111, 120, "f", ok()),
        ];
        let of = |acknowledged, failed, unknown, gap| Availability {
            acknowledged,
            failed,
            unknown,
            longest_gap: Duration::from_nanos(gap),
        };
        assert_eq!(availability(&entries, 0, 120), of(4, 1, 1, 80));
        assert_eq!(availability(&entries, 30, 50), of(0, 0, 0, 80), "it is in the middle of one");
        assert_eq!(availability(&entries, 90, 115), of(1, 1, 0, 80), "it begins within one");
        assert_eq!(availability(&entries, 105, 115), of(0, 1, 0, 20));
        assert_eq!(availability(&entries, 110, 300), of(1, 1, 0, 180), "the last never ended");
        assert_eq!(availability(&[], 0, 50), of(0, 0, 0, 50));
    }

    #[test]
    fn an_acknowledged_write_is_lost_unless_the_last_answer_has_it() {
        let get = |key: &str, found: Option<&str>| Entry {
            client: 9,
            call: 50,
            returned: 51,
            operation: ClientCall::Get { key: key.into() },
            outcome: CallOutcome::Ok(KeyAnswer::Read { found: found.map(Into::into) }),
        };
        let entries = [
            put(0, 1, 2, "u/kept", ok()),
            put(0, 3, 4, "u/gone", ok()),
            put(0, 5, 6, "u/other", ok()),
            put(0, 7, 8, "u/unread", ok()),
            put(0, 9, 10, "u/unknown", unknown()),
            put(0, 11, 12, "shared", ok()),
            get("u/kept", Some("0-1")),
            get("u/gone", None),
            get("u/other", Some("1-1")),
            get("u/unknown", None),
        ];
        assert_eq!(lost(&entries, |key| key.starts_with("u/")), ["u/gone", "u/other", "u/unread"]);
    }
}

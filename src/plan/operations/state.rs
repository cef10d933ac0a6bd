//! The facts about operations that only the status of the custom resource keeps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::document::Schedule;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredOperations {
    /// `status.operation`: the one that runs.
    pub running: Option<Running>,
    /// `status.operations`: how each went.
    pub operations: BTreeMap<String, Last>,
    /// `status.lastHandledOperation`: the request that is done. It is forgotten when the annotation is taken away.
    pub handled: Option<String>,
}

/// The operation that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Running {
    pub name: String,
    /// The annotation that requested it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Or when it was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_time: Option<String>,
    /// When it began.
    pub start_time: String,
    /// How many of its objects have done their work.
    #[serde(skip_serializing_if = "is_zero")]
    pub done: u32,
    /// How often the present one said "not yet".
    #[serde(skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// When its first attempt was made, in seconds since 1970: the timeout counts from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_attempt: Option<i64>,
    /// When it is checked again, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<i64>,
    /// It is over, and its leftovers are deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// Well or not.
    pub result: OperationResult,
    /// Why not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Well or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationResult {
    /// All its objects did their work.
    Succeeded,
    /// One did not.
    Failed,
    /// One refused for now (exit code 64).
    Refused,
}

/// How an operation went last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Last {
    /// The schedule, as it was when it was seen.
    #[serde(flatten)]
    pub schedule: Option<Schedule>,
    /// When this schedule was first seen: runs that were due before are not made up for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_since: Option<String>,
    /// When it was due last and began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<String>,
    /// The annotation that requested the last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// When the last run began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    /// When it was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<String>,
    /// How it came out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<OperationResult>,
    /// Why not well; or the last words of its last object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Fields of the status.
pub const RUNNING: &str = "operation";
/// See [`RUNNING`].
pub const OPERATIONS: &str = "operations";
/// See [`RUNNING`].
pub const HANDLED: &str = "lastHandledOperation";

impl StoredOperations {
    /// From the status. A field that cannot be read counts as absent.
    pub fn read(status: &Map<String, Value>) -> Self {
        let field = |name: &str| status.get(name).cloned();
        let operations = field(OPERATIONS).and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default();
        let running = field(RUNNING).and_then(|value| serde_json::from_value(value).ok());
        Self { running, operations, handled: field(HANDLED).and_then(|value| value.as_str().map(str::to_owned)) }
    }

    /// Into the status.
    pub fn write(&self, status: &mut Map<String, Value>) {
        let running = self.running.as_ref().and_then(|running| serde_json::to_value(running).ok());
        let operations =
            (!self.operations.is_empty()).then(|| serde_json::to_value(&self.operations).unwrap_or_default());
        let handled = self.handled.as_deref().map(Value::from);
        for (field, value) in [(RUNNING, running), (OPERATIONS, operations), (HANDLED, handled)] {
            match value {
                Some(value) => status.insert(field.to_owned(), value),
                None => status.remove(field),
            };
        }
    }
}

/// A time as the status has it.
pub fn time(at: i64) -> String {
    jiff::Timestamp::from_second(at).map(|at| at.to_string()).unwrap_or_default()
}

/// A time of the status in seconds since 1970.
pub fn seconds(time: &str) -> Option<i64> {
    time.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second)
}

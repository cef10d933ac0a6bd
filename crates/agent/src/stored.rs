//! The facts that are kept with a copy of the data, and given to the program that restores it. The program that stores
//! copies knows no database: it keeps the headers of the answer, and the agent that restores gets them back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::position::Position;

/// The prefix of the headers that belong to a copy or to a log.
pub const PREFIX: &str = "tillerman-";
/// The header with the identity of the data.
pub const DATA: &str = "tillerman-data";
/// The header with the version of the database.
pub const VERSION: &str = "tillerman-version";
/// The header of a log with the writes in it.
pub const WRITES: &str = "tillerman-writes";
/// The header of a log with the lowest and the highest time of its writes, in seconds since 1970: `FIRST-LAST`.
pub const TIMES: &str = "tillerman-times";
/// The header of a description with the writes that a copy has at least. The program that stores copies adds it.
pub const HAS: &str = "tillerman-has";
/// The header of a description with a time as in RFC 3339: every write that was acknowledged before is in the copy and its logs. The
/// program that stores copies adds it, unless the restore ends earlier.
pub const SEEN: &str = "tillerman-seen";
/// The largest description that is read, in bytes.
pub const LIMIT: u64 = 4 << 20;

/// How a copy was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// The files of the database: `GET /v1/copy`.
    #[default]
    Physical,
    /// Statements that make the data again: `GET /v1/dump`.
    Logical,
}

impl Form {
    /// The path of a request to an agent.
    pub fn path(self) -> &'static str {
        match self {
            Self::Physical => super::contract::COPY,
            Self::Logical => super::contract::DUMP,
        }
    }
}

/// Up to where the writes after a copy are restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Until {
    /// Everything that was stored.
    End,
    /// Before the first that began after this time, in seconds since 1970.
    Time(i64),
    /// Up to this one, with it: one write of one stream.
    Write(Position),
}

/// The description of a copy that an agent restores: a file that is complete before the first byte of the copy comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Description {
    /// The name of the copy.
    pub name: String,
    /// How it was made.
    pub form: Form,
    /// The headers of the answer that it was.
    pub headers: BTreeMap<String, String>,
    /// The files of the logs in the folder of logs, in their order. They are complete, too.
    pub logs: Vec<String>,
    /// How much of the logs is restored; nothing without it.
    pub until: Option<Until>,
}

impl Description {
    /// A header; `None` if the copy does not have it.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

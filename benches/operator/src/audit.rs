//! The requests of the operator to the API server, from its audit log: each of them, and exactly.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;

use crate::api::Error;

/// The user as whom operators run.
const USER: &str = "tillerman-operator";

/// A request.
#[derive(Clone)]
pub struct AuditedRequest {
    /// When the API server received it.
    pub at: Timestamp,
    pub verb: String,
    /// The resource, with its subresource; or the path, where there is none.
    pub target: String,
}

impl AuditedRequest {
    pub fn is_watch(&self) -> bool {
        self.verb == "watch"
    }

    /// Whether it may have changed something.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    stage: String,
    verb: String,
    user: User,
    request_received_timestamp: Timestamp,
    #[serde(rename = "requestURI")]
    uri: String,
    object_ref: Option<ObjectRef>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize)]
struct ObjectRef {
    resource: Option<String>,
    subresource: Option<String>,
}

/// A reader of the log, from where it ended.
pub struct Audit {
    file: File,
    /// A line of which the end is not written yet.
    rest: Vec<u8>,
}

impl Audit {
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut audit = Self { file: File::open(path)?, rest: Vec::new() };
        audit.read()?;
        Ok(audit)
    }

    /// The requests since the last time; a watch counts once, when it starts.
    pub fn read(&mut self) -> Result<Vec<AuditedRequest>, Error> {
        let mut text = std::mem::take(&mut self.rest);
        self.file.read_to_end(&mut text)?;
        let end = text.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        self.rest = text.split_off(end);
        Ok(String::from_utf8_lossy(&text).lines().filter_map(request).collect())
    }
}

fn request(line: &str) -> Option<AuditedRequest> {
    let entry: Entry = line.contains(USER).then(|| serde_json::from_str(line).ok())??;
    let stage = if entry.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
    if entry.user.username != USER || entry.stage != stage {
        return None;
    }
    let target = match entry.object_ref.and_then(|o| Some((o.resource?, o.subresource))) {
        Some((resource, Some(subresource))) => format!("{resource}/{subresource}"),
        Some((resource, None)) => resource,
        None => entry.uri.split('?').next().unwrap_or_default().to_owned(),
    };
    Some(AuditedRequest { at: entry.request_received_timestamp, verb: entry.verb, target })
}

//! The Secret around a record: its name, labels and annotations, written and read.
//!
//! Helm 4.3 writes the labels `name owner status version` and `createdAt` or `modifiedAt`
//! (`pkg/storage/driver/secrets.go`). A human's `helm upgrade` drops annotations and copies custom labels to its own
//! revision (docs/design/applying.md A2). So the owner of a release is a label, and the applied objects are in
//! annotations.

use crate::names;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::chunks::CHUNKS;
use super::inventory::Inventory;
use super::record::Status;
use crate::object::Gvk;

/// Type of a release Secret.
pub const TYPE: &str = "helm.sh/release.v1";
/// Selects release Secrets, and the [`chunks`](super::chunks) of records.
pub const SELECTOR: &str = "owner in (helm,tillerman)";
/// Label: uid of the custom resource that the release belongs to.
pub const OWNER_UID: &str = names::OWNER_UID;
/// Annotation: `Kind.group NAMESPACE/NAME` of that custom resource.
pub const OWNER: &str = names::OWNER;
/// Annotation: the inputs digest of the revision.
pub const INPUTS: &str = names::INPUTS;
/// Annotation: digest of the chart of the revision.
pub const CHART: &str = names::CHART;
/// Annotation: [`Inventory`] of the revision; present once it is deployed.
pub const INVENTORY: &str = names::INVENTORY;
/// Annotation: the kinds that the revision uses, one `GROUP/VERSION/KIND NAMESPACE` a line; present from the start, so that
/// a revision that a crash left half applied can be seen whole. Where the first record comes after its objects, a custom resource has
/// it from the start.
pub const KINDS: &str = names::KINDS;
/// Limit of the kinds that the annotation of a custom resource can name: anybody may have written it, and each kind is watched.
pub const MAX_KINDS: usize = 30;

/// Annotation: the stateful sets with members of the newest revision, as [`members::document`](crate::members::document) writes
/// them. Helm's record has nothing of them.
pub const MEMBERS: &str = names::RECORDED_MEMBERS;
/// Annotation: when the chart is to be rendered again though nothing has changed, in seconds since 1970.
pub const RENDER_AFTER: &str = names::RENDER_AFTER;
/// Annotation: the lookups of the chart, as [`Lookups`](super::lookups::Lookups) writes it.
pub const LOOKUPS: &str = names::LOOKUPS;
/// Annotation: the operations of the revision, as [`plan::operations`](crate::plan::operations) writes them. Helm's record has nothing of
/// them.
pub const OPERATIONS: &str = names::RECORDED_OPERATIONS;
/// Annotation: the fields of the status that the chart names, as [`status_fields`](super::status_fields) writes them. Helm's record has
/// nothing of them.
pub const STATUS: &str = names::RECORDED_STATUS;
/// Annotation: the revision that this one goes back to.
pub const ROLLBACK: &str = names::ROLLBACK_TO;

/// The highest revision number that is read: a user who can edit Secrets can write any number, and one more must follow
/// it.
const MAX_REVISION: u64 = i32::MAX as u64;
/// The latest time of a record that is read, the start of the year 9999: later times must remain.
const LAST_SECOND: i64 = 253_370_764_800;

/// A time of a record, in seconds since 1970.
fn seconds(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().map(|at| at.clamp(0, LAST_SECOND))
}

/// Name of the Secret of a revision.
pub fn name(release: &str, revision: u64) -> String {
    format!("sh.helm.release.v1.{release}.v{revision}")
}

/// The metadata of a release Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Revision number.
    pub revision: u64,
    pub status: Status,
    /// uid of the Secret.
    pub uid: Box<str>,
    /// resourceVersion of the Secret.
    pub resource_version: Box<str>,
    /// When the Secret was created, RFC 3339 by the API server's clock.
    pub created: Box<str>,
    /// When it was last written, seconds, by its writer's clock.
    pub at: i64,
    /// uid of the custom resource that it belongs to: our label, or else helm-operator's owner reference.
    pub owner_uid: Option<Box<str>>,
    /// `Kind.group NAMESPACE/NAME` of it.
    pub owner: Option<Box<str>>,
    /// The inputs digest; `None` when another client wrote the revision.
    pub inputs: Option<Box<str>>,
    /// Digest of the chart; `None` when another client wrote the revision.
    pub chart: Option<Box<str>>,
    /// The applied objects; `None` before that.
    pub inventory: Option<Inventory>,
    /// The revision that it goes back to, when it is a rollback of ours.
    pub rollback: Option<u64>,
    /// Digest and number of the [`chunks`](super::chunks) of its record.
    pub chunks: Option<Box<str>>,
    /// [`RENDER_AFTER`].
    pub render_after: Option<i64>,
    /// [`LOOKUPS`].
    pub lookups: Option<std::sync::Arc<str>>,
    /// [`MEMBERS`].
    pub members: Option<std::sync::Arc<str>>,
    /// [`OPERATIONS`].
    pub operations: Option<std::sync::Arc<str>>,
    /// [`STATUS`].
    pub status_fields: Option<std::sync::Arc<str>>,
    /// Kinds in use.
    pub kinds: Vec<(Gvk, Option<std::sync::Arc<str>>)>,
}

impl Revision {
    /// The resourceVersion of its Secret as a number, 0 when it is none; see [`Live`](crate::release::live::Live) for why it can be
    /// compared.
    pub fn version(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }

    /// The time has come to render the chart again.
    pub fn is_due(&self, now: i64) -> bool {
        self.render_after.is_some_and(|at| at <= now)
    }

    /// The kinds of which it may have objects.
    pub fn uses(&self) -> impl Iterator<Item = (&Gvk, Option<&std::sync::Arc<str>>)> {
        let listed = self.inventory.iter().flat_map(|i| i.0.keys().map(|id| (&id.gvk, id.namespace.as_ref())));
        listed.chain(self.kinds.iter().map(|(gvk, namespace)| (gvk, namespace.as_ref())))
    }

    /// Reads the `metadata` of a release Secret: the release's name and the revision.
    pub fn read(metadata: &Value) -> Option<(String, Self)> {
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default();
        let label = |name: &str| metadata.get("labels")?.get(name)?.as_str();
        let annotation = |name: &str| metadata.get("annotations")?.get(name)?.as_str();
        let reference = || metadata.get("ownerReferences")?.get(0)?.get("uid")?.as_str();
        let release = label("name")?.to_owned();
        let revision = Self {
            revision: label("version")?.parse().ok().filter(|revision| *revision <= MAX_REVISION)?,
            status: Status::parse(label("status")?),
            uid: text("uid").into(),
            resource_version: text("resourceVersion").into(),
            created: text("creationTimestamp").into(),
            at: label("modifiedAt").or_else(|| label("createdAt")).and_then(seconds).unwrap_or(0),
            owner_uid: label(OWNER_UID).or_else(reference).map(Into::into),
            owner: annotation(OWNER).map(Into::into),
            inputs: annotation(INPUTS).map(Into::into),
            chart: annotation(CHART).map(Into::into),
            inventory: annotation(INVENTORY).and_then(Inventory::decode),
            rollback: annotation(ROLLBACK).and_then(|n| n.parse().ok()),
            chunks: annotation(CHUNKS).map(Into::into),
            render_after: annotation(RENDER_AFTER).and_then(seconds),
            lookups: annotation(LOOKUPS).map(Into::into),
            members: annotation(MEMBERS).map(Into::into),
            operations: annotation(OPERATIONS).map(Into::into),
            status_fields: annotation(STATUS).map(Into::into),
            kinds: annotation(KINDS).map(decode_kinds).unwrap_or_default(),
        };
        Some((release, revision))
    }
}

/// The labels of a new release Secret.
pub fn labels(release: &str, revision: u64, status: Status, created: i64, owner_uid: &str) -> BTreeMap<String, String> {
    [
        ("name", release.to_owned()),
        ("owner", "helm".to_owned()),
        ("status", status.to_string()),
        ("version", revision.to_string()),
        ("createdAt", created.to_string()),
        (OWNER_UID, owner_uid.to_owned()),
    ]
    .into_iter()
    .map(|(k, v)| (k.to_owned(), v))
    .collect()
}

/// Writes [`KINDS`].
pub fn encode_kinds<'a>(kinds: impl IntoIterator<Item = &'a (Gvk, Option<std::sync::Arc<str>>)>) -> String {
    let mut text = String::new();
    for (gvk, namespace) in kinds {
        let namespace = namespace.as_deref().unwrap_or("-");
        let _ = writeln!(text, "{}/{}/{} {namespace}", gvk.group, gvk.version, gvk.kind);
    }
    text
}

/// Reads [`KINDS`]; invalid lines are ignored.
pub fn decode_kinds(text: &str) -> Vec<(Gvk, Option<std::sync::Arc<str>>)> {
    let line = |line: &str| {
        let (gvk, namespace) = line.split_once(' ')?;
        let mut parts = gvk.splitn(3, '/');
        let gvk = Gvk::new(parts.next()?, parts.next()?, parts.next()?);
        Some((gvk, (namespace != "-").then(|| namespace.into())))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::{INPUTS, INVENTORY, KINDS, Revision, encode_kinds, labels, name};
    use crate::object::Gvk;
    use crate::release::record::Status;
    use serde_json::json;

    #[test]
    fn the_metadata_that_is_written_is_read_back() {
        let kinds = [(Gvk::new("apps", "v1", "Deployment"), Some("ns".into())), (Gvk::new("", "v1", "Node"), None)];
        let metadata = json!({
            "labels": labels("web", 2, Status::Deployed, 1_700_000_000, "uid-1"),
            "annotations": {INPUTS: "abc", INVENTORY: "", KINDS: encode_kinds(&kinds)},
        });
        let (release, revision) = Revision::read(&metadata).unwrap();
        assert_eq!((release.as_str(), revision.revision, revision.status), ("web", 2, Status::Deployed));
        assert_eq!((revision.inputs.as_deref(), revision.owner_uid.as_deref()), (Some("abc"), Some("uid-1")));
        assert_eq!(revision.kinds, kinds);
        assert_eq!(name("web", 2), "sh.helm.release.v1.web.v2");
    }

    #[test]
    fn numbers_and_times_of_a_record_are_such_that_they_can_be_added_to() {
        let read = |version: &str, at: &str| {
            let labels = json!({"name": "web", "status": "deployed", "version": version, "createdAt": at});
            Revision::read(&json!({"labels": labels, "annotations": {super::RENDER_AFTER: at}})).map(|(_, read)| read)
        };
        assert!(read(&u64::MAX.to_string(), "0").is_none());
        for at in [i64::MAX, i64::MIN] {
            let read = read("1", &at.to_string()).unwrap();
            for at in [read.at, read.render_after.unwrap()] {
                assert!(jiff::Timestamp::from_second(at).is_ok(), "{at}");
            }
        }
    }

    #[test]
    fn a_revision_that_a_human_wrote_has_no_inputs() {
        let labels = json!({"name": "web", "owner": "helm", "status": "deployed", "version": "3"});
        let (_, revision) = Revision::read(&json!({"labels": labels})).unwrap();
        assert_eq!((revision.inputs, revision.inventory, revision.owner_uid), (None, None, None));
    }
}

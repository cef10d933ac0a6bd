//! One revision of a release as Helm 4.3 stores it: JSON, gzip, base64 (`pkg/storage/driver/util.go`).
//!
//! Codes in names are rules of docs/design/applying.md.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::chunks::is_large;
use super::packed::{UnzipError, unzip};
use crate::bounds::{self, Bounds, Measure};
use crate::chart::{Chart, File};
use crate::harm;
use crate::object::{Object, parse_manifest};
use crate::render::{Hook, Rendered};

/// Kubernetes stores no Secret with more than 1 MiB of data; the labels and annotations need some room too.
pub(super) const MAX_ENCODED: usize = 1_000_000;

/// The status of a revision (`pkg/release/common/status.go`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are Helm's")]
pub enum Status {
    Unknown,
    Deployed,
    Uninstalled,
    Superseded,
    Failed,
    Uninstalling,
    PendingInstall,
    PendingUpgrade,
    PendingRollback,
}

impl Status {
    /// Helm's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Deployed => "deployed",
            Self::Uninstalled => "uninstalled",
            Self::Superseded => "superseded",
            Self::Failed => "failed",
            Self::Uninstalling => "uninstalling",
            Self::PendingInstall => "pending-install",
            Self::PendingUpgrade => "pending-upgrade",
            Self::PendingRollback => "pending-rollback",
        }
    }
    /// From Helm's word.
    pub fn parse(text: &str) -> Self {
        match text {
            "deployed" => Self::Deployed,
            "uninstalled" => Self::Uninstalled,
            "superseded" => Self::Superseded,
            "failed" => Self::Failed,
            "uninstalling" => Self::Uninstalling,
            "pending-install" => Self::PendingInstall,
            "pending-upgrade" => Self::PendingUpgrade,
            "pending-rollback" => Self::PendingRollback,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The phase of a hook (`pkg/release/v1/hook.go`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[expect(missing_docs, reason = "the names are Helm's")]
pub enum Phase {
    /// It has not run.
    #[default]
    #[serde(rename = "")]
    None,
    Running,
    Succeeded,
    Failed,
    #[serde(other)]
    Unknown,
}

/// The last run of a hook. Helm does not know `event` and ignores it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct LastRun {
    /// RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    pub phase: Phase,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
}

/// A hook of a record. Fields that Helm leaves out are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub struct HookRecord {
    /// Name of its object.
    pub name: String,
    /// The template that made it.
    pub path: String,
    /// The object as YAML.
    pub manifest: String,
    /// Helm's events, such as `pre-install`.
    pub events: Vec<String>,
    /// The order within an event.
    pub weight: i64,
    /// Helm's delete policies.
    pub delete_policies: Vec<String>,
    /// The last run.
    pub last_run: LastRun,
}

impl HookRecord {
    /// Its object. The manifest can come from another client, so it is read within limits.
    ///
    /// # Errors
    /// It is not an object, or over a limit.
    pub fn object(&self) -> Result<Option<Object>, String> {
        bounds::HOOK.within(self.manifest.as_bytes(), || Object::parse(&self.manifest))
    }
}

/// The hooks of the chart that was just rendered, as its record will have them.
pub fn hooks_of(rendered: &Rendered) -> Vec<HookRecord> {
    let read = |hook: &Hook| serde_json::from_value(hook_json(hook)).unwrap_or_default();
    rendered.hooks.iter().map(read).collect()
}

/// Why a record could not be read or written.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RecordError {
    /// The Secret holds something else.
    #[error("the release record is corrupted: {0}")]
    Corrupted(&'static str),
    /// It is larger than a record that a release of a chart has.
    #[error("the release record is over a limit: {0}")]
    OverLimit(String),
    /// It does not fit into a Secret.
    #[error("the release record takes {0} bytes: the chart with its values and manifest is too large")]
    TooLarge(usize),
}

impl RecordError {
    /// Whether the record that was read is data that cannot be used. A record can be made again from the live objects.
    pub fn is_unusable(&self) -> bool {
        matches!(self, Self::Corrupted(_) | Self::OverLimit(_))
    }
}

/// The parts of a new revision.
#[derive(Clone, Copy, Debug)]
pub struct New<'a> {
    /// Name of the release.
    pub name: &'a str,
    /// Namespace of the release.
    pub namespace: &'a str,
    /// Revision.
    pub revision: u64,
    /// Its first status.
    pub status: Status,
    /// A sentence for `helm history`.
    pub description: &'a str,
    /// When the release was first deployed, RFC 3339.
    pub first_deployed: &'a str,
    /// Now, RFC 3339.
    pub now: &'a str,
    /// [`chart_json`] of the chart.
    pub chart: &'a RawValue,
    /// The user's values.
    pub config: &'a Map<String, Value>,
    /// The rendered objects of the chart.
    pub rendered: &'a Rendered,
}

/// A revision. Fields that Tillerman does not know are kept as they are.
#[derive(Clone, Debug)]
pub struct Record {
    pub(super) fields: BTreeMap<String, Box<RawValue>>,
    info: Map<String, Value>,
    /// Its large parts are in [`chunks`](super::chunks).
    pub(super) is_cut: bool,
    /// See [`Record::hold`].
    room: Option<Arc<dyn Any + Send + Sync>>,
}

impl Record {
    /// A new revision.
    pub fn new(new: &New<'_>) -> Self {
        let info = json!({
            "first_deployed": new.first_deployed,
            "last_deployed": new.now,
            "description": new.description,
            "status": new.status.as_str(),
            "notes": new.rendered.notes,
        });
        let hooks: Vec<Value> = new.rendered.hooks.iter().map(hook_json).collect();
        let fields = [
            ("name", raw(&new.name)),
            ("chart", new.chart.to_owned()),
            ("config", raw(new.config)),
            ("manifest", raw(&stored_manifest(new.rendered))),
            ("hooks", raw(&hooks)),
            ("version", raw(&new.revision)),
            ("namespace", raw(&new.namespace)),
            // So that a human's `helm upgrade` merges three ways and does not conflict with our manager (docs/design/applying.md B4).
            ("apply_method", raw(&"csa")),
        ];
        let fields = fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        let Value::Object(info) = info else { unreachable!("json! of an object is an object") };
        Self { fields, info, is_cut: false, room: None }
    }

    /// A further revision that goes back to this one, as `helm rollback` makes it. No hook of it has run.
    #[must_use]
    pub fn rollback(&self, revision: u64, now: &str) -> Self {
        let mut record = self.clone();
        record.fields.insert("version".to_owned(), raw(&revision));
        let mut hooks: Vec<Value> = self.field("hooks").unwrap_or_default();
        for hook in hooks.iter_mut().filter_map(Value::as_object_mut) {
            hook.insert("last_run".to_owned(), json!({"phase": ""}));
        }
        record.fields.insert("hooks".to_owned(), raw(&hooks));
        record.info.insert("last_deployed".to_owned(), now.into());
        record.info.insert("rollback_revision".to_owned(), self.revision().into());
        record.set_status(Status::PendingRollback, &format!("Rollback to {}", self.revision()));
        record
    }

    /// Reads the `release` key of a release Secret (after Kubernetes' own base64).
    pub fn decode(data: &[u8]) -> Result<Self, RecordError> {
        let fields = Packed::read(data, bounds::RECORD)?.unpack()?;
        if let Some(hooks) = fields.get("hooks") {
            // Elements of no size, so counting them takes no memory.
            let count = serde_json::from_str::<Vec<IgnoredAny>>(hooks.get()).map_or(0, |hooks| hooks.len());
            if count > bounds::HOOKS && !harm::is_unlimited() {
                return Err(RecordError::OverLimit(format!("it has {count} hooks; the limit is {}", bounds::HOOKS)));
            }
        }
        let info = fields.get("info").and_then(|i| serde_json::from_str(i.get()).ok()).unwrap_or_default();
        Ok(Self { fields, info, is_cut: false, room: None })
    }

    /// Holds something as long as the record, or a copy of it, exists.
    pub fn hold(&mut self, room: Arc<dyn Any + Send + Sync>) {
        self.room = Some(room);
    }

    /// Writes the value of the `release` key (before Kubernetes' own base64).
    pub fn encode(&self) -> Result<String, RecordError> {
        let kept = |key: &str| !self.is_cut || !is_large(key);
        let mut fields: BTreeMap<&str, &RawValue> =
            self.fields.iter().map(|(k, v)| (k.as_str(), &**v)).filter(|(k, _)| kept(k)).collect();
        let info = raw(&self.info);
        fields.insert("info", &info);
        let encoded = pack(&fields);
        // Kubernetes counts the decoded value of the Secret's key, which is this base64 text.
        if encoded.len() > MAX_ENCODED { Err(RecordError::TooLarge(encoded.len())) } else { Ok(encoded) }
    }

    /// Bytes of the whole, before it is packed.
    pub fn bytes(&self) -> usize {
        let fields = self.fields.iter().map(|(key, value)| key.len() + value.get().len() + 4);
        fields.sum::<usize>() + raw(&self.info).get().len()
    }

    /// Revision number.
    pub fn revision(&self) -> u64 {
        self.field("version").unwrap_or_default()
    }
    /// The manifest text.
    pub fn manifest(&self) -> String {
        self.field("manifest").unwrap_or_default()
    }
    /// The objects of the manifest, in the order of installation.
    pub fn objects(&self) -> Result<Vec<Object>, RecordError> {
        let text = self.manifest();
        let read = bounds::MANIFEST.within(text.as_bytes(), || parse_manifest(&text));
        read.map_err(|_| RecordError::Corrupted("the manifest cannot be read"))
    }
    /// The values that it was rendered with.
    pub fn config(&self) -> Map<String, Value> {
        self.field("config").unwrap_or_default()
    }
    /// Name, version and application version of the chart.
    pub fn chart(&self) -> ChartLabel {
        #[derive(serde::Deserialize)]
        struct OnlyMetadata {
            metadata: ChartLabel,
        }
        self.field::<OnlyMetadata>("chart").map(|c| c.metadata).unwrap_or_default()
    }
    /// The chart that it was rendered from. Records do not keep dependencies, as in Helm.
    ///
    /// # Errors
    /// Why the chart cannot be taken from the record, in a sentence.
    pub fn embedded_chart(&self) -> Result<Chart, String> {
        #[derive(serde::Deserialize)]
        struct Embedded {
            metadata: Value,
            #[serde(default)]
            templates: Option<Vec<EmbeddedFile>>,
            #[serde(default)]
            values: Value,
            #[serde(default)]
            schema: Option<String>,
            #[serde(default)]
            files: Option<Vec<EmbeddedFile>>,
        }
        #[derive(serde::Deserialize)]
        struct EmbeddedFile {
            name: String,
            #[serde(default)]
            data: String,
        }
        let chart: Embedded = self.field("chart").ok_or("the record has no chart")?;
        if chart.metadata.get("dependencies").and_then(Value::as_array).is_some_and(|all| !all.is_empty()) {
            return Err("the chart has dependencies, which records do not keep".to_owned());
        }
        let decoded = |text: &str| BASE64.decode(text).map_err(|_| "the record's chart is not base64".to_owned());
        let file = |name: &str, data: Vec<u8>| File { name: name.to_owned(), data: data.into() };
        // JSON is YAML.
        let mut files = vec![file("Chart.yaml", chart.metadata.to_string().into_bytes())];
        if chart.values.is_object() {
            files.push(file("values.yaml", chart.values.to_string().into_bytes()));
        }
        if let Some(schema) = &chart.schema {
            files.push(file("values.schema.json", decoded(schema)?));
        }
        for kept in chart.templates.into_iter().chain(chart.files).flatten() {
            files.push(file(&kept.name, decoded(&kept.data)?));
        }
        crate::chart::load_files(files, &crate::chart::ChartLimits::default()).map_err(|e| e.to_string())
    }
    /// NOTES.txt as rendered.
    pub fn notes(&self) -> &str {
        self.info.get("notes").and_then(Value::as_str).unwrap_or_default()
    }
    /// The sentence that `helm history` shows.
    pub fn description(&self) -> String {
        self.info.get("description").and_then(Value::as_str).unwrap_or_default().to_owned()
    }
    /// When the release was first deployed.
    pub fn first_deployed(&self) -> Option<&str> {
        self.info.get("first_deployed").and_then(Value::as_str)
    }
    /// When this revision was deployed.
    pub fn last_deployed(&self) -> Option<&str> {
        self.info.get("last_deployed").and_then(Value::as_str)
    }
    /// Status.
    pub fn status(&self) -> Status {
        self.info.get("status").and_then(Value::as_str).map_or(Status::Unknown, Status::parse)
    }
    /// Whether the revision has these hooks.
    pub fn hooks_equal(&self, hooks: &[Hook]) -> bool {
        // Helm writes its default out when it runs a hook.
        let default = json!(["before-hook-creation"]);
        let identity = |hook: &Value| {
            ["name", "kind", "manifest", "events", "weight", "delete_policies"].map(|k| match hook.get(k) {
                // Helm 3, and so helm-operator, cuts the space at the ends.
                Some(Value::String(text)) if k == "manifest" => text.trim().into(),
                Some(v) if k != "delete_policies" || *v != default => v.clone(),
                _ => Value::Null,
            })
        };
        let ours: Vec<_> = hooks.iter().map(|h| identity(&hook_json(h))).collect();
        let theirs: Vec<Value> = self.field("hooks").unwrap_or_default();
        // Helm leaves out empty fields.
        let same = |a: &Value, b: &Value| a == b || (is_empty_or_zero(a) && is_empty_or_zero(b));
        ours.len() == theirs.len()
            && ours.iter().zip(theirs.iter().map(identity)).all(|(a, b)| a.iter().zip(&b).all(|(a, b)| same(a, b)))
    }
    pub fn hooks(&self) -> Vec<HookRecord> {
        self.field("hooks").unwrap_or_default()
    }
    /// Sets the last run of a hook.
    pub fn set_last_run(&mut self, hook: usize, run: &LastRun) {
        let mut hooks: Vec<Value> = self.field("hooks").unwrap_or_default();
        if let Some(hook) = hooks.get_mut(hook).and_then(Value::as_object_mut) {
            hook.insert("last_run".to_owned(), serde_json::to_value(run).unwrap_or_default());
            self.fields.insert("hooks".to_owned(), raw(&hooks));
        }
    }
    /// Replaces the hooks by rendered ones, none of which has run.
    pub fn set_hooks(&mut self, hooks: &[Hook]) {
        self.fields.insert("hooks".to_owned(), raw(&hooks.iter().map(hook_json).collect::<Vec<_>>()));
    }
    /// Sets status and description, as Helm's `SetStatus`.
    pub fn set_status(&mut self, status: Status, description: &str) {
        self.info.insert("status".to_owned(), status.as_str().into());
        self.info.insert("description".to_owned(), description.into());
    }

    fn field<T: serde::de::DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.fields.get(name)?.get()).ok()
    }
}

/// Fields as Helm packs a record.
pub(super) fn pack(fields: &BTreeMap<&str, &RawValue>) -> String {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::new(6));
    let json = serde_json::to_vec(fields).expect("strings and JSON can be written as JSON");
    gzip.write_all(&json).expect("writing to memory does not fail");
    BASE64.encode(gzip.finish().expect("writing to memory does not fail"))
}

/// A record as Tillerman or Helm wrote it, before it is unpacked.
pub struct Packed {
    data: Vec<u8>,
    limits: Bounds,
}

impl Packed {
    /// Reads base64.
    ///
    /// # Errors
    /// It is not base64, or says that it is too large.
    pub fn read(data: &[u8], limits: Bounds) -> Result<Self, RecordError> {
        let data = BASE64.decode(data.trim_ascii()).map_err(|_| RecordError::Corrupted("not base64"))?;
        let packed = Self { data, limits };
        if packed.bytes() > limits.bytes && !harm::is_unlimited() {
            let why = format!("it has {} bytes; the limit is {}", packed.bytes(), limits.bytes);
            return Err(RecordError::OverLimit(why));
        }
        Ok(packed)
    }

    fn is_gzip(&self) -> bool {
        self.data.starts_with(&[0x1f, 0x8b, 0x08])
    }

    /// Bytes that it says it has when it is unpacked (RFC 1952, ISIZE). Not more are unpacked.
    pub fn bytes(&self) -> usize {
        match self.data.last_chunk::<4>() {
            Some(size) if self.is_gzip() => u32::from_le_bytes(*size) as usize,
            _ => self.data.len(),
        }
    }

    /// The fields of the record.
    ///
    /// # Errors
    /// It is not a record, or over a limit.
    pub fn unpack(self) -> Result<BTreeMap<String, Box<RawValue>>, RecordError> {
        let json = if self.is_gzip() {
            // Not more than it says it has.
            let limits = Bounds { bytes: self.bytes(), ..self.limits };
            unzip(&self.data, limits).map_err(|error| match error {
                UnzipError::NotGzip => RecordError::Corrupted("not gzip"),
                UnzipError::OverLimit(why) => RecordError::OverLimit(why),
            })?
        } else {
            let mut measure = Measure::default();
            measure.read(&self.data);
            self.limits.measured(&measure).map_err(|why| RecordError::OverLimit(why.to_string()))?;
            self.data
        };
        serde_json::from_slice(&json).map_err(|_| RecordError::Corrupted("not a JSON object"))
    }
}

/// The text that `helm list` prints for a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are those of Chart.yaml")]
pub struct ChartLabel {
    pub name: String,
    pub version: String,
    pub app_version: String,
}

/// A chart as a record embeds it (`pkg/chart/v2/chart.go`; Helm leaves out the dependencies too). Made once per chart.
pub fn chart_json(chart: &Chart) -> Box<RawValue> {
    let files = |files: &[File]| -> Vec<Value> {
        files.iter().map(|f| json!({"name": f.name, "data": BASE64.encode(&*f.data)})).collect()
    };
    let mut metadata = serde_json::to_value(&chart.metadata).unwrap_or_default();
    strip_empty(&mut metadata);
    raw(&json!({
        "metadata": metadata,
        "lock": null,
        "templates": files(&chart.templates),
        "values": chart.values,
        "schema": chart.schema.as_ref().map(|s| BASE64.encode(s)),
        "schemamodtime": "0001-01-01T00:00:00Z",
        "files": files(&chart.files),
    }))
}

/// Go's `omitempty`.
fn strip_empty(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(strip_empty);
            map.retain(|_, v| !is_empty(v));
        }
        Value::Array(items) => items.iter_mut().for_each(strip_empty),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
        Value::Number(_) => false,
    }
}

fn is_empty_or_zero(value: &Value) -> bool {
    is_empty(value) || value.as_i64() == Some(0)
}

fn hook_json(hook: &Hook) -> Value {
    json!({
        "name": hook.manifest.name,
        "kind": hook.manifest.kind,
        "path": hook.manifest.source,
        "manifest": hook.manifest.text,
        "events": hook.events,
        "last_run": {"phase": ""},
        "weight": hook.weight,
        "delete_policies": hook.delete_policies,
        "output_log_policies": hook.output_log_policies,
    })
}

/// [`Rendered::manifest`] without empty lines at the ends of documents, as Helm 3 stores it. Helm 4 keeps them and accepts both. But
/// when users go back to helm-operator, it would see a text that differs from its own, and upgrade.
fn stored_manifest(rendered: &Rendered) -> String {
    let mut text = String::new();
    for manifest in &rendered.manifests {
        // A scalar with this indicator keeps its empty lines: they are part of a value.
        let body = if manifest.text.contains("+\n") { &manifest.text } else { manifest.text.trim_end() };
        text.extend(["---\n# Source: ", &manifest.source, "\n", body, "\n"]);
    }
    text
}

fn raw<T: serde::Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("strings, numbers and JSON can be written as JSON")
}

#[cfg(test)]
mod tests {
    use super::{LastRun, New, Phase, Record, RecordError, Status, chart_json};
    use crate::chart::{Chart, File};
    use crate::render::{Hook, Manifest, Rendered};
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write as _;

    fn rendered() -> Rendered {
        let manifest = Manifest {
            source: "web/templates/a.yaml".into(),
            text: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a".into(),
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            name: "a".into(),
        };
        Rendered { manifests: vec![manifest], notes: "hello <you>".into(), ..Rendered::default() }
    }

    fn record() -> Record {
        let mut chart = Chart::default();
        chart.metadata.name = "web".into();
        chart.metadata.version = "1.2.3".into();
        chart.templates = vec![File { name: "templates/a.yaml".into(), data: b"x".to_vec().into() }];
        let config = serde_json::json!({"a": 1}).as_object().unwrap().clone();
        Record::new(&New {
            name: "r",
            namespace: "ns",
            revision: 3,
            status: Status::PendingInstall,
            description: "Initial install underway",
            first_deployed: "2026-11-21T09:00:00Z",
            now: "2026-11-21T09:00:01Z",
            chart: &chart_json(&chart),
            config: &config,
            rendered: &rendered(),
        })
    }

    #[test]
    fn a_record_is_read_back_as_it_was_written() {
        let read = Record::decode(record().encode().unwrap().as_bytes()).unwrap();
        assert_eq!(read.revision(), 3);
        assert_eq!(read.status(), Status::PendingInstall);
        assert_eq!(read.manifest(), rendered().manifest());
        assert_eq!(read.notes(), "hello <you>");
        assert_eq!((read.chart().name.as_str(), read.chart().version.as_str()), ("web", "1.2.3"));
        assert_eq!(read.objects().unwrap().len(), 1);
    }

    /// A record with other fields, packed.
    fn packed(change: impl FnOnce(&mut String)) -> String {
        let mut json = serde_json::to_string(&record().fields).unwrap();
        change(&mut json);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::new(6));
        gzip.write_all(json.as_bytes()).unwrap();
        BASE64.encode(gzip.finish().unwrap())
    }

    #[test]
    fn a_record_over_a_limit_is_not_unpacked_further() {
        let with = |field: &str, value: String| {
            packed(|json| *json = format!("{},\"{field}\":{value}}}", json.strip_suffix('}').unwrap()))
        };
        for (text, part) in [
            (with("hooks", format!("[{}{{}}]", "{},".repeat(500_000))), "more than 400000 values"),
            (with("hooks", format!("[{}{{}}]", "{},".repeat(1500))), "it has 1501 hooks; the limit is 1500"),
            (with("more", format!("{}{}", "[".repeat(200), "]".repeat(200))), "more than 100 levels deep"),
            (with("more", format!("\"{}\"", "x".repeat(25 << 20))), "the limit is 25165824"),
        ] {
            let error = Record::decode(text.as_bytes()).unwrap_err();
            assert!(matches!(&error, RecordError::OverLimit(why) if why.contains(part)), "{part}: {error}");
        }
        // A size that is not true is not one of a record.
        let mut lie = BASE64.decode(packed(|_| {})).unwrap();
        let at = lie.len() - 4;
        lie[at..].copy_from_slice(&1_u32.to_le_bytes());
        assert!(Record::decode(BASE64.encode(lie).as_bytes()).is_err_and(|error| error.is_unusable()));
        let mut bomb = record();
        bomb.fields.insert("manifest".into(), super::raw(&format!("a: [{}]", "[],".repeat(2_000_000))));
        assert!(bomb.objects().is_err());
    }

    #[test]
    fn setting_the_status_keeps_everything_else() {
        let mut read = Record::decode(record().encode().unwrap().as_bytes()).unwrap();
        read.set_status(Status::Deployed, "Install complete");
        let again = Record::decode(read.encode().unwrap().as_bytes()).unwrap();
        assert_eq!((again.status(), again.notes(), again.revision()), (Status::Deployed, "hello <you>", 3));
        assert_eq!(again.first_deployed(), Some("2026-11-21T09:00:00Z"));
    }

    #[test]
    fn a_rollback_is_a_further_revision_with_the_content_of_the_earlier_one() {
        let mut target = record();
        target.set_status(Status::Superseded, "superseded by new release");
        let back = target.rollback(7, "2026-11-22T09:00:00Z");
        assert_eq!((back.revision(), back.status()), (7, Status::PendingRollback));
        assert_eq!(back.description(), "Rollback to 3");
        assert_eq!((back.manifest(), back.notes()), (target.manifest(), target.notes()));
        assert_eq!(back.first_deployed(), target.first_deployed());
        assert_eq!(back.info["rollback_revision"], 3);
    }

    /// D4.
    #[test]
    fn a_record_that_no_secret_can_hold_is_cut_and_put_together_again() {
        let mut record = record();
        assert_eq!(record.cut(), Ok(None));
        // Noise, which gzip does not make smaller.
        let mut state = 1_u64;
        let noise: String = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{state:016x}")
        })
        .take(150_000)
        .collect();
        record.fields.insert("manifest".into(), super::raw(&noise));
        assert!(matches!(record.encode(), Err(RecordError::TooLarge(_))));
        let chunks = record.cut().unwrap().unwrap();
        assert!(chunks.parts.len() > 1 && chunks.parts.iter().all(|p| p.len() <= super::MAX_ENCODED));
        // The status changes, the chunks do not.
        record.set_status(Status::Deployed, "Install complete");
        assert_eq!((record.key(), record.clone().cut().unwrap().unwrap()), ("head", chunks.clone()));
        let head = record.encode().unwrap();
        assert!(head.len() < 10_000);
        let text = chunks.parts.concat();
        let read = Record::join(head.as_bytes(), &text, &chunks.digest).unwrap();
        assert_eq!((read.manifest(), read.status(), read.key()), (noise, Status::Deployed, "head"));
        assert_eq!(read.chart().name, "web");
        for text in [&text[1..], ""] {
            assert!(matches!(Record::join(head.as_bytes(), text, &chunks.digest), Err(RecordError::Corrupted(_))));
        }
        assert_eq!(crate::release::chunks::parse(&chunks.annotation()), Some((&*chunks.digest, chunks.parts.len())));
    }

    #[test]
    fn a_corrupted_record_is_an_error_and_not_a_panic() {
        for data in ["", "%%%", "aGVsbG8=", "H4sIAAAAAAAA/w=="] {
            assert!(Record::decode(data.as_bytes()).is_err_and(|error| error.is_unusable()), "{data}");
        }
    }

    #[test]
    fn the_manifest_is_stored_as_helm_operator_would_render_it() {
        let mut rendered = rendered();
        let expected = rendered.manifest();
        rendered.manifests[0].text.push_str("\n\n");
        assert_eq!(super::stored_manifest(&rendered), expected);
        rendered.manifests[0].text.push_str("data:\n  a: |+\n    x\n\n");
        assert_eq!(super::stored_manifest(&rendered), rendered.manifest());
    }

    #[test]
    fn a_hook_that_helm_has_run_is_still_the_same_hook() {
        let manifest = Manifest { name: "h".into(), kind: "Pod".into(), ..rendered().manifests.remove(0) };
        let hook = |weight, policies: &[&str]| Hook {
            manifest: manifest.clone(),
            events: vec!["test".into()],
            weight,
            delete_policies: policies.iter().map(|p| (*p).to_owned()).collect(),
            output_log_policies: Vec::new(),
        };
        let mut record = record();
        let mut written = super::hook_json(&hook(0, &[]));
        written["delete_policies"] = serde_json::json!(["before-hook-creation"]);
        written["last_run"] = serde_json::json!({"phase": "Succeeded"});
        written.as_object_mut().unwrap().remove("weight");
        record.fields.insert("hooks".into(), super::raw(&[written]));
        assert!(record.hooks_equal(&[hook(0, &[])]));
        let mut longer = hook(0, &[]);
        longer.manifest.text.push('\n');
        assert!(record.hooks_equal(&[longer]), "Helm 3 has cut it");
        assert!(!record.hooks_equal(&[hook(1, &[])]));
        assert!(!record.hooks_equal(&[hook(0, &["hook-succeeded"])]));
        assert!(!record.hooks_equal(&[]));
    }

    #[test]
    fn the_last_run_of_a_hook_is_read_back_and_helms_own_words_are_understood() {
        let mut record = record();
        record
            .fields
            .insert("hooks".into(), super::raw(&serde_json::json!([{"name": "h", "last_run": {"phase": ""}}])));
        assert_eq!(record.hooks()[0].last_run, LastRun::default());
        let run = LastRun { phase: Phase::Running, event: Some("pre-install".into()), ..LastRun::default() };
        record.set_last_run(0, &run);
        let read = Record::decode(record.encode().unwrap().as_bytes()).unwrap();
        assert_eq!((read.hooks()[0].name.as_str(), &read.hooks()[0].last_run), ("h", &run));
    }

    #[test]
    fn every_status_is_read_as_it_is_written() {
        for status in [
            Status::Deployed,
            Status::Uninstalled,
            Status::Superseded,
            Status::Failed,
            Status::Uninstalling,
            Status::PendingInstall,
            Status::PendingUpgrade,
            Status::PendingRollback,
        ] {
            assert_eq!(Status::parse(status.as_str()), status);
        }
    }
}

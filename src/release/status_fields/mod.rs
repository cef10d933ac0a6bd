//! `Status` documents of a chart: fields of the custom resource's status that only the chart knows.
//!
//! Such a document has a `helm.sh/hook` name that Helm does not know, as `Members` documents have. So Helm ignores it, and it is never
//! sent to the API server.

pub mod typed;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

use super::document::{DocumentFields, body};
use super::packed;
use crate::names;
use crate::object::field_path::FieldPath;
use crate::object::{Gvk, Object, ObjectId};
use crate::render::Hook;

/// `apiVersion` of a `Status` document.
pub const API_VERSION: &str = names::STATUS_API_VERSION;
pub const KIND: &str = "Status";
/// Its hook name.
pub const STATUS: &str = "status";
/// Fields of all documents together.
const MAX_FIELDS: usize = 32;
/// Bytes of a value as JSON. A longer one is not shown.
pub const MAX_VALUE: usize = 4 << 10;
/// Bytes of an API version, a kind or a name.
const MAX_WORD: usize = 253;
/// The maximum size of the annotation in bytes. The inventory, the members and the operations are in the same 256 KiB.
const MAX_ENCODED: usize = 6 << 10;

/// Fields of the status that the operator writes itself.
pub const RESERVED: [&str; 20] = [
    "observedGeneration",
    "conditions",
    "deployedRelease",
    "release",
    "resources",
    "lastAttempted",
    "lastHandledReconcileAt",
    "lastHandledOperation",
    "members",
    "plan",
    "operation",
    "operations",
    "dependencies",
    "replicas",
    "selector",
    "notKept",
    "result",
    "succeeded",
    "reason",
    "Reason",
];

/// The fields of all `Status` documents of a rendering, in the order of the documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusFields {
    pub fields: Vec<Field>,
}

/// One field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Field {
    /// Its name in the status.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: FieldType,
    /// Where its value comes from.
    pub source: FieldSource,
    /// Whether `kubectl get` shows it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub column: bool,
    /// Its meaning, for the definition.
    #[serde(skip)]
    pub description: Option<String>,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum FieldType {
    #[default]
    String,
    Integer,
    Number,
    Boolean,
    Array,
    Object,
}

/// Where the value of a field comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldSource {
    /// The template wrote it.
    Value(Value),
    /// A field of a live object of the release.
    From(FieldPlace),
    /// The operator's facts about a stateful set with members.
    Members {
        /// Name of the `Members` document.
        document: String,
        /// The fact that it shows.
        field: String,
    },
}

/// A field of an object of the release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldPlace {
    /// `apiVersion` of the object.
    pub api_version: String,
    pub kind: String,
    /// Its namespace, if the document names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    /// The path of the field.
    pub path: FieldPath,
}

impl FieldType {
    /// All types, by their names in documents and in definitions.
    pub const ALL: [(&str, Self); 6] = [
        ("string", Self::String),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("boolean", Self::Boolean),
        ("array", Self::Array),
        ("object", Self::Object),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("string", |(name, _)| name)
    }

    /// Whether a value has this type.
    pub fn has(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }

    /// The value in this type: of numbers and booleans, the text where a text is wanted. `None` for a value of another
    /// type.
    pub fn fit(self, value: &Value) -> Option<Value> {
        match value {
            Value::Number(number) if self == Self::String => Some(number.to_string().into()),
            Value::Bool(on) if self == Self::String => Some(on.to_string().into()),
            value => self.has(value).then(|| value.clone()),
        }
    }
}

/// The type of a value, for messages.
fn type_of(value: &Value) -> &'static str {
    let found = FieldType::ALL.iter().find(|(_, kind)| kind.has(value));
    found.map_or("null", |(name, _)| name)
}

impl FieldPlace {
    /// The group, version and kind of the object.
    pub fn gvk(&self) -> Gvk {
        Gvk::from_api_version(&self.api_version, &self.kind)
    }

    /// Whether an object of a release in a namespace is the one that is meant.
    pub fn is(&self, id: &ObjectId, release_namespace: &str) -> bool {
        let here = match (&self.namespace, id.namespace.as_deref()) {
            (Some(named), namespace) => namespace == Some(named.as_str()),
            (None, namespace) => namespace.is_none_or(|namespace| namespace == release_namespace),
        };
        here && *id.name == *self.name && id.gvk == self.gvk()
    }

    /// The objects that may be meant: whether the kind is namespaced is not known here.
    pub fn candidates(&self, release_namespace: &str) -> Vec<ObjectId> {
        let id = |namespace: Option<&str>| ObjectId {
            gvk: self.gvk(),
            namespace: namespace.map(Into::into),
            name: self.name.as_str().into(),
        };
        match &self.namespace {
            Some(namespace) => vec![id(Some(namespace))],
            None => vec![id(Some(release_namespace)), id(None)],
        }
    }
}

/// Whether the content of a kind is never shown.
pub fn is_secret(gvk: &Gvk) -> bool {
    gvk.group.is_empty() && &*gvk.kind == "Secret"
}

/// The names that sources of fields can use.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The objects of the rendering.
    pub objects: &'a [Object],
    /// The namespace of the release.
    pub namespace: &'a str,
    /// The names of its `Members` documents.
    pub members: &'a [&'a str],
    /// The facts about members.
    pub facts: &'a [&'static str],
}

impl StatusFields {
    /// Reads the documents of a rendering that Helm ignores, and checks them against the rest of it. Returns `None` if the chart has no
    /// such document. The error is a sentence; it contains names, but no other values.
    pub fn read(unknown: &[Hook], known: Known<'_>) -> Result<Option<Self>, String> {
        if let Some(object) = known.objects.iter().find(|o| is_status(&o.gvk.api_version(), &o.gvk.kind)) {
            return Err(format!("Status {} lacks the annotation helm.sh/hook: {STATUS}", object.name));
        }
        let fields = Self::parse(unknown)?;
        for field in fields.iter().flat_map(|fields| &fields.fields) {
            check_source(&field.source, known).map_err(|why| format!("Status: fields.{}.{why}", field.name))?;
        }
        Ok(fields)
    }

    /// Reads the documents without a look at the rest of the rendering. A field of a chart replaces, or with null hides, that of its
    /// dependencies.
    pub fn parse(unknown: &[Hook]) -> Result<Option<Self>, String> {
        let mut all = Self::default();
        let mut documents: Vec<&Hook> = unknown.iter().filter(|hook| is_document(hook)).collect();
        if documents.is_empty() {
            return Ok(None);
        }
        documents.sort_by_key(|hook| depth(hook));
        // The fields, with the depth of their charts.
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for hook in documents {
            let wrong = |why: String| format!("Status {}: {why}", hook.manifest.name);
            for (name, said) in read(hook).map_err(wrong)? {
                match known.get(&name) {
                    Some(above) if *above < depth(hook) => continue,
                    Some(_) => return Err(wrong(format!("there are two fields {name}"))),
                    None => drop(known.insert(name.clone(), depth(hook))),
                }
                if !said.is_null() {
                    all.fields.push(field(name, said).map_err(wrong)?);
                }
            }
            if all.fields.len() > MAX_FIELDS {
                return Err(wrong(format!("there are more than {MAX_FIELDS} fields")));
            }
        }
        Ok(Some(all))
    }

    /// Encodes the fields for an annotation. The error is a sentence.
    pub fn encode(&self) -> Result<String, String> {
        packed::encode(self, "fields of the status", MAX_ENCODED)
    }

    /// Decodes a text from [`Self::encode`]; `None` for any other text. A user who can edit Secrets can write such a
    /// text, so more fields than a chart can have do not count.
    pub fn decode(text: &str) -> Option<Self> {
        if text.len() > MAX_ENCODED {
            return None;
        }
        let mut read: Self = packed::decode(text)?;
        read.fields.truncate(MAX_FIELDS);
        read.fields.retain(|field| {
            let counts = match &field.source {
                FieldSource::Value(value) => field.kind.has(value) && !is_too_long(value),
                FieldSource::From(place) => !is_secret(&place.gvk()),
                FieldSource::Members { .. } => true,
            };
            counts && is_name(&field.name) && !RESERVED.contains(&field.name.as_str())
        });
        Some(read)
    }
}

fn is_status(api_version: &str, kind: &str) -> bool {
    kind == KIND && api_version.split('/').next() == API_VERSION.split('/').next()
}

fn is_document(hook: &Hook) -> bool {
    is_status(&hook.manifest.api_version, &hook.manifest.kind) || hook.events.iter().any(|event| event == STATUS)
}

fn is_name(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    first && name.len() <= 63 && name.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// How many charts are above that of a document.
fn depth(hook: &Hook) -> usize {
    hook.manifest.source.split("/templates/").next().unwrap_or_default().matches("/charts/").count()
}

fn read(hook: &Hook) -> Result<Map<String, Value>, String> {
    if hook.manifest.api_version != API_VERSION || hook.manifest.kind != KIND {
        return Err(format!("a hook {STATUS} is of {API_VERSION}, Kind={KIND}"));
    }
    if hook.events != [STATUS] {
        return Err(format!("its annotation helm.sh/hook is {STATUS} and nothing else"));
    }
    let known = ["apiVersion", "kind", "metadata", "fields"];
    let mut document = DocumentFields::of("the document", Some(body(hook)?.into()), &known)?;
    match document.take("fields") {
        Some(Value::Object(fields)) => Ok(fields),
        None => Err("fields, the fields of the status, is missing".to_owned()),
        Some(_) => Err("fields is not an object".to_owned()),
    }
}

fn field(name: String, said: Value) -> Result<Field, String> {
    if !is_name(&name) {
        return Err(format!(
            "fields.{name}: a name has letters and digits, begins with a lower-case letter, and has at most 63 \
             characters"
        ));
    }
    if RESERVED.contains(&name.as_str()) {
        return Err(format!("fields.{name}: the operator itself writes status.{name}; use another name"));
    }
    let at = format!("fields.{name}");
    let mut said =
        DocumentFields::of(&at, Some(said), &["value", "from", "members", "field", "type", "column", "description"])?;
    let kind = said.choice("type", &FieldType::ALL, Some(FieldType::String))?;
    let column = match said.take("column") {
        None => false,
        Some(Value::Bool(column)) => column,
        Some(_) => return Err(format!("{at}.column must be true or false")),
    };
    if column && matches!(kind, FieldType::Array | FieldType::Object) {
        return Err(format!("{at}.column: a column cannot show {}", kind.as_str()));
    }
    let description = said.text("description")?;
    let source = match (said.take("value"), said.take("from"), said.text("members")?, said.text("field")?) {
        (Some(value), None, None, None) => FieldSource::Value(constant(value, kind, &at)?),
        (None, Some(place), None, None) => FieldSource::From(read_place(place, &at)?),
        (None, None, Some(document), Some(field)) => FieldSource::Members { document, field },
        (None, None, Some(_), None) => return Err(format!("{at}.field, the fact of the members to show, is missing")),
        (None, None, None, None) => return Err(format!("{at} has none of value, from, and members with field")),
        _ => return Err(format!("{at} has more than one of value, from, and members with field")),
    };
    Ok(Field { name, kind, source, column, description })
}

/// The value of a field that the template wrote. Unlike a live object, the template can be corrected.
fn constant(value: Value, kind: FieldType, at: &str) -> Result<Value, String> {
    if !kind.has(&value) {
        let (is, wanted) = (type_of(&value), kind.as_str());
        return Err(format!(
            "{at}.value has the type {is}, and the field the type {wanted}: quote it, or say type: {is}"
        ));
    }
    if is_too_long(&value) {
        return Err(format!("{at}.value has more than {MAX_VALUE} bytes"));
    }
    Ok(value)
}

/// Whether a value is too long for a status.
pub fn is_too_long(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() > MAX_VALUE,
        Value::Array(_) | Value::Object(_) => value.to_string().len() > MAX_VALUE,
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn read_place(place: Value, at: &str) -> Result<FieldPlace, String> {
    let at = format!("{at}.from");
    let mut place = DocumentFields::of(&at, Some(place), &["apiVersion", "kind", "namespace", "name", "path"])?;
    let mut word = |key: &str| match place.text(key)? {
        Some(word) if word.len() > MAX_WORD => Err(format!("{at}.{key} has more than {MAX_WORD} bytes")),
        word => Ok(word),
    };
    let missing = |key: &str| format!("{at}.{key} is missing");
    let api_version = word("apiVersion")?.ok_or_else(|| missing("apiVersion"))?;
    let kind = word("kind")?.ok_or_else(|| missing("kind"))?;
    let namespace = word("namespace")?;
    let name = word("name")?.ok_or_else(|| missing("name"))?;
    let path = place.text("path")?.ok_or_else(|| missing("path"))?;
    let path = FieldPath::parse(&path).map_err(|why| format!("{at}.path: {why}"))?;
    Ok(FieldPlace { api_version, kind, namespace, name, path })
}

fn check_source(source: &FieldSource, known: Known<'_>) -> Result<(), String> {
    match source {
        FieldSource::From(place) => check_place(place, known),
        FieldSource::Members { document, .. } if !known.members.contains(&document.as_str()) => {
            Err(match known.members {
                [] => format!("members: there is no Members {document}; the chart has none"),
                names => format!("members: there is no Members {document}; the chart has {}", names.join(", ")),
            })
        }
        FieldSource::Members { field, .. } if !known.facts.contains(&field.as_str()) => {
            Err(format!("field {field:?} is unknown; the fields are {}", known.facts.join(", ")))
        }
        FieldSource::Value(_) | FieldSource::Members { .. } => Ok(()),
    }
}

/// Only objects of the release are shown: the operator's right to read others is not the chart's.
fn check_place(place: &FieldPlace, known: Known<'_>) -> Result<(), String> {
    let (gvk, name) = (place.gvk(), &place.name);
    if is_secret(&gvk) {
        return Err("from: the content of a Secret is not shown; show its name, as a value".to_owned());
    }
    let named = |o: &&Object| o.gvk.group == gvk.group && o.gvk.kind == gvk.kind && o.name == *name;
    let here = |o: &&Object| {
        let namespace = o.namespace.as_deref().unwrap_or(known.namespace);
        place.namespace.as_deref().unwrap_or(known.namespace) == namespace
    };
    match known.objects.iter().filter(named).find(here) {
        Some(object) if object.gvk == gvk => Ok(()),
        Some(object) => Err(format!(
            "from: the chart has {} {name} in {}, and not in {}",
            gvk.kind,
            object.gvk.api_version(),
            place.api_version
        )),
        None => Err(format!(
            "from: the chart renders no {} {name} of {}; only objects of the release can be shown",
            gvk.kind, place.api_version
        )),
    }
}

/// The names of fields that a status says are those of the chart.
pub fn names_in(status: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let names = status.get("release").and_then(|release| release.get("statusFields")).and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    names.filter(|name| is_name(name) && !RESERVED.contains(name)).take(MAX_FIELDS)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

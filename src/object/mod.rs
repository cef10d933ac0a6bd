//! The fields that are read and written in the same way for every object of Kubernetes: what identifies it, the objects that a manifest text holds,
//! conditions, patches, quantities, and paths to fields. Nothing here knows of releases,
//! of kinds of custom resources or of the API server.

pub mod conditions;
pub mod field_error;
pub mod field_path;
pub mod patch;
pub mod quantity;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::template::budget::{self, Budget, Limits};
use crate::template::yaml;

/// Group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Version within the group.
    pub version: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
}

impl Gvk {
    /// From its three parts.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }
    /// From a manifest's `apiVersion` and `kind`.
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self::new(group, version, kind)
    }
    /// `apiVersion` as manifests write it.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }
    /// `Kind.group`, as operator-sdk's `primary-resource-type` annotation writes it.
    pub fn kind_group(&self) -> String {
        if self.group.is_empty() { self.kind.to_string() } else { format!("{}.{}", self.kind, self.group) }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.api_version(), self.kind)
    }
}

/// One object of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// Its kind.
    pub gvk: Gvk,
    /// Its namespace; `None` for a cluster-scoped object.
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
}

impl ObjectId {
    /// Its identity in any version of its group.
    pub fn in_any_version(&self) -> (&str, &str, Option<&str>, &str) {
        (&self.gvk.group, &self.gvk.kind, self.namespace.as_deref(), &self.name)
    }
}

impl fmt::Display for ObjectId {
    /// As people name objects: `Deployment web`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.gvk.kind, self.name)
    }
}

/// An object as a chart wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The kind.
    pub gvk: Gvk,
    /// `metadata.namespace`, if the template wrote one.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
    /// The whole object.
    pub body: Map<String, Value>,
}

/// Helm's annotation that keeps an object when its release is uninstalled, and its value.
pub const RESOURCE_POLICY: &str = "helm.sh/resource-policy";

impl Object {
    /// Reads one document. `None` for an empty one.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let value: Value = parse_yaml(text)?;
        match value {
            Value::Null => Ok(None),
            Value::Object(body) => Self::from_body(body).map(Some),
            _ => Err("a manifest is not an object".to_owned()),
        }
    }

    /// From a parsed body.
    pub fn from_body(body: Map<String, Value>) -> Result<Self, String> {
        let text = |v: Option<&Value>| v.and_then(Value::as_str).filter(|s| !s.is_empty()).map(str::to_owned);
        let api_version = text(body.get("apiVersion")).ok_or("a manifest has no apiVersion")?;
        let kind = text(body.get("kind")).ok_or("a manifest has no kind")?;
        let metadata = body.get("metadata").and_then(Value::as_object);
        let name = match text(metadata.and_then(|m| m.get("name"))) {
            Some(name) => name,
            None if is_list(&kind, &body) => String::new(),
            None if metadata.is_some_and(|m| m.contains_key("generateName")) => {
                return Err(format!(
                    "a {kind} has generateName and no name: an object of a release needs a name by which it is found again"
                ));
            }
            None => return Err(format!("a {kind} has no name")),
        };
        let namespace = text(metadata.and_then(|m| m.get("namespace")));
        Ok(Self { gvk: Gvk::from_api_version(&api_version, &kind), namespace, name, body })
    }

    /// Whether the object stays when it leaves the chart or the release is uninstalled (Helm compares without case and space).
    pub fn is_kept(&self) -> bool {
        self.body
            .get("metadata")
            .and_then(|m| m.get("annotations"))
            .and_then(|a| a.get(RESOURCE_POLICY))
            .and_then(Value::as_str)
            .is_some_and(|policy| policy.trim().eq_ignore_ascii_case("keep"))
    }
}

/// The objects of a manifest text in their order. A `List` counts as its items, as `kubectl` and Helm take it.
///
/// Helm 4.3 splits documents where `releaseutil.SplitManifests` does: `(?:^|\s*\n)---\s*`.
pub fn parse_manifest(text: &str) -> Result<Vec<Object>, String> {
    let mut objects = Vec::new();
    for document in split(text) {
        let Some(object) = Object::parse(document)? else { continue };
        push_flat(object, &mut objects)?;
    }
    Ok(objects)
}

/// Whether an object represents its items: a `List`, or the list of a kind, such as a `RoleList`.
fn is_list(kind: &str, body: &Map<String, Value>) -> bool {
    kind.ends_with("List") && body.get("items").is_some_and(Value::is_array)
}

/// Adds an object, or the items of a list. Items of the list of a kind need not say their version and kind
/// (`unstructuredJSONScheme.decodeToList`, apimachinery 0.36).
pub fn push_flat(object: Object, objects: &mut Vec<Object>) -> Result<(), String> {
    let is_list = is_list(&object.gvk.kind, &object.body);
    match object.body.get("items") {
        Some(Value::Array(items)) if is_list => {
            for item in items {
                let Value::Object(body) = item else {
                    return Err(format!("an item of a {} is not an object", object.gvk.kind));
                };
                let mut body = body.clone();
                let of_item = object.gvk.kind.trim_end_matches("List");
                if !of_item.is_empty() {
                    body.entry("apiVersion").or_insert_with(|| object.gvk.api_version().into());
                    body.entry("kind").or_insert_with(|| of_item.into());
                }
                push_flat(Object::from_body(body)?, objects)?;
            }
            Ok(())
        }
        _ => {
            objects.push(object);
            Ok(())
        }
    }
}

fn split(text: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    let mut start = 0;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("---") {
            documents.push(&text[start..offset]);
            start = offset + (line.len() - rest.len());
        }
        offset += line.len();
    }
    documents.push(&text[start..]);
    documents.retain(|d| !d.trim().is_empty());
    documents
}

/// YAML as Helm reads manifests. The parser makes every number a float, as Go does for values. Helm sends JSON to the API
/// server, where a whole number has no fraction.
/// Values of one manifest, with those that aliases repeat. Kubernetes stores 1.5 MiB of an object.
const MAX_VALUES: usize = 1_000_000;

fn parse_yaml(text: &str) -> Result<Value, String> {
    // Unless a budget counts already: aliases can expand a short text.
    let limits = Limits { memory: Some(budget::nodes(MAX_VALUES)), ..Limits::default() };
    let mut budget = Budget::new(limits);
    let value = budget.run(|| yaml::parse(text.as_bytes()));
    if budget.is_spent() {
        return Err(format!("a manifest has more than {MAX_VALUES} values"));
    }
    let mut value = value.map_err(|_| "a manifest is not valid YAML".to_owned())?;
    make_whole(&mut value);
    Ok(value)
}

/// Floats without a fraction become integers.
fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|f| number.is_f64() && f.fract() == 0.0 && f.abs() < 1e15)
                && let Ok(whole) = format!("{whole:.0}").parse::<i64>()
            {
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(map) => map.values_mut().for_each(make_whole),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The `metadata` of an object of the API server.
pub fn metadata(object: &Value) -> &Value {
    object.get("metadata").unwrap_or(&Value::Null)
}

/// The object under a key; made when it is absent, `null` or something else.
pub fn child<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = parent.entry(key).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was made an object")
}

#[cfg(test)]
mod tests {
    use super::{Gvk, Object, parse_manifest};

    #[test]
    fn a_manifest_text_is_read_document_by_document() {
        let text = "---\n# Source: a\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n---\n\n---\n# Source: b\n\
                    apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b, namespace: x}\n";
        let objects = parse_manifest(text).unwrap();
        assert_eq!(objects.len(), 2);
        assert_eq!(objects[0].gvk, Gvk::new("", "v1", "ConfigMap"));
        assert_eq!((objects[1].gvk.group.as_ref(), objects[1].namespace.as_deref()), ("apps", Some("x")));
    }

    #[test]
    fn a_list_counts_as_its_items() {
        let text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: a}}\n\
                    - {apiVersion: v1, kind: Secret, metadata: {name: b}}\n";
        let names: Vec<_> = parse_manifest(text).unwrap().into_iter().map(|o| o.name).collect();
        assert_eq!(names, ["a", "b"]);
    }

    /// helm-drift#38, sveltos addon-controller#1136.
    #[test]
    fn the_list_of_a_kind_counts_as_its_items() {
        let text = "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleList\nitems:\n- metadata: {name: a}\n\
                    - {apiVersion: v1, kind: Secret, metadata: {name: b}}\n---\napiVersion: example.com/v1\nkind: AllowList\n\
                    metadata: {name: c}\nspec: {}\n";
        let objects = parse_manifest(text).unwrap();
        let read: Vec<_> = objects.iter().map(|o| (o.gvk.api_version(), &*o.gvk.kind, o.name.as_str())).collect();
        let expected = [
            ("rbac.authorization.k8s.io/v1".to_owned(), "Role", "a"),
            ("v1".to_owned(), "Secret", "b"),
            ("example.com/v1".to_owned(), "AllowList", "c"),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn the_keep_policy_is_read_without_case_and_space() {
        let object = |policy: &str| {
            Object::parse(&format!(
                "apiVersion: v1\nkind: Secret\nmetadata: {{name: a, annotations: {{helm.sh/resource-policy: '{policy}'}}}}"
            ))
            .unwrap()
            .unwrap()
        };
        assert!(object(" Keep ").is_kept());
        assert!(!object("delete").is_kept());
    }

    #[test]
    fn an_object_without_a_name_is_refused_in_words() {
        let error = Object::parse("apiVersion: v1\nkind: Secret\nmetadata: {}").unwrap_err();
        assert_eq!(error, "a Secret has no name");
        let error = Object::parse("apiVersion: v1\nkind: Secret\nmetadata: {generateName: a-}").unwrap_err();
        assert!(error.starts_with("a Secret has generateName and no name: "), "{error}");
    }
}

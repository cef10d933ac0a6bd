//! Chart.yaml, read as Helm reads it: keys in any case, wrong types refused in Go's words, texts made printable.

use super::values::{json_type, scalar_text};
use crate::template::go::quote::{is_print, quoted};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};

/// Chart.yaml.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are those of Chart.yaml, documented by Helm")]
pub struct Metadata {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub home: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub icon: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tags: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
    /// `None` is Go's nil map, which templates can distinguish from an empty one.
    #[serde(skip_serializing_if = "is_empty")]
    pub annotations: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kube_version: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<Dependency>,
    /// Whether there was a list of dependencies. Helm distinguishes an empty list from none.
    #[serde(skip)]
    pub has_dependencies: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub r#type: String,
}

#[expect(clippy::ref_option, reason = "serde calls it")]
fn is_empty(annotations: &Option<BTreeMap<String, String>>) -> bool {
    annotations.as_ref().is_none_or(BTreeMap::is_empty)
}

/// A maintainer of a chart.
#[derive(Clone, Debug, Default, Serialize)]
#[expect(missing_docs, reason = "the fields are those of Chart.yaml, documented by Helm")]
pub struct Maintainer {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub email: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
}

/// An entry of `dependencies:` in Chart.yaml or requirements.yaml.
#[derive(Clone, Debug, Default, Serialize)]
#[expect(missing_docs, reason = "the fields are those of Chart.yaml, documented by Helm")]
pub struct Dependency {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    pub repository: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enabled: bool,
    #[serde(rename = "import-values", skip_serializing_if = "Vec::is_empty")]
    pub import_values: Vec<Value>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub alias: String,
}

/// Why a Chart.yaml, or a list of dependencies, is not valid; the words are Helm's.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// A document has another type.
    #[error("json: cannot unmarshal {found} into Go value of type {wanted}")]
    Document {
        /// The document's type.
        found: &'static str,
        /// Go's type.
        wanted: &'static str,
    },
    /// A field has another type.
    #[error("json: cannot unmarshal {found} into Go struct field {path} of type {wanted}")]
    Field {
        /// The value's type.
        found: &'static str,
        /// The struct and the field.
        path: String,
        /// Go's type.
        wanted: &'static str,
    },
    /// Two dependencies have one name, which is between quotes.
    #[error("validation: more than one dependency with name or alias {0}")]
    Twice(String),
    /// A field is missing, or its value is not valid.
    #[error("validation: {0}")]
    Validation(String),
}

/// Reads one Go struct out of a JSON object: keys match in any case, `null` leaves a field as it is.
struct Reader<'a> {
    entries: &'a serde_json::Map<String, Value>,
    /// The struct's name and the path to it, for Go's error text.
    path: String,
}

impl<'a> Reader<'a> {
    fn new(value: &'a Value, path: &str, go_type: &'static str) -> Result<Self, MetadataError> {
        match value {
            Value::Object(entries) => Ok(Self { entries, path: path.into() }),
            other if path.contains('.') => Err(mismatch(other, path, go_type)),
            other => Err(MetadataError::Document { found: json_type(other), wanted: go_type }),
        }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        field(self.entries, key)
    }

    fn string(&self, key: &str, field: &mut String) -> Result<(), MetadataError> {
        match self.get(key) {
            None => {}
            Some(value) => {
                *field = scalar_text(value).ok_or_else(|| mismatch(value, &self.at(key), "string"))?;
            }
        }
        Ok(())
    }

    fn bool(&self, key: &str, field: &mut bool) -> Result<(), MetadataError> {
        match self.get(key) {
            None => {}
            Some(Value::Bool(b)) => *field = *b,
            Some(other) => return Err(mismatch(other, &self.at(key), "bool")),
        }
        Ok(())
    }

    fn array(&self, key: &str, go_type: &'static str) -> Result<Option<&'a Vec<Value>>, MetadataError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(mismatch(other, &self.at(key), go_type)),
        }
    }

    fn strings(&self, key: &str, field: &mut Vec<String>) -> Result<(), MetadataError> {
        if let Some(items) = self.array(key, "[]string")? {
            *field = items
                .iter()
                .map(|item| scalar_text(item).ok_or_else(|| mismatch(item, &self.at(key), "string")))
                .collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    fn at(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }
}

/// The value of a key in any case. Of several, Go's decoder takes the last of the sorted keys that is not null.
pub fn field<'a>(entries: &'a serde_json::Map<String, Value>, key: &str) -> Option<&'a Value> {
    let fits = |(k, v): &(&String, &Value)| k.eq_ignore_ascii_case(key) && !v.is_null();
    entries.iter().filter(fits).max_by_key(|(k, _)| *k).map(|(_, v)| v)
}

fn mismatch(value: &Value, path: &str, go_type: &'static str) -> MetadataError {
    MetadataError::Field { found: json_type(value), path: path.into(), wanted: go_type }
}

impl Metadata {
    /// An annotation of the chart.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(name).map(String::as_str)
    }

    /// Reads the fields of a document of Chart.yaml or requirements.yaml. Missing fields stay as they were.
    pub fn update(&mut self, document: &Value) -> Result<(), MetadataError> {
        if document.is_null() {
            return Ok(());
        }
        let r = Reader::new(document, "Metadata", "v2.Metadata")?;
        r.string("name", &mut self.name)?;
        r.string("home", &mut self.home)?;
        r.strings("sources", &mut self.sources)?;
        r.string("version", &mut self.version)?;
        r.string("description", &mut self.description)?;
        r.strings("keywords", &mut self.keywords)?;
        if let Some(items) = r.array("maintainers", "[]*v2.Maintainer")? {
            self.maintainers = items.iter().map(Maintainer::read).collect::<Result<_, _>>()?;
        }
        r.string("icon", &mut self.icon)?;
        r.string("apiVersion", &mut self.api_version)?;
        r.string("condition", &mut self.condition)?;
        r.string("tags", &mut self.tags)?;
        r.string("appVersion", &mut self.app_version)?;
        r.bool("deprecated", &mut self.deprecated)?;
        match r.get("annotations") {
            None => {}
            Some(Value::Object(entries)) => {
                let annotations = self.annotations.get_or_insert_default();
                for (key, value) in entries {
                    let text = scalar_text(value).ok_or_else(|| mismatch(value, "Metadata.annotations", "string"))?;
                    annotations.insert(key.clone(), text);
                }
            }
            Some(other) => return Err(mismatch(other, "Metadata.annotations", "map[string]string")),
        }
        r.string("kubeVersion", &mut self.kube_version)?;
        if let Some(items) = r.array("dependencies", "[]*v2.Dependency")? {
            self.has_dependencies = true;
            self.dependencies = items.iter().map(Dependency::read).collect::<Result<_, _>>()?;
        }
        r.string("type", &mut self.r#type)
    }

    /// Makes texts printable and checks what Helm checks, with its words.
    pub fn validate(&mut self) -> Result<(), MetadataError> {
        for text in [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ]
        .into_iter()
        .chain(&mut self.sources)
        .chain(&mut self.keywords)
        {
            sanitize(text);
        }
        let fail = |what| Err(MetadataError::Validation(what));
        if self.api_version.is_empty() {
            return fail("chart.metadata.apiVersion is required".into());
        }
        if self.name.is_empty() {
            return fail("chart.metadata.name is required".into());
        }
        if self.name == "." || self.name == ".." {
            return fail(format!("chart.metadata.name {} is not allowed", quoted(self.name.as_bytes())));
        }
        if self.name.contains('/') {
            return fail(format!("chart.metadata.name {} is invalid", quoted(self.name.as_bytes())));
        }
        if self.version.is_empty() {
            return fail("chart.metadata.version is required".into());
        }
        if !crate::template::version::is_version(&self.version) {
            return fail(format!("chart.metadata.version {} is invalid", quoted(self.version.as_bytes())));
        }
        if !matches!(self.r#type.as_str(), "" | "application" | "library") {
            return fail("chart.metadata.type must be application or library".into());
        }
        for maintainer in &mut self.maintainers {
            for text in [&mut maintainer.name, &mut maintainer.email, &mut maintainer.url] {
                sanitize(text);
            }
        }
        let mut seen: HashSet<&str> = HashSet::new();
        for dependency in &mut self.dependencies {
            dependency.validate()?;
        }
        for dependency in &self.dependencies {
            let key = if dependency.alias.is_empty() { &dependency.name } else { &dependency.alias };
            if !seen.insert(key) {
                return Err(MetadataError::Twice(quoted(key.as_bytes())));
            }
        }
        Ok(())
    }
}

impl Maintainer {
    fn read(value: &Value) -> Result<Self, MetadataError> {
        let mut maintainer = Self::default();
        if value.is_null() {
            return Err(MetadataError::Validation("maintainers must not contain empty or null nodes".into()));
        }
        let r = Reader::new(value, "Metadata.maintainers", "v2.Maintainer")?;
        r.string("name", &mut maintainer.name)?;
        r.string("email", &mut maintainer.email)?;
        r.string("url", &mut maintainer.url)?;
        Ok(maintainer)
    }
}

impl Dependency {
    /// Reads one entry of Chart.yaml or of a lock file.
    pub fn read(value: &Value) -> Result<Self, MetadataError> {
        let mut dependency = Self::default();
        if value.is_null() {
            return Err(MetadataError::Validation("dependencies must not contain empty or null nodes".into()));
        }
        let r = Reader::new(value, "Metadata.dependencies", "v2.Dependency")?;
        r.string("name", &mut dependency.name)?;
        r.string("version", &mut dependency.version)?;
        r.string("repository", &mut dependency.repository)?;
        r.string("condition", &mut dependency.condition)?;
        r.strings("tags", &mut dependency.tags)?;
        r.bool("enabled", &mut dependency.enabled)?;
        if let Some(items) = r.array("import-values", "[]interface {}")? {
            dependency.import_values.clone_from(items);
        }
        r.string("alias", &mut dependency.alias)?;
        Ok(dependency)
    }

    fn validate(&mut self) -> Result<(), MetadataError> {
        for text in [&mut self.name, &mut self.version, &mut self.repository, &mut self.condition] {
            sanitize(text);
        }
        self.tags.iter_mut().for_each(sanitize);
        if self.alias.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
            return Ok(());
        }
        let name = quoted(self.name.as_bytes());
        Err(MetadataError::Validation(format!("dependency {name} has disallowed characters in the alias")))
    }
}

/// White space becomes a space, and unprintable characters are removed.
fn sanitize(text: &mut String) {
    if text.bytes().all(|b| (b' '..0x7f).contains(&b)) {
        return;
    }
    *text = text.chars().filter_map(|c| if c.is_whitespace() { Some(' ') } else { is_print(c).then_some(c) }).collect();
}

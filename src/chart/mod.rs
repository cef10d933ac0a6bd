//! A chart at rest: what is in the directory or archive, before any template runs.

pub mod version;

use std::collections::BTreeMap;

/// A loaded chart. It holds no state of a rendering and can be shared between threads.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Chart.yaml.
    pub metadata: Metadata,
    /// `values.yaml`, as written (an object; numbers keep the text's value).
    pub values: serde_json::Map<String, serde_json::Value>,
    /// `values.schema.json`, if there is one.
    pub schema: Option<Vec<u8>>,
    /// Files in `templates/`, in the order they were loaded; names are relative to the chart (`templates/a.yaml`).
    pub templates: Vec<File>,
    /// All other files, as `.Files` sees them.
    pub files: Vec<File>,
    /// The charts in `charts/`.
    pub dependencies: Vec<Chart>,
}

/// A file of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path relative to the chart, with `/`.
    pub name: String,
    /// Content.
    pub data: Vec<u8>,
}

/// Chart.yaml.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are those of Chart.yaml, documented by Helm")]
pub struct Metadata {
    pub name: String,
    pub home: String,
    pub sources: Vec<String>,
    pub version: String,
    pub description: String,
    pub keywords: Vec<String>,
    pub maintainers: Vec<Maintainer>,
    pub icon: String,
    pub api_version: String,
    pub condition: String,
    pub tags: String,
    pub app_version: String,
    pub deprecated: bool,
    pub annotations: BTreeMap<String, String>,
    pub kube_version: String,
    pub dependencies: Vec<Dependency>,
    pub r#type: String,
}

/// A maintainer of a chart.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are those of Chart.yaml, documented by Helm")]
pub struct Maintainer {
    pub name: String,
    pub email: String,
    pub url: String,
}

/// An entry of `dependencies:` in Chart.yaml or requirements.yaml.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are those of Chart.yaml, documented by Helm")]
pub struct Dependency {
    pub name: String,
    pub version: String,
    pub repository: String,
    pub condition: String,
    pub tags: Vec<String>,
    pub enabled: bool,
    #[serde(rename = "import-values")]
    pub import_values: Vec<serde_json::Value>,
    pub alias: String,
}

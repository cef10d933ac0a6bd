//! A chart at rest: what is in the directory or archive, before any template runs.

mod ignore;
mod load;
mod metadata;
pub mod pattern;
pub mod strvals;
pub mod values;
pub mod version;

use crate::template::jinja;
pub use load::{Limits, LoadError, go_io, load, load_archive};
pub use metadata::{Dependency, Maintainer, Metadata};
use std::sync::Arc;

/// Values of a chart or of a user: a JSON object. Numbers that came out of YAML are floats, those of `--set` and
/// of a custom resource may be integers; see [`crate::template::value::Value`].
pub type Values = serde_json::Map<String, serde_json::Value>;

/// A loaded chart. It holds no state of a rendering and can be shared between threads.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Chart.yaml.
    pub metadata: Metadata,
    /// Chart.lock or requirements.lock, as JSON.
    pub lock: Option<serde_json::Value>,
    /// `values.yaml`.
    pub values: Values,
    /// `values.schema.json`, if there is one.
    pub schema: Option<Vec<u8>>,
    /// Files in `templates/`, in the order they were loaded; names are relative to the chart (`templates/a.yaml`).
    pub templates: Vec<File>,
    /// All other files, as `.Files` sees them.
    pub files: Arc<Vec<File>>,
    /// The charts in `charts/`, in the order of their names.
    pub dependencies: Vec<Chart>,
}

impl Chart {
    /// The files of `crds/`, which Helm installs before anything else; not those of dependencies.
    pub fn crds(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|f| {
            let extension = f.name.rsplit_once('.').map_or("", |(_, e)| e);
            f.name.starts_with("crds/") && ["yaml", "yml", "json"].iter().any(|e| extension.eq_ignore_ascii_case(e))
        })
    }

    /// Whether the templates are written in minijinja: the annotation says so, never a file's name.
    pub fn is_minijinja(&self) -> bool {
        self.metadata.annotations.get("tillerman.dev/engine").is_some_and(|e| e == "minijinja")
    }

    /// The compiled templates of a minijinja chart, whose names start with `path`.
    pub fn jinja(&self, path: &str) -> Result<jinja::Templates, jinja::JinjaError> {
        let texts: Vec<_> =
            self.templates.iter().map(|f| (format!("{path}/{}", f.name), String::from_utf8_lossy(&f.data))).collect();
        jinja::Templates::compile(texts.iter().map(|(name, text)| (name.clone(), text.as_ref())))
    }

    /// Whether the chart is a library: it offers `define`s and cannot be installed.
    pub fn is_library(&self) -> bool {
        self.metadata.r#type.eq_ignore_ascii_case("library")
    }
}

/// A file of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path relative to the chart, with `/`.
    pub name: String,
    /// Content, without a byte order mark.
    pub data: Vec<u8>,
}

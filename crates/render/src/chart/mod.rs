//! A chart at rest: the content of the directory or archive, before any template runs.

pub mod floats;
mod ignore;
pub mod lines;
mod load;
mod metadata;
pub mod pack;
pub mod pattern;
pub mod schema_documents;
pub mod strvals;
pub mod values;

use crate::template::jinja;
pub use load::go_io;
pub use load::{ChartLimits, LoadError, load, load_archive, load_files};
pub use load::{archive_files, directory_files};
pub use metadata::field;
pub use metadata::{Dependency, Maintainer, Metadata, MetadataError};
pub use schema_documents::{SchemaDocument, SchemaDocuments};
use std::any::Any;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The annotation of Chart.yaml that names the text engine of the templates: `minijinja`.
pub const ENGINE: &str = "tillerman.dev/engine";

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
    /// The text of `values.yaml`, with its comments.
    pub values_text: Option<Arc<Vec<u8>>>,
    /// `values.schema.json`, if there is one.
    pub schema: Option<Vec<u8>>,
    /// Documents that the schema refers to and that are not in the chart.
    pub schema_documents: Arc<SchemaDocuments>,
    /// Files in `templates/`, in the order they were loaded; names are relative to the chart (`templates/a.yaml`).
    pub templates: Vec<File>,
    /// All other files, as `.Files` sees them.
    pub files: Arc<Vec<File>>,
    /// The charts in `charts/`, in the order of their names.
    pub dependencies: Vec<Chart>,
    /// The data that renderings keep with the chart for the next one.
    pub memory: Memory,
}

/// Caches of results that are expensive to compute and depend on the chart only; empty in a new one.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The parsed Go templates of the chart and its dependencies, as the last rendering needed them.
    pub templates: Kept,
    /// The compiled minijinja templates of the chart, with those of its dependencies, which it may import.
    pub jinja: Kept,
    /// The compiled schema.
    pub schema: Kept,
    /// The keys that the chart knows at the top of its values.
    pub known: Kept,
}

/// The last one made of something.
#[derive(Default)]
pub struct Kept(Mutex<Option<Arc<dyn Any + Send + Sync>>>);

impl Kept {
    /// The cached value, if it fits. Otherwise a new one, which is cached.
    pub fn get_or_make<T: Any + Send + Sync, E>(
        &self,
        fits: impl FnOnce(&T) -> bool,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let kept = self.lock().clone().and_then(|kept| kept.downcast::<T>().ok());
        if let Some(kept) = kept.filter(|kept| fits(kept)) {
            return Ok(kept);
        }
        let new = Arc::new(make()?);
        *self.lock() = Some(Arc::clone(&new) as Arc<dyn Any + Send + Sync>);
        Ok(new)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<dyn Any + Send + Sync>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for Kept {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.lock().clone()))
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.lock().is_some() { "Kept(made)" } else { "Kept(empty)" })
    }
}

impl Chart {
    /// Gives the schemas of the chart and its dependencies these documents to refer to.
    pub fn refer_to(&mut self, documents: &Arc<SchemaDocuments>) {
        self.schema_documents = Arc::clone(documents);
        // A clone shares the compiled schema with a chart that has other documents.
        self.memory.schema = Kept::default();
        self.dependencies.iter_mut().for_each(|dependency| dependency.refer_to(documents));
    }

    /// The files of `crds/`, which Helm installs before anything else; not those of dependencies.
    pub fn crds(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|f| {
            let extension = f.name.rsplit_once('.').map_or("", |(_, e)| e);
            f.name.starts_with("crds/") && ["yaml", "yml", "json"].iter().any(|e| extension.eq_ignore_ascii_case(e))
        })
    }

    /// Drops the text of values.yaml, which only a reader of its comments needs, here and in the dependencies.
    pub fn forget_texts(&mut self) {
        self.values_text = None;
        self.dependencies.iter_mut().for_each(Self::forget_texts);
    }

    /// Whether the templates are written in minijinja. The annotation decides, not the name of a file.
    pub fn is_minijinja(&self) -> bool {
        self.metadata.annotation(ENGINE).is_some_and(|e| e == "minijinja")
    }

    /// The template of a minijinja chart that makes the values of a dependency, by the key of these values, if the chart has one.
    pub fn values_template(&self, dependency: &str) -> Option<&str> {
        if !self.is_minijinja() {
            return None;
        }
        let is_it = |name: &str| {
            let name = name.strip_prefix("templates/_").and_then(|name| name.strip_suffix(".values.yaml"));
            name == Some(dependency)
        };
        self.templates.iter().map(|file| &*file.name).find(|name| is_it(name))
    }

    /// The compiled templates of a minijinja chart, whose names start with `path`: those of an earlier rendering, if the
    /// templates are the same.
    pub fn jinja(&self, path: &str) -> Result<Arc<jinja::Templates>, jinja::JinjaError> {
        let mut texts = Vec::new();
        self.add_jinja(path, &mut texts);
        let own = self.templates.len();
        self.memory.jinja.get_or_make(
            |made: &jinja::Templates| made.are_made_of(own, &texts),
            || jinja::Templates::compile(own, &texts),
        )
    }

    fn add_jinja<'c>(&'c self, path: &str, texts: &mut Vec<(String, Cow<'c, str>)>) {
        let own =
            self.templates.iter().map(|file| (format!("{path}/{}", file.name), String::from_utf8_lossy(&file.data)));
        texts.extend(own);
        for dependency in self.dependencies.iter().filter(|dependency| dependency.is_minijinja()) {
            dependency.add_jinja(&format!("{path}/charts/{}", dependency.metadata.name), texts);
        }
    }

    /// Whether the chart is a library, which offers `define`s and cannot be installed.
    pub fn is_library(&self) -> bool {
        self.metadata.r#type.eq_ignore_ascii_case("library")
    }
}

/// A file of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path relative to the chart, with `/`.
    pub name: String,
    /// Content, without a byte order mark; shared, because rendered values have it too.
    pub data: Arc<Vec<u8>>,
}

//! The functions that a program needs to render charts, in a few calls.

use std::path::Path;

use crate::chart::strvals::{self, Mode};
use crate::chart::values::ValuesError;
use crate::chart::{self, Chart, LoadError, Values};
use crate::render::{self, Capabilities, Diagnostic, Options, Release, Rendered};
use crate::template::function::Function;

/// Loads the chart directory or `.tgz` archive at a path.
///
/// # Errors
/// The text that Helm prints for a chart that it cannot load.
pub fn load(path: impl AsRef<Path>) -> Result<Chart, LoadError> {
    chart::load(path.as_ref())
}

/// Loads a chart from the bytes of a gzipped tar archive.
///
/// # Errors
/// As [`load`]; also if the archive unpacks to more than [`crate::ChartLimits`] allows.
pub fn load_archive(data: &[u8]) -> Result<Chart, LoadError> {
    chart::load_archive(data, &chart::ChartLimits::default())
}

/// Reads the text of a values file.
///
/// # Errors
/// If it is not YAML, or not a map.
pub fn values(text: &str) -> Result<Values, ValuesError> {
    chart::values::load(text.as_bytes())
}

/// Renders a chart. One chart can be rendered any number of times, from several threads: it remembers its parsed templates and its
/// compiled schema.
#[derive(Clone)]
pub struct Renderer<'c> {
    chart: &'c Chart,
    values: Values,
    release: Release,
    capabilities: Capabilities,
    options: Options,
}

impl<'c> Renderer<'c> {
    /// Renders the chart with its defaults, as the first revision of a release `name` in a namespace.
    pub fn new(chart: &'c Chart, name: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self {
            chart,
            values: Values::new(),
            release: Release::new(name, namespace),
            capabilities: Capabilities::default(),
            options: Options::default(),
        }
    }

    /// Adds values, which override those that were given before, as a further `--values` of Helm does.
    #[must_use]
    pub fn values(mut self, values: Values) -> Self {
        chart::values::merge(&mut self.values, values);
        self
    }

    /// Sets values as Helm's `--set` does, such as `image.tag=1.2,replicas=3`.
    ///
    /// # Errors
    /// [`ValuesError::Argument`] for an argument that cannot be read.
    pub fn set(mut self, argument: &str) -> Result<Self, ValuesError> {
        strvals::apply(argument, &mut self.values, &Mode::Typed)?;
        Ok(self)
    }

    /// Which release it is: for an upgrade, its revision.
    #[must_use]
    pub fn release(self, release: Release) -> Self {
        Self { release, ..self }
    }

    /// The facts about the cluster that templates see. The default is what Helm assumes without a cluster.
    #[must_use]
    pub fn capabilities(self, capabilities: Capabilities) -> Self {
        Self { capabilities, ..self }
    }

    /// Adds a function that the chart's Go templates may call, beside those of Helm. It hides one of Helm's with the same name, but not
    /// `include`, `tpl`, `required`, `fail`, `lookup` and what Go's templates themselves perform.
    #[must_use]
    pub fn function(self, function: &'static Function) -> Self {
        Self { options: self.options.function(function), ..self }
    }

    /// Limits, the surroundings that template functions may ask, and whether values are checked with the schema.
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Renders.
    ///
    /// # Errors
    /// Where the rendering failed and why, in Helm's words, with an explanation.
    pub fn render(&self) -> Result<Rendered, Diagnostic> {
        render::render(self.chart, &self.values, &self.release, &self.capabilities, &self.options)
    }
}

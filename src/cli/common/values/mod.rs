//! The values of a release, and the source of each.

pub mod layers;
pub mod live;
pub mod paths;
pub mod rows;

use super::error::CliError;
use super::line::line;
use crate::chart::Chart;
use crate::render::Diagnostic;
use layers::Layers;

/// A chart and the values that a custom resource gives it.
pub struct Subject {
    pub chart: Chart,
    /// The values.
    pub layers: Layers,
    /// The release: namespace and name.
    pub release: (String, String),
}

impl Subject {
    /// The error of a merge or a rendering, without secrets.
    pub fn failed(&self, error: &Diagnostic) -> CliError {
        CliError(line(&self.layers.clean(&error.to_string())))
    }
}

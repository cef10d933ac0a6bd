//! Why a chart could not be rendered.

use super::explain::{self, Explanation};
use crate::template::{go, jinja};

/// Why a chart could not be rendered.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Diagnostic {
    /// Helm's text, without `Error: `. It may quote the chart and its values.
    pub message: String,
    /// Where, as `FILE:LINE:COLUMN`, when known.
    pub at: Option<String>,
    /// Whether rendering had begun: Helm then adds its advice about `--debug`.
    pub rendering: bool,
    /// The place in the chart, the way there, and hints.
    pub explanation: Box<Explanation>,
    /// Whether the chart is not to blame: Tillerman itself failed on it.
    pub is_fault: bool,
}

impl Diagnostic {
    /// One of the values or the chart, before rendering began.
    pub(super) fn values(message: impl Into<String>) -> Self {
        Self { message: message.into(), at: None, rendering: false, is_fault: false, explanation: Box::default() }
    }

    /// One of rendering.
    pub fn rendering(message: impl Into<String>) -> Self {
        Self { rendering: true, ..Self::values(message) }
    }

    /// The values that a schema refuses.
    pub(super) fn invalid(text: String, chart: &str) -> Self {
        let violations = explain::violations(&text, chart);
        let explanation = Box::new(Explanation { violations, ..Explanation::default() });
        Self { explanation, ..Self::values(text) }
    }

    /// A panic. Its message may contain values, so it is not shown.
    pub(super) fn fault(chart: &str) -> Self {
        let message =
            format!("tillerman failed with an internal error while it rendered chart {chart}; please report it");
        Self { is_fault: true, ..Self::rendering(message) }
    }
}

impl From<go::Error> for Diagnostic {
    fn from(e: go::Error) -> Self {
        let at = e.trace.last().map(ToString::to_string);
        let missing = e.missing.map(|missing| *missing);
        let explanation = Explanation { trace: e.trace, missing, ..Explanation::default() };
        Self { at, explanation: Box::new(explanation), ..Self::rendering(e.message) }
    }
}

impl From<jinja::JinjaError> for Diagnostic {
    fn from(e: jinja::JinjaError) -> Self {
        let missing = e.missing.map(|missing| *missing);
        let explanation = Explanation { trace: e.trace, missing, ..Explanation::default() };
        Self { at: e.at, explanation: Box::new(explanation), ..Self::rendering(e.message) }
    }
}

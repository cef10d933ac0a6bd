//! The error of minijinja charts.

use super::trace::{Location, Missing};

/// Why a template cannot be used or failed. The text never holds a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct JinjaError {
    /// The fault, with file and line in front.
    pub message: String,
    /// `FILE:LINE:COLUMN`, as far as known.
    pub at: Option<String>,
    /// The places that were being executed, from the rendered file inwards.
    pub trace: Vec<Location>,
    /// The name that the innermost place looked for and did not find, if that was the cause.
    pub missing: Option<Box<Missing>>,
}

//! The error of a command.

use crate::source::SourceError;

/// An error to be printed after `Error: `.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CliError(pub String);

impl CliError {
    /// An error with this text.
    pub fn new(text: impl std::fmt::Display) -> Self {
        Self(text.to_string())
    }
}

impl From<SourceError> for CliError {
    fn from(e: SourceError) -> Self {
        Self(e.0)
    }
}

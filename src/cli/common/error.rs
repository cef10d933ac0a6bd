//! The errors of commands.

use crate::chaos::ChaosError;
use crate::crd::CrdError;
use crate::lint::LintError;
use crate::object::field_error::FieldError;
use crate::scaffold::ScaffoldError;
use crate::source::SourceError;
use crate::template::yaml::EmitError;

/// An error to be printed after `Error: `.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CliError(pub String);

impl CliError {
    /// An error with this text.
    pub fn new(text: impl std::fmt::Display) -> Self {
        Self(text.to_string())
    }
}

/// Why a flag does not take a text as its value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FlagError(pub String);

macro_rules! texts {
    ($error:ty: $($cause:ty),+) => {$(
        impl From<$cause> for $error {
            fn from(cause: $cause) -> Self {
                Self(cause.to_string())
            }
        }
    )+};
}
texts!(CliError: &str, String, ChaosError, CrdError, EmitError, FieldError, LintError, ScaffoldError, SourceError);
texts!(FlagError: &str, String);

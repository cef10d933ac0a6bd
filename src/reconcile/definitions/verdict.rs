//! The result of a step of a definition.

use crate::chart::Metadata;
use crate::cluster::error::ApiError;
use crate::crd::Names;
use crate::definition::DefinitionReason;

/// The result of a step.
pub struct Verdict {
    pub reason: DefinitionReason,
    pub message: String,
    pub served: Option<Box<(Metadata, Names)>>,
}

impl Verdict {
    pub fn new(reason: DefinitionReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), served: None }
    }

    pub fn failed(error: &ApiError) -> Self {
        Self::new(DefinitionReason::Failed, error.to_string())
    }
}

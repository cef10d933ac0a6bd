//! The error of this folder.

use crate::template::budget::Spent;

/// Why patches cannot be read or applied, as a sentence that quotes no values.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// [`Spent::Steps`]
    #[error("they take more than {0} steps")]
    Steps(u64),
    /// [`Spent::Memory`]
    #[error("they make more than {0} bytes of values")]
    Memory(u64),
    /// A path leads nowhere.
    #[error("there is nothing at {0}")]
    Nothing(String),
    /// A part of a selector has another form.
    #[error("target: {0:?} is not a term of a selector")]
    Term(String),
    /// Any other sentence.
    #[error("{0}")]
    Other(String),
}

impl From<Spent> for PatchError {
    fn from(spent: Spent) -> Self {
        match spent {
            Spent::Steps(limit) => Self::Steps(limit),
            Spent::Memory(limit) => Self::Memory(limit),
            Spent::Stopped => Self::Other(spent.to_string()),
        }
    }
}

impl From<String> for PatchError {
    fn from(sentence: String) -> Self {
        Self::Other(sentence)
    }
}

impl From<&str> for PatchError {
    fn from(sentence: &str) -> Self {
        Self::Other(sentence.into())
    }
}

impl From<PatchError> for String {
    fn from(error: PatchError) -> Self {
        error.to_string()
    }
}

//! The error of this folder.

use std::string::FromUtf8Error;

/// Why a notice, or a template of it, cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoticeError {
    /// A word that the grammar does not have.
    #[error("the {what} {word:?} does not exist here, only {}", known.join(", "))]
    Unknown {
        /// What it is.
        what: &'static str,
        /// The word.
        word: String,
        /// Those that the grammar has.
        known: &'static [&'static str],
    },
    /// Something is in the place of something else.
    #[error("{found} where {wanted}")]
    Misplaced {
        /// What is there.
        found: String,
        /// What is expected there.
        wanted: String,
    },
    /// A fault in a line.
    #[error("line {line}: {why}")]
    Line {
        /// From 1.
        line: usize,
        /// The fault.
        why: Box<Self>,
    },
    /// Another fault, as a sentence.
    #[error("{0}")]
    Other(String),
}

impl From<NoticeError> for String {
    fn from(error: NoticeError) -> Self {
        error.to_string()
    }
}

impl From<&str> for NoticeError {
    fn from(sentence: &str) -> Self {
        Self::Other(sentence.into())
    }
}

impl From<String> for NoticeError {
    fn from(sentence: String) -> Self {
        Self::Other(sentence)
    }
}

impl From<FromUtf8Error> for NoticeError {
    fn from(error: FromUtf8Error) -> Self {
        Self::Other(error.to_string())
    }
}

/// Without the debugging information of the error.
impl From<minijinja::Error> for NoticeError {
    fn from(error: minijinja::Error) -> Self {
        let line = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
        let deepest = std::iter::successors(std::error::Error::source(&error), |error| error.source()).last();
        let cause = deepest.map(|cause| format!(": {cause}")).unwrap_or_default();
        let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
        Self::Other(format!("{line}{}{detail}{cause}", error.kind()))
    }
}

//! The error of schemas, with and without the feature `schema`.

/// Why values do not fit a schema, or a schema cannot be compiled; the words are Helm's.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SchemaError(pub String);

impl From<String> for SchemaError {
    fn from(text: String) -> Self {
        Self(text)
    }
}

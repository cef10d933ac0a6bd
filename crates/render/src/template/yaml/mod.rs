//! YAML in and out as Helm does it: sigs.k8s.io/yaml over go.yaml.in/yaml/v2, with JSON in between.

mod block;
mod decode;
mod directives;
pub mod document;
mod document_write;
mod emit;
mod fetch;
mod gotype;
mod head;
mod node;
mod parser;
mod queue;
mod reader;
pub mod resolve;
mod scalars;
mod scanner;

use std::fmt;

pub use decode::{parse, parse_value};
pub use document_write::write as write_documents;
pub use emit::{EmitError, emit, emit_pretty, of_json};
pub use head::{Head, head};

/// Go's limit of nested flow collections, of nested block collections, and of nesting in JSON.
const MAX_LEVELS: usize = 10_000;

/// A result whose error is go-yaml's text.
type Fallible<T> = Result<T, Box<str>>;

/// Why text could not be read; the words are Go's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlError(pub String);

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for YamlError {}

/// The documents of a `values.yaml`, as Kubernetes' `YAMLReader` splits them: at lines that begin with `---`.
///
/// Documents without any line before the next separator are left out. Text after a separator is an error,
/// unless it is a comment.
pub fn split_documents(text: &[u8]) -> Result<Vec<Vec<u8>>, YamlError> {
    let mut documents = Vec::new();
    let mut current: Vec<u8> = Vec::new();
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    if text.is_empty() {
        return Ok(documents);
    }
    for line in text.split(|&b| b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(rest) = line.strip_prefix(b"---") {
            let rest = String::from_utf8_lossy(rest);
            let rest = rest.trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                return Err(YamlError(format!("invalid Yaml document separator: {rest}")));
            }
            if !current.is_empty() {
                documents.push(std::mem::take(&mut current));
                continue;
            }
        }
        current.extend_from_slice(line);
        current.push(b'\n');
    }
    if !current.is_empty() {
        documents.push(current);
    }
    Ok(documents)
}

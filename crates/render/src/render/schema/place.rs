//! Addresses of schemas: a URL, and a JSON pointer into the document there.

use super::draft;
use super::error::escaped;
use crate::render::schema_error::SchemaError;
use crate::template::functions::text::quoted;
use crate::template::functions::url::Url;
use crate::template::value::Value;
use std::fmt::{Display, Formatter};

/// The place of a schema.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SchemaPlace {
    /// Of the document, without a fragment.
    pub url: String,
    /// Empty, or keys each after a `/`.
    pub pointer: String,
}

impl Display for SchemaPlace {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}#{}", self.url, encoded(&self.pointer))
    }
}

/// A fragment as it is written in a URL.
pub fn encoded(fragment: &str) -> String {
    fragment.split('/').map(Url::escape_segment).collect::<Vec<_>>().join("/")
}

/// One key further.
pub fn below(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", escaped(key))
}

/// An address taken apart; the fragment is decoded.
pub fn split(text: &str) -> Result<(&str, String), SchemaError> {
    let (url, fragment) = text.split_once('#').unwrap_or((text, ""));
    let fragment = Url::unescape_segment(fragment).map_err(|e| format!("error in parsing {}: {e}", quoted(text)))?;
    Ok((url, fragment))
}

/// The address that a reference means at a base, and its fragment.
pub fn join(base: &str, reference: &str) -> Result<(String, String), SchemaError> {
    let parse =
        |text: &str| Url::parse(text).map_err(|e| format!("error in parsing {0}: parse {0}: {e}", quoted(text)));
    let base = parse(base)?;
    let (reference, fragment) = split(reference)?;
    Ok((base.resolve(&parse(reference)?), fragment))
}

impl SchemaPlace {
    /// The place one key further.
    pub fn child(&self, key: &str) -> Self {
        Self { url: self.url.clone(), pointer: below(&self.pointer, key) }
    }

    /// The value at a place in a document.
    pub fn lookup(&self, document: &Value) -> Result<Value, SchemaError> {
        let mut value = document.clone();
        for key in self.pointer.split('/').skip(1) {
            let key = unescaped(key).ok_or_else(|| format!("invalid json-pointer {}", quoted(&self.to_string())))?;
            let found = match &value {
                Value::Map(map) => map.get(&key),
                Value::List(list) => key.parse::<usize>().ok().and_then(|i| list.items.get(i).cloned()),
                _ => None,
            };
            value = found.ok_or_else(|| format!("json-pointer in {} not found", quoted(&self.to_string())))?;
        }
        Ok(value)
    }
}

fn unescaped(key: &str) -> Option<String> {
    let mut parts = key.split('~');
    let mut out = parts.next()?.to_owned();
    for part in parts {
        let rest = part.strip_prefix('0').map(|rest| ('~', rest));
        let (c, rest) = rest.or_else(|| part.strip_prefix('1').map(|rest| ('/', rest)))?;
        out.push(c);
        out.push_str(rest);
    }
    Some(out)
}

/// A document that is not the chart's own: a draft's, or none, because rendering opens no socket and no file.
pub fn load(url: &str) -> Result<Value, SchemaError> {
    if let Some(document) = draft::metaschema(url) {
        return Ok(document);
    }
    let reason = match Url::parse(url) {
        Err(e) => format!("parse {}: {e}", quoted(url)),
        Ok(parsed) => match parsed.scheme() {
            // Helm takes everything for good here.
            "urn" => return Ok(Value::Bool(true)),
            // As Helm says on a machine that has no such file.
            "file" => format!("open {}: no such file or directory", parsed.path()),
            "http" | "https" => "schemas are not fetched during rendering; name a file or any for this address in schemaDocuments of watches.yaml".into(),
            _ => format!("no URLLoader registered for {}", quoted(url)),
        },
    };
    Err(format!("failing loading {}: {reason}", quoted(url)).into())
}

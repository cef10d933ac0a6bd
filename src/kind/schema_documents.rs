//! `schemaDocuments` of `watches.yaml`: documents that the schema of a chart refers to and that are not in the chart.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::bounds;
use crate::chart::{SchemaDocument, SchemaDocuments};
use crate::object::field_error::FieldError;

const FIELD: &str = "schemaDocuments";

/// Where a document is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaSource {
    /// Nowhere: every value is accepted.
    Any,
    /// In a file of the operator.
    File(PathBuf),
}

/// Reads the field: a map from addresses to `any` or paths, which are relative to `base`.
pub fn parse(value: &Value, base: &Path) -> Result<BTreeMap<String, SchemaSource>, FieldError> {
    let map = match value {
        Value::Null => return Ok(BTreeMap::new()),
        Value::Object(map) => map,
        _ => return Err(FieldError::must_be(FIELD, "a map from addresses to any or paths")),
    };
    if map.len() > bounds::SCHEMA_DOCUMENTS {
        let limit = bounds::SCHEMA_DOCUMENTS;
        return Err(format!("{FIELD} has {} addresses; the limit is {limit}", map.len()).into());
    }
    let read = |(url, source): (&String, &Value)| {
        let source = entry(url, source, base).map_err(FieldError::within(format!("{FIELD}: {url:?}")))?;
        Ok((url.clone(), source))
    };
    map.iter().map(read).collect()
}

fn entry(url: &str, source: &Value, base: &Path) -> Result<SchemaSource, FieldError> {
    bounds::word(url)?;
    if !["https://", "http://", "file://"].iter().any(|scheme| url.starts_with(scheme)) || url.contains('#') {
        return Err("an address begins with https://, http:// or file:// and has no fragment".into());
    }
    let text = source.as_str().ok_or("must be any or the path of a file")?;
    bounds::word(text)?;
    match text {
        "" => Err("must be any or the path of a file".into()),
        "any" => Ok(SchemaSource::Any),
        _ if url.ends_with('/') => Err("a file is one document; an address that ends in / can only be any".into()),
        path => Ok(SchemaSource::File(base.join(path))),
    }
}

/// Reads the files.
///
/// # Errors
/// If a file cannot be read, or is larger than a schema may be. The error names it.
pub fn load(sources: &BTreeMap<String, SchemaSource>) -> Result<SchemaDocuments, FieldError> {
    let read = |path: &Path| {
        let text = std::fs::read(path).map_err(|e| e.to_string())?;
        bounds::SCHEMA_DOCUMENT.text(&text)?;
        Ok::<_, FieldError>(text)
    };
    let document = |source: &SchemaSource| match source {
        SchemaSource::Any => Ok(SchemaDocument::Any),
        SchemaSource::File(path) => {
            read(path).map(SchemaDocument::Text).map_err(FieldError::within(format!("{FIELD}: {}", path.display())))
        }
    };
    let documents = sources.iter().map(|(url, source)| Ok((url.clone(), document(source)?)));
    documents.collect::<Result<_, FieldError>>().map(SchemaDocuments)
}

#[cfg(test)]
mod tests {
    use super::{SchemaSource, load, parse};
    use serde_json::json;
    use std::path::Path;

    #[test]
    fn addresses_lead_to_files_or_to_anything() {
        let base = Path::new("/opt/helm");
        let read = |value: serde_json::Value| parse(&value, base);
        let found = read(json!({"https://a.example/": "any", "https://b.example/x.json": "schemas/x.json"})).unwrap();
        assert_eq!(found["https://a.example/"], SchemaSource::Any);
        assert_eq!(found["https://b.example/x.json"], SchemaSource::File("/opt/helm/schemas/x.json".into()));
        for (value, expected) in [
            (json!(["x"]), "must be a map"),
            (json!({"x.json": "any"}), "an address begins with"),
            (json!({"https://a.example/#x": "any"}), "has no fragment"),
            (json!({"https://a.example/": "x.json"}), "can only be any"),
            (json!({"https://a.example/x": 1}), "must be any or the path"),
        ] {
            let error = read(value).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_missing_is_named() {
        let sources = [("https://a.example/x".to_owned(), SchemaSource::File("/nowhere/x.json".into()))].into();
        let error = load(&sources).unwrap_err().to_string();
        assert!(error.contains("/nowhere/x.json"), "{error}");
    }
}

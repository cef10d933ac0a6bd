//! Values in files: one or more YAML documents, the later over the earlier.

use super::Values;
use crate::template::go::number;
use crate::template::yaml;
use serde_json::Value;
use std::borrow::Cow;

/// A values file, or an argument that sets values, that is not valid.
#[derive(Debug, thiserror::Error)]
pub enum ValuesError {
    /// The text after a `---` is neither white space nor a comment.
    #[error("error reading yaml document: invalid Yaml document separator: {0}")]
    Separator(String),
    /// A document is not YAML, or not a mapping.
    #[error("cannot unmarshal yaml document: {0}")]
    Document(String),
    /// An argument as of `--set` that cannot be read; Helm's text.
    #[error("{0}")]
    Argument(String),
}

/// Reads all documents of a values file and merges them.
pub fn load(data: &[u8]) -> Result<Values, ValuesError> {
    let mut values = Values::new();
    for document in documents(data) {
        match yaml::parse(&document?).map_err(|e| ValuesError::Document(e.to_string()))? {
            Value::Object(map) => merge(&mut values, map),
            Value::Null => {}
            other => {
                return Err(ValuesError::Document(format!(
                    "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type \
                     map[string]interface {{}}",
                    json_type(&other)
                )));
            }
        }
    }
    Ok(values)
}

/// A scalar where Go wants a string: `sigs.k8s.io/yaml` writes numbers and booleans out. `None` for lists and maps.
pub fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Bool(b) => Some(b.to_string()),
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => {
            let f = n.as_f64()?;
            // 2^53: up to there a whole number is exact, and was an integer in the text.
            if f.fract() == 0.0 && f.abs() < 9_007_199_254_740_992.0 {
                return Some(format!("{f:.0}"));
            }
            Some(number::format_float(f, b'g', None))
        }
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// How Go's `encoding/json` names the type of a JSON value in its errors.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Splits at lines that start with `---`. A separator before any text stays with its document, as in
/// `k8s.io/apimachinery`'s reader. A wrong separator is found after the document before it has been read, and ends the reading.
fn documents(data: &[u8]) -> impl Iterator<Item = Result<Cow<'_, [u8]>, ValuesError>> {
    let mut start = 0;
    let mut separator = if data.starts_with(SEPARATOR) { Some(0) } else { next_separator(data, 0) };
    std::iter::from_fn(move || {
        while let Some(line) = separator {
            let end = memchr::memchr(b'\n', &data[line..]).map_or(data.len(), |length| line + length + 1);
            let rest = String::from_utf8_lossy(&data[line + SEPARATOR.len()..end]);
            let rest = rest.trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                return Some(Err(ValuesError::Separator(rest.into())));
            }
            separator = next_separator(data, end - 1);
            if line > start {
                return Some(Ok(lines(&data[std::mem::replace(&mut start, end)..line])));
            }
        }
        let last = &data[std::mem::replace(&mut start, data.len())..];
        (!last.is_empty()).then(|| Ok(lines(last)))
    })
}

const SEPARATOR: &[u8] = b"---";

/// Where the first line that starts with `---` after a line break at `from` or later begins.
fn next_separator(data: &[u8], from: usize) -> Option<usize> {
    memchr::memmem::find(&data[from..], b"\n---").map(|length| from + length + 1)
}

/// The text with a line feed at the end of every line, including the last: as the reader returns it.
fn lines(text: &[u8]) -> Cow<'_, [u8]> {
    if text.ends_with(b"\n") && memchr::memmem::find(text, b"\r\n").is_none() {
        return Cow::Borrowed(text);
    }
    let line = |line: &[u8]| line.strip_suffix(b"\r\n").or(line.strip_suffix(b"\n")).unwrap_or(line).to_vec();
    let lines = text.split_inclusive(|b| *b == b'\n').flat_map(|text| line(text).into_iter().chain([b'\n']));
    Cow::Owned(lines.collect())
}

/// Merges `over` into `base`: maps are merged, anything else is replaced, also by null.
pub fn merge(base: &mut Values, over: Values) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => merge(below, above),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::documents;

    #[test]
    fn documents_are_split_at_separator_lines_only() {
        let split = |s: &str| {
            let documents: Result<Vec<_>, _> = documents(s.as_bytes()).collect();
            documents.map(|d| d.iter().map(|d| String::from_utf8(d.to_vec()).unwrap()).collect::<Vec<_>>())
        };
        assert_eq!(split("a: 1\n---\nb: 2\n").unwrap(), ["a: 1\n", "b: 2\n"]);
        assert_eq!(split("---\na: 1\n--- # two\nb: 2").unwrap(), ["---\na: 1\n", "b: 2\n"]);
        assert_eq!(split("a: 1\r\n---\r\nb: 2\r\r\n\r").unwrap(), ["a: 1\n", "b: 2\r\n\r\n"]);
        assert_eq!(split("---\n---\na: 1\n---").unwrap(), ["---\n", "a: 1\n"]);
        assert_eq!((split("").unwrap(), split("---").unwrap()), (vec![], vec!["---\n".to_owned()]));
        assert!(split("a: 1\n--- b\n").is_err());
    }

    #[test]
    fn what_stands_before_a_wrong_separator_is_read_first() {
        let error = |s: &str| super::load(s.as_bytes()).unwrap_err().to_string();
        assert!(error("a: 1\n---\n- b\n---- c\n").contains("separator: - c"));
        assert!(error("a: 1\n--\n---\n---- \nb: 2").contains("could not find expected ':'"));
    }
}

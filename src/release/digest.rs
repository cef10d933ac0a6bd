//! Digests: of JSON independent of key order, of a chart, and of everything that a release was rendered from.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::chart::{Chart, File, SchemaDocument, SchemaDocuments};

/// Changed by hand when a new version of Tillerman renders the same inputs differently and the result must reach the
/// cluster. It is not the version of the package, or a chart's random functions would run again on each upgrade.
const RENDERING: &str = "1";

/// Characters of a digest that are kept: 128 bits, so that two inputs do not collide by chance or by intent.
const LENGTH: usize = 32;

/// A running digest.
#[derive(Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Adds text; the length goes in too, so that `ab, c` and `a, bc` differ.
    pub fn text(&mut self, text: impl AsRef<[u8]>) -> &mut Self {
        let bytes = text.as_ref();
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// Adds JSON; the order of keys does not matter.
    pub fn json(&mut self, value: &Value) -> &mut Self {
        match value {
            Value::Object(map) => self.map(map),
            Value::Array(items) => {
                self.0.update([b'[']);
                self.0.update((items.len() as u64).to_le_bytes());
                for item in items {
                    self.json(item);
                }
                self
            }
            Value::String(s) => {
                self.0.update([b'"']);
                self.text(s)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.0.update([b'.']);
                self.text(value.to_string())
            }
        }
    }

    /// Adds a JSON object; the order of keys does not matter.
    pub fn map(&mut self, map: &Map<String, Value>) -> &mut Self {
        let mut keys: Vec<&String> = map.keys().collect();
        keys.sort_unstable();
        self.0.update([b'{']);
        self.0.update((keys.len() as u64).to_le_bytes());
        for key in keys {
            self.text(key);
            self.json(&map[key]);
        }
        self
    }

    /// The digest in hexadecimal, cut to `length` characters.
    pub fn finish_short(self, length: usize) -> String {
        let mut text = String::with_capacity(64);
        for byte in self.0.finalize() {
            text.push(char::from_digit(u32::from(byte >> 4), 16).expect("four bits"));
            text.push(char::from_digit(u32::from(byte & 15), 16).expect("four bits"));
        }
        text.truncate(length);
        text
    }

    /// The digest in hexadecimal.
    pub fn finish(self) -> String {
        self.finish_short(LENGTH)
    }
}

/// The digest of a chart: everything that can change its rendering.
pub fn chart(chart: &Chart) -> String {
    let mut hasher = Hasher::default();
    add_chart(&mut hasher, chart);
    hasher.finish()
}

fn add_chart(hasher: &mut Hasher, chart: &Chart) {
    let metadata = serde_json::to_value(&chart.metadata).unwrap_or_default();
    hasher.json(&metadata).map(&chart.values).text(chart.schema.as_deref().unwrap_or_default());
    for files in [&chart.templates, &chart.files] {
        let mut sorted: Vec<&File> = files.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        hasher.text(sorted.len().to_string());
        for file in sorted {
            hasher.text(&file.name).text(file.data.as_slice());
        }
    }
    hasher.text(chart.dependencies.len().to_string());
    for dependency in &chart.dependencies {
        add_chart(hasher, dependency);
    }
}

/// The documents that the schema of a chart refers to; empty when there are none.
pub fn schema_documents(documents: &SchemaDocuments) -> String {
    if documents.0.is_empty() {
        return String::new();
    }
    let mut hasher = Hasher::default();
    for (url, document) in &documents.0 {
        hasher.text(url);
        match document {
            SchemaDocument::Any => hasher.text("any"),
            SchemaDocument::Text(text) => hasher.text("text").text(text),
        };
    }
    hasher.finish()
}

/// The inputs of a rendering.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// [`chart`] of the chart.
    pub chart: &'a str,
    /// The custom resource's spec.
    pub values: &'a Map<String, Value>,
    /// Name of the release.
    pub name: &'a str,
    /// Namespace of the release.
    pub namespace: &'a str,
    /// The cluster's capabilities that the chart reads; empty when it reads none.
    pub capabilities: &'a str,
    /// Digest of the sources of values and the patches; empty when there are none.
    pub extras: &'a str,
}

/// The inputs digest (docs/design/applying.md A1).
pub fn inputs(inputs: &Inputs<'_>) -> String {
    let Inputs { chart, values, name, namespace, capabilities, extras } = *inputs;
    let mut hasher = Hasher::default();
    hasher.text(RENDERING).text(chart).map(values).text(name).text(namespace).text(capabilities);
    if !extras.is_empty() {
        hasher.text(extras);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::{Hasher, Inputs, inputs};
    use serde_json::json;

    fn of(value: &serde_json::Value) -> String {
        let mut hasher = Hasher::default();
        hasher.json(value);
        hasher.finish()
    }

    #[test]
    fn the_order_of_keys_does_not_matter_and_everything_else_does() {
        assert_eq!(of(&json!({"a": 1, "b": [1, 2]})), of(&json!({"b": [1, 2], "a": 1})));
        let different = [
            json!(null),
            json!(""),
            json!("null"),
            json!([]),
            json!({}),
            json!([1, 2]),
            json!([2, 1]),
            json!([[1], 2]),
            json!({"a": "b"}),
            json!(["a", "b"]),
        ];
        let digests: std::collections::BTreeSet<_> = different.iter().map(of).collect();
        assert_eq!(digests.len(), different.len());
    }

    #[test]
    fn every_input_changes_the_digest() {
        let values = json!({"a": 1}).as_object().unwrap().clone();
        let base = Inputs { chart: "c", values: &values, name: "n", namespace: "ns", capabilities: "", extras: "" };
        let other_values = json!({"a": 2}).as_object().unwrap().clone();
        let all = [
            inputs(&base),
            inputs(&Inputs { chart: "d", ..base }),
            inputs(&Inputs { values: &other_values, ..base }),
            inputs(&Inputs { name: "m", ..base }),
            inputs(&Inputs { namespace: "m", ..base }),
            inputs(&Inputs { capabilities: "x", ..base }),
            inputs(&Inputs { extras: "x", ..base }),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }
}

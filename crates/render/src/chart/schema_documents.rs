//! Documents that the schema of a chart refers to by `$ref` and that are not in the chart. Rendering opens no file and no socket, so
//! the operator reads them when it loads the chart.

use std::collections::{BTreeMap, BTreeSet};

use super::Chart;

/// A document outside of the chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaDocument {
    /// It is not available: whatever refers to it accepts every value.
    Any,
    /// Its text, as JSON.
    Text(Vec<u8>),
}

/// Documents by their addresses, without a fragment. An address that ends in `/` is that of all documents below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaDocuments(pub BTreeMap<String, SchemaDocument>);

impl SchemaDocuments {
    /// The document at an address. The longest address that fits wins.
    pub fn get(&self, url: &str) -> Option<&SchemaDocument> {
        self.0
            .iter()
            .filter(|(known, _)| covers(known, url))
            .max_by_key(|(known, _)| known.len())
            .map(|(_, document)| document)
    }
}

/// Whether an address of these documents is that of a document, or of all documents in a place that it is in.
pub fn covers(known: &str, url: &str) -> bool {
    known == url || known.ends_with('/') && url.starts_with(known)
}

/// The addresses of documents that the schemas of a chart and its dependencies refer to and that are not in these charts.
pub fn missing(chart: &Chart) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(chart, &mut found);
    found
}

fn collect(chart: &Chart, found: &mut BTreeSet<String>) {
    let schema = chart.schema.as_deref().and_then(|text| serde_json::from_slice::<serde_json::Value>(text).ok());
    let mut left: Vec<&serde_json::Value> = schema.iter().collect();
    while let Some(value) = left.pop() {
        match value {
            serde_json::Value::Array(items) => left.extend(items),
            serde_json::Value::Object(map) => {
                if let Some(reference) = map.get("$ref").and_then(serde_json::Value::as_str) {
                    let url = reference.split('#').next().unwrap_or_default();
                    let is_outside = ["https://", "http://", "file://"].iter().any(|scheme| url.starts_with(scheme));
                    if is_outside && !url.contains("//json-schema.org/") {
                        found.insert(url.to_owned());
                    }
                }
                left.extend(map.values());
            }
            _ => {}
        }
    }
    chart.dependencies.iter().for_each(|dependency| collect(dependency, found));
}

#[cfg(test)]
mod tests {
    use super::{SchemaDocument, SchemaDocuments, missing};
    use crate::chart::Chart;

    #[test]
    fn the_longest_address_that_fits_wins() {
        let text = |text: &str| SchemaDocument::Text(text.as_bytes().to_vec());
        let known = [
            ("https://a.example/", SchemaDocument::Any),
            ("https://a.example/b.json", text("{}")),
            ("https://c.example", text("true")),
        ];
        let known = SchemaDocuments(known.map(|(url, document)| (url.to_owned(), document)).into());
        assert_eq!(known.get("https://a.example/b.json"), Some(&text("{}")));
        assert_eq!(known.get("https://a.example/x/y.json"), Some(&SchemaDocument::Any));
        assert_eq!(known.get("https://c.example/x"), None);
        assert_eq!(known.get("https://d.example/"), None);
    }

    #[test]
    fn documents_of_other_places_are_found_in_dependencies_too() {
        let of = |schema: &str| Chart { schema: Some(schema.as_bytes().to_vec()), ..Chart::default() };
        let mut chart =
            of(r##"{"$ref":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/b"},
                "b":{"items":[{"$ref":"https://a.example/x.json#/definitions/y"}]},"c":{"$ref":"./c.json"}}}"##);
        chart.dependencies.push(of(r#"{"$ref":"file:///opt/helm/z.json"}"#));
        let found: Vec<String> = missing(&chart).into_iter().collect();
        assert_eq!(found, ["file:///opt/helm/z.json", "https://a.example/x.json"]);
    }
}

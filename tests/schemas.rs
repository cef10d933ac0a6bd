//! `values.schema.json`: the answers of Helm 4.3.1 about values, recorded in `data/schemas.jsonl`.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use tillerman::chart::{Chart, File, Metadata, SchemaDocument, SchemaDocuments, values};
use tillerman::host;
use tillerman::render::{Capabilities, Release, render};

const LEAD: &str = "values don't meet the specifications of the schema(s) in the following chart(s):\nweb:\n";

/// What is wrong with the values; the lines are sorted, because Go goes over a table's keys in any order.
fn violations(schema: &str, given: &serde_json::Value) -> Vec<String> {
    let metadata = Metadata { name: "web".into(), version: "1.0.0".into(), ..Metadata::default() };
    let chart = Chart { metadata, schema: Some(schema.into()), ..Chart::default() };
    let given = values::load(given.to_string().as_bytes()).expect("the values are JSON");
    let release = Release { name: "shop".into(), namespace: "shops".into(), revision: 1, is_upgrade: false };
    match render(&chart, &given, &release, &Capabilities::default(), &host::options()) {
        Ok(_) => Vec::new(),
        Err(e) => sorted(e.message.strip_prefix(LEAD).unwrap_or(&e.message)),
    }
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn violations_have_the_words_of_helm() {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/schemas.jsonl");
    let mut wrong = Vec::new();
    for line in fs::read_to_string(table).expect("the table is part of the tests").lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("a row is JSON");
        let schema = row["schema"].as_str().expect("a row has a schema");
        let want = sorted(row["error"].as_str().unwrap_or_default());
        let got = violations(schema, &row["values"]);
        if got != want {
            wrong.push(format!("{schema}\n{}\nwant {want:#?}\ngot {got:#?}", row["values"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn references_lead_to_files_of_the_chart_and_to_what_the_operator_has() {
    let schema = r#"{"properties": {
        "a": {"$ref": "schemas/a.json#/definitions/name"},
        "b": {"$ref": "https://schemas.example/b.json"},
        "c": {"$ref": "https://elsewhere.example/deep/c.json#/definitions/never"}}}"#;
    let file = File {
        name: "schemas/a.json".into(),
        data: br#"{"definitions": {"name": {"type": "string"}}}"#.to_vec().into(),
    };
    let metadata = Metadata { name: "web".into(), version: "1.0.0".into(), ..Metadata::default() };
    let mut chart = Chart { metadata, schema: Some(schema.into()), files: vec![file].into(), ..Chart::default() };
    let said = |chart: &Chart, given: serde_json::Value| {
        let given = values::load(given.to_string().as_bytes()).expect("the values are JSON");
        let release = Release { name: "shop".into(), namespace: "shops".into(), revision: 1, is_upgrade: false };
        render(chart, &given, &release, &Capabilities::default(), &host::options()).err().map(|e| e.message)
    };
    let unknown = said(&chart, serde_json::json!({"b": 1})).expect("nobody has the document");
    assert!(unknown.contains("https://schemas.example/b.json") && unknown.contains("schemaDocuments"), "{unknown}");
    let documents = [
        ("https://schemas.example/b.json".to_owned(), SchemaDocument::Text(br#"{"type": "integer"}"#.to_vec())),
        ("https://elsewhere.example/".to_owned(), SchemaDocument::Any),
    ];
    chart.refer_to(&Arc::new(SchemaDocuments(documents.into())));
    assert_eq!(said(&chart, serde_json::json!({"a": "x", "b": 1, "c": [1]})), None);
    let wrong = said(&chart, serde_json::json!({"a": 1, "b": "x"})).expect("both are refused");
    assert!(wrong.contains("at '/a': got number, want string"), "{wrong}");
    assert!(wrong.contains("at '/b': got string, want integer"), "{wrong}");
}

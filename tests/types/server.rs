//! What a real API server makes of the definitions: each is established, and stores what the chart's files give as it is.

use crate::corpus::{self, Entry};
use crate::support::{api, harness::eventually_within};
use serde_json::{Value, json};
use tillerman::chart::Values;
use tillerman::crd::{self, CrdSettings, Names, Scope};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Definitions that are made before the first is waited for: each is served some seconds later.
const AT_ONCE: usize = 100;

/// What came of the files.
#[derive(Default)]
struct Count {
    given: usize,
    refused: Vec<String>,
    changed: Vec<String>,
}

#[test]
fn every_definition_is_established_and_stores_what_it_is_given() {
    let entries = corpus::entries();
    if entries.is_empty() {
        return;
    }
    let mut count = Count::default();
    // They are not deleted, which would take longer than to make them: the cluster is thrown away.
    for (first, batch) in (0..).step_by(AT_ONCE).zip(entries.chunks(AT_ONCE)) {
        for (at, entry) in (first..).zip(batch) {
            api::create(DEFINITIONS, &definition(at, entry)).unwrap_or_else(|e| panic!("{}: {e}", entry.name));
        }
        for (at, entry) in (first..).zip(batch) {
            let path = resources(at);
            eventually_within(120, "the kind is served", || api::get(&path));
            let empty = Values::new();
            let given = [("{}", &empty), ("values.yaml", entry.defaults())];
            let files = entry.files.iter().map(|file| (file.name.as_str(), &file.values));
            for (name, values) in given.into_iter().chain(files) {
                count.give(&path, at, &format!("{} {name}", entry.name), values);
            }
        }
    }
    println!(
        "{} definitions established; {} values given: {} refused, {} not stored as given",
        entries.len(),
        count.given,
        count.refused.len(),
        count.changed.len()
    );
    assert!(count.refused.is_empty() && count.changed.is_empty(), "{:#?}\n{:#?}", count.refused, count.changed);
}

fn definition(at: usize, entry: &Entry) -> Value {
    let names = Names {
        group: format!("t{at}.types.dev"),
        version: "v1".into(),
        kind: "Typed".into(),
        plural: "typeds".into(),
        scope: Scope::default(),
    };
    let made = crd::of_chart(&entry.chart, &names, CrdSettings::default(), &entry.files, &[]);
    made.unwrap_or_else(|e| panic!("{}: {e}", entry.name)).definition
}

fn resources(at: usize) -> String {
    format!("/apis/t{at}.types.dev/v1/namespaces/default/typeds")
}

impl Count {
    fn give(&mut self, path: &str, at: usize, name: &str, values: &Values) {
        self.given += 1;
        // As kubectl sends a YAML file: what has no fraction is an integer.
        let values = &crd::plain(&Value::Object(values.clone()));
        let object = json!({"apiVersion": format!("t{at}.types.dev/v1"), "kind": "Typed", "metadata": {"name": "x"}, "spec": values});
        match api::create(&format!("{path}?dryRun=All&fieldValidation=Strict"), &object) {
            Err(why) => self.refused.push(format!("{name}: {why}")),
            Ok(stored) if !same(&stored["spec"], values) => self.changed.push(name.to_owned()),
            Ok(_) => {}
        }
    }
}

/// Whether two values are the same; a number may be written with or without a fraction.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same(a, b))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len() && one.iter().all(|(key, value)| other.get(key).is_some_and(|b| same(value, b)))
        }
        _ => one == other,
    }
}

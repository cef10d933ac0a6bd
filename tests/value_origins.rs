//! The sources of values, over every chart of the repository: they are the values that templates see, and each is at its source.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tillerman::chart::{self, Chart, File, Values};
use tillerman::render::provenance::{GivenValues, ValueOrigin, ValueSource, ValueTrace};
use tillerman::render::{Capabilities, Options, Release, files};

fn charts() -> Vec<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders = ["charts", "tests", "examples"].map(|folder| top.join(folder)).to_vec();
    while let Some(folder) = folders.pop() {
        if folder.join("Chart.yaml").is_file() && folder.join("values.yaml").is_file() {
            found.push(folder.clone());
        }
        let entries = fs::read_dir(&folder).expect("the folder can be read").flatten().map(|entry| entry.path());
        folders.extend(entries.filter(|path| path.is_dir() && !path.ends_with("target")));
    }
    found.sort();
    assert!(found.len() > 30, "{found:?}");
    found
}

fn merge(layers: Vec<Values>) -> Values {
    layers.into_iter().fold(Values::new(), |mut all, layer| {
        chart::values::merge(&mut all, layer);
        all
    })
}

fn given(layers: &[Value]) -> GivenValues {
    let layers: Vec<Values> = layers.iter().map(|layer| layer.as_object().expect("a table").clone()).collect();
    GivenValues { merged: merge(layers.clone()), layers, merge }
}

/// Layers that change every kind of value of a chart: nulls, tables over scalars and scalars over tables.
fn harsh(chart: &Chart) -> GivenValues {
    let mut layers = vec![Values::new(), Values::new()];
    for (n, (key, value)) in chart.values.iter().enumerate() {
        let is_dependency = chart.dependencies.iter().any(|d| d.metadata.name == *key)
            || chart.metadata.dependencies.iter().any(|d| d.alias == *key || d.name == *key);
        let table = json!({"new": n, "global": {"region": "mars"}, "size": null});
        let own = match (n % 4, value) {
            _ if is_dependency || value.is_object() && n % 2 == 0 => table,
            (0, _) => Value::Null,
            (1, _) => json!({"deep": {"er": [n]}}),
            (2, _) => json!("text"),
            _ => continue,
        };
        layers[n % 2].insert(key.clone(), own);
    }
    layers[0].insert("global".into(), json!({"region": "moon", "added": 1, "deep": {"b": null}}));
    layers[1].insert("added".into(), json!({"empty": {}, "nothing": null}));
    GivenValues { merged: merge(layers.clone()), layers, merge }
}

/// Removes the templates and the schema of a chart and of its dependencies.
fn forget(chart: &mut Chart) {
    chart.templates.clear();
    chart.schema = None;
    chart.dependencies.iter_mut().for_each(forget);
}

/// The values that a template of the chart sees.
fn seen(chart: &Chart, values: &Values) -> Value {
    let probe = File { name: "templates/probe.yaml".into(), data: Arc::new(b"{{ toJson .Values }}".to_vec()) };
    let mut probed = Chart { templates: vec![probe], ..chart.clone() };
    probed.metadata.r#type = "application".into();
    probed.metadata.kube_version = String::new();
    probed.dependencies.iter_mut().for_each(forget);
    let options = Options::default().skip_schema(true);
    let rendered = files(&probed, values, &Release::new("a", "b"), &Capabilities::default(), &options);
    let rendered = rendered.unwrap_or_else(|e| panic!("{}: {e}", chart.metadata.name));
    serde_json::from_str(&rendered.texts[0].1).expect("toJson writes JSON")
}

fn check(name: &str, chart: &Chart, given: &GivenValues) {
    let trace = ValueTrace::new(chart, given, &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(as_floats(&Value::Object(trace.effective.clone())), as_floats(&seen(chart, &given.merged)), "{name}");
    let rows = trace.values().expect("the merge succeeds");
    let mut rebuilt = Value::Object(Values::new());
    for row in &rows {
        let shown = row.path.join(".");
        let at = trace.at(&row.origin).unwrap_or_else(|| panic!("{name}: {shown} has no source"));
        if !row.value.is_object() {
            assert_eq!(as_floats(at), as_floats(&row.value), "{name}: {shown} from {:?}", row.origin);
        }
        let chain = trace.chain(&row.path).expect("the merge succeeds");
        assert_eq!(chain.last(), Some(&row.origin), "{name}: {shown}: {chain:?}");
        let mut place = &mut rebuilt;
        for key in &row.path {
            place = &mut place[key.as_str()];
        }
        *place = row.value.clone();
    }
    let expected = without_made(&Value::Object(trace.effective.clone()), &rebuilt);
    assert_eq!(expected, rebuilt, "{name}: a value has no row");
}

/// A value whose numbers are all floats: those of a file are, and those of a template are written in different ways.
fn as_floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(items) => items.iter().map(as_floats).collect(),
        Value::Object(entries) => entries.iter().map(|(key, value)| (key.clone(), as_floats(value))).collect(),
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

/// The values without the empty tables that only the merge makes, which have no row.
fn without_made(value: &Value, rows: &Value) -> Value {
    let Value::Object(entries) = value else { return value.clone() };
    let kept = entries.iter().filter_map(|(key, below)| match (below, rows.get(key)) {
        (Value::Object(entries), None) if entries.values().all(is_empty) => None,
        (below, rows) => Some((key.clone(), without_made(below, rows.unwrap_or(&Value::Null)))),
    });
    Value::Object(kept.collect())
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(|entries| entries.values().all(is_empty))
}

#[test]
fn the_values_of_every_chart_are_those_of_its_templates_and_at_their_sources() {
    for path in charts() {
        let Ok(chart) = chart::load(&path) else { continue };
        if chart.is_minijinja() {
            continue;
        }
        let name = path.display().to_string();
        check(&name, &chart, &given(&[]));
        check(&name, &chart, &harsh(&chart));
    }
}

fn parent() -> Chart {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/corpus/charts/parent");
    chart::load(&path).expect("the chart can be loaded")
}

fn place(source: ValueSource, path: &str) -> ValueOrigin {
    ValueOrigin { source, path: path.split('.').map(str::to_owned).collect() }
}

#[test]
fn a_chain_has_all_sources_of_a_value() {
    let chart = parent();
    let given = given(&[
        json!({"db": {"size": 7}, "global": {"region": "us"}}),
        json!({"db": {"size": null, "nested": {"x": 5}}}),
    ]);
    let trace = ValueTrace::new(&chart, &given, &Options::default()).unwrap();
    let (root, db) = (|| ValueSource::Chart(vec![]), || ValueSource::Chart(vec![0]));
    let (low, high) = (|| ValueSource::Layer(0), || ValueSource::Layer(1));
    for (path, expected) in [
        // The null of the higher layer removes the value.
        (
            "db.size",
            vec![place(db(), "size"), place(root(), "db.size"), place(low(), "db.size"), place(high(), "db.size")],
        ),
        ("db.nested.x", vec![place(db(), "nested.x"), place(root(), "db.nested.x"), place(high(), "db.nested.x")]),
        ("db.drop", vec![place(db(), "drop"), place(root(), "db.drop")]),
        ("db.global.region", vec![place(root(), "global.region"), place(low(), "global.region")]),
        ("fromCache.port", vec![place(db(), "exports.out.port")]),
        ("cache.size", vec![place(db(), "size"), place(root(), "cache.size")]),
        ("nowhere", vec![]),
    ] {
        let path: Vec<String> = path.split('.').map(str::to_owned).collect();
        assert_eq!(trace.chain(&path).unwrap(), expected, "{path:?}");
    }
}

#[test]
fn a_dependency_owns_the_values_below_its_name() {
    let chart = parent();
    let given = given(&[]);
    let trace = ValueTrace::new(&chart, &given, &Options::default()).unwrap();
    let owners = |path: &str| {
        let path: Vec<String> = path.split('.').map(str::to_owned).collect();
        trace.charts.owners(&path).last().map(|owner| (owner.name.clone(), owner.position.clone())).unwrap()
    };
    assert_eq!(owners("cache.size"), ("cache".into(), vec![0]));
    assert_eq!(owners("cache"), ("parent".into(), vec![]));
    assert_eq!(owners("tags.frontend"), ("parent".into(), vec![]));
    // The tag disables it.
    assert_eq!(owners("front.exports"), ("parent".into(), vec![]));
}

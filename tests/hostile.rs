//! Hostile texts, one for each limit of texts whose writers must not stop the operator: annotations of custom resources, fields of
//! `watches.yaml`, specs, and values in Secrets and `ConfigMap`s.
//!
//! Each row runs in a process of its own, whose memory is measured at its end.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};
use tillerman::bounds;
use tillerman::chart::values;
use tillerman::inputs::inputs;
use tillerman::kind::annotations::{self, Annotations};
use tillerman::kind::switches::Switches;
use tillerman::kind::{values_from, watches};
use tillerman::notices::document::{MAX_BODY, Notice};
use tillerman::notices::template::Template;
use tillerman::object::Object;
use tillerman::object::patch;
use tillerman::release::digest::Hasher;
use tillerman::release::packed::unzip;
use tillerman::release::record::{HookRecord, Record};

/// The row that a child runs.
const ROW: &str = "HOSTILE_ROW";
/// KiB that a row may take at its peak.
const MEMORY: usize = 256 << 10;
/// Limit of the address space of a child in KiB, so that no row harms the machine.
const ADDRESSES: usize = 4 << 20;
/// How long a row may take. Most take less than 10 ms in an optimised build; other tests run beside it.
const TIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 1 });

/// The processing of a text. The error is what the user sees.
type Run = Box<dyn Fn(&str) -> Result<(), String>>;

struct Row {
    what: String,
    text: Box<dyn Fn() -> String>,
    run: Run,
    /// A part of the message, which names the limit.
    told: &'static str,
}

fn row(
    what: impl Into<String>,
    text: impl Into<String>,
    run: impl Fn(&str) -> Result<(), String> + 'static,
    told: &'static str,
) -> Row {
    let text = text.into();
    lazy(what, move || text.clone(), run, told)
}

/// A row whose text takes a while to make.
fn lazy(
    what: impl Into<String>,
    text: impl Fn() -> String + 'static,
    run: impl Fn(&str) -> Result<(), String> + 'static,
    told: &'static str,
) -> Row {
    Row { what: what.into(), text: Box::new(text), run: Box::new(run), told }
}

/// Everything that the operator does with an annotation of a custom resource.
fn annotation(name: &str, text: &str) -> Result<(), String> {
    let all = BTreeMap::from([(name.into(), text.into())]);
    Switches::default().read(&all)?;
    let Some(texts) = annotations::texts(&all) else { return Ok(()) };
    let read = Annotations::read(&texts);
    let (sources, patches, ignored) = (read.sources?, read.patches?, read.ignored?);
    read.depends_on?;
    let mut values = serde_json::Map::new();
    for path in sources.iter().filter_map(|source| source.target_path.as_deref()) {
        values_from::set_path(path, "text", &mut values)?;
    }
    let mut objects = objects();
    patch::apply(&patches, &mut objects)?;
    let ids = objects.iter().flatten();
    let covers = |object: &Object| ignored.iter().any(|rule| rule.paths.contains(&object.name));
    assert!(!ids.into_iter().any(covers));
    Ok(())
}

/// As many objects as a release may have, and a Deployment.
fn objects() -> Vec<Option<Object>> {
    let map = |n: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{}-{n}", "a".repeat(200))}, "data": {"a": "b"}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:1"}]}}}});
    let all = (0..1499).map(map).chain([deployment]);
    all.map(|body| Object::from_body(body.as_object().unwrap().clone()).ok()).collect()
}

fn patches(text: &str) -> Result<(), String> {
    annotation("tillerman.dev/patches", text)
}

fn values_from(text: &str) -> Result<(), String> {
    annotation("tillerman.dev/values-from", text)
}

fn depends_on(text: &str) -> Result<(), String> {
    annotation("tillerman.dev/depends-on", text)
}

fn ignore_drift(text: &str) -> Result<(), String> {
    annotation("tillerman.dev/ignore-drift", text)
}

fn file(text: &str) -> Result<(), String> {
    let watches = watches::parse(text, std::path::Path::new("/")).map_err(|e| e.to_string())?;
    for kind in watches.kinds {
        kind.unusable.map_or(Ok(()), Err)?;
        patch::apply(&kind.patches, &mut objects())?;
    }
    Ok(())
}

/// A field of an entry of `watches.yaml`.
fn field(text: &str) -> Result<(), String> {
    file(&format!("- {{group: a.b, version: v1, kind: A, chart: x, {text}}}\n"))
}

fn spec(text: &str) -> Result<(), String> {
    Ok(bounds::SPEC.json(text).map(|_| ())?)
}

/// Values in a Secret.
fn source(text: &str) -> Result<(), String> {
    let read = || values::load(text.as_bytes()).map(Value::Object).map_err(|e| bounds::why(&e, "no YAML"));
    bounds::SOURCE.reads(text.as_bytes(), read).map(|_| ())
}

/// A patch for Deployments.
fn for_deployments(patch: &Value) -> String {
    json!([{"target": {"kind": "Deployment"}, "patch": patch}]).to_string()
}

fn target(field: &str, expression: &str) -> String {
    json!([{"target": {field: expression}, "patch": {"data": {"a": "c"}}}]).to_string()
}

fn list_of(count: usize) -> String {
    format!("[{}0]", "0,".repeat(count))
}

fn nested(count: usize) -> String {
    format!("{}{}", "[".repeat(count), "]".repeat(count))
}

/// YAML whose aliases make a billion values.
fn bomb() -> String {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..10 {
        let names = vec![format!("*a{}", n - 1); 10].join(", ");
        let _ = writeln!(text, "a{n}: &a{n} [{names}]");
    }
    text
}

/// A strategic merge that has as many variables of an environment.
fn environment(count: usize) -> Value {
    let variables: Vec<Value> = (0..count).map(|n| json!({"name": format!("N{n}")})).collect();
    json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "env": variables}]}}}})
}

const BYTES: &str = "the limit is 131072";
const VALUES: &str = "more than 20000 values";
const LEVELS: &str = "more than 64 levels deep";

fn long() -> String {
    "x".repeat(200 << 10)
}

fn doubling() -> Value {
    let copy = json!({"op": "copy", "from": "/spec/list", "path": "/spec/list/-"});
    let begin = json!({"op": "add", "path": "/spec/list", "value": [1]});
    [begin].into_iter().chain(std::iter::repeat_n(copy, 40)).collect()
}

/// A source with a path.
fn path(path: &str) -> String {
    json!([{"kind": "Secret", "name": "a", "targetPath": path}]).to_string()
}

/// A dependency.
fn other(name: &str, target: &str, source: &str) -> String {
    json!([{"group": "g", "kind": "K", "name": name, "values": {target: source}}]).to_string()
}

fn paths(count: usize, path: &str) -> String {
    json!([{"paths": vec![path; count]}]).to_string()
}

fn of_patches() -> Vec<Row> {
    let deep: Vec<Value> =
        (0..110).map(|n| json!({"op": "add", "path": format!("/spec{}", "/a".repeat(n + 1)), "value": {}})).collect();
    let tests: Vec<Value> = (0..1001).map(|_| json!({"op": "test", "path": "", "value": 1})).collect();
    let many_slow: Vec<Value> = (0..100)
        .map(|n| json!({"target": {"name": format!("(a|aa|{n}){{1,20}}x")}, "patch": {"data": {"a": "c"}}}))
        .collect();
    let for_all = json!([{"target": {"name": ".*"}, "patch": {"data": vec![0; 15_000]}}]).to_string();
    let twice = json!([
        {"target": {"kind": "Deployment"}, "patch": environment(3500)},
        {"target": {"kind": "Deployment"}, "patch": environment(3500)},
    ]);
    let bombs = json!([{"target": {"kind": "Deployment"}, "patch": bomb()}]).to_string();
    vec![
        row("patches: text", long(), patches, BYTES),
        row("patches: values", list_of(60_000), patches, VALUES),
        row("patches: levels", nested(60_000), patches, LEVELS),
        row("patches: number", json!(vec![json!({}); 101]).to_string(), patches, "more than 100 patches"),
        row("patches: operations", for_deployments(&json!(tests)), patches, "the limit is 1000"),
        row("patches: copies", for_deployments(&doubling()), patches, "larger than 16777216 bytes"),
        row("patches: nesting by operations", for_deployments(&json!(deep)), patches, "more than 100 levels deep"),
        row("patches: aliases", &*bombs, patches, "more than 99 %"),
        row("patches: YAML of many levels", for_deployments(&json!(nested(900))), patches, LEVELS),
        row("patches: YAML of many values", for_deployments(&json!(list_of(50_000))), patches, VALUES),
        row("patches: lists by key", twice.to_string(), patches, "more than 3000000 steps"),
        row("patches: one for all", for_all, patches, "more than 134217728 bytes"),
        row("patches: size of an expression", target("name", "(a{1000}){1000}"), patches, "larger than 32768 bytes"),
        row("patches: classes", target("kind", &r"\pL".repeat(80)), patches, "larger than 32768 bytes"),
        row("patches: length of an expression", target("kind", &"a".repeat(257)), patches, "the limit is 256"),
        row(
            "patches: groups",
            target("group", &format!("{}a{}", "(".repeat(99), ")".repeat(99))),
            patches,
            "20 groups",
        ),
        row("patches: slow expressions", json!(many_slow).to_string(), patches, "more than 3000000 steps"),
        row("patches: selector", target("labelSelector", &"a,".repeat(1000)), patches, "the limit is 1024"),
        row(
            "patches: length of a path",
            for_deployments(&json!([{"op": "remove", "path": "/a".repeat(1000)}])),
            patches,
            "the limit is 1024",
        ),
    ]
}

fn of_lists() -> Vec<Row> {
    let sources: Vec<Value> = (0..51).map(|n| json!({"kind": "Secret", "name": format!("a{n}")})).collect();
    let rules: Vec<Value> = (0..101).map(|_| json!({"paths": ["/a"]})).collect();
    vec![
        row("values-from: text", long(), values_from, BYTES),
        row("values-from: values", list_of(60_000), values_from, VALUES),
        row("values-from: levels", nested(60_000), values_from, LEVELS),
        row("values-from: number", json!(sources).to_string(), values_from, "more than 50 sources"),
        row("values-from: name", path(&"a".repeat(2000)), values_from, "the limit is 1024"),
        row(
            "values-from: indices",
            path(&format!("a{}", "[65536]".repeat(140))),
            values_from,
            "more indices in a row than the maximum of 30",
        ),
        row("values-from: an index", path("a[65536]"), values_from, "maximum supported index of 1000"),
        row("values-from: many indices", path(&format!("a{}", "[0]".repeat(30_000))), values_from, "the limit is 1024"),
        row("values-from: names", path(&"a.".repeat(200)), values_from, "maximum supported nested level of 30"),
        row("depends-on: text", long(), depends_on, BYTES),
        row("depends-on: values", list_of(60_000), depends_on, VALUES),
        row("depends-on: levels", nested(60_000), depends_on, LEVELS),
        row("depends-on: number", json!(vec![json!({}); 11]).to_string(), depends_on, "more than 10 dependencies"),
        row("depends-on: name", other(&"a".repeat(2000), "a", "status.a"), depends_on, "the limit is 1024"),
        row("depends-on: target", other("a", &"a.".repeat(200), "status.a"), depends_on, "with at most 30 keys"),
        row(
            "depends-on: long path",
            other("a", "a", &format!("status.{}", "a".repeat(300))),
            depends_on,
            "the limit is 256",
        ),
        row("depends-on: steps", other("a", "a", &format!("status{}", ".a".repeat(40))), depends_on, "the limit is 16"),
        row("ignore-drift: text", long(), ignore_drift, BYTES),
        row("ignore-drift: values", list_of(60_000), ignore_drift, VALUES),
        row("ignore-drift: levels", nested(60_000), ignore_drift, LEVELS),
        row("ignore-drift: rules", json!(rules).to_string(), ignore_drift, "more than 100 rules"),
        row("ignore-drift: paths", paths(1001, "/a"), ignore_drift, "more than 1000 paths"),
        row("ignore-drift: path", paths(1, &"/a".repeat(2000)), ignore_drift, "the limit is 1024"),
    ]
}

fn of_files() -> Vec<Row> {
    vec![
        row("watches.yaml: text", "#".repeat(2 << 20), file, "the limit is 1048576"),
        row("watches.yaml: aliases", format!("- {}", bomb().replace('\n', "\n  ")), file, "nodes: 250001"),
        row("watches.yaml: levels", nested(60_000), file, "limit"),
        row("watches.yaml: patches", format!("patches: {}", list_of(30_000)), field, "more than 100 patches"),
        row("watches.yaml: operations", format!("patches: {}", for_deployments(&doubling())), field, "16777216 bytes"),
        row("watches.yaml: valuesFrom", format!("valuesFrom: {}", path("a[65536][65536]")), field, "index of 1000"),
        row("watches.yaml: ignoreDrift", format!("ignoreDrift: {}", paths(1001, "/a")), field, "more than 1000 paths"),
        row("watches.yaml: overrideValues", "overrideValues: {'a[65536][65536]': x}", field, "index of 1000"),
        row(
            "watches.yaml: a template",
            "overrideValues: {a: '{{ range until 1000000 }}x{{ end }}'}",
            field,
            "16777216 bytes",
        ),
        row(
            "watches.yaml: an endless template",
            "overrideValues: {a: '{{ define \"a\" }}{{ range until 1000 }}{{ template \"a\" }}{{ end }}{{ end }}{{ template \"a\" }}'}",
            field,
            "overrideValues: a: ",
        ),
        row(
            "watches.yaml: releaseSuffix",
            format!("releaseSuffix: -{}", "a".repeat(999_999)),
            field,
            "the limit is 1024",
        ),
        row(
            "watches.yaml: serviceAccount",
            format!("serviceAccount: {}", "a".repeat(999_999)),
            field,
            "the limit is 1024",
        ),
        row(
            "watches.yaml: targetNamespace",
            format!("targetNamespace: {}", "a".repeat(999_999)),
            field,
            "the limit is 1024",
        ),
        row("watches.yaml: a switch", format!("onFailure: {}", "a".repeat(2000)), field, "the limit is 1024"),
        row("spec: text", "x".repeat(2 << 20), spec, "the limit is 1048576"),
        row("spec: values", list_of(500_000), spec, "more than 100000 values"),
        row("spec: levels", nested(500_000), spec, "more than 100 levels deep"),
        row("values: text", "x".repeat(2 << 20), source, "the limit is 1048576"),
        row("values: values", format!("a: {}", list_of(500_000)), source, "more than 100000 values"),
        row("values: levels", format!("a: {}", nested(900)), source, "more than 100 levels deep"),
        row("values: aliases", bomb(), source, "more than 99 %"),
        row("status: text", "x".repeat(3 << 20), status, "the limit is 2097152"),
        row("status: values", list_of(500_000), status, "more than 100000 values"),
        row("status: levels", nested(100_000), status, "more than 100 levels deep"),
        row("values: documents", format!("{0}---\n{0}", bomb()), source, "more than 99 %"),
    ]
}

/// Gzip and base64, as records and their annotations are stored.
fn packed(json: &str) -> String {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(json.as_bytes()).unwrap();
    STANDARD.encode(gzip.finish().unwrap())
}

/// A release record with this field.
fn record(field: &str) -> String {
    packed(&format!("{{\"name\":\"a\",\"info\":{{}},{field}}}"))
}

fn read_record(text: &str) -> Result<(), String> {
    let record = Record::decode(text.as_bytes()).map_err(|e| e.to_string())?;
    record.objects().map(|_| ()).map_err(|e| e.to_string())
}

/// The chunks of a record.
fn join(text: &str) -> Result<(), String> {
    let mut hasher = Hasher::default();
    hasher.text(text);
    Record::join(record("\"a\":1").as_bytes(), text, &hasher.finish()).map(|_| ()).map_err(|e| e.to_string())
}

fn hook(manifest: &str) -> Result<(), String> {
    HookRecord { manifest: manifest.to_owned(), ..HookRecord::default() }.object().map(|_| ())
}

fn unpack(text: &str) -> Result<(), String> {
    let packed = STANDARD.decode(text).unwrap();
    unzip(&packed, bounds::PACKED).map(|_| ()).map_err(|e| format!("{e:?}"))
}

fn status(text: &str) -> Result<(), String> {
    Ok(bounds::STATUS.json(text).map(|_| ())?)
}

fn notice(spec: &str) -> Result<(), String> {
    Notice::read(&json!({"spec": serde_json::from_str::<Value>(spec).unwrap()})).map(|_| ())
}

/// A spec of a notice with this field.
fn notice_with(field: &str, value: &Value) -> String {
    json!({"target": {"webhook": {"url": "https://a.io/"}}, field: value}).to_string()
}

fn notice_status(state: &str) -> Result<(), String> {
    Ok(bounds::NOTICE_STATE.value(&serde_json::from_str(state).unwrap())?)
}

/// Renders a template of a notice with the largest facts that a message has.
fn notice_template(text: &str) -> Result<(), String> {
    let line = json!({"name": "a".repeat(200), "about": vec!["a".repeat(200); 5]});
    let read = Template::read(text, MAX_BODY).and_then(|template| template.render(&json!({"lines": vec![line; 40]})));
    read.map(|_| ()).map_err(|e| e.to_string())
}

/// The template that compares two lists with 60^8 leaves.
fn shared_lists() -> String {
    let references = |name: &str| vec![name; 60].join(",");
    let level = format!("{{% for x,y in [[[{}],[{}]]] %}}", references("x"), references("y"));
    let (levels, ends) = (level.repeat(8), "{% endfor %}".repeat(9));
    format!("{{% for x,y in [[[1,1],[1,1]]] %}}{levels}{{% if x == y %}}E{{% endif %}}{ends}")
}

fn of_records_and_notices() -> Vec<Row> {
    let loops = |inside: &str| format!("{}{inside}{}", "{% for a in lines %}".repeat(6), "{% endfor %}".repeat(6));
    let levels = format!("{}1{}", "{\"a\":".repeat(30), "}".repeat(30));
    vec![
        lazy(
            "record: text",
            || record(&format!("\"a\":\"{}\"", "x".repeat(25 << 20))),
            read_record,
            "the limit is 25165824",
        ),
        lazy(
            "record: values",
            || record(&format!("\"hooks\":[{}{{}}]", "{},".repeat(7 << 20))),
            read_record,
            "more than 400000 values",
        ),
        lazy(
            "record: levels",
            || record(&format!("\"a\":{}", nested(100_000))),
            read_record,
            "more than 100 levels deep",
        ),
        lazy(
            "record: hooks",
            || record(&format!("\"hooks\":[{}{{}}]", "{},".repeat(2000))),
            read_record,
            "the limit is 1500",
        ),
        lazy(
            "chunks: text",
            || packed(&format!("{{\"manifest\":\"{}\"}}", "x".repeat(65 << 20))),
            join,
            "the limit is 67108864",
        ),
        lazy(
            "chunks: values",
            || packed(&format!("{{\"a\":{}}}", list_of(1_000_000))),
            join,
            "more than 400000 values",
        ),
        lazy("chunks: levels", || packed(&format!("{{\"a\":{}}}", nested(100_000))), join, "more than 100 levels deep"),
        lazy(
            "manifest: values",
            || record(&format!("\"manifest\":\"a: [{}0]\"", "[],".repeat(3_000_000))),
            read_record,
            "the manifest cannot be read",
        ),
        row("hook: text", format!("a: {}", "x".repeat(3 << 20)), hook, "the limit is 2097152"),
        row("hook: values", format!("a: {}", list_of(500_000)), hook, "more than 100000 values"),
        lazy("packed: text", || packed(&format!("\"{}\"", "x".repeat(5 << 20))), unpack, "the limit is 4194304"),
        lazy("packed: values", || packed(&list_of(1_000_000)), unpack, "more than 100000 values"),
        lazy("packed: levels", || packed(&nested(100_000)), unpack, "more than 64 levels deep"),
        row("notice: values", notice_with("events", &json!(vec!["Failed"; 5000])), notice, "more than 2000 values"),
        row("notice: levels", levels.clone(), notice, "more than 20 levels deep"),
        row("notice: list", notice_with("events", &json!(vec!["Failed"; 51])), notice, "the limit is 50"),
        row("notice status: values", list_of(200_000), notice_status, "more than 100000 values"),
        row("notice status: levels", levels, notice_status, "more than 20 levels deep"),
        row("notice template: text", "x".repeat(9000), notice_template, "the limit is 8192"),
        row("notice template: grammar", shared_lists(), notice_template, "does not exist in templates"),
        row("notice template: instructions", loops("x"), notice_template, "fuel"),
        row("notice template: output", loops("{{ lines }}"), notice_template, "it prints more than 32768 bytes"),
        row(
            "notice template: filtered",
            loops("{% if a.name|upper|lower == 'x' %}{% endif %}"),
            notice_template,
            "filters are given more than",
        ),
    ]
}

/// Each limit of each place has a hostile text, or a test of its own.
#[test]
fn every_limit_has_a_row_or_a_test() {
    let rows: BTreeSet<String> = rows().into_iter().map(|row| row.what).collect();
    let tests = functions_of_tests();
    let mut missing = Vec::new();
    for input in inputs() {
        for test in input.tests.iter().filter(|test| !tests.contains(**test)) {
            missing.push(format!("{}: the test {test} does not exist", input.name));
        }
        for limit in input.limits {
            let (row, name) = (limit.row(), format!("{}: {}", input.name, limit.row()));
            let shown = if row.is_empty() { !input.tests.is_empty() } else { rows.contains(&name) };
            if !shown {
                missing.push(format!("{}: no row {name:?} for {}", input.name, limit.text()));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// The names of all functions of the project's tests.
fn functions_of_tests() -> BTreeSet<String> {
    let mut files = Vec::new();
    for folder in ["src", "crates", "tests/operator", "tests/support"] {
        sources(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut files);
    }
    let mut found = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        found.extend(text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next()).map(str::to_owned));
    }
    found
}

/// A file of the operator that parses bytes belongs to a place of the table. Files that only parse what the operator, its author or a person
/// at the command line wrote are named here.
#[test]
fn every_file_that_parses_bytes_belongs_to_a_place() {
    const PARSES: [&str; 6] = [
        "serde_json::from_slice",
        "serde_json::from_str",
        "GzDecoder::new",
        "yaml::parse(",
        "yaml::load(",
        "Archive::new",
    ];
    // What a person runs, what runs beside databases or in Jobs of the operator's author, and the engines themselves.
    const FOLDERS: [&str; 9] =
        ["agent/", "backup/", "bin/", "chaos/", "cli/", "image/", "lint/", "scaffold/", "template/"];
    const OWN: [&str; 9] = [
        "kind/watches.rs",        // the operator's author
        "bounds.rs",              // the limits themselves
        "rbac/own.rs",            // a file of the program
        "rbac/kinds.rs",          // a file of the program
        "reconcile/preview.rs",   // a person's files
        "source/credentials.rs",  // a person's files
        "source/repositories.rs", // a person's files
        "render/schema/",         // schemas, while rendering
        "chart/schema_documents", // a person's files
    ];
    let named: BTreeSet<&str> = inputs().iter().flat_map(|input| input.files).copied().collect();
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    // Names begin with the folder in `src`, or with the crate.
    let homes =
        [("src", ""), ("crates/render/src", ""), ("crates/source/src", "source/"), ("crates/agent/src", "agent/")];
    for (home, prefix) in homes {
        let (home, mut paths) = (top.join(home), Vec::new());
        sources(&home, &mut paths);
        let name = |path: &std::path::Path| format!("{prefix}{}", path.strip_prefix(&home).unwrap().display());
        found.extend(paths.into_iter().map(|path| (name(&path), path)));
    }
    let mut missing = Vec::new();
    for (name, path) in &found {
        let text = std::fs::read_to_string(path).unwrap();
        let code: Vec<&str> = text
            .split("#[cfg(test)]")
            .next()
            .unwrap()
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        let parses = code.iter().any(|line| PARSES.iter().any(|parse| line.contains(parse)));
        let is_own = FOLDERS.iter().chain(&OWN).any(|own| name.starts_with(own))
            || name.ends_with("_tests.rs")
            || name.ends_with("tests.rs");
        if parses && !is_own && !named.contains(&**name) {
            missing.push(name.clone());
        }
    }
    assert!(missing.is_empty(), "these files parse bytes; add them to a place of src/inputs.rs: {missing:?}");
    let there: BTreeSet<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    let gone: Vec<_> = named.iter().filter(|name| !there.contains(**name)).collect();
    assert!(gone.is_empty(), "src/inputs.rs names files that do not exist: {gone:?}");
}

fn sources(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn rows() -> Vec<Row> {
    let mut rows = of_patches();
    rows.extend(of_records_and_notices());
    rows.extend(of_lists());
    rows.extend(of_files());
    for name in [
        "paused",
        "dry-run",
        "hooks",
        "max-history",
        "timeout",
        "on-failure",
        "deletion-policy",
        "crds",
        "release-name",
        "reconcile-at",
        "operation",
        "take-ownership",
        "target-namespace",
        "service-account",
        "force-new-cluster",
        "switch-over",
    ] {
        let name = format!("tillerman.dev/{name}");
        let run = {
            let name = name.clone();
            move |text: &str| annotation(&name, text)
        };
        rows.push(row(name, long(), run, "the limit is 1024"));
    }
    rows
}

/// KiB that this process had at its peak.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Runs the row that the environment names. The table below starts it.
#[test]
#[ignore = "a part of the table"]
fn one_row() {
    let Some(at) = std::env::var(ROW).ok().and_then(|at| at.parse::<usize>().ok()) else { return };
    let Row { what, text, run, told } = rows().swap_remove(at);
    let text = text();
    let before = Instant::now();
    let answer = run(&text);
    let took = before.elapsed();
    let message = answer.expect_err("it is refused");
    assert!(message.contains(told), "{what}: {}", &message[..message.len().min(300)]);
    assert!(message.len() < 4096, "{what}: a message of {} bytes", message.len());
    assert!(took < TIME, "{what}: it took {took:?}");
    if let Some(peak) = peak() {
        println!("{peak} KiB, {took:?}: {what}");
        assert!(peak < MEMORY, "{what}: it took {peak} KiB");
    }
}

#[test]
fn every_hostile_text_is_refused_with_its_limit() {
    let program = std::env::current_exe().expect("a test is a program");
    let mut failed = String::new();
    for (at, row) in rows().iter().enumerate() {
        let limited = format!("ulimit -v {ADDRESSES}; exec \"$0\" one_row --exact --ignored --nocapture");
        let output = Command::new("sh").args(["-c", &limited]).arg(&program).env(ROW, at.to_string()).output();
        let output = output.expect("there is a shell");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            let line = text.lines().find(|line| line.contains(&row.what)).unwrap_or_default();
            println!("{line}");
        } else {
            let _ = writeln!(failed, "{}: {text}", row.what);
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn what_people_write_is_within_the_limits() {
    let deployment = environment(50);
    patches(&for_deployments(&deployment)).unwrap();
    patches(&target("name", "web(-[a-z0-9]{1,10})*")).unwrap();
    values_from(&json!([{"kind": "Secret", "name": "a", "targetPath": "hosts[3].tls.password"}]).to_string()).unwrap();
    ignore_drift(&json!([{"target": {"kind": "Deployment"}, "paths": ["/spec/replicas"]}]).to_string()).unwrap();
    annotation("tillerman.dev/operation", "backup@2026-01-01T00:00:00Z").unwrap();
    source("a: &a {b: c}\nd: *a\n---\ne: [1, 2]\n").unwrap();
    // A setting of helm-operator that cannot be read counts as absent.
    annotation("helm.sdk.operatorframework.io/reconcile-period", &"1".repeat(100_000)).unwrap();
}

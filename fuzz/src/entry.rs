//! What is done with hostile input: each function takes any bytes, and panics if something does not hold.

use std::collections::BTreeMap;
use tillerman::bounds;
use tillerman::chart::{self, Chart, File, Metadata, Values, strvals};
use tillerman::kind::annotations::{self, Annotations};
use tillerman::kind::ignore::IGNORE_DRIFT;
use tillerman::kind::switches::{self, Switches};
use tillerman::kind::{values_from, watches};
use tillerman::members::document::Members;
use tillerman::members::drivers::Drivers;
use tillerman::notices::document::MAX_BODY;
use tillerman::notices::template::{self, Template};
use tillerman::object::Object;
use tillerman::object::field_path::FieldPath;
use tillerman::object::patch;
use tillerman::plan::operations::document::Operations;
use tillerman::release::record::Record;
use tillerman::release::status_fields::StatusFields;
use tillerman::render::{self, Capabilities, Limits, Options, Release};
use tillerman::template::function::{FnResult, Host};
use tillerman::template::go::TemplateSet;
use tillerman::template::value::Value;
use tillerman::template::version::{Constraints, Version};
use tillerman::template::{functions, yaml};

/// A target's name and function.
pub type Target = (&'static str, fn(&[u8]));

/// All of them; each has its seeds in `fuzz/corpus/NAME`.
pub const TARGETS: [Target; 10] = [
    ("parse", parse),
    ("execute", execute),
    ("yaml", yaml),
    ("archive", archive),
    ("strvals", strvals),
    ("semver", semver),
    ("annotations", annotations),
    ("record", record),
    ("documents", documents),
    ("notice", notice),
];

/// What a rendering may cost here: little, so that whatever is not counted stands out as slow.
const LIMITS: Limits = Limits { steps: Some(300_000), output: 1 << 20, memory: Some(16 << 20) };

struct Offline;

impl Host for Offline {
    fn random(&self, buffer: &mut [u8]) {
        buffer.fill(7);
    }
    /// The real time: Helm beside it has no other, and takes what is no time for the present.
    fn now(&self) -> i128 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos().cast_signed())
    }
    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> FnResult {
        Ok(Value::map([]))
    }
    fn resolve(&self, _: &str) -> String {
        String::new()
    }
}

/// A rendering within limits and with no surroundings.
pub fn options(limits: Limits) -> Options {
    let mut options = Options::new(Offline);
    options.limits = limits;
    options
}

fn release() -> Release {
    Release { name: "rel".into(), namespace: "ns".into(), revision: 1, is_upgrade: false }
}

/// A template's text is read, or refused with a message.
pub fn parse(data: &[u8]) {
    let mut set = TemplateSet::new(functions::table());
    if set.parse("t", data).is_ok() {
        assert!(set.contains("t") || !data.is_empty());
    }
}

/// A chart with one template.
fn chart_of(template: &[u8]) -> Chart {
    Chart {
        metadata: Metadata {
            api_version: "v2".into(),
            name: "web".into(),
            version: "1.0.0".into(),
            ..Metadata::default()
        },
        templates: vec![File { name: "templates/t.yaml".into(), data: template.to_vec().into() }],
        ..Chart::default()
    }
}

/// A template, and behind a zero byte the values: they are rendered.
pub fn execute(data: &[u8]) {
    let (text, values) = match data.iter().position(|&b| b == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &b""[..]),
    };
    let values = chart::values::load(values).unwrap_or_default();
    let chart = chart_of(text);
    let rendered = render::render(&chart, &values, &release(), &Capabilities::default(), &options(LIMITS));
    assert_no_fault(rendered.err());
}

fn assert_no_fault(error: Option<render::Diagnostic>) {
    if let Some(error) = error {
        assert!(!error.is_fault, "{}", error.message);
    }
}

/// YAML is read, and what is written of it reads as the same.
pub fn yaml(data: &[u8]) {
    let parsed = yaml::parse(data);
    let value = yaml::parse_value(data);
    let (json, value) = match (parsed, value) {
        (Ok(json), Ok(value)) => (json, value),
        (Err(a), Err(b)) => return assert_eq!(a, b),
        (a, b) => panic!("{:?} as JSON, {:?} as a value", a.err(), b.err()),
    };
    // What Helm writes of this line break reads as a space.
    let emit = yaml::emit as fn(&Value) -> Result<Vec<u8>, yaml::EmitError>;
    let helm = (!json.to_string().contains('\u{85}')).then_some(emit);
    for emit in helm.into_iter().chain([yaml::emit_pretty as _]) {
        let Ok(text) = emit(&value) else { continue };
        match yaml::parse(&text) {
            Ok(again) => assert_eq!(again, json, "{}", String::from_utf8_lossy(&text)),
            // Go's `toYamlPretty` begins a block of text with a tab, which Go itself does not read.
            Err(e) if e.to_string().contains("found a tab character where an indentation space is expected") => {}
            Err(e) => panic!("{e}: {}", String::from_utf8_lossy(&text)),
        }
    }
    let _ = yaml::head(data);
    let _ = yaml::split_documents(data);
}

/// A chart's archive is loaded and rendered.
pub fn archive(data: &[u8]) {
    let limits = chart::ChartLimits { total: 1 << 20, files: 200, depth: 8 };
    let Ok(chart) = chart::load_archive(data, &limits) else { return };
    if chart.is_minijinja() {
        // Its engine counts instructions, not the length of the texts they make.
        let _ = chart.jinja("web");
        return;
    }
    let rendered = render::render(&chart, &Values::new(), &release(), &Capabilities::default(), &options(LIMITS));
    assert_no_fault(rendered.err());
}

/// The arguments of `--set` and its relatives, one a line; a line's first byte says which.
pub fn strvals(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut values = Values::new();
    let file = |path: &str| match path.len() {
        0..=3 => Ok(path.repeat(2)),
        _ => Err(chart::values::ValuesError::Argument("no such file".to_owned())),
    };
    for line in text.lines().take(20) {
        let mut chars = line.chars();
        let mode = match chars.next() {
            Some('s') => strvals::Mode::Text,
            Some('f') => strvals::Mode::File(&file),
            Some('j') => strvals::Mode::Json,
            Some('l') => strvals::Mode::Literal,
            _ => strvals::Mode::Typed,
        };
        let _ = strvals::apply(chars.as_str(), &mut values, &mode);
    }
    let _ = yaml::emit(&Value::from(&serde_json::Value::Object(values)));
}

/// A constraint and a version, a line each.
pub fn semver(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (constraint, version) = text.split_once('\n').unwrap_or((&text, "1.2.3"));
    // What is left out of a version makes it longer when it is shown.
    if version.len() < 200
        && let Ok(constraint) = Constraints::parse(constraint)
        && let Ok(version) = Version::parse(version)
    {
        let _ = constraint.check(&version);
        let again = Version::parse(&version.to_string()).expect("a version is shown as one");
        assert_eq!(again.cmp(&version), std::cmp::Ordering::Equal, "{version}");
    }
}

/// All that an editor of a custom resource or of a Secret may write, and `watches.yaml`: parts with a zero byte between them. The first
/// byte of a part says what it is; any other annotation has its name before a `=`.
pub fn annotations(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (mut all, mut values) = (BTreeMap::new(), Values::new());
    let mut own_values = Values::new();
    for part in text.split('\0').take(8) {
        let rest = part.get(1..).unwrap_or_default();
        let name = match part.as_bytes().first() {
            Some(b'p') => switches::PATCHES,
            Some(b'v') => values_from::ANNOTATION,
            Some(b'i') => IGNORE_DRIFT,
            Some(b'w') => {
                assert_short(watches::parse(rest, std::path::Path::new("/")).err().map(|e| e.to_string()));
                continue;
            }
            Some(b'y') => {
                let read =
                    || chart::values::load(rest.as_bytes()).map(serde_json::Value::Object).map_err(|_| String::new());
                if let Ok(serde_json::Value::Object(read)) = bounds::SOURCE.reads(rest.as_bytes(), read) {
                    chart::values::merge(&mut values, read);
                }
                continue;
            }
            Some(b'x') => {
                if let Ok(serde_json::Value::Object(spec)) = bounds::SPEC.json(rest) {
                    own_values = spec;
                }
                continue;
            }
            _ => {
                let (name, value) = part.split_once('=').unwrap_or((part, ""));
                all.insert(name.into(), value.into());
                continue;
            }
        };
        all.insert(name.into(), rest.into());
    }
    assert_short(Switches::default().read(&all).err());
    let read = annotations::texts(&all).map(|texts| Annotations::read(&texts)).unwrap_or_default();
    for source in read.sources.as_deref().unwrap_or_default() {
        if let Some(path) = &source.target_path {
            assert_short(values_from::set_path(path, "text", &mut values).err());
        }
    }
    let mut objects = objects();
    let patches = read.patches.as_deref().unwrap_or_default();
    if patch::apply(patches, &mut objects).map_err(|why| assert_short(Some(why.to_string()))).is_ok() {
        for object in objects.iter().flatten() {
            let (_, depth) = bounds::weigh(&serde_json::Value::Object(object.body.clone()));
            assert!(depth <= bounds::SPEC.depth + bounds::ANNOTATION.depth, "{depth} levels");
        }
    }
    let ids: Vec<_> = objects.iter().flatten().map(id).collect();
    for rule in read.ignored.as_deref().unwrap_or_default() {
        let _ = ids.iter().any(|id| rule.covers(id));
    }
    for why in [read.sources.err(), read.patches.err(), read.ignored.err()] {
        assert_short(why);
    }
    chart::values::merge(&mut values, own_values);
    let _ = yaml::emit(&Value::from(&serde_json::Value::Object(values)));
}

/// A release record, as JSON: it is packed as its Secret has it, and all is read that passes read of it.
pub fn record(data: &[u8]) {
    use base64::Engine as _;
    use std::io::Write as _;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(data).expect("memory takes it");
    let packed = base64::engine::general_purpose::STANDARD.encode(gzip.finish().expect("memory takes it"));
    let Ok(record) = Record::decode(packed.as_bytes()) else { return };
    for hook in record.hooks() {
        assert_short(hook.object().err());
    }
    let _ = (record.objects(), record.config(), record.chart(), record.revision(), record.status());
    assert_short(record.embedded_chart().err());
    let back = record.rollback(2, "2026-01-01T00:00:00Z");
    assert!(back.encode().is_err() || back.revision() == 2);
}

/// A document that Helm ignores (`Status`, `Members`, an operation), as YAML, and behind a zero byte an object for its paths.
pub fn documents(data: &[u8]) {
    let (text, object) = match data.iter().position(|&b| b == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &b"status: {a: [{b: c}]}"[..]),
    };
    let chart = chart_of(text);
    let rendered = render::render(&chart, &Values::new(), &release(), &Capabilities::default(), &options(LIMITS));
    let Ok(render::Rendered { unknown, .. }) = rendered else { return };
    let read = bounds::SPEC.yaml(text).unwrap_or_default();
    if let Ok(Some(fields)) = StatusFields::parse(&unknown) {
        let packed = fields.encode();
        assert!(packed.is_err() || StatusFields::decode(&packed.unwrap_or_default()).is_some());
    }
    assert_short(StatusFields::parse(&unknown).err());
    assert_short(Members::read(&unknown, &[], "ns", &Drivers::new()).err());
    assert_short(Operations::read(&unknown, &[]).err());
    let object = bounds::SPEC.yaml(object).unwrap_or_default();
    let fields = read["fields"].as_object().into_iter().flat_map(|fields| fields.values());
    let whole = std::str::from_utf8(text).ok();
    for path in fields.filter_map(|field| field["path"].as_str()).chain(whole) {
        if let Ok(path) = FieldPath::parse(path) {
            let _ = path.find(&object);
        }
    }
}

/// A template of a notice, rendered with facts as messages have them.
pub fn notice(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let line = serde_json::json!({"name": "web", "kind": "Web", "event": "Failed", "bad": true, "count": 3, "about": ["a", "b"]});
    let facts = serde_json::json!({"notice": "ops", "namespace": "shop", "count": 4, "lines": vec![line; 40]});
    match Template::read(text, MAX_BODY).and_then(|template| template.render(&facts)) {
        Ok(text) => assert!(text.len() <= template::LIMITS.output),
        Err(why) => assert_short(Some(why.to_string())),
    }
}

/// A message stands in conditions and events.
fn assert_short(message: Option<impl ToString>) {
    if let Some(message) = message.map(|message| message.to_string()) {
        assert!(message.len() < 8192, "{} bytes: {}", message.len(), &message[..100]);
    }
}

fn id(object: &Object) -> tillerman::object::ObjectId {
    let namespace = object.namespace.as_deref().map(Into::into);
    tillerman::object::ObjectId { gvk: object.gvk.clone(), namespace, name: object.name.as_str().into() }
}

/// What patches are applied to.
fn objects() -> Vec<Option<Object>> {
    let texts = [
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, labels: {app: web}}\nspec:\n  replicas: 1\n  template:\n    \
         spec:\n      containers:\n      - name: web\n        env: [{name: A, value: b}]\n        ports: [{containerPort: 80}]\n",
        "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: ns, finalizers: [a/b]}\nspec: {ports: [{port: 80}]}\n",
        "apiVersion: a.example.com/v1\nkind: Thing\nmetadata: {name: web}\nspec: {list: [1, [2]], text: x}\n",
    ];
    texts.iter().map(|text| Object::parse(text).expect("it is valid")).collect()
}

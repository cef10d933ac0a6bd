//! The CustomResourceDefinition of a chart, with types for its values.
//!
//! The types come from the chart's values.schema.json, key by key; where that says nothing, from the `@schema` blocks of values.yaml; and
//! else they are inferred from the default values and from what templates do with them. Then the result is checked: each values file
//! that comes with the chart has to be accepted, and what refuses one is opened.

mod against;
mod author;
mod carried;
mod comments;
mod conditions;
mod defaults;
mod fit;
mod infer;
mod keys;
mod names;
mod size;
mod status;
mod uses;
mod write;

use crate::chart::{Chart, Values};
use crate::names as tillerman;
use crate::template::go::usage::{ANY, Path, Usage, Uses};
pub use against::{CrdChange, What, changes};
use author::Conversion;
pub use author::of_type;
pub use carried::{carried, evidence, is_candidate};
pub use defaults::{Subchart, each_value, plain, subcharts};
pub use fit::{Refusal, Why, refusals};
pub use keys::Known;
pub use names::{Names, Scope, plural};
use serde_json::{Value, json};
pub use size::Cut;
pub use status::{STATUS_REMEDY, StatusField, status_fault, unseen};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
pub use uses::usage;
pub use write::json_schema;

/// How much the types say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Types {
    /// Types that `kubectl explain` shows: boolean, object, array, integer or string.
    #[default]
    Plain,
    /// Types that also take what templates take for nothing, such as a text in place of a table; `kubectl explain` shows few of them.
    Zero,
    /// Plain types, and no unknown key at the top.
    Closed,
    /// No types but those of the chart's own schema.
    Author,
}

/// How a definition is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct CrdSettings {
    /// How much the types say.
    pub types: Types,
    /// The chart's defaults become defaults of the definition, which the API server writes into each custom resource.
    pub with_defaults: bool,
    /// Each custom resource must have the values that the chart's schema requires and its values.yaml does not give.
    pub with_required: bool,
}

/// A values file that a definition has to accept.
#[derive(Clone, Debug)]
pub struct Evidence {
    pub name: String,
    /// Its content.
    pub values: Values,
}

/// A place that was opened, since a values file gives it another type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The place in the values.
    pub path: Path,
    /// The name of the file.
    pub by: String,
}

/// A definition.
#[derive(Clone, Debug)]
pub struct Made {
    /// The CustomResourceDefinition.
    pub definition: Value,
    /// The opened places.
    pub opened: Vec<Opened>,
    /// The parts that were left out to make it smaller.
    pub cut: Cut,
}

/// The types of a chart's values.
pub struct Typed {
    /// A structural schema of the values.
    pub schema: Value,
    /// The opened places.
    pub opened: Vec<Opened>,
    /// How templates use the values; `None` for a minijinja chart.
    usage: Option<Usage>,
    defaults: Values,
}

/// Why a chart has no definition.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// Its schema cannot be read.
    #[error("values.schema.json is not JSON: {0}")]
    Schema(#[from] serde_json::Error),
    /// A line of its columns has another form.
    #[error("annotation tillerman.dev/columns: {0:?} is not NAME TYPE JSONPATH")]
    Columns(String),
}

impl From<CrdError> for String {
    fn from(error: CrdError) -> Self {
        error.to_string()
    }
}

/// The types of a chart's values. Those of the files in `evidence` are accepted.
///
/// # Errors
/// The fault of the chart's values.schema.json.
pub fn types(chart: &Chart, settings: CrdSettings, evidence: &[Evidence]) -> Result<Typed, CrdError> {
    let defaults = defaults::merged(chart);
    let usage = uses::of_chart(chart);
    let beside = Value::Object(defaults.clone());
    let how = Conversion {
        with_nulls: true,
        with_defaults: settings.with_defaults,
        beside: Some(&beside),
        with_required: settings.with_required,
    };
    let mut schema = author::open_object();
    if let Some(own) = &chart.schema {
        let own = parsed(own)?;
        let converted = author::structural(&own, how);
        if converted["type"] == "object" {
            schema = converted;
        }
    }
    let without_required = Conversion { with_required: false, ..how };
    add_subcharts(chart, &mut schema, without_required);
    if settings.types != Types::Author {
        for (path, said) in described(chart) {
            if let Some(own) = &said.schema {
                let mut found = author::structural(own, without_required);
                for key in path.iter().rev() {
                    let mut outer = author::open_object();
                    outer["properties"] = json!({&**key: found});
                    found = outer;
                }
                fill(&mut schema, found);
            }
        }
        let none = BTreeMap::new();
        let facts = infer::ValueFacts {
            uses: usage.as_ref().map_or(&none, |usage| &usage.uses),
            contradictions: &defaults::contradictions(chart),
        };
        let mut inferred = author::open_object();
        inferred["properties"] = Value::Object(infer::properties(settings.types, &defaults, &Path::new(), &facts));
        fill(&mut schema, inferred);
    }
    if let Some(entries) = schema.as_object_mut() {
        entries.remove("nullable");
    }
    let own = Evidence { name: "values.yaml".into(), values: defaults.clone() };
    // Where values are required, a default that the chart's own schema refuses is a place to fill in.
    let own = (!settings.with_required || chart.schema.is_none()).then_some(&own);
    let opened = check(&mut schema, own.into_iter().chain(evidence));
    // Only now: a file that comes with the chart can set values that a custom resource cannot.
    author::remove_read_only(&mut schema);
    if settings.types == Types::Closed {
        close(&mut schema, evidence);
    }
    if let Some(own) = &chart.schema {
        conditions::add(&mut schema, &parsed(own)?, &defaults, evidence);
    }
    describe(&mut schema, chart, &defaults, settings.with_defaults);
    Ok(Typed { schema, opened, usage, defaults })
}

fn parsed(schema: &[u8]) -> Result<Value, CrdError> {
    Ok(serde_json::from_slice(schema)?)
}

/// The keys that a chart knows at the top of its values; `None` where any key may have a meaning. The chart remembers them.
pub fn known(chart: &Chart) -> Arc<Option<Known>> {
    let find = || -> Result<_, std::convert::Infallible> {
        let own = chart.schema.as_deref().and_then(|text| parsed(text).ok());
        let schema = own.map_or_else(author::open_object, |own| author::structural(&own, Conversion::default()));
        Ok(uses::of_chart(chart).and_then(|usage| keys::known(chart, &schema, &defaults::merged(chart), &usage)))
    };
    let Ok(known) = chart.memory.known.get_or_make(|_| true, find);
    known
}

/// Adds the schemas of dependencies, each at its key. One that is not JSON is left to the rendering, which reports it.
fn add_subcharts(chart: &Chart, schema: &mut Value, how: Conversion<'_>) {
    for subchart in defaults::subcharts(chart) {
        let mut below = author::open_object();
        if let Some(own) = subchart.chart.schema.as_deref().and_then(|text| parsed(text).ok()) {
            let converted = author::structural(&own, Conversion { beside: None, with_required: false, ..how });
            if converted["type"] == "object" {
                below = converted;
            }
        }
        add_subcharts(subchart.chart, &mut below, how);
        if below.get("properties").is_none() {
            continue;
        }
        // Helm gives each chart the global values, and a parent its condition, whatever its schema says.
        below["x-kubernetes-preserve-unknown-fields"] = true.into();
        below["nullable"] = true.into();
        let mut outer = author::open_object();
        outer["properties"] = json!({subchart.key: below});
        fill(schema, outer);
    }
}

/// Adds to a schema the parts that it does not have itself.
fn fill(above: &mut Value, below: Value) {
    let (Value::Object(above), Value::Object(mut below)) = (above, below) else { return };
    if author::is_silent(above) && !below.is_empty() {
        let own = std::mem::replace(above, below);
        above.extend(own.into_iter().filter(|(key, _)| matches!(key.as_str(), "title" | "description" | "default")));
        return;
    }
    let is_open = above.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    if above.get("type").is_none_or(|kind| kind == "object")
        && !above.contains_key("additionalProperties")
        && let Some(Value::Object(properties)) = below.remove("properties")
        && (is_open || above.contains_key("properties"))
    {
        let own = above.entry("properties").or_insert_with(|| json!({}));
        if let Value::Object(own) = own {
            for (key, schema) in properties {
                match own.get_mut(&key) {
                    Some(own) => fill(own, schema),
                    None if is_open => drop(own.insert(key, schema)),
                    None => {}
                }
            }
        }
    }
    if let Some(text) = below.remove("description") {
        above.entry("description").or_insert(text);
    }
}

/// How often a file is compared: each time shows one level more of what refuses it.
const LEVELS: usize = 64;

/// Opens what refuses one of the files.
fn check<'e>(schema: &mut Value, files: impl Iterator<Item = &'e Evidence>) -> Vec<Opened> {
    let mut opened = Vec::new();
    for file in files {
        let values = Value::Object(file.values.clone());
        // An opened place may have hidden places below it.
        for _ in 0..LEVELS {
            let found = refusals(schema, &values);
            if found.is_empty() {
                break;
            }
            for refusal in found {
                fit::open(schema, &refusal);
                opened.push(Opened { path: refusal.path, by: file.name.clone() });
            }
        }
    }
    let mut seen = BTreeSet::new();
    opened.retain(|opened| seen.insert(opened.path.clone()));
    opened
}

/// Leaves no unknown key at the top, but those that the files have.
fn close(schema: &mut Value, evidence: &[Evidence]) {
    let Some(entries) = schema.as_object_mut() else { return };
    entries.remove("x-kubernetes-preserve-unknown-fields");
    if let Value::Object(properties) = entries.entry("properties").or_insert_with(|| json!({})) {
        let keys = evidence.iter().flat_map(|file| file.values.keys().cloned()).chain(["global".into()]);
        for key in keys {
            properties.entry(key).or_insert_with(|| Value::Object(infer::Type::Open.schema()));
        }
    }
}

/// The comments about values, those of the outermost chart first.
fn described(chart: &Chart) -> Vec<(Path, comments::Said)> {
    fn walk(chart: &Chart, path: &Path, all: &mut Vec<(Path, comments::Said)>) {
        let text = chart.values_text.as_ref().map_or_else(Default::default, |text| String::from_utf8_lossy(text));
        let at = |below: Path| path.iter().cloned().chain(below).collect();
        all.extend(comments::read(&text).into_iter().map(|(below, said)| (at(below), said)));
        for subchart in defaults::subcharts(chart) {
            walk(subchart.chart, &at(vec![subchart.key.into()]), all);
        }
    }
    let mut all = Vec::new();
    walk(chart, &Path::new(), &mut all);
    all
}

/// Longer defaults are not repeated in a description.
const SHORT: usize = 80;

/// Gives each property a description: its comment, and its default.
fn describe(schema: &mut Value, chart: &Chart, defaults: &Values, with_defaults: bool) {
    let mut texts = BTreeMap::new();
    for (path, said) in described(chart) {
        if !said.text.is_empty() {
            texts.entry(path).or_insert(said.text);
        }
    }
    add_texts(schema, Some(defaults), &mut Path::new(), &texts, with_defaults);
}

fn add_texts(
    schema: &mut Value,
    defaults: Option<&Values>,
    path: &mut Path,
    texts: &BTreeMap<Path, String>,
    with_defaults: bool,
) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (key, schema) in properties {
        path.push(key.as_str().into());
        let default = defaults.and_then(|defaults| defaults.get(key));
        let Value::Object(entries) = &mut *schema else { continue };
        let own = entries.get("description").and_then(Value::as_str).map(str::to_owned);
        let mut text = own.or_else(|| texts.get(path).cloned()).unwrap_or_default();
        if let Some(default) = default.filter(|d| !d.is_null() && !d.is_object() && !d.is_array()) {
            let default = defaults::plain(default);
            let shown = default.to_string();
            if shown.len() < SHORT && default != "" && !text.contains("Default:") {
                let end = match text.chars().last() {
                    None => "",
                    Some(last) if last.is_alphanumeric() => ". ",
                    Some(_) => " ",
                };
                text = format!("{text}{end}Default: {shown}");
            }
            if with_defaults && !entries.contains_key("default") {
                entries.insert("default".into(), default);
            }
        }
        if !text.is_empty() {
            entries.insert("description".into(), text.into());
        }
        add_texts(schema, default.and_then(Value::as_object), path, texts, with_defaults);
        path.pop();
    }
}

/// The CRD of a chart.
///
/// # Errors
/// The fault of the chart's values.schema.json or of its annotation `tillerman.dev/columns`.
pub fn of_chart(
    chart: &Chart,
    names: &Names,
    settings: CrdSettings,
    evidence: &[Evidence],
    fields: &[StatusField],
) -> Result<Made, CrdError> {
    let typed = types(chart, settings, evidence)?;
    let Names { group, version, kind, plural, scope } = names;
    let mut subresources = json!({"status": {}});
    if let Some(path) = typed.replicas(chart, evidence) {
        subresources["scale"] = json!({
            "specReplicasPath": format!(".spec.{}", path.join(".")),
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        });
    }
    let mut spoken = json!({
        "kind": kind,
        "listKind": format!("{kind}List"),
        "plural": plural,
        "singular": kind.to_ascii_lowercase(),
        "categories": ["tillerman"],
    });
    let short = chart.metadata.annotation(tillerman::SHORT_NAMES).unwrap_or_default();
    let short: Vec<&str> = short.split([',', ' ']).filter(|name| !name.is_empty()).collect();
    if !short.is_empty() {
        spoken["shortNames"] = short.into();
    }
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": spoken,
            "scope": scope.word(),
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "subresources": subresources,
                "additionalPrinterColumns": columns(chart, fields)?,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": description(chart, kind),
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        // The name is the release's, which Helm limits.
                        "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 53}}},
                        "spec": typed.schema,
                        "status": status::schema(fields),
                    },
                }},
            }],
        },
    });
    let cut = size::shorten(&mut definition);
    Ok(Made { definition, opened: typed.opened, cut })
}

impl Typed {
    /// The chart's default values, those of its dependencies at their keys.
    pub fn defaults(&self) -> &Values {
        &self.defaults
    }

    /// How templates use a value.
    pub fn uses(&self, path: &[Box<str>]) -> Option<&Uses> {
        self.usage.as_ref()?.uses.get(path)
    }

    /// The value that is the number of replicas, if the chart has one: a whole number that a template prints at `replicas:`. With the
    /// subresource `scale` the API server refuses everything else there, so none of the files may give it.
    fn replicas(&self, chart: &Chart, evidence: &[Evidence]) -> Option<Path> {
        let subcharts = defaults::subcharts(chart);
        let is_own = |path: &Path| path.first().is_some_and(|first| subcharts.iter().all(|s| *s.key != **first));
        let is_plain =
            |path: &Path| path.iter().all(|key| **key != *ANY && key.bytes().all(|b| b.is_ascii_alphanumeric()));
        let mut found = self.usage.as_ref()?.uses.iter().filter(|(path, uses)| {
            let is_printed = uses.printed_under.iter().flatten().any(|key| **key == *"replicas");
            let default = path.split_first().and_then(|(first, rest)| {
                rest.iter().try_fold(self.defaults.get(&**first)?, |value, key| value.get(&**key))
            });
            let is_whole = default.and_then(Value::as_f64).is_some_and(|number| number.fract() == 0.0);
            is_printed && is_whole && is_own(path) && is_plain(path)
        });
        let (path, _) = found.next()?;
        if found.next().is_some() {
            return None;
        }
        let typed = path.iter().try_fold(&self.schema, |schema, key| schema.get("properties")?.get(&**key))?;
        let is_whole = |value: &Value| value.as_f64().is_some_and(|number| number.fract() == 0.0);
        let given = evidence.iter().filter_map(|file| {
            let (first, rest) = path.split_first()?;
            rest.iter().try_fold(file.values.get(&**first)?, |value, key| value.get(&**key))
        });
        (typed["type"] == "integer" && given.into_iter().all(is_whole)).then(|| path.clone())
    }

    /// The keys that the chart knows at the top of its values.
    pub fn known(&self, chart: &Chart) -> Option<Known> {
        keys::known(chart, &self.schema, &self.defaults, self.usage.as_ref()?)
    }
}

/// The columns that `kubectl get` shows: the chart's own, those of fields of its status, and those of all kinds.
fn columns(chart: &Chart, fields: &[StatusField]) -> Result<Vec<Value>, CrdError> {
    let column = |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
    let mut columns = own_columns(chart)?;
    for field in fields.iter().filter(|field| field.column) {
        let name = field.column_name();
        if !columns.iter().any(|own| own["name"] == name.as_str()) {
            columns.push(column(&name, field.kind, &format!(".status.{}", field.name)));
        }
    }
    let standard = [
        column("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
        column("Status", "string", ".status.conditions[?(@.type==\"Ready\")].reason"),
        column("Revision", "integer", ".status.release.revision"),
        column("Version", "string", ".status.release.appVersion"),
        column("Age", "date", ".metadata.creationTimestamp"),
    ];
    // A chart's own column has the place of a standard one of that name.
    let is_new = |column: &Value| !columns.iter().any(|own: &Value| own["name"] == column["name"]);
    let standard: Vec<Value> = standard.into_iter().filter(is_new).collect();
    columns.extend(standard);
    Ok(columns)
}

/// The columns that Chart.yaml's annotation `tillerman.dev/columns` adds to what `kubectl get` shows: one a line, as
/// `NAME TYPE JSONPATH`.
fn own_columns(chart: &Chart) -> Result<Vec<Value>, CrdError> {
    let lines = chart.metadata.annotation(tillerman::COLUMNS).unwrap_or_default().lines();
    let read = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [name, kind, path] => Ok(json!({"name": name, "type": kind, "jsonPath": path})),
        _ => Err(CrdError::Columns(line.to_owned())),
    };
    lines.filter(|line| !line.trim().is_empty()).map(read).collect()
}

fn description(chart: &Chart, kind: &str) -> String {
    if chart.metadata.description.is_empty() {
        return format!("{kind} is an instance of the chart {}.", chart.metadata.name);
    }
    chart.metadata.description.clone()
}

#[cfg(test)]
mod tests {
    use super::{CrdSettings, Evidence, Names, Types, of_chart, types};
    use crate::chart::{Chart, File};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn chart(values: &str, template: &str) -> Chart {
        let mut chart = Chart { values: crate::chart::values::load(values.as_bytes()).unwrap(), ..Chart::default() };
        chart.metadata.name = "my-app".into();
        chart.values_text = Some(Arc::new(values.into()));
        chart.templates = vec![File { name: "templates/a.yaml".into(), data: Arc::new(template.into()) }];
        chart
    }

    fn spec(chart: &Chart, settings: CrdSettings) -> Value {
        types(chart, settings, &[]).unwrap().schema
    }

    #[test]
    fn a_chart_without_a_schema_gets_types_from_values_and_templates() {
        let chart = chart(
            "# How many.\nreplicaCount: 1\nimage: {tag: ''}\nresources: {}\n",
            "replicas: {{ .Values.replicaCount }}\nimage: x:{{ .Values.image.tag | quote }}\nresources: {{ toYaml .Values.resources }}",
        );
        let open = |more: Value| {
            let mut schema = json!({"x-kubernetes-preserve-unknown-fields": true, "nullable": true, "type": "object"});
            schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            schema
        };
        assert_eq!(
            spec(&chart, CrdSettings::default()),
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "replicaCount": {"type": "integer", "nullable": true, "description": "How many. Default: 1"},
                "image": open(json!({"properties": {
                    "tag": {"x-kubernetes-int-or-string": true, "nullable": true},
                }})),
                "resources": open(json!({})),
            }})
        );
        let names = Names::of_chart(&chart);
        assert_eq!((names.kind.as_str(), names.plural.as_str()), ("MyApp", "myapps"));
        let made = of_chart(&chart, &names, CrdSettings::default(), &[], &[]).unwrap();
        let scale = &made.definition["spec"]["versions"][0]["subresources"]["scale"];
        assert_eq!(scale["specReplicasPath"], ".spec.replicaCount");
        let with_defaults = CrdSettings { with_defaults: true, ..CrdSettings::default() };
        assert_eq!(spec(&chart, with_defaults)["properties"]["replicaCount"]["default"], 1);
    }

    #[test]
    fn the_authors_types_win_and_inference_fills_the_rest() {
        let mut chart = chart("a: 1\nb: x\nc: {d: true, e: 1}\n", "{{ .Values.c.d }}");
        let schema = json!({"type": "object", "required": ["a"], "properties": {
            "a": {"type": "string", "description": "Own."}, "c": {"type": "object", "additionalProperties": false,
                "properties": {"d": {"type": ["boolean", "string"]}, "f": {"type": "string", "readOnly": true}}}}});
        chart.schema = Some(schema.to_string().into_bytes());
        let properties = spec(&chart, CrdSettings::default())["properties"].clone();
        // The default is not a string, so the author's type is opened.
        assert_eq!(properties["a"]["type"], Value::Null);
        assert_eq!(properties["a"]["description"], "Own. Default: 1");
        assert_eq!(properties["b"]["x-kubernetes-int-or-string"], true);
        assert_eq!(properties["c"]["properties"]["d"]["maxProperties"], 0);
        assert_eq!(properties["c"]["properties"].get("f"), None);
        // The default has a key that the author's schema does not allow.
        assert_eq!(properties["c"]["x-kubernetes-preserve-unknown-fields"], true);
        let author = CrdSettings { types: Types::Author, ..CrdSettings::default() };
        assert_eq!(spec(&chart, author)["properties"].get("b"), None);
    }

    #[test]
    fn a_values_file_that_comes_with_the_chart_opens_what_refuses_it() {
        let chart = chart("live: true\nlist: []\n", "{{ range .Values.list }}{{ end }}");
        let Value::Object(values) = json!({"live": "yes", "other": 1}) else { unreachable!("it is a table") };
        let file = Evidence { name: "ci/a.yaml".into(), values };
        let typed = types(&chart, CrdSettings::default(), std::slice::from_ref(&file)).unwrap();
        assert_eq!(typed.opened.len(), 1);
        assert_eq!((typed.opened[0].path.join("."), typed.opened[0].by.as_str()), ("live".into(), "ci/a.yaml"));
        let closed = CrdSettings { types: Types::Closed, ..CrdSettings::default() };
        let typed = types(&chart, closed, &[file]).unwrap();
        assert_eq!(typed.schema.get("x-kubernetes-preserve-unknown-fields"), None);
        assert!(typed.schema["properties"]["other"].is_object());
    }

    #[test]
    fn a_schema_block_of_a_comment_is_the_type() {
        let chart =
            chart("# @schema\n# type: [integer, string]\n# minimum: 1\n# @schema\n# -- The size.\nsize: 3\n", "");
        let size = spec(&chart, CrdSettings::default())["properties"]["size"].clone();
        assert_eq!(
            (&size["x-kubernetes-int-or-string"], &size["description"]),
            (&json!(true), &json!("The size. Default: 3"))
        );
    }

    #[test]
    fn a_chart_gives_short_names_and_columns() {
        let mut chart = Chart::default();
        chart.metadata.name = "web".into();
        let annotate = |chart: &mut Chart, name: &str, value: &str| {
            chart.metadata.annotations.get_or_insert_default().insert(name.into(), value.into());
        };
        let made = |chart: &Chart| of_chart(chart, &Names::of_chart(chart), CrdSettings::default(), &[], &[]);
        annotate(&mut chart, "tillerman.dev/short-names", "w, wb");
        annotate(&mut chart, "tillerman.dev/columns", "Size integer .spec.size\n");
        let crd = made(&chart).unwrap().definition;
        assert_eq!(crd["spec"]["names"]["shortNames"], json!(["w", "wb"]));
        assert_eq!(crd["spec"]["names"]["categories"], json!(["tillerman"]));
        let columns = &crd["spec"]["versions"][0]["additionalPrinterColumns"];
        assert_eq!(columns[0], json!({"name": "Size", "type": "integer", "jsonPath": ".spec.size"}));
        assert_eq!(columns[1]["name"], "Ready");
        annotate(&mut chart, "tillerman.dev/columns", "Size");
        assert!(made(&chart).unwrap_err().to_string().contains("tillerman.dev/columns"));
    }
}

//! The CustomResourceDefinition of a chart: its values.schema.json as a structural OpenAPI schema.
//!
//! Keywords that a structural schema cannot express (`anyOf`, `if`, `not`…) are left out of the CRD. The chart's
//! own schema still checks them before anything is applied.

use crate::chart::Chart;
use crate::names;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// How deep a schema may nest; `$ref`s may go round in circles.
const MAX_DEPTH: usize = 32;

/// What the operator reports about a custom resource. The API server checks the operator's own writes against it.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "the type is read by its schema only: the status is written as JSON")]
struct Status {
    /// The generation of the custom resource that the status is about.
    observed_generation: Option<i64>,
    /// helm-operator's conditions Initialized, Deployed, ReleaseFailed, Irreconcilable, and Ready, Reconciling, Stalled.
    conditions: Vec<Condition>,
    /// The release, under helm-operator's name.
    deployed_release: Option<BTreeMap<String, String>>,
    /// The release.
    release: Option<BTreeMap<String, serde_json::Value>>,
    /// The objects of the release and their health; not all of them if there are many.
    resources: Vec<BTreeMap<String, String>>,
    /// Inputs that failed, so that they are not tried for ever.
    last_attempted: Option<BTreeMap<String, serde_json::Value>>,
}

/// A condition in the form that Kubernetes uses.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "the type is read by its schema only")]
struct Condition {
    /// Name of the condition.
    r#type: String,
    /// `True`, `False` or `Unknown`.
    status: String,
    /// One word in camel case.
    reason: Option<String>,
    /// One or more sentences.
    message: Option<String>,
    /// When the status last changed.
    last_transition_time: Option<String>,
    /// When anything of it last changed; only of some.
    last_update_time: Option<String>,
    /// The generation that the condition is about.
    observed_generation: Option<i64>,
}

/// The names of a custom resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// API group, such as `apps.tillerman.dev`.
    pub group: String,
    /// Version, such as `v1alpha1`.
    pub version: String,
    /// Kind, such as `PhpApp`.
    pub kind: String,
    /// Plural in lower case, such as `phpapps`.
    pub plural: String,
}

impl Names {
    /// The names that Chart.yaml's annotations `tillerman.dev/group`, `/version`, `/kind` and `/plural` give.
    /// Without them: operator-sdk's version `v1alpha1`, and the chart's name in camel case as kind.
    pub fn of_chart(chart: &Chart) -> Self {
        let annotation = |name: &str| chart.metadata.annotation(&format!("tillerman.dev/{name}")).map(str::to_owned);
        let kind = annotation("kind").unwrap_or_else(|| camel_case(&chart.metadata.name));
        let plural = annotation("plural").unwrap_or_else(|| plural(&kind));
        Self {
            group: annotation("group").unwrap_or_default(),
            version: annotation("version").unwrap_or_else(|| "v1alpha1".into()),
            kind,
            plural,
        }
    }
}

fn camel_case(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty());
    words.map(|w| w[..1].to_ascii_uppercase() + &w[1..]).collect()
}

/// The plural of a kind, in lower case, by the rules that Kubernetes' own generators use.
pub fn plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    match kind.as_bytes() {
        [.., b's' | b'x' | b'z'] | [.., b'c' | b's', b'h'] => format!("{kind}es"),
        [.., before, b'y'] if !b"aeiou".contains(before) => format!("{}ies", &kind[..kind.len() - 1]),
        _ => format!("{kind}s"),
    }
}

/// The CRD of a chart, as JSON.
///
/// A chart without a schema gets an open one, which accepts every value. The error says what the schema lacks.
pub fn of_chart(chart: &Chart, names: &Names) -> Result<Value, String> {
    let spec = match &chart.schema {
        None => open_object(),
        Some(text) => {
            let schema: Value =
                serde_json::from_slice(text).map_err(|e| format!("values.schema.json is not JSON: {e}"))?;
            let mut spec = Converter { root: &schema, is_nullable: true }.convert(&schema, 0);
            if let Some(entries) = spec.as_object_mut() {
                entries.remove("nullable");
            }
            if spec["type"] != "object" {
                spec = open_object();
            }
            spec
        }
    };
    let Names { group, version, kind, plural } = names;
    let column = |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
    let mut columns = own_columns(chart)?;
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
    let mut spoken = json!({
        "kind": kind,
        "listKind": format!("{kind}List"),
        "plural": plural,
        "singular": kind.to_ascii_lowercase(),
    });
    let short = chart.metadata.annotation(names::SHORT_NAMES).unwrap_or_default();
    let short: Vec<&str> = short.split([',', ' ']).filter(|name| !name.is_empty()).collect();
    if !short.is_empty() {
        spoken["shortNames"] = short.into();
    }
    Ok(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": spoken,
            "scope": "Namespaced",
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": description(chart, kind),
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        // The name is the release's, which Helm limits.
                        "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 53}}},
                        "spec": spec,
                        "status": status(),
                    },
                }},
            }],
        },
    }))
}

/// The columns that Chart.yaml's annotation `tillerman.dev/columns` adds to what `kubectl get` shows: one a line, as
/// `NAME TYPE JSONPATH`.
fn own_columns(chart: &Chart) -> Result<Vec<Value>, String> {
    let lines = chart.metadata.annotation(names::COLUMNS).unwrap_or_default().lines();
    let read = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [name, kind, path] => Ok(json!({"name": name, "type": kind, "jsonPath": path})),
        _ => Err(format!("annotation tillerman.dev/columns: {line:?} is not NAME TYPE JSONPATH")),
    };
    lines.filter(|line| !line.trim().is_empty()).map(read).collect()
}

fn description(chart: &Chart, kind: &str) -> String {
    if chart.metadata.description.is_empty() {
        return format!("{kind} is an instance of the chart {}.", chart.metadata.name);
    }
    chart.metadata.description.clone()
}

/// The schema of the status. What it does not name is kept, so that another version's status survives.
fn status() -> Value {
    let schema = schemars::schema_for!(Status).to_value();
    let mut status = Converter { root: &schema, is_nullable: false }.convert(&schema, 0);
    if let Some(entries) = status.as_object_mut() {
        entries.remove("required");
        entries.remove("title");
    }
    status
}

/// Why a CustomResourceDefinition does not keep the status of custom resources of a version.
pub fn status_fault(definition: &Value, version: &str) -> Option<&'static str> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let version = versions.into_iter().find(|v| v.get("name").and_then(Value::as_str) == Some(version))?;
    if version.pointer("/subresources/status").is_none() {
        return Some("it has no subresource status");
    }
    let schema = version.pointer("/schema/openAPIV3Schema")?;
    let keeps = |schema: &Value| schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    let status = schema.pointer("/properties/status");
    let is_kept = keeps(schema) && status.is_none()
        || status.is_some_and(|status| keeps(status) || status.pointer("/properties/lastAttempted").is_some());
    (!is_kept).then_some("its schema leaves out fields of the status")
}

/// What to do about a [`status_fault`].
pub const STATUS_REMEDY: &str = "Give it the subresource status, and a status with x-kubernetes-preserve-unknown-fields: true; tillerman \
                                 crd writes both";

fn open_object() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

struct Converter<'a> {
    root: &'a Value,
    /// Every field accepts a null, with which Helm's users delete a default of the chart. If a field did not accept it, the API server
    /// would drop the null silently, and the default would stay.
    is_nullable: bool,
}

impl Converter<'_> {
    fn open_value(&self) -> Value {
        let mut open = json!({"x-kubernetes-preserve-unknown-fields": true});
        if self.is_nullable {
            open["nullable"] = true.into();
        }
        open
    }

    fn convert(&self, schema: &Value, depth: usize) -> Value {
        let Value::Object(source) = schema else { return self.open_value() };
        if depth > MAX_DEPTH {
            return self.open_value();
        }
        if let Some(reference) = source.get("$ref").and_then(Value::as_str) {
            // Only references within the file are followed; any other `$ref` is open.
            let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            let mut found = target.map_or_else(|| self.open_value(), |target| self.convert(target, depth + 1));
            if let (Some(text), Some(entries)) = (source.get("description"), found.as_object_mut()) {
                entries.insert("description".into(), text.clone());
            }
            return found;
        }
        let mut to = Map::new();
        for key in ["title", "description", "pattern"] {
            if let Some(Value::String(_)) = source.get(key) {
                to.insert(key.into(), source[key].clone());
            }
        }
        let (types, nullable) = types(source);
        let nullable = nullable || self.is_nullable;
        if nullable {
            to.insert("nullable".into(), Value::Bool(true));
        }
        match types.as_slice() {
            ["object"] => self.object(source, &mut to, depth),
            ["array"] => self.array(source, &mut to, depth),
            ["string"] => scalar(source, &mut to, "string", &["minLength", "maxLength"]),
            ["integer"] => scalar(source, &mut to, "integer", NUMERIC),
            ["number" | "integer", "integer" | "number"] | ["number"] => scalar(source, &mut to, "number", NUMERIC),
            ["boolean"] => scalar(source, &mut to, "boolean", &[]),
            [a, b] if [*a, *b].contains(&"string") && [*a, *b].iter().any(|t| *t == "integer" || *t == "number") => {
                to.remove("pattern");
                to.insert("x-kubernetes-int-or-string".into(), Value::Bool(true));
            }
            _ => {
                to.remove("pattern");
                to.insert("x-kubernetes-preserve-unknown-fields".into(), Value::Bool(true));
            }
        }
        if nullable && let Some(Value::Array(options)) = to.remove("enum") {
            // The API server refuses a null where there is an `enum`, even one with a null in it.
            to.extend(as_pattern(&options).map(|pattern| ("pattern".to_owned(), pattern.into())));
        }
        if let Some(default) = source.get("default").filter(|d| !d.is_null()) {
            to.insert("default".into(), default.clone());
        }
        Value::Object(to)
    }

    fn object(&self, source: &Map<String, Value>, to: &mut Map<String, Value>, depth: usize) {
        to.insert("type".into(), "object".into());
        copy(source, to, &["minProperties", "maxProperties"]);
        let closed = source.get("additionalProperties") == Some(&Value::Bool(false));
        if let Some(Value::Object(properties)) = source.get("properties") {
            // A read-only property is no field of a custom resource: the API server drops it, and `overrideValues` may set it.
            let is_open = |(_, schema): &(&String, &Value)| schema.get("readOnly") != Some(&Value::Bool(true));
            let open = properties.iter().filter(is_open);
            let converted = open.map(|(name, schema)| (name.clone(), self.convert(schema, depth + 1)));
            to.insert("properties".into(), Value::Object(converted.collect()));
            if let Some(required @ Value::Array(_)) = source.get("required") {
                to.insert("required".into(), required.clone());
            }
            // A structural schema with properties drops what it does not name, unless it says to keep it.
            if !closed {
                to.insert("x-kubernetes-preserve-unknown-fields".into(), Value::Bool(true));
            }
            return;
        }
        match source.get("additionalProperties") {
            Some(items @ Value::Object(_)) => {
                to.insert("additionalProperties".into(), self.convert(items, depth + 1));
            }
            _ if closed => {}
            _ => {
                to.insert("x-kubernetes-preserve-unknown-fields".into(), Value::Bool(true));
            }
        }
    }

    fn array(&self, source: &Map<String, Value>, to: &mut Map<String, Value>, depth: usize) {
        to.insert("type".into(), "array".into());
        copy(source, to, &["minItems", "maxItems"]);
        let items = source.get("items").filter(|i| i.is_object());
        to.insert("items".into(), items.map_or_else(|| self.open_value(), |items| self.convert(items, depth + 1)));
    }
}

const NUMERIC: &[&str] = &["minimum", "maximum", "multipleOf"];

fn copy(source: &Map<String, Value>, to: &mut Map<String, Value>, keys: &[&str]) {
    for key in keys {
        if let Some(value @ Value::Number(_)) = source.get(*key) {
            to.insert((*key).into(), value.clone());
        }
    }
}

fn scalar(source: &Map<String, Value>, to: &mut Map<String, Value>, kind: &str, keys: &[&str]) {
    to.insert("type".into(), kind.into());
    copy(source, to, keys);
    if kind != "string" {
        to.remove("pattern");
    }
    // Newer drafts write the bound itself, OpenAPI a flag beside the inclusive bound.
    for (exclusive, inclusive) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match source.get(exclusive).filter(|_| keys.contains(&inclusive)) {
            Some(bound @ Value::Number(_)) => {
                to.insert(inclusive.into(), bound.clone());
                to.insert(exclusive.into(), Value::Bool(true));
            }
            Some(Value::Bool(true)) if to.contains_key(inclusive) => {
                to.insert(exclusive.into(), Value::Bool(true));
            }
            _ => {}
        }
    }
    let fits = |value: &&Value| match kind {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        _ => value.is_number(),
    };
    let allowed = match (source.get("enum"), source.get("const")) {
        (Some(Value::Array(options)), _) => options.iter().filter(fits).cloned().collect(),
        (_, Some(only)) if fits(&only) => vec![only.clone()],
        _ => Vec::new(),
    };
    if !allowed.is_empty() {
        to.insert("enum".into(), Value::Array(allowed));
    }
}

/// A pattern for some strings and no others. `None` when there are numbers among them.
fn as_pattern(options: &[Value]) -> Option<String> {
    let texts: Vec<String> = options.iter().map(|option| option.as_str().map(regex::escape)).collect::<Option<_>>()?;
    Some(format!("^({})$", texts.join("|")))
}

/// The types a schema allows, without null, and whether null is one of them. A schema that names none, but has
/// properties or items, means an object or an array.
fn types(source: &Map<String, Value>) -> (Vec<&str>, bool) {
    let named: Vec<&str> = match source.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ if source.contains_key("properties") => vec!["object"],
        _ if source.contains_key("items") => vec!["array"],
        _ => Vec::new(),
    };
    let nullable = named.contains(&"null");
    (named.into_iter().filter(|t| *t != "null").collect(), nullable)
}

#[cfg(test)]
mod tests {
    use super::{Converter, Names, of_chart, plural, status_fault};
    use crate::chart::Chart;
    use serde_json::{Value, json};

    fn convert(schema: &Value) -> Value {
        Converter { root: schema, is_nullable: false }.convert(schema, 0)
    }

    #[test]
    fn every_field_of_a_custom_resource_takes_a_null() {
        let schema = json!({"type": "object", "properties": {
            "name": {"type": "string", "enum": ["a.b", "c"]}, "one": {"enum": [1, 2], "type": "integer"},
            "any": {}, "list": {"type": "array", "items": {"type": "string"}}}});
        let converted = Converter { root: &schema, is_nullable: true }.convert(&schema, 0);
        assert_eq!(
            converted["properties"],
            json!({
                "name": {"type": "string", "nullable": true, "pattern": "^(a\\.b|c)$"},
                "one": {"type": "integer", "nullable": true},
                "any": {"nullable": true, "x-kubernetes-preserve-unknown-fields": true},
                "list": {"type": "array", "nullable": true, "items": {"type": "string", "nullable": true}},
            })
        );
    }

    #[test]
    fn a_json_schema_becomes_structural() {
        let converted = convert(&json!({
            "definitions": {"port": {"type": "integer", "exclusiveMinimum": 0}},
            "type": "object",
            "additionalProperties": false,
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "enum": ["a", "b", 3]},
                "port": {"$ref": "#/definitions/port"},
                "any": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "amount": {"type": ["string", "integer"]},
                "maybe": {"type": ["string", "null"]},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "list": {"items": {"type": "boolean"}},
                "open": {"type": "object"},
            },
        }));
        assert_eq!(
            converted,
            json!({
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "enum": ["a", "b"]},
                    "port": {"type": "integer", "minimum": 0, "exclusiveMinimum": true},
                    "any": {"x-kubernetes-preserve-unknown-fields": true},
                    "amount": {"x-kubernetes-int-or-string": true},
                    "maybe": {"type": "string", "nullable": true},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "list": {"type": "array", "items": {"type": "boolean"}},
                    "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                },
            })
        );
    }

    #[test]
    fn a_definition_that_does_not_keep_the_status_is_known() {
        let of = |subresources: Value, schema: Value| {
            let version = json!({"name": "v1", "subresources": subresources, "schema": {"openAPIV3Schema": schema}});
            status_fault(&json!({"spec": {"versions": [version]}}), "v1")
        };
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let with = |status: Value| json!({"type": "object", "properties": {"status": status}});
        let missing = Some("it has no subresource status");
        let loses = Some("its schema leaves out fields of the status");
        assert_eq!(of(json!({}), open.clone()), missing);
        assert_eq!(of(json!({"status": {}}), open.clone()), None);
        assert_eq!(of(json!({"status": {}}), with(open)), None);
        assert_eq!(of(json!({"status": {}}), with(json!({"type": "object"}))), loses);
        assert_eq!(of(json!({"status": {}}), json!({"type": "object"})), loses);
        let ours = of_chart(&Chart::default(), &Names::of_chart(&Chart::default())).unwrap();
        assert_eq!(status_fault(&ours, "v1alpha1"), None);
    }

    #[test]
    fn what_is_only_read_is_no_field_of_the_custom_resource() {
        let schema = json!({"type": "object", "additionalProperties": false,
            "properties": {"size": {"type": "integer"}, "image": {"type": "string", "readOnly": true}}});
        let expected = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
        assert_eq!(convert(&schema), expected);
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let converted = convert(&json!({"type": "object", "properties": {"next": {"$ref": "#"}}}));
        assert!(converted["properties"]["next"]["properties"].is_object());
    }

    #[test]
    fn a_chart_without_a_schema_gets_an_open_one() {
        let mut chart = Chart::default();
        chart.metadata.name = "my-app".into();
        let names = Names::of_chart(&chart);
        assert_eq!((names.kind.as_str(), names.plural.as_str()), ("MyApp", "myapps"));
        let crd = of_chart(&chart, &names).unwrap();
        let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        assert_eq!(*spec, json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    }

    #[test]
    fn a_chart_gives_short_names_and_columns() {
        let mut chart = Chart::default();
        chart.metadata.name = "web".into();
        let annotate = |chart: &mut Chart, name: &str, value: &str| {
            chart.metadata.annotations.get_or_insert_default().insert(name.into(), value.into());
        };
        annotate(&mut chart, "tillerman.dev/short-names", "w, wb");
        annotate(&mut chart, "tillerman.dev/columns", "Size integer .spec.size\n");
        let crd = of_chart(&chart, &Names::of_chart(&chart)).unwrap();
        assert_eq!(crd["spec"]["names"]["shortNames"], json!(["w", "wb"]));
        let columns = &crd["spec"]["versions"][0]["additionalPrinterColumns"];
        assert_eq!(columns[0], json!({"name": "Size", "type": "integer", "jsonPath": ".spec.size"}));
        assert_eq!(columns[1]["name"], "Ready");
        annotate(&mut chart, "tillerman.dev/columns", "Size");
        assert!(of_chart(&chart, &Names::of_chart(&chart)).unwrap_err().contains("tillerman.dev/columns"));
    }

    #[test]
    fn plurals_follow_kubernetes() {
        for (kind, want) in [("PhpApp", "phpapps"), ("Proxy", "proxies"), ("Gateway", "gateways"), ("Redis", "redises")]
        {
            assert_eq!(plural(kind), want);
        }
    }
}

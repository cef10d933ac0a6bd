//! Charts whose templates make the values of a dependency, and examples/symfony, which is one.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use tillerman::chart::{Chart, ChartLimits, File, load_files, values};
use tillerman::object::parse_manifest;
use tillerman::render::{Capabilities, Options, Release, Rendered, render};
use tillerman::template::yaml;

const JINJA: &str = "annotations: {tillerman.dev/engine: minijinja}\n";
/// A dependency that shows its values, and its chart.
const SHOWS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: below}\ndata: {values: {{ values }}, chart: {{ chart.name }}, release: {{ release.name }}}\n";
const SCHEMA: &str = r#"{"type": "object", "properties": {"size": {"type": "integer", "maximum": 9}}}"#;

/// The chart `top` with the dependency `base`, and these files instead of, or beside, those of both.
fn chart(files: &[(&str, &str)]) -> Chart {
    let top =
        format!("apiVersion: v2\nname: top\nversion: 1.0.0\ndependencies: [{{name: base, version: 1.0.0}}]\n{JINJA}");
    let base = format!("apiVersion: v2\nname: base\nversion: 1.0.0\n{JINJA}");
    let mut all = Map::new();
    for (name, text) in [
        ("Chart.yaml", &*top),
        ("values.yaml", "replicas: 2\nlist: []\n"),
        ("charts/base/Chart.yaml", &*base),
        ("charts/base/values.yaml", "size: 1\ntext: kept\nlist: [a]\ntable: {a: 1, b: 2}\n"),
        ("charts/base/values.schema.json", SCHEMA),
        ("charts/base/templates/shows.yaml", SHOWS),
    ]
    .iter()
    .chain(files)
    {
        all.insert((*name).to_owned(), (*text).into());
    }
    let file = |(name, text): (String, Value)| File { name, data: text.as_str().unwrap().as_bytes().to_vec().into() };
    load_files(all.into_iter().map(file).collect(), &ChartLimits::default()).unwrap()
}

fn rendered(chart: &Chart, values: &Value) -> Result<Rendered, String> {
    let values = values.as_object().cloned().unwrap();
    let release = Release::new("my", "ns");
    render(chart, &values, &release, &Capabilities::default(), &Options::default()).map_err(|error| error.to_string())
}

/// The data of the `ConfigMap` with this name.
fn shown(files: &[(&str, &str)], values: &Value, name: &str) -> Result<Value, String> {
    let made = rendered(&chart(files), values)?;
    let found = made.manifests.iter().find(|manifest| manifest.name == name);
    Ok(yaml::parse(found.unwrap_or_else(|| panic!("{name}")).text.as_bytes()).unwrap()["data"].clone())
}

fn below(files: &[(&str, &str)], values: &Value) -> Result<Value, String> {
    shown(files, values, "below").map(|data| data["values"].clone())
}

/// Numbers of YAML are floats here.
fn whole(value: &Value) -> Value {
    tillerman::crd::plain(value)
}

#[test]
fn a_template_makes_the_values_of_a_dependency_and_nothing_else_reaches_it() {
    let template = "size: {{ values.replicas + 1 }}\ntable: {b: {{ release.name }}}\nlist:\n{% for one in values.list %}\n- {{ one }}\n{% endfor %}\n";
    let files = [("templates/_base.values.yaml", template)];
    let made = json!({"size": 3, "text": "kept", "list": ["a"], "table": {"a": 1, "b": "my"}});
    assert_eq!(whole(&below(&files, &json!({})).unwrap()), made);
    let given =
        json!({"replicas": 4, "list": ["x: y"], "base": {"size": 7, "text": "given"}, "global": {"text": "given"}});
    let made = json!({"size": 5, "text": "kept", "list": ["x: y"], "table": {"a": 1, "b": "my"}});
    assert_eq!(whole(&below(&files, &given).unwrap()), made);
    // Without the template, values reach a dependency as in Helm.
    assert_eq!(whole(&below(&[], &given).unwrap())["size"], 7);
}

#[test]
fn the_schema_of_a_dependency_checks_the_values_that_a_template_makes() {
    let files = [("templates/_base.values.yaml", "size: {{ values.replicas }}\n")];
    let why = below(&files, &json!({"replicas": 10})).unwrap_err();
    assert!(why.starts_with("top/templates/_base.values.yaml: values don't meet") && why.contains("/size"), "{why}");
    for (text, part) in [
        ("- a\n", "the values of the dependency base: they must be a table"),
        ("a: 1\n b: 2\n", "the values of the dependency base: "),
        ("a: {{ values.nope }}\n", "top/templates/_base.values.yaml:1:7: undefined value"),
        ("{% set _ = fail('no') %}\n", "top/templates/_base.values.yaml:1:12: no"),
    ] {
        let why = below(&[("templates/_base.values.yaml", text)], &json!({})).unwrap_err();
        assert!(why.contains(part), "{text}: {why}");
    }
    assert_eq!(
        below(&[("templates/_base.values.yaml", "{# none #}\n")], &json!({})).map(|made| whole(&made)).unwrap()["size"],
        1
    );
}

#[test]
fn a_dependency_has_its_alias_and_the_parent_decides_whether_it_is_there() {
    let top = format!(
        "apiVersion: v2\nname: top\nversion: 1.0.0\ndependencies: [{{name: base, version: 1.0.0, alias: web, condition: serves}}]\n{JINJA}"
    );
    let files = [
        ("Chart.yaml", &*top),
        ("values.yaml", "serves: true\nweb: not a table\n"),
        ("templates/_web.values.yaml", "size: 4\ntext: {{ values.web }}\n"),
    ];
    let data = shown(&files, &json!({}), "below").unwrap();
    assert_eq!((&data["chart"], &data["release"]), (&json!("web"), &json!("my")));
    assert_eq!(below(&files, &json!({})).unwrap()["text"], "not a table");
    assert!(rendered(&chart(&files), &json!({"serves": false})).unwrap().manifests.is_empty());
}

#[test]
fn the_dependencies_of_a_dependency_follow_its_computed_values() {
    let base = format!(
        "apiVersion: v2\nname: base\nversion: 1.0.0\ndependencies: [{{name: deep, version: 1.0.0, condition: deep.enabled}}]\n{JINJA}"
    );
    let files = |on: &'static str| {
        [
            ("charts/base/Chart.yaml".to_owned(), base.clone()),
            (
                "charts/base/charts/deep/Chart.yaml".to_owned(),
                "apiVersion: v2\nname: deep\nversion: 1.0.0\n".to_owned(),
            ),
            ("charts/base/charts/deep/values.yaml".to_owned(), "enabled: false\nsize: 1\n".to_owned()),
            (
                "charts/base/charts/deep/templates/a.yaml".to_owned(),
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: deep}\ndata: {size: \"{{ .Values.size }}\"}\n"
                    .to_owned(),
            ),
            ("templates/_base.values.yaml".to_owned(), on.to_owned()),
        ]
    };
    let names = |on: &'static str| -> Vec<String> {
        let files = files(on);
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
        rendered(&chart(&files), &json!({})).unwrap().manifests.into_iter().map(|manifest| manifest.name).collect()
    };
    assert_eq!(names("size: 2\n"), ["below"]);
    assert_eq!(names("deep: {enabled: true, size: 3}\n"), ["deep", "below"]);
}

#[test]
fn a_template_uses_the_parts_of_a_dependency_with_its_values() {
    let files = [
        ("templates/_base.values.yaml", "size: 6\n"),
        (
            "charts/base/templates/_parts.jinja",
            "{% from \"_other.jinja\" import name %}\n{% set shown = name ~ values.size %}\n",
        ),
        ("charts/base/templates/_other.jinja", "{% set name = chart.name ~ '-' %}\n"),
        (
            "templates/own.yaml",
            "{% set values, chart = subcharts.base.values, subcharts.base.chart %}\n\
             {% from \"../charts/base/templates/_parts.jinja\" import shown %}\n\
             apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own}\ndata: {shown: {{ shown }}}\n",
        ),
    ];
    assert_eq!(shown(&files, &json!({}), "own").unwrap()["shown"], "base-6");
}

#[test]
fn the_api_of_a_chart_has_no_field_for_values_that_a_template_makes() {
    use tillerman::crd::{CrdSettings, Names, of_chart};
    let fields = |files: &[(&str, &str)]| {
        let chart = chart(files);
        let definition = of_chart(&chart, &Names::of_chart(&chart), CrdSettings::default(), &[], &[]).unwrap();
        let text = definition.definition.to_string();
        (text.contains("\"replicas\""), text.contains("\"base\""))
    };
    assert_eq!(fields(&[("templates/_base.values.yaml", "size: 6\n")]), (true, false));
    assert_eq!(fields(&[]), (true, true));
}

fn example() -> Chart {
    tillerman::chart::load(&root().join("examples/symfony/chart")).unwrap()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The sample's values, with others over them.
fn sample(over: &Value) -> Value {
    let text = std::fs::read(root().join("examples/symfony/chart/ci/sample-values.yaml")).unwrap();
    let mut all = values::load(&text).unwrap();
    values::merge(&mut all, over.as_object().cloned().unwrap());
    all.into()
}

/// All objects of the example by kind and name, with hooks, operations and Status documents.
fn made(over: &Value) -> Result<BTreeMap<String, Value>, String> {
    let made = rendered(&example(), &sample(over))?;
    let hooks = made.hooks.iter().chain(&made.unknown).map(|hook| hook.manifest.text.clone());
    let objects = std::iter::once(made.manifest()).chain(hooks).flat_map(|text| parse_manifest(&text).unwrap());
    Ok(objects.map(|object| (format!("{} {}", object.gvk.kind, object.name), Value::Object(object.body))).collect())
}

fn variable(object: &Value, name: &str) -> Value {
    let containers = &object["spec"]["template"]["spec"]["containers"];
    let env = containers[0]["env"].as_array().unwrap();
    env.iter()
        .find(|one| one["name"] == name)
        .map_or(Value::Null, |one| one.get("value").unwrap_or(&one["valueFrom"]).clone())
}

#[test]
fn each_field_of_the_example_reaches_the_objects() {
    let least = made(&json!({"database": {"own": false}, "migration": []})).unwrap();
    let names: Vec<&str> = least.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "ConfigMap my-config",
            "Deployment my",
            "Job my-about",
            "Secret my-app",
            "Service my",
            "Status app",
            "Status symfony"
        ]
    );
    let all = made(&json!({
        "host": "shop.example.com", "tlsSecret": "tls", "replicas": 2, "memory": "1Gi", "transports": ["async"],
        "tasks": [{"name": "clean", "schedule": "@daily", "command": ["app:clean", "--all"]}],
        "mail": {"host": "mail", "secret": "mail", "from": "shop@example.com"},
    }))
    .unwrap();
    let web = &all["Deployment my"];
    assert_eq!(whole(&web["spec"]["replicas"]), 2);
    let php = &web["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        (&php["image"], &php["resources"]["limits"]["memory"]),
        (&json!("registry.example.com/shop:1.4"), &json!("1Gi"))
    );
    assert_eq!(php["envFrom"], json!([{"secretRef": {"name": "my-app"}}]));
    assert_eq!(variable(web, "DB_HOST"), "my-db-primary");
    assert_eq!(variable(web, "DB_PASSWORD"), json!({"secretKeyRef": {"name": "my-db-app-my", "key": "password"}}));
    assert_eq!(variable(web, "MESSENGER_TRANSPORT_DSN"), "doctrine://default");
    assert_eq!(variable(web, "MAILER_DSN"), "smtp://$(MAIL_USERNAME):$(MAIL_PASSWORD)@$(MAIL_HOST):$(MAIL_PORT)");
    assert_eq!(all["MySQLCluster my-db"]["spec"]["applications"], json!([{"name": "my", "database": "app"}]));
    let worker = &all["Deployment my-worker-async"]["spec"]["template"]["spec"]["containers"][0]["command"];
    assert_eq!(worker, &json!(["php", "bin/console", "messenger:consume", "async"]));
    let task = &all["CronJob my-clean"]["spec"];
    assert_eq!(task["schedule"], "@daily");
    let job = &all["Job my-migrate"];
    // The Secret and the database are objects of the same release.
    assert_eq!(job["metadata"]["annotations"]["helm.sh/hook"], "post-install,pre-upgrade");
    assert_eq!(
        job["spec"]["template"]["spec"]["containers"][0]["command"],
        json!(["php", "bin/console", "app:migrate"])
    );
    assert_eq!(all["Job my-retry"]["metadata"]["annotations"]["helm.sh/hook"], "operation/retry");
    assert_eq!(all["Ingress my"]["spec"]["tls"][0]["secretName"], "tls");
    assert_eq!(all["Status symfony"]["fields"]["url"]["value"], "https://shop.example.com");
    let shared = made(&json!({"database": {"own": false, "cluster": "db"}})).unwrap();
    assert!(!shared.contains_key("MySQLCluster my-db"));
    assert_eq!(
        variable(&shared["Deployment my"], "DB_HOST"),
        json!({"secretKeyRef": {"name": "db-app-my", "key": "host"}})
    );
}

#[test]
fn the_definition_of_the_example_has_the_status_of_both_charts() {
    let fields = tillerman::release::status_fields::typed::of_chart(&example()).unwrap();
    let mut names: Vec<_> = fields.iter().map(|field| (field.name.as_str(), field.column)).collect();
    names.sort_unstable();
    assert_eq!(names, [("database", false), ("runtime", false), ("serviceName", false), ("url", true)]);
}

#[test]
fn values_of_the_example_that_cannot_work_together_are_refused() {
    for (over, why) in [
        (json!({"image": ""}), "image is the image of the application"),
        (json!({"database": {"cluster": "db"}}), "both name a database"),
        (json!({"database": {"own": false}}), "migration and transports need a database"),
        (json!({"mail": {"host": "mail"}}), "mail needs mail.secret and mail.from"),
        (json!({"php": {"image": "other"}}), "additional properties 'php' not allowed"),
        (json!({"transports": ["a", "a"]}), "is listed twice"),
    ] {
        let error = made(&over).err().unwrap_or_else(|| panic!("{over} is taken"));
        assert!(error.contains(why), "{over}: {error}");
    }
}

/// Values with a text at each place of the example's schema that takes one.
fn places(schema: &Value, definitions: &Value, text: &str) -> Vec<Value> {
    let named = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    let schema = named.map_or(schema, |name| &definitions[name]);
    if schema["type"] == "string" {
        return vec![json!(text)];
    }
    let mut found = Vec::new();
    for (key, below) in schema["properties"].as_object().into_iter().flatten() {
        found.extend(places(below, definitions, text).into_iter().map(|value| json!({key: value})));
    }
    if schema["items"].is_object() {
        let fill = |value: Value| match value {
            Value::Object(given) => {
                let mut item = json!({"name": "a", "schedule": "@daily", "command": ["a"]});
                values::merge(item.as_object_mut().unwrap(), given);
                item
            }
            other => other,
        };
        found.extend(places(&schema["items"], definitions, text).into_iter().map(|value| json!([fill(value)])));
    }
    found
}

#[test]
fn the_schema_of_the_example_refuses_texts_that_are_not_plain() {
    let schema: Value = serde_json::from_slice(&example().schema.unwrap()).unwrap();
    let long = "x".repeat(100_000);
    let mut count = 0;
    for text in ["$(DB_PASSWORD)", "a; id", "a\nb: c", "{{ values }}", "a b\"", "`id`", "../é", &long] {
        for over in places(&schema, &schema["definitions"], text) {
            let error = made(&over).err().unwrap_or_else(|| panic!("{over} is taken"));
            assert!(error.contains("does not match pattern"), "{over}: {error}");
            count += 1;
        }
    }
    assert_eq!(count, 8 * 13, "each text of the schema");
}

#[test]
fn the_blocks_of_the_page_are_parts_of_the_example() {
    let page = std::fs::read_to_string(root().join("docs/how-to/own-kind.md")).unwrap();
    let chart = example();
    let mut texts: Vec<String> =
        chart.templates.iter().map(|file| String::from_utf8_lossy(&file.data).into_owned()).collect();
    for name in ["Chart.yaml", "ci/sample-values.yaml"] {
        texts.push(std::fs::read_to_string(root().join("examples/symfony/chart").join(name)).unwrap());
    }
    let blocks: Vec<&str> = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```\n").next()).collect();
    assert!(blocks.len() > 6, "{}", blocks.len());
    for block in blocks {
        assert!(texts.iter().any(|text| text.contains(block)), "no file of the chart has\n{block}");
    }
}

//! Charts whose templates make the values of a dependency, and examples/symfony, which is one.

use serde_json::{Map, Value, json};
use tillerman::chart::{Chart, ChartLimits, File, load_files};
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

/// The data of the ConfigMap with this name.
fn shown(files: &[(&str, &str)], values: &Value, name: &str) -> Result<Value, String> {
    let made = rendered(&chart(files), values)?;
    let found = made.manifests.iter().find(|manifest| manifest.name == name);
    Ok(yaml::parse(found.unwrap_or_else(|| panic!("{name}")).text.as_bytes()).unwrap()["data"].clone())
}

fn below(files: &[(&str, &str)], values: &Value) -> Result<Value, String> {
    shown(files, values, "below").map(|data| data["values"].clone())
}

/// Numbers of YAML are floats here.
fn whole(value: Value) -> Value {
    tillerman::crd::plain(&value)
}

#[test]
fn a_template_makes_the_values_of_a_dependency_and_nothing_else_reaches_it() {
    let template = "size: {{ values.replicas + 1 }}\ntable: {b: {{ release.name }}}\nlist:\n{% for one in values.list %}\n- {{ one }}\n{% endfor %}\n";
    let files = [("templates/_base.values.yaml", template)];
    let made = json!({"size": 3, "text": "kept", "list": ["a"], "table": {"a": 1, "b": "my"}});
    assert_eq!(whole(below(&files, &json!({})).unwrap()), made);
    let given =
        json!({"replicas": 4, "list": ["x: y"], "base": {"size": 7, "text": "given"}, "global": {"text": "given"}});
    let made = json!({"size": 5, "text": "kept", "list": ["x: y"], "table": {"a": 1, "b": "my"}});
    assert_eq!(whole(below(&files, &given).unwrap()), made);
    // Without the template, values reach a dependency as in Helm.
    assert_eq!(whole(below(&[], &given).unwrap())["size"], 7);
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
    assert_eq!(below(&[("templates/_base.values.yaml", "{# none #}\n")], &json!({})).map(whole).unwrap()["size"], 1);
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

//! Functions as templates call them; each row but the random one was printed by Helm 4.3.1, as were those of
//! `data/functions.jsonl`, whose arguments are of unusual types.

use serde_json::json;
use std::path::Path;
use std::rc::Rc;
use tillerman::chart::{Chart, File, Metadata, values};
use tillerman::render::{Capabilities, Options, Release};
use tillerman::template::function::{Context, FnResult, Host};
use tillerman::template::functions;
use tillerman::template::go::{Limits, Renderer, TemplateSet};
use tillerman::template::value::Value;

struct Offline;
impl Host for Offline {
    fn random(&self, buffer: &mut [u8]) {
        buffer.fill(0);
    }
    fn now(&self) -> i128 {
        0
    }
    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> FnResult {
        Ok(Value::map([]))
    }
    fn resolve(&self, _: &str) -> String {
        String::new()
    }
}

fn render(template: &str) -> Result<String, String> {
    let mut set = TemplateSet::new(functions::table());
    set.parse("t", template).map_err(|e| e.to_string())?;
    let mut renderer = Renderer::new(&set, Context { host: Rc::new(Offline) }, Limits::default());
    let out = renderer.render("t", Value::map([])).map_err(|e| e.to_string())?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

#[test]
fn functions_print_what_helm_prints() {
    let rows = [
        (r#"{{ int "0777" }} {{ atoi "0777" }}"#, "511 777"),
        ("{{ round 123.5555 3 }} {{ div 7 2 }} {{ addf 0.1 0.2 }}", "123.556 3 0.3"),
        (
            r#"{{ camelcase "foo.bar" }} {{ snakecase "HTTP20xOK" }} {{ title "hello wide world" }}"#,
            "Foo.bar http_20x_ok Hello Wide World",
        ),
        ("{{ until 3 }} {{ until -3 }} {{ seq 0 2 6 }}", "[0 1 2] [0 -1 -2] 0 2 4 6"),
        (
            r#"{{ $d := dict "a" (dict "x" 1) }}{{ $_ := merge $d (dict "a" (dict "x" 2 "y" 3)) }}{{ $d }}"#,
            "map[a:map[x:1 y:3]]",
        ),
        (r#"{{ $d := dict "a" 1 }}{{ $_ := mergeOverwrite $d (dict "a" "") }}{{ $d | toJson }}"#, r#"{"a":""}"#),
        (
            r#"{{ dict "b" (list 1 "y" "1:30" 1e6) "a" "x: y" | toYaml }}"#,
            "a: 'x: y'\nb:\n- 1\n- \"y\"\n- \"1:30\"\n- 1000000",
        ),
        (
            r#"{{ (fromYaml "a: 0o17\nb: yes").a }} {{ (fromYaml "a: [").Error }}"#,
            "15 error converting YAML to JSON: yaml: line 1: did not find expected node content",
        ),
        (r#"{{ fromYaml "a: |\n  x" | toJson }}{{ fromYaml "a: |\n  x\n" | toJson }}"#, r#"{"a":"x"}{"a":"x\n"}"#),
        (r#"{{ semverCompare ">=1.20-0" "v1.37.0" }} {{ (semver "1.2.3-rc.1").Prerelease }}"#, "true rc.1"),
        (r#"{{ regexReplaceAll "a(x*)b" "-ab-axxb-" "${1}W" }} {{ regexSplit "z+" "pizza" -1 }}"#, "-W-xxW- [pi a]"),
        (
            r#"{{ dateInZone "2006-01-02 15:04 MST" (toDate "2006-01-02" "2021-07-01") "Europe/Berlin" }}"#,
            "2021-07-01 02:00 CEST",
        ),
        (r#"{{ duration "3661" }} {{ durationRound "2h30m" }} {{ durationSeconds "1m30s" }}"#, "1h1m1s 2h 90"),
        (
            r#"{{ toJson (dict "h" "<a>" "f" 1e21) }} {{ list | concat | toJson }}"#,
            r#"{"f":1e+21,"h":"\u003ca\u003e"} null"#,
        ),
        (r#"{{ toToml (dict "a" 1 "t" (dict "b" "x")) }}"#, "a = 1\n\n[t]\n  b = \"x\"\n"),
        (
            r#"{{ (urlParse "https://u:p@h.example:8080/p?q=1#f").hostname }} {{ base "/a/b/" }} {{ "b64" | b64enc | b64dec }}"#,
            "h.example b b64",
        ),
        (
            r#"{{ substr 1 3 "hello" }} {{ trunc -3 "hello" }} {{ abbrev 7 "hello world" }} {{ "a b" | nospace }}"#,
            "el llo hell... ab",
        ),
        (
            r#"{{ list 1 "a" nil | compact | has "a" }} {{ list 1 1 2 | uniq }} {{ slice (list 1 2 3) 1 }} {{ chunk 2 (list 1 2 3) }}"#,
            "true [1 2] [2 3] [[1 2] [3]]",
        ),
        (
            r#"{{ kindOf 1.5 }} {{ typeOf (list) }} {{ typeOf (splitList "," "a") }} {{ kindIs "map" dict }}"#,
            "float64 []interface {} []string true",
        ),
        ("{{ uuidv4 }} {{ randAlphaNum 4 | len }}", "00000000-0000-4000-8000-000000000000 4"),
    ];
    for (template, want) in rows {
        assert_eq!(render(template).as_deref(), Ok(want), "{template}");
    }
}

#[test]
fn panics_of_go_are_error_messages() {
    let rows = [
        ("{{ div 1 0 }}", "integer divide by zero"),
        (r#"{{ substr 5 2 "hello" }}"#, "slice bounds out of range [5:2]"),
        (r#"{{ repeat -1 "a" }}"#, "strings: negative Repeat count"),
        (r#"{{ first "a" }}"#, "Cannot find first on type string"),
        (
            r#"{{ dig "a" "b" "d" (dict "a" 1) }}"#,
            "interface conversion: interface {} is int, not map[string]interface {}",
        ),
        (r#"{{ regexFind "(" "a" }}"#, "regexp: Compile(`(`): error parsing regexp: missing closing ): `(`"),
        (r#"{{ semver "x" }}"#, "invalid semantic version"),
    ];
    for (template, want) in rows {
        let error = render(template).expect_err(template);
        assert!(error.trim_end().ends_with(want), "{template}: {error}");
    }
}

/// The notes of a chart with one file, or the error.
fn notes(template: &str, values: &serde_json::Value) -> (&'static str, String) {
    let file = |name: &str, data: &str| File { name: name.into(), data: data.as_bytes().to_vec().into() };
    let chart = Chart {
        metadata: Metadata {
            api_version: "v2".into(),
            name: "web".into(),
            version: "0.1.0".into(),
            ..Metadata::default()
        },
        templates: vec![file("templates/NOTES.txt", template)],
        files: vec![file("a.txt", "hello\nworld\n"), file("d/b.bin", "x")].into(),
        ..Chart::default()
    };
    let values = values::load(values.to_string().as_bytes()).expect("the values are JSON");
    let release = Release { name: "rel".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
    let options = Options::new(Offline);
    match tillerman::render::render(&chart, &values, &release, &Capabilities::default(), &options) {
        Ok(rendered) => ("out", rendered.notes),
        Err(e) => ("error", e.message),
    }
}

#[test]
fn arguments_of_unusual_types_give_what_they_give_in_helm() {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/functions.jsonl");
    let mut wrong = Vec::new();
    for line in std::fs::read_to_string(table).expect("the table is part of the tests").lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("a row is JSON");
        let template = row["template"].as_str().expect("a row has a template");
        let values = json!({
            "i": 3, "f": 1.5, "n": null, "list": [1, "a", null], "map": {"a": 1, "b": {"c": "d"}},
            "nested": {"x": [{"y": 1}]}, "x": row["x"],
        });
        let values = if row["x"].is_null() { without_x(values) } else { values };
        let (kind, got) = notes(template, &values);
        if row[kind].as_str() != Some(&got) {
            wrong.push(format!("{row}\ngot {kind} {got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn without_x(mut values: serde_json::Value) -> serde_json::Value {
    if let Some(entries) = values.as_object_mut() {
        entries.remove("x");
    }
    values
}

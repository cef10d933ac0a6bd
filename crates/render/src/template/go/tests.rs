//! The results of templates, compared with those of Helm's engine.

use super::{Error, Functions, Limits, Renderer, TemplateSet, fmt};
use crate::template::function::{Context, FnResult, Function, Host, Param};
use crate::template::value::{Elem, List, Map, MapType, Str, Value};
use std::rc::Rc;

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

/// A few of the functions that Helm has besides Go's, to have something to call with typed parameters.
static FUNCTIONS: [Function; 12] = [
    function("dict", &[Param::Any], true, |_, args| {
        let pairs = args.chunks(2).map(|pair| (Str::from(text(&pair[0])), pair[1].clone()));
        Ok(Value::map(pairs))
    }),
    function("list", &[Param::Any], true, |_, args| Ok(Value::list(args.to_vec()))),
    function("hasKey", &[Param::Map, Param::Str], false, |_, args| match args {
        [Value::Map(map), key] => Ok(map.get(text(key)).is_some().into()),
        _ => Ok(false.into()),
    }),
    function("set", &[Param::Map, Param::Str, Param::Any], false, |_, args| {
        if let Value::Map(map) = &args[0] {
            map.insert(text(&args[1]), args[2].clone());
        }
        Ok(args[0].clone())
    }),
    function("typeOf", &[Param::Any], false, |_, args| Ok(fmt::type_name(&args[0]).as_ref().into())),
    function("until", &[Param::Int], false, |_, args| {
        let Value::Int(_, count) = args[0] else { return Err("not an int".into()) };
        Ok(Value::List(List { elem: Elem::Int, items: (0..count).map(Value::int).collect() }))
    }),
    function("trunc", &[Param::Int, Param::Str], false, |_, args| match args[0] {
        Value::Int(_, count) => Ok(text(&args[1])[..usize::try_from(count).unwrap_or(0)].into()),
        _ => Err("not an int".into()),
    }),
    function("upper", &[Param::Str], false, |_, args| Ok(text(&args[0]).to_uppercase().into())),
    function("lower", &[Param::Str], false, |_, args| Ok(text(&args[0]).to_lowercase().into())),
    function("join", &[Param::Str, Param::Any], false, |_, args| Ok(text(&args[1]).into())),
    function("toStrings", &[Param::Any], false, |_, args| match &args[0] {
        Value::List(list) => Ok(Value::strings(list.items.iter().map(text))),
        _ => Ok(Value::strings([""])),
    }),
    function("splitList", &[Param::Str, Param::Str], false, |_, args| {
        Ok(Value::strings(text(&args[1]).split(&text(&args[0]))))
    }),
];

const fn function(
    name: &'static str,
    params: &'static [Param],
    variadic: bool,
    run: fn(&Context, &[Value]) -> FnResult,
) -> Function {
    Function { name, params, variadic, run }
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(&fmt::sprint(std::slice::from_ref(value)).unwrap()).into_owned()
}

/// JSON as Helm reads values: every number is a float.
fn value(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Number(n) => Value::Float(n.as_f64().unwrap()),
        serde_json::Value::Array(items) => Value::list(items.iter().map(value).collect()),
        serde_json::Value::Object(map) => Value::map(map.iter().map(|(k, v)| (Str::from(k.as_str()), value(v)))),
        other => other.into(),
    }
}

fn set(files: &[(&str, &str)]) -> Result<TemplateSet, Error> {
    let mut set = TemplateSet::new(Functions::new(&FUNCTIONS));
    for (name, text) in files {
        set.parse(name, text)?;
    }
    Ok(set)
}

fn renderer(set: &TemplateSet, limits: Limits) -> Renderer<'_> {
    Renderer::new(set, Context { host: Rc::new(Offline) }, limits)
}

fn render(files: &[(&str, &str)], values: &serde_json::Value) -> Result<String, Error> {
    let set = set(files)?;
    let values = match value(values) {
        Value::Map(map) => map.with_type(MapType::Values),
        _ => Map::new(MapType::Values),
    };
    let root = Map::new(MapType::Values);
    root.insert("Values", values);
    root.insert("Template", {
        let template = Map::new(MapType::Values);
        template.insert("Name", "case");
        template.insert("BasePath", "");
        template
    });
    let out = renderer(&set, Limits::default()).render("case", root.into())?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn render_one(template: &str) -> Result<String, Error> {
    render(&[("case", template)], &serde_json::Value::Null)
}

#[test]
fn templates_answer_as_helm_does() {
    compare(include_str!("tests/cases.jsonl"));
}

#[test]
fn printf_writes_what_go_writes() {
    compare(include_str!("tests/printf.jsonl"));
}

/// Renders cases, one JSON object a line: `template`, more `files`, `values`, and `want` or `error`.
fn compare(cases: &str) {
    let mut failures = Vec::new();
    {
        for line in cases.lines() {
            let case: serde_json::Value = serde_json::from_str(line).unwrap();
            let mut files = vec![("case", case["template"].as_str().unwrap())];
            for (name, text) in case["files"].as_object().into_iter().flatten() {
                files.push((name, text.as_str().unwrap()));
            }
            files.sort_by_key(|(name, _)| std::cmp::Reverse((name.matches('/').count(), *name)));
            let got = render(&files, &case["values"]).map_err(|e| e.message);
            let want = match case["want"].as_str() {
                Some(want) => Ok(want.to_owned()),
                None => Err(case["error"].as_str().unwrap().to_owned()),
            };
            if got != want {
                failures.push(format!("{}\n  want {want:?}\n  got  {got:?}", case["template"]));
            }
        }
    }
    assert!(failures.is_empty(), "{} cases differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn values_have_methods_that_hide_keys() {
    let values = serde_json::json!({"a": {"b": {"c": "x"}}, "AsMap": 1});
    let render = |template| render(&[("case", template)], &values);
    assert_eq!(render("{{ typeOf .Values.AsMap }}").unwrap(), "map[string]interface {}");
    assert_eq!(render(r#"{{ .Values.PathValue "a.b.c" }} {{ .Values.Table "a.b" }}"#).unwrap(), "x map[c:x]");
    assert!(
        render(r#"{{ .Values.Table "a.x" }}"#)
            .unwrap_err()
            .message
            .ends_with(r#"error calling Table: "x" is not a table"#)
    );
    assert!(render(r#"{{ .Values.PathValue "a.b" }}"#).unwrap_err().message.ends_with(r#""b" is not a value"#));
}

#[test]
fn a_template_that_calls_itself_ends_with_a_message() {
    for template in [
        r#"{{ define "t" }}{{ template "t" . }}{{ end }}{{ template "t" . }}"#,
        r#"{{ define "t" }}{{ if true }}{{ with 1 }}{{ tpl "{{ include \"t\" . }}" . }}{{ end }}{{ end }}{{ end }}{{ include "t" . }}"#,
    ] {
        assert!(render_one(template).unwrap_err().message.contains("template"));
    }
}

#[test]
fn includes_may_be_nested_a_thousand_deep() {
    let template = r#"{{ define "t" }}{{ if .n }}{{ range .n }}{{ with $.n }}{{ include "t" $.next }}{{ end }}{{ end }}{{ end }}.{{ end }}{{ include "t" (index .Values "x") }}"#;
    let dots = {
        let set = set(&[("case", template)]).unwrap();
        let deepest = (0..1000)
            .fold(Value::map([]), |next, _| Value::map([(Str::from("n"), Value::int(1)), (Str::from("next"), next)]));
        let values = Value::map([(Str::from("x"), deepest)]);
        let root = Value::map([(Str::from("Values"), values)]);
        renderer(&set, Limits::default()).render("case", root).unwrap().len()
    };
    assert_eq!(dots, 1001);
}

#[test]
fn deeply_nested_text_is_refused_instead_of_using_up_the_stack() {
    let parens = format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000));
    let ifs = "{{ if true }}".repeat(100_000);
    for text in [&parens, &ifs] {
        let message = render_one(text).unwrap_err().message;
        assert!(message.contains("deep") || message.contains("depth"), "{message}");
    }
    let accepted = format!("{{{{ {}1{} }}}}", "(".repeat(9_000), ")".repeat(9_000));
    assert_eq!(render_one(&accepted).unwrap(), "1");
}

#[test]
fn a_map_that_contains_itself_cannot_be_printed_but_does_no_harm() {
    let error = render_one(r#"{{ $m := dict }}{{ $_ := set $m "m" $m }}{{ $m }}"#).unwrap_err().message;
    assert!(error.contains("nested too deeply"), "{error}");
}

#[test]
fn a_small_value_that_prints_as_a_huge_text_is_refused() {
    let doubling = r#"{{ $x := "text" }}{{ range until 60 }}{{ $x = list $x $x }}{{ end }}{{ print $x | len }}"#;
    let error = render_one(doubling).unwrap_err().message;
    assert!(error.contains("more than"), "{error}");
}

#[test]
fn steps_and_output_are_limited() {
    let limited = |template, limits| {
        let set = set(&[("case", template)]).unwrap();
        let mut renderer = renderer(&set, limits);
        renderer.render("case", Value::Nil).unwrap_err().message
    };
    let steps = Limits { steps: Some(1_000), ..Limits::default() };
    assert!(limited("{{ range until 1000000 }}{{ end }}", steps).contains("more than 1000 steps"));
    let output = Limits { output: 1_000, ..Limits::default() };
    assert!(limited("{{ range until 1000000 }}0123456789{{ end }}", output).contains("more than 1000 bytes"));
}

#[test]
fn an_error_has_its_places_from_the_file_inwards() {
    let set = set(&[
        ("chart/_helpers.tpl", "{{ define \"name\" }}\n  {{ .a.b }}{{ end }}"),
        ("chart/service.yaml", "\nname: {{ include \"name\" (dict \"a\" 1) }}"),
    ])
    .unwrap();
    let error = renderer(&set, Limits::default()).render("chart/service.yaml", Value::Nil).unwrap_err();
    let places: Vec<_> = error.trace.iter().map(|l| (l.file.as_str(), l.line, l.column)).collect();
    assert_eq!(places, [("chart/service.yaml", 2, Some(9)), ("chart/_helpers.tpl", 2, Some(7))]);
}

#[test]
fn a_renderer_can_be_used_again_after_an_error() {
    let set = set(&[("bad", "{{ range until 3 }}x{{ fail \"no\" }}{{ end }}"), ("good", "{{ $x := 1 }}{{ $x }}")]);
    let set = set.unwrap();
    let mut renderer = renderer(&set, Limits::default());
    assert_eq!(renderer.render("bad", Value::Nil).unwrap_err().message, "execution error at (bad:1:23): no");
    assert_eq!(renderer.render("good", Value::Nil).unwrap(), b"1");
}

#[test]
fn a_set_is_shared_between_threads() {
    fn is_shared<T: Send + Sync>(_: &T) {}
    is_shared(&set(&[]).unwrap());
}

#[test]
fn an_endless_recursion_is_reported_at_the_call_that_recurs() {
    let template = r#"{{ define "t" }}{{ template "t" (dict "a" (print 1 | upper)) }}{{ end }}{{ include "t" . }}"#;
    let message = render_one(template).unwrap_err().message;
    {
        let (_, rest) = message.split_once("\ncase:1:28\n").unwrap();
        assert!(
            rest.ends_with("(dict \"a\" (print 1 | upper))}}>:\n    exceeded maximum template depth (100000)"),
            "{rest}"
        );
    }
}

#[test]
fn values_nested_without_end_are_made_and_dropped() {
    let nested = r#"{{ $x := dict }}{{ $y := list }}{{ range until 300000 }}{{ $x = dict "a" $x }}{{ $y = list $y }}{{ end }}done"#;
    assert_eq!(render_one(nested).unwrap(), "done");
}

#[test]
fn bytes_are_printed_as_numbers() {
    let all: Vec<u8> = (0..=255).collect();
    let list = Value::List(crate::template::value::List::of_bytes(&all[..]));
    let want: Vec<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(fmt::sprint(&[list]).unwrap(), format!("[{}]", want.join(" ")).into_bytes());
    let none = Value::List(crate::template::value::List::of_bytes(&[][..]));
    assert_eq!(fmt::sprint(&[none]).unwrap(), b"[]");
}

//! Functions of a program's own; and charts that need a feature that is off (`cargo test --no-default-features --test features`).

use std::sync::Arc;
use tillerman_render::{Chart, Diagnostic, File, Function, Metadata, Param, Renderer, Value};

fn chart(template: &str) -> Chart {
    let template = File { name: "templates/a.yaml".into(), data: Arc::new(template.into()) };
    let metadata = Metadata { name: "web".into(), version: "1.0.0".into(), ..Metadata::default() };
    Chart { metadata, templates: vec![template], ..Chart::default() }
}

fn text(renderer: &Renderer<'_>) -> Result<String, Diagnostic> {
    renderer.render().map(|rendered| rendered.manifest())
}

static LOUD: Function = Function {
    name: "loud",
    params: &[Param::Str],
    variadic: false,
    run: |_, args| match args {
        [Value::Str(text)] => Ok(format!("{}!", text.text()).into()),
        _ => Err("not a string".into()),
    },
};
static SILENT: Function = Function { name: "loud", params: &[Param::Str], variadic: false, run: |_, _| Ok("".into()) };
static TRIM: Function = Function { name: "trim", params: &[Param::Str], variadic: false, run: |_, _| Ok("own".into()) };
static INCLUDE: Function = Function { name: "include", params: &[], variadic: false, run: |_, _| Ok("own".into()) };

#[test]
fn a_template_calls_a_function_of_the_program() {
    let chart = chart("a: {{ \"x\" | loud }}");
    let plain = Renderer::new(&chart, "shop", "default");
    let unknown = "function \"loud\" not defined";
    assert!(text(&plain).unwrap_err().to_string().contains(unknown));
    assert!(text(&plain.clone().function(&LOUD)).unwrap().contains("a: x!\n"));
    // The chart remembers its parsed templates, with the functions that they call.
    assert_eq!(text(&plain.clone().function(&SILENT)).unwrap(), "---\n# Source: web/templates/a.yaml\na: \n");
    assert!(text(&plain).unwrap_err().to_string().contains(unknown));
}

#[test]
fn arguments_of_a_function_of_the_program_are_checked() {
    let chart = chart("a: {{ loud 1 }}");
    let error = text(&Renderer::new(&chart, "shop", "default").function(&LOUD)).unwrap_err().to_string();
    assert!(error.contains("expected string; found 1"), "{error}");
}

#[test]
fn a_function_of_the_program_hides_helms_but_not_the_engines() {
    let chart = chart("{{ define \"b\" }}helm{{ end }}a: {{ trim \" x \" }}\nb: {{ include \"b\" . }}");
    let renderer = Renderer::new(&chart, "shop", "default").function(&TRIM).function(&INCLUDE);
    assert!(text(&renderer).unwrap().contains("a: own\nb: helm\n"));
}

#[test]
#[cfg(not(feature = "keys"))]
fn a_function_for_keys_needs_its_feature() {
    let chart = chart("a: {{ genPrivateKey \"rsa\" }}");
    let error = text(&Renderer::new(&chart, "shop", "default")).unwrap_err().to_string();
    assert!(error.contains("built without the feature `keys`"), "{error}");
}

#[test]
#[cfg(not(feature = "minijinja"))]
fn a_chart_in_minijinja_needs_its_feature() {
    let error = tillerman_render::load("../../tests/charts/jinja").unwrap_err().to_string();
    assert!(error.contains("built without the feature `minijinja`"), "{error}");
}

#[test]
#[cfg(not(feature = "schema"))]
fn a_chart_with_a_schema_needs_its_feature() {
    let chart = Chart { schema: Some(b"{}".to_vec()), ..chart("a: 1") };
    let renderer = Renderer::new(&chart, "shop", "default");
    let error = text(&renderer).unwrap_err().to_string();
    assert!(error.contains("built without the feature `schema`"), "{error}");
    let unchecked = tillerman_render::Options::default().skip_schema(true);
    assert!(text(&renderer.options(unchecked)).unwrap().contains("a: 1"));
}

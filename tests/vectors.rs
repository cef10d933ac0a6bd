//! Runs the recorded templates of the shared corpus through the engine and these functions.
//!
//! `TILLERMAN_VECTORS` names the file of vectors, `TILLERMAN_VECTORS_GROUP` the start of the groups to run, and
//! `TILLERMAN_VECTORS_SHOW` how many failures to print.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::rc::Rc;
use tillerman::template::function::{Context, FnResult, Host};
use tillerman::template::go::{Limits, Renderer, TemplateSet, on_deep_stack};
use tillerman::template::value::{Map, MapType, Str, Value};
use tillerman::template::{functions, yaml};

#[derive(Deserialize)]
struct Vector {
    id: String,
    group: String,
    template: Option<String>,
    values: Option<serde_json::Value>,
    files: Option<BTreeMap<String, String>>,
    want: Option<String>,
    error: Option<String>,
}

struct Offline;
impl Host for Offline {
    fn random(&self, buffer: &mut [u8]) {
        for (i, byte) in buffer.iter_mut().enumerate() {
            *byte = u8::try_from(i * 37 % 251).unwrap_or(0);
        }
    }
    fn now(&self) -> i128 {
        1_700_000_000_000_000_000
    }
    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> FnResult {
        Ok(Value::map([]))
    }
    fn resolve(&self, _: &str) -> String {
        String::new()
    }
}

const CASE: &str = "vec/templates/case.txt";

fn entry(key: &str, value: impl Into<Value>) -> (Str, Value) {
    (Str::from(key), value.into())
}

fn run(vector: &Vector) -> Result<String, String> {
    let mut set = TemplateSet::new(functions::all());
    let template = vector.template.as_deref().unwrap_or_default();
    set.parse(CASE, template).map_err(|e| e.to_string())?;
    // Values come from a file, so that every number is a float.
    let text = serde_json::to_string(&vector.values.clone().unwrap_or_default()).map_err(|e| e.to_string())?;
    let values = match yaml::parse_value(text.as_bytes()).map_err(|e| e.to_string())? {
        Value::Map(map) => map.with_type(MapType::Values),
        _ => Map::new(MapType::Values),
    };
    let release = Value::map([
        entry("Name", "rel"),
        entry("Namespace", "ns"),
        entry("IsInstall", true),
        entry("IsUpgrade", false),
        entry("Revision", Value::int(1)),
        entry("Service", "Helm"),
    ]);
    let root = Map::new(MapType::Any);
    root.insert("Values", values);
    root.insert("Release", release);
    root.insert("Chart", Value::map([entry("Name", "vec"), entry("Version", "0.1.0")]));
    root.insert("Template", Value::map([entry("Name", CASE), entry("BasePath", "vec/templates")]));
    let mut renderer = Renderer::new(&set, Context { host: Rc::new(Offline) }, Limits::default());
    let out = renderer.render(CASE, Value::Map(root)).map_err(|e| e.to_string())?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

#[test]
fn recorded_templates_render_as_helm_renders_them() {
    let Some(path) = std::env::var_os("TILLERMAN_VECTORS") else {
        println!("skipped: TILLERMAN_VECTORS is not set");
        return;
    };
    let text = std::fs::read_to_string(&path).expect("TILLERMAN_VECTORS names a file");
    on_deep_stack(|| check(&text)).expect("a thread can be started");
}

fn check(text: &str) {
    let wanted = std::env::var("TILLERMAN_VECTORS_GROUP").unwrap_or_default();
    let show: usize = std::env::var("TILLERMAN_VECTORS_SHOW").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let (mut passed, mut failed, mut shown) = (0, BTreeMap::<String, usize>::new(), 0);
    for line in text.lines() {
        let vector: Vector = serde_json::from_str(line).expect("a vector is a line of JSON");
        // Vectors with files of their own need a chart loader, not just the engine.
        if vector.template.is_none() || vector.files.is_some() || !vector.group.starts_with(&wanted) {
            continue;
        }
        let result = run(&vector);
        let good = match (&result, &vector.want, &vector.error) {
            (Ok(out), Some(want), _) => out.trim_end() == want.trim_end(),
            (Err(text), None, Some(error)) => {
                std::env::var_os("TILLERMAN_VECTORS_TEXT").is_none() || text.trim_end() == error.trim_end()
            }
            _ => false,
        };
        if good {
            passed += 1;
            continue;
        }
        *failed.entry(vector.group.clone()).or_default() += 1;
        shown += 1;
        if shown <= show {
            println!("{}\n  {}", vector.id, vector.template.as_deref().unwrap_or_default());
            println!("  values {}", vector.values.as_ref().unwrap_or(&serde_json::Value::Null));
            println!("  want {:?} {:?}\n  got  {result:?}", vector.want, vector.error);
        }
    }
    println!("{passed} passed, failed: {failed:?}");
    assert!(failed.is_empty(), "{} of the vectors failed", failed.values().sum::<usize>());
}

//! Random charts with dependencies: conditions, tags, aliases, imports, globals and nulls; and random values.

use crate::random::Random;
use crate::template::Templates;
use crate::words;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What is rendered: files, of which one template is in parts that can be left out; and the user's values.
#[derive(Clone)]
pub struct Case {
    pub files: BTreeMap<String, String>,
    pub statements: Vec<String>,
    pub values: Value,
}

impl Case {
    /// All files, with the template put together.
    pub fn all_files(&self) -> BTreeMap<String, String> {
        let mut files = self.files.clone();
        if !self.statements.is_empty() {
            files.insert("templates/NOTES.txt".into(), self.statements.concat());
        }
        files
    }

    /// The user's values, as YAML that is nearly JSON.
    pub fn values(&self) -> String {
        let escaped = |c: char| match c {
            ' '..='~' => c.to_string(),
            _ => format!("\\U{:08x}", u32::from(c)),
        };
        self.values.to_string().chars().map(escaped).collect()
    }
}

/// A chart with one template that calls functions.
pub fn of_functions(random: &mut Random) -> Case {
    let chart = "apiVersion: v2\nname: web\nversion: 1.2.3\nappVersion: \"4\"\ndescription: x\nkeywords: [a]\nannotations: {a: b}\nmaintainers: [{name: n, email: e}]\n";
    let mut files = BTreeMap::from([("Chart.yaml".to_owned(), chart.to_owned())]);
    files.insert("a.txt".into(), "hello\nworld\n".into());
    files.insert("d/b.bin".into(), "x".into());
    let values = json!({
        "s": *random.pick(words::TEXTS), "t": *random.pick(words::TEXTS), "i": random.below(20), "f": 1.5, "b": random.one_in(2), "n": null,
        "l": [1, "a", null, {"k": "v"}], "k": list(random), "m": {"a": 1, "b": {"c": "d"}, "z": null}, "e": table(random, 2), "x": any(random, 3),
    });
    files.insert("values.yaml".into(), values.to_string());
    let values = if random.one_in(4) { table(random, 2) } else { json!({}) };
    Case { files, statements: Templates::new(random).statements(), values }
}

const KEYS: &[&str] = &["a", "b", "global", "sub", "other", "exports", "tags", "enabled", "k", "data"];

/// A chart with dependencies, whose templates show the values they see.
pub fn of_dependencies(random: &mut Random) -> Case {
    let mut files = BTreeMap::new();
    let names = chart(random, "", "web", 0, &mut files);
    let mut values = layers(random, &names);
    if random.one_in(6) {
        values = json!({});
    }
    Case {
        files,
        statements: vec!["{{ .Values | toJson }}\n{{ .Subcharts | keys | sortAlpha }}\n{{ .Chart | toJson }}".into()],
        values,
    }
}

fn chart(
    random: &mut Random,
    path: &str,
    name: &str,
    depth: usize,
    files: &mut BTreeMap<String, String>,
) -> Vec<String> {
    let mut names = vec![];
    let mut dependencies = Vec::new();
    for child in ["sub", "other", "third"].iter().take(if depth < 2 { random.below(4 - depth) } else { 0 }) {
        if !random.one_in(8) {
            chart(random, &format!("{path}charts/{child}/"), child, depth + 1, files);
        }
        names.push((*child).to_owned());
        for _ in 0..random.below(3) {
            let mut entry =
                json!({"name": child, "version": *random.pick(&["1.0.0", "^1", "2.x", ""]), "repository": ""});
            if random.one_in(2) {
                entry["condition"] = (*random.pick(&[
                    "sub.enabled",
                    "enabled",
                    "tags.a",
                    "a.b",
                    "sub.a,k",
                    "other.enabled,sub.enabled",
                    " k ",
                ]))
                .into();
            }
            if random.one_in(3) {
                entry["tags"] = json!([*random.pick(&["a", "b"]), "k"]);
            }
            if random.one_in(3) {
                let alias = *random.pick(&["al", "sub", "be"]);
                entry["alias"] = alias.into();
                names.push(alias.to_owned());
            }
            if random.one_in(2) {
                entry["import-values"] = json!([
                    random
                        .pick(&[
                            json!("data"),
                            json!("a"),
                            json!({"child": "a", "parent": "b"}),
                            json!({"child": "exports.data", "parent": "."}),
                            json!({"child": "global", "parent": "global"}),
                            json!({"child": "k", "parent": "k.k"}),
                        ])
                        .clone(),
                    json!("data")
                ]);
            }
            dependencies.push(entry);
        }
    }
    let metadata = json!({"apiVersion": "v2", "name": name, "version": "1.0.0", "type": if random.one_in(10) { "library" } else { "application" }});
    let mut metadata = metadata;
    if !dependencies.is_empty() || random.one_in(20) {
        metadata["dependencies"] = dependencies.into();
    }
    files.insert(format!("{path}Chart.yaml"), metadata.to_string());
    if !random.one_in(6) {
        files.insert(format!("{path}values.yaml"), layers(random, &names).to_string());
    }
    if random.one_in(10) {
        files.insert(format!("{path}values.schema.json"), schema(random, 2).to_string());
    }
    let hook =
        if random.one_in(4) { "\n  annotations: {helm.sh/hook: pre-install, helm.sh/hook-weight: \"2\"}" } else { "" };
    let kind = *random.pick(&["ConfigMap", "Secret", "Deployment", "Other"]);
    let text = format!(
        "apiVersion: v1\nkind: {kind}\nmetadata:\n  name: x{hook}\ndata: {{{{ .Values | toJson }}}}\n---\n{{{{ .Values.global | toJson }}}}\n"
    );
    let file = if random.one_in(2) { "a.yaml" } else { "b.yaml" };
    files.insert(format!("{path}templates/{file}"), text);
    names
}

pub(crate) fn layers(random: &mut Random, names: &[String]) -> Value {
    let mut map = Map::new();
    for _ in 0..random.below(6) {
        map.insert((*random.pick(KEYS)).to_owned(), any(random, 3));
    }
    for name in names {
        if random.one_in(2) {
            map.insert(name.clone(), table(random, 3));
        }
    }
    if random.one_in(3) {
        map.insert("tags".into(), json!({"a": random.one_in(2), "k": random.one_in(2)}));
    }
    if random.one_in(3) {
        map.insert("exports".into(), json!({"data": table(random, 2), "a": any(random, 2)}));
    }
    Value::Object(map)
}

pub(crate) fn table(random: &mut Random, depth: usize) -> Value {
    let count = random.below(4);
    Value::Object((0..count).map(|_| ((*random.pick(KEYS)).to_owned(), any(random, depth - 1))).collect())
}

pub(crate) fn list(random: &mut Random) -> Value {
    let count = random.below(4);
    Value::Array((0..count).map(|_| any(random, 1)).collect())
}

pub(crate) fn any(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth > 0 { 11 } else { 7 }) {
        0 => Value::Null,
        1 | 2 => random.one_in(2).into(),
        3 => (random.below(20) as i64 - 5).into(),
        4 => json!(*random.pick(&[1.5, 0.1, 1e21, 1e-7, 123456789.0, 9007199254740993.0])),
        5 | 6 => (*random.pick(words::TEXTS)).into(),
        7 => list(random),
        _ => table(random, depth),
    }
}

fn schema(random: &mut Random, depth: usize) -> Value {
    let mut schema = json!({});
    for _ in 0..1 + random.below(3) {
        let inner = if depth > 0 { schema_below(random, depth) } else { json!(true) };
        match random.below(10) {
            0 => schema["type"] = (*random.pick(&["object", "string", "integer", "null", "array"])).into(),
            1 => schema["required"] = json!([*random.pick(KEYS)]),
            2 | 3 => schema["properties"] = json!({*random.pick(KEYS): inner}),
            4 => schema["additionalProperties"] = inner,
            5 => schema["minProperties"] = random.below(3).into(),
            6 => schema["anyOf"] = json!([inner, {"type": "object"}]),
            7 => schema["not"] = inner,
            8 => schema["enum"] = json!([1, "a", any(random, 1)]),
            _ => schema["items"] = inner,
        }
    }
    schema
}

fn schema_below(random: &mut Random, depth: usize) -> Value {
    schema(random, depth - 1)
}

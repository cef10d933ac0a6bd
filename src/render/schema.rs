//! Checks values against `values.schema.json` of a chart and its dependencies, with Helm's message.

use super::dependencies::Node;
use crate::template::value::{Map, Value};
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Draft, ValidationError};
use serde_json::Value as Json;
use std::fmt::Write;

/// What the schemas of the chart and of its dependencies find wrong; `None` when nothing is.
pub fn violations(node: &Node<'_>, values: &Map) -> Option<String> {
    let mut text = String::new();
    collect(node, values, &mut text);
    (!text.is_empty())
        .then(|| format!("values don't meet the specifications of the schema(s) in the following chart(s):\n{text}"))
}

fn collect(node: &Node<'_>, values: &Map, text: &mut String) {
    if let Some(schema) = &node.chart.schema
        && let Err(message) = check(schema, values)
    {
        let _ = write!(text, "{}:\n{message}", node.name());
    }
    for child in &node.dependencies {
        match values.get(child.name()) {
            None | Some(Value::Nil) => {}
            Some(Value::Map(table)) => collect(child, &table, text),
            Some(other) => {
                let got = match other {
                    Value::Bool(_) => "bool",
                    Value::Str(_) => "string",
                    Value::List(_) => "[]interface {}",
                    Value::Int(..) => "int64",
                    _ => "float64",
                };
                let name = child.name();
                let _ = writeln!(text, "{name}:\ninvalid type for values: expected object (map), got {got}");
            }
        }
    }
}

/// Schemas of other places are not fetched: rendering opens no socket and no file.
struct Offline;

impl jsonschema::Retrieve for Offline {
    fn retrieve(
        &self,
        uri: &jsonschema::Uri<String>,
    ) -> Result<Json, Box<dyn std::error::Error + Send + Sync + 'static>> {
        let uri = uri.as_str();
        if uri.starts_with("urn:") {
            return Ok(Json::Bool(true));
        }
        Err(format!("failing loading {uri:?}: schemas of other places are not fetched while rendering").into())
    }
}

fn check(schema: &[u8], values: &Map) -> Result<(), String> {
    let mut schema: Json = match serde_json::from_slice(schema) {
        Ok(schema) => schema,
        Err(e) if e.is_eof() && schema.iter().all(u8::is_ascii_whitespace) => return Err("EOF".into()),
        Err(e) => return Err(e.to_string()),
    };
    let mut options = jsonschema::options().with_retriever(Offline);
    // This address names no draft: Helm's validator takes the newest.
    if let Some(named) = schema.get("$schema").and_then(Json::as_str)
        && matches!(named.trim_end_matches('#'), "http://json-schema.org/schema" | "https://json-schema.org/schema")
        && let Some(entries) = schema.as_object_mut()
    {
        entries.remove("$schema");
        options = options.with_draft(Draft::Draft202012);
    }
    let validator = options.build(&schema).map_err(|e| {
        format!("\"file:///values.schema.json#\" is not valid against metaschema: {}", e.masked_with("value"))
    })?;
    let instance = to_json(&Value::Map(values.clone()));
    let mut text = String::new();
    let mut missing: Vec<(String, Vec<String>)> = Vec::new();
    for error in validator.iter_errors(&instance) {
        if let ValidationErrorKind::Required { property } = error.kind() {
            let at = error.instance_path().to_string();
            let property = property.as_str().unwrap_or_default().to_owned();
            match missing.iter_mut().find(|(path, _)| *path == at) {
                Some((_, names)) => names.push(property),
                None => missing.push((at, vec![property])),
            }
            continue;
        }
        describe(&error, 0, &mut text);
    }
    for (path, names) in missing {
        let _ = writeln!(text, "- at '{path}': {}", missing_properties(&names));
    }
    if text.is_empty() { Ok(()) } else { Err(text + "\n") }
}

fn missing_properties(names: &[String]) -> String {
    match names {
        [one] => format!("missing property '{one}'"),
        many => format!("missing properties {}", quoted(many)),
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|n| format!("'{n}'")).collect::<Vec<_>>().join(", ")
}

/// One violation in the words of Helm's validator. No text but that of the schema and the names of keys is told.
fn describe(error: &ValidationError<'_>, depth: usize, text: &mut String) {
    let at = error.instance_path();
    let indent = "  ".repeat(depth);
    let instance = error.instance();
    let length = || match instance.as_ref() {
        Json::String(s) => s.chars().count(),
        Json::Array(a) => a.len(),
        Json::Object(o) => o.len(),
        _ => 0,
    };
    let message = match error.kind() {
        ValidationErrorKind::Type { kind } => format!("got {}, want {}", type_of(instance), wanted(kind)),
        ValidationErrorKind::Required { property } => {
            missing_properties(&[property.as_str().unwrap_or_default().to_owned()])
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            format!("additional properties {} not allowed", quoted(unexpected))
        }
        ValidationErrorKind::Enum { options } => format!("value must be one of {}", options_text(options)),
        ValidationErrorKind::Constant { expected_value } => format!("value must be {}", option_text(expected_value)),
        ValidationErrorKind::MinLength { limit } => format!("minLength: got {}, want {limit}", length()),
        ValidationErrorKind::MaxLength { limit } => format!("maxLength: got {}, want {limit}", length()),
        ValidationErrorKind::MinItems { limit } => format!("minItems: got {}, want {limit}", length()),
        ValidationErrorKind::MaxItems { limit } => format!("maxItems: got {}, want {limit}", length()),
        ValidationErrorKind::MinProperties { limit } => format!("minProperties: got {}, want {limit}", length()),
        ValidationErrorKind::MaxProperties { limit } => format!("maxProperties: got {}, want {limit}", length()),
        ValidationErrorKind::Minimum { limit } => format!("minimum: got {instance}, want {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("maximum: got {instance}, want {limit}"),
        ValidationErrorKind::ExclusiveMinimum { limit } => format!("exclusiveMinimum: got {instance}, want {limit}"),
        ValidationErrorKind::ExclusiveMaximum { limit } => format!("exclusiveMaximum: got {instance}, want {limit}"),
        ValidationErrorKind::Pattern { pattern } => format!("'value' does not match pattern '{pattern}'"),
        ValidationErrorKind::FalseSchema => "false schema".into(),
        ValidationErrorKind::Not { .. } => "'not' failed".into(),
        ValidationErrorKind::UniqueItems => "items are not unique".into(),
        ValidationErrorKind::AnyOf { context } => return branches("anyOf", context, error, depth, text),
        ValidationErrorKind::OneOfNotValid { context } => return branches("oneOf", context, error, depth, text),
        ValidationErrorKind::OneOfMultipleValid { .. } => "'oneOf' failed, more than one subschema matched".into(),
        _ => error.masked_with("value").to_string(),
    };
    let _ = writeln!(text, "{indent}- at '{at}': {message}");
}

fn branches(
    keyword: &str,
    context: &[Vec<ValidationError<'static>>],
    error: &ValidationError<'_>,
    depth: usize,
    text: &mut String,
) {
    let indent = "  ".repeat(depth);
    let at = error.instance_path();
    let none = if keyword == "oneOf" { ", none matched" } else { "" };
    let _ = writeln!(text, "{indent}- at '{at}': '{keyword}' failed{none}");
    for branch in context {
        for inner in branch {
            describe(inner, depth + 1, text);
        }
    }
}

fn options_text(options: &Json) -> String {
    options.as_array().map_or_else(String::new, |list| list.iter().map(option_text).collect::<Vec<_>>().join(", "))
}

fn option_text(value: &Json) -> String {
    match value {
        Json::String(s) => format!("'{s}'"),
        other => other.to_string(),
    }
}

fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

fn wanted(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(many) => many.iter().map(|t| t.to_string()).collect::<Vec<_>>().join(" or "),
    }
}

/// Values as JSON; a float without a fraction is an integer, as for Helm's validator.
pub fn to_json(value: &Value) -> Json {
    match value {
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(_, i) => Json::from(*i),
        Value::Float(f) => integral(*f).map_or_else(|| Json::from(*f), Json::from),
        Value::Str(s) => Json::String(s.text().into_owned()),
        Value::List(list) => Json::Array(list.items.iter().map(to_json).collect()),
        Value::Map(map) => {
            Json::Object(map.borrow().iter().map(|(k, v)| (k.text().into_owned(), to_json(v))).collect())
        }
        Value::Nil | Value::Object(_) => Json::Null,
    }
}

fn integral(f: f64) -> Option<i64> {
    // 2^53: beyond it a float no longer tells neighbouring integers apart.
    let exact = f.fract() == 0.0 && f.abs() <= 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
    exact.then_some(f as i64)
}

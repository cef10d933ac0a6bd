//! Checks values against `values.schema.json` of a chart and its dependencies, with Helm's message.
//!
//! Helm's message is a tree whose shape and words are those of its validator (`santhosh-tekuri/jsonschema` 6), down to
//! the order in which keywords are applied and which of them end the check of a value. No other validator reports them.

mod assertions;
mod compile;
mod constant;
mod draft;
mod error;
mod format;
mod keywords;
mod number;
mod place;
mod plain;
mod validate;
mod values;

use super::dependencies::ChartNode;
use super::schema_error::SchemaError;
use crate::chart::Chart;
use crate::template::value::{Map, Value};
use compile::{Compiled, Compiler, Id, Others, Schema};
use plain::{Plain, QuickAnswer};
use std::fmt::Write;
use std::sync::{Arc, OnceLock};

/// The violations of the schemas of the chart and its dependencies; `None` when there are none.
pub fn violations(node: &ChartNode<'_>, values: &Map) -> Option<String> {
    let mut text = String::new();
    collect(node, values, &mut text);
    (!text.is_empty())
        .then(|| format!("values don't meet the specifications of the schema(s) in the following chart(s):\n{text}"))
}

fn collect(node: &ChartNode<'_>, values: &Map, text: &mut String) {
    if let Some(schema) = &node.chart.schema
        && let Err(message) = check(node.chart, schema, values)
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

/// The address that Helm gives to a chart's schema.
const URL: &str = "file:///values.schema.json";

/// A chart's schema. It is compiled when values are checked for a second time, or when the quick check is not enough.
struct Known {
    text: Vec<u8>,
    schemas: OnceLock<Compiled<(Vec<Schema>, Id)>>,
}

fn compile(schema: &[u8], chart: &Chart) -> Compiled<(Vec<Schema>, Id)> {
    let document = draft::parse(schema)?;
    let others = Others { files: Arc::clone(&chart.files), documents: Arc::clone(&chart.schema_documents) };
    let mut compiler = Compiler::new(URL, document, others);
    let id = compiler.compile(URL)?;
    Ok((compiler.schemas, id))
}

/// The violations of a chart's schema, in lines.
pub fn check(chart: &Chart, schema: &[u8], values: &Map) -> Result<(), SchemaError> {
    let mut is_new = false;
    let make = || {
        is_new = true;
        Ok(Known { text: schema.to_vec(), schemas: OnceLock::new() })
    };
    let known = chart.memory.schema.get_or_make(|known: &Known| known.text == schema, make);
    let known = known.unwrap_or_else(|never: std::convert::Infallible| match never {});
    let values = Value::Map(values.clone());
    if is_new {
        let document = draft::parse(schema)?;
        let plain = Plain::new(&document);
        if plain.is_valid(&document) && plain.check(&document, &values, 0) == QuickAnswer::Valid {
            return Ok(());
        }
    }
    let compiled = known.schemas.get_or_init(|| compile(schema, chart));
    let (schemas, id) = compiled.as_ref().map_err(Clone::clone)?;
    let found = validate::check(schemas, *id, &values);
    found.map_err(|SchemaError(text)| format!("{}\n", text.trim_start_matches('\n')).into())
}

//! `tillerman explain`: the values of a chart as a table.

use crate::chart::Chart;
use crate::cli::common::error::CliError;
use crate::cli::common::streams::print;
use crate::cli::common::values::layers::{SourceObjects, layers};
use crate::cli::common::values::paths::joined;
use crate::cli::common::values::rows::Describer;
use crate::cli::common::values_files;
use crate::crd::{self, CrdSettings};
use crate::render::Options;
use crate::render::provenance::ValueTrace;
use crate::template::yaml;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// A chart, and how to show its values.
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// The chart: a directory or a .tgz archive.
    chart: PathBuf,
    /// Only this value and the values below it: a path such as service.port.
    #[arg(value_name = "VALUE")]
    below: Option<String>,
    /// Print it as json, yaml or markdown instead.
    #[arg(short, long, value_parser = ["json", "yaml", "markdown"])]
    output: Option<String>,
}

/// A value of the chart.
struct Row {
    path: String,
    kind: String,
    default: Option<Value>,
    about: String,
    /// The file and the line of the default.
    place: Option<String>,
}

/// The widest that a default is shown in the table, in characters.
const DEFAULT: usize = 40;

/// Prints the table.
pub fn run(args: &ExplainArgs) -> Result<(), CliError> {
    let chart = crate::chart::load(&args.chart).map_err(CliError::new)?;
    let evidence = values_files::beside(&args.chart, &chart);
    let types = crd::types(&chart, CrdSettings::default(), &evidence)?;
    let mut rows = Vec::new();
    walk(&types.schema, Some(&crd::plain(&Value::Object(types.defaults().clone()))), "", &mut rows);
    let places = places(&chart)?;
    for row in &mut rows {
        row.place = places.get(&row.path).cloned();
    }
    if let Some(below) = &args.below {
        let inside = format!("{below}.");
        rows.retain(|row| row.path == *below || row.path.starts_with(&inside));
        if rows.is_empty() {
            return Err(CliError(format!("the chart {} has no value {below}", chart.metadata.name)));
        }
    }
    print(&match args.output.as_deref() {
        Some("json") => serde_json::to_string_pretty(&as_json(&rows)).map_err(CliError::new)? + "\n",
        Some("yaml") => yaml::of_json(&as_json(&rows))?,
        Some(_) => markdown(&rows),
        None => table(&rows),
    });
    Ok(())
}

/// Where the chart and its dependencies give each default, by the path of the value.
fn places(chart: &Chart) -> Result<BTreeMap<String, String>, CliError> {
    let layers = layers(&json!({}), None, Vec::new(), &SourceObjects::new(), Vec::new())?;
    let trace = ValueTrace::new(chart, &layers.given, &Options::for_a_look()).map_err(CliError::new)?;
    let mut describer = Describer::new(&trace, &layers);
    let all = trace.values().map_err(CliError::new)?;
    Ok(all.iter().map(|value| (joined(&value.path), describer.describe(&value.path, &value.origin).place)).collect())
}

fn walk(schema: &Value, default: Option<&Value>, path: &str, rows: &mut Vec<Row>) {
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let default = default.and_then(|above| above.get(key));
        let has_parts = schema["properties"].as_object().is_some_and(|parts| !parts.is_empty());
        let about = schema["description"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        if !has_parts || !about.is_empty() {
            let default = default.filter(|_| !has_parts).cloned();
            // The definition's descriptions name the default; here it has a column.
            let named = format!("Default: {}", shown(default.as_ref()));
            let about = about.strip_suffix(&named).map_or(&*about, str::trim_end).to_owned();
            rows.push(Row { path: path.clone(), kind: kind(schema), default, about, place: None });
        }
        walk(schema, default, &path, rows);
    }
}

fn kind(schema: &Value) -> String {
    let name = schema["type"].as_str().unwrap_or("any");
    let name = if schema["x-kubernetes-int-or-string"] == true { "integer or string" } else { name };
    match (name, schema["items"]["type"].as_str()) {
        ("array", Some(items)) => format!("array of {items}"),
        _ => name.to_owned(),
    }
}

fn shown(default: Option<&Value>) -> String {
    default.map(Value::to_string).unwrap_or_default()
}

/// Text of a chart, without what moves a terminal's cursor.
fn plain(text: &str, widest: usize) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    if text.chars().count() <= widest {
        text
    } else {
        text.chars().take(widest.saturating_sub(1)).chain(['…']).collect()
    }
}

fn table(rows: &[Row]) -> String {
    let cells: Vec<[String; 4]> = std::iter::once(["VALUE", "TYPE", "DEFAULT", "MEANING"].map(str::to_owned))
        .chain(rows.iter().map(|row| {
            let default = plain(&shown(row.default.as_ref()), DEFAULT);
            [plain(&row.path, usize::MAX), row.kind.clone(), default, plain(&row.about, usize::MAX)]
        }))
        .collect();
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let mut out = String::new();
    for [path, kind, default, about] in &cells {
        let line =
            format!("{path:a$}   {kind:b$}   {default:c$}   {about}", a = widths[0], b = widths[1], c = widths[2]);
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

fn markdown(rows: &[Row]) -> String {
    let mut out = "| value | type | default | meaning |\n|---|---|---|---|\n".to_owned();
    for row in rows {
        let cell = |text: &str| plain(text, usize::MAX).replace('|', "\\|");
        let default = row.default.as_ref().map(|value| format!("`{}`", cell(&value.to_string()))).unwrap_or_default();
        let _ = writeln!(out, "| `{}` | {} | {default} | {} |", cell(&row.path), row.kind, cell(&row.about));
    }
    out
}

fn as_json(rows: &[Row]) -> Value {
    let row = |row: &Row| json!({"value": row.path, "type": row.kind, "default": row.default, "description": row.about, "place": row.place});
    Value::Array(rows.iter().map(row).collect())
}

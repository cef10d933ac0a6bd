//! `--why`: all sources of a value, from the lowest to the one that counts.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::cli::common::line::line;
use crate::cli::common::values::paths::joined;
use crate::cli::common::values::rows::{Describer, cut, source_json};
use crate::render::Diagnostic;
use crate::render::provenance::{EffectiveValue, ValueTrace};

/// A value with its sources.
pub(super) struct Explained {
    path: Vec<String>,
    /// The value and the source of each step as JSON.
    steps: Vec<Value>,
}

/// The chains of the values at a path and below it.
pub(super) fn explained(
    path: &[String],
    rows: &[EffectiveValue],
    trace: &ValueTrace<'_>,
    describer: &mut Describer<'_>,
) -> Result<Vec<Explained>, Diagnostic> {
    let mut paths: Vec<&[String]> = rows.iter().map(|row| &*row.path).filter(|own| own.starts_with(path)).collect();
    if paths.is_empty() {
        // A null may have removed it.
        paths.push(path);
    }
    let mut all = Vec::new();
    for path in paths {
        let step = |origin| {
            let from = describer.describe(path, &origin);
            let mut step = source_json(&from);
            step["effective"] = describer.shown(path, trace.at(&origin).unwrap_or(&Value::Null), &from);
            step
        };
        let steps: Vec<Value> = trace.chain(path)?.into_iter().map(step).collect();
        if !steps.is_empty() {
            all.push(Explained { path: path.to_vec(), steps });
        }
    }
    Ok(all)
}

/// The chains as text: the lowest source first, and a mark at the one that counts.
pub(super) fn text(all: &[Explained]) -> String {
    let mut text = String::new();
    for one in all {
        let _ = writeln!(text, "{}", line(&joined(&one.path)));
        let field = |step: &Value, key: &str| step[key].as_str().unwrap_or_default().to_owned();
        let width = |key: &str| one.steps.iter().map(|step| field(step, key).chars().count()).max().unwrap_or(0);
        let (sources, places) = (width("source"), width("place"));
        for (number, step) in one.steps.iter().enumerate() {
            let is_last = number + 1 == one.steps.len();
            let (source, place, shown) =
                (field(step, "source"), field(step, "place"), cut(&step["effective"].to_string()));
            let mark = match (is_last, &step["effective"]) {
                (false, _) => "overridden",
                (true, Value::Null) => "removes it",
                (true, _) => "counts",
            };
            let row = format!("  {mark:10}  {source:sources$}  {place:places$}  {shown}");
            let _ = writeln!(text, "{}", line(&row));
        }
    }
    text
}

/// The chains as JSON.
pub(super) fn document(all: &[Explained]) -> Value {
    let one = |one: &Explained| json!({"value": joined(&one.path), "chain": one.steps});
    json!({"values": all.iter().map(one).collect::<Vec<_>>()})
}

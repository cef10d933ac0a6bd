//! The values of a subject with their sources, as rows.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::layers::Layers;
use super::paths::joined;
use crate::chart::lines::{lines, nearest};
use crate::crd::plain;
use crate::mask::MASK;
use crate::render::provenance::{ChartPosition, EffectiveValue, ValueOrigin, ValueSource, ValueTrace};

/// The source of a value, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The kind of the source: `default`, `dependency's default`, `parent's override`, `import`, `global`, or a field of the operator.
    pub word: &'static str,
    /// The document, with the line or the path.
    pub place: String,
    /// The file of the chart and the line, where they are known.
    pub line: Option<(String, Option<usize>)>,
    /// Whether the document is a Secret.
    pub is_secret: bool,
}

/// Describes sources; remembers the lines of files.
pub struct Describer<'t> {
    trace: &'t ValueTrace<'t>,
    layers: &'t Layers,
    lines: HashMap<Vec<usize>, BTreeMap<Vec<String>, usize>>,
}

impl<'t> Describer<'t> {
    pub fn new(trace: &'t ValueTrace<'t>, layers: &'t Layers) -> Self {
        Self { trace, layers, lines: HashMap::new() }
    }

    /// The source of a value at a path.
    pub fn describe(&mut self, path: &[String], origin: &ValueOrigin) -> Described {
        match &origin.source {
            ValueSource::Layer(number) => {
                let name = &self.layers.names[*number];
                let is_global = is_copy(&self.trace.charts, path) && origin.path.len() < path.len();
                Described {
                    word: if is_global { "global" } else { name.word() },
                    place: name.place(&origin.path),
                    line: None,
                    is_secret: name.is_secret(),
                }
            }
            ValueSource::Chart(position) => {
                let file = self.file(position);
                let line = self.line(position, &origin.path);
                let place = line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"));
                let word = word(&self.trace.charts, path, position, &origin.path);
                Described { word, place, line: Some((file, line)), is_secret: false }
            }
        }
    }

    /// A value as it may be shown: none out of a Secret.
    pub fn shown(&self, path: &[String], value: &Value, from: &Described) -> Value {
        // A list may have items of several layers.
        if from.is_secret || value.is_array() && self.layers.is_secret_at(path) { MASK.into() } else { plain(value) }
    }

    /// The path of a chart's values.yaml.
    fn file(&self, position: &[usize]) -> String {
        let above = (1..=position.len()).filter_map(|level| self.trace.chart(&position[..level]));
        above.flat_map(|chart| ["charts/", &chart.metadata.name, "/"]).chain(["values.yaml"]).collect()
    }

    fn line(&mut self, position: &[usize], path: &[String]) -> Option<usize> {
        let chart = self.trace.chart(position)?;
        let read = || chart.values_text.as_ref().map(|text| lines(text)).unwrap_or_default();
        nearest(self.lines.entry(position.to_vec()).or_insert_with(read), path)
    }
}

/// The kind of a source in a chart, for the owner of a value.
fn word(charts: &ChartPosition, path: &[String], position: &[usize], source: &[String]) -> &'static str {
    let owners = charts.owners(path);
    let own = &owners[owners.len() - 1].position;
    match owners.len() {
        _ if is_copy(charts, path) && source.first().is_some_and(|key| key == "global") && position != own => "global",
        _ if position == own && position.is_empty() => "default",
        _ if position == own => "dependency's default",
        _ if own.starts_with(position) => "parent's override",
        _ => "import",
    }
}

/// Whether a value is a dependency's copy of a global one.
pub fn is_copy(charts: &ChartPosition, path: &[String]) -> bool {
    let depth = charts.owners(path).len() - 1;
    depth > 0 && path.get(depth).is_some_and(|key| key == "global")
}

/// The rows of a table, without the copies of global values, unless all are wanted.
pub fn table_rows(rows: &[EffectiveValue], describer: &mut Describer<'_>, all: bool) -> Vec<Vec<String>> {
    let head = ["VALUE", "EFFECTIVE", "SOURCE", "PLACE"].map(str::to_owned).to_vec();
    let wanted = rows.iter().filter(|row| all || !is_copy(&describer.trace.charts, &row.path)).collect::<Vec<_>>();
    let row = |row: &EffectiveValue| {
        let from = describer.describe(&row.path, &row.origin);
        let shown = describer.shown(&row.path, &row.value, &from).to_string();
        vec![joined(&row.path), if all { shown } else { cut(&shown) }, from.word.to_owned(), from.place]
    };
    std::iter::once(head).chain(wanted.into_iter().map(row)).collect()
}

/// The widest that a value is shown in the table, in characters.
const WIDEST: usize = 40;

/// A text that is cut where it is too long for a table.
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(WIDEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The source of a value as JSON.
pub fn source_json(from: &Described) -> Value {
    let (file, line) = from.line.as_ref().map_or((None, None), |(file, line)| (Some(file), *line));
    json!({"source": from.word, "place": from.place, "file": file, "line": line, "secret": from.is_secret})
}

/// All values as JSON.
pub fn rows_json(rows: &[EffectiveValue], describer: &mut Describer<'_>) -> Value {
    let row = |row: &EffectiveValue| {
        let from = describer.describe(&row.path, &row.origin);
        let mut entry = source_json(&from);
        entry["value"] = joined(&row.path).into();
        entry["effective"] = describer.shown(&row.path, &row.value, &from);
        entry
    };
    json!({"values": rows.iter().map(row).collect::<Vec<_>>()})
}

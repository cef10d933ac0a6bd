//! The fields of a chart's status for its definition, from a rendering with default values, or with the values files of the chart.

use super::StatusFields;
use crate::chart::{Chart, Values};
use crate::crd::{self, StatusField};
use crate::render::{Capabilities, Limits, Options, Release, render};

/// The limits of the rendering: the chart of a definition can have any author.
const LIMITS: Limits = Limits { steps: Some(10_000_000), output: 16 << 20, memory: Some(128 << 20) };

/// The fields that the documents of a chart name with the chart's default values. A chart that needs further values is rendered as far as
/// `helm lint` renders it, or else with the first of its values files with which it renders.
///
/// # Errors
/// Why the chart cannot be rendered this way, or the fault of its documents.
pub fn of_chart(chart: &Chart) -> Result<Vec<StatusField>, String> {
    if !may_have(chart) {
        return Ok(Vec::new());
    }
    let options = Options::for_a_look().limits(LIMITS).skip_schema(true).lint(true);
    let release = Release::new("release", "default");
    let rendered = |values: &Values| render(chart, values, &release, &Capabilities::default(), &options);
    let with_carried = || crd::carried(chart).iter().find_map(|file| rendered(&file.values).ok());
    let rendered = rendered(&Values::new()).or_else(|e| with_carried().ok_or_else(|| e.to_string()))?;
    let fields = StatusFields::parse(&rendered.unknown)?.unwrap_or_default().fields.into_iter();
    let typed = fields.map(|field| StatusField {
        name: field.name,
        kind: field.kind.as_str(),
        description: field.description,
        column: field.column,
    });
    Ok(typed.collect())
}

/// Whether a template can write such a document, so that most charts are not rendered.
fn may_have(chart: &Chart) -> bool {
    let names_it = |data: &[u8]| data.windows(super::KIND.len()).any(|part| part == super::KIND.as_bytes());
    let is_ours =
        |data: &[u8]| data.windows(super::API_VERSION.len()).any(|part| part == super::API_VERSION.as_bytes());
    let data = || chart.templates.iter().map(|file| file.data.as_slice());
    data().any(names_it) && data().any(is_ours) || chart.dependencies.iter().any(may_have)
}

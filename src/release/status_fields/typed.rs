//! The fields of a chart's status for its definition, from a rendering with default values.

use super::StatusFields;
use crate::chart::Chart;
use crate::crd::StatusField;
use crate::render::{Capabilities, Limits, Options, Release, render};

/// The limits of the rendering: the chart of a definition can have any author.
const LIMITS: Limits = Limits { steps: Some(10_000_000), output: 16 << 20, memory: Some(128 << 20) };

/// The fields that the documents of a chart name with the chart's default values. A chart that needs further values is rendered as far as
/// `helm lint` renders it.
///
/// # Errors
/// Why the chart cannot be rendered this way, or the fault of its documents.
pub fn of_chart(chart: &Chart) -> Result<Vec<StatusField>, String> {
    if !may_have(chart) {
        return Ok(Vec::new());
    }
    let options = Options::for_a_look().limits(LIMITS).skip_schema(true).lint(true);
    let (release, values) = (Release::new("release", "default"), crate::chart::Values::new());
    let rendered = render(chart, &values, &release, &Capabilities::default(), &options).map_err(|e| e.to_string())?;
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

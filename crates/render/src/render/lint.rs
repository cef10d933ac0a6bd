//! Rendering as `helm lint` does it.

use super::dependencies::{self, ChartNode};
use super::schema_error::SchemaError;
use super::{Capabilities, Diagnostic, KubeVersion, Options, Release, coalesce, guarded, render_files, schema};
use crate::chart::{Chart, Values};
use std::collections::BTreeMap;

/// Renders all files of a chart as `helm lint` does; they are neither read as YAML nor put in order. `None` where the
/// linter says nothing, because another of its checks does.
///
/// Helm coalesces values twice there, which brings back defaults that the user's nulls had removed.
pub fn lint_files(
    chart: &Chart,
    values: &Values,
    release: &Release,
    capabilities: &Capabilities,
    options: &Options,
) -> Result<Option<BTreeMap<String, String>>, Diagnostic> {
    guarded(chart, options, || lint_within_budget(chart, values, release, capabilities, options))
}

fn lint_within_budget(
    chart: &Chart,
    values: &Values,
    release: &Release,
    capabilities: &Capabilities,
    options: &Options,
) -> Result<Option<BTreeMap<String, String>>, Diagnostic> {
    let user = dependencies::to_map(values);
    let kube = KubeVersion::parse(&capabilities.kube_version).map_err(|e| Diagnostic::values(e.to_string()))?;
    let Ok(root) = ChartNode::resolve(chart, &user) else { return Ok(None) };
    let Ok(values) = coalesce::coalesce_values(&root, &user) else { return Ok(None) };
    let Ok(values) = coalesce::coalesce_values(&root, &values) else { return Ok(None) };
    if !options.skip_schema
        && let Some(text) = schema::violations(&root, &values)
    {
        return Err(Diagnostic::invalid(text, root.name()));
    }
    render_files(&root, &values, release, (capabilities, kube), options).map(|(files, _)| Some(files))
}

/// The violations of a schema by a user's values over those of `values.yaml`, as `helm lint` merges them.
pub fn lint_values(user: &Values, chart: &Values, schema: &[u8]) -> Result<(), SchemaError> {
    let (user, chart) = (dependencies::to_map(user), dependencies::to_map(chart));
    coalesce::coalesce_tables(&user, &chart, false);
    schema::check(&Chart::default(), schema, &user)
}

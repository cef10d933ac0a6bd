//! Schemas without the feature `schema`: a chart that has one is an error, because its values would not be checked.

use super::dependencies::ChartNode;
use super::schema_error::SchemaError;
use crate::chart::Chart;
use crate::template::value::Map;

const ABSENT: &str = "the chart has a values.schema.json, and this program was built without the feature `schema` of tillerman-render; \
                      Options::skip_schema renders without a check\n";

/// The first chart that has a schema.
pub fn violations(node: &ChartNode<'_>, _: &Map) -> Option<String> {
    with_schema(node).map(|name| format!("{name}: {ABSENT}"))
}

fn with_schema<'n>(node: &'n ChartNode<'_>) -> Option<&'n str> {
    if node.chart.schema.is_some() {
        return Some(node.name());
    }
    node.dependencies.iter().find_map(with_schema)
}

/// Fails.
pub fn check(_: &Chart, _: &[u8], _: &Map) -> Result<(), SchemaError> {
    Err(SchemaError(ABSENT.to_owned()))
}

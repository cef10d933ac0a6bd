//! Whether a chart may be installed.

use super::error::CliError;
use crate::chart::Chart;

/// Helm's checks before a chart may be installed.
pub fn installable(chart: &Chart) -> Result<(), CliError> {
    let kind = &chart.metadata.r#type;
    if !matches!(kind.as_str(), "" | "application") {
        return Err(CliError(format!("{kind} charts are not installable")));
    }
    if chart.metadata.deprecated {
        eprintln!("level=WARN msg=\"this chart is deprecated\"");
    }
    let missing = missing(chart);
    if missing.is_empty() {
        return Ok(());
    }
    Err(CliError(format!(
        "an error occurred while checking for chart dependencies. You may need to run 'helm dependency build' to fetch \
         missing dependencies: found in Chart.yaml, but missing in charts/ directory: {}",
        missing.join(", ")
    )))
}

/// The names of dependencies that are not in charts/.
pub fn missing(chart: &Chart) -> Vec<&str> {
    let has = |name: &str| chart.dependencies.iter().any(|c| c.metadata.name == name);
    chart.metadata.dependencies.iter().map(|d| d.name.as_str()).filter(|name| !has(name)).collect()
}

//! The values files that a chart carries: what its author and its users give it.

use super::Evidence;
use crate::chart::{Chart, Values, values};
use std::path::Path;

/// Those among the chart's files.
pub fn carried(chart: &Chart) -> Vec<Evidence> {
    let files = chart.files.iter().filter(|file| is_candidate(Path::new(&file.name)));
    files.filter_map(|file| evidence(&file.name, &file.data, chart)).collect()
}

/// A file, if it gives values of the chart.
pub fn evidence(name: &str, data: &[u8], chart: &Chart) -> Option<Evidence> {
    let values = values::load(data).ok()?;
    is_values(name, &values, chart).then(|| Evidence { name: name.to_owned(), values })
}

/// Whether a file may be one, by its name: it lies in `ci/`, or it or its folder is called values.
pub fn is_candidate(name: &Path) -> bool {
    let is_yaml = name.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    let is_of_helm = matches!(name.to_str(), Some("values.yaml" | "Chart.yaml" | "requirements.yaml"));
    let is_hidden = name.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    is_yaml && !is_of_helm && !is_hidden && (is_of_ci(name) || name.to_string_lossy().to_lowercase().contains("value"))
}

/// Whether a file lies in `ci/`, where charts have the values that their tests use.
fn is_of_ci(name: &Path) -> bool {
    name.parent() == Some(Path::new("ci"))
}

/// Whether a file gives values that the chart knows, and is not an object of Kubernetes.
fn is_values(name: &str, values: &Values, chart: &Chart) -> bool {
    let is_object = values.contains_key("apiVersion") && values.contains_key("kind");
    let is_sub = |key: &str| chart.dependencies.iter().any(|sub| sub.metadata.name == key);
    let known = values.keys().filter(|key| chart.values.contains_key(*key) || is_sub(key)).count();
    is_of_ci(Path::new(name)) || !is_object && !values.is_empty() && known * 2 >= values.len()
}

//! Values files that come with a chart: what its author and its users give it.

use super::CliError;
use crate::chart::{Chart, Values, values};
use crate::crd::Evidence;
use std::path::{Path, PathBuf};

/// More files are not read; a chart has at most a few dozen.
const MOST: usize = 1000;
/// Larger ones are no values files.
const LARGEST: u64 = 1 << 20;

/// Reads a values file that the user names.
pub fn read(path: &Path) -> Result<Evidence, CliError> {
    let name = path.display().to_string();
    let data = std::fs::read(path).map_err(|e| CliError(format!("open {name}: {e}")))?;
    let values = values::load(&data).map_err(|e| CliError(format!("failed to parse {name}: {e}")))?;
    Ok(Evidence { name, values })
}

/// The values files beside a chart: those of `ci/`, and others that are called values or lie in a folder that is, if they give values
/// that the chart knows. Of a directory, also what `.helmignore` leaves out of the chart. What cannot be read is not one of them.
pub fn beside(path: &Path, chart: &Chart) -> Vec<Evidence> {
    let mut found: Vec<(String, Vec<u8>)> = Vec::new();
    if path.is_dir() {
        let mut names = Vec::new();
        walk(path, &PathBuf::new(), &mut names);
        names.sort();
        for name in names {
            if let Ok(data) = std::fs::read(path.join(&name)) {
                found.push((name.to_string_lossy().into_owned(), data));
            }
        }
    } else {
        let files = chart.files.iter().filter(|file| is_candidate(Path::new(&file.name)));
        found.extend(files.map(|file| (file.name.clone(), file.data.to_vec())));
    }
    let read = |(name, data): (String, Vec<u8>)| {
        let values = values::load(&data).ok()?;
        is_values(&name, &values, chart).then_some(Evidence { name, values })
    };
    found.into_iter().filter_map(read).collect()
}

fn walk(root: &Path, below: &Path, names: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(root.join(below)) else { return };
    for entry in entries.flatten() {
        let name = below.join(entry.file_name());
        let Ok(kind) = entry.file_type() else { continue };
        let is_of_helm = matches!(name.to_str(), Some("templates" | "charts" | "crds"));
        if kind.is_dir() && !is_of_helm && !entry.file_name().to_string_lossy().starts_with('.') {
            walk(root, &name, names);
        } else if kind.is_file()
            && is_candidate(&name)
            && names.len() < MOST
            && entry.metadata().is_ok_and(|info| info.len() <= LARGEST)
        {
            names.push(name);
        }
    }
}

/// Whether a file may be one, by its name.
fn is_candidate(name: &Path) -> bool {
    let is_yaml = name.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    let is_of_helm = matches!(name.to_str(), Some("values.yaml" | "Chart.yaml" | "requirements.yaml"));
    let is_hidden = name.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    is_yaml && !is_of_helm && !is_hidden && (is_of_ci(name) || name.to_string_lossy().to_lowercase().contains("value"))
}

/// Whether a file lies in `ci/`, where charts have the values that their tests use.
fn is_of_ci(name: &Path) -> bool {
    name.parent() == Some(Path::new("ci"))
}

/// Whether a file gives values that the chart knows, and is no object of Kubernetes.
fn is_values(name: &str, values: &Values, chart: &Chart) -> bool {
    let is_object = values.contains_key("apiVersion") && values.contains_key("kind");
    let is_sub = |key: &str| chart.dependencies.iter().any(|sub| sub.metadata.name == key);
    let known = values.keys().filter(|key| chart.values.contains_key(*key) || is_sub(key)).count();
    is_of_ci(Path::new(name)) || !is_object && !values.is_empty() && known * 2 >= values.len()
}

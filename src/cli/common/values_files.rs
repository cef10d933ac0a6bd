//! Values files that come with a chart: what its author and its users give it.

use super::error::CliError;
use crate::chart::{Chart, values};
use crate::crd::{self, Evidence};
use std::path::{Path, PathBuf};

/// More files are not read; a chart has at most a few dozen.
const MOST: usize = 1000;
/// Larger files are not read.
const LARGEST: u64 = 1 << 20;

/// Reads a values file that the user names.
pub fn read(path: &Path) -> Result<Evidence, CliError> {
    let name = path.display().to_string();
    let data = std::fs::read(path).map_err(|e| CliError(format!("open {name}: {e}")))?;
    let values = values::load(&data).map_err(|e| CliError(format!("failed to parse {name}: {e}")))?;
    Ok(Evidence { name, values })
}

/// The values files beside a chart: those of `ci/`, and others that are called values or lie in a folder that is, if they give values
/// that the chart knows. Of a directory, also what `.helmignore` leaves out of the chart. A file that cannot be read is
/// not one of them.
pub fn beside(path: &Path, chart: &Chart) -> Vec<Evidence> {
    if !path.is_dir() {
        return crd::carried(chart);
    }
    let mut names = Vec::new();
    walk(path, &PathBuf::new(), &mut names);
    names.sort();
    let read = |name: PathBuf| crd::evidence(&name.to_string_lossy(), &std::fs::read(path.join(&name)).ok()?, chart);
    names.into_iter().filter_map(read).collect()
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
            && crd::is_candidate(&name)
            && names.len() < MOST
            && entry.metadata().is_ok_and(|info| info.len() <= LARGEST)
        {
            names.push(name);
        }
    }
}

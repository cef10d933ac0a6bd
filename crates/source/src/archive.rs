//! Archives of charts on disk: unpacking one (`chartutil.Expand`).

use super::{SourceError, fail};
use std::path::{Component, Path};
use tillerman_render::chart::{ChartLimits, File, archive_files, go_io};
use tillerman_render::template::yaml;

/// Unpacks an archive into a folder named as the chart, below `folder`.
pub fn expand(archive: &[u8], folder: &Path) -> Result<(), SourceError> {
    let files = archive_files(archive, &ChartLimits::default())?;
    let name = chart_name(&files)?;
    if name == "." || name == ".." {
        return fail(format!("chart name {name:?} is not allowed"));
    }
    if name.contains(['/', '\\']) {
        return fail(format!("chart name {name:?} must not contain path separators"));
    }
    let base = folder.join(name);
    for file in &files {
        let relative = Path::new(&file.name);
        if !relative.components().all(|c| matches!(c, Component::Normal(_))) {
            return fail(format!("chart illegally contains content outside the base directory: {:?}", file.name));
        }
        write_below(&base, relative, &file.data)?;
    }
    Ok(())
}

/// Writes a file below `base`, and never through a symbolic link that leads elsewhere.
pub fn write_below(base: &Path, relative: &Path, data: &[u8]) -> Result<(), SourceError> {
    let mut path = base.to_owned();
    for part in relative.parent().into_iter().flat_map(Path::components) {
        path.push(part);
        if path.is_symlink() {
            return fail(format!("{} is a symbolic link", path.display()));
        }
    }
    std::fs::create_dir_all(&path).map_err(|e| SourceError(format!("mkdir {}: {}", path.display(), go_io(&e))))?;
    let path = base.join(relative);
    if path.is_symlink() {
        return fail(format!("{} is a symbolic link", path.display()));
    }
    std::fs::write(&path, data).map_err(|e| SourceError(format!("open {}: {}", path.display(), go_io(&e))))
}

fn chart_name(files: &[File]) -> Result<String, SourceError> {
    // Of two entries with this name, the last is what unpacking leaves.
    let Some(file) = files.iter().rfind(|f| f.name == "Chart.yaml") else { return fail("chart name not specified") };
    let document = yaml::parse(&file.data).map_err(|e| SourceError(format!("cannot load Chart.yaml: {e}")))?;
    let name = document.get("name").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    if name.is_empty() { fail("chart name not specified") } else { Ok(name) }
}

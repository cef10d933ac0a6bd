//! Lists a chart's dependencies, and which of them are in `charts/` (`helm dependency list`).

use crate::SourceError;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tillerman_render::chart::{self, Chart, Dependency, go_io};
use tillerman_render::template::version::{Constraints, Version};

/// The table of a chart's dependencies, and warnings about other files in `charts/`. No column is wider than
/// `width` characters.
pub fn list(path: &Path, width: usize) -> Result<String, SourceError> {
    let chart = chart::load(path)?;
    let dependencies = &chart.metadata.dependencies;
    if dependencies.is_empty() {
        return Ok(format!("WARNING: no dependencies at {}\n", path.join("charts").display()));
    }
    let mut rows = vec![["NAME", "VERSION", "REPOSITORY", "STATUS"].map(str::to_owned)];
    for d in dependencies {
        rows.push([d.name.clone(), d.version.clone(), d.repository.clone(), status(path, d, &chart).to_owned()]);
    }
    let mut out = format!("{}\n\n", table(&rows, width));
    for entry in entries(&path.join("charts")) {
        let shown = entry.display().to_string();
        match std::fs::metadata(&entry) {
            Err(e) => {
                let _ = writeln!(out, "Warning: stat {shown}: {}", go_io(&e));
                continue;
            }
            Ok(info) if !info.is_dir() && entry.extension().is_none_or(|e| e != "tgz") => continue,
            Ok(_) => {}
        }
        match chart::load(&entry) {
            Err(_) => {
                let _ = writeln!(out, "WARNING: {shown:?} is not a chart.");
            }
            Ok(found) if dependencies.iter().all(|d| d.name != found.metadata.name) => {
                let _ = writeln!(out, "WARNING: {shown:?} is not in Chart.yaml.");
            }
            Ok(_) => {}
        }
    }
    Ok(out)
}

/// The content of a folder, in the order of the names.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().filter_map(|e| Some(e.ok()?.path())).collect();
    names.sort();
    names
}

fn status(path: &Path, dependency: &Dependency, parent: &Chart) -> &'static str {
    let name = &dependency.name;
    let version = |path: &Path| -> Option<String> {
        let file = path.file_name()?.to_str()?;
        Some(file.strip_prefix(name.as_str())?.strip_prefix('-')?.strip_suffix(".tgz")?.to_owned())
    };
    let archives: Vec<PathBuf> =
        entries(&path.join("charts")).into_iter().filter(|path| version(path).is_some()).collect();
    let strict = |path: &&PathBuf| version(path).is_some_and(|v| Version::parse_strict(&v).is_ok());
    match archives.as_slice() {
        [] => {}
        [one] => return archive(one, dependency),
        many => {
            let found: Vec<&PathBuf> = many.iter().filter(strict).collect();
            match found.as_slice() {
                [] => {}
                [one] => return archive(one, dependency),
                _ => return "too many matches",
            }
        }
    }
    match parent.dependencies.iter().rfind(|c| c.metadata.name == *name) {
        None => "missing",
        Some(found) => fits(&found.metadata.version, dependency).err().unwrap_or("unpacked"),
    }
}

fn archive(path: &Path, dependency: &Dependency) -> &'static str {
    match chart::load(path) {
        Err(_) => "corrupt",
        Ok(found) if found.metadata.name != dependency.name => "misnamed",
        Ok(found) => fits(&found.metadata.version, dependency).err().unwrap_or("ok"),
    }
}

fn fits(version: &str, dependency: &Dependency) -> Result<(), &'static str> {
    if version == dependency.version {
        return Ok(());
    }
    let constraint = Constraints::parse(&dependency.version).map_err(|_| "invalid version")?;
    let version = Version::parse(version).map_err(|_| "invalid version")?;
    if constraint.check(&version) { Ok(()) } else { Err("wrong version") }
}

/// Rows with columns as wide as their widest cell, as gosuri/uitable lays them out.
fn table(rows: &[[String; 4]], most: usize) -> String {
    let length = |text: &str| text.chars().count();
    let mut widths = [0; 4];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            let wanted = if most == 0 { length(cell) } else { length(cell).min(most) };
            *width = wanted.max(*width);
        }
    }
    let cell = |(text, width): (&String, &usize)| {
        if *width == 0 || length(text) <= *width {
            return format!("{text:width$}");
        }
        let kept: String = text.chars().take(width.saturating_sub(3).max(1)).collect();
        format!("{kept}...")
    };
    let line = |row: &[String; 4]| row.iter().zip(&widths).map(cell).collect::<Vec<_>>().join("\t");
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_up_to_the_limit() {
        let row = |cells: [&str; 4]| cells.map(str::to_owned);
        let rows = [row(["NAME", "V", "R", "S"]), row(["a", "1.0.0", "", "0123456789"])];
        assert_eq!(table(&rows, 8), "NAME\tV    \tR\tS       \na   \t1.0.0\t \t01234...");
    }
}

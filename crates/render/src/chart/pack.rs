//! Writes a loaded chart as an archive that loads as the same chart.

use std::io;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Chart, File};

/// The gzipped tar archive of a chart. It has the layout of `helm package`, with Chart.yaml as JSON, and all charts below `charts/`
/// as folders in their order. The same chart makes the same bytes.
///
/// The chart must not have [forgotten its texts](Chart::forget_texts).
///
/// # Errors
/// If a name is too long for an archive.
pub fn pack(chart: &Chart) -> io::Result<Vec<u8>> {
    let mut entries = Vec::new();
    add(&mut entries, chart, &format!("{}/", chart.metadata.name))?;
    archive(&entries, 0)
}

/// A gzipped tar archive of files with these names; all are written at `time`, in seconds since 1970.
///
/// # Errors
/// If a name is too long for an archive.
pub fn archive(entries: &[(String, Vec<u8>)], time: u64) -> io::Result<Vec<u8>> {
    let gzip = GzEncoder::new(Vec::new(), Compression::default());
    let mut tar = tar::Builder::new(gzip);
    for (name, data) in entries {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        header.set_size(data.len() as u64);
        header.set_mtime(time);
        header.set_entry_type(tar::EntryType::Regular);
        tar.append_data(&mut header, name, data.as_slice())?;
    }
    tar.into_inner().and_then(GzEncoder::finish)
}

fn add(entries: &mut Vec<(String, Vec<u8>)>, chart: &Chart, base: &str) -> io::Result<()> {
    let mut metadata = serde_json::to_value(&chart.metadata)?;
    let has_requirements = chart.files.iter().any(|file| file.name == "requirements.yaml");
    if has_requirements && let Some(fields) = metadata.as_object_mut() {
        fields.remove("dependencies");
    }
    entries.push((format!("{base}Chart.yaml"), serde_json::to_vec(&metadata)?));
    let has_lock = chart.files.iter().any(|file| file.name == "requirements.lock");
    if let Some(lock) = chart.lock.as_ref().filter(|_| !has_lock) {
        entries.push((format!("{base}Chart.lock"), serde_json::to_vec(lock)?));
    }
    if let Some(values) = &chart.values_text {
        entries.push((format!("{base}values.yaml"), values.to_vec()));
    }
    if let Some(schema) = &chart.schema {
        entries.push((format!("{base}values.schema.json"), schema.clone()));
    }
    for File { name, data } in chart.templates.iter().chain(chart.files.iter()) {
        entries.push((format!("{base}{name}"), data.to_vec()));
    }
    for (index, dependency) in chart.dependencies.iter().enumerate() {
        // The loader takes them in the order of their folders.
        add(entries, dependency, &format!("{base}charts/{index:04}-{}/", dependency.metadata.name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::pack;
    use crate::chart::{Chart, ChartLimits, load, load_archive};
    use std::path::{Path, PathBuf};

    /// Everything of a chart.
    fn seen(chart: &Chart) -> String {
        let Chart { metadata, lock, values, values_text, schema, templates, files, dependencies, .. } = chart;
        let dependencies: Vec<String> = dependencies.iter().map(seen).collect();
        // As everything else reads it: an empty list is none.
        let metadata = serde_json::to_string(metadata).unwrap();
        format!("{metadata} {lock:?} {values:?} {values_text:?} {schema:?} {templates:?} {files:?} {dependencies:?}")
    }

    /// Whether there is a chart that loads, which packed must load as the same.
    fn check(path: &Path) -> bool {
        let Ok(chart) = load(path) else { return false };
        let packed = pack(&chart).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let again =
            load_archive(&packed, &ChartLimits::default()).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(seen(&again) == seen(&chart), "{}", path.display());
        assert_eq!(pack(&again).unwrap(), packed, "{}", path.display());
        true
    }

    fn folders(path: &Path, found: &mut Vec<PathBuf>) {
        found.push(path.to_owned());
        for entry in std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
            folders(&entry, found);
        }
    }

    #[test]
    fn an_archive_loads_as_the_chart_that_it_was_made_of() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut paths = ["charts/etcd", "charts/php", "tests/charts/web"].map(|path| root.join(path)).to_vec();
        let own = paths.len();
        // `CHARTS=FOLDER` tries all charts below a folder.
        if let Some(folder) = std::env::var_os("CHARTS") {
            folders(Path::new(&folder), &mut paths);
        }
        let count = paths.iter().filter(|path| check(path)).count();
        println!("{count} charts");
        assert!(count >= own);
    }
}

//! Makes an archive of a chart directory (`chartutil.Save`), for `file://` dependencies.

use super::{Manager, constraint};
use crate::{SourceError, fail, write_atomically};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use tillerman_render::chart::{ChartLimits, Dependency, File, archive_files, directory_files, go_io, load_files, pack};
use tillerman_render::template::value::Value;
use tillerman_render::template::version::Version;
use tillerman_render::template::yaml;

/// Writes the archive of a `file://` dependency into a folder; returns its version.
pub fn directory(manager: &Manager, dependency: &Dependency, folder: &Path) -> Result<String, SourceError> {
    let path = manager.local(&dependency.repository)?;
    if !path.is_dir() {
        return fail(format!("{} is not a directory", path.display()));
    }
    let files = directory_files(&path, &ChartLimits::default())?;
    let chart = load_files(files.clone(), &ChartLimits::default())?;
    let (constraint, version) = (constraint(dependency, false)?, chart.metadata.version);
    let parsed = Version::parse(&version).map_err(|e| SourceError(e.to_string()))?;
    if !constraint.check(&parsed) {
        return fail(format!("can't get a valid version for dependency {}", dependency.name));
    }
    let present = (manager.now)().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let epoch = manager.epoch.map(|seconds| jiff::Timestamp::from_second(seconds.cast_signed()).unwrap_or_default());
    let mut entries = Vec::new();
    add(&mut entries, files, "", epoch)?;
    let data = pack::archive(&entries, manager.epoch.unwrap_or(present)).map_err(|e| SourceError(go_io(&e)))?;
    write_atomically(&folder.join(format!("{}-{version}.tgz", chart.metadata.name)), &data)?;
    Ok(version)
}

/// The files of a chart as its archive holds them: Chart.yaml and Chart.lock rewritten, and unpacked subcharts.
fn add(
    entries: &mut Vec<(String, Vec<u8>)>,
    files: Vec<File>,
    prefix: &str,
    epoch: Option<jiff::Timestamp>,
) -> Result<(), SourceError> {
    let chart = load_files(files.clone(), &ChartLimits::default())?;
    let base = format!("{prefix}{}/", chart.metadata.name);
    let mut metadata = chart.metadata.clone();
    if metadata.api_version == "v1" {
        metadata.dependencies.clear();
    }
    entries.push((format!("{base}Chart.yaml"), emit(&metadata)?));
    if let Some(mut lock) = chart.lock.filter(|_| metadata.api_version == "v2") {
        if let (Some(epoch), Some(fields)) = (epoch, lock.as_object_mut()) {
            fields.insert("generated".into(), epoch.to_string().into());
        }
        entries.push((format!("{base}Chart.lock"), emit(&lock)?));
    }
    let mut subcharts: BTreeMap<String, Vec<File>> = BTreeMap::new();
    for file in files {
        if file.name == "values.yaml" {
            entries.push((format!("{base}values.yaml"), Arc::unwrap_or_clone(file.data)));
        } else if let Some(name) = file.name.strip_prefix("charts/")
            && Path::new(name).extension().is_none_or(|e| e != "prov")
        {
            let (folder, rest) = name.split_once('/').unwrap_or((name, ""));
            let file = File { name: rest.to_owned(), data: file.data };
            subcharts.entry(folder.to_owned()).or_default().push(file);
        }
    }
    if let Some(schema) = chart.schema {
        if serde_json::from_slice::<serde::de::IgnoredAny>(&schema).is_err() {
            return fail("invalid JSON in values.schema.json");
        }
        entries.push((format!("{base}values.schema.json"), schema));
    }
    for file in chart.templates.iter().chain(chart.files.iter()) {
        entries.push((format!("{base}{}", file.name), file.data.to_vec()));
    }
    let prefix = format!("{base}charts/");
    for (name, files) in subcharts.into_iter().filter(|(name, _)| !name.starts_with(['_', '.'])) {
        let archive = files.iter().find(|f| f.name.is_empty());
        let files = match archive.filter(|_| Path::new(&name).extension().is_some_and(|e| e == "tgz")) {
            Some(archive) => archive_files(&archive.data, &ChartLimits::default())?,
            None => files.into_iter().filter(|f| !f.name.is_empty()).collect(),
        };
        add(entries, files, &prefix, epoch)?;
    }
    Ok(())
}

fn emit(document: &impl serde::Serialize) -> Result<Vec<u8>, SourceError> {
    let document = serde_json::to_value(document).map_err(|e| SourceError(e.to_string()))?;
    Ok(yaml::emit(&Value::from(&document))?)
}

//! The chart that a kind gets: its files, with its dependencies.

use crate::chart::{self, Chart, ChartLimits, File};
use crate::cli::common::chart_path::ChartPathArgs;
use crate::cli::common::chart_server::ServerArgs;
use crate::cli::common::dependency_manager::manager;
use crate::cli::common::error::CliError;
use crate::cli::common::scratch::Scratch;
use crate::cli::common::streams::ON_ERROR;
use crate::cli::common::values_files;
use crate::crd::{self, CrdSettings};
use crate::scaffold::ProjectFiles;
use crate::source::archive::write_below;
use serde_json::Value;
use std::path::Path;

/// The files of a chart, from wherever it is. Missing dependencies are fetched.
pub fn chart(chart: &str, repo: &str, version: &str, server: &ServerArgs) -> Result<ProjectFiles, CliError> {
    let settings = crate::source::SourceSettings::from_env();
    let from = ChartPathArgs {
        server: server.clone(),
        version: version.to_owned(),
        repo: repo.to_owned(),
        ..ChartPathArgs::default()
    };
    let path = from.locate(&settings, chart)?;
    let files = read(&path)?;
    let loaded = load(&files)?;
    let name = &loaded.metadata.name;
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\']) || name.chars().any(char::is_control) {
        return Err(CliError(format!("the chart's name {name:?} cannot be that of a folder")));
    }
    if loaded.is_library() {
        return Err(CliError(format!("{name} is a library chart, which makes no objects")));
    }
    let is_there = |name: &str| loaded.dependencies.iter().any(|chart| chart.metadata.name == name);
    let missing: Vec<_> = loaded.metadata.dependencies.iter().filter(|wanted| !is_there(&wanted.name)).collect();
    if missing.is_empty() {
        return Ok(files);
    }
    if let Some(beside) = missing.iter().find(|wanted| wanted.repository.starts_with("file://")) {
        return Err(CliError(format!(
            "{name} depends on {} at {}, which is not in its charts/: run tillerman dependency build {} first",
            beside.name,
            beside.repository,
            path.display()
        )));
    }
    let scratch = Scratch::new()?;
    for (path, data) in &files {
        write_below(scratch.path(), Path::new(path), data)?;
    }
    let login = server.login()?;
    let registry = server.registry(&settings, &login, ON_ERROR)?;
    manager(scratch.path(), &settings, &registry, server.keyring(), ON_ERROR)?.build()?;
    read(scratch.path())
}

/// The files of a directory or an archive. Of a directory, also the values files that `.helmignore` leaves out.
fn read(path: &Path) -> Result<ProjectFiles, CliError> {
    let limits = ChartLimits::default();
    let mut files = ProjectFiles::new();
    if path.is_dir() {
        let all = chart::directory_files(path, &limits).map_err(CliError::new)?;
        files.extend(all.into_iter().map(|file| (file.name, file.data.to_vec())));
        let ignore = std::fs::read(path.join(".helmignore")).ok();
        files.extend(ignore.map(|data| (".helmignore".to_owned(), data)));
        let loaded = chart::load(path).map_err(CliError::new)?;
        for evidence in values_files::beside(path, &loaded) {
            let data =
                std::fs::read(path.join(&evidence.name)).map_err(|e| CliError(format!("{}: {e}", evidence.name)))?;
            files.entry(evidence.name).or_insert(data);
        }
    } else {
        let data = std::fs::read(path).map_err(|e| CliError(format!("{}: {e}", path.display())))?;
        let all = chart::archive_files(&data, &limits).map_err(CliError::new)?;
        files.extend(all.into_iter().map(|file| (file.name, file.data.to_vec())));
    }
    Ok(files)
}

/// The chart of these files.
pub fn load(files: &ProjectFiles) -> Result<Chart, CliError> {
    let files = files.iter().map(|(name, data)| File { name: name.clone(), data: data.clone().into() }).collect();
    chart::load_files(files, &ChartLimits::default()).map_err(CliError::new)
}

/// Which values came, went or changed their type between two versions of a chart, in lines.
pub fn changes(older: &Chart, newer: &Chart) -> Result<Vec<String>, CliError> {
    let types = |chart: &Chart| crd::types(chart, CrdSettings::default(), &crd::carried(chart)).map_err(CliError::new);
    let (was, is) = (types(older)?.schema, types(newer)?.schema);
    let mut lines = Vec::new();
    added(&was, &is, "spec", &mut lines);
    lines.extend(crd::changes(&was, &is).iter().map(|change| format!("  {change}")));
    if lines.is_empty() {
        return Ok(lines);
    }
    let name = &newer.metadata.name;
    let title = format!("values of {name} {} that changed since {}:", newer.metadata.version, older.metadata.version);
    Ok(std::iter::once(title).chain(lines).collect())
}

/// The values that only the newer of two schemas has.
fn added(was: &Value, is: &Value, path: &str, lines: &mut Vec<String>) {
    for (key, schema) in is["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{key}");
        match was["properties"].get(key) {
            Some(known) => added(known, schema, &path, lines),
            None => lines.push(format!("  {path}: new")),
        }
    }
}

//! The custom resources in files and folders.

use super::sides::FleetKind;
use crate::chart::go_io;
use crate::cli::common::error::CliError;
use crate::names;
use crate::object::{Object, parse_manifest};
use crate::reconcile::offline::PlainResource;
use crate::render::Capabilities;
use crate::template::yaml;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a file. A list of a thousand custom resources is smaller.
const MAX_FILE: u64 = 64 << 20;
/// Folders in folders.
const MAX_DEPTH: usize = 20;

/// `apiVersion` and kind of the first document of a saved fleet.
pub const SAVED_API_VERSION: &str = names::STATUS_API_VERSION;
/// Its kind.
pub const SAVED_KIND: &str = "SavedFleet";

/// The custom resources of these kinds in files, and in the files of folders.
pub fn custom_resources(
    paths: &[PathBuf],
    kinds: &[Arc<FleetKind>],
    namespace: &str,
) -> Result<Vec<PlainResource>, CliError> {
    let mut found = Vec::new();
    for path in paths {
        let mut files = Vec::new();
        let is_folder = path.is_dir();
        if is_folder {
            add_files(path, MAX_DEPTH, &mut files)?;
        } else {
            files.push(path.clone());
        }
        for file in files {
            of_file(&file, is_folder, kinds, namespace, &mut found)?;
        }
    }
    Ok(found)
}

/// What the cluster serves from which one of these files was saved (`--save`).
pub fn saved_capabilities(paths: &[PathBuf]) -> Result<Option<Capabilities>, CliError> {
    // Keys are sorted.
    let mark = format!("apiVersion: {SAVED_API_VERSION}\n");
    for path in paths.iter().filter(|path| path.is_file()) {
        let text = text_of(path)?;
        if !text.starts_with(&mark) {
            continue;
        }
        let head = text.split("\n---\n").next().unwrap_or_default();
        let head = yaml::parse(head.as_bytes()).map_err(|why| wrong(path, why))?;
        if head["kind"] == SAVED_KIND && head["apiVersion"] == SAVED_API_VERSION {
            let versions = head["apiVersions"].as_array().into_iter().flatten();
            let api_versions = versions.filter_map(|version| version.as_str().map(str::to_owned)).collect();
            let kube_version = head["kubeVersion"].as_str().unwrap_or_default().to_owned();
            return Ok(Some(Capabilities { kube_version, api_versions }));
        }
    }
    Ok(None)
}

fn text_of(path: &Path) -> Result<String, CliError> {
    let size = fs::metadata(path).map_err(|e| wrong(path, go_io(&e)))?.len();
    if size > MAX_FILE {
        return Err(wrong(path, format!("it has {size} bytes; the limit is {MAX_FILE}")));
    }
    Ok(String::from_utf8_lossy(&fs::read(path).map_err(|e| wrong(path, go_io(&e)))?).into_owned())
}

fn wrong(path: &Path, why: impl std::fmt::Display) -> CliError {
    CliError(format!("{}: {why}", path.display()))
}

/// The manifests below a folder, in the order of their paths. Hidden files and links to folders are left out.
fn add_files(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), CliError> {
    let entries = fs::read_dir(folder).map_err(|e| wrong(folder, go_io(&e)))?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(|e| wrong(folder, go_io(&e)))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type().map_err(|e| wrong(folder, go_io(&e)))?);
        let is_manifest = path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known));
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if kind.is_dir() {
            if depth == 0 {
                return Err(wrong(&path, format!("folders are nested more than {MAX_DEPTH} levels deep")));
            }
            add_files(&path, depth - 1, files)?;
        } else if is_manifest && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

/// Adds the custom resources of a file. A file of a folder may be something else, unless it names a kind that is wanted.
fn of_file(
    path: &Path,
    is_of_folder: bool,
    kinds: &[Arc<FleetKind>],
    namespace: &str,
    found: &mut Vec<PlainResource>,
) -> Result<(), CliError> {
    let text = text_of(path)?;
    if is_of_folder && !kinds.iter().any(|kind| text.contains(&*kind.kind.gvk.kind)) {
        return Ok(());
    }
    let objects = parse_manifest(&text).map_err(|why| wrong(path, why))?;
    for Object { gvk, body, .. } in objects {
        if kinds.iter().any(|kind| kind.is_of(&gvk)) {
            found.push(PlainResource::read(&Value::Object(body), namespace).map_err(|why| wrong(path, why))?);
        }
    }
    Ok(())
}

//! Prints the rendered chart to standard output or into files.

use super::TemplateArgs;
use crate::chart::{go_io, pattern};
use crate::cli::common::error::CliError;
use crate::render::{Hook, Rendered, order};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The manifest as Helm keeps it in a release: with the files of `crds/` if they are wanted; empty when files are written.
pub fn manifest(args: &TemplateArgs, rendered: &Rendered) -> String {
    if args.output_dir().is_some() {
        return String::new();
    }
    let manifest = rendered.manifest();
    if !args.include_crds || rendered.crds.is_empty() {
        return manifest;
    }
    let mut all = String::new();
    for crd in &rendered.crds {
        let _ = writeln!(all, "---\n# Source: {}\n{}", crd.name, String::from_utf8_lossy(&crd.data));
    }
    all + &manifest
}

/// Prints the manifest and the hooks, or those that `--show-only` picks. Hooks go into files with `--output-dir`.
pub fn print(args: &TemplateArgs, manifest: &str, hooks: &[Hook], name: &str) -> Result<(), CliError> {
    let manifest = manifest.trim();
    let mut out = String::new();
    for hook in hooks.iter().filter(|hook| args.wants(hook)) {
        match args.output_dir() {
            None => {
                let _ = writeln!(out, "---\n# Source: {}\n{}", hook.manifest.source, hook.manifest.text);
            }
            Some(folder) => {
                let path = written(&folder_of(args, folder, name), &hook.manifest.source);
                // An existing file, also one of an earlier run, is extended.
                write(&path, &hook.manifest.source, &hook.manifest.text, path.exists())?;
            }
        }
    }
    let mut stdout = std::io::stdout().lock();
    let printed = if args.show_only.is_empty() {
        // The manifest may have many megabytes: it is not copied for this.
        stdout.write_all(manifest.as_bytes()).and_then(|()| stdout.write_all(b"\n"))
    } else {
        out = only(&args.show_only, &format!("{manifest}\n{out}"))?;
        Ok(())
    };
    printed.and_then(|()| stdout.write_all(out.as_bytes())).map_err(|e| CliError(format!("cannot print: {e}")))
}

/// Writes CRDs and manifests below the folder of `--output-dir`.
pub fn write_files(args: &TemplateArgs, rendered: &Rendered, name: &str) -> Result<(), CliError> {
    let Some(folder) = args.output_dir() else { return Ok(()) };
    let mut begun = HashSet::new();
    let mut add = |folder: &Path, name: &str, text: &str| {
        let path = written(folder, name);
        let more = !begun.insert(path.clone());
        write(&path, name, text, more)
    };
    if args.include_crds {
        for crd in &rendered.crds {
            add(folder, &crd.name, &String::from_utf8_lossy(&crd.data))?;
        }
    }
    let folder = folder_of(args, folder, name);
    for manifest in &rendered.manifests {
        add(&folder, &manifest.source, &manifest.text)?;
    }
    Ok(())
}

fn folder_of(args: &TemplateArgs, folder: &Path, release: &str) -> PathBuf {
    if args.release_name { crate::source::clean(&folder.join(release)) } else { folder.to_owned() }
}

/// The path as Helm joins and shows it, double slashes and all.
fn written(folder: &Path, name: &str) -> PathBuf {
    PathBuf::from(format!("{}/{name}", folder.display()))
}

fn write(path: &Path, name: &str, text: &str, more: bool) -> Result<(), CliError> {
    if let Some(folder) = path.parent() {
        let shown = crate::source::clean(folder);
        let failed = |verb: &str, e: &std::io::Error| format!("{verb} {}: {}", shown.display(), go_io(e));
        match std::fs::metadata(folder) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed("stat", &e).into()),
            _ => std::fs::create_dir_all(folder).map_err(|e| failed("mkdir", &e))?,
        }
    }
    let mut options = std::fs::OpenOptions::new();
    let options = if more { options.append(true) } else { options.write(true).create(true).truncate(true) };
    let written = options.open(path).and_then(|mut file| writeln!(file, "---\n# Source: {name}\n{text}"));
    written.map_err(|e| format!("open {}: {}", path.display(), go_io(&e)))?;
    println!("wrote {}", path.display());
    Ok(())
}

/// The documents whose source, below the chart's name, fits a pattern; in the order of the patterns.
fn only(patterns: &[String], out: &str) -> Result<String, CliError> {
    let documents = order::split(out);
    let mut text = String::new();
    for wanted in patterns {
        let mut found = false;
        for document in &documents {
            let source = document.lines().find_map(|line| {
                let (_, path) = line.split_once("# Source: ")?;
                path.split_once('/').filter(|(chart, rest)| !chart.is_empty() && !rest.is_empty()).map(|(_, rest)| rest)
            });
            if source.is_some_and(|source| pattern::matches(wanted, source).unwrap_or(false)) {
                found = true;
                let _ = writeln!(text, "---\n{document}");
            }
        }
        if !found {
            return Err(CliError(format!("could not find template {wanted} in chart")));
        }
    }
    Ok(text)
}

//! Where charts come from: a directory, an archive, a repository (`index.yaml` over http or https), a registry (`oci://`).
//!
//! In reading order: [`http`] and [`link`] get bytes; [`index`] and [`repositories`] are what repositories are made of;
//! [`registry`] speaks the OCI distribution protocol with the credentials of [`credentials`]; [`download`] joins them
//! and checks digests and signatures ([`provenance`]); [`dependency`] fills the `charts/` of a chart with them.
//!
//! The files and environment variables are Helm's, so that both can be used side by side. Errors are in Helm's words.
//!
//! **Guarantees.** Data with a known digest is never used if its digest differs, whether it comes from a repository, a registry or the
//! cache. Credentials go to the host they were given for and, unless the user says so, to no other. No message holds one.
#![warn(missing_docs)]

pub mod archive;
pub mod credentials;
pub mod dependency;
pub mod download;
pub mod http;
pub mod index;
pub mod link;
pub mod provenance;
pub mod registry;
pub mod repositories;
pub mod tls;

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use tillerman_render::chart::{LoadError, MetadataError, go_io};
use tillerman_render::template::functions::json::JsonError;
use tillerman_render::template::yaml::EmitError;

/// Why a chart could not be fetched; the text is Helm's where Helm has one.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct SourceError(pub String);

macro_rules! texts {
    ($($cause:ty),+) => {$(
        impl From<$cause> for SourceError {
            fn from(cause: $cause) -> Self {
                Self(cause.to_string())
            }
        }
    )+};
}
texts!(EmitError, JsonError, LoadError, MetadataError);

/// Fails with a text.
fn fail<T>(text: impl Into<String>) -> Result<T, SourceError> {
    Err(SourceError(text.into()))
}

/// The files in which Helm keeps the settings of repositories and registries.
#[derive(Clone, Debug)]
pub struct SourceSettings {
    /// Credentials for registries, in Docker's format.
    pub registry_config: PathBuf,
    /// The repositories added with `helm repo add`.
    pub repository_config: PathBuf,
    /// The folder of their indexes.
    pub repository_cache: PathBuf,
    /// The folder of downloaded charts, by digest.
    pub content_cache: PathBuf,
}

impl SourceSettings {
    /// From `HELM_REGISTRY_CONFIG`, `HELM_REPOSITORY_CONFIG`, `HELM_REPOSITORY_CACHE` and `HELM_CONTENT_CACHE`, below
    /// `HELM_CONFIG_HOME` and `HELM_CACHE_HOME` or the folders of the XDG base directory specification.
    pub fn from_env() -> Self {
        let config = home("HELM_CONFIG_HOME", "XDG_CONFIG_HOME", ".config");
        let cache = home("HELM_CACHE_HOME", "XDG_CACHE_HOME", ".cache");
        let path = |name: &str, default: PathBuf| std::env::var_os(name).map_or(default, PathBuf::from);
        Self {
            registry_config: path("HELM_REGISTRY_CONFIG", config.join("registry/config.json")),
            repository_config: path("HELM_REPOSITORY_CONFIG", config.join("repositories.yaml")),
            repository_cache: path("HELM_REPOSITORY_CACHE", cache.join("repository")),
            content_cache: path("HELM_CONTENT_CACHE", cache.join("content")),
        }
    }
}

/// Where Helm keeps plugins: `HELM_DATA_HOME`, or below the XDG data folder.
pub fn data_home() -> PathBuf {
    home("HELM_DATA_HOME", "XDG_DATA_HOME", ".local/share")
}

fn home(helm: &str, xdg: &str, default: &str) -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set(helm).unwrap_or_else(|| set(xdg).unwrap_or_else(|| user_home().join(default)).join("helm"))
}

/// The user's home folder, or the root when there is none.
fn user_home() -> PathBuf {
    std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from)
}

/// Where messages for the user go, a line or more each with its line break.
#[derive(Clone, Copy)]
pub struct Messages<'a> {
    /// The reports of a download and a change of `charts/` (Helm's standard output).
    pub out: &'a (dyn Fn(&str) + Sync),
    /// The reports of a registry; on the standard error of `helm template`, else on standard output.
    pub registry: &'a (dyn Fn(&str) + Sync),
    /// Warnings (Helm's log).
    pub warn: &'a (dyn Fn(&str) + Sync),
}

/// A path without `.`, `..` and double slashes, as Go's `filepath.Clean` makes it.
pub fn clean(path: &Path) -> PathBuf {
    PathBuf::from(tillerman_render::template::functions::path::clean(&path.to_string_lossy()))
}

/// A file of the user, read.
fn read(path: &Path) -> Result<Vec<u8>, SourceError> {
    std::fs::read(path).map_err(|e| SourceError(format!("open {}: {}", path.display(), go_io(&e))))
}

/// Writes a file so that a process that reads it meanwhile sees the old or the new file, never half.
fn write_atomically(path: &Path, data: &[u8]) -> Result<(), SourceError> {
    let failed = |e: std::io::Error| SourceError(format!("open {}: {}", path.display(), go_io(&e)));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = path.with_file_name(name);
    std::fs::write(&new, data).map_err(failed)?;
    std::fs::rename(&new, path).inspect_err(|_| drop(std::fs::remove_file(&new))).map_err(failed)
}

/// The SHA-256 sum of some bytes, in hexadecimal digits.
pub fn sha256(data: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(data))
}

/// A text as a value of Go's `slog` text format: quoted when it has spaces, quotes or `=`.
pub fn logged(text: &str) -> String {
    let plain = !text.is_empty() && !text.chars().any(|c| c == ' ' || c == '"' || c == '=' || c.is_control());
    if plain { text.to_owned() } else { tillerman_render::template::go::quote::quoted(text.as_bytes()) }
}

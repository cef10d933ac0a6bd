//! Repositories: those added with `helm repo add`, and how any is asked.

use super::http::{Client, INDEX_LIMIT, Login, Tls};
use super::index::Index;
use super::link::{resolve, same_origin, scheme, shown};
use super::{Messages, SourceError, SourceSettings, fail, read, write_atomically};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tillerman_render::chart::field;
use tillerman_render::chart::values::scalar_text;
use tillerman_render::template::yaml;

/// A repository of `repositories.yaml`, or one that the user names by its link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repository {
    /// The name; its index is kept under it.
    pub name: String,
    /// The link.
    pub url: String,
    /// Our credentials for it.
    pub login: Login,
    /// Whether the login may go to other hosts too.
    pub pass_credentials: bool,
    /// The authorities to trust.
    pub tls: Tls,
}

/// The repositories of `repositories.yaml`; none when there is no such file.
pub fn load(path: &Path) -> Result<Vec<Repository>, SourceError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let data =
        read(path).map_err(|e| SourceError(format!("couldn't load repositories file ({}): {e}", path.display())))?;
    let document = yaml::parse(&data).map_err(|e| SourceError(e.to_string()))?;
    let fields = document.as_object();
    let entries = fields.and_then(|f| field(f, "repositories")).and_then(Value::as_array);
    Ok(entries.map(Vec::as_slice).unwrap_or_default().iter().filter_map(Value::as_object).map(entry).collect())
}

fn entry(fields: &serde_json::Map<String, Value>) -> Repository {
    let text = |key: &str| field(fields, key).and_then(scalar_text).unwrap_or_default();
    let path = |key: &str| PathBuf::from(text(key));
    let switch = |key: &str| field(fields, key).and_then(Value::as_bool).unwrap_or_default();
    Repository {
        name: text("name"),
        url: text("url"),
        login: Login { username: text("username"), password: text("password") },
        pass_credentials: switch("pass_credentials_all"),
        tls: Tls {
            stay_secure: false,
            cert_file: path("certFile"),
            key_file: path("keyFile"),
            ca_file: path("caFile"),
            insecure: switch("insecure_skip_tls_verify"),
        },
    }
}

/// The file in which the index of the repository with this name is kept.
pub fn index_file(settings: &SourceSettings, name: &str) -> PathBuf {
    let prefix = if name.is_empty() { String::new() } else { format!("{name}-") };
    settings.repository_cache.join(format!("{prefix}index.yaml"))
}

impl Repository {
    /// Fails unless the link is one that this program follows.
    pub fn check(&self) -> Result<(), SourceError> {
        match scheme(&self.url).as_str() {
            "http" | "https" => Ok(()),
            other => fail(format!("could not find protocol handler for: {other}")),
        }
    }

    /// Asks for the index.
    pub fn fetch_index(&self) -> Result<Vec<u8>, SourceError> {
        let link = resolve(&self.url, "index.yaml")?;
        let login = (self.pass_credentials || same_origin(&self.url, &link)).then_some(&self.login);
        Client::new(&self.tls)?.get(&link, login, None, INDEX_LIMIT)
    }

    /// Asks for the index and keeps it, with the names of its charts, where Helm keeps it.
    pub fn update(&self, settings: &SourceSettings, messages: &Messages) -> Result<(), SourceError> {
        self.check()?;
        let data = self.fetch_index()?;
        let index = Index::parse(&data, None, &shown(&self.url), messages)?;
        let mut charts: String = index.entries.keys().map(String::as_str).collect::<Vec<_>>().join("\n");
        if !charts.is_empty() {
            charts.push('\n');
        }
        let folder = &settings.repository_cache;
        std::fs::create_dir_all(folder)
            .map_err(|e| SourceError(format!("mkdir {}: {}", folder.display(), tillerman_render::chart::go_io(&e))))?;
        write_atomically(&folder.join(format!("{}-charts.txt", self.name)), charts.as_bytes())?;
        write_atomically(&index_file(settings, &self.name), &data)
    }
}

/// Where a chart is, and the digest of its archive; empty when the repository gives none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundChart {
    /// The link of the archive.
    pub url: String,
    /// As in [`super::index::ChartVersion`].
    pub digest: String,
}

/// Looks up a chart in a repository that is named by its link (`--repo`).
pub fn find(
    repository: &Repository,
    chart: &str,
    version: &str,
    messages: &Messages,
) -> Result<FoundChart, SourceError> {
    repository.check()?;
    let at = shown(&repository.url);
    let invalid = |e: SourceError| {
        SourceError(format!("looks like {at:?} is not a valid chart repository or cannot be reached: {e}"))
    };
    let data = repository.fetch_index().map_err(invalid)?;
    let index = Index::parse(&data, Some(chart), &at, messages).map_err(invalid)?;
    let what =
        if version.is_empty() { format!("chart {chart:?}") } else { format!("chart {chart:?} version {version:?}") };
    let found =
        index.get(chart, version, messages).map_err(|_| SourceError(format!("{what} not found in {at} repository")))?;
    let Some(url) = found.urls.first() else { return fail(format!("{what} has no downloadable URLs")) };
    let url =
        resolve(&repository.url, url).map_err(|e| SourceError(format!("failed to make chart URL absolute: {e}")))?;
    Ok(FoundChart { url, digest: found.digest.clone() })
}

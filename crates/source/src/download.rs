//! Finds and downloads charts (Helm's `LocateChart` and `pkg/downloader/chart_downloader.go`).

use super::http::{ARCHIVE_LIMIT, Client, Login, SMALL_LIMIT, Tls};
use super::index::Index;
use super::link::{self, resolve, same_origin, shown};
use super::provenance::{self, Keyring, Verification};
use super::registry::{Layer, Registry, is_oci};
use super::repositories::{self, Repository};
use super::{Messages, SourceError, SourceSettings, fail, sha256, write_atomically};
use std::path::{Path, PathBuf};
use tillerman_render::chart::go_io;

/// The treatment of signatures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Nothing.
    #[default]
    Never,
    /// A chart without a signature is reported; one with a wrong signature is refused.
    IfPossible,
    /// A chart without a valid signature is refused.
    Always,
    /// The provenance file is downloaded too.
    Later,
}

/// How the server of a chart is spoken to.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The authorities to trust.
    pub tls: Tls,
    /// Our credentials for the servers at `home`.
    pub login: Login,
    /// The repository that the login is for; when empty, the server of the chart itself.
    pub home: String,
    /// Whether the login may go to other servers than that of `home`.
    pub pass_credentials: bool,
}

/// A chart that the user named.
#[derive(Clone, Debug, Default)]
pub struct WantedChart {
    /// A path, a link, `oci://…` or `repository/chart`; with `repo`, a chart's name.
    pub chart: String,
    /// A version or a constraint; nothing for the newest.
    pub version: String,
    /// The link of a repository (`--repo`), or nothing.
    pub repo: String,
}

/// Downloads charts.
pub struct Downloader<'a> {
    /// The files in which Helm keeps its settings.
    pub settings: &'a SourceSettings,
    /// For `oci://`.
    pub registry: &'a Registry<'a>,
    /// How servers are spoken to, unless `repositories.yaml` says otherwise.
    pub access: Access,
    /// The treatment of signatures.
    pub verify: Verify,
    /// The keys to verify with.
    pub keyring: Keyring,
    /// Where messages go.
    pub messages: Messages<'a>,
}

/// A chart that was found.
struct Target {
    url: String,
    /// SHA-256 of the archive, in hexadecimal digits.
    digest: Option<String>,
    access: Access,
}

impl Downloader<'_> {
    /// The path of a chart: its own when it is on this machine, else that of its archive in the cache.
    pub fn locate(&self, wanted: &WantedChart) -> Result<PathBuf, SourceError> {
        let name = wanted.chart.trim();
        let path = Path::new(name);
        if wanted.repo.is_empty() {
            if path.exists() {
                let path = std::path::absolute(path).map_err(|e| SourceError(go_io(&e)))?;
                if self.verify == Verify::Always {
                    provenance::verify_file(&path, &self.keyring)?;
                }
                return Ok(path);
            }
            if path.is_absolute() || name.starts_with('.') {
                return fail(format!("path {name:?} not found"));
            }
        }
        let target = self.target(name, wanted.version.trim(), &wanted.repo)?;
        let archive = self.archive(&target)?;
        let digest = sha256(&archive);
        let cached = self.cached(&digest, "chart");
        if self.verify != Verify::Never {
            let file_name = file_name(&target.url)?;
            if let Some(provenance) = self.provenance(&target, name, &digest)? {
                provenance::verify(&archive, &provenance, &file_name, &self.keyring)?;
                self.keep(&self.cached(&digest, "prov"), &provenance)?;
            }
        }
        self.keep(&cached, &archive)?;
        Ok(cached)
    }

    /// The archive of a chart that is elsewhere, verified if [`Verify::Always`] says so. Nothing is written, not even into the cache.
    pub fn fetch(&self, wanted: &WantedChart) -> Result<Vec<u8>, SourceError> {
        let target = self.target(&wanted.chart, &wanted.version, &wanted.repo)?;
        let archive = self.archive(&target)?;
        if self.verify == Verify::Always
            && let Some(provenance) = self.provenance(&target, &wanted.chart, &sha256(&archive))?
        {
            provenance::verify(&archive, &provenance, &file_name(&target.url)?, &self.keyring)?;
        }
        Ok(archive)
    }

    /// Downloads a chart into a folder. Returns the archive's path and, if it was verified, who signed it.
    pub fn pull(&self, wanted: &WantedChart, folder: &Path) -> Result<(PathBuf, Option<Verification>), SourceError> {
        let target = self.target(&wanted.chart, &wanted.version, &wanted.repo)?;
        self.save(&target, wanted, folder)
    }

    /// As [`Downloader::pull`], for a link that an index gives with this digest.
    pub fn pull_known(&self, wanted: &WantedChart, known: &str, folder: &Path) -> Result<(), SourceError> {
        let mut target = self.resolve(&wanted.chart, &wanted.version)?;
        target.digest = target.digest.or(digest(known)?);
        self.save(&target, wanted, folder).map(drop)
    }

    fn save(
        &self,
        target: &Target,
        wanted: &WantedChart,
        folder: &Path,
    ) -> Result<(PathBuf, Option<Verification>), SourceError> {
        let archive = self.archive(target)?;
        let name = file_name(&target.url)?;
        let path = folder.join(&name);
        write_atomically(&path, &archive)?;
        if self.verify == Verify::Never {
            return Ok((path, None));
        }
        let told = if wanted.repo.is_empty() { &wanted.chart } else { &target.url };
        let Some(provenance) = self.provenance(target, told, &sha256(&archive))? else { return Ok((path, None)) };
        write_atomically(&folder.join(format!("{name}.prov")), &provenance)?;
        if self.verify == Verify::Later {
            return Ok((path, None));
        }
        provenance::verify(&archive, &provenance, &name, &self.keyring).map(|v| (path, Some(v)))
    }

    fn target(&self, chart: &str, version: &str, repo: &str) -> Result<Target, SourceError> {
        if repo.is_empty() {
            return self.resolve(chart, version);
        }
        let repository = Repository {
            url: repo.to_owned(),
            login: self.access.login.clone(),
            pass_credentials: self.access.pass_credentials,
            tls: self.access.tls.clone(),
            ..Repository::default()
        };
        let found = repositories::find(&repository, chart, version, &self.messages)?;
        let mut target = self.resolve(&found.url, version)?;
        if target.access.home.is_empty() {
            repo.clone_into(&mut target.access.home);
        }
        target.digest = target.digest.or(digest(&found.digest)?);
        Ok(target)
    }

    /// Finds out what a reference means.
    fn resolve(&self, reference: &str, version: &str) -> Result<Target, SourceError> {
        let Ok(uri) = fluent_uri::UriRef::parse(reference) else {
            return fail(format!("invalid chart URL format: {}", shown(reference)));
        };
        let access = self.access.clone();
        if is_oci(reference) {
            return Ok(Target { url: self.registry.resolve(reference, version)?.url, digest: None, access });
        }
        let known = repositories::load(&self.settings.repository_config)?;
        if link::origin(reference).is_some() && !uri.path().as_str().is_empty() {
            let access = match self.owner(reference, &known)? {
                Some(repository) => self.access_of(repository),
                None => access,
            };
            return Ok(Target { url: reference.to_owned(), digest: None, access });
        }
        let path = link::path(reference).unwrap_or_default();
        let Some((name, chart)) = path.split_once('/') else {
            let told = shown(reference);
            return fail(format!("non-absolute URLs should be in form of repo_name/path_to_chart, got: {told}"));
        };
        let Some(repository) = known.iter().find(|r| r.name == name) else {
            return fail(format!("repo {name} not found"));
        };
        if repository.url.is_empty() {
            return fail(format!("no URL found for repository {name}"));
        }
        repository.check()?;
        let index = self.cached_index(repository, Some(chart))?;
        let found = index.get(chart, version, &self.messages).map_err(|e| {
            SourceError(format!(
                "chart {chart:?} matching {version} not found in {name} index. (try 'helm repo update'): {e}"
            ))
        })?;
        let Some(url) = found.urls.first() else {
            return fail(format!("chart {reference:?} has no downloadable URLs"));
        };
        let url = resolve(&repository.url, url)
            .map_err(|_| SourceError(format!("invalid chart URL format: {}", shown(reference))))?;
        if is_oci(&url) {
            return Ok(Target { url: self.registry.resolve(&url, "")?.url, digest: None, access });
        }
        Ok(Target { url, digest: digest(&found.digest)?, access: self.access_of(repository) })
    }

    fn cached_index(&self, repository: &Repository, chart: Option<&str>) -> Result<Index, SourceError> {
        let path = repositories::index_file(self.settings, &repository.name);
        Index::load(&path, chart, &self.messages)
            .map_err(|e| SourceError(format!("no cached repo found. (try 'helm repo update'): {e}")))
    }

    /// The known repository whose index names this link. Its configuration applies.
    fn owner<'r>(&self, link: &str, known: &'r [Repository]) -> Result<Option<&'r Repository>, SourceError> {
        for repository in known {
            repository.check()?;
            let index = self.cached_index(repository, None)?;
            if index.entries.values().flatten().any(|v| v.urls.iter().any(|url| link::equal(url, link))) {
                return Ok(Some(repository));
            }
        }
        Ok(None)
    }

    fn access_of(&self, repository: &Repository) -> Access {
        let mut access = Access { home: repository.url.clone(), ..self.access.clone() };
        let files = |tls: &Tls| [tls.cert_file.clone(), tls.key_file.clone(), tls.ca_file.clone()];
        if files(&repository.tls).iter().any(|f| !f.as_os_str().is_empty()) {
            let Tls { insecure, stay_secure, .. } = access.tls;
            access.tls = Tls { insecure, stay_secure, ..repository.tls.clone() };
        }
        if repository.login.basic().is_some() {
            access.login = repository.login.clone();
            access.pass_credentials = repository.pass_credentials;
        }
        access
    }

    /// The archive, from the cache or its server, with the digest that it should have.
    fn archive(&self, target: &Target) -> Result<Vec<u8>, SourceError> {
        if let Some(digest) = &target.digest
            && let Ok(data) = std::fs::read(self.cached(digest, "chart"))
            && sha256(&data) == *digest
        {
            return Ok(data);
        }
        let data = self.get(target, "", ARCHIVE_LIMIT)?;
        match &target.digest {
            Some(wanted) if *wanted != sha256(&data) => fail(format!(
                "{} has the digest sha256:{}, but the index of its repository says sha256:{wanted}",
                shown(&target.url),
                sha256(&data)
            )),
            _ => Ok(data),
        }
    }

    /// The provenance file; `None` when there is none and need not be.
    fn provenance(&self, target: &Target, told: &str, digest: &str) -> Result<Option<Vec<u8>>, SourceError> {
        if target.digest.is_some()
            && let Ok(data) = std::fs::read(self.cached(digest, "prov"))
            && !data.is_empty()
        {
            return Ok(Some(data));
        }
        match self.get(target, ".prov", SMALL_LIMIT) {
            Ok(data) => Ok(Some(data)),
            Err(_) if self.verify == Verify::Always => {
                fail(format!("failed to fetch provenance {:?}", format!("{}.prov", shown(&target.url))))
            }
            Err(e) => {
                (self.messages.out)(&format!("WARNING: Verification not found for {}: {e}\n", shown(told)));
                Ok(None)
            }
        }
    }

    fn get(&self, target: &Target, suffix: &str, limit: u64) -> Result<Vec<u8>, SourceError> {
        let url = format!("{}{suffix}", target.url);
        match link::scheme(&url).as_str() {
            "oci" if suffix.is_empty() => self.registry.pull(&target.url, Layer::Chart),
            "oci" => self.registry.pull(&target.url, Layer::Provenance),
            "http" | "https" => {
                let access = &target.access;
                let home = if access.home.is_empty() { &target.url } else { &access.home };
                let login = (access.pass_credentials || same_origin(home, &url)).then_some(&access.login);
                let accept = Some("application/gzip,application/octet-stream");
                Client::new(&access.tls)?.get(&url, login, accept, limit)
            }
            other => fail(format!("scheme {other:?} not supported")),
        }
    }

    fn cached(&self, digest: &str, kind: &str) -> PathBuf {
        self.settings.content_cache.join(&digest[..2]).join(format!("{digest}.{kind}"))
    }

    fn keep(&self, path: &Path, data: &[u8]) -> Result<(), SourceError> {
        let folder = path.parent().unwrap_or(&self.settings.content_cache);
        std::fs::create_dir_all(folder)
            .map_err(|e| SourceError(format!("mkdir {}: {}", folder.display(), go_io(&e))))?;
        write_atomically(path, data)
    }
}

/// The digest of an index as hexadecimal digits; `None` when the index has none.
fn digest(text: &str) -> Result<Option<String>, SourceError> {
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.split_once(':').map_or(text, |(_, digits)| digits).to_ascii_lowercase();
    let Ok(bytes) = data_encoding::HEXLOWER.decode(digits.as_bytes()) else {
        return fail(format!("encoding/hex: invalid digest {text:?}"));
    };
    if bytes.len() != 32 {
        return fail(format!("invalid digest length: {}", bytes.len()));
    }
    Ok(Some(digits))
}

/// The name of an archive on disk.
fn file_name(url: &str) -> Result<String, SourceError> {
    let name = link::file_name(url);
    let name = match name.rsplit_once(':').filter(|_| is_oci(url)) {
        Some((chart, tag)) => format!("{chart}-{tag}.tgz"),
        None => name,
    };
    if matches!(name.as_str(), "" | "." | "..") {
        return fail(format!("{} names no file", shown(url)));
    }
    Ok(name)
}

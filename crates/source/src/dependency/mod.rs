//! Fills a chart's `charts/` with what its Chart.yaml or Chart.lock names (Helm's `pkg/downloader/manager.go`).

pub mod list;
mod lock;
mod resolve;
mod save;

use super::download::{Access, Downloader, Verify, WantedChart};
use super::link::{self, shown};
use super::provenance::Keyring;
use super::registry::{Registry, is_oci};
use super::repositories::{self, Repository};
use super::{Messages, SourceError, SourceSettings, clean, fail, sha256};
use lock::Lock;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tillerman_render::chart::{self, Chart, Dependency, go_io};
use tillerman_render::template::version::{Constraints, Version};

/// The names under which the indexes of repositories are kept that were not added with `helm repo add`.
const UNMANAGED: &str = "helm-manager-";
/// The error of a lock file that does not fit, in Helm's words.
const OUT_OF_SYNC: &str = "the lock file (Chart.lock) is out of sync with the dependencies file (Chart.yaml). Please update the dependencies with 'helm dependency update'";
/// The same for a chart of apiVersion v1.
const OLD_OUT_OF_SYNC: &str = "the lock file (requirements.lock) is out of sync with the dependencies file (requirements.yaml). Please update the dependencies";

/// Manages the dependencies of one chart directory.
pub struct Manager<'a> {
    /// The directory.
    pub chart: PathBuf,
    /// The files in which Helm keeps its settings.
    pub settings: &'a SourceSettings,
    /// For `oci://`.
    pub registry: &'a Registry<'a>,
    /// The treatment of signatures.
    pub verify: Verify,
    /// The keys to verify with.
    pub keyring: PathBuf,
    /// Do not ask repositories for their indexes, use those that are kept.
    pub skip_refresh: bool,
    /// The time that archives of `file://` dependencies carry; the present when not given (`SOURCE_DATE_EPOCH`).
    pub epoch: Option<u64>,
    /// The clock, for the lock file.
    pub now: fn() -> SystemTime,
    /// Where messages go.
    pub messages: Messages<'a>,
}

/// The time that `SOURCE_DATE_EPOCH` gives, in seconds since 1970.
pub fn source_date_epoch() -> Result<Option<u64>, SourceError> {
    let Some(text) = std::env::var("SOURCE_DATE_EPOCH").ok().filter(|t| !t.is_empty()) else { return Ok(None) };
    match text.parse::<i64>() {
        Err(_) => fail(format!("invalid SOURCE_DATE_EPOCH: strconv.ParseInt: parsing {text:?}: invalid syntax")),
        Ok(seconds) => match u64::try_from(seconds) {
            Ok(seconds) => Ok(Some(seconds)),
            Err(_) => fail("invalid SOURCE_DATE_EPOCH: must not be negative"),
        },
    }
}

impl Manager<'_> {
    /// Fetches what Chart.lock names; without one, the same as [`Manager::update`].
    pub fn build(&self) -> Result<(), SourceError> {
        let chart = self.load()?;
        let Some(lock) = Lock::of(&chart)? else { return self.update() };
        let mut wanted = chart.metadata.dependencies.clone();
        let old = chart.metadata.api_version == "v1";
        let old_digest = lock::old_digest(&wanted)?;
        self.names(&mut wanted)?;
        if lock::digest(&wanted, &lock.dependencies)? != lock.digest {
            if !old {
                return fail(OUT_OF_SYNC);
            }
            (self.messages.warn)(
                "level=INFO msg=\"warning: a valid Helm v3 hash was not found. Checking against Helm v2 hash...\"\n",
            );
            if old_digest != lock.digest {
                return fail(OLD_OUT_OF_SYNC);
            }
        }
        self.all_known(&lock.dependencies)?;
        self.refresh()?;
        let mut locked = lock.dependencies;
        self.download(&mut locked)
    }

    /// Chooses versions for the dependencies in Chart.yaml, fetches them, and writes Chart.lock if they have changed.
    pub fn update(&self) -> Result<(), SourceError> {
        let chart = self.load()?;
        let mut wanted = chart.metadata.dependencies.clone();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut names = self.names(&mut wanted)?;
        self.unmanaged(&mut names, &wanted)?;
        self.refresh()?;
        let mut locked = self.resolve(&wanted, &names)?;
        self.download(&mut locked)?;
        let digest = lock::digest(&wanted, &locked)?;
        if Lock::of(&chart)?.is_some_and(|before| before.digest == digest) {
            return Ok(());
        }
        let lock = Lock { digest, dependencies: locked };
        lock.write(&self.chart, chart.metadata.api_version == "v1", (self.now)())
    }

    fn load(&self) -> Result<Chart, SourceError> {
        let at = self.chart.display();
        match std::fs::metadata(&self.chart) {
            Err(e) => fail(format!("could not find {at}: stat {at}: {}", go_io(&e))),
            Ok(info) if !info.is_dir() => fail("only unpacked charts can be updated"),
            Ok(_) => Ok(chart::load(&self.chart)?),
        }
    }

    fn known(&self) -> Result<Vec<Repository>, SourceError> {
        repositories::load(&self.settings.repository_config)
    }

    /// The name of each dependency's repository; `@name` and `alias:name` become the repository's link.
    fn names(&self, wanted: &mut [Dependency]) -> Result<HashMap<String, String>, SourceError> {
        let known = self.known()?;
        let mut names = HashMap::new();
        let mut missing = Vec::new();
        for dependency in wanted.iter_mut().filter(|d| !d.repository.is_empty()) {
            let at = dependency.repository.clone();
            if at.starts_with("file://") {
                self.local(&at)?;
                names.insert(dependency.name.clone(), at);
                continue;
            }
            if is_oci(&at) {
                names.insert(dependency.name.clone(), at);
                continue;
            }
            let alias = at.strip_prefix('@').or_else(|| at.strip_prefix("alias:"));
            let found = known.iter().find(|r| alias == Some(r.name.as_str()) || link::equal(&r.url, &at));
            if let Some(repository) = found {
                if alias == Some(repository.name.as_str()) {
                    dependency.repository.clone_from(&repository.url);
                }
                names.insert(dependency.name.clone(), repository.name.clone());
            } else if fluent_uri::Uri::parse(at.as_str()).is_err() && !at.starts_with('/') {
                missing.push(shown(&at).into_owned());
            }
        }
        if missing.is_empty() { Ok(names) } else { Err(undefined(&missing)) }
    }

    /// Gives the repositories a name that were not added with `helm repo add`, and asks them for their indexes.
    fn unmanaged(&self, names: &mut HashMap<String, String>, wanted: &[Dependency]) -> Result<(), SourceError> {
        let mut found = Vec::new();
        for dependency in wanted.iter().filter(|d| !d.repository.is_empty()) {
            if !names.contains_key(&dependency.name) {
                let name = format!("{UNMANAGED}{}", sha256(dependency.repository.as_bytes()));
                let url = dependency.repository.clone();
                found.push(Repository { name: name.clone(), url, ..Repository::default() });
                names.insert(dependency.name.clone(), name);
            }
        }
        if self.skip_refresh || found.is_empty() {
            return Ok(());
        }
        (self.messages.out)("Getting updates for unmanaged Helm repositories...\n");
        self.ask_all(&found)
    }

    /// Asks all repositories that were added for their indexes.
    fn refresh(&self) -> Result<(), SourceError> {
        let known = if self.skip_refresh { Vec::new() } else { self.known()? };
        if !known.is_empty() {
            (self.messages.out)("Hang tight while we grab the latest from your chart repositories...\n");
            self.ask_all(&known)?;
            (self.messages.out)("Update Complete. ⎈Happy Helming!⎈\n");
        }
        Ok(())
    }

    /// All at once, since they do not depend on each other; one that does not answer is reported and does not block the others.
    fn ask_all(&self, repositories: &[Repository]) -> Result<(), SourceError> {
        let mut unique: Vec<&Repository> = Vec::new();
        for repository in repositories {
            let same = |r: &Repository| r.url.trim_end_matches('/') == repository.url.trim_end_matches('/');
            // Of two names for one link, the last is requested, as in Helm.
            match unique.iter().position(|r| same(r)) {
                Some(at) => unique[at] = repository,
                None => unique.push(repository),
            }
        }
        unique.iter().try_for_each(|r| r.check())?;
        let (settings, messages) = (self.settings, &self.messages);
        let results: Vec<Result<(), SourceError>> = std::thread::scope(|scope| {
            let threads: Vec<_> = unique.iter().map(|r| scope.spawn(move || r.update(settings, messages))).collect();
            let ended = |t: std::thread::ScopedJoinHandle<'_, _>| {
                t.join().unwrap_or_else(|_| fail("internal error while reading the index"))
            };
            threads.into_iter().map(ended).collect()
        });
        for (repository, result) in unique.iter().zip(results) {
            let url = shown(&repository.url);
            let managed = !repository.name.starts_with(UNMANAGED);
            let name = if managed { &*repository.name } else { &*url };
            (self.messages.out)(&match result {
                Ok(()) => format!("...Successfully got an update from the {name:?} chart repository\n"),
                Err(e) => {
                    let at = if managed { format!(" ({url})") } else { String::new() };
                    format!("...Unable to get an update from the {name:?} chart repository{at}:\n\t{e}\n")
                }
            });
        }
        Ok(())
    }

    fn all_known(&self, locked: &[Dependency]) -> Result<(), SourceError> {
        let known = self.known()?;
        let is_known = |d: &&Dependency| {
            let at = &d.repository;
            let url = at.trim_end_matches('/');
            at.is_empty() || at.starts_with("file://") || is_oci(at) || known.iter().any(|r| link::equal(&r.url, url))
        };
        let missing: Vec<_> = locked.iter().filter(|d| !is_known(d)).map(|d| shown(&d.repository)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        fail(format!(
            "no repository definition for {}. Please add the missing repos via 'helm repo add'",
            missing.join(", ")
        ))
    }

    /// The directory of a `file://` dependency, which must exist.
    fn local(&self, repository: &str) -> Result<PathBuf, SourceError> {
        let path = repository.strip_prefix("file://").unwrap_or(repository);
        let path = if path.starts_with('/') { PathBuf::from(path) } else { self.chart.join(path) };
        let path = clean(&path);
        if path.exists() { Ok(path) } else { fail(format!("directory {} not found", path.display())) }
    }

    /// Fetches everything into a folder beside `charts/`, and only when all is there replaces what `charts/` holds.
    fn download(&self, locked: &mut [Dependency]) -> Result<(), SourceError> {
        let charts = self.chart.join("charts");
        if std::fs::metadata(&charts).is_ok_and(|info| !info.is_dir()) {
            return fail(format!("{:?} is not a directory", charts.display().to_string()));
        }
        let scratch = self.chart.join(format!("tmpcharts-{}", std::process::id()));
        let make = |path: &Path| {
            std::fs::create_dir_all(path).map_err(|e| SourceError(format!("mkdir {}: {}", path.display(), go_io(&e))))
        };
        make(&charts)?;
        make(&scratch)?;
        let result = self.fetch_all(locked, &charts, &scratch);
        let result = match result {
            Ok(()) => self.replace(locked, &scratch, &charts),
            Err(e) => Err(e),
        };
        // A leftover folder does no harm. The original error is the better message.
        let _ = std::fs::remove_dir_all(&scratch);
        result
    }

    fn fetch_all(&self, locked: &mut [Dependency], charts: &Path, scratch: &Path) -> Result<(), SourceError> {
        (self.messages.out)(&format!("Saving {} charts\n", locked.len()));
        let known = self.known()?;
        let mut fetched = Vec::new();
        for dependency in locked {
            if dependency.repository.is_empty() {
                self.check_unpacked(dependency, charts)?;
                continue;
            }
            let result = if dependency.repository.starts_with("file://") {
                save::directory(self, dependency, scratch).map(|version| dependency.version = version)
            } else {
                self.fetch(dependency, &known, scratch, &mut fetched)
            };
            if let Err(e) = result {
                (self.messages.out)(&format!("Save error occurred:  {e}\n"));
                return Err(e);
            }
        }
        Ok(())
    }

    /// A dependency without repository lies in `charts/` already, and must have the right version.
    fn check_unpacked(&self, dependency: &Dependency, charts: &Path) -> Result<(), SourceError> {
        let name = &dependency.name;
        (self.messages.out)(&format!(
            "Dependency {name} did not declare a repository. Assuming it exists in the charts directory\n"
        ));
        let path = charts.join(name);
        let chart =
            chart::load(&path).map_err(|e| SourceError(format!("unable to load chart '{}': {e}", path.display())))?;
        let (constraint, version) = (constraint(dependency, false)?, &chart.metadata.version);
        let parsed = Version::parse(version)
            .map_err(|e| SourceError(format!("invalid version {} for dependency {name}: {e}", dependency.version)))?;
        if constraint.check(&parsed) {
            return Ok(());
        }
        let message =
            format!("dependency {name} at version {version} does not satisfy the constraint {}", dependency.version);
        (self.messages.out)(&format!("Save error occurred:  {message}\n"));
        fail(message)
    }

    fn fetch(
        &self,
        dependency: &Dependency,
        known: &[Repository],
        scratch: &Path,
        fetched: &mut Vec<String>,
    ) -> Result<(), SourceError> {
        let Dependency { name, version, repository: at, .. } = dependency;
        let (url, digest, access) =
            self.find(dependency, known).map_err(|e| SourceError(format!("could not find : {e}")))?;
        if fetched.contains(&url) {
            (self.messages.out)(&format!("Already downloaded {name} from repo {}\n", shown(at)));
            return Ok(());
        }
        (self.messages.out)(&format!("Downloading {name} from repo {}\n", shown(at)));
        let (chart, version) = match url.strip_suffix(&format!(":{version}")).filter(|_| is_oci(&url)) {
            Some(chart) => (chart.to_owned(), version.clone()),
            None => (url.clone(), String::new()),
        };
        let downloader = Downloader {
            settings: self.settings,
            registry: self.registry,
            access,
            verify: self.verify,
            keyring: Keyring::File(self.keyring.clone()),
            messages: self.messages,
        };
        let wanted = WantedChart { chart: chart.clone(), version, repo: String::new() };
        downloader
            .pull_known(&wanted, &digest, scratch)
            .map_err(|e| SourceError(format!("could not download {}: {e}", shown(&chart))))?;
        fetched.push(url);
        Ok(())
    }

    /// The link of a locked version, its digest if the repository gives one, and how the server is spoken to.
    fn find(&self, dependency: &Dependency, known: &[Repository]) -> Result<(String, String, Access), SourceError> {
        let Dependency { name, version, repository: at, .. } = dependency;
        if is_oci(at) {
            return Ok((format!("{at}/{name}:{version}"), String::new(), Access::default()));
        }
        let Some(repository) = known.iter().find(|r| link::equal(at, &r.url)) else {
            let repository = Repository { url: at.clone(), ..Repository::default() };
            let found = repositories::find(&repository, name, version, &self.messages)
                .map_err(|e| SourceError(format!("chart {name} not found in {}: {e}", shown(at))))?;
            return Ok((found.url, found.digest, Access::default()));
        };
        let path = repositories::index_file(self.settings, &repository.name);
        let index = super::index::Index::load(&path, Some(name), &self.messages)?;
        let Some(versions) = index.entries.get(name) else { return fail("entry not found") };
        let same = |v: &&super::index::ChartVersion| {
            !v.urls.is_empty()
                && (version.is_empty()
                    || v.version == *version
                    || matches!(
                        (Version::parse(&v.version), Version::parse(version)),
                        (Ok(a), Ok(b)) if a == b
                    ))
        };
        let Some(found) = versions.iter().find(same) else { return fail("no matching version") };
        let access = Access {
            tls: repository.tls.clone(),
            login: repository.login.clone(),
            home: repository.url.clone(),
            pass_credentials: repository.pass_credentials,
        };
        Ok((link::resolve(at, &found.urls[0])?, found.digest.clone(), access))
    }

    /// Moves the fetched archives into `charts/`, and removes the archives that nothing names now.
    fn replace(&self, locked: &[Dependency], scratch: &Path, charts: &Path) -> Result<(), SourceError> {
        let told = |text: String| (self.messages.out)(&text);
        let before = files(charts)?;
        let new = files(scratch)?;
        for name in &new {
            let (from, to) = (scratch.join(name), charts.join(name));
            if let Err(e) = chart::load(&from) {
                told(format!("Could not verify {} for moving: {e} (Skipping)", from.display()));
            } else if let Err(e) = std::fs::rename(&from, &to) {
                told(format!("Unable to move {} to charts dir {} (Skipping)", from.display(), go_io(&e)));
            }
        }
        told("Deleting outdated charts\n".into());
        for name in before.iter().filter(|name| !new.contains(name)) {
            let path = charts.join(name);
            match chart::load(&path) {
                Err(e) => told(format!("Could not verify {} for deletion: {e} (Skipping)\n", path.display())),
                Ok(chart) => {
                    let unpacked = |d: &Dependency| d.repository.is_empty() && d.name == chart.metadata.name;
                    if !locked.iter().any(unpacked)
                        && let Err(e) = std::fs::remove_file(&path)
                    {
                        told(format!("Could not delete {}: {} (Skipping)", path.display(), go_io(&e)));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The names of a folder's files, sorted.
fn files(folder: &Path) -> Result<Vec<String>, SourceError> {
    let failed = |e: std::io::Error| SourceError(format!("open {}: {}", folder.display(), go_io(&e)));
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_type().map_err(failed)?.is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The versions that a dependency allows.
fn constraint(dependency: &Dependency, quoted: bool) -> Result<Constraints, SourceError> {
    Constraints::parse(&dependency.version).map_err(|e| {
        let name = if quoted { format!("{:?}", dependency.name) } else { dependency.name.clone() };
        SourceError(format!("dependency {name} has an invalid version/constraint format: {e}"))
    })
}

fn undefined(missing: &[String]) -> SourceError {
    let mut message =
        format!("no repository definition for {}. Please add them via 'helm repo add'", missing.join(", "));
    let plain = |r: &String| !r.contains("//") && !r.starts_with('@') && !r.starts_with("alias:");
    if missing.iter().any(plain) {
        message.push_str(
            "\nNote that repositories must be URLs or aliases. For example, to refer to the \"example\"\nrepository, \
             use \"https://charts.example.com/\" or \"@example\" instead of\n\"example\". Don't forget to add the repo, \
             too ('helm repo add').",
        );
    }
    SourceError(message)
}

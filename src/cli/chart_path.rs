//! The flags that say where a chart comes from, and the charts found with them.

use super::CliError;
use crate::source::download::{Access, Downloader, Verify, Wanted};
use crate::source::http::{Login, Tls};
use crate::source::provenance::{self, Keyring};
use crate::source::registry::{Options, Registry};
use crate::source::{Messages, Settings, SourceError};
use std::io::{Read, Write};
use std::path::PathBuf;

/// Helm's flags of a server: who we are to it, whom to trust.
#[derive(Clone, Debug, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "they are Helm's flags")]
pub struct ServerArgs {
    /// Verify the chart's signature (of a file: FILE.prov beside it).
    #[arg(long)]
    pub verify: bool,
    /// Public keys for --verify [default: GnuPG's pubring.gpg or pubring.kbx].
    #[arg(long, value_name = "FILE")]
    pub keyring: Option<PathBuf>,
    /// User name for the repository or registry.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub username: String,
    /// Password for the repository or registry; --password-stdin shows it to nobody.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub password: Secret,
    /// Read the password from standard input.
    #[arg(long, conflicts_with = "password")]
    pub password_stdin: bool,
    /// Our certificate for the server.
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    pub cert_file: String,
    /// The key of --cert-file.
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    pub key_file: String,
    /// Certificates to trust instead of the system's.
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    pub ca_file: String,
    /// Trust any server.
    #[arg(long)]
    pub insecure_skip_tls_verify: bool,
    /// Speak http to registries.
    #[arg(long)]
    pub plain_http: bool,
}

/// A text that is not shown, not even by `{:?}`.
#[derive(Clone, Default)]
pub struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// Helm's flags of a chart.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ChartPathArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// A version or a constraint such as `^1.2` [default: the newest].
    #[arg(long, default_value = "", hide_default_value = true)]
    pub version: String,
    /// Prereleases too; the same as --version '>0.0.0-0'.
    #[arg(long)]
    pub devel: bool,
    /// The repository of the chart, as a link.
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    pub repo: String,
    /// Send user name and password to other servers than the repository's too.
    #[arg(long)]
    pub pass_credentials: bool,
}

impl From<SourceError> for CliError {
    fn from(e: SourceError) -> Self {
        Self(e.0)
    }
}

/// Text to standard output, at once.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    // Who does not want to read it, does not: the work goes on.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Text to standard error.
pub fn print_error(text: &str) {
    eprint!("{text}");
}

/// Messages as `helm pull` and `helm dependency` print them.
pub const ON_OUTPUT: Messages<'static> = Messages { out: &print, registry: &print, warn: &print_error };
/// Messages as `helm template` prints them, whose standard output is the manifest.
pub const ON_ERROR: Messages<'static> = Messages { out: &print, registry: &print_error, warn: &print_error };

impl ServerArgs {
    /// Reads the password from standard input if the flags say so.
    pub fn login(&self) -> Result<Login, CliError> {
        let mut password = self.password.0.clone();
        if self.password_stdin {
            std::io::stdin()
                .read_to_string(&mut password)
                .map_err(|e| CliError(format!("cannot read the password from standard input: {e}")))?;
            password.truncate(password.trim_end_matches(['\r', '\n']).len());
        }
        Ok(Login { username: self.username.clone(), password })
    }

    /// Whom to trust.
    pub fn tls(&self) -> Tls {
        Tls {
            stay_secure: false,
            cert_file: PathBuf::from(&self.cert_file),
            key_file: PathBuf::from(&self.key_file),
            ca_file: PathBuf::from(&self.ca_file),
            insecure: self.insecure_skip_tls_verify,
        }
    }

    /// The keys to verify with.
    pub fn keyring(&self) -> PathBuf {
        self.keyring.clone().unwrap_or_else(provenance::default_keyring)
    }

    /// A client of registries.
    pub fn registry<'a>(
        &self,
        settings: &Settings,
        login: &Login,
        messages: Messages<'a>,
    ) -> Result<Registry<'a>, CliError> {
        // As in Helm, certificates and plain http exclude each other.
        let tls = self.tls();
        let options = Options {
            config: settings.registry_config.clone(),
            login: login.clone(),
            plain_http: self.plain_http && tls == Tls::default(),
            tls,
        };
        Registry::new(options, messages).map_err(|e| CliError(format!("missing registry client: {e}")))
    }
}

impl ChartPathArgs {
    /// The chart of this name with the version of the flags.
    pub fn wanted(&self, chart: &str) -> Wanted {
        let version = if self.version.is_empty() && self.devel { ">0.0.0-0" } else { &self.version };
        Wanted { chart: chart.to_owned(), version: version.to_owned(), repo: self.repo.clone() }
    }

    /// Does something with a downloader of these flags.
    pub fn with_downloader<T>(
        &self,
        settings: &Settings,
        messages: Messages,
        verify: Verify,
        work: impl FnOnce(&Downloader) -> Result<T, SourceError>,
    ) -> Result<T, CliError> {
        let login = self.server.login()?;
        let registry = self.server.registry(settings, &login, messages)?;
        let downloader = Downloader {
            settings,
            registry: &registry,
            access: Access {
                tls: self.server.tls(),
                login,
                home: String::new(),
                pass_credentials: self.pass_credentials,
            },
            verify,
            keyring: Keyring::File(self.server.keyring()),
            messages,
        };
        Ok(work(&downloader)?)
    }

    /// The path of the chart on this machine, downloaded if it is elsewhere.
    pub fn locate(&self, settings: &Settings, chart: &str) -> Result<PathBuf, CliError> {
        let verify = if self.server.verify { Verify::Always } else { Verify::Never };
        self.with_downloader(settings, ON_ERROR, verify, |d| d.locate(&self.wanted(chart)))
    }
}

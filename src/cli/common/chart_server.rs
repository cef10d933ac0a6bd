//! The flags for a server of charts, a repository or a registry: the user, and the certificates to trust.

use super::error::CliError;
use crate::source::http::{Login, Tls};
use crate::source::provenance;
use crate::source::registry::{Options, Registry};
use crate::source::{Messages, SourceSettings};
use std::io::Read as _;
use std::path::PathBuf;

/// Helm's flags of a server: who we are to it, whom to trust.
#[derive(Clone, Debug, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "they are Helm's flags")]
pub struct ServerArgs {
    /// Verify the chart's signature (of a file: FILE.prov next to it).
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

    /// The certificates to trust.
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
        settings: &SourceSettings,
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

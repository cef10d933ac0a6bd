//! The members to ask, and the connections to them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::backup::BackupError;
use crate::cli::common::error::CliError;
use crate::members::etcd::client::{Access, Tls};

const USER: &str = "The user, where authentication is on; it needs the role root. The password is in ETCDCTL_PASSWORD \
                    or --password-file, or after the name in ETCDCTL_USER";

#[derive(Debug, clap::Args)]
pub(super) struct EtcdArgs {
    /// Client URLs of members of one cluster, separated by commas.
    #[arg(long, value_name = "URLS", value_delimiter = ',', required = true, env = "ETCDCTL_ENDPOINTS")]
    pub endpoints: Vec<String>,
    /// Certificates of the authorities that signed those of the members.
    #[arg(long, value_name = "FILE", env = "ETCDCTL_CACERT")]
    cacert: Option<PathBuf>,
    /// Our certificate.
    #[arg(long, value_name = "FILE", env = "ETCDCTL_CERT", requires = "key")]
    cert: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", env = "ETCDCTL_KEY", requires = "cert")]
    key: Option<PathBuf>,
    #[command(flatten)]
    user: UserArgs,
    /// The time limit of each call, and of each piece of a snapshot.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = crate::kind::duration::parse)]
    call_timeout: Duration,
}

impl EtcdArgs {
    pub fn access(&self) -> Result<Access, CliError> {
        let tls = match &self.cacert {
            None if self.cert.is_some() => return Err(CliError("--cert needs --cacert".into())),
            None => None,
            Some(ca) => {
                let identity = match (&self.cert, &self.key) {
                    (Some(cert), Some(key)) => Some((read(cert)?, read(key)?)),
                    _ => None,
                };
                Some(Tls { ca: read(ca)?, identity })
            }
        };
        Ok(Access { tls, user: self.user.user()?, timeout: self.call_timeout })
    }
}

/// The user of the members.
#[derive(Debug, clap::Args)]
pub(super) struct UserArgs {
    #[arg(long, value_name = "NAME", help = USER)]
    user: Option<String>,
    /// File of the user's password.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl UserArgs {
    pub fn user(&self) -> Result<Option<(String, String)>, CliError> {
        if self.user.as_ref().is_some_and(|user| user.contains(':')) {
            return Err(CliError("--user takes the name only: arguments can be read by others".into()));
        }
        let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let of_env = env("ETCDCTL_USER");
        let (name, behind) = match (&self.user, &of_env) {
            (Some(name), _) => (name.clone(), None),
            (None, Some(both)) => match both.split_once(':') {
                Some((name, password)) => (name.to_owned(), Some(password.to_owned())),
                None => (both.clone(), None),
            },
            (None, None) => return Ok(None),
        };
        let of_file = match &self.password_file {
            Some(file) => Some(String::from_utf8_lossy(&read(file)?).trim_end_matches(['\n', '\r']).to_owned()),
            None => None,
        };
        let password = of_file.or(behind).or_else(|| env("ETCDCTL_PASSWORD"));
        let password = password.ok_or_else(|| CliError(format!("no password is given for the user {name}")))?;
        Ok(Some((name, password)))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    Ok(std::fs::read(path).map_err(|error| BackupError::File { path: path.into(), error })?)
}

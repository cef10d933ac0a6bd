//! The flags of `tillerman-agent import`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;

use crate::keeper::secret;
use crate::sql::Address;

/// Brings the data of a running MariaDB or MySQL into a cluster: copies it, follows its writes, compares both, and on request ends the writes there.
/// Killed at any moment it continues, or begins the copy again.
#[derive(Clone, Debug, Parser)]
#[command(name = "tillerman-agent import", version)]
#[expect(clippy::struct_excessive_bools, reason = "they are flags of a command line")]
pub struct Import {
    /// The host of the running database
    #[arg(long)]
    pub source_host: String,
    /// Its port
    #[arg(long, default_value_t = 3306)]
    pub source_port: u16,
    /// The account there
    #[arg(long, default_value = "root")]
    pub source_user: String,
    /// A file with the password of the account
    #[arg(long)]
    pub source_password_file: PathBuf,
    /// The authorities that sign the certificate there. Without the flag the connection is not encrypted
    #[arg(long)]
    pub source_ca: Option<PathBuf>,
    /// The host of the cluster's primary
    #[arg(long)]
    pub host: String,
    /// Its port
    #[arg(long, default_value_t = 3306)]
    pub port: u16,
    /// The administrator's account of the cluster
    #[arg(long, default_value = "root")]
    pub user: String,
    /// A file with its password
    #[arg(long)]
    pub password_file: PathBuf,
    /// The authorities that sign the certificates of the cluster
    #[arg(long)]
    pub ca: Option<PathBuf>,
    /// Only check the source, print the problems with the statements that solve them, and change nothing
    #[arg(long)]
    pub check: bool,
    /// End the writes at the source as soon as both have the same data
    #[arg(long)]
    pub cut_over: bool,
    /// Afterwards let the source follow the cluster for a day, so that it can take over again
    #[arg(long)]
    pub way_back: bool,
    /// With --way-back: end the writes of applications in the cluster, and let the source take over again
    #[arg(long, requires = "way_back")]
    pub roll_back: bool,
    /// With --check: also write the result to this file
    #[arg(long, requires = "check")]
    pub report: Option<PathBuf>,
    /// Stay when the data is the cluster's, as the container of a Deployment has to
    #[arg(long)]
    pub stay: bool,
    /// The file that is created when the data is the cluster's
    #[arg(long, default_value = "/tmp/imported")]
    pub done: PathBuf,
    /// The program of MariaDB that copies the data as statements
    #[arg(long, default_value = "mariadb-dump")]
    pub dump: PathBuf,
    /// The program of MariaDB that reads binary logs
    #[arg(long, default_value = "mariadb-binlog")]
    pub binlog: PathBuf,
    /// The program of MariaDB that runs statements
    #[arg(long, default_value = "mariadb")]
    pub client: PathBuf,
}

/// The arguments of `import`; `None` if they are others.
pub fn import(args: impl Iterator<Item = OsString>) -> Option<Import> {
    let mut args = args.peekable();
    args.next_if(|first| first == "import")?;
    Some(Import::parse_from(std::iter::once(OsString::from("tillerman-agent import")).chain(args)))
}

impl Import {
    /// The running database. The error is a sentence.
    pub fn source(&self) -> Result<Address, String> {
        Ok(Address {
            host: self.source_host.clone(),
            port: self.source_port,
            user: self.source_user.clone(),
            password: secret(&self.source_password_file)?,
            authorities: self.source_ca.clone(),
        })
    }

    /// The primary of the cluster. The error is a sentence.
    pub fn target(&self) -> Result<Address, String> {
        Ok(Address {
            host: self.host.clone(),
            port: self.port,
            user: self.user.clone(),
            password: secret(&self.password_file)?,
            authorities: self.ca.clone(),
        })
    }
}

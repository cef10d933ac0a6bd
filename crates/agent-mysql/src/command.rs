//! The flags of `tillerman-agent`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;

use super::flavor::Flavor;
use tillerman_agent::names::{is_host, is_member};
use tillerman_agent::store;
use tillerman_agent::tls::Tls;

/// Runs a member of a cluster of MariaDB or MySQL, and does what the operator orders.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "tillerman-agent",
    version,
    after_help = "tillerman-agent install PATH copies the program to PATH, and does nothing else.\n\
        tillerman-agent restore makes the data of a new cluster from a copy that was stored: see tillerman-agent restore --help.\n\
        tillerman-agent import brings the data of a running MariaDB: see tillerman-agent import --help."
)]
pub struct Flags {
    /// The database: mariadb or mysql
    #[arg(long, default_value = "mariadb")]
    pub flavor: Flavor,
    /// The folder that the agent keeps its data in: the volume of the member
    #[arg(long, env = "VOLUME", default_value = "/var/lib/mysql")]
    pub volume: PathBuf,
    /// The socket of the database [default: mariadb.sock or mysql.sock in the volume]
    #[arg(long)]
    pub socket: Option<PathBuf>,
    /// Where the agent listens for the operator and other agents
    #[arg(long, default_value = "0.0.0.0:8090")]
    pub listen: SocketAddr,
    /// Where the agent listens for the kubelet and Prometheus, without TLS: /healthz, /readyz and /metrics
    #[arg(long)]
    pub listen_health: Option<SocketAddr>,
    /// A replica is ready if its writes are at most that many seconds old
    #[arg(long, default_value_t = 10.0)]
    pub ready_lag: f64,
    /// The certificate of the agent and the database, with its chain
    #[arg(long, requires_all = ["tls_key", "tls_ca"], required_unless_present = "insecure_http", conflicts_with = "insecure_http")]
    pub tls_certificate: Option<PathBuf>,
    /// Its key
    #[arg(long)]
    pub tls_key: Option<PathBuf>,
    /// The authorities whose certificates the operator and other agents must have. A client with such a certificate can
    /// replace the data.
    #[arg(long)]
    pub tls_ca: Option<PathBuf>,
    /// Without TLS: anyone who reaches the agent can replace the data. For tests
    #[arg(long)]
    pub insecure_http: bool,
    /// The name of the member, which is the name of its pod
    #[arg(long, env = "HOSTNAME")]
    pub member: String,
    /// The ID of the database, different for each member [default: the number at the end of the member's name, plus 1]
    #[arg(long)]
    pub server_id: Option<u32>,
    /// A file with the password with which members follow each other
    #[arg(long)]
    pub password_file: PathBuf,
    /// The name of the administrator's account
    #[arg(long, default_value = "admin", requires = "administrator_password_file")]
    pub administrator: String,
    /// A file with the administrator's password; without it there is no such account
    #[arg(long)]
    pub administrator_password_file: Option<PathBuf>,
    /// A folder with accounts.json, which declares databases and users of clients, and password.USER for each of them
    #[arg(long)]
    pub accounts: Option<PathBuf>,
    /// The port of the database
    #[arg(long, default_value_t = 3306)]
    pub port: u16,
    /// Where the database listens
    #[arg(long, default_value = "*")]
    pub bind_address: String,
    /// The user that the database runs as, if the agent runs as root
    #[arg(long)]
    pub user: Option<String>,
    /// The program of the database [default: mariadbd or mysqld]
    #[arg(long, alias = "mysqld")]
    pub mariadbd: Option<PathBuf>,
    /// The program that creates its data
    #[arg(long, default_value = "mariadb-install-db")]
    pub install_db: PathBuf,
    /// The program that copies its data
    #[arg(long, default_value = "mariadb-backup")]
    pub backup: PathBuf,
    /// The program that unpacks copies
    #[arg(long, default_value = "mbstream")]
    pub mbstream: PathBuf,
    /// The program that brings its tables up to date after a new version
    #[arg(long, default_value = "mariadb-upgrade")]
    pub upgrade: PathBuf,
    /// The program that copies the data as statements
    #[arg(long, default_value = "mariadb-dump")]
    pub dump: PathBuf,
    /// The program that reads binary logs
    #[arg(long, default_value = "mariadb-binlog")]
    pub binlog: PathBuf,
    /// The program that runs statements
    #[arg(long, default_value = "mariadb")]
    pub client: PathBuf,
    /// The program that prints statements with the time zones of the system
    #[arg(long, default_value = "mariadb-tzinfo-to-sql")]
    pub tzinfo: PathBuf,
    /// The folder with the time zones of the system
    #[arg(long, default_value = "/usr/share/zoneinfo")]
    pub zoneinfo: PathBuf,
    /// A file with settings of the database. Those that the agent needs are not taken from it
    #[arg(long)]
    pub my_cnf: Option<PathBuf>,
    /// How long the agent waits at its end for running commits and for the database, in seconds
    #[arg(long, default_value_t = 20)]
    pub grace: u64,
    /// How long the database may hang before it is ended and started again: 90s, 5m; 0s for ever
    #[arg(long, env = "HUNG_AFTER", default_value = "60s", value_parser = duration)]
    pub hung_after: Duration,
    /// The member that may create data; empty for none
    #[arg(long, env = "PRIMARY", default_value = "", hide = true)]
    pub primary: String,
    /// The epoch when the container was started
    #[arg(long, env = "EPOCH", default_value = "0", hide = true, value_parser = number)]
    pub epoch: u64,
    /// The identity of the cluster's data; empty if it is not known yet
    #[arg(long, env = "DATA", default_value = "", hide = true)]
    pub data: String,
    /// Further arguments of the database
    #[arg(last = true)]
    pub arguments: Vec<String>,
}

/// Makes the data of a new cluster from a copy that was stored, if the member may create data and has none. Killed at any moment it
/// leaves none, or all of it. The arguments after -- are the program that sends the copy, such as: tillerman snapshot
/// send
#[derive(Clone, Debug, Parser)]
#[command(name = "tillerman-agent restore", version)]
pub struct Restore {
    /// The flags of the agent.
    #[command(flatten)]
    pub flags: Flags,
    /// Restore on an empty volume, read all tables, and remove everything again. With DATA, only a copy of this data is accepted
    #[arg(long)]
    pub check: bool,
    /// With --check: a statement that must return a row of the restored data, such as SELECT 1 FROM shop.orders LIMIT 1; repeatable
    #[arg(long, value_name = "STATEMENT", requires = "check")]
    pub check_row: Vec<String>,
    /// Also write the result to this file, as JSON
    #[arg(long)]
    pub report: Option<PathBuf>,
}

/// The arguments of `restore`; `None` if they are others.
pub fn restore(args: impl Iterator<Item = OsString>) -> Option<Restore> {
    let mut args = args.peekable();
    args.next_if(|first| first == "restore")?;
    Some(Restore::parse_from(std::iter::once(OsString::from("tillerman-agent restore")).chain(args)))
}

/// An empty variable is not a number, and means that there is none.
fn number(text: &str) -> Result<u64, std::num::ParseIntError> {
    if text.is_empty() { Ok(0) } else { text.parse() }
}

/// A duration as charts have it: numbers with `ms`, `s`, `m` or `h`. The error is a sentence.
fn duration(text: &str) -> Result<Duration, String> {
    let error = || format!("{text:?} is not a duration such as 90s or 1h30m");
    let (mut rest, mut total) = (text, Duration::ZERO);
    while !rest.is_empty() || text.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(error)?;
        let number: u32 = rest[..digits].parse().map_err(|_| error())?;
        let unit = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |more| digits + more);
        let one = match &rest[digits..unit] {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            "h" => Duration::from_secs(3600),
            _ => return Err(error()),
        };
        total = one.checked_mul(number).and_then(|more| total.checked_add(more)).ok_or_else(error)?;
        rest = &rest[unit..];
    }
    // It is added to points in time.
    Ok(total.min(Duration::from_secs(365 * 24 * 3600)))
}

impl Flags {
    /// The socket of the database.
    pub fn socket(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| self.volume.join(self.flavor.socket()))
    }

    /// The program of the database.
    pub fn server(&self) -> PathBuf {
        self.mariadbd.clone().unwrap_or_else(|| self.flavor.server().into())
    }

    /// The ID of the database. [`Flags::check`] has seen that there is one.
    pub fn server_id(&self) -> u32 {
        self.server_id.or_else(|| ordinal(&self.member)?.checked_add(1)).unwrap_or(1)
    }

    /// The files of TLS.
    pub fn tls(&self) -> Option<Tls> {
        Some(Tls {
            certificate: self.tls_certificate.clone()?,
            key: self.tls_key.clone()?,
            authorities: self.tls_ca.clone()?,
        })
    }

    /// Checks what clap does not. The error is a sentence.
    pub fn check(&self) -> Result<(), String> {
        if !is_member(&self.member) {
            return Err(format!("--member {:?} is not a DNS label", self.member));
        }
        if self.server_id.is_none() && ordinal(&self.member).and_then(|n| n.checked_add(1)).is_none() {
            return Err(format!("--member {:?} does not end with a number: set --server-id", self.member));
        }
        if self.server_id == Some(0) {
            return Err("--server-id 0 is not a valid ID of a member".to_owned());
        }
        if !is_member(&self.administrator) {
            return Err(format!("--administrator {:?} is not a DNS label", self.administrator));
        }
        if !self.data.is_empty() && !store::is_identity(&self.data) {
            return Err(
                "DATA is not a valid identity of data, which has letters, digits and hyphens, at most 64".to_owned()
            );
        }
        if !self.primary.is_empty() && !is_host(&self.primary) {
            return Err("PRIMARY is not the name of a member".to_owned());
        }
        Ok(())
    }
}

/// `install PATH` copies this program: an init container brings it into the container of the database, whose image lacks it. `None`
/// if the arguments are others.
pub fn install(mut args: impl Iterator<Item = OsString>) -> Option<Result<(), String>> {
    if args.next()? != "install" {
        return None;
    }
    Some(match (args.next(), args.next()) {
        (Some(path), None) => copy(Path::new(&path)),
        _ => Err("install takes one argument: the path that the program is copied to".to_owned()),
    })
}

fn copy(to: &Path) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| format!("the program cannot find its own file: {error}"))?;
    // An init container may run again while the file exists.
    let new = to.with_extension("new");
    let copied = std::fs::copy(own, &new).and_then(|_| std::fs::rename(&new, to));
    copied.map_err(|error| format!("{}: {error}", to.display()))
}

/// The number after the last hyphen of a pod's name.
fn ordinal(member: &str) -> Option<u32> {
    member.rsplit_once('-')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Flags, duration, install, ordinal};
    use clap::Parser as _;
    use std::time::Duration;

    #[test]
    fn durations_are_those_of_charts() {
        for (text, expected) in [
            ("60s", Some(60_000)),
            ("0s", Some(0)),
            ("1h30m", Some(5_400_000)),
            ("1s500ms", Some(1_500)),
            ("", None),
            ("60", None),
            ("s", None),
            ("-1s", None),
            ("1.5s", None),
            ("5x", None),
            ("99999999999s", None),
        ] {
            assert_eq!(duration(text).ok(), expected.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn a_server_has_the_number_of_its_pod() {
        for (name, expected) in [("db-0", Some(0)), ("my-db-12", Some(12)), ("db", None), ("db-x", None)] {
            assert_eq!(ordinal(name), expected, "{name}");
        }
    }

    #[test]
    fn the_program_copies_itself() {
        let to = std::env::temp_dir().join(format!("tillerman-agent-{}", std::process::id()));
        let args =
            |args: &[&std::ffi::OsStr]| args.iter().map(std::ffi::OsString::from).collect::<Vec<_>>().into_iter();
        for _ in 0..2 {
            assert_eq!(install(args(&["install".as_ref(), to.as_os_str()])), Some(Ok(())));
        }
        let own = std::env::current_exe().unwrap();
        assert_eq!(std::fs::metadata(&to).unwrap().len(), std::fs::metadata(own).unwrap().len());
        std::fs::remove_file(to).unwrap();
        assert_eq!(install(args(&["--member=db-0".as_ref()])), None);
        assert!(install(args(&["install".as_ref()])).unwrap().is_err());
    }

    #[test]
    fn tls_is_all_or_nothing() {
        let base = ["agent", "--member=db-0", "--password-file=p"];
        let parse = |more: &[&str]| Flags::try_parse_from(base.iter().chain(more)).is_ok();
        assert!(parse(&["--insecure-http"]) && parse(&["--tls-certificate=c", "--tls-key=k", "--tls-ca=a"]));
        assert!(!parse(&[]) && !parse(&["--tls-certificate=c"]));
        assert!(!parse(&["--insecure-http", "--tls-certificate=c", "--tls-key=k", "--tls-ca=a"]));
    }
}

//! Copies and logs of databases with one primary and replicas.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::print::{Output, Shown};
use super::store::StoreArgs;
use super::{KeepArgs, LATEST};
use crate::agent::client::Client;
use crate::agent::position::Position;
use crate::agent::stored::{Description, Form, HAS, SEEN, Until};
use crate::agent::tls::{Tls, TlsFiles};
use crate::backup::archive::{self, End};
use crate::backup::copy::{Agents, save, take};
use crate::backup::place::StorePlace;
use crate::backup::record::Record;
use crate::backup::restore::copy_self;
use crate::backup::shelf::{self, Condition};
use crate::backup::{BackupError, chain};
use crate::cli::common::error::{CliError, FlagError};

/// The default prefix of names.
const PREFIX: &str = "db";

/// The agents to ask.
#[derive(Debug, clap::Args)]
struct AgentArgs {
    /// URLs of the agents of one database, separated by commas.
    #[arg(long, value_name = "URLS", value_delimiter = ',', required = true)]
    agents: Vec<String>,
    /// Certificates of the authorities that signed those of the agents.
    #[arg(long, value_name = "FILE", requires_all = ["cert", "key"])]
    cacert: Option<PathBuf>,
    /// Our certificate.
    #[arg(long, value_name = "FILE", requires = "cacert")]
    cert: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "cacert")]
    key: Option<PathBuf>,
    /// The time limit of an agent's answer.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = crate::kind::duration::parse)]
    call_timeout: Duration,
}

impl AgentArgs {
    fn agents(&self) -> Result<Agents, CliError> {
        let tls = match (&self.cert, &self.key, &self.cacert) {
            (Some(certificate), Some(key), Some(authorities)) => {
                let files =
                    Tls { certificate: certificate.clone(), key: key.clone(), authorities: authorities.clone() };
                Some(TlsFiles::read(&files).map_err(|error| CliError(error.to_string()))?.client())
            }
            _ => None,
        };
        Ok(Agents { client: Client { tls }, urls: self.agents.clone(), timeout: self.call_timeout })
    }
}

/// Arguments of `copy`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CopyArgs {
    #[command(flatten)]
    agents: AgentArgs,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    keep: KeepArgs,
    /// Copy statements that create the data, instead of the files of the database: slower, and also usable with other
    /// versions.
    #[arg(long)]
    logical: bool,
    #[arg(long, help = "The exact name of the backup, instead of PREFIX_vNUMBER_TIME_HASH")]
    name: Option<String>,
    /// How long to wait until a replica has applied the writes of the primary; after that the primary is copied.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = crate::kind::duration::parse)]
    catch_up: Duration,
    /// Also write the result to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// Arguments of `archive`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ArchiveArgs {
    #[command(flatten)]
    agents: AgentArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Continue, and store again after this time, until the program is ended. An attempt that fails is repeated.
    #[arg(long, value_name = "DURATION", value_parser = crate::kind::duration::parse)]
    every: Option<Duration>,
    /// Continue after a gap, where no member has the writes any longer.
    #[arg(long)]
    after_gap: bool,
    /// With --every: end with an error if no attempt succeeded for this time.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = crate::kind::duration::parse)]
    give_up: Duration,
}

/// Arguments of `send`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SendArgs {
    /// The name of the copy, or `latest` for the newest good one of the prefix that leads to --until.
    #[arg(default_value = LATEST)]
    name: String,
    #[command(flatten)]
    store: StoreArgs,
    /// The end of the writes after the copy that are sent, too: `end`, a time such as 2026-11-27T12:00:00Z, or a write
    /// such as 0-1-150 (MariaDB) or UUID:150 (MySQL).
    #[arg(long, value_name = "POINT", value_parser = until)]
    until: Option<Until>,
    /// Describe the copy in this file, before its first byte is sent.
    #[arg(long, value_name = "FILE")]
    about: PathBuf,
    /// The folder that the logs are written to.
    #[arg(long, value_name = "FOLDER")]
    logs: PathBuf,
}

/// Arguments of `install`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct InstallArgs {
    /// Where this program is copied to.
    path: PathBuf,
    /// Write the certificates of the authorities that the program knows to this file: the other image may have no such
    /// file.
    #[arg(long, value_name = "FILE")]
    authorities: Option<PathBuf>,
}

/// Brings the program into the container of another image.
pub(super) fn install(args: &InstallArgs) -> Result<(), CliError> {
    copy_self(&args.path)?;
    if let Some(path) = &args.authorities {
        let text = crate::image::authorities::pem(&[]).map_err(CliError::new)?;
        fs::write(path, text).map_err(|error| BackupError::File { path: path.clone(), error })?;
    }
    Ok(())
}

/// Reads the point of a restore.
fn until(text: &str) -> Result<Until, FlagError> {
    if text == "end" {
        return Ok(Until::End);
    }
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(Until::Time(time.as_second()));
    }
    // MariaDB writes DOMAIN-SERVER-NUMBER.
    let numbers: Vec<&str> = text.split('-').collect();
    let are_numbers = numbers.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let write = match numbers.as_slice() {
        [domain, server, number] if are_numbers => format!("{domain}-{server}:{number}"),
        _ => text.to_ascii_lowercase(),
    };
    match write.parse::<Position>() {
        // A time without its zone has a `T`.
        Ok(position) if position.count() == 1 && !text.contains('T') => Ok(Until::Write(position)),
        _ => Err("it must be `end`, a time with its zone, or one write such as 0-1-150 or UUID:150".into()),
    }
}

impl CopyArgs {
    pub(super) fn store(&self) -> &StoreArgs {
        &self.store
    }
}

impl ArchiveArgs {
    pub(super) fn store(&self) -> &StoreArgs {
        &self.store
    }

    pub fn repeats(&self) -> bool {
        self.every.is_some()
    }
}

impl SendArgs {
    pub(super) fn store(&self) -> &StoreArgs {
        &self.store
    }
}

pub(super) async fn copy(args: &CopyArgs) -> Result<(), CliError> {
    let (place, agents) = (args.store.open(true)?, args.agents.agents()?);
    let prefix = args.store.prefix().unwrap_or(PREFIX);
    let form = if args.logical { Form::Logical } else { Form::Physical };
    let coming = take(&agents, form, args.catch_up).await?;
    let name = args.name.clone().unwrap_or_else(|| coming.record.name(prefix));
    let record = Box::pin(save(&place, &name, coming)).await?;
    let shown = Shown { name: &name, record: &record };
    args.output.backup("saved", &shown);
    shown.write_report(args.report.as_deref())?;
    if let Some(policy) = args.keep.policy() {
        let pruned = async {
            let mut pruned = shelf::prune(&place, prefix, policy, Some(&name), false).await?;
            pruned.extend(archive::prune(&place, prefix, false).await?);
            Ok::<_, BackupError>(pruned)
        };
        let pruned = pruned.await;
        let pruned =
            pruned.map_err(|error| CliError(format!("{name} was saved, but old backups were not deleted: {error}")))?;
        for name in pruned {
            eprintln!("deleted {name}");
        }
    }
    Ok(())
}

/// Stores logs once.
pub(super) async fn archive_once(args: &ArchiveArgs) -> Result<(), CliError> {
    let (place, agents) = (args.store.open(true)?, args.agents.agents()?);
    let prefix = args.store.prefix().unwrap_or(PREFIX);
    let archived = archive::archive(&agents, &place, prefix, args.after_gap).await?;
    for name in &archived.names {
        println!("stored {name}");
    }
    if args.every.is_none() {
        let End { has, seen, .. } = archived.end;
        println!("the archive has {has}: all writes acknowledged until {}", seen.strftime("%Y-%m-%dT%H:%M:%SZ"));
    }
    Ok(())
}

/// Stores logs again and again.
pub(super) async fn archive_often(args: &ArchiveArgs) -> Result<(), CliError> {
    let every = args.every.unwrap_or_default();
    let mut succeeded = Instant::now();
    let mut ends = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).map_err(CliError::new)?;
    loop {
        let done = tokio::select! {
            done = tokio::time::timeout(args.store.timeout, archive_once(args)) => done,
            _ = ends.recv() => return Ok(()),
        };
        match done.unwrap_or_else(|_| Err(BackupError::Timeout.into())) {
            Ok(()) => succeeded = Instant::now(),
            Err(error) if succeeded.elapsed() > args.give_up => return Err(error),
            // The next attempt may succeed.
            Err(error) => eprintln!("{}", error.0),
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            _ = ends.recv() => return Ok(()),
        }
    }
}

pub(super) async fn send(args: &SendArgs) -> Result<(), CliError> {
    let place = args.store.open(false)?;
    let prefix = args.store.prefix().unwrap_or(PREFIX);
    let (name, record) = find(&place, prefix, args).await?;
    let copy = record.copy().expect("only copies are found");
    let mut logs = Vec::new();
    // A copy has each write that was acknowledged before it was begun.
    let mut seen = args.until.is_none().then_some(record.time);
    if let Some(until) = &args.until {
        let found = shelf::logs(&place, prefix, &copy.data).await?;
        let all: Vec<_> =
            found.iter().filter_map(|(name, record)| Some((name.clone(), record.log()?.clone()))).collect();
        let end: Option<End> = shelf::read_document(&place, &archive::end_name(prefix, &copy.data)).await?;
        for (at, wanted) in chain::logs(copy, &all, end.as_ref(), until)?.into_iter().enumerate() {
            let (_, record) = found.iter().find(|(name, _)| name == wanted).expect("it is one of them");
            let file = format!("{at:06}");
            fetch(&place, wanted, record, &args.logs.join(&file)).await?;
            logs.push(file);
        }
        if *until == Until::End {
            seen = end.map(|end| end.seen);
        }
    }
    let mut headers = copy.headers.clone();
    headers.insert(HAS.to_owned(), copy.position.to_string());
    headers.extend(seen.map(|seen| (SEEN.to_owned(), seen.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())));
    let description = Description { name: name.clone(), form: copy.form, headers, logs, until: args.until.clone() };
    let text = serde_json::to_vec(&description).map_err(CliError::new)?;
    fs::write(&args.about, text).map_err(|error| CliError(format!("{}: {error}", args.about.display())))?;
    let mut out = std::io::stdout();
    let mut sink = |bytes: &[u8]| {
        out.write_all(bytes).map_err(|error| BackupError::Restore(format!("the receiver of the copy is gone: {error}")))
    };
    shelf::send(&place, &name, &record, &mut sink).await?;
    out.flush().map_err(CliError::new)?;
    Ok(())
}

/// The copy that is meant.
async fn find(place: &StorePlace, prefix: &str, args: &SendArgs) -> Result<(String, Record), CliError> {
    let is_latest = args.name == LATEST;
    let backups = shelf::list(place, if is_latest { Some(prefix) } else { None }).await?;
    let good = backups.into_iter().filter(|backup| is_latest || backup.name == args.name);
    let mut found = None;
    for backup in good {
        let record = backup.record.filter(|record| record.copy().is_some() && backup.condition == Condition::Good);
        let Some(record) = record else {
            if is_latest {
                continue;
            }
            return Err(BackupError::NotGood(format!("{place}: {} is not a good copy", args.name)).into());
        };
        found = Some(backup.name.clone());
        if record.copy().is_some_and(|copy| chain::fits(copy, args.until.as_ref())) {
            return Ok((backup.name, record));
        }
    }
    let why = match found {
        None if is_latest => format!("there is no good copy whose name begins with {prefix}"),
        None => format!("there is no backup {}", args.name),
        Some(_) if is_latest => "all copies have later writes than the requested ones".to_owned(),
        Some(name) => format!("{name} has later writes than the requested ones: begin with an older copy"),
    };
    Err(BackupError::NotGood(format!("{place}: {why}")).into())
}

/// Writes a log to a file.
async fn fetch(place: &StorePlace, name: &str, record: &Record, to: &std::path::Path) -> Result<(), CliError> {
    let in_file = |error: std::io::Error| BackupError::File { path: to.to_owned(), error };
    let mut file = fs::File::create(to).map_err(in_file)?;
    let mut sink = |bytes: &[u8]| file.write_all(bytes).map_err(in_file);
    shelf::send(place, name, record, &mut sink).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::until;
    use crate::agent::stored::Until;

    #[test]
    fn a_point_is_the_end_a_time_or_a_write() {
        assert_eq!(until("end"), Ok(Until::End));
        assert_eq!(until("2026-11-27T12:00:00Z"), Ok(Until::Time(1_795_780_800)));
        assert_eq!(until("2026-11-27T13:00:00+01:00"), Ok(Until::Time(1_795_780_800)));
        let write = Until::Write("0-1:150".parse().unwrap());
        assert_eq!((until("0-1-150"), until("0-1:150")), (Ok(write.clone()), Ok(write)));
        let write = Until::Write("3e11fa47-71ca-11e1-9e33-c80aa9429562:150".parse().unwrap());
        assert_eq!(until("3E11FA47-71CA-11E1-9E33-C80AA9429562:150"), Ok(write));
        for wrong in ["", "yesterday", "2026-11-27T12:00:00", "2026-11-27T12:30", "0-1:1-5", "0-1"] {
            assert!(until(wrong).is_err(), "{wrong}");
        }
    }
}

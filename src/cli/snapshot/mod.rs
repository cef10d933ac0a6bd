//! `tillerman snapshot`: backups of etcd, and of databases with one primary and replicas. Passwords and keys come from files and the environment only, in the names of etcdctl and
//! of the clouds' own programs.

mod agents;
mod etcd;
mod print;
mod replace;
mod store;

use std::ffi::OsString;
use std::fs;
use std::future::Future;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::backup::archive;
use crate::backup::drill::{Drill, drill};
use crate::backup::inspect::{Contents, inspect};
use crate::backup::restore::{Need, copy_self, need, restore};
use crate::backup::retain::Policy;
use crate::backup::shelf::{self, Which};
use crate::backup::{BackupError, take::take};

use crate::cli::common::error::CliError;
use crate::members::etcd::client::Access;
use etcd::{EtcdArgs, UserArgs};
use print::{Output, Shown};
use store::StoreArgs;

/// Backups of etcd, and of databases with one primary and replicas
#[derive(Debug, clap::Subcommand)]
pub(super) enum SnapshotCommand {
    /// Take a snapshot from the newest of the members, store it and read it back
    ///
    /// The snapshot holds every write that was acknowledged before: its member answers a linearizable read first. It
    /// counts as a backup when it was read back and equals the data that was sent; an attempt that ends before that
    /// leaves no backup.
    Save(SaveArgs),
    /// List backups, the newest first
    List(ListArgs),
    /// Read a whole backup and compare it with its record
    Verify(VerifyArgs),
    /// Delete old backups, but never the newest good one
    ///
    /// The command keeps the backups that --keep or --keep-newer selects, the newest good one of each cluster, and
    /// everything that is not a backup of this program. Before a good one is deleted, the newest is read.
    Prune(PruneArgs),
    /// Download a backup and verify it, unless there is a member already
    Fetch(FetchArgs),
    /// Restore a member with etcdutl, all of it or nothing, unless there is a member already
    Restore(RestoreArgs),
    /// Prove that a backup can be restored: start a member with it on this machine, and ask for its keys
    ///
    /// The backup is fetched and verified. etcdutl restores it into a temporary folder, and etcd serves it on loopback for as long as the
    /// drill takes. The drill succeeds if the member has all keys of the backup. No cluster is touched.
    Drill(DrillArgs),
    /// Replace the data of an `EtcdCluster` with a backup
    ///
    /// The backup is fetched and verified first. Then the cluster is paused, its members and their volumes are deleted, and the
    /// operator founds it again with the backup. It succeeds when the cluster answers and has the keys. For Jobs of an
    /// `EtcdRestore`.
    Replace(replace::ReplaceArgs),
    /// Take a copy of a database with one primary and replicas, store it while it comes, and read it back
    ///
    /// The copy is taken from the replica that lags least, or from the primary if there is no replica, and has every
    /// write that was acknowledged before.
    Copy(agents::CopyArgs),
    /// Store the writes to such a database since the last time, so that it can be restored to any time
    ///
    /// The command stores only writes that a fail-over keeps. The stored writes have no gap, or the command fails and
    /// shows the gap.
    Archive(agents::ArchiveArgs),
    /// Send a copy, for the container that restores: the program after -- of `tillerman-agent restore`
    Send(agents::SendArgs),
    /// Copy this program to a place where a container of another image runs it
    Install(agents::InstallArgs),
    /// Show the content of a snapshot in a file
    Status(StatusArgs),
}

/// Arguments of `save`.
#[derive(Debug, clap::Args)]
pub(super) struct SaveArgs {
    #[command(flatten)]
    etcd: EtcdArgs,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    keep: KeepArgs,
    #[arg(long, help = "The exact name of the backup, instead of PREFIX_vREVISION_TIME_HASH")]
    name: Option<String>,
    /// Replace the backup that has the name.
    #[arg(long, requires = "name")]
    overwrite: bool,
    /// Folder for the snapshot on its way.
    #[arg(long, value_name = "FOLDER", default_value_os_t = std::env::temp_dir())]
    temporary: PathBuf,
    /// Also write the result to this file, as JSON, with the fields for the status of an `EtcdBackup`.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// The backups to keep.
#[derive(Debug, clap::Args)]
struct KeepArgs {
    /// Keep this many backups of the prefix, the newest.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Keep backups that are not older than this.
    #[arg(long, value_name = "DURATION", value_parser = crate::kind::duration::parse)]
    keep_newer: Option<Duration>,
}

impl KeepArgs {
    fn policy(&self) -> Option<Policy> {
        let policy = Policy { last: self.keep.map(|n| n as usize), newer_than: self.keep_newer };
        (policy.last.is_some() || policy.newer_than.is_some()).then_some(policy)
    }
}

/// Arguments of `list`.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    output: Output,
}

/// Arguments of `verify`.
#[derive(Debug, clap::Args)]
pub(super) struct VerifyArgs {
    /// Its name, or `latest` for the newest good one of the prefix.
    #[arg(default_value = LATEST)]
    name: String,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    output: Output,
}

/// Arguments of `prune`.
#[derive(Debug, clap::Args)]
pub(super) struct PruneArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    keep: KeepArgs,
    /// Print what would be deleted.
    #[arg(long)]
    dry_run: bool,
}

/// Arguments of `fetch`.
#[derive(Debug, clap::Args)]
pub(super) struct FetchArgs {
    /// Its name, or `latest` for the newest good one of the prefix.
    #[arg(default_value = LATEST)]
    name: String,
    #[command(flatten)]
    store: StoreArgs,
    /// The file to write it to; its record is written next to it.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    #[command(flatten)]
    data: DataArgs,
    /// Copy this program to FILE, for the container that restores.
    #[arg(long, value_name = "FILE")]
    copy_self: Option<PathBuf>,
    /// Also accept a snapshot that another program stored: only the checksum at its end is known.
    #[arg(long)]
    without_record: bool,
}

/// Where a member's data is.
#[derive(Debug, clap::Args)]
struct DataArgs {
    /// The data folder of the member. With a member in it there is nothing to do.
    #[arg(long, value_name = "FOLDER", env = "ETCD_DATA_DIR")]
    data_dir: PathBuf,
    /// `existing` for a member that joins a cluster: then there is nothing to do.
    #[arg(long, value_name = "STATE", env = "ETCD_INITIAL_CLUSTER_STATE")]
    initial_cluster_state: Option<String>,
}

/// Arguments of `restore`.
#[derive(Debug, clap::Args)]
pub(super) struct RestoreArgs {
    /// The snapshot that was fetched.
    #[arg(long, value_name = "FILE")]
    snapshot: PathBuf,
    #[command(flatten)]
    data: DataArgs,
    /// The program that restores and its flags, except the snapshot and --data-dir: `etcdutl snapshot restore --name
    /// e-0 …`.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Arguments of `drill`.
#[derive(Debug, clap::Args)]
pub(super) struct DrillArgs {
    /// Its name, or `latest` for the newest good one of the prefix.
    #[arg(default_value = LATEST)]
    name: String,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    user: UserArgs,
    /// A key that must exist; can be repeated.
    #[arg(long, value_name = "KEY")]
    key: Vec<String>,
    /// The program etcd, of the version that serves the data.
    #[arg(long, value_name = "PROGRAM", default_value = "etcd")]
    etcd: PathBuf,
    /// The program etcdutl, of the same version.
    #[arg(long, value_name = "PROGRAM", default_value = "etcdutl")]
    etcdutl: PathBuf,
    /// Folder for the backup and the data, which needs twice the size of the backup.
    #[arg(long, value_name = "FOLDER", default_value_os_t = std::env::temp_dir())]
    temporary: PathBuf,
    /// Also write the result to this file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    /// The snapshot.
    file: PathBuf,
    #[command(flatten)]
    output: Output,
}

const LATEST: &str = "latest";
/// The time limit of each call to the member of a drill.
const CALL: Duration = Duration::from_secs(10);

impl From<BackupError> for CliError {
    fn from(error: BackupError) -> Self {
        Self(format!("{}: {error}", error.reason()))
    }
}

pub(super) fn run(command: &SnapshotCommand) -> Result<(), CliError> {
    match command {
        SnapshotCommand::Save(args) => in_time(&args.store, save(args)),
        SnapshotCommand::List(args) => in_time(&args.store, async {
            let place = args.store.open(false)?;
            args.output.list(&shelf::list(&place, args.store.prefix()).await?);
            Ok(())
        }),
        SnapshotCommand::Verify(args) => in_time(&args.store, async {
            let place = args.store.open(false)?;
            let (name, record) = shelf::verify(&place, which(&args.name, &args.store)).await?;
            args.output.backup("verified", &Shown { name: &name, record: &record });
            Ok(())
        }),
        SnapshotCommand::Prune(args) => in_time(&args.store, prune(args)),
        SnapshotCommand::Fetch(args) => in_time(&args.store, fetch(args)),
        SnapshotCommand::Restore(args) => put_back(args),
        SnapshotCommand::Drill(args) => in_time(&args.store, prove(args)),
        SnapshotCommand::Replace(args) => in_time(args.store(), replace::replace(args)),
        SnapshotCommand::Copy(args) => in_time(args.store(), agents::copy(args)),
        SnapshotCommand::Archive(args) if args.repeats() => forever(agents::archive_often(args)),
        SnapshotCommand::Archive(args) => in_time(args.store(), agents::archive_once(args)),
        SnapshotCommand::Send(args) => in_time(args.store(), agents::send(args)),
        SnapshotCommand::Install(args) => agents::install(args),
        SnapshotCommand::Status(args) => {
            let damaged = |damage| BackupError::Damaged { name: args.file.display().to_string(), damage };
            let (sum, contents) = inspect(&args.file).map_err(damaged)?;
            args.output.status(&sum, &contents);
            Ok(())
        }
    }
}

/// Runs until it is done or too late.
fn in_time(store: &StoreArgs, work: impl Future<Output = Result<(), CliError>>) -> Result<(), CliError> {
    let done = forever(async { Ok(tokio::time::timeout(store.timeout, work).await) })?;
    done.unwrap_or_else(|_| Err(BackupError::Timeout.into()))
}

/// Runs until it is done.
fn forever<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(CliError::new)?;
    let done = runtime.block_on(work);
    // A request that was started and is no longer awaited ends with the process.
    runtime.shutdown_background();
    done
}

async fn save(args: &SaveArgs) -> Result<(), CliError> {
    let place = args.store.open(true)?;
    let access = args.etcd.access()?;
    let file = Temporary(args.temporary.join(format!(".snapshot-{}", std::process::id())));
    let record = take(&access, &args.etcd.endpoints, &file.0).await?;
    let name = args.name.clone().unwrap_or_else(|| record.name(args.store.name_prefix()));
    let record = shelf::save(&place, &name, &file.0, &record, args.overwrite).await?;
    let shown = Shown { name: &name, record: &record };
    args.output.backup("saved", &shown);
    shown.write_report(args.report.as_deref())?;
    if let Some(policy) = args.keep.policy() {
        let pruned = shelf::prune(&place, args.store.name_prefix(), policy, Some(&name), false).await;
        let pruned =
            pruned.map_err(|error| CliError(format!("{name} was saved, but old backups were not deleted: {error}")))?;
        for name in pruned {
            eprintln!("deleted {name}");
        }
    }
    Ok(())
}

async fn prune(args: &PruneArgs) -> Result<(), CliError> {
    let policy = args
        .keep
        .policy()
        .ok_or_else(|| CliError("give --keep or --keep-newer: they say which backups are kept".into()))?;
    let place = args.store.open(false)?;
    let names = shelf::prune(&place, args.store.name_prefix(), policy, None, args.dry_run).await?;
    let logs = archive::prune(&place, args.store.name_prefix(), args.dry_run).await?;
    for name in names.into_iter().chain(logs) {
        println!("{name}");
    }
    Ok(())
}

async fn fetch(args: &FetchArgs) -> Result<(), CliError> {
    if let Some(to) = &args.copy_self {
        copy_self(to)?;
    }
    if !args.data.is_needed()? {
        return Ok(());
    }
    let place = args.store.open(false)?;
    let (name, contents) = shelf::fetch(&place, which(&args.name, &args.store), &args.to, args.without_record).await?;
    println!("fetched {name}: revision {}, {} keys", contents.revision, contents.keys);
    Ok(())
}

fn put_back(args: &RestoreArgs) -> Result<(), CliError> {
    if args.data.is_needed()? {
        restore(&args.data.data_dir, &args.snapshot, &args.program)?;
        println!("restored {}", args.data.data_dir.display());
    }
    Ok(())
}

async fn prove(args: &DrillArgs) -> Result<(), CliError> {
    let place = args.store.open(false)?;
    let folder = TemporaryFolder::new(args.temporary.join(format!(".drill-{}", std::process::id())))?;
    let access = Access { tls: None, user: args.user.user()?, timeout: CALL };
    let proof = drill(
        &place,
        Drill {
            which: which(&args.name, &args.store),
            folder: &folder.0,
            etcd: &args.etcd,
            etcdutl: &args.etcdutl,
            access: &access,
            keys: &args.key,
        },
    )
    .await?;
    let Contents { revision, keys, .. } = proof.contents;
    let text = format!(
        "proved {}: revision {revision}, {keys} keys, in {:.1} seconds\n",
        proof.name,
        proof.took.as_secs_f64()
    );
    print!("{text}");
    if let Some(path) = &args.report {
        fs::write(path, text).map_err(|error| CliError(format!("{}: {error}", path.display())))?;
    }
    Ok(())
}

impl DataArgs {
    fn is_needed(&self) -> Result<bool, CliError> {
        let need = need(&self.data_dir, self.initial_cluster_state.as_deref())?;
        match need {
            Need::Restore => {}
            Need::HasMember => println!("{} has a member: nothing to do", self.data_dir.display()),
            Need::Joins => println!("the member joins an existing cluster: nothing to do"),
        }
        Ok(need == Need::Restore)
    }
}

fn which<'a>(name: &'a str, store: &'a StoreArgs) -> Which<'a> {
    if name == LATEST { Which::Latest(store.name_prefix()) } else { Which::Name(name) }
}

/// A folder that is removed with all it holds when it is no longer needed.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Makes it, for its owner alone.
    fn new(path: PathBuf) -> Result<Self, CliError> {
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| CliError(format!("{}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A file that is removed when it is no longer needed.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

//! Proves that a backup of etcd can be restored: a member of its own starts with the data, and is asked for the keys.
//!
//! The member belongs to no cluster. It listens on loopback for as long as the drill takes, and its data is removed with the folder.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use etcd_client::{Client, GetOptions};
use tokio::time::{sleep, timeout};

use super::BackupError;
use super::inspect::Contents;
use super::place::StorePlace;
use super::restore::restore;
use super::shelf::{self, Which};
use super::take::plain;
use crate::members::etcd::client::Access;

/// How often the member is asked until it answers.
const AGAIN: Duration = Duration::from_millis(100);
/// The end of the member's output that an error shows, in bytes.
const LAST: u64 = 400;
/// gRPC's code of a server that cannot answer now.
const UNAVAILABLE: i32 = 14;
/// The name of the member.
const NAME: &str = "drill";

/// A drill.
#[derive(Clone, Copy)]
pub struct Drill<'a> {
    /// The backup.
    pub which: Which<'a>,
    /// An empty folder for the backup and the data.
    pub folder: &'a Path,
    pub etcd: &'a Path,
    pub etcdutl: &'a Path,
    /// The user, where the data has authentication enabled, and the time limit of each call.
    pub access: &'a Access,
    /// Keys that must exist.
    pub keys: &'a [String],
}

/// What a drill has shown.
pub struct Proof {
    /// The name of the backup.
    pub name: String,
    pub contents: Contents,
    /// From the download to the last answer.
    pub took: Duration,
}

/// Restores a backup and asks for its keys.
///
/// # Errors
/// There is no good backup, or it is damaged; `etcdutl` or `etcd` fails; the member has other keys than the backup, or lacks one of
/// [`Drill::keys`].
pub async fn drill(place: &StorePlace, drill: Drill<'_>) -> Result<Proof, BackupError> {
    let began = Instant::now();
    let (snapshot, data) = (drill.folder.join("snapshot.db"), drill.folder.join("data"));
    let (name, contents) = shelf::fetch(place, drill.which, &snapshot, false).await?;
    let (client, peer) = (free_url()?, free_url()?);
    let cluster = format!("{NAME}={peer}");
    let utility = drill.etcdutl.as_os_str().to_owned();
    let words =
        ["snapshot", "restore", "--name", NAME, "--initial-cluster", &cluster, "--initial-advertise-peer-urls", &peer];
    let program: Vec<_> = [utility].into_iter().chain(words.map(Into::into)).collect();
    // The time limit of the command also counts for a program that hangs.
    let restored = data.clone();
    let ended = tokio::task::spawn_blocking(move || restore(&restored, &snapshot, &program)).await;
    ended.unwrap_or_else(|error| Err(BackupError::Restore(error.to_string())))?;
    let mut member = Member::start(&drill, &data, &client, &peer, &cluster)?;
    let connection = member.answers(drill.access, &client).await?;
    compare(connection, &drill, &contents).await?;
    Ok(Proof { name, contents, took: began.elapsed() })
}

/// An address of loopback that nobody uses now.
fn free_url() -> Result<String, BackupError> {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = address.map_err(|error| BackupError::Restore(format!("no address of loopback is free: {error}")))?;
    Ok(format!("http://{address}"))
}

/// Compares the keys of the member with those of the backup. At the backup's revision, no lease has expired.
async fn compare(mut client: Client, drill: &Drill<'_>, contents: &Contents) -> Result<(), BackupError> {
    let revision = i64::try_from(contents.revision).unwrap_or(i64::MAX);
    let at = || GetOptions::new().with_revision(revision).with_count_only();
    let mut count = async |key: &str, options: GetOptions| match timeout(
        drill.access.timeout,
        client.get(key, Some(options)),
    )
    .await
    {
        Ok(Ok(found)) => Ok(u64::try_from(found.count()).unwrap_or_default()),
        Ok(Err(error)) => Err(BackupError::Restore(format!("the restored member refuses a read: {}", plain(&error)))),
        Err(_) => Err(BackupError::Restore("the restored member does not answer a read".to_owned())),
    };
    let keys = count("\0", at().with_from_key()).await?;
    if keys != contents.keys {
        let why = format!("the restored member has {keys} keys, and the backup has {}", contents.keys);
        return Err(BackupError::Restore(why));
    }
    for key in drill.keys {
        if count(key, at()).await? == 0 {
            return Err(BackupError::Restore(format!("the restored member lacks the key {key:?}")));
        }
    }
    Ok(())
}

/// Whether a member answers, and refuses. A member that starts is not available.
fn is_refusal(error: &etcd_client::Error) -> bool {
    matches!(error, etcd_client::Error::GRpcStatus(status) if i32::from(status.code()) != UNAVAILABLE)
}

/// The member; killed when dropped.
struct Member {
    process: Child,
    output: PathBuf,
}

impl Member {
    fn start(drill: &Drill<'_>, data: &Path, client: &str, peer: &str, cluster: &str) -> Result<Self, BackupError> {
        let output = drill.folder.join("output");
        let file = File::create(&output).map_err(BackupError::file(&output))?;
        let mut command = Command::new(drill.etcd);
        // Settings of the members of a cluster are not those of this one.
        let of_etcd = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("ETCD_");
        std::env::vars_os().map(|(name, _)| name).filter(of_etcd).for_each(|name| {
            command.env_remove(name);
        });
        let process = command
            .args(["--name", NAME, "--initial-cluster", cluster, "--log-level", "error"])
            .args(["--listen-client-urls", client, "--advertise-client-urls", client])
            .args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer])
            .arg("--data-dir")
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn();
        let shown = drill.etcd.display();
        let process =
            process.map_err(|error| BackupError::Restore(format!("{shown} could not be started: {error}")))?;
        Ok(Self { process, output })
    }

    /// A connection to it, as soon as it has a leader.
    async fn answers(&mut self, access: &Access, url: &str) -> Result<Client, BackupError> {
        loop {
            let ended = self.process.try_wait().map_err(BackupError::file(&self.output))?;
            if let Some(ended) = ended {
                return Err(BackupError::Restore(format!("the restored member ended: {ended}: {}", self.last_words())));
            }
            match timeout(access.timeout, access.client(url)).await {
                Ok(Ok(mut client)) => {
                    if let Ok(Ok(status)) = timeout(access.timeout, client.status()).await
                        && status.leader() != 0
                    {
                        return Ok(client);
                    }
                }
                Ok(Err(error)) if is_refusal(&error) => {
                    let why = format!("the restored member refuses the user: {}", plain(&error));
                    return Err(BackupError::Restore(why));
                }
                _ => {}
            }
            sleep(AGAIN).await;
        }
    }

    fn last_words(&self) -> String {
        let read = || {
            let mut file = File::open(&self.output)?;
            let size = file.metadata()?.len();
            file.seek(SeekFrom::Start(size.saturating_sub(LAST)))?;
            let mut text = Vec::new();
            file.read_to_end(&mut text).map(|_| text)
        };
        match read() {
            Ok(text) => String::from_utf8_lossy(&text).trim().to_owned(),
            Err(error) => format!("its output cannot be read: {error}"),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

//! Installs the data of a restored member: all of it, or nothing.
//!
//! `etcdutl snapshot restore` writes the data into a folder beside the final one. Only data that is complete
//! and on disk gets the final name, by one rename. A run that ends before that leaves a folder that the next run
//! removes. A run that ends after it leaves a member, which no run touches.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use super::BackupError;
use super::inspect::inspect;

/// The folder in a data folder that is the member: etcd's own name.
const MEMBER: &str = "member";
/// The prefix of the names of unfinished restores.
const UNFINISHED: &str = ".restore-";

/// Whether there is anything to restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// There is no data, and the member may begin a cluster.
    Restore,
    /// There is a member, which nothing may overwrite.
    HasMember,
    /// The member joins a cluster that is there, and gets its data from it. This includes a member that lost its data later: from a
    /// snapshot it would begin a second cluster.
    Joins,
}

/// Whether to restore into a data folder. `state` is the member's `ETCD_INITIAL_CLUSTER_STATE`.
pub fn need(data: &Path, state: Option<&str>) -> Result<Need, BackupError> {
    match fs::symlink_metadata(data.join(MEMBER)) {
        Ok(_) => return Ok(Need::HasMember),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(BackupError::file(data.join(MEMBER))(error)),
    }
    match state {
        None | Some("" | "new") => Ok(Need::Restore),
        Some("existing") => Ok(Need::Joins),
        Some(other) => {
            Err(BackupError::Invalid(format!("a cluster's initial state is new or existing, not {other:?}")))
        }
    }
}

/// Restores a snapshot with a program such as `etcdutl snapshot restore --name …`, which gets the snapshot and the folder as arguments.
pub fn restore(data: &Path, snapshot: &Path, program: &[OsString]) -> Result<(), BackupError> {
    let [name, arguments @ ..] = program else {
        return Err(BackupError::Invalid(
            "the program that restores is missing, such as: -- etcdutl snapshot restore".into(),
        ));
    };
    let is_ours = |argument: &OsString| {
        let flag = argument.to_string_lossy();
        ["--data-dir", "--wal-dir"].contains(&flag.split('=').next().unwrap_or_default())
    };
    if arguments.iter().any(is_ours) {
        return Err(BackupError::Invalid(
            "do not give --data-dir and --wal-dir to the program that restores: they are added".into(),
        ));
    }
    inspect(snapshot).map_err(BackupError::damaged(snapshot.display().to_string()))?;
    fs::create_dir_all(data).map_err(BackupError::file(data))?;
    remove_unfinished(data)?;
    // No other run's program can be writing into a folder of this name.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let folder = data.join(format!("{UNFINISHED}{}-{now}", std::process::id()));
    let ended = Command::new(name).args(arguments).arg(snapshot).arg("--data-dir").arg(&folder).status();
    let shown = Path::new(name).display();
    let ended = ended.map_err(|error| BackupError::Restore(format!("{shown} could not be started: {error}")))?;
    if !ended.success() {
        return Err(BackupError::Restore(format!("{shown} failed: {ended}")));
    }
    let member = folder.join(MEMBER);
    for part in ["snap/db", "wal"] {
        if !member.join(part).exists() {
            return Err(BackupError::Restore(format!("{shown} left no {MEMBER}/{part}")));
        }
    }
    sync(&member)?;
    let place = data.join(MEMBER);
    fs::rename(&member, &place).map_err(BackupError::file(&place))?;
    sync_one(data)?;
    remove_unfinished(data)
}

/// Copies the running program to where another image's container runs it.
pub fn copy_self(to: &Path) -> Result<(), BackupError> {
    let from = std::env::current_exe().map_err(BackupError::file("the running program"))?;
    let part = beside(to, ".part");
    // The mode is copied, too.
    fs::copy(&from, &part).map_err(BackupError::file(&part))?;
    fs::rename(&part, to).map_err(BackupError::file(to))
}

/// A file's path with something behind its name.
pub(super) fn beside(file: &Path, suffix: impl AsRef<OsStr>) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn remove_unfinished(data: &Path) -> Result<(), BackupError> {
    for entry in fs::read_dir(data).map_err(BackupError::file(data))? {
        let path = entry.map_err(BackupError::file(data))?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(UNFINISHED)) {
            fs::remove_dir_all(&path).map_err(BackupError::file(&path))?;
        }
    }
    Ok(())
}

/// Waits until a folder with all it holds is on disk.
fn sync(folder: &Path) -> Result<(), BackupError> {
    for entry in fs::read_dir(folder).map_err(BackupError::file(folder))? {
        let path = entry.map_err(BackupError::file(folder))?.path();
        if path.is_dir() {
            sync(&path)?;
        } else {
            sync_one(&path)?;
        }
    }
    sync_one(folder)
}

fn sync_one(path: &Path) -> Result<(), BackupError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(BackupError::file(path))
}

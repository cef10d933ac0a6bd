//! Copies of MySQL. The database makes a copy of itself beside its data (`CLONE LOCAL DATA DIRECTORY`), which is sent as a tar archive and
//! then removed. So a donor needs room for its data twice, and says so if it has not.
//!
//! A copy has the position of its own: the tables that have it are a part of it, and it has no binary log.

use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use tar::{Archive, Builder, EntryType, Header};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::block_in_place;

use super::facts::ReplicaSource;
use super::keeper::SHORT;
use super::member::{DatabaseMember, failed, refusal};
use super::process::Process;
use super::seed::{PART, STALLS};
use super::sql::{Sql, SqlError};
use tillerman_agent::contract::{Busy, Reason, Refusal, Role};
use tillerman_agent::server::{Body, in_parts};
use tillerman_agent::stored::{DATA, VERSION};

/// How often the receiver hears of a copy that the database still makes.
const ALIVE: Duration = Duration::from_secs(10);
/// The space that stays free beside a copy, in MiB.
const ROOM: u64 = 256;

/// The format of a copy.
type Parts = mpsc::Sender<io::Result<Bytes>>;

/// A copy of the data. It ends early if it cannot be completed.
pub async fn copy_out(member: &Arc<DatabaseMember>) -> Result<Response<Body>, Refusal> {
    let (identity, process, marks) =
        member.facts(|facts| (facts.identity.clone(), facts.running.clone(), (facts.role, facts.source.clone())));
    let identity = identity.ok_or_else(|| refusal(Reason::OtherData, "there is no data to copy"))?;
    let process = process.ok_or_else(|| refusal(Reason::DatabaseDown, "the database does not run"))?;
    let Ok(guard) = Arc::clone(&member.copies).try_lock_owned() else {
        return Err(refusal(Reason::Busy, "another copy is being made"));
    };
    let version = member.sql().await?.rows("SELECT @@version AS version", SHORT).await?;
    let version = version.first().map(|row| row.text("version")).unwrap_or_default();
    let folder = member.volume.copying();
    let error = |error: io::Error| failed(&format!("{}: {error}", folder.display()));
    // Large files take seconds: the other tasks continue meanwhile, here and below.
    let _ = block_in_place(|| fs::remove_dir_all(&folder));
    fs::create_dir(&folder).map_err(error)?;
    block_in_place(|| has_room(&member.volume.data())).map_err(|why| refusal(Reason::Impossible, &why))?;
    let (sender, parts) = mpsc::channel(2);
    member.change(|facts| facts.busy = Some(Busy { work: "copy".to_owned(), done: 0, of: None }));
    let donor = Arc::clone(member);
    tokio::spawn(async move {
        if let Err(error) = give(&donor, &process, &sender, &marks).await {
            tracing::error!(%error, "a copy failed");
            let _ = sender.send(Err(error)).await;
        }
        donor.change(|facts| facts.busy = None);
        let _ = block_in_place(|| fs::remove_dir_all(donor.volume.copying()));
        drop(guard);
    });
    let response = Response::builder().status(StatusCode::OK).header(DATA, identity.data).header(VERSION, version);
    response.body(in_parts(parts)).map_err(|error| failed(&error.to_string()))
}

/// Whether a copy fits beside the data. Without room for its writes, the database itself would stop.
fn has_room(data: &Path) -> Result<(), String> {
    let volume = rustix::fs::statvfs(data).map_err(|error| format!("{}: {error}", data.display()))?;
    let free = volume.f_bavail.saturating_mul(volume.f_frsize) >> 20;
    let needed = (size(data).map_err(|error| format!("{}: {error}", data.display()))? >> 20) + ROOM;
    if free >= needed {
        return Ok(());
    }
    Err(format!("a copy needs {needed} MiB beside the data, and {free} MiB are free: enlarge the volume"))
}

/// The bytes of a copy: everything except the logs of replication.
fn size(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_log = ["binlog.", "relay."].iter().any(|log| name.to_string_lossy().starts_with(log));
        // Tables come and go meanwhile.
        let Ok(about) = entry.metadata() else { continue };
        if about.is_dir() {
            bytes += size(&entry.path()).unwrap_or_default();
        } else if !is_log {
            bytes += about.len();
        }
    }
    Ok(bytes)
}

/// Makes the copy, and sends it.
async fn give(
    member: &Arc<DatabaseMember>,
    process: &Process,
    parts: &Parts,
    marks: &(Role, Option<ReplicaSource>),
) -> io::Result<()> {
    let copy = member.volume.copying().join("clone");
    make(process, &copy, parts).await?;
    let (donor, sender) = (Arc::clone(member), parts.clone());
    let sent = tokio::task::spawn_blocking(move || send(donor, &copy, sender)).await;
    sent.map_err(|_| io::Error::other("the copy was not sent: see the log of the agent"))??;
    if member.facts(|facts| (facts.role, facts.source.clone())) != *marks {
        return Err(io::Error::other("the role of this member has changed"));
    }
    Ok(())
}

/// The database copies itself. It may take long, and the receiver hears meanwhile that the copy comes.
async fn make(process: &Process, copy: &Path, parts: &Parts) -> io::Result<()> {
    let path = copy.to_str().filter(|path| !path.contains(['\'', '\\']));
    let path = path.ok_or_else(|| io::Error::other("the path of the volume cannot be written in a statement"))?;
    let statement = format!("CLONE LOCAL DATA DIRECTORY = '{path}'");
    let clone = async {
        let mut sql = process.login.connect(SHORT).await?;
        sql.run(&statement, Duration::MAX).await
    };
    let mut clone = std::pin::pin!(clone);
    let mut alive = tokio::time::interval(ALIVE);
    loop {
        tokio::select! {
            done = &mut clone => {
                return done.map_err(|error| io::Error::other(format!("the database does not copy itself: {error}")));
            }
            () = process.ended() => return Err(io::Error::other("the database has ended")),
            _ = alive.tick() => {
                let sent = parts.send(Ok(Bytes::copy_from_slice(folder_again().as_bytes()))).await;
                sent.map_err(|_| io::Error::other("the receiver is gone"))?;
            }
        }
    }
}

/// An entry of an archive that changes nothing: the folder that there is.
fn folder_again() -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Directory);
    header.as_mut_bytes()[..2].copy_from_slice(b"./");
    header.set_mode(0o750);
    header.set_size(0);
    header.set_mtime(0);
    header.set_cksum();
    header
}

fn send(member: Arc<DatabaseMember>, copy: &Path, parts: Parts) -> io::Result<()> {
    let mut archive = Builder::new(BufWriter::with_capacity(PART, Sink { member, parts }));
    archive.follow_symlinks(false);
    archive.append_dir_all(".", copy)?;
    archive.into_inner()?.flush()
}

/// Sends the written data.
struct Sink {
    member: Arc<DatabaseMember>,
    parts: Parts,
}

impl Write for Sink {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        let sent = async { tokio::time::timeout(STALLS, self.parts.send(Ok(Bytes::copy_from_slice(part)))).await };
        let sent = Handle::current().block_on(sent);
        sent.map_err(|_| io::Error::other("the receiver reads nothing"))?
            .map_err(|_| io::Error::other("the receiver is gone"))?;
        count(&self.member, part.len());
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn count(member: &DatabaseMember, bytes: usize) {
    member.change(|facts| {
        if let Some(busy) = &mut facts.busy {
            busy.done += bytes as u64;
        }
    });
}

/// The parts of another member's copy. A copy that ends early is an error.
pub fn parts(mut copy: Incoming) -> mpsc::Receiver<Result<Bytes, String>> {
    let (parts, receiver) = mpsc::channel(2);
    tokio::spawn(async move {
        loop {
            let part = match tokio::time::timeout(STALLS, copy.frame()).await {
                Ok(None) => return,
                Ok(Some(Ok(frame))) => frame.into_data().map(Ok),
                Ok(Some(Err(error))) => Ok(Err(format!("the copy is not complete: {error}"))),
                Err(_) => Ok(Err("the donor sends nothing".to_owned())),
            };
            // Frames without data do not matter.
            let Ok(part) = part else { continue };
            let is_last = part.is_err();
            if parts.send(part).await.is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

/// Unpacks a copy. An error in place of a part ends it.
pub async fn unpack(
    member: &DatabaseMember,
    mut copy: mpsc::Receiver<Result<Bytes, String>>,
    arriving: &Path,
) -> Result<(), String> {
    let (sender, parts) = mpsc::channel(2);
    let folder = arriving.to_owned();
    let unpacked = tokio::task::spawn_blocking(move || write(Stream { parts, part: Bytes::new() }, &folder));
    let mut failed = None;
    while let Some(part) = copy.recv().await {
        match part {
            Ok(part) => {
                count(member, part.len());
                if sender.send(part).await.is_err() {
                    break;
                }
            }
            Err(why) => failed = Some(why),
        }
    }
    drop(sender);
    let unpacked = unpacked.await.map_err(|_| "the copy was not unpacked: see the log of the agent")?;
    if let Some(why) = failed {
        return Err(why);
    }
    unpacked.map_err(|error| {
        // The first error names the file, and the cause is below it.
        let cause = error.get_ref().and_then(|error| error.source()).map(|cause| format!(": {cause}"));
        format!("the copy cannot be unpacked: {error}{}", cause.unwrap_or_default())
    })
}

/// Writes the files of an archive. An entry that is neither a file nor a folder is refused, and so is a path that leads
/// out of the folder.
fn write(mut stream: Stream, folder: &Path) -> io::Result<()> {
    let mut archive = Archive::new(&mut stream);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        let path: PathBuf = entry.path()?.into_owned();
        let is_known = kind.is_file() || kind.is_dir() || kind.is_gnu_sparse();
        if !is_known || !entry.unpack_in(folder)? {
            return Err(io::Error::other(format!("{} is not a file of a copy", path.display())));
        }
    }
    // The end of an archive is followed by nothing, but for what fills it up.
    io::copy(&mut stream, &mut io::sink()).map(|_| ())
}

/// The arriving data, as a reader.
struct Stream {
    parts: mpsc::Receiver<Bytes>,
    part: Bytes,
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() {
            let Some(part) = self.parts.blocking_recv() else { return Ok(0) };
            self.part = part;
        }
        let length = buffer.len().min(self.part.len());
        buffer[..length].copy_from_slice(&self.part.split_to(length));
        Ok(length)
    }
}

/// A copy of a replica has the source of the donor, and knows the names of its logs.
pub async fn forget_source(sql: &mut Sql) -> Result<(), String> {
    let done: Result<(), SqlError> = sql.run("RESET REPLICA ALL", Duration::from_secs(60)).await;
    done.map_err(|error| format!("the copy still has the source of the donor: {error}"))
}

#[cfg(test)]
mod tests {
    use super::{Stream, folder_again, write};
    use hyper::body::Bytes;
    use std::fs;
    use std::io::Write as _;
    use std::path::{Path, PathBuf};

    /// An archive in small parts.
    fn unpacked(archive: &[u8], folder: &Path) -> std::io::Result<()> {
        let (sender, parts) = tokio::sync::mpsc::channel(archive.len() + 1);
        for part in archive.chunks(100) {
            sender.try_send(Bytes::copy_from_slice(part)).unwrap();
        }
        drop(sender);
        write(Stream { parts, part: Bytes::new() }, folder)
    }

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("tillerman-clone-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("from/#innodb_redo")).unwrap();
        fs::create_dir(path.join("to")).unwrap();
        path
    }

    #[test]
    fn an_archive_is_unpacked_after_signs_of_life() {
        let root = folder("whole");
        fs::write(root.join("from/ibdata1"), [7; 3000]).unwrap();
        fs::write(root.join("from/#innodb_redo/#ib_redo1"), "x").unwrap();
        let mut archive = [*folder_again().as_bytes(); 2].concat();
        let mut builder = tar::Builder::new(&mut archive);
        builder.append_dir_all(".", root.join("from")).unwrap();
        builder.into_inner().unwrap().flush().unwrap();
        unpacked(&archive, &root.join("to")).unwrap();
        assert_eq!(fs::read(root.join("to/ibdata1")).unwrap(), [7; 3000]);
        assert_eq!(fs::read(root.join("to/#innodb_redo/#ib_redo1")).unwrap(), b"x");
        // One that is cut within a file is none.
        assert!(unpacked(&archive[..2048], &root.join("to")).is_err());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_is_no_file_or_lies_outside_is_refused() {
        let root = folder("hostile");
        for (name, kind) in [
            ("../out", tar::EntryType::Regular),
            ("link", tar::EntryType::Symlink),
            ("hard", tar::EntryType::Link),
            ("device", tar::EntryType::Char),
        ] {
            let mut header = tar::Header::new_gnu();
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(kind);
            header.set_link_name("/etc/passwd").unwrap();
            header.set_size(0);
            header.set_mode(0o600);
            header.set_cksum();
            let archive = [header.as_bytes().as_slice(), &[0; 1024]].concat();
            assert!(unpacked(&archive, &root.join("to")).is_err(), "{name}");
            assert!(!root.join("out").exists() && fs::read_dir(root.join("to")).unwrap().next().is_none());
        }
        fs::remove_dir_all(root).unwrap();
    }
}

//! Stores, lists, verifies, fetches and deletes the backups of a place.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use hyper::body::Bytes;
use jiff::Timestamp;
use object_store::{Error, ObjectStoreExt, PutPayload, WriteMultipart};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::BackupError;
use super::bolt::Damage;
use super::inspect::{Contents, Sum, Sums, inspect};
use super::place::{StorePlace, leftovers};
use super::record::{BackupState, Record, SUFFIX, log_stem, stem};
use super::retain::{Policy, expired};

/// Bytes of a part of an upload. S3 takes 10,000 parts.
const PART: usize = 8 << 20;
/// Parts on their way at once.
const PARTS: usize = 4;
/// The same for data of unknown size: 312 GiB at most.
const STREAM_PART: usize = 32 << 20;
const STREAM_PARTS: usize = 2;
/// Records read at once.
const RECORDS: usize = 8;
/// Bytes of a record that is read.
const LARGEST_RECORD: u64 = 64 << 10;
/// How long a store may send nothing.
const SILENCE: Duration = Duration::from_secs(60);
/// How long cleaning up after a failure may take.
const CLEANUP: Duration = Duration::from_secs(30);
/// Names leftovers of uploads whose process is gone for certain.
const LEFTOVER: Duration = Duration::from_secs(24 * 3600);

/// A backup that is there.
#[derive(Clone, Debug)]
pub struct Backup {
    /// Its name within the place.
    pub name: String,
    /// Whether it is good.
    pub condition: Condition,
    /// The facts about it.
    pub record: Option<Record>,
}

/// Whether a backup is good, as far as can be seen without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It was read back when it was stored, and has its size.
    Good,
    /// It is being stored, or whoever stored it was ended.
    Unfinished,
    /// Its record exists, and the content differs from it.
    Damaged(String),
    /// Nothing is known of it: another program stored it.
    Unknown,
}

impl Backup {
    /// When its snapshot was taken.
    pub fn time(&self) -> Option<Timestamp> {
        self.record.as_ref().map(|record| record.time)
    }
}

/// Which backup is meant.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// The one of this name.
    Name(&'a str),
    /// The newest good one of those whose names begin like this.
    Latest(&'a str),
}

/// Stores a snapshot and reads it back. Only then its record says that it is verified, and this succeeds. A name that
/// is taken is an error, unless the backup of that name was never finished or may be overwritten. Then the old backup is gone, even
/// if this fails.
pub async fn save(
    place: &StorePlace,
    name: &str,
    file: &Path,
    record: &Record,
    overwrite: bool,
) -> Result<Record, BackupError> {
    let taken = match read_record(place, name).await? {
        Some(known) => known.state == BackupState::Verified,
        None => exists(place, name).await?,
    };
    if taken && !overwrite {
        return Err(BackupError::Exists(format!("{place}: there is a backup {name} already")));
    }
    let mut record = Record { state: BackupState::Unverified, ..record.clone() };
    write_record(place, name, &record).await?;
    let stored = match upload(place, name, file).await {
        Ok(()) => same(place, name, &record).await,
        Err(error) => Err(error),
    };
    if let Err(error) = stored {
        drop(timeout(CLEANUP, delete(place, name)).await);
        return Err(error);
    }
    record.state = BackupState::Verified;
    write_record(place, name, &record).await?;
    Ok(record)
}

/// Stores what comes, and reads it back. `seal` gets the record when all has come. Only when what was read back is what had come, the
/// record says that it is verified, and this succeeds. Nothing of it needs a file here.
pub async fn save_stream(
    place: &StorePlace,
    name: &str,
    begun: &Record,
    parts: impl Stream<Item = Result<Bytes, BackupError>>,
    seal: impl FnOnce(&mut Record),
) -> Result<Record, BackupError> {
    if read_record(place, name).await?.is_some() || exists(place, name).await? {
        return Err(BackupError::Exists(format!("{place}: there is a backup {name} already")));
    }
    write_record(place, name, begun).await?;
    let mut record = begun.clone();
    let stored = async {
        let sum = upload_stream(place, name, parts).await?;
        (record.size, record.sha256) = (sum.size, sum.sha256);
        seal(&mut record);
        same(place, name, &record).await
    };
    if let Err(error) = stored.await {
        drop(timeout(CLEANUP, delete(place, name)).await);
        return Err(error);
    }
    record.state = BackupState::Verified;
    write_record(place, name, &record).await?;
    Ok(record)
}

/// Gives a whole backup to the sink, and compares it with its record at the end. Data that the sink got before an error
/// must not be used.
pub async fn send(place: &StorePlace, name: &str, record: &Record, sink: Sink<'_>) -> Result<(), BackupError> {
    check(name, &download(place, name, record.etcd().is_some(), Some(sink)).await?, Some(record))
}

/// The good logs of some data, from old to new, of the names that are wanted.
pub async fn logs(place: &StorePlace, prefix: &str, data: &str) -> Result<Vec<(String, Record)>, BackupError> {
    let objects = place.store.list_with_delimiter(Some(&place.folder)).await;
    let objects = objects.map_err(|error| place.error("list", &error))?.objects;
    let stem = log_stem(prefix, data);
    let names = objects.iter().filter_map(|object| object.location.filename()?.strip_suffix(SUFFIX).map(str::to_owned));
    let names = names.filter(|name| name.starts_with(&stem));
    let read = stream::iter(names.map(async |name| Ok((read_record(place, &name).await?, name))));
    let read: Vec<Result<_, BackupError>> = read.buffered(RECORDS).collect().await;
    let mut logs = Vec::new();
    for found in read {
        if let (Some(record), name) = found?
            && record.state == BackupState::Verified
            && record.log().is_some_and(|log| log.data == data)
        {
            logs.push((name, record));
        }
    }
    logs.sort_by(|a, b| (a.1.time, &a.0).cmp(&(b.1.time, &b.0)));
    Ok(logs)
}

/// Reads a small document, which is stored as records are; `None` if there is none, or it is not understood.
pub async fn read_document<T: DeserializeOwned>(place: &StorePlace, name: &str) -> Result<Option<T>, BackupError> {
    let Some(bytes) = read_small(place, &place.record(name)?).await? else { return Ok(None) };
    Ok(serde_json::from_slice(&bytes).ok())
}

/// Replaces a small document.
pub async fn write_document<T: Serialize>(place: &StorePlace, name: &str, document: &T) -> Result<(), BackupError> {
    let path = place.record(name)?;
    let text = serde_json::to_vec(document).expect("its fields can be written");
    let put = place.store.put(&path, PutPayload::from(text)).await;
    put.map(drop).map_err(|error| place.error(&path, &error))
}

/// Deletes a backup.
pub async fn remove(place: &StorePlace, name: &str) -> Result<(), BackupError> {
    delete(place, name).await
}

/// All backups of a place, from new to old; with a prefix, those whose names begin with it.
pub async fn list(place: &StorePlace, prefix: Option<&str>) -> Result<Vec<Backup>, BackupError> {
    let objects = place.store.list_with_delimiter(Some(&place.folder)).await;
    let objects = objects.map_err(|error| place.error("list", &error))?.objects;
    let stem = prefix.map(stem).unwrap_or_default();
    let named = objects.iter().filter_map(|object| Some((object.location.filename()?, object.size)));
    let named: Vec<_> = named.filter(|(name, _)| name.starts_with(&stem)).collect();
    let records = named.iter().filter_map(|(name, _)| name.strip_suffix(SUFFIX)).filter(|name| !name.is_empty());
    let snapshots = named.iter().filter(|(name, _)| !name.ends_with(SUFFIX));
    let read = stream::iter(records.map(async |name| Ok((name, read_record(place, name).await?))));
    let read: Vec<Result<_, BackupError>> = read.buffered(RECORDS).collect().await;
    let mut records = read.into_iter().collect::<Result<std::collections::BTreeMap<_, _>, _>>()?;
    let mut backups: Vec<_> = snapshots
        .map(|(name, size)| {
            let record = records.remove(name).flatten();
            let condition = match &record {
                None => Condition::Unknown,
                Some(record) if record.state == BackupState::Unverified => Condition::Unfinished,
                Some(record) if record.size != *size => {
                    Condition::Damaged(format!("it has {size} bytes instead of {}", record.size))
                }
                Some(_) => Condition::Good,
            };
            Backup { name: (*name).into(), condition, record }
        })
        .collect();
    // Other files that are JSON are nobody's record.
    for (name, record) in records.into_iter().filter_map(|(name, record)| Some((name, record?))) {
        let condition = match record.state {
            BackupState::Unverified => Condition::Unfinished,
            BackupState::Verified => Condition::Damaged("its snapshot is gone".into()),
        };
        backups.push(Backup { name: name.into(), condition, record: Some(record) });
    }
    backups.sort_by(|a, b| (b.time(), &b.name).cmp(&(a.time(), &a.name)));
    Ok(backups)
}

/// Reads a whole backup and compares it with its record.
pub async fn verify(place: &StorePlace, which: Which<'_>) -> Result<(String, Record), BackupError> {
    let (name, record) = find(place, which).await?;
    same(place, &name, &record).await?;
    Ok((name, record))
}

/// Deletes what the policy does not keep. Before the first good backup is deleted, the newest is read. If it differs from its
/// record, nothing is deleted. `verified` was just read and need not be read again. Returns the names.
pub async fn prune(
    place: &StorePlace,
    prefix: &str,
    policy: Policy,
    verified: Option<&str>,
    dry_run: bool,
) -> Result<Vec<String>, BackupError> {
    let backups = list(place, Some(prefix)).await?;
    let expired = expired(&backups, policy, Timestamp::now());
    let newest = backups.iter().find(|backup| backup.condition == Condition::Good).map(|backup| backup.name.as_str());
    let loses_good = expired.iter().any(|backup| backup.condition == Condition::Good);
    if let Some(newest) = newest.filter(|newest| loses_good && !dry_run && verified != Some(newest)) {
        verify(place, Which::Name(newest)).await?;
    }
    let names: Vec<_> = expired.into_iter().map(|backup| backup.name.clone()).collect();
    if dry_run {
        return Ok(names);
    }
    for name in &names {
        delete(place, name).await?;
    }
    if let (Some(folder), Some(old)) = (&place.local, std::time::SystemTime::now().checked_sub(LEFTOVER)) {
        for path in leftovers(folder, old) {
            std::fs::remove_file(&path).map_err(BackupError::file(&path))?;
        }
    }
    Ok(names)
}

/// Downloads a backup, verifies it, and only then gives the file its name; its record is written next to it. A file
/// that is there already and is that backup is left as it is. Without a record, a backup is fetched only if
/// `without_record` allows it: then only the checksum at its end is known.
pub async fn fetch(
    place: &StorePlace,
    which: Which<'_>,
    file: &Path,
    without_record: bool,
) -> Result<(String, Contents), BackupError> {
    let (name, record) = match find(place, which).await {
        Ok((name, record)) if record.etcd().is_none() => {
            return Err(BackupError::NotGood(format!("{place}: {name} is not a snapshot of etcd")));
        }
        Ok((name, record)) => (name, Some(record)),
        Err(BackupError::NotGood(_))
            if without_record && matches!(which, Which::Name(name) if exists_unrecorded(place, name).await?) =>
        {
            let Which::Name(name) = which else { unreachable!("only a name was asked for") };
            (name.to_owned(), None)
        }
        Err(error) => return Err(error),
    };
    let fits =
        |sum: &Sum| record.as_ref().is_none_or(|record| (record.size, &record.sha256) == (sum.size, &sum.sha256));
    if file.exists()
        && let Ok((sum, contents)) = inspect(file)
        && fits(&sum)
        && record.is_some()
    {
        return Ok((name, contents));
    }
    let part = super::restore::beside(file, ".part");
    let out = File::create(&part).map_err(BackupError::file(&part))?;
    let mut out = BufWriter::with_capacity(1 << 20, out);
    let sum =
        download(place, &name, true, Some(&mut |bytes| out.write_all(bytes).map_err(BackupError::file(&part)))).await;
    let synced = out.into_inner().map_err(std::io::IntoInnerError::into_error).and_then(|out| out.sync_all());
    let fetched = sum.and_then(|sum| {
        synced.map_err(BackupError::file(&part))?;
        check(&name, &sum, record.as_ref())?;
        let (written, contents) = inspect(&part).map_err(BackupError::damaged(&*name))?;
        check(&name, &written, record.as_ref())?;
        match &record {
            Some(record) if record.revision() != contents.revision => {
                let text = format!("ends at revision {} instead of {}", contents.revision, record.revision());
                Err(BackupError::Damaged { name: name.clone(), damage: Damage::Content(text) })
            }
            _ => Ok(contents),
        }
    });
    let contents = match fetched {
        Ok(contents) => contents,
        Err(error) => {
            drop(std::fs::remove_file(&part));
            return Err(error);
        }
    };
    if let Some(record) = &record {
        let beside = super::restore::beside(file, SUFFIX);
        std::fs::write(&beside, json(record)).map_err(BackupError::file(&beside))?;
    }
    std::fs::rename(&part, file).map_err(BackupError::file(file))?;
    Ok((name, contents))
}

/// A good backup and its record.
async fn find(place: &StorePlace, which: Which<'_>) -> Result<(String, Record), BackupError> {
    let not_good = |name: &str, why: &str| BackupError::NotGood(format!("{place}: the backup {name} {why}"));
    match which {
        Which::Name(name) => match read_record(place, name).await? {
            Some(record) if record.state == BackupState::Verified => Ok((name.into(), record)),
            Some(_) => Err(not_good(name, "was never finished")),
            None if exists(place, name).await? => Err(not_good(name, "has no record of its size and checksum")),
            None => Err(not_good(name, "is not there")),
        },
        Which::Latest(prefix) => {
            let good = list(place, Some(prefix)).await?.into_iter().find(|backup| backup.condition == Condition::Good);
            let good = good.and_then(|backup| Some((backup.name, backup.record?)));
            good.ok_or_else(|| {
                BackupError::NotGood(format!("{place}: there is no good backup whose name begins with {prefix}"))
            })
        }
    }
}

async fn exists(place: &StorePlace, name: &str) -> Result<bool, BackupError> {
    match place.store.head(&place.path(name)?).await {
        Ok(_) => Ok(true),
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(place.error(name, &error)),
    }
}

async fn exists_unrecorded(place: &StorePlace, name: &str) -> Result<bool, BackupError> {
    Ok(read_record(place, name).await?.is_none() && exists(place, name).await?)
}

/// An object is missing. A request to a missing bucket gets the same answer, except for the code.
fn is_missing(error: &Error) -> bool {
    let Error::NotFound { source, .. } = error else { return false };
    let text = source.to_string();
    !["NoSuchBucket", "ContainerNotFound"].iter().any(|code| text.contains(code))
}

/// The record of a backup; None when there is none that can be read.
async fn read_record(place: &StorePlace, name: &str) -> Result<Option<Record>, BackupError> {
    let bytes = read_small(place, &place.record(name)?).await?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// A small object; `None` if there is none, or it is not small.
async fn read_small(place: &StorePlace, path: &object_store::path::Path) -> Result<Option<Bytes>, BackupError> {
    let failed = |error| place.error(path, &error);
    let found = match place.store.get(path).await {
        Err(error) if is_missing(&error) => return Ok(None),
        found => found.map_err(failed)?,
    };
    if found.meta.size > LARGEST_RECORD {
        return Ok(None);
    }
    Ok(Some(timeout(SILENCE, found.bytes()).await.map_err(|_| silent(place, path))?.map_err(failed)?))
}

async fn write_record(place: &StorePlace, name: &str, record: &Record) -> Result<(), BackupError> {
    let path = place.record(name)?;
    let put = place.store.put(&path, PutPayload::from(json(record).into_bytes())).await;
    put.map(drop).map_err(|error| place.error(&path, &error))
}

fn json(record: &Record) -> String {
    let mut text = serde_json::to_string_pretty(record).expect("its fields can be written");
    text.push('\n');
    text
}

async fn upload(place: &StorePlace, name: &str, file: &Path) -> Result<(), BackupError> {
    let path = place.path(name)?;
    let failed = |error| place.error(name, &error);
    let unread = || BackupError::file(file);
    let mut from = File::open(file).map_err(unread())?;
    let size = from.metadata().map_err(unread())?.len();
    if size <= PART as u64 {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).map_err(unread())?;
        return place.store.put(&path, bytes.into()).await.map(drop).map_err(failed);
    }
    let upload = place.store.put_multipart(&path).await.map_err(failed)?;
    let mut write = WriteMultipart::new_with_chunk_size(upload, PART);
    let mut bytes = vec![0; 1 << 20];
    let sent = loop {
        match from.read(&mut bytes) {
            Ok(0) => break Ok(()),
            Ok(read) => write.write(&bytes[..read]),
            Err(error) => break Err(unread()(error)),
        }
        if let Err(error) = write.wait_for_capacity(PARTS).await {
            break Err(failed(error));
        }
    };
    match sent {
        Ok(()) => write.finish().await.map(drop).map_err(failed),
        Err(error) => {
            drop(timeout(CLEANUP, write.abort()).await);
            Err(error)
        }
    }
}

async fn upload_stream(
    place: &StorePlace,
    name: &str,
    parts: impl Stream<Item = Result<Bytes, BackupError>>,
) -> Result<Sum, BackupError> {
    let path = place.path(name)?;
    let failed = |error| place.error(name, &error);
    let upload = place.store.put_multipart(&path).await.map_err(failed)?;
    let mut write = WriteMultipart::new_with_chunk_size(upload, STREAM_PART);
    let mut sums = Sums::default();
    let mut parts = pin!(parts);
    let sent = loop {
        match parts.next().await {
            None => break Ok(()),
            Some(Ok(part)) => {
                sums.update(&part);
                write.put(part);
            }
            Some(Err(error)) => break Err(error),
        }
        if let Err(error) = write.wait_for_capacity(STREAM_PARTS).await {
            break Err(failed(error));
        }
    };
    match sent {
        Ok(()) => write.finish().await.map_err(failed)?,
        Err(error) => {
            drop(timeout(CLEANUP, write.abort()).await);
            return Err(error);
        }
    };
    Ok(sums.plain())
}

/// Reads a whole backup and compares it with its record.
async fn same(place: &StorePlace, name: &str, record: &Record) -> Result<(), BackupError> {
    check(name, &download(place, name, record.etcd().is_some(), None).await?, Some(record))
}

fn check(name: &str, sum: &Sum, record: Option<&Record>) -> Result<(), BackupError> {
    let Some(record) = record else { return Ok(()) };
    if (sum.size, &sum.sha256) == (record.size, &record.sha256) {
        return Ok(());
    }
    let text = format!(
        "is not what was stored: {} bytes with SHA-256 {} instead of {} with {}",
        sum.size, sum.sha256, record.size, record.sha256
    );
    Err(BackupError::Damaged { name: name.into(), damage: Damage::Content(text) })
}

/// Gets a backup in parts.
pub type Sink<'a> = &'a mut (dyn FnMut(&[u8]) -> Result<(), BackupError> + Send);

/// Reads a whole backup. One that is sealed has a sum at its end, which is compared.
async fn download(
    place: &StorePlace,
    name: &str,
    is_sealed: bool,
    mut sink: Option<Sink<'_>>,
) -> Result<Sum, BackupError> {
    let path = place.path(name)?;
    let found = match place.store.get(&path).await {
        Err(error) if is_missing(&error) => {
            return Err(BackupError::NotGood(format!("{place}: the backup {name} is gone")));
        }
        found => found.map_err(|error| place.error(name, &error))?,
    };
    let mut stream = found.into_stream();
    let mut sums = Sums::default();
    while let Some(bytes) = timeout(SILENCE, stream.next()).await.map_err(|_| silent(place, &path))? {
        let bytes = bytes.map_err(|error| place.error(name, &error))?;
        sums.update(&bytes);
        if let Some(sink) = &mut sink {
            sink(&bytes)?;
        }
    }
    if is_sealed { sums.finish().map_err(BackupError::damaged(name)) } else { Ok(sums.plain()) }
}

fn silent(place: &StorePlace, path: &object_store::path::Path) -> BackupError {
    BackupError::Store(format!("{place}: {path}: nothing came for {SILENCE:?}"))
}

/// Deletes a backup, its record first. If this ends in between, the rest does not count as a backup.
async fn delete(place: &StorePlace, name: &str) -> Result<(), BackupError> {
    for path in [place.record(name)?, place.path(name)?] {
        match place.store.delete(&path).await {
            Err(error) if !is_missing(&error) => return Err(place.error(&path, &error)),
            _ => {}
        }
    }
    Ok(())
}

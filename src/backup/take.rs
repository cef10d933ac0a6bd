//! Takes a snapshot from a member.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use futures::future::join_all;
use jiff::Timestamp;
use tokio::time::timeout;

use super::BackupError;
use super::inspect::{Sums, inspect};
use super::record::Record;
use crate::members::etcd::client::{Access, Read, read};

/// Takes a snapshot from the member with the newest data, and verifies it. Each member answers a linearizable
/// read first, so every write that was acknowledged before is in the snapshot. Every call, and every piece of the snapshot, has
/// the time that `access` gives. The file is written with blocking calls.
pub async fn take(access: &Access, endpoints: &[String], file: &Path) -> Result<Record, BackupError> {
    let (endpoint, agreed) = newest(access, endpoints).await?;
    let said = |what: &str| {
        let what = format!("{endpoint}: {what}");
        move |error: etcd_client::Error| BackupError::Etcd(format!("{what}: {}", plain(&error)))
    };
    let late = |what: &str| BackupError::Etcd(format!("{endpoint}: {what}: no answer within {:?}", access.timeout));
    let client = timeout(access.timeout, access.client(endpoint)).await;
    let client = client.map_err(|_| late("connect"))?.map_err(said("connect"))?;
    let mut maintenance = client.maintenance_client();
    let status = timeout(access.timeout, maintenance.status()).await;
    let status = status.map_err(|_| late("status"))?.map_err(said("status"))?;

    let time = Timestamp::now();
    let stream = timeout(access.timeout, maintenance.snapshot()).await;
    let mut stream = stream.map_err(|_| late("snapshot"))?.map_err(said("snapshot"))?;
    let mut sums = Sums::default();
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file).map_err(BackupError::file(file))?);
    loop {
        let piece = timeout(access.timeout, stream.message()).await;
        let Some(piece) = piece.map_err(|_| late("snapshot"))?.map_err(said("snapshot"))? else { break };
        sums.update(piece.blob());
        out.write_all(piece.blob()).map_err(BackupError::file(file))?;
    }
    let synced = out.into_inner().map_err(std::io::IntoInnerError::into_error).and_then(|out| out.sync_all());
    synced.map_err(BackupError::file(file))?;
    let of_member = || BackupError::damaged(format!("of {endpoint}"));
    let sent = sums.finish().map_err(of_member())?;
    let (sum, contents) = inspect(file).map_err(of_member())?;
    if sum != sent {
        return Err(BackupError::Etcd(format!("{}: is not what {endpoint} sent", file.display())));
    }
    if contents.revision < agreed.revision {
        return Err(BackupError::Etcd(format!(
            "{endpoint}: the snapshot ends at revision {}, and {} had been read before",
            contents.revision, agreed.revision
        )));
    }
    Ok(Record::new(time, &sum, &contents, status.version(), agreed.cluster))
}

/// The member whose data is newest of those that answer a linearizable read; the first of several.
async fn newest<'a>(access: &Access, endpoints: &'a [String]) -> Result<(&'a str, Read), BackupError> {
    let asked = endpoints.iter().map(async |endpoint| match timeout(access.timeout, ask(access, endpoint)).await {
        // A member that denies a read has no revision to compare. A user who is not allowed to read cannot take a
        // snapshot either.
        Ok(Ok(Read { revision: 0, .. })) => {
            Err(format!("{endpoint}: the user is not allowed to read: it needs the role root"))
        }
        Ok(Ok(read)) => Ok((endpoint.as_str(), read)),
        Ok(Err(error)) => Err(format!("{endpoint}: {}", plain(&error))),
        Err(_) => Err(format!("{endpoint}: no answer to a linearizable read within {:?}", access.timeout)),
    });
    let (mut answers, mut errors) = (Vec::new(), Vec::new());
    for answer in join_all(asked).await {
        match answer {
            Ok(answer) => answers.push(answer),
            Err(error) => errors.push(error),
        }
    }
    let clusters: BTreeSet<_> = answers.iter().map(|(_, read)| read.cluster).collect();
    if clusters.len() > 1 {
        return Err(BackupError::Invalid("the endpoints belong to different clusters".into()));
    }
    // The first of the newest, which max_by_key would not give.
    let newest = answers.into_iter().reduce(|best, next| if next.1.revision > best.1.revision { next } else { best });
    newest.ok_or_else(|| BackupError::Etcd(format!("no member can give a snapshot: {}", errors.join("; "))))
}

async fn ask(access: &Access, endpoint: &str) -> Result<Read, etcd_client::Error> {
    read(&access.client(endpoint).await?).await
}

/// An error without the metadata that gRPC's text has.
pub(super) fn plain(error: &etcd_client::Error) -> String {
    match error {
        etcd_client::Error::GRpcStatus(status) => status.message().to_owned(),
        other => other.to_string(),
    }
}

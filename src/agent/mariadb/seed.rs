//! Copies of the data: given to another member, and taken from one. A copy becomes the data as a whole, or not at all.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use super::accounts::AGENT;
use super::facts::{Source, Wanted};
use super::gtid;
use super::keeper::{SHORT, write_secret};
use super::member::{Member, failed, refusal};
use super::orders::ended;
use crate::agent::client::Client;
use crate::agent::contract::{Busy, Reason, Refusal, Role, Seed};
use crate::agent::server::Body;
use crate::agent::store::{Arrived, Found, Identity};

/// The header with the identity of the copied data.
const DATA: &str = "tillerman-data";
/// The header with the state of the donor's binary log before the copy.
const STATE: &str = "tillerman-binlog-state";
/// The header with the version of the donor's database.
const VERSION: &str = "tillerman-version";
/// The header with what the donor is. Commits of a primary wait while the position of a copy is read, and the file of the copy has it.
/// Those of a replica do not: its copy may have more writes than that file says.
const ROLE: &str = "tillerman-role";
/// The donor is a replica.
const REPLICA: &str = "replica";
/// The size of a part of a copy in bytes.
const PART: usize = 256 << 10;
/// How long a part may take. A member that hangs must not keep another one busy for ever.
const STALLS: Duration = Duration::from_secs(120);
/// For how long a copy that failed is reported, before the operator may order another one.
const REPORTED: Duration = Duration::from_secs(10);

/// Begins to replace the data by a copy.
pub fn begin(member: &Arc<Member>, order: &Seed) -> Result<(), Refusal> {
    let request = serde_json::to_string(order).map_err(|error| failed(&error.to_string()))?;
    let (identity, start, role, seeding) =
        member.facts(|facts| (facts.identity.clone(), facts.start.clone(), facts.role, facts.seeding.clone()));
    if let Some(running) = seeding {
        let same = running == request;
        return if same { Ok(()) } else { Err(refusal(Reason::Busy, "another copy is being made")) };
    }
    match identity {
        Some(identity) if identity.seeded.as_deref() == Some(&request) => return Ok(()),
        Some(_) if role == Role::Primary => {
            return Err(refusal(Reason::HasData, "it is the primary"));
        }
        Some(_) if start.is_empty() || order.discard.as_deref() != Some(&start) => {
            return Err(refusal(Reason::HasData, "it has data, and `discard` is not its start"));
        }
        Some(_) => {}
        None => match member.volume.found() {
            Ok(Found::Nothing) => {}
            Ok(Found::Foreign(why)) => return Err(refusal(Reason::HasData, &why)),
            Ok(Found::Ours(_)) => return Err(failed("data appeared that the agent did not put there")),
            Err(error) => return Err(failed(&error.to_string())),
        },
    }
    member.change(|facts| {
        facts.seeding = Some(request.clone());
        facts.busy = Some(Busy { work: "seed".to_owned(), done: 0, of: None });
    });
    let (member, order) = (Arc::clone(member), order.clone());
    tokio::spawn(async move {
        let done = copy_in(&member, &order, request).await;
        let _ = std::fs::remove_dir_all(member.volume.arriving());
        member.change(|facts| {
            (facts.seeding, facts.busy) = (None, None);
            if let Err(why) = done {
                tracing::error!(why, "the copy failed");
                facts.passing = Some((Instant::now() + REPORTED, format!("the copy of {} failed: {why}", order.donor)));
            }
        });
    });
    Ok(())
}

async fn copy_in(member: &Arc<Member>, order: &Seed, request: String) -> Result<(), String> {
    let arriving = member.volume.arriving();
    member.volume.sweep().map_err(|error| error.to_string())?;
    std::fs::create_dir(&arriving).map_err(|error| format!("{}: {error}", arriving.display()))?;
    let client = Client { tls: member.tls.as_ref().map(crate::agent::tls::Files::client) };
    let copy = client.copy(&order.donor, STALLS).await.map_err(|error| error.to_string())?;
    let header = |name: &str| {
        let value = copy.headers().get(name).and_then(|value| value.to_str().ok());
        value.map(str::to_owned).ok_or_else(|| format!("the donor does not say {name}"))
    };
    if header(DATA)? != order.data {
        return Err("the donor has other data".to_owned());
    }
    let (before, version) = (gtid::list(&header(STATE)?).ok_or("the donor has no position")?, header(VERSION)?);
    let of_replica = header(ROLE)? == REPLICA;
    let own = own_version(member).await?;
    // A database that is older than its data starts, and spoils it.
    if series(&version).ok_or("the donor has no version")? > series(&own).ok_or("the database here has no version")? {
        return Err(format!("the donor has version {version}, which is newer than {own} here"));
    }
    unpack(member, copy.into_body(), &arriving).await?;
    tracing::info!(version, "the copy is complete");
    let mut prepare = Command::new(&member.flags.backup);
    prepare
        .env("TMPDIR", member.volume.temporary())
        .args(["--no-defaults", "--prepare"])
        .arg(format!("--target-dir={}", arriving.display()));
    succeeds(prepare.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).spawn(), "mariadb-backup").await?;
    if of_replica {
        take_back(member, &arriving).await?;
    }
    let position = if of_replica { None } else { Some(gtid::text(&position(&arriving)?)) };
    let arrived = Arrived { before: gtid::text(&before), position };
    let identity = Identity {
        data: order.data.clone(),
        arrived: Some(arrived),
        seeded: Some(request),
        version: Some(version),
        ..Identity::default()
    };
    let _guard = member.orders.lock().await;
    let (start, stopping) = member.facts(|facts| (facts.start.clone(), facts.stopping));
    if stopping {
        return Err("the agent ends".to_owned());
    }
    if let Some(discard) = &order.discard {
        if *discard != start {
            return Err("the database has started again, and its data may be another one now".to_owned());
        }
        ended(member).await.map_err(|refusal| refusal.message)?;
        member.volume.discard().map_err(|error| error.to_string())?;
        member.change(|facts| facts.identity = None);
    }
    member.volume.adopt(&identity).map_err(|error| error.to_string())?;
    member.obey(|obeyed| obeyed.promoted = None).map_err(|refusal| refusal.message)?;
    member.change(|facts| {
        (facts.identity, facts.wanted, facts.problem) = (Some(identity), Wanted::Keeping, None);
    });
    Ok(())
}

/// Takes back what a replica's own threads had prepared, and not committed, when it was copied: they do not stop for a copy. The
/// database would not start with it, as its binary log, which knows what becomes of it, is not in the copy. It is in none of the
/// positions in the tables, so the member receives it again.
async fn take_back(member: &Member, arriving: &Path) -> Result<(), String> {
    let mut recover = Command::new(&member.flags.mariadbd);
    // What the prepared data needs to be read, such as the size of its pages.
    recover.arg(format!("--defaults-file={}", arriving.join("backup-my.cnf").display()));
    recover.args(["--bootstrap", "--tc-heuristic-recover=ROLLBACK", "--skip-networking", "--skip-slave-start"]);
    recover.arg(format!("--datadir={}", arriving.display()));
    recover.arg(format!("--tmpdir={}", member.volume.temporary().display()));
    recover.args(member.flags.user.iter().map(|user| format!("--user={user}")));
    recover.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    succeeds(recover.spawn(), "the recovery of the copy").await
}

/// The version of the database's program here.
pub async fn own_version(member: &Member) -> Result<String, String> {
    let mut command = Command::new(&member.flags.mariadbd);
    let said = command.args(["--no-defaults", "--version"]).stdin(Stdio::null()).kill_on_drop(true).output();
    let said = said.await.map_err(|error| format!("{} cannot be started: {error}", member.flags.mariadbd.display()))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    // `mariadbd  Ver 10.11.19-MariaDB for …`
    let version = text.split_whitespace().skip_while(|word| *word != "Ver").nth(1).unwrap_or_default();
    Ok(version.to_owned())
}

/// The series of a version, such as 10.11.
pub fn series(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Passes a copy to the program that unpacks it. A copy that ends early is an error of its body.
async fn unpack(member: &Member, mut copy: hyper::body::Incoming, arriving: &Path) -> Result<(), String> {
    let mut command = Command::new(&member.flags.mbstream);
    command.arg("-x").arg("-C").arg(arriving).stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| format!("mbstream cannot be started: {error}"))?;
    let mut input = child.stdin.take().ok_or("mbstream has no input")?;
    loop {
        let frame = tokio::time::timeout(STALLS, copy.frame()).await.map_err(|_| "the donor sends nothing")?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| format!("the copy is not complete: {error}"))?;
        if let Ok(part) = frame.into_data() {
            let written = tokio::time::timeout(STALLS, input.write_all(&part)).await;
            written.map_err(|_| "mbstream hangs")?.map_err(|error| format!("mbstream: {error}"))?;
            member.change(|facts| {
                if let Some(busy) = &mut facts.busy {
                    busy.done += part.len() as u64;
                }
            });
        }
    }
    input.shutdown().await.map_err(|error| format!("mbstream: {error}"))?;
    drop(input);
    succeeds(Ok(child), "mbstream").await
}

async fn succeeds(child: io::Result<Child>, name: &str) -> Result<(), String> {
    let status = child.map_err(|error| format!("{name} cannot be started: {error}"))?.wait().await;
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} failed ({status}); its log says why")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// The position of a copy of a primary, whose tables have none.
fn position(copy: &Path) -> Result<Vec<gtid::Gtid>, String> {
    let names = ["mariadb_backup_binlog_info", "xtrabackup_binlog_info"];
    let text = names.iter().find_map(|name| std::fs::read_to_string(copy.join(name)).ok());
    let text = text.ok_or("the copy does not say its position")?;
    let list = text.trim_end().splitn(3, '\t').nth(2).unwrap_or_default().replace('\n', "");
    gtid::list(&list).ok_or_else(|| "the position of the copy is not understood".to_owned())
}

/// A copy of the data, as a stream of `mariadb-backup`. It ends early if that fails.
pub async fn copy_out(member: &Arc<Member>) -> Result<Response<Body>, Refusal> {
    let (identity, process, marks) =
        member.facts(|facts| (facts.identity.clone(), facts.running.clone(), (facts.role, facts.source.clone())));
    let identity = identity.ok_or_else(|| refusal(Reason::OtherData, "there is no data to copy"))?;
    let process = process.ok_or_else(|| refusal(Reason::DatabaseDown, "the database does not run"))?;
    let Ok(guard) = Arc::clone(&member.copies).try_lock_owned() else {
        return Err(refusal(Reason::Busy, "another copy is being made"));
    };
    let rows =
        member.sql().await?.rows("SELECT @@GLOBAL.gtid_binlog_state AS state, @@version AS version", SHORT).await?;
    let (state, version) = rows.first().map(|row| (row.text("state"), row.text("version"))).unwrap_or_default();
    let role = if member.measure(SHORT).await?.follows { REPLICA } else { "primary" };
    let folder = member.volume.copying();
    let error = |error: io::Error| failed(&format!("{}: {error}", folder.display()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).map_err(error)?;
    let login = folder.join("login.cnf");
    let text = format!("[mariadb-backup]\nuser={AGENT}\npassword={}\n", process.login.password());
    write_secret(&login, &text).map_err(|error| failed(&error))?;
    let mut command = Command::new(&member.flags.backup);
    command.env("TMPDIR", member.volume.temporary());
    command.arg(format!("--defaults-file={}", login.display())).args(["--backup", "--stream=xbstream"]);
    command.arg(format!("--datadir={}", member.volume.data().display()));
    command.arg(format!("--socket={}", member.flags.socket().display()));
    command.arg(format!("--target-dir={}", folder.display())).stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.kill_on_drop(true).spawn();
    let child = child.map_err(|error| failed(&format!("mariadb-backup cannot be started: {error}")))?;
    let (sender, parts) = mpsc::channel(2);
    member.change(|facts| facts.busy = Some(Busy { work: "copy".to_owned(), done: 0, of: None }));
    let donor = Arc::clone(member);
    tokio::spawn(async move {
        if let Err(error) = send(&donor, child, &sender, &marks).await {
            tracing::error!(%error, "a copy failed");
            let _ = sender.send(Err(error)).await;
        }
        donor.change(|facts| facts.busy = None);
        let _ = std::fs::remove_dir_all(donor.volume.copying());
        drop(guard);
    });
    let parts = frames(parts);
    let response = Response::builder().status(StatusCode::OK).header(DATA, identity.data);
    let response = response.header(STATE, state).header(VERSION, version).header(ROLE, role);
    response.body(StreamBody::new(parts).boxed_unsync()).map_err(|error| failed(&error.to_string()))
}

async fn send(
    member: &Member,
    mut child: Child,
    parts: &mpsc::Sender<io::Result<Bytes>>,
    marks: &(Role, Option<Source>),
) -> io::Result<()> {
    let mut output = child.stdout.take().ok_or_else(|| io::Error::other("mariadb-backup has no output"))?;
    let mut part = Vec::with_capacity(PART);
    loop {
        part.clear();
        let read = tokio::time::timeout(STALLS, (&mut output).take(PART as u64).read_to_end(&mut part)).await;
        if read.map_err(|_| io::Error::other("mariadb-backup hangs"))?? == 0 {
            break;
        }
        member.change(|facts| {
            if let Some(busy) = &mut facts.busy {
                busy.done += part.len() as u64;
            }
        });
        let sent = tokio::time::timeout(STALLS, parts.send(Ok(Bytes::copy_from_slice(&part)))).await;
        sent.map_err(|_| io::Error::other("the receiver reads nothing"))?
            .map_err(|_| io::Error::other("the receiver is gone"))?;
    }
    let status = child.wait().await?;
    if member.facts(|facts| (facts.role, facts.source.clone())) != *marks {
        return Err(io::Error::other("the role of this member has changed"));
    }
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("mariadb-backup failed ({status})"))) }
}

/// The parts as frames of a body.
fn frames(mut parts: mpsc::Receiver<io::Result<Bytes>>) -> impl futures::Stream<Item = io::Result<Frame<Bytes>>> {
    futures::stream::poll_fn(move |context| parts.poll_recv(context).map(|part| part.map(|part| part.map(Frame::data))))
}

#[cfg(test)]
mod tests {
    use super::series;

    #[test]
    fn versions_are_compared_by_their_series() {
        assert_eq!(series("10.11.19-MariaDB-0+deb12u1"), Some((10, 11)));
        assert!(series("11.8.9") > series("10.11.19") && series("10.11.2") == series("10.11.19-MariaDB"));
        assert!(series("").is_none() && series("x.1").is_none());
    }
}

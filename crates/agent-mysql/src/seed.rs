//! Copies of the data: given to another member, and taken from one. A copy becomes the data as a whole, or not at all.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::block_in_place;

use super::accounts::AGENT;
use super::clone;
use super::facts::{ReplicaSource, Wanted};
use super::flavor::Flavor;
use super::gtid;
use super::hung::Still;
use super::keeper::{SHORT, does_nothing, write_secret};
use super::member::{DatabaseMember, FILES, failed, refusal};
use super::orders::ended;
use super::sql::Sql;
use tillerman_agent::client::Client;
use tillerman_agent::contract::{Busy, Reason, Refusal, Role, Seed};
use tillerman_agent::server::{Body, in_parts};
use tillerman_agent::store::{Arrived, FoundData, Identity};
use tillerman_agent::stored::{DATA, VERSION};

/// The header with the state of the donor's binary log before the copy.
pub const STATE: &str = "tillerman-binlog-state";
/// The header with the kind of the donor. Commits of a primary wait while the position of a copy is read, and the file
/// of the copy has it. Those of a replica do not: its copy may have more writes than that file says.
pub const ROLE: &str = "tillerman-role";
/// The donor is a replica.
pub const REPLICA: &str = "replica";
/// The size of a part of a copy in bytes.
pub const PART: usize = 256 << 10;
/// How long a part may take. A member that hangs must not keep another member busy for ever.
pub const STALLS: Duration = Duration::from_secs(120);
/// For how long a copy that failed is reported, before the operator can order a new one.
const REPORTED: Duration = Duration::from_secs(10);

/// Begins to replace the data by a copy.
pub fn begin(member: &Arc<DatabaseMember>, order: &Seed) -> Result<(), Refusal> {
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
        None => match member.volume.found(&FILES) {
            Ok(FoundData::Nothing) => {}
            Ok(FoundData::Foreign(why)) => return Err(refusal(Reason::HasData, &why)),
            Ok(FoundData::Ours(_)) => return Err(failed("data appeared that the agent did not put there")),
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
        // Deleting large files, or writing them to the disk, takes seconds or minutes: the other tasks continue
        // meanwhile, here and below.
        let _ = block_in_place(|| std::fs::remove_dir_all(member.volume.arriving()));
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

async fn copy_in(member: &Arc<DatabaseMember>, order: &Seed, request: String) -> Result<(), String> {
    let arriving = member.volume.arriving();
    block_in_place(|| member.volume.sweep()).map_err(|error| error.to_string())?;
    std::fs::create_dir(&arriving).map_err(|error| format!("{}: {error}", arriving.display()))?;
    let client = Client { tls: member.tls.as_ref().map(tillerman_agent::tls::TlsFiles::client) };
    let copy = client.copy(&order.donor, STALLS).await.map_err(|error| error.to_string())?;
    let header = |name: &str| {
        let value = copy.headers().get(name).and_then(|value| value.to_str().ok());
        value.map(str::to_owned).ok_or_else(|| format!("the donor does not report {name}"))
    };
    if header(DATA)? != order.data {
        return Err("the donor has other data".to_owned());
    }
    let version = header(VERSION)?;
    let own = own_version(member).await?;
    if is_older(&own, &version)? {
        return Err(format!("the donor has version {version}, which is newer than {own} here"));
    }
    let arrived = match member.flags.flavor {
        Flavor::Mariadb => {
            let before = gtid::list(&header(STATE)?).ok_or("the donor has no position")?;
            let of_replica = header(ROLE)? == REPLICA;
            unpack(member, copy.into_body(), &arriving).await?;
            prepare(member, &arriving).await?;
            if of_replica {
                take_back(member, &arriving).await?;
            }
            let position = if of_replica { None } else { Some(gtid::text(&position(&arriving)?)) };
            Arrived { before: gtid::text(&before), position }
        }
        // Its tables have the position.
        Flavor::Mysql => {
            clone::unpack(member, clone::parts(copy.into_body()), &arriving).await?;
            Arrived::default()
        }
    };
    tracing::info!(version, "the copy is complete");
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
            return Err("the database has restarted, and its data may have changed".to_owned());
        }
        ended(member).await.map_err(|refusal| refusal.message)?;
        block_in_place(|| member.volume.discard()).map_err(|error| error.to_string())?;
        member.change(|facts| facts.identity = None);
    }
    block_in_place(|| member.volume.adopt(&identity)).map_err(|error| error.to_string())?;
    member.obey(|obeyed| obeyed.promoted = None).map_err(|refusal| refusal.message)?;
    member.change(|facts| {
        (facts.identity, facts.wanted, facts.problem) = (Some(identity), Wanted::Keeping, None);
    });
    Ok(())
}

/// Makes a copy data that a database can start with.
pub async fn prepare(member: &DatabaseMember, arriving: &Path) -> Result<(), String> {
    let mut prepare = Command::new(&member.flags.backup);
    prepare.env("TMPDIR", member.volume.temporary()).args(["--no-defaults", "--prepare"]);
    prepare.arg(format!("--target-dir={}", arriving.display()));
    succeeds(prepare.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).spawn(), "mariadb-backup").await
}

/// Gives a database that was copied its position.
pub async fn set_position(sql: &mut Sql, arrived: &Arrived) -> Result<(), String> {
    let position = if let Some(position) = &arrived.position {
        position.clone()
    } else {
        // A replica changes this table with the data, so that it is right whatever the copy has.
        let rows = sql.rows("SELECT @@GLOBAL.gtid_slave_pos AS position", SHORT).await;
        rows.map_err(|error| error.to_string())?.first().map(|row| row.text("position")).unwrap_or_default()
    };
    let list = |text: &str| gtid::list(text).ok_or("a copy has no position");
    let copied = list(&position)?;
    let statements = [
        "RESET MASTER".to_owned(),
        format!(
            "SET GLOBAL gtid_binlog_state = '{}'",
            gtid::text(&gtid::state_of_copy(&list(&arrived.before)?, &copied))
        ),
        format!("SET GLOBAL gtid_slave_pos = '{}'", gtid::text(&copied)),
    ];
    for statement in statements {
        let done = sql.run(&statement, Duration::from_secs(60)).await;
        done.map_err(|error| format!("the position of a copy cannot be set: {error}"))?;
    }
    Ok(())
}

/// Takes back transactions that a replica's own threads had prepared, and not committed, when it was copied: they do
/// not stop for a copy. The database would not start with it, as its binary log, which knows what becomes of it, is not
/// in the copy. It is in none of the positions in the tables, so the member receives it again.
pub async fn take_back(member: &DatabaseMember, arriving: &Path) -> Result<(), String> {
    let start = |how: &[&str]| {
        let mut start = Command::new(member.flags.server());
        // The settings with which the prepared data can be read, such as the size of its pages.
        start.arg(format!("--defaults-file={}", arriving.join("backup-my.cnf").display()));
        start.args(["--bootstrap", "--skip-networking", "--skip-slave-start"]).args(how);
        start.arg(format!("--datadir={}", arriving.display()));
        start.arg(format!("--tmpdir={}", member.volume.temporary().display()));
        start.args(member.flags.user.iter().map(|user| format!("--user={user}")));
        succeeds(
            start.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).spawn(),
            "the recovery of the copy",
        )
    };
    if start(&["--tc-heuristic-recover=ROLLBACK"]).await.is_ok() {
        return Ok(());
    }
    // A database with more than one engine that prepares, as 11.8 is, ends with an error also when it has taken all back, and asks to be
    // started without. It starts then only if nothing prepared is left.
    start(&[]).await
}

/// The version of the database's program here.
pub async fn own_version(member: &DatabaseMember) -> Result<String, String> {
    let program = member.flags.server();
    let mut command = Command::new(&program);
    let said = command.args(["--no-defaults", "--version"]).stdin(Stdio::null()).kill_on_drop(true).output();
    let said = said.await.map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    // `mariadbd  Ver 10.11.19-MariaDB for …`
    let version = text.split_whitespace().skip_while(|word| *word != "Ver").nth(1).unwrap_or_default();
    Ok(version.to_owned())
}

/// Whether a database is of an older series than data. Such a one starts, and spoils the data.
pub fn is_older(database: &str, data: &str) -> Result<bool, String> {
    let of_data = series(data).ok_or("the copy has no version")?;
    Ok(series(database).ok_or("the database here has no version")? < of_data)
}

/// The series of a version, such as 10.11.
pub fn series(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Passes a copy to the program that unpacks it. A copy that ends early is an error of its body.
async fn unpack(member: &DatabaseMember, mut copy: hyper::body::Incoming, arriving: &Path) -> Result<(), String> {
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

/// Waits for a program, which is ended with its value. One that does nothing at all has failed. The error is a sentence.
pub async fn succeeds(child: io::Result<Child>, name: &str) -> Result<(), String> {
    let mut child = child.map_err(|error| format!("{name} cannot be started: {error}"))?;
    let still = Still::of(child.id());
    let status = tokio::select! {
        status = child.wait() => status,
        () = still.lasts_for(STALLS) => return Err(format!("{name}: {}", does_nothing(STALLS))),
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} failed ({status}); see its log")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// The position of a copy of a primary, whose tables have none.
pub fn position(copy: &Path) -> Result<Vec<gtid::Gtid>, String> {
    let names = ["mariadb_backup_binlog_info", "xtrabackup_binlog_info"];
    let text = names.iter().find_map(|name| std::fs::read_to_string(copy.join(name)).ok());
    let text = text.ok_or("the copy does not have its position")?;
    let list = text.trim_end().splitn(3, '\t').nth(2).unwrap_or_default().replace('\n', "");
    gtid::list(&list).ok_or_else(|| "the position of the copy is not valid".to_owned())
}

/// A copy of the data, as a stream of `mariadb-backup`. It ends early if that fails.
pub async fn copy_out(member: &Arc<DatabaseMember>) -> Result<Response<Body>, Refusal> {
    if member.flags.flavor == Flavor::Mysql {
        return clone::copy_out(member).await;
    }
    give(member, "mariadb-backup", |login, folder| {
        let mut command = Command::new(&member.flags.backup);
        command.arg(format!("--defaults-file={}", login.display())).args(["--backup", "--stream=xbstream"]);
        command.arg(format!("--datadir={}", member.volume.data().display()));
        command.arg(format!("--target-dir={}", folder.display()));
        vec![command]
    })
    .await
}

/// A copy of the data as statements. It ends early if the program fails that makes them.
pub async fn dump_out(member: &Arc<DatabaseMember>) -> Result<Response<Body>, Refusal> {
    if member.flags.flavor == Flavor::Mysql {
        return Err(refusal(Reason::Impossible, "MySQL is not copied as statements yet"));
    }
    give(member, "mariadb-dump", |login, _| {
        let command = |arguments: &[&str]| {
            let mut command = Command::new(&member.flags.dump);
            command.arg(format!("--defaults-file={}", login.display())).args(arguments);
            command
        };
        vec![
            command(&[
                "--all-databases",
                "--ignore-database=mysql",
                "--ignore-database=sys",
                "--single-transaction",
                "--routines",
                "--events",
                "--triggers",
                "--hex-blob",
                "--gtid",
                "--master-data=1",
                "--max-allowed-packet=1G",
            ]),
            // Accounts. Existing ones stay as they are: the agent's own runs the statements. The tables of accounts
            // themselves are of one version of the database.
            command(&["--system=users", "--insert-ignore"]),
        ]
    })
    .await
}

/// A copy that a program makes, whose settings `login` has. It may run several times, one after the other.
async fn give(
    member: &Arc<DatabaseMember>,
    program: &str,
    commands: impl FnOnce(&Path, &Path) -> Vec<Command>,
) -> Result<Response<Body>, Refusal> {
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
    let _ = block_in_place(|| std::fs::remove_dir_all(&folder));
    std::fs::create_dir(&folder).map_err(error)?;
    let login = folder.join("login.cnf");
    let text = format!("[{program}]\nuser={AGENT}\npassword={}\n", process.login.password());
    write_secret(&login, &text).map_err(|error| failed(&error))?;
    let commands = commands(&login, &folder);
    let (sender, parts) = mpsc::channel(2);
    member.change(|facts| facts.busy = Some(Busy { work: "copy".to_owned(), done: 0, of: None }));
    let (donor, program) = (Arc::clone(member), program.to_owned());
    tokio::spawn(async move {
        if let Err(error) = send_all(&donor, commands, &program, &sender, &marks).await {
            tracing::error!(%error, "a copy failed");
            let _ = sender.send(Err(error)).await;
        }
        donor.change(|facts| facts.busy = None);
        let _ = block_in_place(|| std::fs::remove_dir_all(donor.volume.copying()));
        drop(guard);
    });
    let response = Response::builder().status(StatusCode::OK).header(DATA, identity.data);
    let response = response.header(STATE, state).header(VERSION, version).header(ROLE, role);
    response.body(in_parts(parts)).map_err(|error| failed(&error.to_string()))
}

/// Sends the output of the programs.
async fn send_all(
    member: &DatabaseMember,
    commands: Vec<Command>,
    program: &str,
    parts: &mpsc::Sender<io::Result<Bytes>>,
    marks: &(Role, Option<ReplicaSource>),
) -> io::Result<()> {
    for mut command in commands {
        command.env("TMPDIR", member.volume.temporary());
        command.arg(format!("--socket={}", member.flags.socket().display()));
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn();
        let child = child.map_err(|error| io::Error::other(format!("{program} cannot be started: {error}")))?;
        send(member, child, program, parts, marks).await?;
    }
    Ok(())
}

async fn send(
    member: &DatabaseMember,
    mut child: Child,
    program: &str,
    parts: &mpsc::Sender<io::Result<Bytes>>,
    marks: &(Role, Option<ReplicaSource>),
) -> io::Result<()> {
    let mut output = child.stdout.take().ok_or_else(|| io::Error::other(format!("{program} has no output")))?;
    let mut part = Vec::with_capacity(PART);
    loop {
        part.clear();
        let read = tokio::time::timeout(STALLS, (&mut output).take(PART as u64).read_to_end(&mut part)).await;
        if read.map_err(|_| io::Error::other(format!("{program} hangs")))?? == 0 {
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
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{program} failed ({status})"))) }
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

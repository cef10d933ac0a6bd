//! A new cluster from a copy that was stored: the copy is unpacked and prepared, gets the writes after it, and only
//! then becomes the data of the member, by one rename. If an attempt is killed before that, the next attempt removes
//! its files and begins with the first step.
//!
//! It runs before the agent, in a container of the same image. A program that knows where copies are stored sends the copy
//! (`tillerman snapshot send`), and describes it (`agent::stored`).

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::accounts;
use super::clone;
use super::command::Restore;
use super::create::install;
use super::events::{Choice, Log, choose};
use super::flavor::Flavor;
use super::gtid;
use super::keeper::{InitFile, SHORT, answers, does_nothing, random, write_secret};
use super::logs::shown;
use super::member::{DatabaseMember, FILES};
use super::process::Process;
use super::relay::Relay;
use super::seed::{
    PART, REPLICA, ROLE, STALLS, STATE, is_older, own_version, position, prepare, set_position, succeeds, take_back,
};
use super::sets;
use super::settings::arguments;
use super::sql::Sql;
use tillerman_agent::position::Position;
use tillerman_agent::store::{Arrived, FoundData, Identity};
use tillerman_agent::stored::{DATA, Description, Form, HAS, LIMIT, SEEN, Until, VERSION};

/// How long the sender may take before the first byte: it fetches logs.
const FIRST: Duration = Duration::from_secs(3600);
/// How long a step of the database may take.
pub const STEP: Duration = Duration::from_secs(3600);
/// The largest message of a client that is kept, in bytes.
const SAID: u64 = 64 << 10;

/// The restored data.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// The name of the copy.
    name: String,
    /// The identity of the new data; none if it was only checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    /// Which writes it has.
    position: Position,
    /// How many of them are from logs.
    replayed: u64,
    /// The version of the database here.
    version: String,
    /// Every write that was acknowledged until this time is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    /// How many tables were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    tables: Option<usize>,
    /// How many statements returned a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<usize>,
    /// How long it took.
    seconds: f64,
}

/// Restores, if the member may create data and has none. With `check`, the restored data is checked and removed.
pub async fn run(restore: Restore) -> Result<(), String> {
    let Restore { flags, check, check_row, report } = restore;
    flags.check()?;
    if !check && (flags.primary != flags.member || !flags.data.is_empty()) {
        tracing::info!("the member is not allowed to create the data: nothing to do");
        return Ok(());
    }
    let epoch = flags.epoch;
    let member = DatabaseMember::new(flags, None)?;
    match member.volume.found(&FILES).map_err(|error| error.to_string())? {
        FoundData::Nothing => {}
        FoundData::Ours(_) if !check => {
            tracing::info!("there is data: nothing to do");
            return Ok(());
        }
        FoundData::Ours(_) => return Err("there is data on the volume: a check needs an empty one".to_owned()),
        FoundData::Foreign(why) => return Err(why),
    }
    let began = Instant::now();
    let arriving = member.volume.arriving();
    let arrived = arrive(&member, check.then_some(&check_row)).await;
    let mut done = match arrived {
        Ok(done) => done,
        Err(why) => {
            let _ = member.volume.sweep();
            return Err(why);
        }
    };
    if check {
        member.volume.sweep().map_err(|error| error.to_string())?;
    } else {
        let identity = Identity { data: random()?, ..Identity::default() };
        done.data = Some(identity.data.clone());
        member.obey(|obeyed| obeyed.epoch = obeyed.epoch.max(epoch)).map_err(|refusal| refusal.message)?;
        member.volume.adopt(&identity).map_err(|error| format!("{}: {error}", arriving.display()))?;
        member.volume.sweep().map_err(|error| error.to_string())?;
    }
    done.seconds = began.elapsed().as_secs_f64();
    let text = serde_json::to_string(&done).map_err(|error| error.to_string())?;
    println!("{text}");
    if let Some(path) = report {
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Makes the data, in the folder of what arrives. With `check`, it is checked, and each of these statements has to return a row.
async fn arrive(member: &DatabaseMember, check: Option<&Vec<String>>) -> Result<Report, String> {
    let (incoming, arriving) = (member.volume.copying(), member.volume.arriving());
    for folder in [&incoming, &incoming.join("logs"), &arriving] {
        std::fs::create_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let (sender, description, first) = begin(member, &incoming).await?;
    let header = |name: &str| description.header(name).ok_or_else(|| format!("the copy does not have {name}"));
    if check.is_some() && !member.flags.data.is_empty() && *header(DATA)? != member.flags.data {
        return Err(format!("the copy {} is of another cluster's data", description.name));
    }
    let (copied, version) = (header(VERSION)?, own_version(member).await?);
    let (flavor, of_copy) = (member.flags.flavor, Flavor::of(copied));
    if of_copy != flavor {
        return Err(format!(
            "the copy {} is of {}, and the database here is {}",
            description.name,
            of_copy.name(),
            flavor.name()
        ));
    }
    if is_older(&version, copied)? {
        return Err(format!("the copy {} has version {copied}, which is newer than {version} here", description.name));
    }
    // The position that the database does not find in its tables.
    let arrived = match description.form {
        Form::Physical if flavor == Flavor::Mysql => {
            clone::unpack(member, sender.parts(first), &arriving).await?;
            None
        }
        Form::Physical => {
            unpack(member, sender, first, &arriving).await?;
            prepare(member, &arriving).await?;
            let of_replica = header(ROLE)? == REPLICA;
            if of_replica {
                take_back(member, &arriving).await?;
            }
            let position = if of_replica { None } else { Some(gtid::text(&position(&arriving)?)) };
            Some(Arrived { before: before(header(STATE)?)?, position })
        }
        Form::Logical if flavor == Flavor::Mysql => return Err("a copy of MySQL does not have statements".to_owned()),
        Form::Logical => {
            install(member, &arriving, "").await?;
            let scratch = Scratch::start(member, &arriving).await?;
            scratch.load(member, sender, first).await?;
            scratch.end().await?;
            Some(Arrived { before: before(header(STATE)?)?, position: None })
        }
    };
    let scratch = Scratch::start(member, &arriving).await?;
    let mut sql = scratch.connect().await?;
    if let Some(arrived) = &arrived {
        set_position(&mut sql, arrived).await?;
    }
    forget(&mut sql).await?;
    let replayed = replay(member, &scratch, &mut sql, &description, &incoming).await?;
    let (mut tables, mut rows) = (None, None);
    if let Some(statements) = check {
        tables = Some(check_tables(&mut sql).await?);
        rows = Some(check_rows(&mut sql, statements).await?).filter(|rows| *rows > 0);
    }
    let position = written(&mut sql).await?;
    if let Some(has) = description.header(HAS) {
        let has = has.parse::<Position>()?;
        if !position.contains(&has) {
            return Err(format!(
                "the copy has writes up to {}, and the restored data only {}",
                shown(&has),
                shown(&position)
            ));
        }
    }
    drop(sql);
    scratch.end().await?;
    let until = description.header(SEEN).map(str::to_owned);
    Ok(Report { name: description.name, data: None, position, replayed, version, until, tables, rows, seconds: 0.0 })
}

/// The position of the donor before the copy.
fn before(state: &str) -> Result<String, String> {
    Ok(gtid::text(&gtid::list(state).ok_or("the copy has no position")?))
}

/// Starts the program that sends the copy. It has described it when the first byte comes.
async fn begin(member: &DatabaseMember, incoming: &Path) -> Result<(Sender, Description, Vec<u8>), String> {
    let about = incoming.join("about.json");
    let [program, arguments @ ..] = member.flags.arguments.as_slice() else {
        return Err("the program that sends the copy is missing, such as: -- tillerman snapshot send".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).arg(format!("--about={}", about.display()));
    command.arg(format!("--logs={}", incoming.join("logs").display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| format!("{program} cannot be started: {error}"))?;
    let said = child.stderr.take().map(|log| tokio::spawn(last_line(log)));
    let mut output = child.stdout.take().ok_or_else(|| format!("{program} has no output"))?;
    let mut first = vec![0; PART];
    let read = tokio::time::timeout(FIRST, output.read(&mut first)).await;
    let read = read.map_err(|_| format!("{program} sends nothing"))?.map_err(|error| error.to_string())?;
    first.truncate(read);
    let mut sender = Sender { child, output, said };
    if first.is_empty() {
        sender.ends().await?;
        return Err(format!("{program} sent nothing"));
    }
    let mut text = Vec::new();
    let file = File::open(&about).and_then(|file| file.take(LIMIT).read_to_end(&mut text));
    file.map_err(|error| format!("{}: {error}", about.display()))?;
    let description: Description =
        serde_json::from_slice(&text).map_err(|error| format!("the description of the copy: {error}"))?;
    if description.logs.iter().any(|name| name.contains('/') || name.starts_with('.')) {
        return Err("the description of the copy names a log outside of its folder".to_owned());
    }
    Ok((sender, description, first))
}

/// The program that sends.
struct Sender {
    child: Child,
    output: ChildStdout,
    /// Passes its log on.
    said: Option<JoinHandle<String>>,
}

/// Passes a log on, and returns its last line.
async fn last_line(log: ChildStderr) -> String {
    let (mut log, mut last, mut line) = (BufReader::new(log), String::new(), Vec::new());
    while (&mut log).take(SAID).read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line);
        eprintln!("{}", text.trim_end());
        if !text.trim().is_empty() {
            text.trim().trim_start_matches("Error: ").clone_into(&mut last);
        }
        line.clear();
    }
    last
}

impl Sender {
    /// Passes everything to the input of another program. The copy is whole only if the sender ends well.
    async fn pass(mut self, first: &[u8], to: &mut Child, name: &str) -> Result<(), String> {
        let mut input = to.stdin.take().ok_or_else(|| format!("{name} has no input"))?;
        let mut part = first.to_vec();
        loop {
            let written = tokio::time::timeout(STEP, input.write_all(&part)).await;
            written.map_err(|_| format!("{name} hangs"))?.map_err(|error| format!("{name}: {error}"))?;
            part.resize(PART, 0);
            let read = tokio::time::timeout(STALLS, self.output.read(&mut part)).await;
            let read = read.map_err(|_| "the copy stopped arriving")?.map_err(|error| error.to_string())?;
            part.truncate(read);
            if read == 0 {
                break;
            }
        }
        input.shutdown().await.map_err(|error| format!("{name}: {error}"))?;
        drop(input);
        self.ends().await
    }

    /// Everything, in parts. The last one is an error if the sender does not end well.
    fn parts(mut self, first: Vec<u8>) -> mpsc::Receiver<Result<Bytes, String>> {
        let (parts, receiver) = mpsc::channel(2);
        tokio::spawn(async move {
            let mut part = first;
            while !part.is_empty() {
                if parts.send(Ok(Bytes::from(part))).await.is_err() {
                    return;
                }
                part = vec![0; PART];
                match tokio::time::timeout(STALLS, self.output.read(&mut part)).await {
                    Ok(Ok(read)) => part.truncate(read),
                    Ok(Err(error)) => return drop(parts.send(Err(error.to_string())).await),
                    Err(_) => return drop(parts.send(Err("the copy stopped arriving".to_owned())).await),
                }
            }
            if let Err(why) = self.ends().await {
                let _ = parts.send(Err(why)).await;
            }
        });
        receiver
    }

    async fn ends(&mut self) -> Result<(), String> {
        match tokio::time::timeout(FIRST, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => {
                let said = match self.said.take() {
                    Some(said) => said.await.unwrap_or_default(),
                    None => String::new(),
                };
                let why = if said.is_empty() { status.to_string() } else { said };
                Err(format!("the copy could not be sent: {why}"))
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the program that sends the copy does not end".to_owned()),
        }
    }
}

async fn unpack(member: &DatabaseMember, sender: Sender, first: Vec<u8>, arriving: &Path) -> Result<(), String> {
    let mut command = Command::new(&member.flags.mbstream);
    command.arg("-x").arg("-C").arg(arriving).stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| format!("mbstream cannot be started: {error}"))?;
    let passed = sender.pass(&first, &mut child, "mbstream").await;
    // If it ended early, its error says more.
    succeeds(Ok(child), "mbstream").await.map_err(|why| format!("the copy cannot be unpacked: {why}"))?;
    passed
}

/// A database on what arrives, which nobody else reaches.
struct Scratch {
    process: Process,
    socket: PathBuf,
    login: PathBuf,
}

impl Scratch {
    async fn start(member: &DatabaseMember, data: &Path) -> Result<Self, String> {
        let password = random()?;
        let init = InitFile::write(member, &password)?;
        // An account that grants this privilege has to have it itself.
        if member.flags.flavor == Flavor::Mariadb {
            let proxy = format!(
                "REPLACE INTO mysql.proxies_priv VALUES ('localhost', '{}', '', '', 1, '', NOW());\nFLUSH LOCAL PRIVILEGES;\n",
                accounts::AGENT
            );
            let appended =
                File::options().append(true).open(init.path()).and_then(|mut file| file.write_all(proxy.as_bytes()));
            appended.map_err(|error| format!("{}: {error}", init.path().display()))?;
        }
        // The arguments after the hyphens are the sender's here.
        let mut flags = member.flags.clone();
        flags.arguments.clear();
        let mut arguments = arguments(&flags, data, init.path(), false);
        arguments.extend(["--skip-networking=1", "--max-allowed-packet=1G"].map(str::to_owned));
        // After a crash this data is thrown away, and it is on the disk before it becomes the member's.
        arguments.extend(["--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0"].map(str::to_owned));
        let login = member.volume.copying().join("login.cnf");
        write_secret(&login, &format!("[client]\nuser={}\npassword={password}\n", accounts::AGENT))?;
        let access = super::sql::Login::new(&flags.socket(), password, flags.flavor);
        let process = Process::start(&flags.server(), &arguments, access, false).map_err(|error| error.to_string())?;
        if let Err(still) = answers(&process, flags.hung_after).await {
            process.kill().await;
            process.ended().await;
            let why = still.map_or_else(|| "its log says why".to_owned(), does_nothing);
            return Err(format!("the database does not start with the copy: {why}"));
        }
        Ok(Self { process, socket: flags.socket(), login })
    }

    async fn connect(&self) -> Result<Sql, String> {
        let mut sql = self.process.login.connect(SHORT).await.map_err(|error| error.to_string())?;
        sql.run("SET SESSION sql_log_bin = 0", SHORT).await.map_err(|error| error.to_string())?;
        Ok(sql)
    }

    /// The client of the database, which runs what comes to its input, and ends at the first error.
    fn client(&self, member: &DatabaseMember, more: &[&str]) -> Command {
        let mut client = Command::new(&member.flags.client);
        client.arg(format!("--defaults-file={}", self.login.display()));
        client.arg(format!("--socket={}", self.socket.display()));
        client.args(["--batch", "--binary-mode", "--max-allowed-packet=1G"]).args(more);
        client.stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        client
    }

    /// Runs the statements of a logical copy. They are not in the binary log: the new cluster has no member that needs them.
    async fn load(&self, member: &DatabaseMember, sender: Sender, first: Vec<u8>) -> Result<(), String> {
        let mut client = self.client(member, &["--init-command=SET SESSION sql_log_bin = 0"]);
        let mut child =
            client.stdin(Stdio::piped()).spawn().map_err(|error| format!("mariadb cannot be started: {error}"))?;
        let passed = sender.pass(&first, &mut child, "mariadb").await;
        // If the client ended early, its error says more.
        runs(child).await?;
        passed
    }

    /// Ends the database, so that all is in its files.
    async fn end(self) -> Result<(), String> {
        self.process.terminate().await;
        let ended = tokio::time::timeout(STEP, self.process.ended()).await;
        ended.map_err(|_| "the database does not end".to_owned())
    }
}

/// Waits for a client. Its messages contain values of the data, so only the number of its error is shown.
pub async fn runs(mut child: Child) -> Result<(), String> {
    let mut said = String::new();
    if let Some(log) = child.stderr.take() {
        let _ = log.take(SAID).read_to_string(&mut said).await;
    }
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if status.success() {
        return Ok(());
    }
    let number = said.split("ERROR ").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse::<u16>().ok());
    Err(match number {
        Some(number) => format!("the database refuses a statement of the copy: error {number}"),
        None => format!("the client of the database failed ({status})"),
    })
}

/// Removes what belongs to the cluster that was copied: the accounts of its members, and the source that it followed.
async fn forget(sql: &mut Sql) -> Result<(), String> {
    let said = |error: super::sql::SqlError| error.to_string();
    if let Some(opens) = sql.flavor.opens_for_agent() {
        sql.run(opens, SHORT).await.map_err(said)?;
    }
    sql.run(&format!("RESET {} ALL", sql.flavor.replica()), SHORT).await.map_err(said)?;
    let accounts = sql.flavor.accounts();
    let query = format!("SELECT User AS user FROM {accounts} WHERE User LIKE 'tillerman.%' AND Host = '%'");
    for row in sql.rows(&query, SHORT).await.map_err(said)? {
        let name = row.text("user");
        // Only such names reach a statement.
        if accounts::member(&name).is_some() {
            sql.run(&format!("DROP USER '{name}'@'%'"), SHORT).await.map_err(said)?;
        }
    }
    Ok(())
}

/// The writes that the database has.
pub async fn written(sql: &mut Sql) -> Result<Position, String> {
    let state = match sql.flavor {
        Flavor::Mariadb => "gtid_binlog_state",
        Flavor::Mysql => "gtid_executed",
    };
    let rows =
        sql.rows(&format!("SELECT @@GLOBAL.{state} AS state"), SHORT).await.map_err(|error| error.to_string())?;
    let state = rows.first().map(|row| row.text("state")).unwrap_or_default();
    let position = match sql.flavor {
        Flavor::Mariadb => gtid::list(&state).map(|list| gtid::position(&list)),
        Flavor::Mysql => sets::set(&state),
    };
    position.ok_or_else(|| "the database does not report a position".to_owned())
}

/// Runs the writes after the copy. It is the first that is written to the new data, so that nothing else collides with
/// it.
async fn replay(
    member: &DatabaseMember,
    scratch: &Scratch,
    sql: &mut Sql,
    description: &Description,
    incoming: &Path,
) -> Result<u64, String> {
    let Some(until) = &description.until else { return Ok(0) };
    let has = written(sql).await?;
    let mut wanted = Wanted::new(until, has)?;
    let mut relay = Relay::default();
    for name in &description.logs {
        let path = incoming.join("logs").join(name);
        let part = match sql.flavor {
            Flavor::Mariadb => incoming.join("replayed"),
            Flavor::Mysql => relay.next(&member.volume.arriving()),
        };
        let in_file = |error: std::io::Error| format!("the log {name}: {error}");
        let mut log = File::open(&path).and_then(Log::open).map_err(in_file)?;
        let chosen =
            choose(&mut log, |group| wanted.choose(&group.stream, group.number, group.time)).map_err(in_file)?;
        if let Some(why) = wanted.problem.take() {
            return Err(format!("the log {name}: {why}"));
        }
        if chosen.ranges.is_empty() {
            continue;
        }
        let copied = File::open(&path).and_then(|mut from| {
            let mut to = File::create(&part)?;
            to.write_all(&log.head)?;
            for (first, last) in &chosen.ranges {
                from.seek(SeekFrom::Start(*first))?;
                std::io::copy(&mut (&mut from).take(last - first), &mut to)?;
            }
            to.sync_all()
        });
        copied.map_err(in_file)?;
        if sql.flavor == Flavor::Mysql {
            relay.add();
            continue;
        }
        run_log(member, scratch, &part).await?;
        let has = written(sql).await?;
        if has != wanted.has {
            return Err(format!(
                "after the log {name} the database has {}, and not {}",
                shown(&has),
                shown(&wanted.has)
            ));
        }
    }
    wanted.is_reached()?;
    relay.apply(sql, &member.volume.arriving(), &wanted.has).await?;
    Ok(wanted.taken)
}

async fn run_log(member: &DatabaseMember, scratch: &Scratch, log: &Path) -> Result<(), String> {
    let mut reads = Command::new(&member.flags.binlog);
    reads.args(["--no-defaults", "--verify-binlog-checksum"]).arg(log);
    reads.env("TMPDIR", member.volume.temporary());
    reads.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut reader = reads.spawn().map_err(|error| format!("mariadb-binlog cannot be started: {error}"))?;
    let output = reader.stdout.take().ok_or("mariadb-binlog has no output")?;
    let output: Stdio = output.try_into().map_err(|error: std::io::Error| error.to_string())?;
    let client = scratch.client(member, &[]).stdin(output).spawn();
    runs(client.map_err(|error| format!("mariadb cannot be started: {error}"))?).await?;
    succeeds(Ok(reader), "mariadb-binlog").await
}

/// The wanted writes of the logs, and the database's position with them.
struct Wanted<'a> {
    until: &'a Until,
    has: Position,
    problem: Option<String>,
    ended: bool,
    reached: bool,
    taken: u64,
}

impl<'a> Wanted<'a> {
    fn new(until: &'a Until, has: Position) -> Result<Self, String> {
        let mut ended = false;
        if let Until::Write(write) = until {
            let (stream, number) = write.newest().next().ok_or("no write is named")?;
            let newest = has.newest().find(|(known, _)| *known == stream).map_or(0, |(_, newest)| newest);
            if newest > number {
                return Err(format!("the copy has later writes than {write}: begin with an older one"));
            }
            ended = newest == number;
        }
        Ok(Self { until, has, problem: None, ended, reached: ended, taken: 0 })
    }

    fn choose(&mut self, stream: &str, number: u64, time: u32) -> Choice {
        let mut write = Position::none();
        write.add(stream, number, number);
        let is_later = matches!(self.until, Until::Time(until) if i64::from(time) > *until);
        if self.has.contains(&write) {
            if is_later {
                self.problem = Some(format!("the copy has {write}, which was written later: begin with an older one"));
                return Choice::End;
            }
            return Choice::Skip;
        }
        if self.ended || is_later || self.problem.is_some() {
            self.ended = true;
            return Choice::End;
        }
        let own = counter(stream);
        let last = self.has.newest().filter(|(other, _)| counter(other) == own).map(|(_, number)| number).max();
        let last = last.unwrap_or_default();
        if number != last + 1 {
            self.problem = Some(format!(
                "the writes from {} to {} of {} {} are missing",
                last + 1,
                number.saturating_sub(1),
                if own == stream { "server" } else { "domain" },
                own
            ));
            return Choice::End;
        }
        // The position of MariaDB is all up to the newest of each stream, whichever server of the domain wrote them.
        self.has.add(stream, if own == stream { number } else { 1 }, number);
        self.taken += 1;
        self.reached = matches!(self.until, Until::Write(until) if *until == write);
        self.ended = self.reached;
        Choice::Take
    }

    fn is_reached(&self) -> Result<(), String> {
        match self.until {
            Until::Write(write) if !self.reached => {
                Err(format!("none of the logs has the write {write}: they end at {}", shown(&self.has)))
            }
            _ => Ok(()),
        }
    }
}

/// The name of the counter that numbers the writes of a stream without a gap: the domain of MariaDB's `DOMAIN-SERVER`, and the server of
/// MySQL.
fn counter(stream: &str) -> &str {
    match stream.split_once('-') {
        Some((domain, server)) if !server.contains('-') => domain,
        _ => stream,
    }
}

/// Reads all tables with their indexes. The error names none of them: names are values of the data.
async fn check_tables(sql: &mut Sql) -> Result<usize, String> {
    let said = |error: super::sql::SqlError| error.to_string();
    let query = "SELECT TABLE_SCHEMA AS folder, TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' \
                 AND TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema', 'sys')";
    let quoted = |name: String| format!("`{}`", name.replace('`', "``"));
    let tables = sql.rows(query, STEP).await.map_err(said)?;
    let mut damaged = 0;
    for table in &tables {
        let name = format!("{}.{}", quoted(table.text("folder")), quoted(table.text("name")));
        let rows = sql.rows(&format!("CHECK TABLE {name}"), STEP).await.map_err(said)?;
        let is_well =
            rows.iter().all(|row| !["error", "warning"].contains(&row.text("Msg_type").to_lowercase().as_str()));
        damaged += usize::from(!is_well || rows.is_empty());
    }
    if damaged > 0 { Err(format!("{damaged} of {} tables are damaged", tables.len())) } else { Ok(tables.len()) }
}

/// Runs statements, each of which has to return a row. The error says which one does not, without its text.
async fn check_rows(sql: &mut Sql, statements: &[String]) -> Result<usize, String> {
    for (at, statement) in statements.iter().enumerate() {
        if !sql.returns_row(statement, STEP).await.map_err(|error| format!("check {}: {error}", at + 1))? {
            return Err(format!("check {} returns no row", at + 1));
        }
    }
    Ok(statements.len())
}

#[cfg(test)]
mod tests {
    use super::Wanted;
    use crate::events::Choice;
    use tillerman_agent::stored::Until;

    fn choices(until: &Until, has: &str, writes: &[(u32, u64, u32)]) -> Result<(Vec<Choice>, String), String> {
        let mut wanted = Wanted::new(until, has.parse().unwrap())?;
        let mut choices = Vec::new();
        for (server, number, time) in writes {
            choices.push(wanted.choose(&format!("0-{server}"), *number, *time));
        }
        if let Some(why) = wanted.problem {
            return Err(why);
        }
        wanted.is_reached()?;
        Ok((choices, wanted.has.to_string()))
    }

    #[test]
    fn writes_after_the_copy_are_taken_up_to_the_time_or_the_write() {
        use Choice::{End, Skip, Take};
        let writes = [(1, 9, 100), (1, 10, 101), (2, 11, 103), (2, 12, 102)];
        for (until, expected, has) in [
            (Until::End, [Skip, Take, Take, Take], "0-1:1-10,0-2:1-12"),
            (Until::Time(101), [Skip, Take, End, End], "0-1:1-10"),
            // Writes after the first later one are not taken, even if their clock was slow.
            (Until::Time(102), [Skip, Take, End, End], "0-1:1-10"),
            (Until::Time(103), [Skip, Take, Take, Take], "0-1:1-10,0-2:1-12"),
            (Until::Write("0-2:11".parse().unwrap()), [Skip, Take, Take, End], "0-1:1-10,0-2:1-11"),
            (Until::Write("0-1:9".parse().unwrap()), [Skip, End, End, End], "0-1:1-9"),
        ] {
            assert_eq!(choices(&until, "0-1:1-9", &writes), Ok((expected.to_vec(), has.into())), "{until:?}");
        }
    }

    /// Numbers are without a gap within a domain, whichever server wrote them, and not across domains.
    #[test]
    fn each_domain_has_numbers_of_its_own() {
        let mut wanted = Wanted::new(&Until::End, "0-1:1-9,10-1:1-4".parse().unwrap()).unwrap();
        for (domain, server, number) in [(1, 1, 1), (0, 2, 10), (1, 2, 2), (10, 1, 5), (0, 1, 11)] {
            let stream = format!("{domain}-{server}");
            assert_eq!(wanted.choose(&stream, number, 1), Choice::Take, "{stream}-{number}");
        }
        assert_eq!((wanted.taken, wanted.problem.clone()), (5, None));
        assert_eq!(wanted.choose("1-1", 4, 1), Choice::End);
        assert_eq!(wanted.problem.as_deref(), Some("the writes from 3 to 3 of domain 1 are missing"));
    }

    /// A server of MySQL has numbers of its own, and a position has only those that were there.
    #[test]
    fn each_server_of_mysql_has_numbers_of_its_own() {
        let [a, b] = ["3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"];
        let mut wanted = Wanted::new(&Until::End, format!("{a}:3-9").parse().unwrap()).unwrap();
        for (stream, number, choice) in [
            (a, 9, Choice::Skip),
            (a, 10, Choice::Take),
            (b, 1, Choice::Take),
            (a, 11, Choice::Take),
            (b, 3, Choice::End),
        ] {
            assert_eq!(wanted.choose(stream, number, 1), choice, "{stream}:{number}");
        }
        assert_eq!(wanted.problem, Some(format!("the writes from 2 to 2 of server {b} are missing")));
        assert_eq!(wanted.has.to_string(), format!("{a}:3-11,{b}:1"));
    }

    #[test]
    fn a_gap_and_a_copy_that_is_too_new_are_errors() {
        let gap = choices(&Until::End, "0-1:1-9", &[(1, 10, 1), (1, 14, 2)]).unwrap_err();
        assert_eq!(gap, "the writes from 11 to 13 of domain 0 are missing");
        assert!(choices(&Until::Time(99), "0-1:1-9", &[(1, 9, 100)]).unwrap_err().contains("later"));
        assert!(choices(&Until::Write("0-1:5".parse().unwrap()), "0-1:1-9", &[]).unwrap_err().contains("later"));
        let far = choices(&Until::Write("0-1:50".parse().unwrap()), "0-1:1-9", &[(1, 10, 1)]).unwrap_err();
        assert!(far.contains("none of the logs has"), "{far}");
    }
}

//! Copies that are stored, and new clusters that begin with one: `tillerman snapshot` and `tillerman-agent restore`.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use tillerman::agent::client::Client;
use tillerman::agent::tls::{Tls, TlsFiles};

use crate::cluster::{DatabaseCluster, MemberProcess, PATIENCE, is_mysql, server};
use crate::seeding::fill;
use crate::trust::certificates;
use crate::writers::{Writers, lost};

/// Where copies are stored, and what is asked.
pub struct Shelf {
    /// The folder of a shelf on a volume.
    pub folder: PathBuf,
    pub store: Vec<String>,
    agents: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

impl Shelf {
    pub fn of(cluster: &DatabaseCluster) -> Self {
        let agents: Vec<_> = cluster.members.iter().map(MemberProcess::url).collect();
        let folder = cluster.folder().join("shelf");
        let store = vec![format!("--store=file://{}", folder.display())];
        Self { folder, store, agents: vec![format!("--agents={}", agents.join(","))], environment: Vec::new() }
    }

    /// With the certificates that agents ask for.
    fn trusting(mut self, tls: &Tls) -> Self {
        let files = [("cacert", &tls.authorities), ("cert", &tls.certificate), ("key", &tls.key)];
        self.agents.truncate(1);
        self.agents.extend(files.map(|(name, path)| format!("--{name}={}", path.display())));
        self
    }

    /// `tillerman snapshot`; the words and the store.
    fn words(&self, words: &[&str]) -> Vec<String> {
        let mut all = vec![env!("CARGO_BIN_EXE_tillerman").to_owned(), "snapshot".to_owned()];
        all.extend(words.iter().map(|word| (*word).to_owned()));
        all.extend(self.store.iter().cloned());
        all
    }

    fn command(&self, words: &[&str]) -> Command {
        let all = self.words(words);
        let mut command = Command::new(&all[0]);
        command.args(&all[1..]).envs(self.environment.clone()).stdin(Stdio::null());
        command
    }

    /// The same for what asks agents.
    fn asking(&self, words: &[&str]) -> Command {
        let mut command = self.command(words);
        command.args(&self.agents);
        command
    }

    async fn run(&self, words: &[&str]) -> Output {
        ended(self.command(words)).await
    }

    pub async fn copy(&self, more: &[&str]) -> Value {
        let output = ended(self.asking(&[&["copy", "-o", "json"], more].concat())).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("it prints JSON")
    }

    pub async fn archive(&self) -> String {
        let output = ended(self.asking(&["archive"])).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Where the archive ends.
    fn end(&self, cluster: &DatabaseCluster) -> Value {
        let name = format!("db_log_{}_end.json", &cluster.data[..12]);
        serde_json::from_slice(&fs::read(self.folder.join(name)).expect("it is there")).expect("it is JSON")
    }

    /// The sender of a restore. A member with another root finds it beside the shelf.
    pub fn sender(&self, words: &[&str]) -> Vec<String> {
        let mut all = self.words(&[&["send"], words].concat());
        if is_mysql() {
            let program = self.folder.with_file_name("tillerman");
            if !program.exists() {
                let from = Path::new(&all[0]);
                fs::hard_link(from, &program).or_else(|_| fs::copy(from, &program).map(|_| ())).unwrap();
            }
            all[0] = program.display().to_string();
        }
        all
    }

    /// The files that are not records, whose names have this part.
    pub fn files(&self, part: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path()).filter(|path| path.extension().is_none_or(|e| e != "json"));
        let mut paths: Vec<_> = paths.filter(|path| path.display().to_string().contains(part)).collect();
        paths.sort();
        paths
    }
}

/// How many accounts have such a name.
async fn accounts(member: &MemberProcess, pattern: &str) -> u64 {
    let table = if is_mysql() { "mysql.user" } else { "mysql.global_priv" };
    member.numbers(&format!("SELECT COUNT(*) FROM {table} WHERE User LIKE '{pattern}'")).await[0]
}

async fn ended(mut command: Command) -> Output {
    let run = move || command.output();
    tokio::task::spawn_blocking(run).await.expect("nobody panicked").expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The container that restores.
fn restoring(member: &MemberProcess, more: &[&str], sender: &[String]) -> Command {
    let mut command = member.container(&[&["restore"], more].concat());
    command.arg("--").args(sender).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub async fn restore(member: &MemberProcess, more: &[&str], sender: &[String]) -> Result<Value, String> {
    let output = ended(restoring(member, more, sender)).await;
    if output.status.success() {
        return Ok(serde_json::from_slice(&output.stdout).unwrap_or(Value::Null));
    }
    Err(text(&output.stderr))
}

/// A new cluster of one member that begins with a copy. It is the primary.
async fn restored(sender: &[String]) -> DatabaseCluster {
    let mut cluster = DatabaseCluster::new(1);
    let done = restore(&cluster.members[0], &[], sender).await.unwrap_or_else(|why| panic!("{why}"));
    eprintln!("restored: {done}");
    assert!(
        !cluster.members[0].folder.join("v/arriving").exists() && !cluster.members[0].folder.join("v/copying").exists()
    );
    cluster.create().await;
    assert_eq!(done["data"], cluster.data.as_str());
    cluster
}

/// Waits for the next second: times of writes have no parts of one.
async fn next_second() -> i64 {
    let second = || jiff::Timestamp::now().as_second();
    let now = second();
    while second() == now {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    second()
}

fn at(second: i64) -> String {
    jiff::Timestamp::from_second(second).expect("it is a time").to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_cluster_begins_with_a_copy_that_was_made_while_clients_wrote() {
    let cluster = DatabaseCluster::grown(2).await;
    fill(&cluster, 64).await;
    let shelf = Shelf::of(&cluster);
    let writers = Writers::start(&cluster.members[..1], 3).await;
    writers.more(200).await;
    let (keys, began) = (writers.keys(), Instant::now());
    writers.longest_gap();
    let saved = shelf.copy(&[]).await;
    eprintln!("stored in {:.1?}, longest gap {:.0?}: {saved}", began.elapsed(), writers.longest_gap());
    let record = &saved["record"];
    assert_eq!(
        (&record["state"], &record["member"], &record["form"]),
        (&"verified".into(), &"db-1".into(), &"physical".into())
    );
    assert_eq!(record["data"], cluster.data.as_str());
    writers.more(50).await;
    writers.stop().await;

    let checked = DatabaseCluster::new(1);
    let done =
        restore(&checked.members[0], &["--check"], &shelf.sender(&[])).await.unwrap_or_else(|why| panic!("{why}"));
    eprintln!("checked: {done}");
    assert!(done["tables"].as_u64() > Some(20) && done["data"].is_null());
    assert!(!checked.members[0].folder.join("v/data").exists(), "nothing stays of a check");

    let mut new = restored(&shelf.sender(&[])).await;
    assert_ne!(new.data, cluster.data);
    let member = &new.members[0];
    assert_eq!(lost(member, &keys).await, Vec::<u64>::new());
    assert_eq!(member.numbers("SELECT COUNT(*) FROM big.b").await, [64 * 16]);
    assert_eq!(accounts(member, "tillerman.%").await, 0, "accounts of the earlier members");
    member.run("INSERT INTO app.t VALUES (1000000, 'new')").await.unwrap();

    // Who restores again finds the data, and leaves it as it is.
    new.member(0).stop();
    assert_eq!(restore(&new.members[0], &[], &shelf.sender(&[])).await, Ok(Value::Null));
    new.member(0).start();
    let state = new.members[0].until("it has data", |state| !state.start.is_empty()).await;
    assert_eq!(state.data.as_ref(), Some(&new.data));
    new.promote(0, 2, 0, &[]).await.unwrap();
    assert_eq!(new.members[0].numbers("SELECT id FROM app.t WHERE v = 'new'").await, [1_000_000]);

    // Neither does one that may not create data, nor one whose cluster has data.
    for environment in [vec![("PRIMARY", String::new())], vec![("PRIMARY", "db-0".into()), ("DATA", "other".into())]] {
        let mut other = DatabaseCluster::new(1);
        other.member(0).environment = environment;
        assert_eq!(restore(&other.members[0], &[], &shelf.sender(&[])).await, Ok(Value::Null));
        assert!(!other.members[0].folder.join("v/data").exists());
    }
}

/// A replica of a new cluster that began with a copy is seeded and follows.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_is_copied_if_there_is_no_replica_and_the_new_cluster_grows() {
    let cluster = DatabaseCluster::with_primary(1).await;
    let shelf = Shelf::of(&cluster);
    let writers = Writers::start(&cluster.members, 2).await;
    writers.more(100).await;
    let keys = writers.keys();
    let saved = shelf.copy(&[]).await;
    assert_eq!(saved["record"]["member"], "db-0");
    writers.stop().await;
    let mut new = DatabaseCluster::new(2);
    restore(&new.members[0], &[], &shelf.sender(&[])).await.unwrap();
    new.create().await;
    new.grow(2).await;
    new.members[0].run("INSERT INTO app.t VALUES (1000000, 'new')").await.unwrap();
    let primary = new.members[0].state().await;
    new.members[1].until("it has all", |state| state.has == primary.has).await;
    for member in &new.members {
        assert_eq!(lost(member, &keys).await, Vec::<u64>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_after_a_copy_are_restored_up_to_a_write_a_time_or_the_end() {
    let cluster = DatabaseCluster::grown(2).await;
    let shelf = Shelf::of(&cluster);
    let writers = Writers::start(&cluster.members, 3).await;
    writers.more(100).await;
    shelf.archive().await;
    shelf.copy(&[]).await;
    writers.more(100).await;
    shelf.archive().await;
    let again = shelf.archive().await;
    eprintln!("{again}");
    writers.more(100).await;
    let keys = writers.stop().await;
    let primary = &cluster.members[0];
    let time = next_second().await;
    let before = primary.state().await.has;
    next_second().await;
    // Users, definitions, and the mistake.
    primary.run("CREATE USER 'app'@'%' IDENTIFIED BY 'p''w'").await.unwrap();
    primary.run("GRANT SELECT ON app.* TO 'app'@'%'").await.unwrap();
    primary.run("CREATE PROCEDURE app.p() BEGIN INSERT INTO app.t VALUES (2000000, 'a;b'); END").await.unwrap();
    primary.run("CALL app.p()").await.unwrap();
    primary.run("DROP TABLE app.t").await.unwrap();
    // The other member is the primary.
    cluster.demote(0, 2, 5000).await.unwrap();
    let demoted = cluster.members[0].state().await;
    cluster.members[1].until("it has all", |state| state.has == demoted.has).await;
    cluster.promote(1, 2, 0, &[0]).await.unwrap();
    cluster.follow(0, 2, 1, true).await.unwrap();
    cluster.promote(1, 2, 1, &[0]).await.unwrap();
    cluster.members[1].until("it is open", |state| state.writable && state.confirmed == 1).await;
    cluster.members[1].run("CREATE TABLE app.later (id INT PRIMARY KEY)").await.unwrap();
    cluster.members[1].run("INSERT INTO app.later VALUES (7)").await.unwrap();
    let last = cluster.members[1].state().await.has;
    cluster.members[0].until("it has all", |state| state.has.contains(&last)).await;
    let archived = shelf.archive().await;
    eprintln!("{archived}");
    assert!(archived.contains(&last.to_string()), "{last}");

    let (stream, number) = before.newest().next().unwrap();
    let write = |number: u64| format!("{stream}{}{number}", if is_mysql() { ":" } else { "-" });
    for until in [write(number), at(time)] {
        let new = restored(&shelf.sender(&["--until", &until])).await;
        assert_eq!(new.members[0].state().await.has, before, "{until}");
        assert_eq!(lost(&new.members[0], &keys).await, Vec::<u64>::new(), "{until}");
    }
    let new = restored(&shelf.sender(&["--until", "end"])).await;
    assert_eq!(new.members[0].state().await.has, last);
    assert_eq!(new.members[0].numbers("SELECT id FROM app.later").await, [7]);
    assert_eq!(accounts(&new.members[0], "app").await, 1);
    assert!(new.members[0].run("SELECT 1 FROM app.t").await.is_err(), "it was dropped");

    for (until, error) in [
        (at(time + 100_000), "known until"),
        (write(900_000), "not in the archive"),
        (at(time - 1000), "later writes"),
        (write(3), "later writes"),
    ] {
        let new = DatabaseCluster::new(1);
        let why = restore(&new.members[0], &[], &shelf.sender(&["--until", &until])).await.unwrap_err();
        assert!(why.contains(error), "{until}: {why}");
        assert!(!new.members[0].folder.join("v/data").exists());
    }

    // A log that is missing is a gap, and says so.
    let logs = shelf.files("_log_");
    assert!(logs.len() >= 3, "{logs:?}");
    // One run may store several logs; those of the first were before the copy.
    let middle = &logs[logs.len() - 2];
    let aside = middle.with_extension("aside");
    let record = middle.display().to_string() + ".json";
    fs::rename(&record, &aside).unwrap();
    let new = DatabaseCluster::new(1);
    let why = restore(&new.members[0], &[], &shelf.sender(&["--until", "end"])).await.unwrap_err();
    eprintln!("{why}");
    assert!(why.contains("gap") && why.contains("missing"), "{why}");
    fs::rename(&aside, &record).unwrap();
    // One that was altered is refused.
    alter(middle);
    let why = restore(&new.members[0], &[], &shelf.sender(&["--until", "end"])).await.unwrap_err();
    assert!(why.contains("is not what was stored"), "{why}");
    assert!(!new.members[0].folder.join("v/data").exists());

    // With a newer copy, older logs are of no use.
    shelf.copy(&["--keep", "1"]).await;
    assert_eq!((shelf.files("_log_").len(), shelf.files("db_v").len()), (0, 1));
}

/// Changes one byte in the middle.
pub fn alter(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_is_cut_or_altered_is_refused() {
    let cluster = DatabaseCluster::with_primary(1).await;
    fill(&cluster, 16).await;
    let shelf = Shelf::of(&cluster);
    shelf.copy(&["--name", "whole"]).await;
    let path = shelf.folder.join("whole");
    let bytes = fs::read(&path).unwrap();
    let new = DatabaseCluster::new(1);
    let refused = async || {
        let why = restore(&new.members[0], &[], &shelf.sender(&["whole"])).await.unwrap_err();
        let left: Vec<_> =
            fs::read_dir(new.members[0].folder.join("v")).unwrap().flatten().map(|e| e.file_name()).collect();
        assert!(!left.iter().any(|name| name == "data" || name == "arriving" || name == "copying"), "{left:?}");
        why
    };
    alter(&path);
    let why = refused().await;
    // Parts of a copy of MariaDB have checksums of their own.
    let expected = if is_mysql() { "is not what was stored" } else { "the copy cannot be unpacked" };
    assert!(why.contains(expected), "{why}");
    let verified = shelf.run(&["verify", "whole"]).await;
    assert!(!verified.status.success() && text(&verified.stderr).contains("is not what was stored"));
    // The last byte.
    fs::write(&path, [&bytes[..bytes.len() - 1], b"x"].concat()).unwrap();
    let why = refused().await;
    assert!(why.contains("cannot be unpacked") || why.contains("is not what was stored"), "{why}");
    fs::write(&path, &bytes[..bytes.len() - 1000]).unwrap();
    let why = refused().await;
    assert!(why.contains("is not a good copy"), "{why}");
    fs::write(&path, &bytes).unwrap();

    // The program that sends the copy is killed: nothing is stored.
    let saving = ended(shelf.asking(&["copy", "--name=cut"]));
    let kills = async {
        let under_way =
            |state: &tillerman::agent::contract::MemberState| state.busy.as_ref().is_some_and(|b| b.done > 1 << 20);
        cluster.members[0].until("the copy is under way", under_way).await;
        cluster.members[0].signal("KILL", if is_mysql() { "tillerman-agent" } else { "mariadb-backup" });
    };
    let (output, ()) = tokio::join!(saving, kills);
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("AgentFailed") && said.contains("before it was complete"), "{said}");
    assert!(!shelf.folder.join("cut").exists() && !shelf.folder.join("cut.json").exists());
    restore(&new.members[0], &[], &shelf.sender(&["whole"])).await.unwrap();
}

/// Killed at any moment, a restore leaves nothing that counts as data, and the next attempt makes all of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_is_killed_leaves_nothing_and_the_next_one_all() {
    let cluster = DatabaseCluster::with_primary(1).await;
    fill(&cluster, 64).await;
    let shelf = Shelf::of(&cluster);
    let writers = Writers::start(&cluster.members, 3).await;
    writers.more(100).await;
    shelf.copy(&[]).await;
    writers.more(500).await;
    let keys = writers.stop().await;
    shelf.archive().await;
    let new = DatabaseCluster::new(1);
    let (volume, sender) = (new.members[0].folder.join("v"), shelf.sender(&["--until", "end"]));
    let moments: [(&str, &dyn Fn() -> bool); 6] = [
        ("it begins", &|| volume.join("copying").exists()),
        ("it unpacks", &|| volume.join("arriving/ibdata1").exists()),
        ("it prepares", &|| is_mysql() || new.members[0].has_process_of("mariadb-backup")),
        ("the database starts", &|| new.members[0].has_process_of(server())),
        ("it runs the logs", &|| {
            volume.join(if is_mysql() { "arriving/relay.index" } else { "copying/replayed" }).exists()
        }),
        ("it is made the data", &|| volume.join("arriving/tillerman.json").exists()),
    ];
    for (moment, is_there) in moments {
        let mut process = restoring(&new.members[0], &[], &sender).spawn().unwrap();
        let since = Instant::now();
        let mut ended = false;
        while !is_there() && !ended {
            assert!(since.elapsed() < PATIENCE, "{moment}");
            ended = process.try_wait().unwrap().is_some();
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        let _ = process.kill();
        process.wait().unwrap();
        eprintln!("killed when {moment}: data {}, ended {ended}", volume.join("data").exists());
        if volume.join("data").exists() {
            assert_eq!(moment, "it is made the data", "only the last step makes it");
        }
    }
    let _ = restore(&new.members[0], &[], &sender).await.unwrap();
    let mut new = new;
    new.create().await;
    assert_eq!(lost(&new.members[0], &keys).await, Vec::<u64>::new());
    assert_eq!(new.members[0].numbers("SELECT COUNT(*) FROM big.b").await, [64 * 16]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_logical_copy_makes_the_data_again_with_what_was_written_after_it() {
    let cluster = DatabaseCluster::grown(2).await;
    let shelf = Shelf::of(&cluster);
    if is_mysql() {
        let refused = ended(shelf.asking(&["copy", "--logical"])).await;
        assert!(text(&refused.stderr).contains("MySQL is not copied as statements"), "{}", text(&refused.stderr));
        return;
    }
    let primary = &cluster.members[0];
    let writers = Writers::start(&cluster.members[..1], 2).await;
    writers.more(100).await;
    primary.run("CREATE USER 'app'@'%' IDENTIFIED BY 'p''w'").await.unwrap();
    primary.run("CREATE VIEW app.v AS SELECT id FROM app.t").await.unwrap();
    primary.run("CREATE PROCEDURE app.p() BEGIN SELECT 1; END").await.unwrap();
    let (keys, began) = (writers.keys(), Instant::now());
    let saved = shelf.copy(&["--logical"]).await;
    eprintln!("stored in {:.1?}: {saved}", began.elapsed());
    assert_eq!((&saved["record"]["form"], &saved["record"]["member"]), (&"logical".into(), &"db-1".into()));
    writers.more(100).await;
    let all = writers.stop().await;
    let last = primary.state().await.has;
    cluster.members[1].until("it has all", |state| state.has.contains(&last)).await;
    shelf.archive().await;
    let new = restored(&shelf.sender(&[])).await;
    assert_eq!(lost(&new.members[0], &keys).await, Vec::<u64>::new());
    assert_eq!(accounts(&new.members[0], "app").await, 1);
    assert_eq!(new.members[0].numbers("SELECT COUNT(*) > 99 FROM app.v").await, [1]);
    new.members[0].run("CALL app.p()").await.unwrap();
    let new = restored(&shelf.sender(&["--until=end"])).await;
    assert_eq!(lost(&new.members[0], &all).await, Vec::<u64>::new());
    assert_eq!(new.members[0].state().await.has, last);
}

/// A server that speaks as S3 does: versitygw. It ends with this value.
pub struct Gateway(Child, pub u16);

impl Gateway {
    pub fn start(folder: &Path) -> Self {
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home).unwrap_or_default();
        let tools = std::env::var_os("TOOLS").map_or_else(|| cache.join("tillerman/tools"), PathBuf::from);
        let objects = folder.join("s3");
        fs::create_dir_all(objects.join("bucket")).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new(tools.join("versitygw"))
            .args(["--port", &format!("127.0.0.1:{free}"), "posix"])
            .arg(objects)
            .envs([("ROOT_ACCESS_KEY", "the-key"), ("ROOT_SECRET_KEY", "the-secret")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let gateway = Self(process.expect("tests/cluster/build-tools.sh backup"), free);
        let since = Instant::now();
        while TcpStream::connect(("127.0.0.1", free)).is_err() {
            assert!(since.elapsed() < PATIENCE, "the server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        gateway
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_with_certificates_are_copied_to_object_storage_in_parts() {
    let mut cluster = DatabaseCluster::new(1);
    let names = format!("IP:{}", cluster.members[0].address);
    let folder = cluster.folder();
    let (ours, others) = (certificates(&folder.join("tls"), &names), certificates(&folder.join("other"), &names));
    cluster.member(0).tls = Some(ours.clone());
    cluster.member(0).client = Client { tls: Some(TlsFiles::read(&ours).unwrap().client()) };
    cluster.create().await;
    fill(&cluster, 64).await;
    let gateway = Gateway::start(&folder);
    let mut shelf = Shelf::of(&cluster).trusting(&others);
    let endpoint = format!("--s3-endpoint=http://127.0.0.1:{}", gateway.1);
    shelf.store = vec!["--store=s3://bucket/shop".to_owned(), endpoint];
    shelf.environment =
        vec![("AWS_ACCESS_KEY_ID", "the-key".to_owned()), ("AWS_SECRET_ACCESS_KEY", "the-secret".to_owned())];
    let refused = ended(shelf.asking(&["copy"])).await;
    assert!(!refused.status.success() && text(&refused.stderr).contains("AgentFailed"), "{}", text(&refused.stderr));

    let shelf = shelf.trusting(&ours);
    let saved = shelf.copy(&[]).await;
    eprintln!("stored: {saved}");
    assert!(saved["record"]["size"].as_u64() > Some(64 << 20), "it has more than one part");
    shelf.archive().await;
    // As an init container brings it.
    let program = folder.join("tillerman");
    let mut installed = Command::new(env!("CARGO_BIN_EXE_tillerman"));
    let installed = installed
        .args(["snapshot", "install"])
        .arg(&program)
        .arg(format!("--authorities={}", folder.join("authorities.crt").display()))
        .status();
    assert!(installed.unwrap().success());
    assert!(fs::read_to_string(folder.join("authorities.crt")).unwrap().contains("BEGIN CERTIFICATE"));
    let mut sender = shelf.sender(&["--until=end"]);
    sender[0] = program.display().to_string();
    let mut new = DatabaseCluster::new(1);
    new.member(0).environment.extend(shelf.environment.clone());
    restore(&new.members[0], &[], &sender).await.unwrap_or_else(|why| panic!("{why}"));
    new.create().await;
    assert_eq!(new.members[0].numbers("SELECT COUNT(*) FROM big.b").await, [64 * 16]);
}

/// What nobody acknowledged may be taken back: it is not stored, and nothing is claimed about that time.
#[tokio::test(flavor = "multi_thread")]
async fn only_acknowledged_writes_are_archived() {
    let mut cluster = DatabaseCluster::grown(2).await;
    let shelf = Shelf::of(&cluster);
    cluster.members[0].run("CREATE DATABASE app").await.unwrap();
    cluster.members[0].run("CREATE TABLE app.t (id INT PRIMARY KEY)").await.unwrap();
    shelf.archive().await;
    let before = shelf.end(&cluster);
    assert_eq!(before["has"], cluster.members[0].state().await.has.to_string().as_str());
    cluster.member(1).kill();
    // Its processes end a moment after it.
    cluster.members[0].until("nobody acknowledges", |state| state.acknowledging.is_empty()).await;
    let address = cluster.members[0].address;
    let waits = tokio::spawn(async move {
        use mysql_async::prelude::Queryable as _;
        let mut connection = crate::cluster::connect(address).await?;
        connection.query_drop("INSERT INTO app.t VALUES (1)").await
    });
    cluster.members[0].until("the write waits", |state| state.waiting > 0).await;
    shelf.archive().await;
    let after = shelf.end(&cluster);
    assert_eq!((&after["has"], &after["seen"]), (&before["has"], &before["seen"]));
    assert!(!waits.is_finished());
    cluster.member(1).start();
    cluster.members[1].until("it answers", |state| !state.start.is_empty()).await;
    cluster.follow(1, 1, 0, true).await.unwrap();
    waits.await.unwrap().unwrap();
    shelf.archive().await;
    let last = shelf.end(&cluster);
    assert_eq!(last["has"], cluster.members[0].state().await.has.to_string().as_str());
    assert!(last["seen"].as_str() > before["seen"].as_str() && last["has"] != before["has"]);
}

/// Logs are stored again and again, until the database is away for too long.
#[tokio::test(flavor = "multi_thread")]
async fn an_archive_goes_on_until_nothing_succeeds_for_too_long() {
    let mut cluster = DatabaseCluster::with_primary(1).await;
    let shelf = Shelf::of(&cluster);
    let mut process = shelf
        .asking(&["archive", "--every=100ms", "--give-up=1s", "--call-timeout=1s"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let writers = Writers::start(&cluster.members, 1).await;
    writers.more(100).await;
    writers.stop().await;
    let has = cluster.members[0].state().await.has.to_string();
    let since = Instant::now();
    while shelf.files("_log_").is_empty() || shelf.end(&cluster)["has"] != has.as_str() {
        assert!(since.elapsed() < PATIENCE, "{has}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(process.try_wait().unwrap().is_none());
    cluster.member(0).kill();
    let output = tokio::task::spawn_blocking(move || process.wait_with_output()).await.unwrap().unwrap();
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("AgentFailed"), "{}", text(&output.stderr));
}

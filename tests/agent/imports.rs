//! Imports: `tillerman-agent import` brings the data of a running MariaDB into a cluster, while clients write to it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Opts};

use serde_json::json;

use crate::cluster::{DatabaseCluster, MemberProcess, PASSWORD, PATIENCE, agent, is_mysql};
use crate::declared::Folder;
use crate::writers::{Reached as _, Writers, lost, numbers, reached, run};

const PORT: u16 = 3306;
const SECRET: &str = "p'a\"s\\s";

/// A MariaDB that runs by itself, as anybody has one.
struct Source {
    address: String,
    folder: PathBuf,
    arguments: Vec<String>,
    process: Child,
}

impl Drop for Source {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Source {
    /// With the server ID of the second member: rows that kept it would be skipped there.
    async fn start(cluster: &DatabaseCluster, more: &[&str]) -> Self {
        let folder = cluster.folder().join("source");
        let data = folder.join("data");
        fs::create_dir_all(&folder).unwrap();
        let installed = Command::new("mariadb-install-db")
            .args(["--no-defaults", "--auth-root-authentication-method=normal", "--user=root"])
            .arg(format!("--datadir={}", data.display()))
            .output()
            .unwrap();
        assert!(installed.status.success(), "{installed:?}");
        let init = folder.join("init.sql");
        let root = format!(
            "DELETE FROM mysql.global_priv WHERE User IN ('', 'root');\nFLUSH PRIVILEGES;\nCREATE USER IF NOT EXISTS root@'%' IDENTIFIED BY '{}';\n\
             GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;\n",
            SECRET.replace('\\', "\\\\").replace('\'', "''")
        );
        fs::write(&init, root).unwrap();
        fs::write(folder.join("root"), SECRET).unwrap();
        fs::write(folder.join("admin"), PASSWORD).unwrap();
        let address = DatabaseCluster::beside();
        let mut arguments: Vec<_> = [
            "--no-defaults",
            "--user=root",
            "--log-bin=mysql-bin",
            "--binlog-format=ROW",
            "--server-id=2",
            "--innodb-buffer-pool-size=32M",
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.extend([
            format!("--datadir={}", data.display()),
            format!("--socket={}", folder.join("s").display()),
            format!("--pid-file={}", folder.join("pid").display()),
            format!("--bind-address={address}"),
            format!("--port={PORT}"),
            format!("--init-file={}", init.display()),
        ]);
        arguments.extend(more.iter().map(|&argument| argument.to_owned()));
        let process = serve(&folder, &arguments);
        let source = Self { address, folder, arguments, process };
        source.answers().await;
        source
    }

    fn at(&self) -> Opts {
        reached(&self.address, "root", SECRET)
    }

    async fn answers(&self) {
        let since = Instant::now();
        while Conn::new(self.at()).await.is_err() {
            assert!(since.elapsed() < PATIENCE, "{}", fs::read_to_string(self.folder.join("log")).unwrap());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn run(&self, statements: &[&str]) {
        for statement in statements {
            run(&self.at(), statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
    }

    async fn texts(&self, query: &str) -> Vec<String> {
        texts(&self.at(), query).await
    }

    /// Killed, and started again.
    async fn restarts(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = serve(&self.folder, &self.arguments);
        self.answers().await;
    }

    /// The import of it into the first member.
    fn import(&self, to: &MemberProcess, more: &[&str]) -> Command {
        self.import_as("root", to, more)
    }

    /// The same with an account whose password is in the file of its name.
    fn import_as(&self, user: &str, to: &MemberProcess, more: &[&str]) -> Command {
        let mut command = Command::new(agent());
        command.arg("import").arg(format!("--source-host={}", self.address)).arg(format!("--host={}", to.address));
        command.arg(format!("--source-password-file={}", self.folder.join(user).display()));
        command.arg(format!("--source-user={user}"));
        command.arg(format!("--password-file={}", self.folder.join("admin").display())).arg("--user=admin");
        command.arg(format!("--done={}", self.folder.join("done").display())).args(more).stdin(Stdio::null());
        command
    }
}

fn serve(folder: &std::path::Path, arguments: &[String]) -> Child {
    let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
    Command::new("mariadbd").args(arguments).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

async fn texts(at: &Opts, query: &str) -> Vec<String> {
    let mut connection = Conn::new(at.clone()).await.expect("it takes connections");
    connection.query(query).await.expect("it answers")
}

/// A program that ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn of(mut command: Command) -> Self {
        Self(command.spawn().unwrap())
    }

    async fn ends(mut self, within: Duration, at: &MemberProcess) {
        let since = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                assert!(status.success(), "{status}");
                return;
            }
            assert!(
                since.elapsed() < within,
                "the import does not end; SELECT * FROM tillerman.import on {} has the reason",
                at.name
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Waits until the record of the import says this.
async fn says(at: &MemberProcess, part: &str) -> String {
    let (since, mut last) = (Instant::now(), String::new());
    while since.elapsed() < PATIENCE * 2 {
        if let Ok(mut connection) = Conn::new(at.options()).await
            && let Ok(Some(message)) = connection.query_first("SELECT message FROM tillerman.import").await
        {
            last = message;
        }
        if last.contains(part) {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it does not say {part:?}, but {last:?}");
}

/// Tables of many kinds, with what belongs to them.
const SCHEMA: [&str; 16] = [
    "CREATE DATABASE `s h``op` CHARACTER SET utf8mb4",
    "CREATE TABLE `s h``op`.kinds (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, f FLOAT, d DOUBLE, n DECIMAL(20,6), b BLOB, t TEXT, j JSON, \
     at TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6), day DATE, e ENUM('a','b'), bits BIT(9), g DECIMAL(20,6) AS (n + 1) STORED, l VARCHAR(20) CHARACTER SET latin1)",
    "INSERT INTO `s h``op`.kinds (f, d, n, b, t, j, day, e, bits, l) VALUES (1.1, 1e300, 123.456789, x'00ff270a5c', 'ä\\n\\'\"\\\\', '{\"a\": [1]}', '2026-11-30', 'b', b'101', 'ü'), \
     (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "CREATE TABLE `s h``op`.child (id INT PRIMARY KEY, parent INT UNSIGNED, FOREIGN KEY (parent) REFERENCES `s h``op`.kinds (id) ON DELETE CASCADE)",
    "INSERT INTO `s h``op`.child VALUES (1, 1)",
    "CREATE TABLE `s h``op`.counted (id INT PRIMARY KEY, n INT)",
    "INSERT INTO `s h``op`.counted VALUES (1, 0)",
    "CREATE TRIGGER `s h``op`.counts AFTER INSERT ON `s h``op`.child FOR EACH ROW UPDATE `s h``op`.counted SET n = n + 1",
    "CREATE VIEW `s h``op`.seen AS SELECT id, n FROM `s h``op`.kinds",
    "CREATE PROCEDURE `s h``op`.p() SELECT 1",
    "CREATE EVENT `s h``op`.ticks ON SCHEDULE EVERY 1 HOUR DO UPDATE `s h``op`.counted SET n = n + 1000",
    "CREATE USER shopper@'%' IDENTIFIED BY 'buys'",
    "GRANT SELECT, INSERT ON `s h``op`.* TO shopper@'%'",
    "CREATE USER writer@'%' IDENTIFIED BY 'writes'",
    "GRANT ALL ON app.* TO writer@'%'",
    "CREATE SEQUENCE `s h``op`.seq START WITH 100",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_running_database_comes_under_load_and_nothing_is_lost() {
    if is_mysql() {
        return;
    }
    let (cluster, folder) = Folder::of(2, &json!({"import": true})).await;
    let mut source = Source::start(&cluster, &["--event-scheduler=ON"]).await;
    source.run(&SCHEMA).await;
    let writers = Writers::start(&[reached(&source.address, "writer", "writes")], 4).await;
    writers.more(500).await;
    let to = &cluster.members[0];

    // Nothing is changed at the source by the check, and nothing here.
    let checked = source.import(to, &["--check"]).output().unwrap();
    let found: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert!(checked.status.success() && found["problems"].as_array().unwrap().is_empty(), "{checked:?}");
    assert!(found["bytes"].as_u64().unwrap() > 0, "{found}");

    let import = Running::of(source.import(to, &[]));
    says(to, "were compared and are equal").await;
    // What changes while it follows; also after each kill of a side.
    source
        .run(&[
            "ALTER TABLE `s h``op`.kinds ADD COLUMN later INT DEFAULT 7",
            "INSERT INTO `s h``op`.kinds (f, t) VALUES (3.3, REPEAT('long ', 10000))",
            "UPDATE `s h``op`.kinds SET t = 'changed' WHERE id = 1",
            "INSERT INTO `s h``op`.child VALUES (2, 2)",
            "SELECT NEXTVAL(`s h``op`.seq)",
            "CREATE USER late@'%' IDENTIFIED BY 'comes'",
            "CREATE TABLE `s h``op`.alone AS SELECT id FROM `s h``op`.kinds",
            "DROP VIEW `s h``op`.seen",
        ])
        .await;
    drop(import);
    let import = Running::of(source.import(to, &[]));
    writers.more(300).await;
    source.restarts().await;
    writers.more(300).await;
    says(to, "were compared and are equal").await;
    drop(import);

    let cuts = Running::of(source.import(to, &["--cut-over"]));
    cuts.ends(PATIENCE * 2, to).await;
    let keys = writers.stop().await;
    let message = says(to, "done").await;
    eprintln!("{} writes acknowledged; {message}", keys.len());
    let paused: f64 = message.split("for ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap();
    assert!(paused < 5.0 && message.ends_with("stays read-only"), "{message}");
    assert!(source.folder.join("done").exists());

    // The source refuses writes of accounts that read_only stops.
    assert_eq!(source.texts("SELECT CONCAT(@@read_only, @@event_scheduler)").await, ["ONOFF"]);
    for member in &cluster.members {
        let since = Instant::now();
        while !lost(&member.options(), &keys).await.is_empty() {
            assert!(since.elapsed() < Duration::from_secs(5), "{} lacks writes", member.name);
        }
        for query in [
            "SELECT CONCAT_WS('|', id, f, d, n, HEX(b), MD5(t), j, at, day, e, HEX(bits), g, l, later) FROM `s h``op`.kinds ORDER BY id",
            "SELECT CONCAT(id, '-', parent) FROM `s h``op`.child ORDER BY id",
            "SELECT n FROM `s h``op`.counted",
            "SELECT id FROM `s h``op`.alone ORDER BY id",
            "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA LIKE 's h%'",
            "SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA LIKE 's h%'",
            "SELECT EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA LIKE 's h%'",
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA LIKE 's h%' ORDER BY 1",
            "SELECT NEXT_NOT_CACHED_VALUE FROM `s h``op`.seq",
        ] {
            let (there, here) = (source.texts(query).await, texts(&member.options(), query).await);
            assert_eq!(there, here, "{}: {query}", member.name);
            assert!(!here.is_empty(), "{query}");
        }
    }
    // Accounts come with their passwords and their privileges, and triggers run once.
    let shopper = reached(&to.address.to_string(), "shopper", "buys");
    let before = numbers(&to.options(), "SELECT n FROM `s h``op`.counted").await;
    run(&shopper, "INSERT INTO `s h``op`.child VALUES (3, 2)").await.unwrap();
    assert_eq!(numbers(&to.options(), "SELECT n FROM `s h``op`.counted").await, [before[0] + 1]);
    Conn::new(reached(&to.address.to_string(), "late", "comes")).await.unwrap();
    // It does not begin again.
    Running::of(source.import(to, &["--cut-over"])).ends(PATIENCE, to).await;
    // Without the import, the administrator cannot replay a binary log.
    let replays = "SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE = 'BINLOG REPLAY'";
    let replays = format!("{replays} AND GRANTEE LIKE '_admin%'");
    assert_eq!(numbers(&to.options(), &replays).await, [1]);
    folder.declare(&json!({}));
    let since = Instant::now();
    while numbers(&to.options(), &replays).await != [0] {
        assert!(since.elapsed() < PATIENCE, "the privilege of the import stays");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_a_database_from_coming_is_said_with_what_solves_it() {
    if is_mysql() {
        return;
    }
    let (cluster, _folder) = Folder::of(1, &json!({"import": true})).await;
    let source = Source::start(&cluster, &["--binlog-format=MIXED", "--lower-case-table-names=0"]).await;
    source
        .run(&[
            "CREATE DATABASE app",
            "CREATE TABLE app.old (id INT) ENGINE=MyISAM",
            "CREATE USER few@'%' IDENTIFIED BY 'x'",
            "GRANT SELECT, RELOAD, SUPER ON *.* TO few@'%'",
        ])
        .await;
    let to = &cluster.members[0];
    for statement in ["CREATE DATABASE app", "CREATE TABLE app.mine (id INT)"] {
        run(&to.options(), statement).await.unwrap();
    }
    fs::write(source.folder.join("few"), "x").unwrap();
    let checked = source.import_as("few", to, &["--check"]).output().unwrap();
    assert!(!checked.status.success());
    let found: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    let problems = found["problems"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect::<Vec<_>>();
    let lacks = "the account lacks SHOW VIEW to copy views, TRIGGER to copy triggers, EVENT to copy events, PROCESS to copy tablespaces, \
                 REPLICATION SLAVE to follow writes, READ_ONLY ADMIN to end writes at the cut-over: \
                 GRANT SHOW VIEW, TRIGGER, EVENT, PROCESS, REPLICATION SLAVE, READ_ONLY ADMIN ON *.* TO 'few'@'%'";
    assert_eq!(
        problems,
        [
            "binlog_format of the source is MIXED: SET GLOBAL binlog_format = 'ROW', and connect its clients again",
            lacks,
            "the table app.old has the engine MyISAM, which has no transactions: ALTER TABLE `app`.`old` ENGINE = InnoDB",
            "the cluster has a database app with tables: DROP DATABASE `app` there",
        ]
    );
    // Each statement solves its problem, and the data comes.
    source
        .run(&[
            "SET GLOBAL binlog_format = 'ROW'",
            "GRANT SHOW VIEW, TRIGGER, EVENT, PROCESS, REPLICATION SLAVE, READ_ONLY ADMIN ON *.* TO 'few'@'%'",
            "ALTER TABLE `app`.`old` ENGINE = InnoDB",
        ])
        .await;
    let import = Running::of(source.import_as("few", to, &[]));
    says(to, "waits: the source has problems: the cluster has a database app").await;
    run(&to.options(), "DROP DATABASE app").await.unwrap();

    says(to, "compared").await;
    drop(import);
    // A row that the source does not have is found.
    run(&to.options(), "INSERT INTO app.old VALUES (99)").await.unwrap();
    let import = Running::of(source.import_as("few", to, &["--cut-over"]));
    says(to, "waits: these tables differ from the source: app.old").await;
    assert_eq!(source.texts("SELECT @@read_only").await, ["0"]);
    drop(import);
    run(&to.options(), "DELETE FROM app.old WHERE id = 99").await.unwrap();

    // A statement that runs for long keeps the source from ending its writes: they continue. Then they end.
    let at = source.at();
    let runs = tokio::spawn(async move { run(&at, "INSERT INTO app.old SELECT SLEEP(600)").await });
    let import = Running::of(source.import_as("few", to, &["--cut-over"]));
    says(to, "waits: the source takes writes again").await;
    assert_eq!(source.texts("SELECT @@read_only").await, ["0"]);
    for id in source
        .texts("SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'INSERT INTO app.old SELECT SLEEP%'")
        .await
    {
        source.run(&[&format!("KILL QUERY {id}")]).await;
    }
    assert!(runs.await.unwrap().is_err());
    import.ends(PATIENCE * 2, to).await;
    assert_eq!(source.texts("SELECT @@read_only").await, ["1"]);
}

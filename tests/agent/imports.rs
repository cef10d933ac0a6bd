//! Imports: `tillerman-agent import` brings the data of a running MariaDB into a cluster, while clients write to it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Opts};

use serde_json::json;

use crate::cluster::{DatabaseCluster, MemberProcess, PASSWORD, PATIENCE, agent, is_mysql, root_of_mysql};
use crate::declared::Folder;
use crate::moves::switch_over;
use crate::writers::{Reached as _, Writers, lost, numbers, reached, run};

const PORT: u16 = 3306;
const SECRET: &str = "p'a\"s\\s";

/// A MariaDB or a MySQL that runs by itself, as anybody has one.
struct Source {
    address: String,
    folder: PathBuf,
    arguments: Vec<String>,
    is_mysql: bool,
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
        Self::of(cluster, more, is_mysql()).await
    }

    async fn of(cluster: &DatabaseCluster, more: &[&str], is_mysql: bool) -> Self {
        let folder = cluster.folder().join(if is_mysql { "mysql" } else { "mariadb" });
        let data = folder.join("data");
        fs::create_dir_all(&folder).unwrap();
        let mut install = if is_mysql { server(is_mysql) } else { Command::new("mariadb-install-db") };
        install.args(["--no-defaults", "--user=root"]).arg(format!("--datadir={}", data.display()));
        install.args(if is_mysql {
            &["--initialize-insecure", "--secure-file-priv=NULL"][..]
        } else {
            &["--auth-root-authentication-method=normal"]
        });
        let installed = install.output().unwrap();
        assert!(installed.status.success(), "{installed:?}");
        let init = folder.join("init.sql");
        let drops = if is_mysql {
            "DROP USER IF EXISTS root@localhost"
        } else {
            "DELETE FROM mysql.global_priv WHERE User IN ('', 'root');\nFLUSH PRIVILEGES"
        };
        let root = format!(
            "{drops};\nCREATE USER IF NOT EXISTS root@'%' IDENTIFIED BY '{}';\nGRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;\n",
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
        if is_mysql {
            arguments.extend(["--secure-file-priv=NULL", "--mysqlx=OFF", "--performance-schema=0"].map(str::to_owned));
        }
        arguments.extend(more.iter().map(|&argument| argument.to_owned()));
        let process = serve(&folder, &arguments, is_mysql);
        let source = Self { address, folder, arguments, is_mysql, process };
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
        self.process = serve(&self.folder, &self.arguments, self.is_mysql);
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

fn serve(folder: &std::path::Path, arguments: &[String], is_mysql: bool) -> Child {
    let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
    server(is_mysql).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

/// The program of the database. MySQL has a root of the file system of its own; the kernel kills it with the program here.
fn server(is_mysql: bool) -> Command {
    if !is_mysql {
        return Command::new("mariadbd");
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig=KILL", "unshare", "--pid", "--fork", "--kill-child", "--mount", "bash", "-ec"]);
    let changes_root = r#"root=$1 temporary=$2; shift 2
mount --bind "$root" "$root"
mkdir -p "$root$temporary"
mount --rbind "$temporary" "$root$temporary"
exec chroot "$root" mysqld "$@""#;
    command.arg(changes_root).arg("bash").arg(root_of_mysql()).arg(std::env::temp_dir());
    command
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
const SCHEMA: [&str; 15] = [
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
];

/// What only MariaDB has.
const OF_MARIADB: [&str; 1] = ["CREATE SEQUENCE `s h``op`.seq START WITH 100"];

/// What only MySQL has, or what only the copy over connections treats by itself.
const OF_MYSQL: [&str; 17] = [
    "CREATE TABLE `s h``op`.more (id INT AUTO_INCREMENT PRIMARY KEY, f FLOAT, d DOUBLE, b BIT(64), g GEOMETRY SRID 4326, p POINT, e ENUM('0','2','1'), s SET('a','b'), \
     v VECTOR(3), u VARCHAR(10) CHARACTER SET ucs2, y YEAR, t TIME(3), bin BINARY(4), hidden INT INVISIBLE DEFAULT 5, j JSON, \
     at TIMESTAMP(3) NULL, made VARCHAR(20) AS (CONCAT(y, e)) VIRTUAL, k VARCHAR(36) DEFAULT (UUID()), CHECK (d < 1e308), UNIQUE ((LOWER(k))))",
    "INSERT INTO `s h``op`.more (f, d, b, g, p, e, s, v, u, y, t, bin, j, at) VALUES \
     (1.1, 1.1e-7, x'ffffffffffffffff', ST_GeomFromText('POINT(1 2)', 4326), POINT(0, -1), '1', 'a,b', STRING_TO_VECTOR('[1,2,3.5]'), 'ü', 2026, '-11:22:33.456', x'00ff', \
     '{\"n\": 18446744073709551615, \"s\": \"\\\\u0000\\\\\"x\", \"e\": 1e300, \"a\": [1.5, null, true]}', '2026-10-25 02:30:00.123'), \
     (-0e0, -0e0, 0, NULL, NULL, '2', '', NULL, '', NULL, NULL, NULL, '[]', NULL)",
    "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'; INSERT INTO `s h``op`.more (id, e) VALUES (0, '0')",
    "INSERT INTO `s h``op`.more (j) SELECT JSON_OBJECT('price', CAST(1.10 AS DECIMAL(5,2)), 'l\"is t', JSON_ARRAY(2.50, -0.000, 7))",
    "CREATE TABLE `s h``op`.latin (t VARCHAR(20)) CHARACTER SET latin1 PARTITION BY KEY (t) PARTITIONS 3",
    "SET NAMES latin1; INSERT INTO `s h``op`.latin VALUES (x'fcdf')",
    "CREATE FUNCTION `s h``op`.twice(n INT) RETURNS INT DETERMINISTIC RETURN n * 2",
    "CREATE VIEW `s h``op`.first AS SELECT id, `s h``op`.twice(id) AS two FROM `s h``op`.more",
    "CREATE VIEW `s h``op`.early AS SELECT * FROM `s h``op`.first WHERE two > 0",
    "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'; CREATE PROCEDURE `s h``op`.says() SELECT 'a' || \"id\" FROM `s h``op`.more",
    "CREATE TRIGGER `s h``op`.second BEFORE INSERT ON `s h``op`.counted FOR EACH ROW SET NEW.n = NEW.n * 2",
    "CREATE TRIGGER `s h``op`.before_it BEFORE INSERT ON `s h``op`.counted FOR EACH ROW PRECEDES second SET NEW.n = NEW.n + 1",
    "SET SESSION time_zone = '+05:00'; CREATE EVENT `s h``op`.later ON SCHEDULE AT '2036-01-01 00:00:00' DO SET @a = 'ä'",
    "CREATE ROLE waiter",
    "GRANT SELECT ON `s h``op`.* TO waiter",
    "GRANT waiter TO shopper@'%'",
    "ALTER USER shopper@'%' DEFAULT ROLE waiter",
];

/// What is equal in MySQL afterwards.
const COMPARED: [&str; 9] = [
    "SELECT CONCAT(COUNT(*), '-', SUM(id)) FROM app.many",
    "SELECT CONCAT_WS('|', id, CAST(f AS DOUBLE), d, b + 0, HEX(g), HEX(p), e + 0, s, HEX(v), HEX(u), y, t, HEX(bin), hidden, j, at, made, k) FROM `s h``op`.more ORDER BY id",
    "SELECT CONCAT(HEX(t), made) FROM `s h``op`.latin ORDER BY 1",
    "SELECT CONCAT(id, '-', two) FROM `s h``op`.early ORDER BY id",
    "SELECT CONCAT_WS('|', TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, COLUMN_DEFAULT, COLLATION_NAME, EXTRA, COLUMN_COMMENT) FROM information_schema.COLUMNS \
     WHERE TABLE_SCHEMA LIKE 's h%' OR TABLE_SCHEMA = 'next' ORDER BY 1",
    "SELECT CONCAT_WS('|', TRIGGER_NAME, ACTION_ORDER, ACTION_STATEMENT, SQL_MODE) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA LIKE 's h%' ORDER BY 1",
    "SELECT CONCAT_WS('|', ROUTINE_NAME, ROUTINE_DEFINITION, SQL_MODE, CHARACTER_SET_CLIENT, COLLATION_CONNECTION) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA LIKE 's h%' ORDER BY 1",
    "SELECT CONCAT_WS('|', EVENT_NAME, EVENT_DEFINITION, TIME_ZONE, EXECUTE_AT, INTERVAL_VALUE) FROM information_schema.EVENTS WHERE EVENT_SCHEMA LIKE 's h%' ORDER BY 1",
    "SELECT CONCAT_WS('|', a, DEFAULT_COLLATION_NAME) FROM next.u, information_schema.SCHEMATA WHERE SCHEMA_NAME = 'next'",
];

/// What changes while the import follows.
const CHANGES: [&str; 7] = [
    "ALTER TABLE `s h``op`.kinds ADD COLUMN later INT DEFAULT 7",
    "INSERT INTO `s h``op`.kinds (f, t) VALUES (3.3, REPEAT('long ', 10000))",
    "UPDATE `s h``op`.kinds SET t = 'changed' WHERE id = 1",
    "INSERT INTO `s h``op`.child VALUES (2, 2)",
    "CREATE USER late@'%' IDENTIFIED BY 'comes'",
    "CREATE TABLE `s h``op`.alone AS SELECT id FROM `s h``op`.kinds",
    "DROP VIEW `s h``op`.seen",
];

const CHANGES_OF_MYSQL: [&str; 15] = [
    "INSERT INTO `s h``op`.kinds (f) VALUES (99); INSERT INTO `s h``op`.child SELECT 50, MAX(id) FROM `s h``op`.kinds; DELETE FROM `s h``op`.kinds WHERE f > 98",
    "CREATE TABLE app.many (id INT PRIMARY KEY, v CHAR(40)); INSERT INTO app.many WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) \
     SELECT i, REPEAT('y', 40) FROM n; UPDATE app.many SET id = id + 1 ORDER BY id DESC",
    "SET SESSION binlog_transaction_compression = ON; INSERT INTO `s h``op`.more (d, u) VALUES (0.1, 'packed'), (0.2, 'too')",
    "SET SESSION binlog_row_value_options = PARTIAL_JSON; UPDATE `s h``op`.more SET j = JSON_SET(j, '$.n', 1) WHERE id = 1",
    "START TRANSACTION; INSERT INTO `s h``op`.latin VALUES ('a'); SAVEPOINT one; INSERT INTO `s h``op`.latin VALUES ('lost'); \
     DELETE FROM `s h``op`.counted WHERE id = 77; ROLLBACK TO SAVEPOINT one; INSERT INTO `s h``op`.latin VALUES ('b'); COMMIT",
    "UPDATE `s h``op`.more m JOIN `s h``op`.child c ON c.id = m.id SET m.y = 2027, c.parent = c.parent",
    "SET SESSION sql_mode = 'ANSI_QUOTES', time_zone = '-03:00', timestamp = 1700000000.5, foreign_key_checks = 0; \
     CREATE TABLE `s h``op`.\"quoted\" (id INT REFERENCES nothing (id), at TIMESTAMP DEFAULT '2026-01-01 00:00:00', FOREIGN KEY (id) REFERENCES missing (id))",
    "SET SESSION timestamp = 1700000000.5; ALTER TABLE `s h``op`.latin ADD COLUMN made TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)",
    "USE `s h``op`; CREATE TABLE plain (id INT PRIMARY KEY); INSERT INTO plain VALUES (1), (2), (3); DELETE FROM plain WHERE id = 2",
    "SET NAMES latin1; CREATE TABLE `s h``op`.comments (id INT COMMENT 'ä')",
    "CREATE DATABASE next COLLATE utf8mb4_bin; CREATE TABLE next.t (a VARCHAR(9)); RENAME TABLE next.t TO next.u; INSERT INTO next.u VALUES ('x'); TRUNCATE next.u; INSERT INTO next.u VALUES ('y')",
    "CREATE TEMPORARY TABLE app.passing (id INT); INSERT INTO app.passing VALUES (1); DROP TEMPORARY TABLE app.passing",
    "CREATE PROCEDURE `s h``op`.q() BEGIN SELECT 1; SELECT 2; END",
    "SET PASSWORD FOR late@'%' = 'comes'",
    "FLUSH BINARY LOGS",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_running_database_comes_under_load_and_nothing_is_lost() {
    let (cluster, folder) = Folder::of(2, &json!({"import": true})).await;
    let mut source = Source::start(&cluster, &["--event-scheduler=ON"]).await;
    source.run(&SCHEMA).await;
    source.run(if is_mysql() { &OF_MYSQL } else { &OF_MARIADB }).await;
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
    source.run(&CHANGES).await;
    source.run(if is_mysql() { &CHANGES_OF_MYSQL } else { &["SELECT NEXTVAL(`s h``op`.seq)"] }).await;
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
    let rest = if is_mysql() {
        // The role that it had.
        "stays read-only; these did not come: the privileges of the account shopper@% on the whole server"
    } else {
        "stays read-only"
    };
    assert!(paused < 5.0 && message.ends_with(rest), "{message}");
    assert!(source.folder.join("done").exists());

    if is_mysql() {
        // No account can write to the source.
        assert_eq!(source.texts("SELECT CONCAT(@@super_read_only, @@event_scheduler)").await, ["1OFF"]);
        assert!(run(&source.at(), "INSERT INTO `s h``op`.child VALUES (99, 1)").await.is_err());
    } else {
        // The source refuses writes of accounts that read_only stops.
        assert_eq!(source.texts("SELECT CONCAT(@@read_only, @@event_scheduler)").await, ["ONOFF"]);
    }
    for member in &cluster.members {
        let since = Instant::now();
        while !lost(&member.options(), &keys).await.is_empty() {
            assert!(since.elapsed() < Duration::from_secs(5), "{} lacks writes", member.name);
        }
        let queries = [
            "SELECT CONCAT_WS('|', id, f, d, n, HEX(b), SHA2(t, 224), j, at, day, e, HEX(bits), g, l, later) FROM `s h``op`.kinds ORDER BY id",
            "SELECT CONCAT(id, '-', parent) FROM `s h``op`.child ORDER BY id",
            "SELECT n FROM `s h``op`.counted",
            "SELECT id FROM `s h``op`.alone ORDER BY id",
            "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA LIKE 's h%' ORDER BY 1",
            "SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA LIKE 's h%' ORDER BY 1",
            "SELECT EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA LIKE 's h%' ORDER BY 1",
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA LIKE 's h%' ORDER BY 1",
        ];
        for query in queries.iter().chain(if is_mysql() {
            &COMPARED[..]
        } else {
            &["SELECT NEXT_NOT_CACHED_VALUE FROM `s h``op`.seq"]
        }) {
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
    let privilege = if is_mysql() { "REPLICATION_APPLIER" } else { "BINLOG REPLAY" };
    let replays = format!(
        "SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE = '{privilege}' AND GRANTEE LIKE '_admin%'"
    );
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
    let (cluster, _folder) = Folder::of(1, &json!({"import": true})).await;
    let mut more = vec!["--binlog-format=MIXED", "--lower-case-table-names=0"];
    if is_mysql() {
        more.extend(["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]);
    }
    let source = Source::start(&cluster, &more).await;
    source
        .run(&[
            "CREATE DATABASE app",
            "CREATE TABLE app.old (id INT) ENGINE=MyISAM",
            "CREATE USER few@'%' IDENTIFIED BY 'x'",
            if is_mysql() {
                "GRANT SELECT, RELOAD ON *.* TO few@'%'"
            } else {
                "GRANT SELECT, RELOAD, SUPER ON *.* TO few@'%'"
            },
        ])
        .await;
    let to = &cluster.members[0];
    if is_mysql() {
        let other = Source::of(&cluster, &[], false).await;
        let checked = other.import(to, &["--check"]).output().unwrap();
        let found: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
        let says = "the source is MariaDB and the cluster MySQL: import it into a cluster with spec.flavor: mariadb";
        assert_eq!(found["problems"], json!([says]));
    }
    for statement in ["CREATE DATABASE app", "CREATE TABLE app.mine (id INT)"] {
        run(&to.options(), statement).await.unwrap();
    }
    fs::write(source.folder.join("few"), "x").unwrap();
    let checked = source.import_as("few", to, &["--check"]).output().unwrap();
    assert!(!checked.status.success());
    let found: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    let problems = found["problems"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect::<Vec<_>>();
    let (reasons, names) = if is_mysql() {
        (
            "REPLICATION CLIENT to know the position of the binary log, SYSTEM_VARIABLES_ADMIN to end writes at the cut-over",
            "REPLICATION CLIENT, SYSTEM_VARIABLES_ADMIN",
        )
    } else {
        ("PROCESS to copy tablespaces, READ_ONLY ADMIN to end writes at the cut-over", "PROCESS, READ_ONLY ADMIN")
    };
    let grant = format!("GRANT SHOW VIEW, TRIGGER, EVENT, REPLICATION SLAVE, {names} ON *.* TO 'few'@'%'");
    let lacks = format!(
        "the account lacks SHOW VIEW to copy views, TRIGGER to copy triggers, EVENT to copy events, REPLICATION SLAVE to follow writes, {reasons}: {grant}"
    );
    assert_eq!(
        problems,
        [
            "binlog_format of the source is MIXED: SET GLOBAL binlog_format = 'ROW', and connect its clients again",
            lacks.as_str(),
            "the table app.old has the engine MyISAM, which has no transactions: ALTER TABLE `app`.`old` ENGINE = InnoDB",
            "the cluster has a database app with tables: DROP DATABASE `app` there",
        ]
    );
    // Each statement solves its problem, and the data comes.
    source.run(&["SET GLOBAL binlog_format = 'ROW'", &grant, "ALTER TABLE `app`.`old` ENGINE = InnoDB"]).await;
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

    // A cut-over that was killed is taken back: the source takes writes as before.
    run(&to.options(), "UPDATE tillerman.import SET closed = '0,OFF'").await.unwrap();
    source.run(&[if is_mysql() { "SET GLOBAL super_read_only = ON" } else { "SET GLOBAL read_only = ON" }]).await;
    let import = Running::of(source.import_as("few", to, &[]));
    let since = Instant::now();
    while source.texts("SELECT @@read_only").await != ["0"] {
        assert!(since.elapsed() < PATIENCE, "the source stays closed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(import);

    // A statement that runs for long keeps the source from ending its writes: they continue. Then they end.
    let at = source.at();
    let runs = tokio::spawn(async move { run(&at, "INSERT INTO app.old SELECT SLEEP(600)").await });
    let import = Running::of(source.import_as("few", to, &["--cut-over"]));
    // In MySQL, even the snapshot of the comparison needs a moment without writes.
    says(
        to,
        if is_mysql() {
            "waits: a statement at the source runs for longer"
        } else {
            "waits: the source takes writes again"
        },
    )
    .await;
    assert_eq!(source.texts("SELECT @@read_only").await, ["0"]);
    for id in source
        .texts("SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'INSERT INTO app.old SELECT SLEEP%'")
        .await
    {
        source.run(&[&format!("KILL QUERY {id}")]).await;
    }
    // A statement of MySQL that sleeps ends without an error.
    assert!(runs.await.unwrap().is_err() || is_mysql());
    import.ends(PATIENCE * 2, to).await;
    assert_eq!(source.texts("SELECT @@read_only").await, ["1"]);
}

/// The way back ends after a day, and leaves nothing at the source, which stays closed.
#[tokio::test(flavor = "multi_thread")]
async fn the_way_back_ends_after_a_day() {
    if is_mysql() {
        eprintln!("only MariaDB has a way back");
        return;
    }
    let (cluster, _folder) = Folder::of(1, &json!({"import": true, "wayBack": true})).await;
    let source = Source::start(&cluster, &[]).await;
    let to = &cluster.members[0];
    let import = Running::of(source.import(to, &["--cut-over", "--way-back"]));
    assert!(says(to, "; the way back is open until").await.starts_with("done: "));
    assert_eq!(source.texts("SHOW DATABASES LIKE 'tillerman'").await, ["tillerman"]);
    run(&to.options(), "UPDATE tillerman.import SET begun = begun - 86400").await.unwrap();
    import.ends(PATIENCE, to).await;
    assert!(says(to, "; the way back has ended").await.starts_with("done: "));
    assert_eq!(source.texts("SHOW DATABASES LIKE 'tillerman'").await, Vec::<String>::new());
    assert_eq!(source.texts("SELECT @@read_only").await, ["1"]);
}

/// After the cut-over the source follows the cluster, also after the primary has handed over. It takes over again with all writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_takes_over_again_with_all_writes_of_the_cluster() {
    if is_mysql() {
        eprintln!("only MariaDB has a way back");
        return;
    }
    let (cluster, _folder) = Folder::of(2, &json!({"import": true, "wayBack": true})).await;
    let mut source = Source::start(&cluster, &["--event-scheduler=ON"]).await;
    source.run(&SCHEMA).await;
    source.run(&OF_MARIADB).await;
    let writers = Writers::start(&[reached(&source.address, "writer", "writes")], 2).await;
    writers.more(300).await;
    let (first, second) = (&cluster.members[0], &cluster.members[1]);
    Running::of(source.import(first, &["--cut-over"])).ends(PATIENCE * 2, first).await;
    let here = |member: &MemberProcess| reached(&member.address.to_string(), "writer", "writes");
    let early = writers.beside(&[here(first)], 2);
    let mut keys = writers.stop().await;

    // An account that cannot apply writes gets the statement that solves it, and the data stays the cluster's.
    source
        .run(&["GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX ON *.* TO few@'%' IDENTIFIED BY 'x'"])
        .await;
    fs::write(source.folder.join("few"), "x").unwrap();
    let import = Running::of(source.import_as("few", first, &["--cut-over", "--way-back"]));
    let message = says(first, "; the way back waits: the account lacks BINLOG REPLAY to apply the writes").await;
    assert!(message.starts_with("done: ") && message.contains("GRANT BINLOG REPLAY, CREATE VIEW"), "{message}");
    drop(import);

    // A way back that was given up after it had locked an account: applications can use it again.
    for statement in [
        "CREATE TABLE tillerman.locked (user VARCHAR(128), host VARCHAR(255))",
        "INSERT INTO tillerman.locked VALUES ('shopper', '%')",
        "ALTER USER shopper@'%' ACCOUNT LOCK",
    ] {
        run(&first.options(), statement).await.unwrap();
    }

    // Applications write to the cluster, and the source follows.
    let import = Running::of(source.import(first, &["--cut-over", "--way-back"]));
    says(first, "the way back is open until").await;
    run(&reached(&first.address.to_string(), "shopper", "buys"), "DO 1").await.unwrap();
    early.more(300).await;
    for change in &CHANGES[..4] {
        run(&first.options(), change).await.unwrap();
    }
    drop(import);
    source.restarts().await;
    early.more(300).await;
    // The members have other positions for the same writes.
    switch_over(&cluster, 0, 1, 2).await;
    let import = Running::of(source.import(second, &["--cut-over", "--way-back"]));
    says(second, "the way back is open until").await;
    let late = early.beside(&[here(second)], 2);
    keys.extend(early.stop().await);
    late.more(300).await;
    drop(import);

    // The source takes over again, while applications write until their accounts are locked.
    let import = Running::of(source.import(second, &["--cut-over", "--way-back", "--roll-back"]));
    import.ends(PATIENCE * 2, second).await;
    keys.extend(late.stop().await);
    let message = says(second, "rolled back: ").await;
    eprintln!("{} writes acknowledged; {message}", keys.len());
    let paused: f64 = message.split("for ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap();
    assert!(paused < 5.0, "{message}");
    assert_eq!(lost(&source.at(), &keys).await, Vec::<u64>::new());
    for query in [
        "SELECT CONCAT_WS('|', id, f, d, n, HEX(b), SHA2(t, 224), j, at, day, e, HEX(bits), g, l, later) FROM `s h``op`.kinds ORDER BY id",
        "SELECT CONCAT(id, '-', parent) FROM `s h``op`.child ORDER BY id",
        "SELECT n FROM `s h``op`.counted",
    ] {
        let (there, own) = (source.texts(query).await, texts(&second.options(), query).await);
        assert!(!there.is_empty() && there == own, "{query}: {there:?} {own:?}");
    }
    assert_eq!(source.texts("SELECT CONCAT(@@read_only, @@event_scheduler)").await, ["OFFON"]);
    assert_eq!(source.texts("SHOW DATABASES LIKE 'tillerman'").await, Vec::<String>::new(), "nothing is left there");
    run(&reached(&source.address, "shopper", "buys"), "INSERT INTO `s h``op`.child VALUES (30, 2)").await.unwrap();
    assert!(Conn::new(here(second)).await.is_err(), "the accounts of applications are locked in the cluster");
    // It does not begin again.
    Running::of(source.import(second, &["--cut-over", "--way-back", "--roll-back"])).ends(PATIENCE, second).await;
}

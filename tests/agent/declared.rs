//! Databases and users that the values of a chart declare.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable as _;
use serde_json::{Value, json};
use tillerman::agent::contract::Reason;

use crate::cluster::{DatabaseCluster, PATIENCE, connect_as, is_mysql};

/// The folder that the kubelet mounts.
pub struct Folder(PathBuf);

impl Folder {
    /// Members that have one, with another root of the file system if they have programs of their own.
    pub async fn of(size: u8, accounts: &Value) -> (DatabaseCluster, Self) {
        Self::with_root(size, accounts, None).await
    }

    async fn with_root(size: u8, accounts: &Value, root: Option<PathBuf>) -> (DatabaseCluster, Self) {
        let mut cluster = DatabaseCluster::new(size);
        let folder = Self(cluster.folder().join("accounts"));
        fs::create_dir(&folder.0).unwrap();
        folder.declare(accounts);
        for member in &mut cluster.members {
            member.flags.push(format!("--accounts={}", folder.0.display()));
            if root.is_some() {
                member.root.clone_from(&root);
            }
        }
        cluster.create().await;
        if size > 1 {
            cluster.grow(size).await;
        }
        (cluster, folder)
    }

    /// Replaces the file as a whole.
    pub fn declare(&self, accounts: &Value) {
        fs::write(self.0.join("new"), accounts.to_string()).unwrap();
        fs::rename(self.0.join("new"), self.0.join("accounts.json")).unwrap();
    }

    fn password(&self, user: &str, password: &str) {
        fs::write(self.0.join(format!("password.{user}")), password).unwrap();
    }
}

/// Waits until a user can do something on a member.
async fn can(address: Ipv4Addr, (user, password): (&str, &str), statement: &str) {
    let since = Instant::now();
    loop {
        let done = async { connect_as(address, user, password).await?.query_drop(statement).await };
        match done.await {
            Ok(()) => return,
            Err(error) => assert!(since.elapsed() < PATIENCE, "{user}: {statement}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The number of the error with which the database refuses something, from the connection on.
async fn refused(address: Ipv4Addr, (user, password): (&str, &str), statement: &str) -> u16 {
    let done = async { connect_as(address, user, password).await?.query_drop(statement).await };
    match done.await {
        Err(mysql_async::Error::Server(error)) => error.code,
        // MySQL answers as if an account that is not there had another way to log in.
        Err(mysql_async::Error::Driver(mysql_async::DriverError::UnknownAuthPlugin { .. })) if is_mysql() => LOGIN,
        other => panic!("{user}: {statement}: {other:?}"),
    }
}

/// `ER_ACCESS_DENIED_ERROR`.
const LOGIN: u16 = 1045;
/// `ER_TABLEACCESS_DENIED_ERROR`.
const TABLE: u16 = 1142;
/// Those, `ER_DBACCESS_DENIED_ERROR`, and `ER_SPECIFIC_ACCESS_DENIED_ERROR`.
const DENIED: [u16; 4] = [LOGIN, TABLE, 1044, 1227];

#[tokio::test(flavor = "multi_thread")]
async fn users_and_databases_are_what_is_declared_on_every_member() {
    users_and_databases(None).await;
}

/// The same with the programs of another root.
pub async fn users_and_databases(root: Option<PathBuf>) {
    let (cluster, folder) = Folder::with_root(2, &json!({}), root).await;
    let (primary, replica) = (&cluster.members[0], &cluster.members[1]);
    primary.run("CREATE DATABASE shopxa").await.unwrap();
    primary.run("CREATE USER human IDENTIFIED BY 'h'").await.unwrap();
    let start = primary.state().await.start;
    folder.password("app", "it's \\ \"one\"\n");
    folder.password("reader", "r");
    folder.password("human", "taken");
    let app = json!({"name": "app", "databases": ["shop_a"], "maxConnections": 5});
    let reader = json!({"name": "reader", "host": "127.%", "databases": ["shop_a"], "readOnly": true});
    let databases = json!([{"name": "shop_a", "characterSet": "utf8mb4", "collate": "utf8mb4_bin"}]);
    let wrong = [json!({"name": "root"}), json!({"name": "human"}), json!({"name": "nobody"})];
    let all: Vec<Value> = [app.clone(), reader.clone()].into_iter().chain(wrong).collect();
    folder.declare(&json!({"databases": databases, "users": all}));

    // What is right is done, what is not is said by its place.
    let ours = ("app", "it's \\ \"one\"");
    can(primary.address, ours, "CREATE TABLE shop_a.t (id INT PRIMARY KEY)").await;
    can(primary.address, ours, "INSERT INTO shop_a.t VALUES (1)").await;
    let state = primary.until("it says what is wrong", |state| state.problem.is_some()).await;
    assert_eq!(state.problem.unwrap(), "users[2]: the server or the agent has an account of this name, and 2 more");
    assert_eq!(
        primary
            .numbers("SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE DEFAULT_COLLATION_NAME = 'utf8mb4_bin'")
            .await,
        [1]
    );
    can(replica.address, ("reader", "r"), "SELECT * FROM shop_a.t").await;
    assert_eq!(refused(primary.address, ("reader", "r"), "INSERT INTO shop_a.t VALUES (2)").await, TABLE);
    assert_eq!(refused(primary.address, ("human", "taken"), "SELECT 1").await, LOGIN, "it is somebody else's");
    assert_eq!(refused(primary.address, ("nobody", ""), "SELECT 1").await, LOGIN, "it has no password");
    let (accounts, source, replicas) =
        if is_mysql() { ("mysql.user", "source", "REPLICA") } else { ("mysql.global_priv", "master", "SLAVE") };
    for statement in [
        "CREATE TABLE shopxa.t (id INT)",
        &format!("SELECT * FROM {accounts}"),
        "UPDATE tillerman.marker SET number = 0",
        "DROP DATABASE tillerman",
        "SET GLOBAL read_only = 1",
        &format!("SET GLOBAL rpl_semi_sync_{source}_enabled = 0"),
        "SET SESSION sql_log_bin = 0",
        &format!("STOP {replicas}"),
        "GRANT SELECT ON shop_a.* TO 'reader'@'127.%'",
        "SELECT 1 INTO OUTFILE '/tmp/x'",
    ] {
        let error = refused(primary.address, ours, statement).await;
        assert!(DENIED.contains(&error), "{statement}: {error}");
    }

    // A password is changed without a restart. What is no longer declared is dropped, but for databases and what others made.
    folder.password("app", "another");
    folder.declare(&json!({"databases": [], "users": [app]}));
    can(primary.address, ("app", "another"), "SELECT * FROM shop_a.t").await;
    can(replica.address, ("app", "another"), "SELECT * FROM shop_a.t").await;
    let state = primary.until("all is there", |state| state.problem.is_none()).await;
    assert_eq!(refused(primary.address, ours, "SELECT 1").await, LOGIN);
    assert_eq!(refused(primary.address, ("reader", "r"), "SELECT 1").await, LOGIN);
    can(primary.address, ("human", "h"), "SELECT 1").await;
    assert_eq!(state.start, start);
    replica.until("it has all", |own| own.has.contains(&state.has)).await;
    for member in [primary, replica] {
        let users = format!("SELECT COUNT(*) FROM {accounts} WHERE User IN ('app', 'reader', 'nobody')");
        assert_eq!(member.numbers(&users).await, [1], "{}", member.name);
    }

    // An account of somebody else, such as one of an import, is taken over on request.
    folder.declare(&json!({"users": [app, {"name": "human", "databases": ["shop_a"], "takeOver": true}]}));
    can(primary.address, ("human", "taken"), "SELECT * FROM shop_a.t").await;
    assert_eq!(refused(primary.address, ("human", "h"), "SELECT 1").await, LOGIN);

    // Less is granted.
    let reads = json!([{"database": "shop_a", "privileges": ["select"]}]);
    folder.declare(&json!({"users": [{"name": "app", "grants": reads}]}));
    let insert = |key: u32| format!("INSERT INTO shop_a.t VALUES ({key})");
    let taken = async {
        let mut keys = 10..;
        while let Ok(mut connection) = connect_as(primary.address, "app", "another").await {
            match connection.query_drop(insert(keys.next().unwrap())).await {
                Ok(()) => tokio::time::sleep(Duration::from_millis(100)).await,
                Err(error) => return error.to_string(),
            }
        }
        "it cannot connect".to_owned()
    };
    let why = tokio::time::timeout(PATIENCE, taken).await.expect("the grant is taken away");
    assert!(why.contains("INSERT command denied"), "{why}");
    can(primary.address, ("app", "another"), "SELECT * FROM shop_a.t").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_waits_for_an_acknowledgement_holds_nothing_up() {
    let (mut cluster, folder) = Folder::of(2, &json!({})).await;
    cluster.member(1).kill();
    folder.password("late", "l");
    folder.declare(&json!({"databases": [{"name": "shop"}], "users": [{"name": "late", "databases": ["shop"]}]}));
    // `state` panics after two seconds.
    let waits = cluster.members[0].until("it waits for a replica", |state| state.waiting > 0).await;
    assert!(waits.writable);
    let asked = Instant::now();
    assert_eq!(cluster.demote(0, 1, 1500).await.unwrap_err().reason, Reason::TimeOver);
    assert!(asked.elapsed() < Duration::from_secs(8));
    assert!(cluster.members[0].state().await.writable);
    // The replica is back: the statement ends, and so do those after it.
    cluster.member(1).start();
    cluster.members[1].until("it runs", |state| !state.start.is_empty()).await;
    cluster.follow(1, 1, 0, true).await.unwrap();
    can(cluster.members[0].address, ("late", "l"), "CREATE TABLE shop.t (id INT PRIMARY KEY)").await;
    can(cluster.members[1].address, ("late", "l"), "SELECT * FROM shop.t").await;

    // After a hand-over the next primary continues, and the one before writes nothing more.
    cluster.demote(0, 1, 10_000).await.unwrap();
    folder.declare(&json!({"databases": [{"name": "more"}]}));
    let before = cluster.members[0].state().await.has;
    cluster.promote(1, 2, 0, &[0]).await.unwrap();
    cluster.members[1].until("it is open", |state| state.writable).await;
    let dropped = async {
        while connect_as(cluster.members[1].address, "late", "l").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, dropped).await.expect("it is dropped by the new primary");
    assert_eq!(cluster.members[0].state().await.has, before);
    can(cluster.members[1].address, ("admin", crate::cluster::PASSWORD), "CREATE TABLE more.t (id INT PRIMARY KEY)")
        .await;
    can(cluster.members[1].address, ("admin", crate::cluster::PASSWORD), "SELECT * FROM shop.t").await;
}

//! Settings of users: those of a file that would weaken the guarantee, and those that the chart lets through.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::cluster::{DatabaseCluster, MemberProcess, PATIENCE, connect_as, is_mysql, root_of_mysql};

/// What would weaken the guarantee.
const WEAKER: [&str; 20] = [
    "skip-grant-tables",
    "sync_binlog=0",
    "innodb_flush_log_at_trx_commit=0",
    "innodb_doublewrite=0",
    "read_only=0",
    "skip-log-bin",
    "binlog_format=STATEMENT",
    "skip-log-slave-updates",
    "gtid_strict_mode=0",
    "rpl_semi_sync_master_timeout=10",
    "rpl_semi_sync_master_wait_no_slave=0",
    "rpl_semi_sync_master_wait_point=AFTER_COMMIT",
    "slave_skip_errors=all",
    "slave_exec_mode=IDEMPOTENT",
    "event_scheduler=ON",
    "server_id=77",
    "skip-networking",
    "port=1",
    "wait_timeout=1",
    "sql_mode=ANSI,NO_BACKSLASH_ESCAPES",
];
/// The same in the words of MySQL.
const WEAKER_MYSQL: [&str; 24] = [
    "skip-grant-tables",
    "sync_binlog=0",
    "innodb_flush_log_at_trx_commit=0",
    "innodb_doublewrite=OFF",
    "super_read_only=0",
    "skip-log-bin",
    "binlog_format=STATEMENT",
    "skip-log-replica-updates",
    "gtid_mode=OFF",
    "enforce_gtid_consistency=OFF",
    "loose-rpl_semi_sync_source_timeout=10",
    "loose-rpl_semi_sync_source_wait_no_replica=0",
    "loose-rpl_semi_sync_source_wait_point=AFTER_COMMIT",
    "replica_skip_errors=all",
    "replica_exec_mode=IDEMPOTENT",
    "relay_log_recovery=1",
    "replicate_same_server_id=0",
    "persisted_globals_load=ON",
    "event_scheduler=ON",
    "server_id=77",
    "skip-networking",
    "port=1",
    "wait_timeout=1",
    "sql_mode=ANSI,NO_BACKSLASH_ESCAPES",
];

/// The chart refuses such a file. The agent overrides it all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_cannot_take_back_what_the_guarantee_needs() {
    let mut cluster = DatabaseCluster::new(2);
    let file = cluster.folder().join("my.cnf");
    let lines = if is_mysql() { WEAKER_MYSQL.join("\n") } else { WEAKER.join("\n") };
    fs::write(&file, format!("[mysqld]\n{lines}\n")).unwrap();
    for member in &mut cluster.members {
        member.flags.push(format!("--my-cnf={}", file.display()));
    }
    cluster.create().await;
    cluster.grow(2).await;
    for member in &cluster.members {
        let settings = "SELECT CONCAT_WS(' ', @@sync_binlog, @@innodb_flush_log_at_trx_commit, @@innodb_doublewrite, @@log_bin, @@binlog_format, \
             @@log_slave_updates, @@gtid_strict_mode, @@rpl_semi_sync_master_timeout, @@rpl_semi_sync_master_wait_no_slave, \
             @@rpl_semi_sync_master_wait_point, @@slave_skip_errors, @@slave_exec_mode)";
        let (settings, expected) = if is_mysql() {
            (
                "SELECT CONCAT_WS(' ', @@sync_binlog, @@innodb_flush_log_at_trx_commit, @@innodb_doublewrite, @@log_bin, @@binlog_format, \
                 @@log_replica_updates, @@gtid_mode, @@enforce_gtid_consistency, @@rpl_semi_sync_source_timeout, \
                 @@rpl_semi_sync_source_wait_no_replica, @@rpl_semi_sync_source_wait_point, @@replica_skip_errors, @@replica_exec_mode, \
                 @@relay_log_recovery, @@persisted_globals_load, @@event_scheduler)",
                "1 1 ON 1 ROW 1 ON ON 18446744073709551615 1 AFTER_SYNC OFF STRICT 0 0 OFF",
            )
        } else {
            (settings, "1 1 ON ON ROW ON ON 18446744073709551615 ON AFTER_SYNC OFF STRICT")
        };
        let found = member.texts(settings).await;
        assert_eq!(found, [expected], "{}", member.name);
        assert!(connect_as(member.address, "nobody", "").await.is_err(), "accounts count");
    }
    assert!(cluster.members[1].run("CREATE DATABASE x").await.is_err(), "a replica is read-only");
    // Neither can the file of settings that change while the database runs.
    let live: Vec<&str> =
        lines.lines().filter(|line| !line.starts_with("wait_timeout") && !line.starts_with("sql_mode")).collect();
    fs::write(file.with_file_name("live.cnf"), format!("[mysqld]\n{}\nmax_connections=66\n", live.join("\n"))).unwrap();
    for member in &cluster.members {
        let since = Instant::now();
        while member.numbers("SELECT @@GLOBAL.max_connections").await != [66] {
            assert!(since.elapsed() < PATIENCE, "the other settings are taken");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let safe = "SELECT @@GLOBAL.sync_binlog + @@GLOBAL.innodb_flush_log_at_trx_commit";
        assert_eq!(member.numbers(safe).await, [2], "{}", member.name);
    }
    assert!(cluster.members[1].run("CREATE DATABASE x").await.is_err(), "a replica is still read-only");
    fs::remove_file(file.with_file_name("live.cnf")).unwrap();
    cluster.members[0].until("no setting is refused", |state| state.problem.is_none()).await;
    assert_eq!(cluster.members[1].texts("SELECT @@GLOBAL.event_scheduler").await, ["OFF"]);
    // The agent's own connections outlive `wait_timeout`.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let state = cluster.members[0].state().await;
    assert_eq!((state.problem, state.writable), (None, true));
}

/// The settings of the second file change on each member while it runs, and count after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn settings_of_the_second_file_change_without_a_restart() {
    let mut cluster = DatabaseCluster::new(2);
    let folder = cluster.folder();
    let live = folder.join("live.cnf");
    fs::write(&live, "[mysqld]\nmax_connections=77\nlocal_infile\n").unwrap();
    fs::write(folder.join("my.cnf"), format!("[mysqld]\nback_log=70\n!include {}\n", live.display())).unwrap();
    for member in &mut cluster.members {
        member.flags.push(format!("--my-cnf={}", folder.join("my.cnf").display()));
    }
    cluster.create().await;
    cluster.grow(2).await;
    let settings = "SELECT CONCAT_WS(' ', @@back_log, @@GLOBAL.max_connections, IF(@@GLOBAL.local_infile, 1, 0), @@GLOBAL.sort_buffer_size, \
        @@GLOBAL.long_query_time, @@GLOBAL.sql_mode)";
    let becomes = async |member: &MemberProcess, expected: &str| {
        let since = Instant::now();
        while member.texts(settings).await != [expected] {
            assert!(since.elapsed() < PATIENCE, "{}: {:?}", member.name, member.texts(settings).await);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let first = cluster.members[0].texts(settings).await.remove(0);
    let rest =
        first.strip_prefix("70 77 1 ").unwrap_or_else(|| panic!("the second file is not read: {first}")).to_owned();
    let starts: Vec<_> = [cluster.members[0].state().await.start, cluster.members[1].state().await.start].into();
    fs::write(
        &live,
        "[mysqld]\nmax-connections=88\nlocal_infile=OFF\nsort_buffer_size=1M\nlong_query_time=1.5\nsql_mode=ANSI_QUOTES\n",
    )
    .unwrap();
    let changed = "70 88 0 1048576 1.500000 ANSI_QUOTES";
    for (member, start) in cluster.members.iter().zip(&starts) {
        becomes(member, changed).await;
        assert_eq!(member.state().await.start, *start);
    }
    cluster.member(1).stop();
    cluster.member(1).start();
    cluster.members[1].until("it runs", |state| !state.start.is_empty() && state.start != starts[1]).await;
    becomes(&cluster.members[1], changed).await;
    // What leaves gets its default, and a value that is refused is a problem until it changes.
    fs::write(&live, "[mysqld]\nmax_connections=77\nlocal_infile\nsql_mode=none-such\n").unwrap();
    let refused = |problem: &Option<String>| {
        problem.as_ref().is_some_and(|why| why.contains("configuration.sql_mode: the database refuses"))
    };
    cluster.members[0].until("the value is refused", |state| refused(&state.problem)).await;
    fs::write(&live, "[mysqld]\nmax_connections=77\nlocal_infile\n").unwrap();
    becomes(&cluster.members[0], &format!("70 77 1 {rest}")).await;
    cluster.members[0].until("it is well", |state| state.problem.is_none()).await;
}

/// The database takes each of these settings while it runs, and its default.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_takes_every_live_setting_of_the_chart_while_it_runs() {
    let name = if is_mysql() { "_settings_mysql" } else { "_settings" };
    let templates = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/mysql/templates");
    let template = fs::read_to_string(format!("{templates}/{name}.jinja")).unwrap();
    let live = template.split("{% set live = [").nth(1).expect("the list of live settings");
    let names: Vec<String> = live.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(names.len() > 40);
    let mut cluster = DatabaseCluster::new(1);
    let folder = cluster.folder();
    fs::write(folder.join("my.cnf"), "[mysqld]\n").unwrap();
    cluster.member(0).flags.push(format!("--my-cnf={}", folder.join("my.cnf").display()));
    cluster.create().await;
    let query = |name: &String| format!("SELECT CONCAT('{name}=', COALESCE(@@GLOBAL.{name}, ''))");
    let mut lines = String::new();
    for name in &names {
        lines += &(cluster.members[0].texts(&query(name)).await.remove(0) + "\n");
    }
    let path = folder.join("live.cnf");
    for text in [lines.as_str(), ""] {
        fs::write(&path, format!("[mysqld]\n{text}max_connections=66\n")).unwrap();
        let since = Instant::now();
        while cluster.members[0].numbers("SELECT @@GLOBAL.max_connections").await != [66] {
            let problem = cluster.members[0].state().await.problem;
            assert!(since.elapsed() < PATIENCE && problem.is_none(), "{problem:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(cluster.members[0].state().await.problem, None);
        fs::write(&path, "[mysqld]\nmax_connections=65\n").unwrap();
        cluster.members[0].until("the defaults are taken", |state| state.problem.is_none()).await;
    }
}

/// A name that the server does not know would keep it from starting.
#[test]
fn the_server_knows_every_setting_that_the_chart_lets_through() {
    let name = if is_mysql() { "_settings_mysql" } else { "_settings" };
    let templates = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/mysql/templates");
    let template = fs::read_to_string(format!("{templates}/{name}.jinja")).unwrap();
    let taken: BTreeSet<&str> = template.split('"').skip(1).step_by(2).collect();
    let mut help = if is_mysql() {
        let mut help = Command::new("chroot");
        help.arg(root_of_mysql()).arg("mysqld");
        help
    } else {
        Command::new("mariadbd")
    };
    let help = help.args(["--no-defaults", "--verbose", "--help"]).output().unwrap();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let variables = help.split("Variables (--variable-name=value)").nth(1).expect("it lists them");
    let known: BTreeSet<String> =
        variables.lines().filter_map(|line| Some(line.split_whitespace().next()?.replace('-', "_"))).collect();
    assert!(taken.len() > 150);
    let unknown: Vec<&&str> = taken.iter().filter(|name| !known.contains(**name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

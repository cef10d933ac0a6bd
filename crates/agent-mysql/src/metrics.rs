//! Metrics of a member for Prometheus. Metrics that `mysqld_exporter` has, too, have its names here, so that its
//! dashboards and alerts fit. No label has what clients can choose: neither databases, nor users, nor statements.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::flavor::Flavor;
use super::member::DatabaseMember;
use super::sql::{RowFields, SqlError};
use tillerman_agent::contract::{MemberState, Role};

/// The type of the answer.
pub const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How long the database has for its counters.
const ANSWER: Duration = Duration::from_secs(1);

/// Whether a value can decrease.
#[derive(Clone, Copy)]
enum Kind {
    Gauge,
    Counter,
}
use Kind::{Counter, Gauge};

/// Values of `SHOW GLOBAL STATUS`: `mysql_global_status_NAME`.
const STATUS: [(&str, Kind, &str); 46] = [
    ("aborted_clients", Counter, "Connections that ended without a proper end."),
    ("aborted_connects", Counter, "Attempts to connect that failed."),
    ("binlog_bytes_written", Counter, "Bytes written to the binary log."),
    ("binlog_cache_disk_use", Counter, "Transactions that did not fit into the cache of the binary log."),
    ("bytes_received", Counter, "Bytes received from clients."),
    ("bytes_sent", Counter, "Bytes sent to clients."),
    ("connection_errors_max_connections", Counter, "Connections refused because there were too many."),
    ("connections", Counter, "Attempts to connect."),
    ("created_tmp_disk_tables", Counter, "Temporary tables on the disk."),
    ("created_tmp_tables", Counter, "Temporary tables."),
    ("handler_commit", Counter, "Commits of the storage engines."),
    ("handler_rollback", Counter, "Rollbacks of the storage engines."),
    ("innodb_buffer_pool_bytes_data", Gauge, "Bytes of data in the buffer pool."),
    ("innodb_buffer_pool_bytes_dirty", Gauge, "Bytes of data in the buffer pool that are not written yet."),
    ("innodb_buffer_pool_read_requests", Counter, "Pages that were looked for in the buffer pool."),
    ("innodb_buffer_pool_reads", Counter, "Pages that had to be read from the disk."),
    ("innodb_checkpoint_age", Gauge, "Bytes of the redo log since the last checkpoint."),
    ("innodb_checkpoint_max_age", Gauge, "Bytes of the redo log after which writes have to wait."),
    ("innodb_deadlocks", Counter, "Deadlocks of transactions."),
    ("innodb_history_list_length", Gauge, "Transactions whose old rows are not removed yet."),
    ("innodb_os_log_written", Counter, "Bytes written to the redo log."),
    ("innodb_row_lock_current_waits", Gauge, "Row locks that are waited for."),
    ("innodb_row_lock_time", Counter, "Milliseconds that were waited for row locks."),
    ("innodb_row_lock_waits", Counter, "Row locks that had to be waited for."),
    ("max_used_connections", Gauge, "The most connections at once since the start."),
    ("open_files", Gauge, "Open files."),
    ("open_tables", Gauge, "Open tables."),
    ("queries", Counter, "Statements, with those of stored routines."),
    ("questions", Counter, "Statements of clients."),
    ("rpl_semi_sync_master_clients", Gauge, "Connected replicas that acknowledge."),
    ("rpl_semi_sync_master_no_tx", Counter, "Commits that no replica acknowledged."),
    ("rpl_semi_sync_master_wait_sessions", Gauge, "Commits that wait for an acknowledgement."),
    ("rpl_semi_sync_master_tx_wait_time", Counter, "Microseconds that commits waited for acknowledgements."),
    ("rpl_semi_sync_master_yes_tx", Counter, "Commits that a replica acknowledged."),
    ("rpl_semi_sync_source_clients", Gauge, "Connected replicas that acknowledge."),
    ("rpl_semi_sync_source_no_tx", Counter, "Commits that no replica acknowledged."),
    ("rpl_semi_sync_source_wait_sessions", Gauge, "Commits that wait for an acknowledgement."),
    ("rpl_semi_sync_source_tx_wait_time", Counter, "Microseconds that commits waited for acknowledgements."),
    ("rpl_semi_sync_source_yes_tx", Counter, "Commits that a replica acknowledged."),
    ("select_full_join", Counter, "Joins without an index."),
    ("slow_queries", Counter, "Statements that took longer than long_query_time."),
    ("threads_cached", Gauge, "Threads that are kept for other connections."),
    ("threads_connected", Gauge, "Open connections."),
    ("threads_created", Counter, "Threads that were made."),
    ("threads_running", Gauge, "Connections that run a statement."),
    ("uptime", Gauge, "Seconds since the start of the database."),
];
/// Statements that are counted by kind: `mysql_global_status_commands_total{command="NAME"}`.
const COMMANDS: [&str; 8] = ["begin", "commit", "delete", "insert", "replace", "rollback", "select", "update"];
/// Pages of the buffer pool by state: `mysql_global_status_buffer_pool_pages{state="NAME"}`.
const PAGES: [&str; 4] = ["data", "dirty", "free", "misc"];
/// Settings: `mysql_global_variables_NAME`. Those that the database does not have are left out.
const VARIABLES: [(&str, &str); 7] = [
    ("innodb_buffer_pool_size", "Bytes of the buffer pool."),
    ("innodb_log_file_size", "Bytes of the redo log."),
    ("innodb_redo_log_capacity", "Bytes of the redo log."),
    ("max_connections", "How many connections there may be at once."),
    ("read_only", "Whether clients cannot write."),
    ("rpl_semi_sync_master_enabled", "Whether commits wait for acknowledgements."),
    ("rpl_semi_sync_source_enabled", "Whether commits wait for acknowledgements."),
];

/// The measured values. It is answered also when the database hangs: then with what the agent itself knows.
pub async fn metrics(member: &Arc<DatabaseMember>) -> String {
    let state = member.state().await;
    let rows = tokio::time::timeout(ANSWER, counters(member)).await;
    text(&state, &rows.unwrap_or(Err(SqlError::Late)).unwrap_or_default())
}

/// Names in small letters, and their values. None of these queries waits for commits.
async fn counters(member: &DatabaseMember) -> Result<Vec<(String, f64)>, SqlError> {
    let mut sql = member.asks().await?;
    let names = VARIABLES.map(|(name, _)| format!("'{name}'")).join(", ");
    let variables = sql.rows(&format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})"), ANSWER).await?;
    let tablespaces = match sql.flavor {
        Flavor::Mariadb => "INNODB_SYS_TABLESPACES",
        Flavor::Mysql => "INNODB_TABLESPACES",
    };
    let sizes = format!("SELECT SUM(FILE_SIZE) AS size FROM information_schema.{tablespaces}");
    let sizes = sql.rows(&sizes, ANSWER).await?;
    let status = sql.rows("SHOW GLOBAL STATUS", ANSWER).await?;
    let number = |row: &RowFields, name: &str| row.text(name).parse::<f64>().ok();
    let mut found: Vec<(String, f64)> = status
        .iter()
        .filter_map(|row| Some((row.text("Variable_name").to_ascii_lowercase(), number(row, "Value")?)))
        .collect();
    found.extend(variables.iter().filter_map(|row| {
        let value = match row.text("Value").as_str() {
            "ON" => 1.0,
            "OFF" => 0.0,
            other => other.parse().ok()?,
        };
        Some((format!("variable {}", row.text("Variable_name").to_ascii_lowercase()), value))
    }));
    found.extend(sizes.first().and_then(|row| Some(("size".to_owned(), number(row, "size")?))));
    Ok(found)
}

/// The text of the answer.
fn text(state: &MemberState, counters: &[(String, f64)]) -> String {
    let mut text = String::new();
    let find = |name: &str| counters.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
    let mut metric = |name: &str, kind: Kind, help: &str, values: &[(String, f64)]| {
        if !values.is_empty() {
            let kind = if matches!(kind, Gauge) { "gauge" } else { "counter" };
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        }
    };
    let one = |value: Option<f64>| value.map(|value| (String::new(), value)).into_iter().collect::<Vec<_>>();
    let is = |holds: bool| one(Some(f64::from(u8::from(holds))));
    metric("mysql_up", Gauge, "Whether the database answers.", &is(!counters.is_empty()));
    let version = state.version.as_ref().filter(|version| version.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
    let version: Vec<_> = version.map(|version| (format!("{{version=\"{version}\"}}"), 1.0)).into_iter().collect();
    metric("mysql_version_info", Gauge, "The version of the database.", &version);
    for (name, kind, help) in STATUS {
        metric(&format!("mysql_global_status_{name}"), kind, help, &one(find(name)));
    }
    let labelled = |label: &str, prefix: &str, names: &[&str]| {
        let value = |name: &&str| Some((format!("{{{label}=\"{name}\"}}"), find(&format!("{prefix}{name}"))?));
        names.iter().filter_map(value).collect::<Vec<_>>()
    };
    let commands = labelled("command", "com_", &COMMANDS);
    metric("mysql_global_status_commands_total", Counter, "Statements by kind.", &commands);
    let pages = labelled("state", "innodb_buffer_pool_pages_", &PAGES);
    metric("mysql_global_status_buffer_pool_pages", Gauge, "Pages of the buffer pool by state.", &pages);
    for (name, help) in VARIABLES {
        metric(&format!("mysql_global_variables_{name}"), Gauge, help, &one(find(&format!("variable {name}"))));
    }
    metric("tillerman_mysql_data_bytes", Gauge, "Bytes of the files of InnoDB.", &one(find("size")));
    if state.role == Role::Replica {
        metric("mysql_slave_status_slave_io_running", Gauge, "Whether the replica receives.", &is(state.receiving));
        metric("mysql_slave_status_slave_sql_running", Gauge, "Whether the replica applies.", &is(state.applying));
        metric("mysql_slave_status_seconds_behind_master", Gauge, "How far the replica lags behind.", &one(state.lag));
    }
    let roles = [Role::Waiting, Role::Fenced, Role::Replica, Role::Primary];
    let roles = roles.map(|role| (format!("{{role=\"{role:?}\"}}"), f64::from(u8::from(role == state.role))));
    metric("tillerman_mysql_role", Gauge, "The role that the last order gave the member.", &roles);
    metric("tillerman_mysql_writable", Gauge, "Whether clients can write.", &is(state.writable));
    metric(
        "tillerman_mysql_acknowledges",
        Gauge,
        "Whether it acknowledges the writes that it receives.",
        &is(state.acknowledges),
    );
    metric("tillerman_mysql_problem", Gauge, "Whether the agent reports a problem.", &is(state.problem.is_some()));
    #[expect(clippy::cast_precision_loss, reason = "an epoch counts changes of the primary")]
    let epoch = state.epoch as f64;
    metric("tillerman_mysql_epoch", Gauge, "The highest epoch that the agent obeyed.", &one(Some(epoch)));
    if state.role == Role::Primary {
        metric(
            "tillerman_mysql_required_acks",
            Gauge,
            "How many acknowledgements a commit waits for.",
            &one(Some(state.acks.into())),
        );
        let connected = u32::try_from(state.acknowledging.len()).unwrap_or(u32::MAX);
        metric(
            "tillerman_mysql_acknowledging",
            Gauge,
            "Members that are connected and acknowledge.",
            &one(Some(connected.into())),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::text;
    use tillerman_agent::contract::{MemberState, Role};

    #[test]
    fn a_member_whose_database_is_silent_says_so_and_what_the_agent_knows() {
        let state = MemberState {
            role: Role::Replica,
            epoch: 7,
            lag: Some(0.5),
            version: Some("1\"} x".into()),
            ..MemberState::default()
        };
        let said = text(&state, &[]);
        for line in [
            "mysql_up 0",
            "tillerman_mysql_role{role=\"Replica\"} 1",
            "tillerman_mysql_role{role=\"Primary\"} 0",
            "tillerman_mysql_epoch 7",
            "mysql_slave_status_seconds_behind_master 0.5",
        ] {
            assert!(said.lines().any(|own| own == line), "{line}: {said}");
        }
        assert!(!said.contains("version=") && !said.contains("mysql_global_status"));
    }

    #[test]
    fn counters_have_the_names_of_mysqld_exporter() {
        let counters = [
            ("threads_connected".to_owned(), 3.0),
            ("com_select".to_owned(), 1e10),
            ("variable read_only".to_owned(), 1.0),
            ("secret".to_owned(), 1.0),
        ];
        let said = text(&MemberState::default(), &counters);
        for line in [
            "mysql_up 1",
            "# TYPE mysql_global_status_threads_connected gauge",
            "mysql_global_status_threads_connected 3",
            "mysql_global_status_commands_total{command=\"select\"} 10000000000",
            "mysql_global_variables_read_only 1",
        ] {
            assert!(said.lines().any(|own| own == line), "{line}: {said}");
        }
        assert!(!said.contains("secret"));
    }
}

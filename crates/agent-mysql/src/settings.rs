//! How the database is started: the settings that the guarantee needs are arguments, which a user's file cannot
//! override.

use std::path::Path;

use super::command::Flags;
use super::flavor::Flavor;
use tillerman_agent::store::Volume;

/// The longest time, so that a commit waits for an acknowledgement for ever: with a shorter one it degrades silently.
const FOREVER: &str = "18446744073709551615";

/// The settings that the guarantee needs of both databases.
const NEEDS: [(&str, &str); 13] = [
    ("log-bin", "binlog"),
    ("relay-log", "relay"),
    ("binlog-format", "ROW"),
    ("sync-binlog", "1"),
    ("innodb-flush-log-at-trx-commit", "1"),
    ("read-only", "1"),
    ("skip-name-resolve", "1"),
    ("skip-networking", "0"),
    // Until this is the primary: `scheduler`.
    ("event-scheduler", "OFF"),
    ("skip-grant-tables", "0"),
    ("innodb-force-recovery", "0"),
    ("innodb-doublewrite", "1"),
    // With rows in the log, a function has the same effect everywhere. Without this nobody could create one, or a
    // trigger: error 1419.
    ("log-bin-trust-function-creators", "1"),
];

/// Those that it needs of MariaDB.
const MARIADB: [(&str, &str); 14] = [
    ("log-slave-updates", "1"),
    ("gtid-strict-mode", "1"),
    ("gtid-ignore-duplicates", "0"),
    ("rpl-semi-sync-master-wait-point", "AFTER_SYNC"),
    ("rpl-semi-sync-master-timeout", FOREVER),
    ("rpl-semi-sync-master-wait-no-slave", "1"),
    ("rpl-semi-sync-master-enabled", "0"),
    ("rpl-semi-sync-slave-enabled", "0"),
    ("rpl-semi-sync-slave-kill-conn-timeout", "1"),
    ("slave-parallel-threads", "8"),
    ("slave-net-timeout", "4"),
    ("skip-slave-start", "1"),
    ("slave-exec-mode", "STRICT"),
    ("slave-skip-errors", "OFF"),
];

/// Those that it needs of MySQL.
const MYSQL: [(&str, &str); 22] = [
    ("plugin-load-add", "semisync_source.so;semisync_replica.so;mysql_clone.so"),
    // Settings that clients have stored for the next start would override these arguments.
    ("persisted-globals-load", "OFF"),
    ("log-replica-updates", "1"),
    ("gtid-mode", "ON"),
    ("enforce-gtid-consistency", "ON"),
    ("rpl-semi-sync-source-wait-point", "AFTER_SYNC"),
    ("rpl-semi-sync-source-timeout", FOREVER),
    ("rpl-semi-sync-source-wait-no-replica", "1"),
    ("rpl-semi-sync-source-enabled", "0"),
    ("rpl-semi-sync-replica-enabled", "0"),
    // A member may lack writes that it made as an earlier primary. Those that it has are passed over by their GTID.
    ("replicate-same-server-id", "1"),
    // Received writes survive the end of the process. A loss of power may take some of them, which the database sees
    // when it starts; `start` then changes, and nobody relies on them. To write each event to the disk, replicas would
    // acknowledge a tenth of the writes.
    ("relay-log-recovery", "0"),
    ("replica-net-timeout", "4"),
    ("super-read-only", "1"),
    ("skip-replica-start", "1"),
    ("replica-exec-mode", "STRICT"),
    ("replica-skip-errors", "OFF"),
    ("replica-preserve-commit-order", "1"),
    ("replica-parallel-workers", "8"),
    ("binlog-order-commits", "1"),
    ("secure-file-priv", "NULL"),
    ("mysqlx", "OFF"),
];

/// The settings that the guarantee needs of a database.
fn needs(flavor: Flavor) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    let more: &[(&str, &str)] = match flavor {
        Flavor::Mariadb => &MARIADB,
        Flavor::Mysql => &MYSQL,
    };
    NEEDS.iter().chain(more)
}

/// Whether the guarantee needs a setting, whose name has underscores, or it changes with the orders: nothing else may set it.
pub fn is_own(flavor: Flavor, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let changes = ["gtid_", "rpl_semi_sync_", "super_read_only", "replicate_", "slave_", "replica_"];
    needs(flavor).any(|(own, _)| own.replace('-', "_") == name) || changes.iter().any(|begin| name.starts_with(begin))
}

/// The arguments of the database.
pub fn arguments(flags: &Flags, data: &Path, init_file: &Path, takes_back: bool) -> Vec<String> {
    let mut arguments = Vec::new();
    // It has to be the first.
    arguments.push(match &flags.my_cnf {
        Some(path) => format!("--defaults-file={}", path.display()),
        None => "--no-defaults".to_owned(),
    });
    arguments.push(format!("--tmpdir={}", Volume::new(&flags.volume).temporary().display()));
    arguments.extend(flags.arguments.iter().cloned());
    let mut ours = |name: &str, value: &str| arguments.push(format!("--{name}={value}"));
    if let Some(user) = &flags.user {
        ours("user", user);
    }
    ours("datadir", &data.display().to_string());
    ours("socket", &flags.socket().display().to_string());
    ours("pid-file", &flags.volume.join(format!("{}.pid", flags.flavor.server())).display().to_string());
    ours("port", &flags.port.to_string());
    ours("bind-address", &flags.bind_address);
    ours("server-id", &flags.server_id().to_string());
    ours("init-file", &init_file.display().to_string());
    for (name, value) in needs(flags.flavor) {
        ours(name, value);
    }
    if let Some(tls) = flags.tls() {
        for (name, path) in [("ssl-cert", tls.certificate), ("ssl-key", tls.key), ("ssl-ca", tls.authorities)] {
            ours(name, &path.display().to_string());
        }
    }
    if takes_back {
        ours("init-rpl-role", "SLAVE");
    }
    arguments
}

/// The statements that the database runs at each start: the account of the agent with a password that only this agent's
/// memory has, and the administrator's. Nothing of it is written to the binary log, so every member has its own.
/// `agent` and the value with the name of the administrator are the texts after `IDENTIFIED`.
pub fn init_file(flavor: Flavor, agent: &str, administrator: Option<(&str, &str)>) -> Vec<String> {
    let mut lines = vec!["SET sql_log_bin=0".to_owned()];
    let own = super::accounts::AGENT;
    match flavor {
        Flavor::Mariadb => lines.push(format!("CREATE OR REPLACE USER '{own}'@'localhost' IDENTIFIED {agent}")),
        Flavor::Mysql => {
            lines.push(format!("CREATE USER IF NOT EXISTS '{own}'@'localhost' IDENTIFIED {agent}"));
            lines.push(format!("ALTER USER '{own}'@'localhost' IDENTIFIED {agent}"));
            // New data has it without a password.
            lines.push("DROP USER IF EXISTS 'root'@'localhost'".to_owned());
        }
    }
    lines.push(format!("GRANT ALL PRIVILEGES ON *.* TO '{own}'@'localhost' WITH GRANT OPTION"));
    if let Some((name, identified)) = administrator {
        // Without a password it would be let in with none.
        let first = if flavor == Flavor::Mysql { format!(" IDENTIFIED {identified}") } else { String::new() };
        lines.push(format!("CREATE USER IF NOT EXISTS '{name}'@'%'{first}"));
        lines.push(format!("ALTER USER '{name}'@'%' IDENTIFIED {identified}"));
        lines.push(format!("GRANT {ADMINISTRATOR} ON *.* TO '{name}'@'%' WITH GRANT OPTION"));
    }
    lines
}

/// The privileges of the administrator: none with which read-only mode, acknowledgements or the binary log can be
/// changed.
const ADMINISTRATOR: &str = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, PROCESS, REFERENCES, INDEX, ALTER, SHOW DATABASES, \
    CREATE TEMPORARY TABLES, LOCK TABLES, EXECUTE, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, ALTER ROUTINE, CREATE USER, EVENT, TRIGGER";

macro_rules! events {
    () => {
        "CREATE TABLE IF NOT EXISTS tillerman.event (db VARCHAR(64) NOT NULL, name VARCHAR(64) NOT NULL, PRIMARY KEY (db, name)) \
         ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    };
}

/// The table of events of clients that are disabled.
pub const EVENTS: &str = events!();

/// The tables of a new database: one of two rows, and that of events. A change of the first row shows that a write is
/// acknowledged; one of the second is a commit with which earlier ones are.
pub const CREATE: &str = concat!(
    "CREATE DATABASE tillerman;\n",
    "CREATE TABLE tillerman.marker (id TINYINT PRIMARY KEY, number BIGINT UNSIGNED NOT NULL) ENGINE=InnoDB;\n",
    "INSERT INTO tillerman.marker VALUES (1, 0), (2, 0);\n",
    events!(),
    ";\n"
);

#[cfg(test)]
mod tests {
    use super::{arguments, init_file};
    use crate::command::Flags;
    use crate::flavor::Flavor;
    use clap::Parser as _;
    use std::path::Path;

    #[test]
    fn what_the_guarantee_needs_comes_last() {
        let flags = Flags::try_parse_from([
            "agent",
            "--volume=/v",
            "--member=db-2",
            "--insecure-http",
            "--password-file=/p",
            "--",
            "--sync-binlog=0",
        ])
        .unwrap();
        let arguments = arguments(&flags, Path::new("/v/data"), Path::new("/v/init.sql"), true);
        let at =
            |text: &str| arguments.iter().position(|argument| argument == text).unwrap_or_else(|| panic!("{text}"));
        assert!(at("--no-defaults") == 0 && at("--sync-binlog=0") < at("--sync-binlog=1"));
        assert!(at("--server-id=3") > 0 && at("--init-rpl-role=SLAVE") > 0 && at("--read-only=1") > 0);
        assert!(!arguments.iter().any(|argument| argument.starts_with("--ssl")));
    }

    #[test]
    fn the_administrator_cannot_weaken_the_guarantee() {
        for flavor in [Flavor::Mariadb, Flavor::Mysql] {
            let lines = init_file(flavor, "*A", Some(("admin", "*B"))).join(";");
            for privilege in [
                "SUPER",
                "READ_ONLY ADMIN",
                "CONNECTION_ADMIN",
                "SYSTEM_VARIABLES_ADMIN",
                "REPLICATION MASTER ADMIN",
                "BINLOG ADMIN",
                "CONNECTION ADMIN",
            ] {
                assert!(!lines.contains(privilege), "{privilege}");
            }
            assert!(!lines.split(';').any(|line| line.contains("ALL PRIVILEGES") && line.contains("admin'")));
        }
    }
}

//! How the database is started: what the guarantee needs is given as arguments, which a user's file cannot override.

use std::path::Path;

use super::command::Flags;
use crate::agent::store::Volume;

/// The longest time, so that a commit waits for an acknowledgement for ever: with a shorter one it degrades silently.
const FOREVER: &str = "18446744073709551615";

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
    ours("pid-file", &flags.volume.join("mariadbd.pid").display().to_string());
    ours("port", &flags.port.to_string());
    ours("bind-address", &flags.bind_address);
    ours("server-id", &flags.server_id().to_string());
    ours("init-file", &init_file.display().to_string());
    for (name, value) in [
        ("log-bin", "binlog"),
        ("relay-log", "relay"),
        ("log-slave-updates", "1"),
        ("gtid-strict-mode", "1"),
        ("gtid-ignore-duplicates", "0"),
        ("binlog-format", "ROW"),
        ("sync-binlog", "1"),
        ("innodb-flush-log-at-trx-commit", "1"),
        ("rpl-semi-sync-master-wait-point", "AFTER_SYNC"),
        ("rpl-semi-sync-master-timeout", FOREVER),
        ("rpl-semi-sync-master-wait-no-slave", "1"),
        ("rpl-semi-sync-master-enabled", "0"),
        ("rpl-semi-sync-slave-enabled", "0"),
        ("rpl-semi-sync-slave-kill-conn-timeout", "1"),
        ("slave-parallel-threads", "8"),
        ("slave-net-timeout", "4"),
        ("read-only", "1"),
        ("skip-slave-start", "1"),
        ("skip-name-resolve", "1"),
        ("skip-networking", "0"),
        ("event-scheduler", "OFF"),
        ("skip-grant-tables", "0"),
        ("slave-exec-mode", "STRICT"),
        ("slave-skip-errors", "OFF"),
        ("innodb-force-recovery", "0"),
        ("innodb-doublewrite", "1"),
    ] {
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

/// What the database runs at each start: the account of the agent with a password that only this agent's memory has, and the
/// administrator's. Nothing of it is written to the binary log, so every member has its own.
pub fn init_file(agent: &str, administrator: Option<(&str, &str)>) -> Vec<String> {
    let mut lines = vec!["SET sql_log_bin=0".to_owned()];
    lines.push(account(super::accounts::AGENT, "localhost", agent));
    lines.push(format!("GRANT ALL PRIVILEGES ON *.* TO '{}'@'localhost' WITH GRANT OPTION", super::accounts::AGENT));
    if let Some((name, hash)) = administrator {
        lines.push(format!("CREATE USER IF NOT EXISTS '{name}'@'%'"));
        lines.push(format!("ALTER USER '{name}'@'%' IDENTIFIED VIA mysql_native_password USING '{hash}'"));
        lines.push(format!("GRANT {ADMINISTRATOR} ON *.* TO '{name}'@'%' WITH GRANT OPTION"));
    }
    lines
}

fn account(name: &str, host: &str, hash: &str) -> String {
    format!("CREATE OR REPLACE USER '{name}'@'{host}' IDENTIFIED VIA mysql_native_password USING '{hash}'")
}

/// What the administrator may do: no privilege with which read-only mode, acknowledgements or the binary log can be changed.
const ADMINISTRATOR: &str = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, PROCESS, REFERENCES, INDEX, ALTER, SHOW DATABASES, \
    CREATE TEMPORARY TABLES, LOCK TABLES, EXECUTE, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, ALTER ROUTINE, CREATE USER, EVENT, TRIGGER";

/// What a new database gets: a table of two rows. A change of the first shows that a write is acknowledged; one of the second is a
/// commit with which earlier ones are.
pub const CREATE: &str = "CREATE DATABASE tillerman;\n\
    CREATE TABLE tillerman.marker (id TINYINT PRIMARY KEY, number BIGINT UNSIGNED NOT NULL) ENGINE=InnoDB;\n\
    INSERT INTO tillerman.marker VALUES (1, 0), (2, 0);\n";

#[cfg(test)]
mod tests {
    use super::{arguments, init_file};
    use crate::agent::mariadb::command::Flags;
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
        let lines = init_file("*A", Some(("admin", "*B"))).join(";");
        for privilege in ["SUPER", "READ_ONLY ADMIN", "REPLICATION MASTER ADMIN", "BINLOG ADMIN", "CONNECTION ADMIN"] {
            assert!(!lines.contains(privilege), "{privilege}");
        }
        assert!(!lines.split(';').any(|line| line.contains("ALL PRIVILEGES") && line.contains("admin'")));
    }
}

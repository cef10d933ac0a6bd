//! The check of a source: what keeps its data from coming, each with what solves it. Nothing is changed there.

use std::time::Duration;

use serde::Serialize;

use super::record::quoted;
use crate::flavor::Flavor;
use crate::seed::series;
use crate::sql::{RowFields, Sql, SqlError};

/// Databases that are not of clients.
pub const HIDDEN: [&str; 5] = ["mysql", "information_schema", "performance_schema", "sys", "tillerman"];
/// Whether a database is the server's or the agent's. Names without case are equal in a database with `lower_case_table_names`.
pub fn is_hidden(name: &str) -> bool {
    HIDDEN.iter().any(|hidden| hidden.eq_ignore_ascii_case(name))
}

/// A list of databases as conditions of SQL.
pub fn hidden() -> String {
    HIDDEN.map(|name| format!("'{name}'")).join(", ")
}

/// The oldest series that is taken.
fn oldest(flavor: Flavor) -> (u32, u32) {
    match flavor {
        Flavor::Mariadb => (10, 5),
        Flavor::Mysql => (8, 0),
    }
}

/// The shortest time for which the source should keep its binary log, in seconds.
const KEEPS: u64 = 24 * 3600;
/// Bytes per second, for the estimate of the time. It was measured on two slow cores.
const RATE: u64 = 12 << 20;
const LATE: Duration = Duration::from_secs(60);

/// A database of clients.
#[derive(Debug)]
pub struct Database {
    /// Its name.
    pub name: String,
    /// Its character set.
    pub charset: String,
    /// Its collation.
    pub collation: String,
    /// The bytes of its tables, about.
    pub bytes: u64,
}

/// The databases of clients.
pub async fn databases(sql: &mut Sql) -> Result<Vec<Database>, SqlError> {
    let query = format!(
        "SELECT s.SCHEMA_NAME AS name, s.DEFAULT_CHARACTER_SET_NAME AS charset, s.DEFAULT_COLLATION_NAME AS collation, \
         COALESCE(SUM(t.DATA_LENGTH), 0) AS bytes FROM information_schema.SCHEMATA s \
         LEFT JOIN information_schema.TABLES t ON t.TABLE_SCHEMA = s.SCHEMA_NAME WHERE s.SCHEMA_NAME NOT IN ({}) GROUP BY 1, 2, 3 ORDER BY 1",
        hidden()
    );
    let rows = sql.rows(&query, LATE).await?;
    Ok(rows
        .iter()
        .map(|row| Database {
            name: row.text("name"),
            charset: row.text("charset"),
            collation: row.text("collation"),
            bytes: row.number("bytes").unwrap_or_default(),
        })
        .collect())
}

/// What a check has found.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Findings {
    /// What has to be solved before the import, each with what solves it.
    pub problems: Vec<String>,
    /// What is good to know.
    pub notes: Vec<String>,
    /// The bytes of the tables, about.
    pub bytes: u64,
    /// How long the copy takes, about.
    pub seconds: u64,
}

/// Checks the source, and whether the cluster can take its data. With `begun`, an earlier attempt has begun to copy it.
pub async fn check(source: &mut Sql, cluster: &mut Sql, begun: bool) -> Result<Findings, SqlError> {
    let mut found = Findings::default();
    if source.flavor != cluster.flavor {
        let (its, own) = (source.flavor.name(), cluster.flavor.name());
        found.problems.push(format!(
            "the source is {its} and the cluster {own}: import it into a cluster with spec.flavor: {}",
            source.flavor
        ));
        return Ok(found);
    }
    let (kept, replicas) = match source.flavor {
        Flavor::Mariadb => ("ROUND(@@expire_logs_days * 86400)", "SHOW ALL SLAVES STATUS"),
        Flavor::Mysql => ("@@binlog_expire_logs_seconds", "SHOW REPLICA STATUS"),
    };
    let settings = format!(
        "SELECT @@version AS version, @@log_bin AS log_bin, @@binlog_format AS format, @@binlog_row_image AS image, {kept} AS kept, \
         @@log_slave_updates AS passes_on, @@sql_mode AS mode, @@character_set_server AS charset, @@collation_server AS collation, \
         @@lower_case_table_names AS lower, @@event_scheduler AS events"
    );
    let there = one(source.rows(&settings, LATE).await?);
    let here = one(cluster.rows(&settings, LATE).await?);
    let (Some(there), Some(here)) = (there, here) else { return Err(SqlError::Lost) };
    settings_of(source.flavor, &there, &here, &mut found);
    privileges(source, &there, &mut found).await?;
    let replicas = source.rows(replicas, LATE).await;
    if replicas.is_ok_and(|rows| !rows.is_empty()) && there.number("passes_on") == Some(0) {
        found.problems.push("the source is a replica, and its binary log lacks what it receives: set log_slave_updates in its configuration".to_owned());
    }
    tables(source, &mut found).await?;
    let names = databases(source).await?;
    found.bytes = names.iter().map(|database| database.bytes).sum();
    found.seconds = found.bytes.div_ceil(RATE);
    for database in names.iter().filter(|_| !begun) {
        let query = format!(
            "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{}' LIMIT 1",
            quoted(&database.name)
        );
        if !cluster.rows(&query, LATE).await?.is_empty() {
            found
                .problems
                .push(format!("the cluster has a database {0} with tables: DROP DATABASE `{0}` there", database.name));
        }
    }
    Ok(found)
}

fn one(rows: Vec<RowFields>) -> Option<RowFields> {
    rows.into_iter().next()
}

fn settings_of(flavor: Flavor, there: &RowFields, here: &RowFields, found: &mut Findings) {
    let version = there.text("version");
    let (major, minor) = oldest(flavor);
    match (series(&version), series(&here.text("version"))) {
        (Some(its), _) if its < (major, minor) => {
            found.problems.push(format!("the source has version {version}: upgrade it to {major}.{minor} or newer"));
        }
        (Some(its), Some(own)) if its > own => found.problems.push(format!(
            "the source has version {version}, which is newer than {} of the cluster: set spec.version of the cluster",
            here.text("version")
        )),
        _ => {}
    }
    if there.number("log_bin") != Some(1) {
        found
            .problems
            .push("the source writes no binary log: set log_bin in its configuration, and restart it".to_owned());
    }
    for (field, setting, wanted) in [("format", "binlog_format", "ROW"), ("image", "binlog_row_image", "FULL")] {
        if there.text(field) != wanted {
            found.problems.push(format!(
                "{setting} of the source is {}: SET GLOBAL {setting} = '{wanted}', and connect its clients again",
                there.text(field)
            ));
        }
    }
    let kept = there.number("kept").unwrap_or_default();
    if (1..KEEPS).contains(&kept) {
        found
            .notes
            .push(format!("the source keeps its binary log for {kept} seconds: the copy has to be faster than that"));
    }
    if there.text("lower") != here.text("lower") {
        found.problems.push(format!(
            "lower_case_table_names is {} at the source and {} here: names of tables would change",
            there.text("lower"),
            here.text("lower")
        ));
    }
    for (field, setting) in
        [("mode", "sql_mode"), ("charset", "character_set_server"), ("collation", "collation_server")]
    {
        if there.text(field) != here.text(field) {
            found.notes.push(format!(
                "{setting} is {} at the source and {} here: set it in spec.configuration if applications need it",
                there.text(field),
                here.text(field)
            ));
        }
    }
}

/// A privilege that an import needs, others that have it, and its reason.
type Needed = (&'static str, &'static [&'static str], &'static str);

const NEEDED: [Needed; 6] = [
    ("SELECT", &[], "to copy tables"),
    ("SHOW VIEW", &[], "to copy views"),
    ("TRIGGER", &[], "to copy triggers"),
    ("EVENT", &[], "to copy events"),
    ("RELOAD", &[], "to end writes at the cut-over"),
    ("REPLICATION SLAVE", &[], "to follow writes"),
];
const OF_MARIADB: [Needed; 2] = [
    ("PROCESS", &[], "to copy tablespaces"),
    ("BINLOG MONITOR", &["REPLICATION CLIENT", "SUPER"], "to know the position of the binary log"),
];
const OF_MYSQL: [Needed; 2] = [
    ("REPLICATION CLIENT", &["SUPER"], "to know the position of the binary log"),
    ("SYSTEM_VARIABLES_ADMIN", &["SUPER"], "to end writes at the cut-over"),
];
/// To end writes. Since 10.11 `SUPER` does not have it.
const CLOSES: Needed = ("READ_ONLY ADMIN", &["READ ONLY ADMIN"], "to end writes at the cut-over");
const CLOSES_BEFORE_10_11: Needed = ("SUPER", &["READ_ONLY ADMIN", "READ ONLY ADMIN"], "to end writes at the cut-over");
/// To follow the cluster after the cut-over.
const TO_FOLLOW: [Needed; 12] = [
    ("BINLOG REPLAY", &[], "to apply the writes of the cluster"),
    ("SELECT", &[], "to record how far it is"),
    ("INSERT", &[], "to record how far it is"),
    ("UPDATE", &[], "to record how far it is"),
    ("DELETE", &[], "to record how far it is"),
    ("CREATE", &[], "to create tables"),
    ("DROP", &[], "to drop tables"),
    ("ALTER", &[], "to change tables"),
    ("INDEX", &[], "to change indexes"),
    ("CREATE VIEW", &[], "to create views"),
    ("CREATE ROUTINE", &[], "to create routines"),
    ("ALTER ROUTINE", &[], "to change routines"),
];
/// Where events run.
const STOPS_EVENTS: Needed = ("SUPER", &[], "to stop events at the cut-over");

async fn privileges(source: &mut Sql, settings: &RowFields, found: &mut Findings) -> Result<(), SqlError> {
    let grants = grants(source).await?;
    let mut needed = NEEDED.to_vec();
    match source.flavor {
        Flavor::Mariadb => {
            needed.extend(OF_MARIADB);
            needed.push(if series(&settings.text("version")) < Some((10, 11)) { CLOSES_BEFORE_10_11 } else { CLOSES });
            if settings.text("events") == "ON" {
                needed.push(STOPS_EVENTS);
            }
        }
        Flavor::Mysql => needed.extend(OF_MYSQL),
    }
    found.problems.extend(lacks(source, &grants, &needed).await?);
    Ok(())
}

/// The statement that lets the account follow the cluster, if it cannot.
pub async fn lacks_to_follow(source: &mut Sql) -> Result<Option<String>, SqlError> {
    let grants = grants(source).await?;
    lacks(source, &grants, &TO_FOLLOW).await
}

async fn grants(source: &mut Sql) -> Result<Vec<String>, SqlError> {
    Ok(source.rows("SHOW GRANTS", LATE).await?.iter().map(RowFields::first).collect())
}

/// What the account lacks, with the statement that grants it.
async fn lacks(source: &mut Sql, grants: &[String], needed: &[Needed]) -> Result<Option<String>, SqlError> {
    let missing = missing(grants, needed);
    if missing.is_empty() {
        return Ok(None);
    }
    let reasons: Vec<String> = missing.iter().map(|(name, _, why)| format!("{name} {why}")).collect();
    let names: Vec<&str> = missing.iter().map(|(name, ..)| *name).collect();
    let account = source.rows("SELECT CURRENT_USER() AS account", LATE).await?;
    let account = account.first().map(|row| row.text("account")).unwrap_or_default();
    let account = account.split('@').map(|part| format!("'{}'", quoted(part))).collect::<Vec<_>>().join("@");
    let (reasons, names) = (reasons.join(", "), names.join(", "));
    Ok(Some(format!("the account lacks {reasons}: GRANT {names} ON *.* TO {account}")))
}

/// The needed privileges that none of the grants has on the whole server.
fn missing(grants: &[String], needed: &[Needed]) -> Vec<Needed> {
    let global = grants.iter().filter_map(|grant| grant.strip_prefix("GRANT ")?.split_once(" ON *.* TO "));
    let has: Vec<String> =
        global.flat_map(|(names, _)| names.split(',').map(|name| name.trim().to_uppercase())).collect();
    let is_there = |name: &&str| has.iter().any(|has| has == name || has == "ALL PRIVILEGES");
    needed.iter().filter(|(name, others, _)| !is_there(name) && !others.iter().any(&is_there)).copied().collect()
}

async fn tables(source: &mut Sql, found: &mut Findings) -> Result<(), SqlError> {
    let query = format!(
        "SELECT TABLE_SCHEMA AS folder, TABLE_NAME AS name, ENGINE AS engine FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA NOT IN ({}) AND TABLE_TYPE = 'BASE TABLE' AND ENGINE <> 'InnoDB' LIMIT 100",
        hidden()
    );
    for row in source.rows(&query, LATE).await? {
        let (folder, name) = (row.text("folder"), row.text("name"));
        found.problems.push(format!(
            "the table {folder}.{name} has the engine {}, which has no transactions: ALTER TABLE `{folder}`.`{name}` ENGINE = InnoDB",
            row.text("engine")
        ));
    }
    let query = format!(
        "SELECT t.TABLE_SCHEMA AS folder, t.TABLE_NAME AS name FROM information_schema.TABLES t LEFT JOIN information_schema.STATISTICS s \
         ON s.TABLE_SCHEMA = t.TABLE_SCHEMA AND s.TABLE_NAME = t.TABLE_NAME AND s.NON_UNIQUE = 0 WHERE t.TABLE_SCHEMA NOT IN ({}) \
         AND t.TABLE_TYPE = 'BASE TABLE' AND s.INDEX_NAME IS NULL LIMIT 20",
        hidden()
    );
    for row in source.rows(&query, LATE).await? {
        let table = format!("{}.{}", row.text("folder"), row.text("name"));
        found.notes.push(format!("the table {table} has no primary key: each change of a row reads the whole table"));
    }
    let plugins = match source.flavor {
        Flavor::Mariadb => "'', 'mysql_native_password', 'ed25519', 'unix_socket'",
        Flavor::Mysql => "'caching_sha2_password', 'sha256_password', 'auth_socket'",
    };
    let query =
        format!("SELECT User AS user, Host AS host, plugin FROM mysql.user WHERE plugin NOT IN ({plugins}) LIMIT 20");
    if let Ok(rows) = source.rows(query, LATE).await {
        for row in rows {
            let account = format!("{}@{}", row.text("user"), row.text("host"));
            found.notes.push(format!(
                "the account {account} uses the plugin {}, which the cluster may not have",
                row.text("plugin")
            ));
        }
    }
    let query = "SELECT COUNT(*) AS number FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE IN ('SUPER', 'READ_ONLY ADMIN')";
    let supers = one(source.rows(query, LATE).await?).and_then(|row| row.number("number")).unwrap_or_default();
    // MySQL has a read-only mode for all accounts.
    if supers > 0 && source.flavor == Flavor::Mariadb {
        found.notes.push(
            "accounts with SUPER or READ_ONLY ADMIN can write to the source after the cut-over: stop their applications before it".to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{NEEDED, Needed, OF_MARIADB, OF_MYSQL, missing};

    #[test]
    fn privileges_on_the_whole_server_are_needed() {
        let of = |needed: &[Needed], grants: &[&str]| {
            let grants: Vec<String> = grants.iter().map(|&grant| grant.to_owned()).collect();
            missing(&grants, needed).iter().map(|(name, ..)| *name).collect::<Vec<_>>()
        };
        let (mariadb, mysql) = ([NEEDED.as_slice(), &OF_MARIADB].concat(), [NEEDED.as_slice(), &OF_MYSQL].concat());
        let none: [&str; 0] = [];
        assert_eq!(of(&mariadb, &["GRANT ALL PRIVILEGES ON *.* TO `root`@`%` WITH GRANT OPTION"]), none);
        let most =
            "GRANT SELECT, RELOAD, PROCESS, REPLICATION SLAVE, SUPER, SHOW VIEW, EVENT, TRIGGER ON *.* TO `a`@`%`";
        assert_eq!((of(&mariadb, &[most]), of(&mysql, &[most])), (Vec::new(), Vec::new()));
        let two = [
            "GRANT SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT, SHOW VIEW ON *.* TO `a`@`%`",
            "GRANT SYSTEM_VARIABLES_ADMIN ON *.* TO `a`@`%`",
        ];
        assert_eq!(of(&mysql, &two), ["TRIGGER", "EVENT"]);
        let few = ["GRANT USAGE ON *.* TO `a`@`%`", "GRANT SELECT ON `shop`.* TO `a`@`%`"];
        assert_eq!(of(&mariadb, &few).len(), mariadb.len());
    }
}

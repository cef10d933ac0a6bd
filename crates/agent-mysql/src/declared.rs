//! Databases and users as the values of a chart declare them: a file, which is hostile input. The file can request
//! privileges on databases of clients, and none with which a user could change accounts, replication, or the condition
//! that a commit waits for.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// The name of the file.
pub const FILE: &str = "accounts.json";
/// The largest file, in bytes.
pub const LIMIT: u64 = 256 << 10;
/// The most databases, and the most users.
const MOST: usize = 200;
/// The most databases that a user may have something on.
const GRANTS: usize = 50;

/// The privileges that can be granted on a database, in the words of the database.
pub const PRIVILEGES: [&str; 19] = [
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "REFERENCES",
    "INDEX",
    "ALTER",
    "CREATE TEMPORARY TABLES",
    "LOCK TABLES",
    "EXECUTE",
    "CREATE VIEW",
    "SHOW VIEW",
    "CREATE ROUTINE",
    "ALTER ROUTINE",
    "EVENT",
    "TRIGGER",
    "DELETE HISTORY",
];
/// The privileges of a user who only reads.
const READS: [&str; 2] = ["SELECT", "SHOW VIEW"];
/// Databases that are not of clients.
const RESERVED: [&str; 5] = ["mysql", "information_schema", "performance_schema", "sys", "tillerman"];

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Declared {
    /// The databases.
    pub databases: Vec<Database>,
    /// The users.
    pub users: Vec<User>,
    /// Whether the data of a running database is imported.
    pub import: bool,
    /// Whether its source can follow the cluster afterwards.
    pub way_back: bool,
}

/// A database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Database {
    /// Its name.
    pub name: String,
    /// Empty: the server's.
    pub character_set: String,
    /// Empty: that of the character set.
    pub collate: String,
}

/// A user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct User {
    /// The name.
    pub name: String,
    /// From where it may connect: a pattern of addresses.
    pub host: String,
    /// Databases on which it may do everything that can be granted.
    pub databases: Vec<String>,
    /// Its privileges on other databases.
    pub grants: Vec<Grant>,
    /// It reads only.
    pub read_only: bool,
    /// How many connections it may have at once; 0: as many as the server takes.
    pub max_connections: u32,
    /// Whether it may connect with TLS only.
    #[serde(rename = "requireTLS")]
    pub require_tls: bool,
    /// Whether an account that exists, such as one of an import, becomes this user.
    pub take_over: bool,
}

/// Privileges on a database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Grant {
    /// The database.
    pub database: String,
    /// The privileges; `ALL` means all privileges that can be granted.
    pub privileges: Vec<String>,
}

/// A user whose texts were checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The name.
    pub name: String,
    /// The pattern of addresses.
    pub host: String,
    /// Privileges by database.
    pub grants: BTreeMap<String, BTreeSet<&'static str>>,
    /// How many connections it may have at once.
    pub max_connections: u32,
    /// Whether it may connect with TLS only.
    pub require_tls: bool,
    /// Whether an account that exists becomes this one.
    pub take_over: bool,
}

/// Reads the file. The error is a sentence without values of it.
pub fn read(text: &[u8]) -> Result<Declared, String> {
    let declared: Declared = serde_json::from_slice(text)
        .map_err(|error| format!("{FILE} is not valid at line {}, column {}", error.line(), error.column()))?;
    for (field, count) in [("databases", declared.databases.len()), ("users", declared.users.len())] {
        if count > MOST {
            return Err(format!("{FILE}: there are {count} {field}; the limit is {MOST}"));
        }
    }
    Ok(declared)
}

/// Checks a database. The error is a sentence without values.
pub fn database(database: &Database) -> Result<(), String> {
    let is_word = |text: &str| text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !is_database(&database.name) {
        return Err(NO_DATABASE.to_owned());
    }
    if !is_word(&database.character_set) || !is_word(&database.collate) {
        return Err("a character set or a collation is a word of letters, digits and underscores".to_owned());
    }
    Ok(())
}

const NO_DATABASE: &str = "the name of a database has 1 to 64 letters, digits, underscores and hyphens, and is not a \
                           name of the server's own";

/// Whether a text is the name of a database of clients.
fn is_database(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..=64).contains(&name.len())
        && name.bytes().all(allowed)
        && !RESERVED.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// Checks a user. The error is a sentence without values.
pub fn account(user: &User, administrator: &str) -> Result<Account, String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    if !(1..=80).contains(&user.name.len()) || !user.name.bytes().all(allowed) {
        return Err("the name of a user has 1 to 80 letters, digits, underscores, hyphens and dots".to_owned());
    }
    let name = user.name.to_ascii_lowercase();
    let is_own = ["root", "mysql", "mariadb.sys", "public", "event_scheduler"].contains(&name.as_str())
        || name == administrator.to_ascii_lowercase();
    if is_own || name.starts_with("tillerman") || name.starts_with("mysql.") {
        return Err("the server or the agent has an account of this name".to_owned());
    }
    let is_pattern = |b: u8| b.is_ascii_hexdigit() || matches!(b, b'.' | b':' | b'%' | b'_' | b'/');
    let host = if user.host.is_empty() { "%" } else { &user.host };
    if host != "localhost" && (host.len() > 60 || !host.bytes().all(is_pattern)) {
        return Err("host is not a pattern of addresses, such as 10.0.%: the server does not look names up".to_owned());
    }
    if user.grants.len() + user.databases.len() > GRANTS {
        return Err(format!("it has more than {GRANTS} grants"));
    }
    let mut grants: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    let all = ["ALL".to_owned()];
    let everything = user.databases.iter().map(|database| (database, &all[..]));
    for (database, privileges) in
        everything.chain(user.grants.iter().map(|grant| (&grant.database, &grant.privileges[..])))
    {
        if !is_database(database) {
            return Err(NO_DATABASE.to_owned());
        }
        let granted = grants.entry(database.clone()).or_default();
        for privilege in privileges {
            granted.extend(
                privileges_of(privilege)
                    .ok_or_else(|| format!("a privilege cannot be granted: ALL, or of {}", PRIVILEGES.join(", ")))?,
            );
        }
        if user.read_only {
            granted.retain(|privilege| READS.contains(privilege));
        }
    }
    grants.retain(|_, granted| !granted.is_empty());
    Ok(Account {
        name: user.name.clone(),
        host: host.to_owned(),
        grants,
        max_connections: user.max_connections,
        require_tls: user.require_tls,
        take_over: user.take_over,
    })
}

/// The privileges that a word means.
fn privileges_of(word: &str) -> Option<Vec<&'static str>> {
    let word = word.to_ascii_uppercase();
    if ["ALL", "ALL PRIVILEGES"].contains(&word.as_str()) {
        return Some(PRIVILEGES.to_vec());
    }
    PRIVILEGES.iter().find(|known| **known == word).map(|known| vec![*known])
}

/// The name of the file with the password of a user.
pub fn password_file(user: &str) -> String {
    format!("password.{user}")
}

#[cfg(test)]
mod tests {
    use super::{Account, PRIVILEGES, account, database, read};

    fn only_user(text: &str) -> Result<Account, String> {
        account(&read(text.as_bytes())?.users[0], "admin")
    }

    #[test]
    fn a_user_gets_what_is_listed_and_one_who_reads_only_that() {
        let user = only_user(r#"{"users": [{"name": "app", "databases": ["shop"], "grants": [{"database": "log", "privileges": ["select"]}]}]}"#).unwrap();
        assert_eq!(
            (user.host.as_str(), user.grants["shop"].len(), user.grants["log"].len()),
            ("%", PRIVILEGES.len(), 1)
        );
        let user = only_user(r#"{"users": [{"name": "r", "databases": ["shop"], "readOnly": true, "host": "10.%", "requireTLS": true}]}"#).unwrap();
        assert_eq!(user.grants["shop"].iter().copied().collect::<Vec<_>>(), ["SELECT", "SHOW VIEW"]);
        assert!(user.require_tls && user.host == "10.%");
    }

    #[test]
    fn nothing_with_which_the_guarantee_could_be_broken_can_be_asked_for() {
        for privilege in [
            "SUPER",
            "READ ONLY ADMIN",
            "READ_ONLY ADMIN",
            "REPLICATION MASTER ADMIN",
            "BINLOG ADMIN",
            "FILE",
            "CREATE USER",
            "GRANT OPTION",
            "RELOAD",
            "SHUTDOWN",
            "PROCESS",
            "PROXY",
            "SET USER",
            "CONNECTION ADMIN",
            "SELECT ON *.*",
            "SELECT, SUPER",
            "",
            "ALL ON *.* TO x; --",
        ] {
            let user = format!(
                r#"{{"users": [{{"name": "a", "grants": [{{"database": "d", "privileges": ["{privilege}"]}}]}}]}}"#
            );
            assert!(only_user(&user).unwrap_err().contains("cannot be granted"), "{privilege}");
        }
        for database in
            ["mysql", "MySQL", "sys", "tillerman", "performance_schema", "*", "%", "a`b", "a'b", "", "a b", "a\u{0}b"]
        {
            let user = serde_json::json!({"users": [{"name": "a", "databases": [database]}]}).to_string();
            assert!(only_user(&user).is_err(), "{database:?}");
        }
        for name in [
            "root",
            "ROOT",
            "admin",
            "tillerman-agent",
            "tillerman.ack.db-0",
            "mysql",
            "mariadb.sys",
            "PUBLIC",
            "a'b",
            "a%",
            "",
            "a@b",
            "a\\",
            "a\nb",
            "$(X)",
            &"a".repeat(81),
        ] {
            let user = serde_json::json!({"users": [{"name": name}]}).to_string();
            assert!(only_user(&user).is_err(), "{name:?}");
        }
        for host in ["%'", "example.com", "10.0.0.1' IDENTIFIED BY ''", &"1".repeat(61)] {
            let user = serde_json::json!({"users": [{"name": "a", "host": host}]}).to_string();
            assert!(only_user(&user).is_err(), "{host:?}");
        }
    }

    #[test]
    fn a_file_that_is_not_understood_shows_nothing_of_what_is_in_it() {
        for text in ["{\"users\": [{\"name\": \"secret\", \"x\": 1}]}", "secret", "{\"users\": [{\"name\": 7}]}"] {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(error.contains("is not valid at line 1") && !error.contains("secret"), "{error}");
        }
        let many = serde_json::json!({"databases": vec![serde_json::json!({"name": "a"}); 201]}).to_string();
        assert!(read(many.as_bytes()).unwrap_err().contains("201 databases"));
        let set = super::Database { name: "a".into(), character_set: "utf8mb4; DROP".into(), collate: String::new() };
        assert!(database(&set).is_err());
        let user = serde_json::json!({"users": [{"name": "a", "databases": vec!["d"; 51]}]}).to_string();
        assert!(only_user(&user).unwrap_err().contains("50"));
    }
}

//! The statements that bring databases and accounts from their present state to the declared state. Only accounts that
//! the agent made or takes over by request are changed or dropped, and no database is dropped. Statements are made of checked names, listed
//! privileges, and hashes.

use std::collections::{BTreeMap, BTreeSet};

use super::declared::{Account, Database};

/// The properties of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Is {
    /// The text after `IDENTIFIED` with the stored form of the password, if only the password admits.
    pub identified: Option<String>,
    /// Whether it needs TLS, and nothing more of it.
    pub requires_tls: bool,
    /// Whether it needs more of TLS.
    pub requires_more: bool,
    /// How many connections it may have at once.
    pub max_connections: u32,
    /// Its privileges by patterns of databases, as the database stores them.
    pub grants: BTreeMap<String, BTreeSet<String>>,
}

/// The present state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actual {
    /// Whether the table of accounts exists.
    pub table: bool,
    /// Character set and collation by database.
    pub databases: BTreeMap<String, (String, String)>,
    /// The accounts that the agent made, by name and host.
    pub ours: BTreeSet<(String, String)>,
    /// The existing accounts.
    pub accounts: BTreeMap<(String, String), Is>,
}

/// The table of accounts that the agent made.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS tillerman.account (name VARCHAR(80) NOT NULL, host VARCHAR(255) NOT NULL, \
     PRIMARY KEY (name, host)) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin";

/// The statements for a database.
pub fn for_database(wanted: &Database, actual: &Actual) -> Vec<String> {
    let word = |keyword: &str, word: &str| if word.is_empty() { String::new() } else { format!(" {keyword} {word}") };
    let options = word("CHARACTER SET", &wanted.character_set) + &word("COLLATE", &wanted.collate);
    match actual.databases.get(&wanted.name) {
        None => vec![format!("CREATE DATABASE IF NOT EXISTS `{}`{options}", wanted.name)],
        Some((set, collation)) => {
            let differs = |wanted: &str, is: &str| !wanted.is_empty() && !wanted.eq_ignore_ascii_case(is);
            let changes = differs(&wanted.character_set, set) || differs(&wanted.collate, collation);
            if changes { vec![format!("ALTER DATABASE `{}`{options}", wanted.name)] } else { Vec::new() }
        }
    }
}

/// The statements for an account, with the text after `IDENTIFIED`. The error is a sentence.
pub fn for_account(wanted: &Account, identified: &str, actual: &Actual) -> Result<Vec<String>, String> {
    let key = (wanted.name.clone(), wanted.host.clone());
    let account = format!("'{}'@'{}'", wanted.name, wanted.host);
    let is = actual.accounts.get(&key);
    let ours = actual.ours.contains(&key);
    if is.is_some() && !ours && !wanted.take_over {
        return Err("an account of this name exists, and it was not made from values: set takeOver, drop it, or use another name".to_owned());
    }
    let mut statements = Vec::new();
    if !ours {
        if !actual.table {
            statements.push(TABLE.to_owned());
        }
        statements.push(format!("INSERT IGNORE INTO tillerman.account VALUES ('{}', '{}')", wanted.name, wanted.host));
    }
    let require = if wanted.require_tls { "SSL" } else { "NONE" };
    let properties = format!(
        "{account} IDENTIFIED {identified} REQUIRE {require} WITH MAX_USER_CONNECTIONS {}",
        wanted.max_connections
    );
    match is {
        None => statements.push(format!("CREATE USER IF NOT EXISTS {properties}")),
        Some(is) => {
            let same = is.identified.as_deref() == Some(identified)
                && is.requires_tls == wanted.require_tls
                && !is.requires_more
                && is.max_connections == wanted.max_connections;
            if !same {
                statements.push(format!("ALTER USER IF EXISTS {properties}"));
            }
        }
    }
    let nothing = BTreeMap::new();
    let has = is.map_or(&nothing, |is| &is.grants);
    let wants: BTreeMap<String, &BTreeSet<&str>> =
        wanted.grants.iter().map(|(name, what)| (pattern(name), what)).collect();
    for (database, privileges) in &wants {
        let has: BTreeSet<&str> = has.get(database).into_iter().flatten().map(String::as_str).collect();
        let more: Vec<&str> = privileges.iter().copied().filter(|privilege| !has.contains(privilege)).collect();
        if !more.is_empty() {
            statements.push(format!("GRANT {} ON `{database}`.* TO {account}", more.join(", ")));
        }
    }
    for (database, has) in has {
        let wants = wants.get(database);
        let less = |privilege: &&String| wants.is_none_or(|wants| !wants.contains(privilege.as_str()));
        let less: Vec<&str> = has.iter().filter(less).map(String::as_str).collect();
        if !less.is_empty() {
            statements.push(format!(
                "REVOKE {} ON `{}`.* FROM {account}",
                less.join(", "),
                database.replace('`', "``")
            ));
        }
    }
    Ok(statements)
}

/// The statements that drop an account that the agent made.
pub fn drops(name: &str, host: &str) -> [String; 2] {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
    let (name, host) = (quoted(name), quoted(host));
    [
        format!("DROP USER IF EXISTS {name}@{host}"),
        format!("DELETE FROM tillerman.account WHERE name = {name} AND host = {host}"),
    ]
}

/// The name of a database as `GRANT` takes it: an underscore would match any character.
fn pattern(database: &str) -> String {
    database.replace('_', "\\_")
}

#[cfg(test)]
mod tests {
    use super::{Actual, Is, TABLE, drops, for_account, for_database};
    use crate::declared::{Account, Database};
    use std::collections::BTreeMap;

    fn wanted() -> Account {
        let grants = BTreeMap::from([("a_b".to_owned(), ["SELECT", "INSERT"].into())]);
        Account {
            name: "app".into(),
            host: "%".into(),
            grants,
            max_connections: 3,
            require_tls: true,
            take_over: false,
        }
    }

    /// The state after the statements.
    fn done() -> Actual {
        let key = ("app".to_owned(), "%".to_owned());
        let grants = BTreeMap::from([("a\\_b".to_owned(), ["SELECT".to_owned(), "INSERT".to_owned()].into())]);
        let is =
            Is { identified: Some("VIA *A".into()), requires_tls: true, max_connections: 3, grants, ..Is::default() };
        Actual { table: true, ours: [key.clone()].into(), accounts: [(key, is)].into(), ..Actual::default() }
    }

    #[test]
    fn an_account_is_recorded_made_and_then_left_alone() {
        assert_eq!(
            for_account(&wanted(), "VIA *A", &Actual::default()).unwrap(),
            [
                TABLE,
                "INSERT IGNORE INTO tillerman.account VALUES ('app', '%')",
                "CREATE USER IF NOT EXISTS 'app'@'%' IDENTIFIED VIA *A REQUIRE SSL WITH MAX_USER_CONNECTIONS 3",
                "GRANT INSERT, SELECT ON `a\\_b`.* TO 'app'@'%'",
            ]
        );
        assert_eq!(for_account(&wanted(), "VIA *A", &done()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_differs_is_changed_and_nothing_else() {
        let key = ("app".to_owned(), "%".to_owned());
        let changed = |change: &dyn Fn(&mut Is)| {
            let mut actual = done();
            change(actual.accounts.get_mut(&key).unwrap());
            for_account(&wanted(), "VIA *A", &actual).unwrap()
        };
        for (change, begins) in [
            ((&|is: &mut Is| is.identified = None) as &dyn Fn(&mut Is), "ALTER USER"),
            (&|is| is.identified = Some("VIA *B".into()), "ALTER USER"),
            (&|is| is.requires_tls = false, "ALTER USER"),
            (&|is| is.requires_more = true, "ALTER USER"),
            (&|is| is.max_connections = 0, "ALTER USER"),
            (&|is| drop(is.grants.remove("a\\_b")), "GRANT INSERT, SELECT ON"),
            (&|is| is.grants.get_mut("a\\_b").unwrap().retain(|p| p != "SELECT"), "GRANT SELECT ON"),
            (
                &|is| drop(is.grants.insert("z`".into(), ["DROP".into()].into())),
                "REVOKE DROP ON `z```.* FROM 'app'@'%'",
            ),
            (&|is| is.grants.get_mut("a\\_b").unwrap().extend(["EVENT".into()]), "REVOKE EVENT ON `a\\_b`"),
        ] {
            let statements = changed(change);
            assert!(statements.len() == 1 && statements[0].starts_with(begins), "{begins}: {statements:?}");
        }
    }

    #[test]
    fn an_account_of_somebody_else_is_left_alone_unless_it_is_to_be_taken_over() {
        let actual = Actual { ours: [].into(), ..done() };
        assert!(for_account(&wanted(), "VIA *A", &actual).unwrap_err().contains("not made from values"));
        let taken = for_account(&Account { take_over: true, ..wanted() }, "VIA *B", &actual).unwrap();
        assert_eq!(taken[0], "INSERT IGNORE INTO tillerman.account VALUES ('app', '%')");
        assert!(
            taken.len() == 2 && taken[1].starts_with("ALTER USER IF EXISTS 'app'@'%' IDENTIFIED VIA *B "),
            "{taken:?}"
        );
        // It was recorded, and a crash came before it was made.
        let actual = Actual { accounts: BTreeMap::new(), ..done() };
        assert!(for_account(&wanted(), "VIA *A", &actual).unwrap()[0].starts_with("CREATE USER"));
        assert_eq!(drops("a", "%")[0], "DROP USER IF EXISTS 'a'@'%'");
        assert_eq!(drops("a'\\", "%")[0], "DROP USER IF EXISTS 'a''\\\\'@'%'");
    }

    #[test]
    fn a_database_is_made_or_changed_and_never_dropped() {
        let database = |set: &str, collate: &str| Database {
            name: "a".into(),
            character_set: set.into(),
            collate: collate.into(),
        };
        let there =
            Actual { databases: [("a".into(), ("utf8mb4".into(), "utf8mb4_bin".into()))].into(), ..Actual::default() };
        for (wanted, actual, expected) in [
            (database("", ""), &Actual::default(), &["CREATE DATABASE IF NOT EXISTS `a`"][..]),
            (
                database("utf8mb4", "utf8mb4_bin"),
                &Actual::default(),
                &["CREATE DATABASE IF NOT EXISTS `a` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"],
            ),
            (database("", ""), &there, &[]),
            (database("UTF8MB4", ""), &there, &[]),
            (database("latin1", ""), &there, &["ALTER DATABASE `a` CHARACTER SET latin1"]),
        ] {
            assert_eq!(for_database(&wanted, actual), expected);
        }
    }
}

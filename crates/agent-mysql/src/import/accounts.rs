//! Accounts and events of the source. They come when its writes have ended: an event that runs twice would change the cluster before.

use std::process::Stdio;
use std::time::Duration;

use super::dump::{Kind, objects_of};
use super::flags::Import;
use super::programs::reaches;
use super::record::{STORE, quoted};
use super::source::{Database, HIDDEN, databases};
use super::stream::without_definer;
use super::{ANSWER, of_cluster, of_source};
use crate::flavor::Flavor;
use crate::restore::runs;
use crate::sql::{Address, Sql, SqlError};

const LATE: Duration = Duration::from_secs(30);
/// The privileges on a database that the administrator can grant.
const ALL: &str = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX, ALTER, CREATE TEMPORARY TABLES, LOCK TABLES, EXECUTE, \
                   CREATE VIEW, SHOW VIEW, CREATE ROUTINE, ALTER ROUTINE, EVENT, TRIGGER";

/// Accounts of clients, as a condition of SQL: neither the server's own ones, nor that of the session.
pub const CLIENTS: &str = "User NOT IN ('root', 'mysql', 'mariadb.sys', 'mysql.sys', 'mysql.session', 'mysql.infoschema', 'healthcheck', '') \
                           AND User NOT LIKE 'tillerman%' AND User <> SUBSTRING_INDEX(CURRENT_USER(), '@', 1)";

/// Creates the accounts of the source that the cluster lacks, with the stored forms of their passwords and their privileges on databases.
/// Returns what did not come, in words.
pub async fn take_accounts(from: &mut Sql, to: &mut Sql) -> Result<Vec<String>, SqlError> {
    let mut missing = Vec::new();
    let no_role = match from.flavor {
        Flavor::Mariadb => "is_role = 'N'",
        Flavor::Mysql => {
            // A stored password can have bytes that are not of a text.
            from.run("SET SESSION print_identified_with_as_hex = ON", LATE).await?;
            "NOT (account_locked = 'Y' AND password_expired = 'Y' AND authentication_string = '')"
        }
    };
    let query = format!("SELECT User AS user, Host AS host FROM mysql.user WHERE {CLIENTS} AND {no_role}");
    for row in from.rows(query, LATE).await? {
        let account = format!("'{}'@'{}'", quoted(&row.text("user")), quoted(&row.text("host")));
        let shown = format!("{}@{}", row.text("user"), row.text("host"));
        let exists = format!(
            "SELECT 1 FROM mysql.user WHERE User = '{}' AND Host = '{}'",
            quoted(&row.text("user")),
            quoted(&row.text("host"))
        );
        if !to.rows(&exists, LATE).await?.is_empty() {
            continue;
        }
        let created = first_fields(from, &format!("SHOW CREATE USER {account}")).await?;
        let grants = first_fields(from, &format!("SHOW GRANTS FOR {account}")).await?;
        let created = created.iter().map(|statement| without_default_role(statement)).collect();
        if let Some(error) = runs_all(to, created).await? {
            missing.push(format!("the account {shown}: error {error} of the database"));
            continue;
        }
        let (global, grants): (Vec<_>, Vec<_>) = grants.into_iter().partition(|grant| is_global(grant));
        // The administrator lacks some of the privileges that `ALL` means.
        let grants =
            grants.iter().map(|grant| grant.replace("GRANT ALL PRIVILEGES ON ", &format!("GRANT {ALL} ON "))).collect();
        if let Some(error) = runs_all(to, grants).await? {
            missing.push(format!("a privilege of the account {shown}: error {error} of the database"));
        }
        if global.iter().any(|grant| !grant.starts_with("GRANT USAGE ON *.* ")) {
            missing.push(format!("the privileges of the account {shown} on the whole server"));
        }
    }
    Ok(missing)
}

/// Whether a privilege is on the whole server, on a database that is not of clients, or a role. With such ones an account could change how
/// commits are acknowledged.
fn is_global(grant: &str) -> bool {
    let on = grant.split(" TO ").next().unwrap_or_default();
    on.contains(" ON *.*")
        || !on.contains(" ON ")
        || pattern(on).is_some_and(|pattern| HIDDEN.iter().any(|name| is_like(name, &pattern)))
}

/// The pattern of databases of a privilege: `` GRANT SELECT ON `shop\_%`.* ``.
fn pattern(on: &str) -> Option<String> {
    let name = on.split_once(" ON ")?.1.split_once('`')?.1;
    let end = name.replace("``", "\0\0").find('`')?;
    Some(name[..end].replace("``", "`"))
}

/// Whether a name without case is like a pattern of SQL.
fn is_like(name: &str, pattern: &str) -> bool {
    let (mut pattern, mut parts) = (pattern.chars(), Vec::new());
    while let Some(c) = pattern.next() {
        parts.push(match c {
            '%' => None,
            '_' => Some(None),
            '\\' => Some(Some(pattern.next().unwrap_or('\\'))),
            c => Some(Some(c)),
        });
    }
    // The lengths of the beginning of the name that the pattern until here is like.
    let name: Vec<char> = name.chars().collect();
    let mut lengths = vec![0];
    for part in parts {
        lengths = match part {
            None => (lengths.first().copied().unwrap_or(name.len() + 1)..=name.len()).collect(),
            Some(c) => {
                let is =
                    |at: &usize| name.get(*at).is_some_and(|own| c.is_none_or(|c: char| own.eq_ignore_ascii_case(&c)));
                lengths.into_iter().filter(is).map(|at| at + 1).collect()
            }
        };
    }
    lengths.last() == Some(&name.len())
}

/// A new account without the roles that it would have by default, which do not come.
fn without_default_role(statement: &str) -> String {
    match statement.split_once(" DEFAULT ROLE ") {
        Some((before, rest)) => match rest.find(" REQUIRE ") {
            Some(at) => format!("{before}{}", &rest[at..]),
            None => before.to_owned(),
        },
        None => statement.to_owned(),
    }
}

async fn first_fields(sql: &mut Sql, query: &str) -> Result<Vec<String>, SqlError> {
    Ok(sql.rows(query, LATE).await?.iter().map(crate::sql::RowFields::first).collect())
}

/// Runs statements up to the first that is refused, whose number is returned.
async fn runs_all(sql: &mut Sql, statements: Vec<String>) -> Result<Option<u16>, SqlError> {
    for statement in statements {
        match sql.run(statement, STORE).await {
            Err(SqlError::Server(number)) => return Ok(Some(number)),
            done => done?,
        }
    }
    Ok(None)
}

/// Creates the events of the source.
pub async fn take_events(import: &Import, source: &Address, target: &Address, from: &mut Sql) -> Result<(), String> {
    let names = databases(from).await.map_err(|error| error.to_string())?;
    let any =
        from.rows("SELECT 1 FROM information_schema.EVENTS LIMIT 1", LATE).await.map_err(|error| error.to_string())?;
    if any.is_empty() || names.is_empty() {
        return Ok(());
    }
    if from.flavor == Flavor::Mysql {
        return take_events_of_mysql(source, target, &names).await;
    }
    let mut dump = reaches(&import.dump, source);
    dump.args([
        "--events",
        "--no-data",
        "--no-create-info",
        "--no-create-db",
        "--skip-triggers",
        "--skip-lock-tables",
        "--databases",
    ]);
    let dump = dump.args(names.iter().map(|database| &database.name)).output().await;
    let dump = dump.map_err(|error| format!("mariadb-dump cannot be started: {error}"))?;
    if !dump.status.success() {
        return Err(format!("mariadb-dump failed ({})", dump.status));
    }
    let mut client = reaches(&import.client, target);
    client.args(["--batch", "--binary-mode"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut client = client.spawn().map_err(|error| format!("mariadb cannot be started: {error}"))?;
    if let Some(mut input) = client.stdin.take() {
        // If the client ends early, its error says more.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut input, &without_definer(&dump.stdout)).await;
    }
    runs(client).await
}

async fn take_events_of_mysql(source: &Address, target: &Address, names: &[Database]) -> Result<(), String> {
    // The session that holds the lock keeps its settings.
    let mut from = source.connect(ANSWER).await.map_err(of_source)?;
    let mut to = target.connect(ANSWER).await.map_err(of_cluster)?;
    from.run("SET SESSION character_set_results = binary", ANSWER).await.map_err(of_source)?;
    for database in names {
        for event in objects_of(&mut from, Kind::Event, &database.name).await? {
            event.create(&mut to).await.map_err(|error| event.failed(error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{is_global, is_like, without_default_role};

    #[test]
    fn privileges_on_the_whole_server_do_not_come() {
        for (grant, expected) in [
            ("GRANT ALL PRIVILEGES ON *.* TO `a`@`%` WITH GRANT OPTION", true),
            ("GRANT USAGE ON *.* TO `a`@`%` IDENTIFIED BY PASSWORD '*A'", true),
            ("GRANT `role` TO `a`@`%`", true),
            ("GRANT SELECT, INSERT ON `shop`.* TO `a`@`%`", false),
            ("GRANT EXECUTE ON PROCEDURE `shop`.`p` TO `a`@`%`", false),
            ("GRANT ALL PRIVILEGES ON `shop%`.* TO `a`@`%`", false),
            ("GRANT ALL PRIVILEGES ON `s``hop`.* TO `a`@`%`", false),
            ("GRANT UPDATE ON `mysql`.`user` TO `a`@`%`", true),
            ("GRANT ALL PRIVILEGES ON `%`.* TO `a`@`%`", true),
            ("GRANT ALL PRIVILEGES ON `M_sql`.* TO `a`@`%`", true),
        ] {
            assert_eq!(is_global(grant), expected, "{grant}");
        }
    }

    #[test]
    fn names_are_like_patterns() {
        for (name, pattern, expected) in [
            ("mysql", "mysql", true),
            ("mysql", "MY%", true),
            ("mysql", "%sq%", true),
            ("mysql", "my_ql", true),
            ("mysql", "my\\_ql", false),
            ("mysql", "mysql_", false),
            ("mysql", "", false),
            ("mysql", "%%", true),
            ("mysql", "%x%", false),
        ] {
            assert_eq!(is_like(name, pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn a_new_account_has_no_default_role() {
        for (statement, expected) in [
            (
                "CREATE USER `a`@`%` DEFAULT ROLE `r`@`%`,`s`@`%` REQUIRE NONE PASSWORD REQUIRE CURRENT",
                "CREATE USER `a`@`%` REQUIRE NONE PASSWORD REQUIRE CURRENT",
            ),
            ("CREATE USER `a`@`%` REQUIRE SSL", "CREATE USER `a`@`%` REQUIRE SSL"),
        ] {
            assert_eq!(without_default_role(statement), expected);
        }
    }
}

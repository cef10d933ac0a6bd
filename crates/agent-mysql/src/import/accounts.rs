//! Accounts and events of the source. They come when its writes have ended: an event that runs twice would change the cluster before.

use std::process::Stdio;
use std::time::Duration;

use super::flags::Import;
use super::programs::reaches;
use super::record::{STORE, quoted};
use super::source::databases;
use super::stream::without_definer;
use crate::restore::runs;
use crate::sql::{Address, Sql, SqlError};

const LATE: Duration = Duration::from_secs(30);
/// The privileges on a database that the administrator can grant.
const ALL: &str = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX, ALTER, CREATE TEMPORARY TABLES, LOCK TABLES, EXECUTE, \
                   CREATE VIEW, SHOW VIEW, CREATE ROUTINE, ALTER ROUTINE, EVENT, TRIGGER";

/// Creates the accounts of the source that the cluster lacks, with the stored forms of their passwords and their privileges on databases.
/// Returns what did not come, in words.
pub async fn take_accounts(from: &mut Sql, to: &mut Sql) -> Result<Vec<String>, SqlError> {
    let mut missing = Vec::new();
    let query = "SELECT User AS user, Host AS host FROM mysql.user WHERE User NOT IN ('root', 'mysql', 'mariadb.sys', 'healthcheck', '') \
                 AND User NOT LIKE 'tillerman%' AND is_role = 'N' AND User <> SUBSTRING_INDEX(CURRENT_USER(), '@', 1)";
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

/// Whether a privilege is on the whole server, or a role. With such ones an account could change how commits are acknowledged.
fn is_global(grant: &str) -> bool {
    let on = grant.split(" TO ").next().unwrap_or_default();
    on.contains(" ON *.*") || !on.contains(" ON ")
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

#[cfg(test)]
mod tests {
    use super::is_global;

    #[test]
    fn privileges_on_the_whole_server_do_not_come() {
        for (grant, expected) in [
            ("GRANT ALL PRIVILEGES ON *.* TO `a`@`%` WITH GRANT OPTION", true),
            ("GRANT USAGE ON *.* TO `a`@`%` IDENTIFIED BY PASSWORD '*A'", true),
            ("GRANT `role` TO `a`@`%`", true),
            ("GRANT SELECT, INSERT ON `shop`.* TO `a`@`%`", false),
            ("GRANT EXECUTE ON PROCEDURE `shop`.`p` TO `a`@`%`", false),
        ] {
            assert_eq!(is_global(grant), expected, "{grant}");
        }
    }
}

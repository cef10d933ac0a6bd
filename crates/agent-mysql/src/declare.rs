//! Brings databases and accounts to the declared state: on the primary only, and in the binary log, so that replicas
//! have the same. A statement waits for its acknowledgement as any other commit does, and holds up nothing of the agent
//! but a hand-over, which gives up in time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::converge::{self, Actual, Is};
use super::declared::{self, Declared, FILE, LIMIT, password_file};
use super::facts::AgentFacts;
use super::flavor::Flavor;
use super::keeper::{SHORT, secret};
use super::member::DatabaseMember;
use super::process::Process;
use super::sql::{RowFields, Sql, SqlError};
use super::stored_password::{clause, stored};
use tillerman_agent::contract::Role;

/// How often the files are read. The kubelet replaces them as a whole.
const READ: Duration = Duration::from_secs(2);
/// After this time the agent checks whether the database still has the declared state.
const LOOK: Duration = Duration::from_secs(60);
/// After this time what failed is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// The declared state, with the passwords. Nothing shows them.
#[derive(Clone, Default, PartialEq, Eq)]
struct Wanted {
    declared: Declared,
    /// By the name of the user; or why there is none.
    passwords: BTreeMap<String, Result<String, &'static str>>,
}

/// The last action.
struct Done {
    wanted: Result<Wanted, String>,
    process: Arc<Process>,
    at: Instant,
    succeeded: bool,
}

/// Applies the declared state, as long as the agent runs.
pub async fn keep_declared(member: Arc<DatabaseMember>) {
    let Some(folder) = member.flags.accounts.clone() else { return };
    let mut last: Option<Done> = None;
    loop {
        let process = member.wait_until(open_primary).await;
        let wanted = read(&folder);
        let is_due = last.as_ref().is_none_or(|last| {
            let pause = if last.succeeded { LOOK } else { AGAIN };
            last.wanted != wanted || !Arc::ptr_eq(&last.process, &process) || last.at.elapsed() >= pause
        });
        if is_due {
            let problems = match &wanted {
                Ok(wanted) => apply(&member, &process, wanted).await,
                Err(why) => Ok(vec![why.clone()]),
            };
            let succeeded = problems.as_ref().is_ok_and(Vec::is_empty);
            match problems {
                Ok(problems) => note(&member, &problems),
                Err(error) => tracing::debug!(%error, "cannot read the declared databases and users"),
            }
            last = Some(Done { wanted, process, at: Instant::now(), succeeded });
        }
        let imports = last.as_ref().is_some_and(|last| last.wanted.as_ref().is_ok_and(|wanted| wanted.declared.import));
        let import = if imports { progress(&member).await } else { None };
        if import != member.facts(|facts| facts.import.clone()) {
            member.change(|facts| facts.import = import);
        }
        let ends = member.wait_until(|facts| open_primary(facts).is_none().then_some(()));
        tokio::select! {
            () = ends => member.change(|facts| (facts.undeclared, facts.import) = (None, None)),
            () = member.reread.notified() => {}
            () = tokio::time::sleep(READ) => {}
        }
    }
}

/// The database of a primary that takes writes.
pub fn open_primary(facts: &AgentFacts) -> Option<Arc<Process>> {
    let is_open = facts.role == Role::Primary && facts.opened && !facts.stopping;
    facts.running.clone().filter(|_| is_open)
}

fn note(member: &DatabaseMember, problems: &[String]) {
    let text = problems.first().map(|first| match problems.len() {
        1 => first.clone(),
        count => format!("{first}, and {} more", count - 1),
    });
    if text != member.facts(|facts| facts.undeclared.clone()) {
        if let Some(why) = &text {
            tracing::warn!(why, "not all declared databases and users exist");
        } else {
            tracing::info!("all declared databases and users exist");
        }
        member.change(|facts| facts.undeclared = text);
    }
}

/// Reads the files. The error is a sentence without values.
fn read(folder: &Path) -> Result<Wanted, String> {
    let path = folder.join(FILE);
    let mut text = Vec::new();
    let file = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    file.take(LIMIT + 1).read_to_end(&mut text).map_err(|error| format!("{}: {error}", path.display()))?;
    if text.len() as u64 > LIMIT {
        return Err(format!("{FILE} is larger than {LIMIT} bytes"));
    }
    let declared = declared::read(&text)?;
    // Without a check of the name, it could be a path.
    let names = declared.users.iter().filter(|user| declared::account(user, "").is_ok()).map(|user| &user.name);
    let password = |name: &String| match secret(&folder.join(password_file(name))) {
        Ok(password) => Ok(password),
        Err(_) => Err("it has no password of 1 to 1024 bytes: see whether its Secret has one"),
    };
    let passwords = names.map(|name| (name.clone(), password(name))).collect();
    Ok(Wanted { declared, passwords })
}

/// Applies the missing parts. A part that cannot be applied is reported, and does not prevent the other parts.
async fn apply(member: &DatabaseMember, process: &Arc<Process>, wanted: &Wanted) -> Result<Vec<String>, SqlError> {
    let mut sql = process.login.connect(SHORT).await?;
    // A lock of a table that nobody gives up is an error.
    sql.run("SET SESSION lock_wait_timeout = 5", SHORT).await?;
    let declared = &wanted.declared;
    let actual = look(&mut sql).await?;
    let mut problems = Vec::new();
    if member.flags.administrator_password_file.is_some() {
        let admits = admit_import(&mut sql, &member.flags.administrator, declared).await?;
        problems.extend(run(member, process, &mut sql, &admits).await?.map(|why| format!("import: {why}")));
    }
    for (index, database) in declared.databases.iter().enumerate() {
        let what = match declared::database(database) {
            Ok(()) => run(member, process, &mut sql, &converge::for_database(database, &actual)).await?,
            Err(why) => Some(why),
        };
        problems.extend(what.map(|why| format!("databases[{index}]: {why}")));
    }
    let mut kept: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (index, user) in declared.users.iter().enumerate() {
        let what = match declared::account(user, &member.flags.administrator) {
            Err(why) => Some(why),
            Ok(mut account) => {
                if sql.flavor == Flavor::Mysql {
                    // A privilege on tables with versions, which MySQL does not have.
                    for granted in account.grants.values_mut() {
                        granted.remove("DELETE HISTORY");
                    }
                }
                let host = if user.host.is_empty() { "%" } else { &user.host };
                if kept.insert((&user.name, host)) {
                    match wanted.passwords.get(&user.name) {
                        Some(Ok(password)) => match statements(&account, password, &actual, sql.flavor) {
                            Ok(statements) => run(member, process, &mut sql, &statements).await?,
                            Err(why) => Some(why),
                        },
                        Some(Err(why)) => Some((*why).to_owned()),
                        None => Some("it has no password".to_owned()),
                    }
                } else {
                    Some("it is there twice".to_owned())
                }
            }
        };
        problems.extend(what.map(|why| format!("users[{index}]: {why}")));
        // One that is declared wrongly now is not dropped.
        kept.insert((&user.name, if user.host.is_empty() { "%" } else { &user.host }));
    }
    for (name, host) in actual.ours.iter().filter(|(name, host)| !kept.contains(&(name.as_str(), host.as_str()))) {
        let is_protected = name.starts_with("tillerman") || *name == member.flags.administrator;
        if !is_protected {
            let what = run(member, process, &mut sql, &converge::drops(name, host)).await?;
            problems.extend(what.map(|why| format!("an account that is no longer declared: {why}")));
        }
    }
    Ok(problems)
}

/// Lets the administrator replay rows of another database's binary log, as long as an import is declared. For the way back it also reads that
/// of the cluster, and ends connections of applications.
async fn admit_import(sql: &mut Sql, administrator: &str, declared: &Declared) -> Result<Vec<String>, SqlError> {
    let account = format!("'{administrator}'@'%'");
    let query = format!(
        "SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = '{}'",
        account.replace('\'', "''")
    );
    let has: Vec<String> = sql.rows(&query, SHORT).await?.iter().map(RowFields::first).collect();
    let way_back = declared.import && declared.way_back && sql.flavor == Flavor::Mariadb;
    let wanted =
        [(sql.flavor.replays(), declared.import), ("REPLICATION SLAVE", way_back), ("CONNECTION ADMIN", way_back)];
    let statement = |(privilege, wanted): (&str, bool)| match (wanted, has.iter().any(|has| has == privilege)) {
        (true, false) => Some(format!("GRANT {privilege} ON *.* TO {account}")),
        (false, true) => Some(format!("REVOKE {privilege} ON *.* FROM {account}")),
        _ => None,
    };
    Ok(wanted.into_iter().filter_map(statement).collect())
}

/// How far an import is, in the words of `import::record`.
async fn progress(member: &DatabaseMember) -> Option<String> {
    let rows = member
        .asks()
        .await
        .ok()?
        .rows("SELECT LEFT(message, 1000) AS message FROM tillerman.import LIMIT 1", SHORT)
        .await
        .ok()?;
    rows.first().map(|row| row.text("message")).filter(|message| !message.is_empty())
}

/// The statements for an account with a password.
fn statements(
    account: &declared::Account,
    password: &str,
    actual: &Actual,
    flavor: Flavor,
) -> Result<Vec<String>, String> {
    let is = actual.accounts.get(&(account.name.clone(), account.host.clone()));
    let identified = clause(flavor, password, is.and_then(|is| is.identified.as_deref()))?;
    converge::for_account(account, &identified, actual)
}

/// Runs statements one by one, each only while this database is the primary's: nothing may be written after a hand-over. An error of the
/// database is reported by its number.
async fn run(
    member: &DatabaseMember,
    process: &Arc<Process>,
    sql: &mut Sql,
    statements: &[String],
) -> Result<Option<String>, SqlError> {
    for statement in statements {
        // The code that ends this role waits for it.
        let guard = member.declares.lock().await;
        let is_ours = member.facts(open_primary).is_some_and(|now| Arc::ptr_eq(&now, process));
        if !is_ours {
            return Err(SqlError::Lost);
        }
        // It waits as long as nobody acknowledges, and ends with the database.
        let done = tokio::select! { done = sql.run(statement, Duration::MAX) => done, () = process.ended() => Err(SqlError::Lost) };
        drop(guard);
        match done {
            Ok(()) => {}
            Err(SqlError::Server(number)) => return Ok(Some(format!("error {number} of the database"))),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The present state. None of these queries waits for commits.
async fn look(sql: &mut Sql) -> Result<Actual, SqlError> {
    let tables = "SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'tillerman' AND TABLE_NAME = 'account'";
    let mut actual = Actual { table: !sql.rows(tables, SHORT).await?.is_empty(), ..Actual::default() };
    if actual.table {
        let rows = sql.rows("SELECT name, host FROM tillerman.account", SHORT).await?;
        actual.ours = rows.iter().map(|row| (row.text("name"), row.text("host"))).collect();
    }
    let databases = "SELECT SCHEMA_NAME AS name, DEFAULT_CHARACTER_SET_NAME AS charset, DEFAULT_COLLATION_NAME AS collation \
         FROM information_schema.SCHEMATA";
    let rows = sql.rows(databases, SHORT).await?;
    actual.databases =
        rows.iter().map(|row| (row.text("name"), (row.text("charset"), row.text("collation")))).collect();
    let properties = match sql.flavor {
        Flavor::Mariadb => "Priv AS properties",
        Flavor::Mysql => "plugin, authentication_string AS kept, ssl_type, max_user_connections AS connections",
    };
    let accounts = format!(
        "SELECT User AS name, Host AS host, {properties} FROM {} WHERE User NOT LIKE 'tillerman%'",
        sql.flavor.accounts()
    );
    for row in sql.rows(&accounts, SHORT).await? {
        let is = match sql.flavor {
            Flavor::Mariadb => account(&row.text("properties")),
            Flavor::Mysql => account_of_row(&row),
        };
        actual.accounts.insert((row.text("name"), row.text("host")), is);
    }
    // The one place where the database itself has the pattern of an account's grant as it was given.
    let grants = "SELECT d.User AS name, d.Host AS host, p.TABLE_SCHEMA AS pattern, p.PRIVILEGE_TYPE AS privilege \
         FROM mysql.db d JOIN information_schema.SCHEMA_PRIVILEGES p \
         ON p.GRANTEE = CONCAT('\\'', d.User, '\\'@\\'', d.Host, '\\'') AND p.TABLE_SCHEMA = d.Db";
    for row in sql.rows(grants, SHORT).await? {
        // Without a privilege the account may use the database, which is nothing.
        if row.text("privilege") != "USAGE"
            && let Some(is) = actual.accounts.get_mut(&(row.text("name"), row.text("host")))
        {
            is.grants.entry(row.text("pattern")).or_default().insert(row.text("privilege"));
        }
    }
    Ok(actual)
}

/// The properties of an account, as `mysql.global_priv` has them.
fn account(properties: &str) -> Is {
    let properties: serde_json::Value = serde_json::from_str(properties).unwrap_or_default();
    let text = |name: &str| properties[name].as_str().unwrap_or_default().to_owned();
    let tls = properties["ssl_type"].as_u64().unwrap_or_default();
    let is_native = text("plugin") == "mysql_native_password" && properties.get("auth_or").is_none();
    Is {
        identified: Some(text("authentication_string"))
            .filter(|hash| is_native && !hash.is_empty())
            .map(|hash| stored(Flavor::Mariadb, &hash)),
        requires_tls: tls == 1,
        requires_more: tls > 1,
        max_connections: properties["max_user_connections"]
            .as_u64()
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or_default(),
        grants: BTreeMap::new(),
    }
}

/// The properties of an account, as `mysql.user` of MySQL has them.
fn account_of_row(row: &RowFields) -> Is {
    let (kept, tls) = (row.text("kept"), row.text("ssl_type"));
    Is {
        identified: (row.text("plugin") == "caching_sha2_password").then(|| stored(Flavor::Mysql, &kept)),
        requires_tls: tls == "ANY",
        requires_more: tls == "X509" || tls == "SPECIFIED",
        max_connections: row.number("connections").and_then(|count| u32::try_from(count).ok()).unwrap_or_default(),
        grants: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{account, read};
    use crate::converge::Is;

    #[test]
    fn properties_are_read_as_the_database_stores_them() {
        // As 10.11 has them.
        let stored = r#"{"access":0,"version_id":101119,"plugin":"mysql_native_password","authentication_string":"*B6","ssl_type":1,"ssl_cipher":"",
            "x509_issuer":"","x509_subject":"","max_user_connections":5,"password_last_changed":1795781468,"account_locked":true}"#;
        let expected = Is {
            identified: Some("VIA mysql_native_password USING '*B6'".into()),
            requires_tls: true,
            max_connections: 5,
            ..Is::default()
        };
        assert_eq!(account(stored), expected);
        let sockets = r#"{"plugin":"mysql_native_password","authentication_string":"*B6","auth_or":[{},{"plugin":"unix_socket"}],"ssl_type":2}"#;
        assert_eq!(account(sockets), Is { requires_more: true, ..Is::default() });
        assert_eq!(account("no JSON"), Is::default());
    }

    #[test]
    fn passwords_are_files_beside_and_a_name_is_no_path() {
        let folder = std::env::temp_dir().join(format!("tillerman-declared-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("accounts.json"), r#"{"users": [{"name": "a"}, {"name": "b"}, {"name": "../c"}]}"#)
            .unwrap();
        std::fs::write(folder.join("password.a"), "x\n").unwrap();
        let wanted = read(&folder).unwrap();
        assert_eq!(wanted.passwords.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert!(wanted.passwords["a"] == Ok("x".to_owned()) && wanted.passwords["b"].is_err());
        std::fs::write(folder.join("accounts.json"), vec![b' '; (256 << 10) + 1]).unwrap();
        assert!(read(&folder).err().unwrap().contains("larger"));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(read(&folder).is_err());
    }
}

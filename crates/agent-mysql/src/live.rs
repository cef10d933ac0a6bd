//! Settings that change while the database runs: those of `live.cnf` beside the file of settings, which includes it. The database reads them
//! when it starts, and the agent sets them when the file changes. The kubelet replaces the file within two minutes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::flavor::Flavor;
use super::keeper::SHORT;
use super::member::DatabaseMember;
use super::process::Process;
use super::settings::is_own;
use super::sql::SqlError;

/// The name of the file.
const FILE: &str = "live.cnf";
/// How often the file is read.
const READ: Duration = Duration::from_secs(2);
/// After this time a setting that failed is tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// Values of settings, by name. Without a value, a setting is on.
type Settings = BTreeMap<String, Option<String>>;

/// The last action.
struct Done {
    /// The settings of the file.
    wanted: Settings,
    /// Those that the database uses.
    used: Settings,
    process: Arc<Process>,
    at: Instant,
}

/// Applies the changed settings, as long as the agent runs.
pub async fn keep_live(member: Arc<DatabaseMember>) {
    let Some(path) = member.flags.my_cnf.as_ref().map(|path| path.with_file_name(FILE)) else { return };
    let flavor = member.flags.flavor;
    let mut seen = read(&path, flavor);
    let mut last: Option<Done> = None;
    loop {
        let process = member.wait_until(|facts| facts.running.clone().filter(|_| !facts.stopping)).await;
        let wanted = read(&path, flavor);
        // A database that has started may have read the file as it was before.
        let known = last.take().filter(|last| Arc::ptr_eq(&last.process, &process));
        let is_due = known
            .as_ref()
            .is_none_or(|last| last.wanted != wanted || (last.used != wanted && last.at.elapsed() >= AGAIN));
        last = known;
        if is_due {
            let mut used = last.map_or_else(|| seen.clone(), |last| last.used);
            let problems = apply(&process, &mut used, &wanted).await;
            for why in &problems {
                tracing::warn!(why, "a setting is not in use");
            }
            member.change(|facts| facts.unset = problems.into_iter().next());
            last = Some(Done { wanted: wanted.clone(), used, process, at: Instant::now() });
        }
        seen = wanted;
        tokio::time::sleep(READ).await;
    }
}

/// Sets what differs from the settings that the database uses; those that are no longer in the file get their defaults. Returns why some
/// are not in use.
async fn apply(process: &Process, used: &mut Settings, wanted: &Settings) -> Vec<String> {
    let left = used.keys().filter(|name| !wanted.contains_key(*name)).map(|name| (name.clone(), None));
    let changed = wanted.iter().filter(|(name, value)| used.get(*name) != Some(value));
    let changed = changed.map(|(name, value)| (name.clone(), Some(value.clone())));
    let all: Vec<_> = left.chain(changed).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let mut sql = match process.login.connect(SHORT).await {
        Ok(sql) => sql,
        Err(error) => return vec![format!("the settings cannot be changed: {error}")],
    };
    let mut problems = Vec::new();
    for (name, value) in all {
        let text = match &value {
            None => "DEFAULT".to_owned(),
            Some(None) => "ON".to_owned(),
            Some(Some(value)) => literal(value),
        };
        match sql.run(&format!("SET GLOBAL {name} = {text}"), SHORT).await {
            Ok(()) => {
                tracing::info!(name, "a setting is in use");
                match value {
                    Some(value) => drop(used.insert(name, value)),
                    None => drop(used.remove(&name)),
                }
            }
            Err(SqlError::Server(number)) => {
                problems.push(format!("configuration.{name}: the database refuses the value: error {number}"));
            }
            Err(error) => {
                problems.push(format!("configuration.{name}: {error}"));
                break;
            }
        }
    }
    problems
}

/// Reads the file. One that is missing has no settings. Whoever can change the `ConfigMap` cannot weaken the guarantee: a setting that it
/// needs is left out, as an argument of the database overrides it at the start.
fn read(path: &Path, flavor: Flavor) -> Settings {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', '[', ';', '!']));
    let pairs = lines.map(|line| match line.split_once('=') {
        Some((name, value)) => (name.trim().replace('-', "_"), Some(value.trim().to_owned())),
        None => (line.replace('-', "_"), None),
    });
    // Only such names reach a statement.
    pairs.filter(|(name, _)| is_name(name) && !is_own(flavor, name)).collect()
}

/// A value of an option file as a literal of SQL: a number, in which a suffix counts, or a text.
fn literal(value: &str) -> String {
    let quoted = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
    let value = quoted.unwrap_or(value);
    let unit =
        value.bytes().last().and_then(|last| b"kmgtpe".iter().position(|unit| *unit == last.to_ascii_lowercase()));
    let (digits, shift) = match unit {
        Some(unit) => (&value[..value.len() - 1], 10 * (unit + 1)),
        None => (value, 0),
    };
    if let Some(number) = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift)) {
        return number.to_string();
    }
    let is_number =
        value.bytes().all(|byte| byte.is_ascii_digit() || b".-".contains(&byte)) && value.parse::<f64>().is_ok();
    match value.to_ascii_lowercase().as_str() {
        "true" => "1".to_owned(),
        "false" => "0".to_owned(),
        _ if is_number => value.to_owned(),
        _ => format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''")),
    }
}

#[cfg(test)]
mod tests {
    use super::{literal, read};
    use crate::flavor::Flavor;

    #[test]
    fn values_become_literals() {
        for (value, expected) in [
            ("500", "500"),
            ("16M", "16777216"),
            ("1g", "1073741824"),
            ("1.5", "1.5"),
            ("-1", "-1"),
            ("ON", "'ON'"),
            ("true", "1"),
            ("", "''"),
            ("M", "'M'"),
            ("99999999999999999999", "99999999999999999999"),
            ("STRICT_ALL_TABLES,ANSI", "'STRICT_ALL_TABLES,ANSI'"),
            ("\"a b\"", "'a b'"),
            ("x'; DROP TABLE t; --\\", "'x''; DROP TABLE t; --\\\\'"),
        ] {
            assert_eq!(literal(value), expected, "{value}");
        }
    }

    #[test]
    fn only_names_reach_a_statement() {
        let path = std::env::temp_dir().join(format!("tillerman-live-{}", std::process::id()));
        std::fs::write(&path, "[mysqld]\n# a=b\nmax-connections = 7\nlocal_infile\na b=1\na;b=2\n!include x\n")
            .unwrap();
        let expected = [("local_infile".to_owned(), None), ("max_connections".to_owned(), Some("7".to_owned()))];
        assert_eq!(read(&path, Flavor::Mariadb), expected.into());
        for (flavor, lines) in [
            (
                Flavor::Mariadb,
                "SYNC-BINLOG=0\nread_only=0\nrpl_semi_sync_master_timeout=1\ngtid_slave_pos=x\nslave_exec_mode=IDEMPOTENT",
            ),
            (
                Flavor::Mysql,
                "sync_binlog=0\nsuper_read_only=0\nrpl_semi_sync_source_timeout=1\ninnodb_flush_log_at_trx_commit=0",
            ),
        ] {
            std::fs::write(&path, lines).unwrap();
            assert!(read(&path, flavor).is_empty(), "{:?}", read(&path, flavor));
        }
        std::fs::remove_file(&path).unwrap();
        assert!(read(&path, Flavor::Mysql).is_empty());
    }
}

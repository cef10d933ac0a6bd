//! The output about backups.

use std::path::Path;

use serde_json::json;

use crate::backup::inspect::{Contents, Sum};
use crate::backup::record::{Copy, Etcd, Of, Record};
use crate::backup::shelf::{Backup, Condition};
use crate::cli::common::error::CliError;

#[derive(Debug, clap::Args)]
pub(super) struct Output {
    /// How results are printed.
    #[arg(short, long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// A good backup.
pub(super) struct Shown<'a> {
    pub name: &'a str,
    pub record: &'a Record,
}

impl Shown<'_> {
    pub fn json(&self) -> String {
        pretty(&json!({"name": self.name, "record": self.record}))
    }

    /// Writes the report to a file, such as the last words of a container.
    pub fn write_report(&self, path: Option<&Path>) -> Result<(), CliError> {
        let Some(path) = path else { return Ok(()) };
        let written = std::fs::write(path, self.report(jiff::Timestamp::now()));
        written.map_err(|error| CliError(format!("{}: {error}", path.display())))
    }

    /// With the fields of a custom resource's status: those of etcd as coreos' etcd-operator named them (v0.9.4, `BackupStatus`).
    pub fn report(&self, now: jiff::Timestamp) -> String {
        let done = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let status = match &self.record.of {
            Of::Etcd(etcd) => json!({
                "etcdRevision": etcd.revision, "etcdVersion": etcd.etcd_version, "lastSuccessDate": done, "backup": self.name,
            }),
            Of::Copy(copy) => json!({
                "position": copy.position, "databaseVersion": copy.database_version, "lastSuccessDate": done, "backup": self.name,
            }),
            Of::Log(log) => json!({"position": log.writes, "lastSuccessDate": done, "backup": self.name}),
        };
        // In one line, which is also the last one.
        json!({"name": self.name, "record": self.record, "status": status}).to_string() + "\n"
    }
}

impl Output {
    pub fn backup(&self, done: &str, Shown { name, record }: &Shown<'_>) {
        if self.output == Format::Json {
            print!("{}", Shown { name, record }.json());
            return;
        }
        let Record { size, sha256, .. } = record;
        match &record.of {
            Of::Etcd(Etcd { revision, keys, etcd_version, .. }) => println!(
                "{done} {name}: revision {revision}, {keys} keys, {size} bytes, sha256 {sha256}, etcd {etcd_version}"
            ),
            Of::Copy(Copy { position, database_version, member, .. }) => println!(
                "{done} {name}: position {position}, of {member}, {size} bytes, sha256 {sha256}, version {database_version}"
            ),
            Of::Log(log) => println!("{done} {name}: writes {}, {size} bytes, sha256 {sha256}", log.writes),
        }
    }

    pub fn list(&self, backups: &[Backup]) {
        if self.output == Format::Json {
            let all: Vec<_> = backups
                .iter()
                .map(|backup| {
                    let (state, why) = condition(&backup.condition);
                    json!({"name": backup.name, "state": state, "reason": why, "record": backup.record})
                })
                .collect();
            print!("{}", pretty(&json!(all)));
            return;
        }
        let head = ["NAME", "REVISION", "KEYS", "BYTES", "VERSION", "TIME", "STATE"].map(str::to_owned);
        let rows: Vec<_> = std::iter::once(head).chain(backups.iter().map(row)).collect();
        let widths: [_; 7] = std::array::from_fn(|at| rows.iter().map(|row| row[at].len()).max().unwrap_or_default());
        for row in rows {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
            println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
    }

    pub fn status(&self, sum: &Sum, contents: &Contents) {
        let Contents { revision, keys, hash, storage_version } = contents;
        let Sum { size, sha256 } = sum;
        if self.output == Format::Json {
            let all = json!({
                "revision": revision, "keys": keys, "hash": format!("{hash:08x}"), "storageVersion": storage_version,
                "size": size, "sha256": sha256,
            });
            print!("{}", pretty(&all));
            return;
        }
        let version =
            storage_version.as_deref().map(|version| format!(", storage version {version}")).unwrap_or_default();
        println!("revision {revision}, {keys} keys, {size} bytes, hash {hash:08x}, sha256 {sha256}{version}");
    }
}

fn row(backup: &Backup) -> [String; 7] {
    let of = |field: fn(&Record) -> String| backup.record.as_ref().map_or_else(|| "-".into(), field);
    let (state, why) = condition(&backup.condition);
    [
        backup.name.clone(),
        of(|record| record.revision().to_string()),
        of(|record| record.etcd().map_or_else(|| "-".into(), |etcd| etcd.keys.to_string())),
        of(|record| record.size.to_string()),
        of(|record| match &record.of {
            Of::Etcd(etcd) => etcd.etcd_version.clone(),
            Of::Copy(copy) => copy.database_version.clone(),
            Of::Log(_) => "-".into(),
        }),
        of(|record| record.time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        why.map_or_else(|| state.to_owned(), |why| format!("{state}: {why}")),
    ]
}

fn condition(condition: &Condition) -> (&'static str, Option<&str>) {
    match condition {
        Condition::Good => ("good", None),
        Condition::Unfinished => ("unfinished", None),
        Condition::Damaged(why) => ("damaged", Some(why)),
        Condition::Unknown => ("unknown", None),
    }
}

fn pretty(value: &serde_json::Value) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("a value can be written");
    text.push('\n');
    text
}

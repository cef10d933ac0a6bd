//! Backups of etcd, and of databases with one primary and replicas: taken from a member, verified, stored, kept for a time, and restored
//! from.
//!
//! A backup is a snapshot as etcd sends it, or a copy as an agent gives it, and a [`record`] next to it. The record
//! says whether the backup is good. It reports this only after the stored snapshot was read back and equals the data
//! that was sent. A run that ends before that leaves a record that says `unverified`.
//!
//! - [`bolt`](mod@bolt) and [`inspect`]: the content of a snapshot, read from the file.
//! - [`take`](mod@take): asks a member for a snapshot.
//! - [`record`]: the facts about a backup, and its name.
//! - [`place`]: where backups are stored, with `http` and `aws` below it.
//! - [`shelf`]: stores, lists, verifies, fetches and deletes backups.
//! - [`copy`](mod@copy): asks the agents of a database for a copy. [`archive`](mod@archive): stores the writes after
//!   it.
//!   [`chain`]: which of both a restore needs.
//! - [`retain`]: which backups are deleted.
//! - [`restore`]: puts a restored member into place. [`drill`](mod@drill): proves that a backup can be restored.

pub mod archive;
mod aws;
pub mod bolt;
#[cfg(test)]
mod bolt_tests;
pub mod chain;
pub mod copy;
pub mod drill;
mod http;
pub mod inspect;
pub mod place;
pub mod record;
pub mod replace;
pub mod restore;
pub mod retain;
pub mod shelf;
pub mod take;

use std::path::PathBuf;

/// Why something failed. No text holds a password or a key.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// etcd did not answer, or refused.
    #[error("{0}")]
    Etcd(String),
    /// An agent did not answer, or refused.
    #[error("{0}")]
    Agent(String),
    /// The store did not answer, or refused.
    #[error("{0}")]
    Store(String),
    /// A snapshot differs from its record.
    #[error("the snapshot {name} {damage}")]
    Damaged {
        /// The backup or the file.
        name: String,
        /// The fault.
        damage: bolt::Damage,
    },
    /// There is no such backup, or it is not a good one.
    #[error("{0}")]
    NotGood(String),
    /// There is something already.
    #[error("{0}")]
    Exists(String),
    /// A file could not be read or written.
    #[error("{path}: {error}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The program that restores failed.
    #[error("{0}")]
    Restore(String),
    /// The whole took too long.
    #[error("not finished in time")]
    Timeout,
}

impl BackupError {
    /// In one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "Invalid",
            Self::Etcd(_) => "EtcdFailed",
            Self::Agent(_) => "AgentFailed",
            Self::Store(_) => "StoreFailed",
            Self::Damaged { .. } => "SnapshotDamaged",
            Self::NotGood(_) => "NoGoodBackup",
            Self::Exists(_) => "AlreadyExists",
            Self::File { .. } => "FileFailed",
            Self::Restore(_) => "RestoreFailed",
            Self::Timeout => "Timeout",
        }
    }

    /// A retry cannot succeed before something else has changed.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Invalid(_) | Self::Exists(_) | Self::Damaged { .. } | Self::NotGood(_))
    }

    fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, error }
    }

    fn damaged(name: impl Into<String>) -> impl FnOnce(bolt::Damage) -> Self {
        let name = name.into();
        move |damage| Self::Damaged { name, damage }
    }
}

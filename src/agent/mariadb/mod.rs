//! Parts of the agent for MariaDB.
//!
//! - [`gtid`]: GTIDs as positions. [`settings`]: how the database is started. [`accounts`]: who may follow.
//! - [`command`]: the flags.

pub mod accounts;
pub mod command;
pub mod gtid;
pub mod settings;

//! The agent for MariaDB: the first process in the container of the database. It starts the database read-only, and does what the
//! operator orders. Without the operator the database continues as it is.
//!
//! - [`gtid`]: GTIDs as positions. [`settings`]: how the database is started. [`accounts`]: who may follow.
//! - [`command`]: the flags. [`program`]: what the program does with them.
//! - [`member`]: the facts, and the connections to the database. [`facts`], [`measured`]: what the state is made of.
//! - [`process`], [`sql`]: the database. [`keeper`], [`release`], [`refresh`]: what the agent does by itself.
//! - [`orders`], [`roles`]: what it does by order. [`seed`]: copies of the data.

pub mod accounts;
pub mod command;
pub mod create;
pub mod facts;
pub mod gtid;
pub mod keeper;
pub mod measured;
pub mod member;
pub mod orders;
pub mod process;
pub mod program;
pub mod refresh;
pub mod release;
pub mod roles;
pub mod seed;
pub mod settings;
pub mod sql;

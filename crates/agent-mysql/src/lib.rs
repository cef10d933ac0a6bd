//! The agent for MariaDB and MySQL: the first process in the container of the database. It starts the database read-only, and does what the
//! operator orders. Without the operator the database continues as it is.
//!
//! - [`flavor`]: which of the two it is, and in what their statements differ. [`clone`]: copies of MySQL.
//! - [`gtid`], [`sets`]: GTIDs as positions. [`settings`]: how the database is started. [`accounts`]: the members that
//!   can follow;
//!   [`stored_password`]: the stored forms of passwords.
//! - [`command`]: the flags. [`program`]: the program that uses them.
//! - [`member`]: the facts, and the connections to the database. [`facts`], [`measured`]: the parts of the state.
//! - [`process`], [`sql`]: the database. [`keeper`], [`release`], [`hung`]: the actions of the agent without an order.
//! - [`declared`], [`converge`], [`declare`]: databases and accounts of clients. [`renewed`], [`live`]: files that have changed.
//! - [`metrics`]: for Prometheus. [`upgrade`]: data of another version. [`zones`]: time zones. [`scheduler`]: events of clients.
//! - [`orders`], [`roles`]: its actions by order. [`seed`]: copies of the data.
//! - [`events`], [`logs`]: the writes, for the program that stores them. [`restore`], [`relay`]: a new cluster from a
//!   copy that was stored. [`import`]: the data of a running MariaDB.
#![warn(missing_docs)]

pub mod accounts;
pub mod clone;
pub mod command;
pub mod converge;
pub mod create;
pub mod declare;
pub mod declared;
pub mod events;
pub mod facts;
pub mod flavor;
pub mod gtid;
pub mod hung;
pub mod import;
pub mod keeper;
pub mod live;
pub mod logs;
pub mod measured;
pub mod member;
pub mod metrics;
pub mod orders;
pub mod process;
pub mod program;
pub mod relay;
pub mod release;
pub mod renewed;
pub mod restore;
pub mod roles;
pub mod scheduler;
pub mod seed;
pub mod sets;
pub mod settings;
pub mod sql;
pub mod stored_password;
pub mod upgrade;
pub mod zones;

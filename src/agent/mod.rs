//! The agent of a database with one primary and replicas: the contract between the operator and the small program that runs
//! beside the database in each pod (docs/primary.md), and what that program for MariaDB is made of.
//!
//! - [`position`]: how much of the writes a member has.
//! - [`contract`]: the requests and answers.
//! - [`stored`]: what is kept with a copy of the data, and given to who restores it.
//! - [`client`]: asks an agent. [`check`]: whether one keeps to the contract. `server`: the connections of one.
//! - `store`: what an agent keeps beside the data. `tls`: who may order.
//! - `mariadb`: the agent for MariaDB, `tillerman-agent`.

pub mod check;
pub mod client;
pub mod contract;
#[cfg(feature = "mariadb-agent")]
pub mod mariadb;
pub mod position;
#[cfg(feature = "mariadb-agent")]
pub mod server;
#[cfg(feature = "mariadb-agent")]
pub mod store;
pub mod stored;
pub mod tls;

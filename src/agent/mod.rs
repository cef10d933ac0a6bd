//! The agent of a database with one primary and replicas: the contract between the operator and the small program that runs
//! beside the database in each pod (docs/primary.md), and what that program for MariaDB is made of.
//!
//! - [`position`]: how much of the writes a member has.
//! - [`contract`]: the requests and answers.
//! - `store`: what an agent keeps beside the data. `tls`: who may order.
//! - `mariadb`: parts of the agent for MariaDB. There is no program of them yet.

pub mod contract;
#[cfg(feature = "mariadb-agent")]
pub mod mariadb;
pub mod position;
#[cfg(feature = "mariadb-agent")]
pub mod store;
#[cfg(feature = "mariadb-agent")]
pub mod tls;

//! The agent of a database with one primary and replicas: the contract between the operator and the small program that runs
//! beside the database in each pod (docs/design/primary.md), and the parts of that program for MariaDB.
//!
//! - [`position`]: how much of the writes a member has.
//! - [`contract`]: the requests and answers.
//! - [`stored`]: the facts that are kept with a copy of the data, and given to the program that restores it.
//! - [`client`]: asks an agent. [`check`]: whether one keeps to the contract.
//! - [`connections`], [`server`], [`routes`]: the connections of a port, the requests of an agent, and its paths. [`orders`], [`names`]: the orders that it
//!   refuses. [`store`]: the files that it keeps beside the data. [`tls`]: the clients that are allowed to give orders.
#![warn(missing_docs)]

pub mod check;
pub mod client;
pub mod connections;
pub mod contract;
pub mod names;
pub mod orders;
pub mod position;
pub mod routes;
pub mod server;
pub mod store;
pub mod stored;
pub mod tls;

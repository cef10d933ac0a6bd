//! The driver of databases with one primary and replicas. It speaks to an agent in each pod ([`crate::agent::contract`]); it knows
//! no database.
//!
//! - [`state`]: the observed state of a cluster, the latched state, and the actions.
//! - [`client`]: requests to agents. [`refusals`]: the orders that are not repeated yet.
//! - [`document`]: the declarations of a chart about a cluster.
//! - [`driver`]: asks the agents, and carries out decisions. [`report`](mod@report): the report in the status.
//! - [`decide`](mod@decide): the next step: a table of rows, of which the first that applies wins.

pub mod client;
pub mod decide;
#[cfg(test)]
mod decide_tests;
pub mod document;
pub mod driver;
#[cfg(test)]
mod hung_tests;
#[cfg(test)]
mod random_tests;
pub mod refusals;
pub mod report;
pub mod state;
#[cfg(test)]
mod stop_tests;
#[cfg(test)]
mod world_member_tests;
#[cfg(test)]
mod world_tests;

//! The driver of databases with one primary and replicas. It speaks to an agent in each pod ([`crate::agent::contract`]); it knows
//! no database.
//!
//! - [`state`]: the observed state of a cluster, what is latched, and the actions.
//! - [`decide`](mod@decide): the next step: a table of rows, of which the first that applies wins.

pub mod decide;
#[cfg(test)]
mod decide_tests;
pub mod state;
#[cfg(test)]
mod world_tests;

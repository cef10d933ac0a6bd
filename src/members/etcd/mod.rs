//! The driver of etcd: members join as learners, leave before their pods do, and are repaired by leaving and joining again.
//!
//! - [`state`]: the observed state of a cluster, and the actions on it.
//! - [`decide`](mod@decide): the next step: a table of rows, of which the first that applies wins.
//! - [`document`]: the declarations of a chart about a cluster.
//! - [`driver`]: asks the members, and carries out decisions.
//! - [`client`]: one client for each member. `verdict`: the meaning of errors.

#[cfg(test)]
mod begin_tests;
pub mod client;
pub mod decide;
#[cfg(test)]
mod decide_tests;
pub mod document;
pub mod driver;
#[cfg(test)]
mod recovery_tests;
#[cfg(test)]
mod runs_tests;
pub mod state;
#[cfg(test)]
mod upkeep_tests;
mod verdict;
#[cfg(test)]
mod world_tests;

//! The driver of etcd: members join as learners, leave before their pods do, and are repaired by leaving and joining again.
//!
//! - [`state`]: what is seen of a cluster, and what can be done to it.
//! - [`decide`](mod@decide): what is done next: a table of rows, of which the first that fits wins.
//! - [`document`]: what a chart says of a cluster.
//! - [`driver`]: asks the members and carries out what was decided.
//! - [`client`]: one client for each member. `verdict`: what an error means.
//! - [`secret`]: certificates and passwords as Secrets have them.
//! - [`url`]: which ordinal a peer URL belongs to.

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
pub mod secret;
pub mod state;
#[cfg(test)]
mod upkeep_tests;
pub mod url;
mod verdict;
#[cfg(test)]
mod world_tests;

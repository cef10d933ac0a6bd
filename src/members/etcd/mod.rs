//! The driver of etcd: members join as learners, leave before their pods do, and are repaired by leaving and joining again.
//!
//! - [`state`]: what is seen of a cluster, and what can be done to it.
//! - [`decide`](mod@decide): what is done next: a table of rows, of which the first that fits wins.
//! - [`url`]: which ordinal a peer URL belongs to.

#[cfg(test)]
mod begin_tests;
pub mod decide;
#[cfg(test)]
mod decide_tests;
#[cfg(test)]
mod runs_tests;
pub mod state;
pub mod url;
#[cfg(test)]
mod world_tests;

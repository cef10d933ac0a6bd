//! The agent of a database with one primary and replicas: the contract between the operator and the small program that runs
//! beside the database in each pod (docs/primary.md).
//!
//! - [`position`]: how much of the writes a member has.
//! - [`contract`]: the requests and answers.

pub mod contract;
pub mod position;

//! Faults done on purpose, and clients that record what comes of them.
//!
//! - [`plan`]: which faults follow from a seed, a level and what there is. Pure.
//! - [`hand`]: does them, and undoes them; [`machine`]: what only the machine of a pod can do.
//! - [`history`]: what clients asked and were answered, as lines of JSON that a checker of linearizability reads
//!   (`tests/cluster/tools/porcupine`), and what it says of availability.
//! - [`record`]: clients of etcd that write such a history.
//! - [`reach`]: how clients reach the members.
//! - [`random`]: numbers from a seed.
//! - [`run`]: all of it together.

pub mod hand;
pub mod history;
pub mod machine;
pub mod plan;
pub mod random;
pub mod reach;
pub mod record;
pub mod run;

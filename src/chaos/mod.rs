//! Injects faults, while clients record their effects.
//!
//! - [`plan`]: which faults follow from a seed, a level and what there is. Pure.
//! - [`hand`]: injects and undoes them; [`machine`]: those that need the machine of a pod.
//! - [`history`]: the requests of clients and their answers, as lines of JSON that a checker of linearizability reads
//!   (`tests/cluster/tools/porcupine`), and its report about availability.
//! - [`record`]: clients of etcd that write such a history.
//! - [`reach`]: how clients reach the members.
//! - [`random`]: numbers from a seed.
//! - [`run`]: runs all of it.

mod error;
pub mod hand;
pub mod history;
pub mod machine;
pub mod plan;
pub mod random;
pub mod reach;
pub mod record;
pub mod run;

pub use error::ChaosError;

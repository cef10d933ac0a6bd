//! Stateful sets whose members must be told before they come and go: the contract of scale hooks, and the drivers that carry it.
//!
//! What is to be done next follows from what is seen now (the StatefulSet, its pods and claims, and what the application itself
//! says of its members), never from a stored step. So every crash is the same as a pass that ended there.
//!
//! - [`workload`]: what the API server knows of a StatefulSet, and what little only the status of the custom resource remembers.
//! - [`driver`]: what a driver answers: one step at most in each pass.
//! - [`document`]: what a chart says of them.
//! - [`conditions`](mod@conditions): what coreos' etcd-operator told of a cluster.
//! - [`etcd`]: the driver of etcd.
//! - [`jobs`]: the driver that runs Jobs of the chart.
//! - [`drivers`]: drivers that a program brings.
//! - [`progress`]: what the status says of them.
//! - [`substitute`]: what the operator puts into the one apply of the StatefulSet.

pub mod conditions;
pub mod document;
pub mod driver;
pub mod drivers;
pub mod etcd;
pub mod jobs;
pub mod progress;
pub mod substitute;
pub mod workload;

//! The drivers of members, on real processes of etcd. Numbers are those of the faults in the design.

mod check;
mod cluster;
mod disaster;
mod etcd;
mod joining;
mod network;
mod partition;
mod pods;
mod tls;
mod votes;

#[path = "../support/mod.rs"]
mod support;

use support::{signal, writer};

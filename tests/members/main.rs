//! The drivers of members, on real processes of etcd. Numbers of faults (F1, `f1_…`) are those of
//! docs/design/reliability-results.md.

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

//! Faults between the operator and the API server, and of the two themselves, on a control plane of their own
//! (tests/cluster/with.sh): after each of them the end state must be right, with no leftovers. Each test prints how
//! many faults it has done.

mod alone;
mod cluster;
mod etcd;
mod killed;
mod members;
mod operations;
mod primary;
mod proxy;
mod refused;
mod release;
mod rollout;
mod share;

#[path = "../support/mod.rs"]
mod support;

use support::{agents, harness, kubelet, node};

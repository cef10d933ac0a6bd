//! Faults between the operator and the API server, and of the two themselves, on a control plane of their own
//! (tests/cluster/with.sh): after each of them the end state must be right, with no leftovers. Each test prints how
//! many faults it has done.

mod alone;
mod cluster;
mod etcd;
mod killed;
mod kubelet;
mod members;
#[allow(dead_code, reason = "shared with the tests of the operator")]
mod node;
mod operations;
mod proxy;
mod refused;
mod release;
mod share;
#[path = "../members/signal.rs"]
mod signal;

#[allow(dead_code, reason = "shared with the tests of the operator")]
#[path = "../operator/harness.rs"]
mod harness;

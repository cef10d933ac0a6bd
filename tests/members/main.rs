//! The drivers of members, on real processes of etcd. Numbers of faults (F1, `f1_…`) are those of
//! docs/reliability.md.

mod check;
mod cluster;
mod disaster;
mod etcd;
mod joining;
mod network;
mod partition;
mod pods;
mod signal;
mod tls;
mod votes;
mod writer;

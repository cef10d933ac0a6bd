//! The drivers of members, on real processes of etcd. Numbers are those of the faults in the design.

mod cluster;
mod etcd;
mod pods;
mod tls;
mod writer;

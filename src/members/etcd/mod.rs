//! The driver of etcd.

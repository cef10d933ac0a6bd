//! What several test programs use: the operator as a process, the API server, kubelets and pods that are played, clients that write.
//! Each includes it in the same way, and uses a part of it.
#![allow(dead_code, reason = "each test program uses a part")]

#[cfg(feature = "operator")]
pub mod agents;
#[cfg(feature = "operator")]
pub mod api;
pub mod charts;
#[cfg(feature = "operator")]
pub mod database;
#[cfg(feature = "operator")]
pub mod harness;
#[cfg(feature = "operator")]
pub mod kubelet;
#[cfg(feature = "operator")]
pub mod mail;
#[cfg(feature = "operator")]
pub mod node;
#[cfg(feature = "mariadb-agent")]
pub mod rows;
#[cfg(feature = "operator")]
pub mod signal;
#[cfg(feature = "operator")]
pub mod writer;

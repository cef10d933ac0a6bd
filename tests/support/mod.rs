//! What several test programs use: the operator as a process, the API server, kubelets and pods that are played, clients that write.
//! Each includes it in the same way, and uses a part of it.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod agents;
pub mod api;
pub mod browser;
pub mod charts;
pub mod database;
pub mod harness;
pub mod kubelet;
pub mod mail;
pub mod node;
pub mod olm;
pub mod rows;
pub mod signal;
pub mod writer;

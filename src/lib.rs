//! Tillerman turns charts into operators, and renders charts as Helm does.

pub mod chart;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "operator")]
pub mod cluster;
#[cfg(feature = "cli")]
pub mod host;
pub mod kind;
pub mod plan;
#[cfg(feature = "operator")]
pub mod reconcile;
pub mod release;
pub mod render;
#[cfg(feature = "operator")]
pub mod server;
pub mod template;

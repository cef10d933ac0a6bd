//! Tillerman turns charts into operators, and renders charts as Helm does.

pub mod chart;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod host;
pub mod kind;
pub mod render;
pub mod template;

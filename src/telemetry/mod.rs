//! The reports of the operator about itself: metrics, health, and the spans of traces. The module `server` serves
//! metrics and health.

pub mod collect;
pub mod health;
pub mod metrics;
pub mod spans;

//! What the operator says of itself: metrics, health, and the spans that traces are made of. It serves nothing: that is `server`.

pub mod collect;
pub mod health;
pub mod metrics;
pub mod spans;

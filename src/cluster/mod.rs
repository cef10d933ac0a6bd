//! Everything that talks to the API server. It knows nothing of charts.
//!
//! [`client`] sends requests and says what went wrong, [`discovery`] knows which kinds there are, [`cache`] holds what the
//! watches of [`watch`] saw, [`readiness`] judges objects, [`events`] informs people, [`lease`] elects a leader and lets
//! nobody else write.

pub mod cache;
pub mod chunks;
pub mod client;
pub mod cr;
pub mod discovery;
pub mod error;
pub mod events;
mod gone;
pub mod lease;
pub mod progress;
pub mod readiness;
pub mod sources;
pub mod watch;

//! Everything that communicates with the API server. It does not know about charts.
//!
//! [`client`] sends requests and explains errors, [`discovery`] knows the served kinds, [`cache`] holds what the
//! watches of [`watch`] observed, [`readiness`] judges objects, [`events`] informs people, and [`lease`] elects a
//! leader and forbids writes by others.

pub mod access;
pub mod cache;
pub mod chunks;
pub mod client;
pub mod cr;
pub mod discovery;
pub mod error;
pub mod events;
pub mod forbidden;
mod gone;
pub mod identity;
pub mod lease;
pub mod progress;
pub mod readiness;
pub mod sources;
mod transport;
pub mod watch;

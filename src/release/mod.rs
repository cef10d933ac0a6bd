//! The record of a release and its history, in Helm's format, and the digests that show whether anything changed.
//!
//! Everything here is a pure function of data: no client, no clock.

pub mod asleep;
pub mod changes;
pub mod chunks;
pub mod compare;
pub mod digest;
pub mod document;
pub mod fields;
pub mod hook_run;
pub mod inventory;
pub mod kept_chart;
pub mod live;
pub mod lookups;
pub mod managers;
pub mod owned;
pub mod owner;
pub mod packed;
pub mod record;
pub mod secret;
pub mod status_fields;

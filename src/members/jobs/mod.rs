//! `driver: jobs`: the chart's own Jobs are run before and after members come and go. The Jobs themselves show what has run,
//! which stay until the next run of the same hook for the same ordinal.

pub mod decide;
pub mod job;

pub use decide::{Action, Observed, View, before_deletion, decide};

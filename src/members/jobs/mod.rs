//! `driver: jobs`: runs the chart's own Jobs before and after members are added and removed. The Jobs themselves show
//! what has run; they stay until the next run of the same hook for the same ordinal.

pub mod decide;
pub mod driver;
pub mod job;

pub use decide::{JobsAction, JobsLatch, JobsStep, ObservedJobs, View, before_deletion, decide};

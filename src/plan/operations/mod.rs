//! Operations, also called day two: actions that a chart offers on its release, such as a backup. They are hooks with the name
//! `operation/NAME`. An annotation of the custom resource or a schedule starts them.
//!
//! The status says which operation runs and how each went. The objects show how far it is. Time decides only schedules
//! and timeouts, so every crash is the same as a pass that ended there.
//!
//! - [`document`]: a chart's description of them.
//! - [`state`]: the facts that the status keeps.
//! - [`begin`]: whether one begins, and which.
//! - [`run`]: the objects of the one that runs.
//! - [`next`](mod@next): the next step of it.
//! - [`status`](mod@status): the text of the status.

pub mod begin;
pub mod document;
pub mod next;
pub mod run;
pub mod state;
pub mod status;

/// The operation that a request asks for.
pub fn requested(request: &str) -> &str {
    request.split_once('@').map_or(request, |(name, _)| name)
}

//! The effect of a change on many custom resources: two renderings of each are compared, and equal changes are shown once.
//!
//! [`compare`] finds the objects and [`fields`] in which two renderings differ, and leaves out what differs by chance. [`effect`] decides
//! what a change does to a running release. [`demands`] compares a spec with the values that a chart knows and takes. [`findings`]
//! makes entries of all of it, and [`groups`] joins the equal ones. All of it is pure; `cli/fleet` reads, renders and prints.

pub mod compare;
pub mod demands;
pub mod effect;
pub mod fields;
pub mod findings;
pub mod groups;
pub mod immutable_fields;
pub mod placeholders;

//! One pass over one release, step by step, and what surrounds it: the queue, the workers, the watches.
//!
//! A pass never waits: it does what can be done now, says in the status what it waits for, and ends. A watch event or a
//! deadline starts the next one.

mod apply;
mod blocking;
pub mod charts;
mod context;
pub mod controller;
mod error;
mod members;
mod memory;
mod notify;
mod observe;
mod operations;
pub mod panics;
pub mod pass;
pub mod queue;
mod render;
mod renderer;
mod report;
pub mod scope;
mod shared;
pub mod tasks;
mod trust;
mod watch;

//! Reconciles one release per pass, step by step, and runs what surrounds the passes: the queue, the workers, the
//! watches.
//!
//! A pass never waits. It does what it can do now, writes into the status what it waits for, and ends. A watch event or
//! a deadline starts the next pass.

mod address;
mod apply;
mod blocking;
pub mod charts;
mod context;
pub mod controller;
pub mod definitions;
mod error;
pub mod history;
pub mod journal;
mod kinds;
mod latches;
mod members;
mod memory;
pub mod notices;
mod notify;
mod observe;
mod observed;
pub mod offline;
mod operations;
pub mod panics;
pub mod pass;
pub mod preview;
pub mod queue;
mod records;
mod render;
mod renderer;
mod report;
mod rollout_state;
mod rollouts;
pub mod scope;
mod shared;
pub mod tasks;
mod trust;
pub mod value_layers;
mod watch;

pub use render::draw::LIMITS as RENDERING;

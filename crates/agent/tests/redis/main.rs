//! `examples/redis-agent`, on real processes of Redis, each member on an address of its own: the contract knows no database. The orders
//! are those that the operator gives (docs/design/primary.md). `cargo build --example redis-agent` builds the program before.

mod cluster;
mod moves;
#[path = "../../examples/redis-agent/streams.rs"]
#[allow(dead_code, reason = "its own tests use a part")]
mod streams;
mod writers;

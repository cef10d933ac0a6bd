//! Fuzzing of what reads strangers' input: [`entry`] has one function for each kind of input, which cargo-fuzz's
//! targets and the ordinary test `tests/fuzz.rs` call; `diff` compares renderings with Helm's.

pub mod chart;
pub mod entry;
pub mod random;
pub mod template;
pub mod vary;
pub mod whole;
mod words;

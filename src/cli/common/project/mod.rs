//! A project of an operator in the working directory.

pub mod api;
mod fetched;
pub mod generate;
pub mod written;

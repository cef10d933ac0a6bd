//! The functions that Helm offers to templates, one file per family.
#![allow(missing_docs)]
use super::function::Function;
pub mod glob;
pub mod duration;
pub mod json;
pub mod layout;
pub mod number;
pub mod text;
pub fn all() -> impl Iterator<Item = &'static Function> { [].into_iter() }

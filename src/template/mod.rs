//! Text engines: Go templates as Helm runs them, and minijinja.

pub(crate) mod budget;
pub mod function;
pub mod functions;
pub mod go;
pub(crate) mod items;
pub mod jinja;
pub(crate) mod stack;
pub mod trace;
pub(crate) mod unicode;
pub mod value;
pub mod version;
pub mod yaml;

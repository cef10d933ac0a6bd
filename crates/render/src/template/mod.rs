//! Text engines: Go templates as Helm runs them, and minijinja.

pub mod budget;
pub mod function;
pub mod functions;
pub mod go;
pub mod items;
pub mod jinja;
pub mod stack;
pub mod trace;
pub mod unicode;
pub mod value;
pub mod version;
pub mod yaml;

//! Text engines: Go templates as Helm runs them, and minijinja.

pub mod budget;
pub mod function;
pub mod functions;
pub mod go;
pub mod items;
#[cfg(feature = "minijinja")]
pub mod jinja;
#[cfg(not(feature = "minijinja"))]
#[path = "jinja_absent.rs"]
pub mod jinja;
pub mod jinja_error;
pub mod stack;
pub mod trace;
pub mod unicode;
pub mod value;
pub mod version;
pub mod yaml;

//! Go's `text/template` with Helm's functions `include`, `tpl`, `required`, `fail` and `lookup`.
//!
//! A [`TemplateSet`] holds parsed templates; it is immutable afterwards, may be shared between threads, and is
//! executed any number of times by [`Renderer`]s. One renderer belongs to one rendering of one chart: it counts
//! nested includes and remembers what `tpl` has parsed.
//!
//! ```
//! use tillerman_render::template::function::{Context, FnResult, Host};
//! use tillerman_render::template::go::{Functions, Limits, Renderer, TemplateSet};
//! use tillerman_render::template::value::{Str, Value};
//! # struct Offline;
//! # impl Host for Offline {
//! #     fn random(&self, buffer: &mut [u8]) { buffer.fill(0) }
//! #     fn now(&self) -> i128 { 0 }
//! #     fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> FnResult { Ok(Value::map([])) }
//! #     fn resolve(&self, _: &str) -> String { String::new() }
//! # }
//! let mut set = TemplateSet::new(Functions::new([]));
//! set.parse("web/templates/_helpers.tpl", r#"{{ define "web.name" }}{{ .name }}-web{{ end }}"#)?;
//! set.parse("web/templates/service.yaml", r#"name: {{ include "web.name" . }}"#)?;
//!
//! let context = Context { host: std::rc::Rc::new(Offline) };
//! let mut renderer = Renderer::new(&set, context, Limits::default());
//! let root = Value::map([(Str::from("name"), Value::from("shop"))]);
//! assert_eq!(renderer.render("web/templates/service.yaml", root)?, b"name: shop-web");
//! # Ok::<(), tillerman_render::template::go::Error>(())
//! ```
//!
//! # Stack
//! Templates may include each other 1,000 deep, on a thread with a stack of any size: what nests deeper than the
//! thread's stack allows continues on another stack, of at most 256 MiB in all.

mod ast;
mod builtins;
mod call;
pub mod documents;
mod error;
mod exec;
mod extent;
pub mod fmt;
pub mod kinds;
#[cfg(test)]
mod kinds_tests;
mod lex;
mod missing;
pub mod number;
mod origin;
mod parse;
mod printer;
pub mod quote;
mod render;
#[cfg(test)]
mod tests;
pub mod usage;
pub mod values;

pub use super::budget::Limits;
pub use builtins::{Functions, truth};
pub use error::{Error, unmarked};
pub use origin::Origins;
pub use render::{Renderer, TemplateSet};

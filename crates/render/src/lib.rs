#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

#[doc(hidden)]
pub mod chart;
mod library;
#[doc(hidden)]
pub mod render;
#[doc(hidden)]
pub mod template;

pub use chart::values::ValuesError;
pub use chart::{Chart, ChartLimits, Dependency, File, LoadError, Metadata, SchemaDocument, SchemaDocuments, Values};
pub use library::{Renderer, load, load_archive, values};
pub use render::{Capabilities, Diagnostic, Explanation, Hook, Limits, Manifest, Options, Release, Rendered, Stop};
pub use template::function::{Context, FnError, FnResult, Function, Host, Param};
pub use template::value::Value;

//! The functions that Helm offers to templates, one file per family: those of sprig 3.3.0 without `env` and
//! `expandenv`, and Helm 4.3.1's own. The engine brings `include`, `tpl`, `required`, `fail`, `lookup` and Go's.
#![allow(clippy::unnecessary_wraps, reason = "every function has the signature that `Function::run` asks for")]

pub mod address;
mod args;
mod case;
mod convert;
mod crypto;
mod date;
mod decimal;
mod defaults;
pub mod duration;
mod durations;
mod encoding;
pub mod glob;
mod hash;
pub mod json;
pub mod layout;
mod lists;
mod maps;
mod math;
mod merge;
pub mod number;
pub mod path;
mod random;
pub mod re2;
mod reflect;
mod regexp;
mod semver;
mod strings;
pub mod text;
mod time;
mod toml;
mod toml_lex;
mod toml_read;
mod toml_scalar;
pub mod url;

use super::function::{FnError, FnResult, Function, Param};
use super::go::Functions;
use super::version::VersionError;
use super::yaml::{EmitError, YamlError};
use std::sync::{Arc, LazyLock};

/// The text of each of these errors is the message of the function that fails with it.
macro_rules! messages {
    ($($error:ty),+ $(,)?) => {$(
        impl From<$error> for FnError {
            fn from(error: $error) -> Self {
                Self::Message(error.to_string())
            }
        }
    )+};
}
messages!(
    duration::DurationError,
    encoding::Base64Error,
    EmitError,
    json::JsonError,
    layout::TimeError,
    toml::TomlError,
    VersionError,
    YamlError,
);

/// All functions.
pub fn all() -> impl Iterator<Item = &'static Function> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// All functions, and those of the engine, for a set of templates.
pub fn table() -> Arc<Functions> {
    static TABLE: LazyLock<Arc<Functions>> = LazyLock::new(|| Arc::new(Functions::new(all())));
    Arc::clone(&TABLE)
}

static FAMILIES: [&[Function]; 18] = [
    case::FUNCTIONS,
    convert::FUNCTIONS,
    crypto::FUNCTIONS,
    date::FUNCTIONS,
    defaults::FUNCTIONS,
    durations::FUNCTIONS,
    encoding::FUNCTIONS,
    hash::FUNCTIONS,
    lists::FUNCTIONS,
    maps::FUNCTIONS,
    math::FUNCTIONS,
    path::FUNCTIONS,
    random::FUNCTIONS,
    reflect::FUNCTIONS,
    regexp::FUNCTIONS,
    semver::FUNCTIONS,
    strings::FUNCTIONS,
    url::FUNCTIONS,
];

type Run = fn(&super::function::Context, &[super::value::Value]) -> FnResult;

/// A function with a fixed number of parameters.
const fn fixed(name: &'static str, params: &'static [Param], run: Run) -> Function {
    Function { name, params, variadic: false, run }
}

/// A function whose last parameter may be given any number of times.
const fn variadic(name: &'static str, params: &'static [Param], run: Run) -> Function {
    Function { name, params, variadic: true, run }
}

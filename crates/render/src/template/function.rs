//! A template function has a name, the Go types of its parameters, and a Rust function.
//!
//! The engine checks arguments against the parameters, as Go's `text/template` does with reflection, before it
//! calls the function; so a function can rely on the types that it declares.

use super::value::Value;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// The Go type of a parameter.
///
/// Where the Go type is a map or slice (`Map`, `List`, `Strings`, `StringMap`), a template may pass the untyped `nil`
/// or a pipeline without a value; the function then gets [`Value::Nil`], which is Go's nil map or slice: empty to
/// read, and a panic (`assignment to entry in nil map`) to write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    /// `interface {}`: takes everything, nil too.
    Any,
    /// `reflect.Value`: as `Any`, but keeps apart what `text/template`'s own functions keep apart.
    Reflect,
    /// `string`
    Str,
    /// `int`
    Int,
    /// `int64`
    Int64,
    /// `float64`
    Float,
    /// `bool`
    Bool,
    /// `map[string]interface {}`
    Map,
    /// `[]interface {}`
    List,
    /// `[]string`
    Strings,
    /// `map[string]string`
    StringMap,
    /// `uint32` and other types that only objects have; the string is the Go type's name for error messages.
    Named(&'static str),
}

/// Why a function failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FnError {
    /// An error the function returned (or a Go panic it would have raised): `error calling NAME: MESSAGE`.
    #[error("{0}")]
    Message(String),
    /// An error of a nested execution (`include`, `tpl`), whose text is already complete.
    #[error("{0}")]
    Nested(String),
}
impl From<&str> for FnError {
    fn from(s: &str) -> Self {
        Self::Message(s.into())
    }
}
impl From<String> for FnError {
    fn from(s: String) -> Self {
        Self::Message(s)
    }
}

/// The result of a function.
pub type FnResult = Result<Value, FnError>;

/// The requests of functions to the outside. Rendering itself has no clock, randomness, network or cluster.
pub trait Host {
    /// Fills the buffer with random bytes (`randAlphaNum`, `uuidv4`, `genCA`).
    fn random(&self, buffer: &mut [u8]);
    /// Nanoseconds since the Unix epoch (`now`).
    fn now(&self) -> i128;
    /// `lookup apiVersion kind namespace name`; an empty map offline.
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> FnResult;
    /// `getHostByName`; the empty string unless DNS is enabled.
    fn resolve(&self, name: &str) -> String;
    /// Where RSA keys are kept for all renderings, for those whose secrets nobody will use: making one takes up to a second. By default,
    /// each call of a template makes a key.
    fn kept_keys(&self) -> Option<&KeptKeys> {
        None
    }
}

/// RSA keys in the format of PKCS #1, by their bits.
pub type KeptKeys = Mutex<BTreeMap<usize, Vec<u8>>>;

/// A host that threads may share, and that functions may hold during a rendering.
pub type SharedHost = Arc<dyn Host + Send + Sync>;

impl Host for SharedHost {
    fn random(&self, buffer: &mut [u8]) {
        (**self).random(buffer);
    }
    fn now(&self) -> i128 {
        (**self).now()
    }
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> FnResult {
        (**self).lookup(api_version, kind, namespace, name)
    }
    fn resolve(&self, name: &str) -> String {
        (**self).resolve(name)
    }
    fn kept_keys(&self) -> Option<&KeptKeys> {
        (**self).kept_keys()
    }
}

/// The data that is passed to every function.
#[derive(Clone)]
pub struct Context {
    /// The surroundings of this rendering.
    pub host: Rc<dyn Host>,
}

/// A template function.
pub struct Function {
    /// The name in templates.
    pub name: &'static str,
    /// The types of its parameters; of a variadic function the last one may be given any number of times.
    pub params: &'static [Param],
    /// Whether the last parameter is variadic.
    pub variadic: bool,
    /// The implementation; the engine has checked number and types of the arguments.
    pub run: fn(&Context, &[Value]) -> FnResult,
}

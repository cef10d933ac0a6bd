//! `semver` and `semverCompare`.

use super::args::{bytes, string};
use super::fixed;
use crate::template::function::{Context, FnError, FnResult, Function, Param};
use crate::template::go::quote::quoted;
use crate::template::value::{IntType, Kind, List, Object, Str, Value};
use crate::template::version::{Constraints, Version};
use std::any::Any;
use std::cmp::Ordering;
use std::rc::Rc;

use Param::Str as S;

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[fixed("semver", &[S], semver), fixed("semverCompare", &[S, S], compare)];

fn parse(text: &str) -> Result<Version, FnError> {
    Ok(Version::parse(text)?)
}

fn semver(_: &Context, args: &[Value]) -> FnResult {
    Ok(object(parse(&string(args, 0))?, true))
}

fn compare(_: &Context, args: &[Value]) -> FnResult {
    let Ok(text) = std::str::from_utf8(bytes(args, 0)) else {
        return Err(format!("improper constraint: {}", quoted(bytes(args, 0))).into());
    };
    let constraints = Constraints::parse(text)?;
    Ok(constraints.check(&parse(&string(args, 1))?).into())
}

/// A version as Go's templates see it: `*semver.Version`, or the struct that some methods return.
struct GoVersion {
    version: Version,
    pointer: bool,
}

fn object(version: Version, pointer: bool) -> Value {
    Value::Object(Rc::new(GoVersion { version, pointer }))
}

const POINTER: &[Param] = &[Param::Named("*semver.Version")];

/// The version of a checked argument.
fn version_of(value: Option<&Value>) -> Option<&Version> {
    match value {
        Some(Value::Object(object)) => object.as_any().downcast_ref::<GoVersion>().map(|v| &v.version),
        _ => None,
    }
}

impl GoVersion {
    /// `IncMajor` and its siblings keep the `v` of the original text.
    fn next(&self, change: impl FnOnce(&mut Version)) -> Value {
        let mut next = self.version.clone();
        change(&mut next);
        let prefix = if self.version.original.starts_with('v') { "v" } else { "" };
        next.original = format!("{prefix}{next}");
        object(next, false)
    }

    fn increment(&self, name: &str) -> FnResult {
        let v = &self.version;
        let step = |n: u64, part: &str| {
            n.checked_add(1).ok_or_else(|| FnError::from(format!("{part} version increment would overflow uint64")))
        };
        let (major, minor, patch) = match name {
            "IncMajor" => (step(v.major, "major")?, 0, 0),
            "IncMinor" => (v.major, step(v.minor, "minor")?, 0),
            _ if v.prerelease.is_empty() => (v.major, v.minor, step(v.patch, "patch")?),
            _ => (v.major, v.minor, v.patch),
        };
        Ok(self.next(|next| {
            (next.major, next.minor, next.patch) = (major, minor, patch);
            next.prerelease.clear();
            next.metadata.clear();
        }))
    }
}

impl Object for GoVersion {
    fn type_name(&self) -> &'static str {
        if self.pointer { "*semver.Version" } else { "semver.Version" }
    }
    fn kind(&self) -> Kind {
        if self.pointer { Kind::Ptr } else { Kind::Struct }
    }
    fn field(&self, _: &str) -> Option<Value> {
        None
    }
    fn fields(&self) -> Vec<Str> {
        Vec::new()
    }
    /// All its fields are unexported.
    fn copied(&self) -> Option<Value> {
        Some(Value::Object(Rc::new(Self { version: Version::default(), ..*self })))
    }
    fn method(&self, name: &str) -> Option<&'static [Param]> {
        match name {
            "Major" | "Minor" | "Patch" | "Prerelease" | "Metadata" | "Original" | "String" | "IncMajor"
            | "IncMinor" | "IncPatch" | "MarshalJSON" | "MarshalText" | "Value" => Some(&[]),
            "SetPrerelease" | "SetMetadata" => Some(&[S]),
            "Compare" | "Equal" | "LessThan" | "LessThanEqual" | "GreaterThan" | "GreaterThanEqual" => Some(POINTER),
            _ => None,
        }
    }
    fn call(&self, name: &str, args: &[Value]) -> FnResult {
        let v = &self.version;
        let uint = |n: u64| Value::Int(IntType::Uint64, n.cast_signed());
        let bytes = |text: String| Value::List(List::of_bytes(text));
        Ok(match name {
            "Major" => uint(v.major),
            "Minor" => uint(v.minor),
            "Patch" => uint(v.patch),
            "Prerelease" => v.prerelease.as_str().into(),
            "Metadata" => v.metadata.as_str().into(),
            "Original" => v.original.as_str().into(),
            "String" | "Value" => v.to_string().into(),
            "MarshalJSON" => bytes(format!("\"{v}\"")),
            "MarshalText" => bytes(v.to_string()),
            "IncMajor" | "IncMinor" | "IncPatch" => return self.increment(name),
            "SetPrerelease" => {
                let text = string(args, 0).into_owned();
                let checked = format!("0.0.0-{text}");
                if !text.is_empty() {
                    Version::parse_strict(&checked)?;
                }
                self.next(|next| next.prerelease = text)
            }
            "SetMetadata" => {
                let text = string(args, 0).into_owned();
                if !text.is_empty() {
                    Version::parse_strict(&format!("0.0.0+{text}"))?;
                }
                self.next(|next| next.metadata = text)
            }
            _ => {
                let Some(other) = version_of(args.first()) else { return Err(super::args::NIL_POINTER.into()) };
                let order = v.cmp(other);
                match name {
                    "Compare" => Value::int(order as i64),
                    "Equal" => (order == Ordering::Equal).into(),
                    "LessThan" => order.is_lt().into(),
                    "LessThanEqual" => order.is_le().into(),
                    "GreaterThan" => order.is_gt().into(),
                    "GreaterThanEqual" => order.is_ge().into(),
                    _ => return Err("no such method".into()),
                }
            }
        })
    }
    fn display(&self) -> Option<String> {
        Some(self.version.to_string())
    }
    fn shown(&self) -> Vec<(Str, Value)> {
        let v = &self.version;
        let uint = |n: u64| Value::Int(IntType::Uint64, n.cast_signed());
        vec![
            ("major".into(), uint(v.major)),
            ("minor".into(), uint(v.minor)),
            ("patch".into(), uint(v.patch)),
            ("pre".into(), v.prerelease.as_str().into()),
            ("metadata".into(), v.metadata.as_str().into()),
            ("original".into(), v.original.as_str().into()),
        ]
    }
    fn json(&self) -> Value {
        self.version.to_string().into()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

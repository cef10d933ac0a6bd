//! Helm 4.3's helpers for durations: numbers are seconds, texts are Go's durations or seconds.
#![expect(clippy::cast_precision_loss, reason = "Go's conversions between number types round in the same way")]

use super::args::any;
use super::text::{self, float, quoted};
use super::{duration, fixed, number};
use crate::template::function::{Context, FnError, FnResult, Function, Param};
use crate::template::go::fmt::{self, type_name};
use crate::template::value::{IntType, Value};

use Param::Any;

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[
    fixed("mustToDuration", &[Any], |_, a| Ok(nanos(as_duration(any(a, 0))?))),
    fixed("durationSeconds", &[Any], |_, a| Ok(in_unit(a, 1_000_000_000).into())),
    fixed("durationMinutes", &[Any], |_, a| Ok(in_unit(a, 60_000_000_000).into())),
    fixed("durationHours", &[Any], |_, a| Ok(in_unit(a, 3_600_000_000_000).into())),
    fixed("durationDays", &[Any], |_, a| Ok((in_unit(a, 3_600_000_000_000) / 24.0).into())),
    fixed("durationWeeks", &[Any], |_, a| Ok((in_unit(a, 3_600_000_000_000) / 24.0 / 7.0).into())),
    fixed("durationMilliseconds", &[Any], |_, a| Ok(whole(a, 1_000_000))),
    fixed("durationMicroseconds", &[Any], |_, a| Ok(whole(a, 1_000))),
    fixed("durationNanoseconds", &[Any], |_, a| Ok(whole(a, 1))),
    fixed("durationRoundTo", &[Any, Any], |c, a| to_multiple(c, a, fmt::round_duration)),
    fixed("durationTruncateTo", &[Any, Any], |c, a| to_multiple(c, a, |d, m| d - d % m)),
];

const SECOND: i64 = 1_000_000_000;

/// A `time.Duration`.
pub fn nanos(n: i64) -> Value {
    Value::Int(IntType::Duration, n)
}

/// Go keeps whole units and the rest apart before it adds them.
fn in_unit(args: &[Value], unit: i64) -> f64 {
    let d = as_duration(any(args, 0)).unwrap_or(0);
    (d / unit) as f64 + (d % unit) as f64 / unit as f64
}

fn whole(args: &[Value], unit: i64) -> Value {
    Value::Int(IntType::Int64, as_duration(any(args, 0)).unwrap_or(0) / unit)
}

fn to_multiple(_: &Context, args: &[Value], op: fn(i64, i64) -> i64) -> FnResult {
    let Ok(d) = as_duration(any(args, 0)) else { return Ok(nanos(0)) };
    Ok(nanos(match as_duration(any(args, 1)) {
        Ok(multiple) if multiple > 0 => op(d, multiple),
        _ => d,
    }))
}

fn as_duration(value: &Value) -> Result<i64, FnError> {
    match value {
        Value::Int(IntType::Duration, n) => Ok(*n),
        Value::Int(IntType::Uint | IntType::Uint64, n) if *n < 0 => {
            Err(format!("duration seconds overflow: {}", n.cast_unsigned()).into())
        }
        Value::Int(_, n) => n.checked_mul(SECOND).ok_or_else(|| format!("duration seconds overflow: {n}").into()),
        Value::Float(f) => from_seconds(*f),
        Value::Nil => Err("invalid duration".into()),
        Value::Str(s) => {
            let text = text::escaped(s.bytes());
            let trimmed = text.trim();
            if trimmed.is_empty() {
                return Err("empty duration".into());
            }
            match (duration::parse(trimmed), number::parse_float(trimmed)) {
                (Ok(n), _) => Ok(n),
                (_, Some(f)) => from_seconds(f),
                _ => Err(format!("could not parse duration {}", quoted(&text)).into()),
            }
        }
        other => Err(format!("unsupported duration type {}", type_name(other)).into()),
    }
}

fn from_seconds(seconds: f64) -> Result<i64, FnError> {
    if !seconds.is_finite() {
        return Err(format!("invalid duration seconds: {}", float(seconds)).into());
    }
    let limit = i64::MAX as f64;
    if seconds.abs() > limit / SECOND as f64 {
        return Err(format!("duration seconds overflow: {}", float(seconds)).into());
    }
    let n = seconds * SECOND as f64;
    if n.abs() > limit {
        return Err(format!("duration nanoseconds overflow: {}", float(n)).into());
    }
    Ok(number::float_to_int(n))
}

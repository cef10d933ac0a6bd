//! Dates. The local zone is UTC: what Helm prints must not depend on where it runs.

use super::args::{any, bytes, string};
use super::time::{Time, time_of};
use super::{duration, fixed, layout, text};
use crate::template::function::{Context, FnResult, Function, Param};
use crate::template::go::fmt;
use crate::template::value::{IntType, Value};

use Param::{Any, Named, Str as S};

const TIME: Param = Named("time.Time");

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[
    fixed("now", &[], |c, _| Ok(Time::from_nanos(c.host.now()).value())),
    fixed("date", &[S, Any], |c, a| Ok(formatted(c, bytes(a, 0), any(a, 1), "Local"))),
    fixed("dateInZone", &[S, Any, S], |c, a| Ok(formatted(c, bytes(a, 0), any(a, 1), &string(a, 2)))),
    fixed("date_in_zone", &[S, Any, S], |c, a| Ok(formatted(c, bytes(a, 0), any(a, 1), &string(a, 2)))),
    fixed("htmlDate", &[Any], |c, a| Ok(formatted(c, HTML, any(a, 0), "Local"))),
    fixed("htmlDateInZone", &[Any, S], |c, a| Ok(formatted(c, HTML, any(a, 0), &string(a, 1)))),
    fixed("dateModify", &[S, TIME], |_, a| Ok(modified(a).unwrap_or_else(|_| any(a, 1).clone()))),
    fixed("date_modify", &[S, TIME], |_, a| Ok(modified(a).unwrap_or_else(|_| any(a, 1).clone()))),
    fixed("mustDateModify", &[S, TIME], |_, a| modified(a)),
    fixed("must_date_modify", &[S, TIME], |_, a| modified(a)),
    fixed("ago", &[Any], ago),
    fixed("duration", &[Any], |_, a| Ok(fmt::duration(seconds(any(a, 0)).wrapping_mul(1_000_000_000)).into())),
    fixed("durationRound", &[Any], |c, a| Ok(rounded(c, any(a, 0)).into())),
    fixed("toDate", &[S, S], |_, a| {
        Ok(layout::parse(bytes(a, 0), bytes(a, 1)).map_or_else(|_| Time::zero(), Time).value())
    }),
    fixed("mustToDate", &[S, S], |_, a| Ok(Time(layout::parse(bytes(a, 0), bytes(a, 1))?).value())),
    fixed("unixEpoch", &[TIME], |_, a| Ok(time_of(a.first()).map_or(0, |t| t.0.unix()).to_string().into())),
];

const HTML: &[u8] = b"2006-01-02";

/// The argument as sprig converts it to a time; anything else is the present time.
fn moment(context: &Context, value: &Value) -> Time {
    match value {
        Value::Int(IntType::Int64 | IntType::Int | IntType::Int32, seconds) => Time::from_unix(*seconds, 0),
        other => time_of(Some(other)).cloned().unwrap_or_else(|| Time::from_nanos(context.host.now())),
    }
}

fn formatted(context: &Context, layout: &[u8], value: &Value, zone: &str) -> Value {
    let moment = moment(context, value);
    let moment = moment.in_zone(zone).unwrap_or_else(|| Time::from_unix(moment.0.unix(), moment.0.nanos));
    Value::str(layout::format_bytes(layout, &moment.0))
}

fn modified(args: &[Value]) -> FnResult {
    let change = duration::parse(&text::escaped(bytes(args, 0)))?;
    Ok(time_of(args.get(1)).map_or_else(Time::zero, |t| t.plus(change)).value())
}

fn ago(context: &Context, args: &[Value]) -> FnResult {
    let then = match any(args, 0) {
        // sprig forgot int32 here.
        Value::Int(IntType::Int32, _) => Time::from_nanos(context.host.now()),
        other => moment(context, other),
    };
    let elapsed = Time::from_nanos(context.host.now()).since(&then);
    Ok(fmt::duration(fmt::round_duration(elapsed, 1_000_000_000)).into())
}

fn seconds(value: &Value) -> i64 {
    match value {
        Value::Str(s) => {
            let text = s.text();
            let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
            let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            // A value that is too large becomes the largest.
            let limit = if text.starts_with('-') { i64::MIN } else { i64::MAX };
            if is_number { text.parse().unwrap_or(limit) } else { 0 }
        }
        Value::Int(IntType::Int64, n) => *n,
        _ => 0,
    }
}

/// A duration in its largest unit: `2h`.
fn rounded(context: &Context, value: &Value) -> String {
    const SECOND: u64 = 1_000_000_000;
    const HOUR: u64 = 3600 * SECOND;
    let nanos = match value {
        Value::Str(s) => duration::parse(&s.text()).unwrap_or(0),
        Value::Int(IntType::Int64, n) => *n,
        other => time_of(Some(other)).map_or(0, |t| Time::from_nanos(context.host.now()).since(t)),
    };
    let size = nanos.unsigned_abs();
    let units = [
        (HOUR * 24 * 365, "y"),
        (HOUR * 24 * 30, "mo"),
        (HOUR * 24, "d"),
        (HOUR, "h"),
        (60 * SECOND, "m"),
        (SECOND, "s"),
    ];
    let unit = units.iter().find(|(unit, _)| size > *unit);
    unit.map_or_else(|| "0s".into(), |(unit, name)| format!("{}{name}", size / unit))
}

//! Go's `fmt`: `Sprint`, `Sprintln` and `Sprintf` over template values.

use super::printer::Printer;
use crate::template::function::FnError;
use crate::template::value::{Elem, IntType, Kind, List, Map, MapType, Value};
use std::borrow::Cow;

/// The Go type of a value, as `%T` prints it.
pub fn type_name(value: &Value) -> Cow<'static, str> {
    Cow::Borrowed(match value {
        Value::Nil => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(t, _) => int_type_name(*t),
        Value::Float(_) => "float64",
        Value::Str(_) => "string",
        Value::List(List { elem, .. }) => match elem {
            Elem::Any => "[]interface {}",
            Elem::Str => "[]string",
            Elem::Int => "[]int",
            Elem::Byte => "[]uint8",
            Elem::Object(name) => return Cow::Owned(format!("[]{name}")),
        },
        Value::Map(Map { kind, .. }) => match kind {
            MapType::Any => "map[string]interface {}",
            MapType::Values => "common.Values",
            MapType::Str => "map[string]string",
        },
        Value::Object(object) => object.type_name(),
    })
}

fn int_type_name(int: IntType) -> &'static str {
    match int {
        IntType::Int => "int",
        IntType::Int8 => "int8",
        IntType::Int16 => "int16",
        IntType::Int32 => "int32",
        IntType::Int64 => "int64",
        IntType::Uint => "uint",
        IntType::Uint8 => "uint8",
        IntType::Uint16 => "uint16",
        IntType::Uint32 => "uint32",
        IntType::Uint64 => "uint64",
        IntType::Duration => "time.Duration",
        IntType::Month => "time.Month",
        IntType::Weekday => "time.Weekday",
    }
}

/// Appends a value as `fmt.Fprint` writes it.
///
/// # Errors
/// When the value is nested too deeply, as one that contains itself is.
pub fn print_value(out: &mut Vec<u8>, value: &Value) -> Result<(), FnError> {
    match value {
        Value::Str(s) => out.extend_from_slice(s.bytes()),
        Value::Bool(b) => out.extend_from_slice(if *b { b"true" } else { b"false" }),
        _ => Printer::new(out).finish(|p| p.arg(value, 'v'))?,
    }
    Ok(())
}

/// `fmt.Sprint`.
///
/// # Errors
/// As [`print_value`].
pub fn sprint(args: &[Value]) -> Result<Vec<u8>, FnError> {
    let mut out = Vec::new();
    let mut after_string = true;
    for (i, arg) in args.iter().enumerate() {
        let is_string = arg.kind() == Kind::String;
        if i > 0 && !is_string && !after_string {
            out.push(b' ');
        }
        print_value(&mut out, arg)?;
        after_string = is_string;
    }
    Ok(out)
}

/// `fmt.Sprintln`.
///
/// # Errors
/// As [`print_value`].
pub fn sprintln(args: &[Value]) -> Result<Vec<u8>, FnError> {
    let mut out = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        print_value(&mut out, arg)?;
    }
    out.push(b'\n');
    Ok(out)
}

/// `fmt.Sprintf`.
///
/// # Errors
/// As [`print_value`].
pub fn sprintf(format: &[u8], args: &[Value]) -> Result<Vec<u8>, FnError> {
    let mut out = Vec::with_capacity(format.len() + 16 * args.len());
    Printer::new(&mut out).finish(|p| p.printf(format, args))?;
    Ok(out)
}

/// The text of a `time.Duration`.
pub fn duration(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let n = nanoseconds.unsigned_abs();
    let fraction = |value: u64, unit: u64| {
        let digits = unit.ilog10() as usize;
        let text = format!("{}.{:0digits$}", value / unit, value % unit);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match n {
        0 => "0s".into(),
        1..1_000 => format!("{sign}{n}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", fraction(n, 1_000)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", fraction(n, 1_000_000)),
        _ => {
            let seconds = fraction(n % 60_000_000_000, 1_000_000_000);
            let minutes = n / 60_000_000_000;
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, m) => format!("{sign}{m}m{seconds}s"),
                (h, m) => format!("{sign}{h}h{m}m{seconds}s"),
            }
        }
    }
}

/// Go's `Duration.Round`: a half is rounded away from zero, and a result that is too large becomes the largest.
pub fn round_duration(d: i64, multiple: i64) -> i64 {
    if multiple <= 0 {
        return d;
    }
    let rest = (d % multiple).abs();
    let down = d - d % multiple;
    if i128::from(rest) * 2 < i128::from(multiple) {
        return down;
    }
    if d < 0 { down.saturating_sub(multiple) } else { down.saturating_add(multiple) }
}

/// The names of the months, as Go prints them.
pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// The names of the days, from Sunday on.
pub const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The text of a type with a `String` method.
pub(super) fn stringer(value: &Value) -> Option<String> {
    let name = |names: &[&str], i: i64, kind: &str| {
        let known = usize::try_from(i).ok().and_then(|i| names.get(i));
        known.map_or_else(|| format!("%!{kind}({i})"), |n| (*n).to_owned())
    };
    match value {
        Value::Int(IntType::Duration, n) => Some(duration(*n)),
        Value::Int(IntType::Month, n) => Some(match n {
            1..=12 => name(&MONTHS, n - 1, "Month"),
            _ => format!("%!Month({n})"),
        }),
        Value::Int(IntType::Weekday, n) => Some(name(&WEEKDAYS, *n, "Weekday")),
        Value::Object(o) => o.display(),
        _ => None,
    }
}

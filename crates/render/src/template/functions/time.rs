//! Go's `time.Time` for templates.

use super::args::bytes;
use super::durations::nanos as duration;
use super::layout::{self, Civil, Location};
use super::toml_scalar::LocalTime;
use crate::template::function::{FnResult, Param};
use crate::template::go::fmt::{self, round_duration};
use crate::template::go::values::Unexported;
use crate::template::value::{Elem, IntType, Kind, List, Object, Str, Value};
use std::any::Any;
use std::cmp::Ordering;
use std::rc::Rc;

/// A moment in some zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Time(pub Civil);

/// Seconds from the start of the year 1, from which Go counts, to the epoch.
const SINCE_YEAR_1: i64 = 62_135_596_800;
const SECOND: i128 = 1_000_000_000;
const RFC3339_NANO: &str = "2006-01-02T15:04:05.999999999Z07:00";

/// The time of a checked argument or of any value that is one.
pub fn time_of(value: Option<&Value>) -> Option<&Time> {
    match value {
        Some(Value::Object(object)) => {
            let any = object.as_any();
            any.downcast_ref().or_else(|| any.downcast_ref::<LocalTime>().map(LocalTime::time))
        }
        _ => None,
    }
}

impl Time {
    /// A moment in UTC, from nanoseconds since the epoch.
    pub fn from_nanos(nanos: i128) -> Self {
        let seconds = i64::try_from(nanos.div_euclid(SECOND)).unwrap_or(0);
        Self::from_unix(seconds, u32::try_from(nanos.rem_euclid(SECOND)).unwrap_or(0))
    }
    /// A moment in UTC.
    pub fn from_unix(seconds: i64, nanos: u32) -> Self {
        Self(Civil::new(seconds, nanos, 0, "UTC".into(), Location::Utc))
    }
    /// Go's zero time, the first of January of the year 1.
    pub fn zero() -> Self {
        Self::from_unix(-SINCE_YEAR_1, 0)
    }
    /// Nanoseconds since the epoch.
    pub fn nanos(&self) -> i128 {
        i128::from(self.0.unix()) * SECOND + i128::from(self.0.nanos)
    }
    /// The same zone, some nanoseconds later.
    #[must_use]
    pub fn plus(&self, nanos: i64) -> Self {
        let moved = Self::from_nanos(self.nanos() + i128::from(nanos));
        self.moved(moved.0.unix(), moved.0.nanos)
    }
    fn moved(&self, unix: i64, nanos: u32) -> Self {
        Self(Civil::new(unix, nanos, self.0.offset, self.0.zone.clone(), self.0.location))
    }
    /// The same moment in a zone of the tz database; `None` if there is no such zone.
    pub fn in_zone(&self, name: &str) -> Option<Self> {
        let (unix, nanos) = (self.0.unix(), self.0.nanos);
        if matches!(name, "" | "UTC" | "Local") {
            return Some(Self::from_unix(unix, nanos));
        }
        // jiff ignores the case of a name, but Go does not. For Go a name is the path of a file.
        let file: String = name.split('/').filter(|part| !matches!(*part, "" | ".")).collect::<Vec<_>>().join("/");
        if name.starts_with('/') || name.ends_with('/') || name.ends_with("/.") {
            return None;
        }
        let zone = jiff::tz::TimeZone::get(&file).ok().filter(|zone| zone.iana_name() == Some(&file))?;
        let info = zone.to_offset_info(jiff::Timestamp::from_second(unix).ok()?);
        let zone = info.abbreviation().to_owned().into();
        Some(Self(Civil::new(unix, nanos, info.offset().seconds(), zone, Location::Fixed)))
    }
    /// Nanoseconds from the other time to this one, as a `time.Duration` holds them.
    pub fn since(&self, other: &Self) -> i64 {
        // Go counts seconds from the year 1, and does not notice an overflow.
        let nanos = |t: &Self| {
            let seconds = t.0.unix().wrapping_add(SINCE_YEAR_1);
            i128::from(seconds) * SECOND + i128::from(t.0.nanos)
        };
        let difference = nanos(self) - nanos(other);
        i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
    }
    /// `AddDate`: the date is normalised, so that the 31st of a shorter month falls into the next month.
    fn add_date(&self, years: i64, months: i64, days: i64) -> Self {
        let month_index = i64::from(self.0.month) - 1 + months;
        let year = self.0.year + years + month_index.div_euclid(12);
        let month = u32::try_from(month_index.rem_euclid(12)).unwrap_or(0) + 1;
        let day = layout::days_of(year, month, 1) + i64::from(self.0.day) - 1 + days;
        let unix = day * 86_400 + i64::from(self.0.clock) - i64::from(self.0.offset);
        self.moved(unix, self.0.nanos)
    }
    /// As a template value.
    pub fn value(self) -> Value {
        Value::Object(Rc::new(self))
    }
}

const TIME: &[Param] = &[Param::Named("time.Time")];
const DURATION: &[Param] = &[Param::Named("time.Duration")];

impl Object for Time {
    fn type_name(&self) -> &'static str {
        "time.Time"
    }
    fn kind(&self) -> Kind {
        Kind::Struct
    }
    fn field(&self, _: &str) -> Option<Value> {
        None
    }
    fn fields(&self) -> Vec<Str> {
        Vec::new()
    }
    fn method(&self, name: &str) -> Option<&'static [Param]> {
        match name {
            "Year" | "Month" | "Day" | "Hour" | "Minute" | "Second" | "Nanosecond" | "Weekday" | "YearDay" | "Unix"
            | "UnixMilli" | "UnixMicro" | "UnixNano" | "String" | "GoString" | "IsZero" | "UTC" | "Local" | "IsDST" => {
                Some(&[])
            }
            "Format" => Some(&[Param::Str]),
            "Add" | "Round" | "Truncate" => Some(DURATION),
            "AddDate" => Some(&[Param::Int, Param::Int, Param::Int]),
            "Sub" | "Before" | "After" | "Equal" | "Compare" => Some(TIME),
            _ => None,
        }
    }
    fn call(&self, name: &str, args: &[Value]) -> FnResult {
        let t = &self.0;
        let number = |i: usize| if let Some(Value::Int(_, n)) = args.get(i) { *n } else { 0 };
        let int64 = |n: i128| Value::Int(IntType::Int64, i64::try_from(n).unwrap_or(0));
        let clock = i64::from(t.clock);
        let order = || time_of(args.first()).map_or(Ordering::Equal, |other| self.nanos().cmp(&other.nanos()));
        Ok(match name {
            "Year" => Value::int(t.year),
            "Month" => Value::Int(IntType::Month, t.month.into()),
            "Day" => Value::int(t.day.into()),
            "Hour" => Value::int(clock / 3600),
            "Minute" => Value::int(clock / 60 % 60),
            "Second" => Value::int(clock % 60),
            "Nanosecond" => Value::int(t.nanos.into()),
            "Weekday" => Value::Int(IntType::Weekday, i64::try_from(t.weekday()).unwrap_or(0)),
            "YearDay" => Value::int(t.year_day()),
            "Unix" => int64(t.unix().into()),
            "UnixMilli" => int64(self.nanos().div_euclid(1_000_000)),
            "UnixMicro" => int64(self.nanos().div_euclid(1_000)),
            "UnixNano" => int64(self.nanos()),
            "String" => self.text().into(),
            "GoString" => self.go_text().into(),
            "IsZero" => (self.nanos() == Self::zero().nanos()).into(),
            "IsDST" => false.into(),
            "UTC" => Self::from_unix(t.unix(), t.nanos).value(),
            "Local" => Self(Civil::new(t.unix(), t.nanos, 0, "UTC".into(), Location::Local)).value(),
            "Format" => Value::str(layout::format_bytes(bytes(args, 0), t)),
            "Add" => self.plus(number(0)).value(),
            "Round" | "Truncate" => {
                let step = number(0);
                // Go counts from its zero time.
                let since_zero = (self.nanos() - Self::zero().nanos()).rem_euclid(i128::from(step.max(1)));
                let rest = i64::try_from(since_zero).unwrap_or(0);
                let up = name == "Round" && step > 0 && round_duration(rest, step) > 0;
                self.plus(if up { step - rest } else { -rest }).value()
            }
            "AddDate" => self.add_date(number(0), number(1), number(2)).value(),
            "Sub" => duration(time_of(args.first()).map_or(0, |other| self.since(other))),
            "Before" => order().is_lt().into(),
            "After" => order().is_gt().into(),
            "Equal" => order().is_eq().into(),
            "Compare" => Value::int(order() as i64),
            _ => return Err("no such method".into()),
        })
    }
    fn display(&self) -> Option<String> {
        Some(self.text())
    }
    fn go_string(&self) -> Option<String> {
        Some(self.go_text())
    }
    /// Go compares where the zones are.
    fn equals(&self, other: &dyn Object) -> bool {
        self.0.location != Location::Fixed && other.as_any().downcast_ref() == Some(self)
    }
    fn shown(&self) -> Vec<(Str, Value)> {
        let seconds = self.0.unix().wrapping_add(SINCE_YEAR_1);
        let wall = Value::Int(IntType::Uint64, self.0.nanos.into());
        [("wall", wall), ("ext", Value::Int(IntType::Int64, seconds)), ("loc", location(&self.0))].map(named).into()
    }
    fn json(&self) -> Value {
        layout::format(RFC3339_NANO, &self.0).into()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn named((name, value): (&'static str, Value)) -> (Str, Value) {
    (name.into(), value)
}

/// Go's `*time.Location`, with its unexported fields.
fn location(civil: &Civil) -> Value {
    let int = |n: i64| Value::Int(IntType::Int64, n);
    let list = |name, items: Vec<Value>| Value::List(List { elem: Elem::Object(name), items: items.into() });
    let zone = || Value::str(&*civil.zone);
    let (zones, changes, start, end) = match civil.location {
        Location::Utc => return Unexported::pointer("*time.Location", None),
        Location::Local => (vec![], vec![], 0, 0),
        Location::Fixed => {
            let zone = vec![("name", zone()), ("offset", Value::int(civil.offset.into())), ("isDST", false.into())];
            let index = Value::Int(IntType::Uint8, 0);
            let change =
                vec![("when", int(i64::MIN)), ("index", index), ("isstd", false.into()), ("isutc", false.into())];
            let of = Unexported::structure;
            (vec![of("time.zone", zone)], vec![of("time.zoneTrans", change)], i64::MIN, i64::MAX)
        }
    };
    let cached = (!zones.is_empty()).then(Vec::new);
    let fields = vec![
        ("name", zone()),
        ("zone", list("time.zone", zones)),
        ("tx", list("time.zoneTrans", changes)),
        ("extend", "".into()),
        ("cacheStart", int(start)),
        ("cacheEnd", int(end)),
        ("cacheZone", Unexported::pointer("*time.zone", cached)),
    ];
    Unexported::pointer("*time.Location", Some(fields))
}

impl Time {
    fn go_text(&self) -> String {
        let t = &self.0;
        let zone = match t.location {
            Location::Utc => "time.UTC".to_owned(),
            Location::Local => "time.Local".to_owned(),
            Location::Fixed => format!("time.Location({})", layout::quoted(&*t.zone)),
        };
        let month = fmt::MONTHS[(t.month as usize - 1) % 12];
        let (hour, minute, second) = (t.clock / 3600, t.clock / 60 % 60, t.clock % 60);
        format!("time.Date({}, time.{month}, {}, {hour}, {minute}, {second}, {}, {zone})", t.year, t.day, t.nanos)
    }
    fn text(&self) -> String {
        layout::format("2006-01-02 15:04:05.999999999 -0700 MST", &self.0)
    }
}

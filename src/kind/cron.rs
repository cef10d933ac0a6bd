//! Schedules as Kubernetes' `CronJob` takes them: five fields or `@hourly` and the like, as github.com/robfig/cron v3.0.1 reads them
//! (`ParseStandard`), each in a time zone of its own. An hour that daylight saving time skips has no runs, and an hour that it repeats
//! has them twice.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use super::duration;
use crate::object::field_error::FieldError;

/// Years to search. A schedule without a time in them, such as the 30th of February, is never due.
const YEARS: i16 = 5;
/// Limit of the steps of a search. Five years take a few thousand. Where a zone skips a whole day (Samoa, 2011), the original
/// never ends.
const STEPS: u32 = 20_000;

/// When something is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    times: Times,
    zone: TimeZone,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Times {
    /// `@every 90s`: this many seconds after the last.
    Every(i64),
    Fields(Fields),
}

/// One bit for each value that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fields {
    minute: u64,
    hour: u64,
    day: u64,
    month: u64,
    weekday: u64,
    /// The day of the month or of the week is `*`: then both must match. If both are restricted, one match is enough.
    both_days: bool,
}

/// The allowed values of a field.
struct Bounds {
    name: &'static str,
    least: u32,
    most: u32,
    /// Names of its values, from the lowest.
    names: &'static [&'static str],
}

const BOUNDS: [Bounds; 5] = [
    Bounds { name: "minute", least: 0, most: 59, names: &[] },
    Bounds { name: "hour", least: 0, most: 23, names: &[] },
    Bounds { name: "day of the month", least: 1, most: 31, names: &[] },
    Bounds {
        name: "month",
        least: 1,
        most: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Bounds { name: "day of the week", least: 0, most: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

impl Cron {
    /// Reads a schedule; `zone` is a name of the tz database, empty for UTC. Errors say what is wrong, and with which field.
    pub fn parse(text: &str, zone: &str) -> Result<Self, FieldError> {
        if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
            return Err(FieldError::within(format!("{text:?}"))("set the time zone in its own annotation"));
        }
        Ok(Self { times: times(text)?, zone: time_zone(zone)? })
    }

    /// The first time after another, in seconds since 1970; `None` when there is none within five years.
    pub fn next(&self, after: i64) -> Option<i64> {
        match &self.times {
            Times::Every(seconds) => after.checked_add(*seconds),
            Times::Fields(fields) => self.next_of(fields, after),
        }
    }

    /// The last due time after `after` and not after `now`, however often it was due in between.
    pub fn latest(&self, after: i64, now: i64) -> Option<i64> {
        let first = self.next(after).filter(|first| *first <= now)?;
        if let Times::Every(seconds) = &self.times {
            return Some(now - (now - after) % seconds);
        }
        // `next` never decreases when its argument grows.
        let (mut from, mut to, mut found) = (after, now, first);
        while to - from > 1 {
            let middle = from + (to - from) / 2;
            match self.next(middle).filter(|next| *next <= now) {
                Some(next) => (from, found) = (next, next),
                None => to = middle,
            }
        }
        Some(found)
    }

    /// Field by field, from the month down; a field that overflows starts again.
    fn next_of(&self, fields: &Fields, after: i64) -> Option<i64> {
        let Fields { minute, hour, day, month, weekday, .. } = fields;
        if [minute, hour, day, month, weekday].into_iter().any(|bits| *bits == 0) {
            return None;
        }
        let mut at = after.checked_add(1)?;
        let limit = self.clock(at)?.year().checked_add(YEARS)?;
        // Once a field has advanced, those below start at their lowest value.
        let mut moved = false;
        let mut left = STEPS;
        'again: loop {
            if self.clock(at)?.year() > limit {
                return None;
            }
            while !has(fields.month, self.clock(at)?.month()) {
                left = left.checked_sub(1)?;
                let clock = self.clock(at)?;
                let from = if std::mem::replace(&mut moved, true) {
                    clock
                } else {
                    clock.date().first_of_month().at(0, 0, 0, 0)
                };
                at = self.moment(from.checked_add(1.month()).ok()?)?;
                if self.clock(at)?.month() == 1 {
                    continue 'again;
                }
            }
            while !fields.has_day(self.clock(at)?.date()) {
                left = left.checked_sub(1)?;
                let clock = self.clock(at)?;
                let from = if std::mem::replace(&mut moved, true) { clock } else { clock.date().at(0, 0, 0, 0) };
                at = self.moment(from.checked_add(1.day()).ok()?)?;
                // Where midnight does not exist, or twice.
                match i64::from(self.clock(at)?.hour()) {
                    0 => {}
                    late if late > 12 => at += (24 - late) * 3600,
                    early => at -= early * 3600,
                }
                if self.clock(at)?.day() == 1 {
                    continue 'again;
                }
            }
            while !has(fields.hour, self.clock(at)?.hour()) {
                left = left.checked_sub(1)?;
                if !std::mem::replace(&mut moved, true) {
                    let clock = self.clock(at)?;
                    at = self.moment(clock.date().at(clock.hour(), 0, 0, 0))?;
                }
                at += 3600;
                if self.clock(at)?.hour() == 0 {
                    continue 'again;
                }
            }
            while !has(fields.minute, self.clock(at)?.minute()) {
                left = left.checked_sub(1)?;
                if !std::mem::replace(&mut moved, true) {
                    at -= at.rem_euclid(60);
                }
                at += 60;
                if self.clock(at)?.minute() == 0 {
                    continue 'again;
                }
            }
            let over = i64::from(self.clock(at)?.second());
            if over == 0 {
                return Some(at);
            }
            moved = true;
            at += 60 - over;
        }
    }

    /// The local time of the zone.
    fn clock(&self, at: i64) -> Option<DateTime> {
        Some(self.zone.to_datetime(Timestamp::from_second(at).ok()?))
    }

    /// The moment of a local time, as Go's `time.Date` finds it: with the offset of a moment nearby.
    fn moment(&self, clock: DateTime) -> Option<i64> {
        let naive = clock.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
        let offset = |at: i64| Some(i64::from(self.zone.to_offset(Timestamp::from_second(at).ok()?).seconds()));
        Some(naive - offset(naive - offset(naive)?)?)
    }
}

impl Fields {
    fn has_day(&self, date: Date) -> bool {
        let of_month = has(self.day, date.day());
        let of_week = has(self.weekday, date.weekday().to_sunday_zero_offset());
        if self.both_days { of_month && of_week } else { of_month || of_week }
    }
}

fn has(bits: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| bits & (1 << value) != 0)
}

fn time_zone(name: &str) -> Result<TimeZone, FieldError> {
    if name.is_empty() {
        return Ok(TimeZone::UTC);
    }
    // jiff ignores the case of a name, but Kubernetes does not.
    let zone = TimeZone::get(name).ok().filter(|zone| zone.iana_name() == Some(name));
    zone.ok_or_else(|| FieldError::is_not(format!("{name:?}"), "a time zone; an example is Europe/Berlin"))
}

fn times(text: &str) -> Result<Times, FieldError> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => match text.strip_prefix("@every ") {
            Some(every) => {
                let seconds = duration::parse(every)?.as_secs().max(1);
                return i64::try_from(seconds).map(Times::Every).map_err(|e| e.to_string().into());
            }
            None if text.starts_with('@') => {
                return Err(FieldError::is_not(format!("{text:?}"), "a schedule; an example is @hourly"));
            }
            None => text,
        },
    };
    let parts: Vec<&str> = fields.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = parts.as_slice() else {
        let clause = format!("has {} fields; a schedule has five", parts.len());
        return Err(FieldError::clause(format!("{text:?}"), clause));
    };
    let read = |at: usize, field: &str| {
        let bounds = &BOUNDS[at];
        bits(field, bounds).map_err(FieldError::within(format!("{text:?}: {} {field:?}", bounds.name)))
    };
    let ((day, any_day), (weekday, any_weekday)) = (read(2, day)?, read(4, weekday)?);
    Ok(Times::Fields(Fields {
        minute: read(0, minute)?.0,
        hour: read(1, hour)?.0,
        day,
        month: read(3, month)?.0,
        weekday,
        both_days: any_day || any_weekday,
    }))
}

/// The values of a field, and whether it holds all of them by a `*`.
fn bits(field: &str, bounds: &Bounds) -> Result<(u64, bool), FieldError> {
    let (mut bits, mut all) = (0, false);
    for part in field.split(',').filter(|part| !part.is_empty()) {
        let (more, star) = range(part, bounds)?;
        bits |= more;
        all |= star;
    }
    Ok((bits, all))
}

/// `*`, `N`, `N-M`, each with `/STEP` or without; `N/STEP` extends to the end.
fn range(part: &str, bounds: &Bounds) -> Result<(u64, bool), FieldError> {
    let mut halves = part.split('/');
    let ends: Vec<&str> = halves.next().unwrap_or_default().split('-').collect();
    let star = matches!(ends[0], "*" | "?");
    let (first, mut last) = match ends.as_slice() {
        _ if star => (bounds.least, bounds.most),
        [only] => (value(only, bounds)?, value(only, bounds)?),
        [first, last] => (value(first, bounds)?, value(last, bounds)?),
        _ => return Err("a range has two ends".into()),
    };
    let step = match (halves.next(), halves.next()) {
        (None, _) => 1,
        (Some(step), None) => {
            if ends.len() == 1 {
                last = bounds.most;
            }
            number(step)?
        }
        _ => return Err("it has more than one step".into()),
    };
    if first < bounds.least || last > bounds.most {
        return Err(format!("it goes from {} to {}", bounds.least, bounds.most).into());
    }
    if first > last {
        return Err("it ends before it begins".into());
    }
    let Some(step) = usize::try_from(step).ok().filter(|step| *step > 0) else {
        return Err("a step is at least 1".into());
    };
    let bits = (first..=last).step_by(step).fold(0, |bits, value| bits | 1 << value);
    Ok((bits, star && step == 1))
}

fn value(text: &str, bounds: &Bounds) -> Result<u32, FieldError> {
    let named = bounds.names.iter().position(|name| text.eq_ignore_ascii_case(name));
    match named.and_then(|at| u32::try_from(at).ok()) {
        Some(at) => Ok(bounds.least + at),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, FieldError> {
    // A larger number exceeds every bound. As a step it selects the first value only.
    let number: i64 = text.parse().map_err(|_| FieldError::is_not(format!("{text:?}"), "a number"))?;
    u32::try_from(number.min(1 << 20)).map_err(|_| FieldError::clause(format!("{text:?}"), "is negative"))
}

#[cfg(test)]
#[path = "cron_tests.rs"]
mod tests;

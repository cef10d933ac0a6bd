//! Go's reference-time layouts (`2006-01-02T15:04:05Z07:00`): the behaviour of Go's `time/format.go`.

use std::borrow::Cow;
use std::fmt::Write as _;

pub use crate::template::go::fmt::{MONTHS, WEEKDAYS};

/// A moment on the wall clock of some zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Civil {
    /// Proleptic Gregorian year.
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// Seconds since midnight.
    pub clock: u32,
    /// Nanoseconds within the second.
    pub nanos: u32,
    /// Seconds east of UTC.
    pub offset: i32,
    /// `UTC`, `CEST`; empty if the zone has only an offset.
    pub zone: Cow<'static, str>,
    /// The facts about the zone that Go's `time` has.
    pub location: Location,
}

/// Where Go's `time.Time` points to for its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// Nowhere: UTC.
    Utc,
    /// `time.Local`, which is UTC here, but another value.
    Local,
    /// A zone of its own.
    Fixed,
}

impl Civil {
    /// Days since 1970-01-01.
    pub fn days(&self) -> i64 {
        days_of(self.year, self.month, self.day)
    }
    /// Seconds since the epoch.
    pub fn unix(&self) -> i64 {
        let midnight = self.days().wrapping_mul(86_400);
        midnight.wrapping_add(i64::from(self.clock) - i64::from(self.offset))
    }
    /// The wall clock of a moment in a zone.
    pub fn new(unix: i64, nanos: u32, offset: i32, zone: Cow<'static, str>, location: Location) -> Self {
        let local = unix.saturating_add(i64::from(offset));
        let (year, month, day) = date_of(local.div_euclid(86_400));
        let clock = u32::try_from(local.rem_euclid(86_400)).unwrap_or(0);
        Self { year, month, day, clock, nanos, offset, zone, location }
    }
    /// 0 for Sunday.
    pub fn weekday(&self) -> usize {
        usize::try_from((self.days() + 4).rem_euclid(7)).unwrap_or(0)
    }
    /// 1 for the first of January.
    pub fn year_day(&self) -> i64 {
        self.days() - days_of(self.year, 1, 1) + 1
    }
}

/// Days since 1970-01-01 of a date (Howard Hinnant's `days_from_civil`).
pub fn days_of(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let shifted = i64::from((month + 9) % 12);
    let of_year = (153 * shifted + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a day since 1970-01-01 (`civil_from_days`).
pub fn date_of(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = u32::try_from(of_year - (153 * shifted + 2) / 5 + 1).unwrap_or(1);
    let month = u32::try_from(if shifted < 10 { shifted + 3 } else { shifted - 9 }).unwrap_or(1);
    (year + era * 400 + i64::from(month <= 2), month, day)
}

fn days_in(month: u32, year: i64) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// An element of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekDay,
    WeekDay,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    Pm,
    LowerPm,
    Abbreviation,
    /// `-07:00` and its relatives.
    Offset {
        zulu: bool,
        colon: bool,
        minutes: bool,
        seconds: bool,
    },
    /// `.000` or `,999`.
    Fraction {
        digits: usize,
        trim: bool,
        comma: bool,
    },
}

/// The text before the next element, the element, and the rest of the layout.
fn next_chunk(layout: &[u8]) -> (&[u8], Option<(Chunk, &[u8])>) {
    for i in 0..layout.len() {
        if let Some((chunk, length)) = chunk_at(&layout[i..]) {
            // `_2006` is an underscore and a year.
            let skip = usize::from(chunk == Chunk::LongYear && layout[i] == b'_');
            return (&layout[..i + skip], Some((chunk, &layout[i + skip + length..])));
        }
    }
    (layout, None)
}

fn chunk_at(rest: &[u8]) -> Option<(Chunk, usize)> {
    let word_ends = |n: usize| !rest.get(n).is_some_and(u8::is_ascii_lowercase);
    Some(match rest[0] {
        b'J' if rest.starts_with(b"January") => (Chunk::LongMonth, 7),
        b'J' if rest.starts_with(b"Jan") && word_ends(3) => (Chunk::Month, 3),
        b'M' if rest.starts_with(b"Monday") => (Chunk::LongWeekDay, 6),
        b'M' if rest.starts_with(b"Mon") && word_ends(3) => (Chunk::WeekDay, 3),
        b'M' if rest.starts_with(b"MST") => (Chunk::Abbreviation, 3),
        b'0' => match rest {
            [_, b'1', ..] => (Chunk::ZeroMonth, 2),
            [_, b'2', ..] => (Chunk::ZeroDay, 2),
            [_, b'3', ..] => (Chunk::ZeroHour12, 2),
            [_, b'4', ..] => (Chunk::ZeroMinute, 2),
            [_, b'5', ..] => (Chunk::ZeroSecond, 2),
            [_, b'6', ..] => (Chunk::Year, 2),
            [_, b'0', b'2', ..] => (Chunk::ZeroYearDay, 3),
            _ => return None,
        },
        b'1' if rest.get(1) == Some(&b'5') => (Chunk::Hour, 2),
        b'1' => (Chunk::NumMonth, 1),
        b'2' if rest.starts_with(b"2006") => (Chunk::LongYear, 4),
        b'2' => (Chunk::Day, 1),
        b'_' if rest.starts_with(b"_2006") => (Chunk::LongYear, 4),
        b'_' if rest.starts_with(b"_2") => (Chunk::UnderDay, 2),
        b'_' if rest.starts_with(b"__2") => (Chunk::UnderYearDay, 3),
        b'3' => (Chunk::Hour12, 1),
        b'4' => (Chunk::Minute, 1),
        b'5' => (Chunk::Second, 1),
        b'P' if rest.starts_with(b"PM") => (Chunk::Pm, 2),
        b'p' if rest.starts_with(b"pm") => (Chunk::LowerPm, 2),
        b'-' | b'Z' => {
            let zulu = rest[0] == b'Z';
            let after = &rest[1..];
            let (colon, minutes, seconds, length) = match after {
                _ if after.starts_with(b"070000") => (false, true, true, 7),
                _ if after.starts_with(b"07:00:00") => (true, true, true, 9),
                _ if after.starts_with(b"0700") => (false, true, false, 5),
                _ if after.starts_with(b"07:00") => (true, true, false, 6),
                _ if after.starts_with(b"07") => (false, false, false, 3),
                _ => return None,
            };
            (Chunk::Offset { zulu, colon, minutes, seconds }, length)
        }
        b'.' | b',' => {
            let digit = *rest.get(1).filter(|&&b| b == b'0' || b == b'9')?;
            let digits = rest[1..].iter().take_while(|&&b| b == digit).count();
            if rest.get(1 + digits).is_some_and(u8::is_ascii_digit) {
                return None;
            }
            (Chunk::Fraction { digits, trim: digit == b'9', comma: rest[0] == b',' }, 1 + digits)
        }
        _ => return None,
    })
}

/// `time.Format`.
pub fn format(layout: &str, t: &Civil) -> String {
    String::from_utf8_lossy(&format_bytes(layout.as_bytes(), t)).into_owned()
}

/// The same, of a layout that may be any bytes.
pub fn format_bytes(layout: &[u8], t: &Civil) -> Vec<u8> {
    let mut out = Vec::with_capacity(layout.len() + 10);
    let mut rest = layout;
    loop {
        let (prefix, chunk) = next_chunk(rest);
        out.extend_from_slice(prefix);
        let Some((chunk, suffix)) = chunk else { return out };
        rest = suffix;
        let mut text = String::new();
        write_chunk(chunk, t, &mut text);
        out.extend_from_slice(text.as_bytes());
    }
}

fn write_chunk(chunk: Chunk, t: &Civil, out: &mut String) {
    let month = MONTHS[(t.month as usize - 1) % 12];
    let (hour, minute, second) = (t.clock / 3600, t.clock / 60 % 60, t.clock % 60);
    let hour12 = if hour % 12 == 0 { 12 } else { hour % 12 };
    // Writing to a String cannot fail.
    let _ = match chunk {
        Chunk::Year => write!(out, "{:02}", t.year.unsigned_abs() % 100),
        Chunk::LongYear if t.year < 0 => write!(out, "-{:04}", -t.year),
        Chunk::LongYear => write!(out, "{:04}", t.year),
        Chunk::LongMonth => write!(out, "{month}"),
        Chunk::Month => write!(out, "{}", &month[..3]),
        Chunk::NumMonth => write!(out, "{}", t.month),
        Chunk::ZeroMonth => write!(out, "{:02}", t.month),
        Chunk::LongWeekDay => write!(out, "{}", WEEKDAYS[t.weekday()]),
        Chunk::WeekDay => write!(out, "{}", &WEEKDAYS[t.weekday()][..3]),
        Chunk::Day => write!(out, "{}", t.day),
        Chunk::UnderDay => write!(out, "{:2}", t.day),
        Chunk::ZeroDay => write!(out, "{:02}", t.day),
        Chunk::UnderYearDay => write!(out, "{:3}", t.year_day()),
        Chunk::ZeroYearDay => write!(out, "{:03}", t.year_day()),
        Chunk::Hour => write!(out, "{hour:02}"),
        Chunk::Hour12 => write!(out, "{hour12}"),
        Chunk::ZeroHour12 => write!(out, "{hour12:02}"),
        Chunk::Minute => write!(out, "{minute}"),
        Chunk::ZeroMinute => write!(out, "{minute:02}"),
        Chunk::Second => write!(out, "{second}"),
        Chunk::ZeroSecond => write!(out, "{second:02}"),
        Chunk::Pm => write!(out, "{}", if hour >= 12 { "PM" } else { "AM" }),
        Chunk::LowerPm => write!(out, "{}", if hour >= 12 { "pm" } else { "am" }),
        Chunk::Abbreviation if !t.zone.is_empty() => write!(out, "{}", t.zone),
        Chunk::Abbreviation => {
            write_offset(t.offset, false, true, false, out);
            Ok(())
        }
        Chunk::Offset { zulu: true, .. } if t.offset == 0 => write!(out, "Z"),
        Chunk::Offset { colon, minutes, seconds, .. } => {
            write_offset(t.offset, colon, minutes, seconds, out);
            Ok(())
        }
        Chunk::Fraction { digits, trim, comma } => {
            write_fraction(t.nanos, digits, trim, comma, out);
            Ok(())
        }
    };
}

fn write_offset(offset: i32, colon: bool, minutes: bool, seconds: bool, out: &mut String) {
    let sign = if offset < 0 { '-' } else { '+' };
    let size = offset.unsigned_abs();
    let between = if colon { ":" } else { "" };
    let _ = write!(out, "{sign}{:02}", size / 3600);
    if minutes {
        let _ = write!(out, "{between}{:02}", size / 60 % 60);
    }
    if seconds {
        let _ = write!(out, "{between}{:02}", size % 60);
    }
}

fn write_fraction(nanos: u32, digits: usize, trim: bool, comma: bool, out: &mut String) {
    let text = format!("{nanos:09}");
    let mut text: String = text.chars().chain(std::iter::repeat('0')).take(digits).collect();
    if trim {
        text.truncate(text.trim_end_matches('0').len());
        if text.is_empty() {
            return;
        }
    }
    out.push(if comma { ',' } else { '.' });
    out.push_str(&text);
}

/// The parts that parsing may find out of range, or not at all.
enum Problem {
    Bad,
    Range(&'static str),
}

/// Fields as they are read.
#[derive(Default)]
struct Fields {
    year: i64,
    month: Option<u32>,
    day: Option<u32>,
    year_day: Option<u32>,
    hour: u32,
    minute: u32,
    second: u32,
    nanos: u32,
    pm: Option<bool>,
    utc: bool,
    offset: Option<i32>,
    zone: String,
}

/// A text between quotes as Go's `time` shows it: characters that are not printable ASCII appear as their bytes.
pub fn quoted(text: impl AsRef<[u8]>) -> String {
    let mut out = String::from("\"");
    for b in text.as_ref() {
        match b {
            b'"' | b'\\' => out.extend(['\\', char::from(*b)]),
            b' '..=b'\x7f' => out.push(char::from(*b)),
            _ => {
                let _ = write!(out, "\\x{b:02x}");
            }
        }
    }
    out.push('"');
    out
}

/// Why a text is not a time of a layout; the words are Go's.
#[derive(Debug, thiserror::Error)]
#[error("parsing time {value}{fault}")]
pub struct TimeError {
    /// The text, between quotes.
    value: String,
    fault: String,
}

/// `time.ParseInLocation(layout, value, UTC)`
pub fn parse(layout: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Civil, TimeError> {
    let (layout, value) = (layout.as_ref(), value.as_ref());
    let mut fields = Fields::default();
    let mut rest = value;
    let mut pattern = layout;
    let error = |fault| TimeError { value: quoted(value), fault };
    let cannot = |at: &[u8], element: &[u8]| {
        error(format!(" as {}: cannot parse {} as {}", quoted(layout), quoted(at), quoted(element)))
    };
    loop {
        let (prefix, chunk) = next_chunk(pattern);
        rest = skip(rest, prefix).map_err(|at| cannot(at, prefix))?;
        let Some((chunk, suffix)) = chunk else {
            if !rest.is_empty() {
                return Err(error(format!(": extra text: {}", quoted(rest))));
            }
            break;
        };
        let element = &pattern[prefix.len()..pattern.len() - suffix.len()];
        pattern = suffix;
        match read_chunk(chunk, rest, suffix, &mut fields) {
            Ok(after) => rest = after,
            Err(Problem::Bad) => return Err(cannot(rest, element)),
            Err(Problem::Range(what)) => return Err(error(format!(": {what} out of range"))),
        }
    }
    finish(&fields).map_err(|what| error(format!(": {what}")))
}

/// Checks the fields against each other.
fn finish(f: &Fields) -> Result<Civil, &'static str> {
    let hour = match f.pm {
        Some(true) if f.hour < 12 => f.hour + 12,
        Some(false) if f.hour == 12 => 0,
        _ => f.hour,
    };
    let (mut month, mut day) = (f.month, f.day);
    if let Some(year_day) = f.year_day {
        if year_day < 1 || i64::from(year_day) > days_of(f.year + 1, 1, 1) - days_of(f.year, 1, 1) {
            return Err("day-of-year out of range");
        }
        let (_, m, d) = date_of(days_of(f.year, 1, 1) + i64::from(year_day) - 1);
        if month.is_some_and(|month| month != m) {
            return Err("day-of-year does not match month");
        }
        if day.is_some_and(|day| day != d) {
            return Err("day-of-year does not match day");
        }
        (month, day) = (Some(m), Some(d));
    }
    let (month, day) = (month.unwrap_or(1), day.unwrap_or(1));
    if day < 1 || day > days_in(month, f.year) {
        return Err("day out of range");
    }
    let clock = hour * 3600 + f.minute * 60 + f.second;
    let own = || (f.zone.clone().into(), Location::Fixed);
    let (offset, (zone, location)) = match f.offset {
        _ if f.utc => (0, ("UTC".into(), Location::Utc)),
        Some(0) | None if f.zone.is_empty() => (0, ("UTC".into(), Location::Local)),
        Some(offset) => (offset, own()),
        // `GMT+3` says its offset; any other name is unknown and taken for UTC.
        None => (f.zone.strip_prefix("GMT").and_then(|h| h.parse::<i32>().ok()).unwrap_or(0) * 3600, own()),
    };
    Ok(Civil { year: f.year, month, day, clock, nanos: f.nanos, offset, zone, location })
}

/// Steps over literal text; runs of blanks match each other.
fn skip<'a>(mut value: &'a [u8], mut prefix: &[u8]) -> Result<&'a [u8], &'a [u8]> {
    while let Some(&first) = prefix.first() {
        if first == b' ' {
            if value.first().is_some_and(|&b| b != b' ') {
                return Err(value);
            }
            prefix = without_blanks(prefix);
            value = without_blanks(value);
            continue;
        }
        if value.first() != Some(&first) {
            return Err(value);
        }
        (prefix, value) = (&prefix[1..], &value[1..]);
    }
    Ok(value)
}

fn without_blanks(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|&&b| b == b' ').count()..]
}

fn read_chunk<'a>(chunk: Chunk, value: &'a [u8], suffix: &[u8], f: &mut Fields) -> Result<&'a [u8], Problem> {
    let limit = |n: u32, below: u32, what| if n < below { Ok(n) } else { Err(Problem::Range(what)) };
    let value = match chunk {
        Chunk::Year => {
            let n = value.get(..2).and_then(signed).ok_or(Problem::Bad)?;
            f.year = n + if n >= 69 { 1900 } else { 2000 };
            &value[2..]
        }
        Chunk::LongYear => {
            let (n, rest) = fixed(value, 4)?;
            f.year = i64::from(n);
            rest
        }
        Chunk::Month => named(value, &MONTHS, 3, |i| f.month = Some(i + 1))?,
        Chunk::LongMonth => named(value, &MONTHS, usize::MAX, |i| f.month = Some(i + 1))?,
        Chunk::WeekDay => named(value, &WEEKDAYS, 3, |_| ())?,
        Chunk::LongWeekDay => named(value, &WEEKDAYS, usize::MAX, |_| ())?,
        Chunk::NumMonth | Chunk::ZeroMonth => {
            let (n, rest) = number(value, chunk == Chunk::ZeroMonth)?;
            if n == 0 || n > 12 {
                return Err(Problem::Range("month"));
            }
            f.month = Some(n);
            rest
        }
        Chunk::Day | Chunk::UnderDay | Chunk::ZeroDay => {
            let value = if chunk == Chunk::UnderDay { value.strip_prefix(b" ").unwrap_or(value) } else { value };
            let (n, rest) = number(value, chunk == Chunk::ZeroDay)?;
            f.day = Some(n);
            rest
        }
        Chunk::UnderYearDay => {
            // One to three digits, after at most two blanks.
            let blanks = value.iter().take(2).take_while(|&&b| b == b' ').count();
            let digits = value[blanks..].iter().take(3).take_while(|b| b.is_ascii_digit()).count();
            let (n, rest) = fixed(&value[blanks..], digits.max(1))?;
            f.year_day = Some(n);
            rest
        }
        Chunk::ZeroYearDay => {
            let (n, rest) = fixed(value, 3)?;
            f.year_day = Some(n);
            rest
        }
        Chunk::Hour => {
            let (n, rest) = number(value, false)?;
            f.hour = limit(n, 24, "hour")?;
            rest
        }
        Chunk::Hour12 | Chunk::ZeroHour12 => {
            let (n, rest) = number(value, chunk == Chunk::ZeroHour12)?;
            f.hour = limit(n, 13, "hour")?;
            rest
        }
        Chunk::Minute | Chunk::ZeroMinute => {
            let (n, rest) = number(value, chunk == Chunk::ZeroMinute)?;
            f.minute = limit(n, 60, "minute")?;
            rest
        }
        Chunk::Second | Chunk::ZeroSecond => {
            let (n, rest) = number(value, chunk == Chunk::ZeroSecond)?;
            f.second = limit(n, 60, "second")?;
            // A fraction is taken even where the layout has none.
            if matches!(next_chunk(suffix).1, Some((Chunk::Fraction { .. }, _))) { rest } else { fraction(rest, f) }
        }
        Chunk::Pm | Chunk::LowerPm => {
            let (pm, am) = if chunk == Chunk::Pm { (b"PM", b"AM") } else { (b"pm", b"am") };
            let is_pm = value.starts_with(pm);
            if !is_pm && !value.starts_with(am) {
                return Err(Problem::Bad);
            }
            f.pm = Some(is_pm);
            &value[2..]
        }
        Chunk::Offset { zulu: true, .. } if value.starts_with(b"Z") => {
            f.utc = true;
            &value[1..]
        }
        Chunk::Offset { colon, minutes, seconds, .. } => offset(value, colon, minutes, seconds, f)?,
        Chunk::Abbreviation if value.starts_with(b"UTC") => {
            f.utc = true;
            &value[3..]
        }
        Chunk::Abbreviation => {
            let length = abbreviation(value).ok_or(Problem::Bad)?;
            f.zone = String::from_utf8_lossy(&value[..length]).into_owned();
            &value[length..]
        }
        Chunk::Fraction { trim: true, .. } => fraction(value, f),
        Chunk::Fraction { digits, .. } => {
            // Of more than nine the others are not looked at.
            let text = value.strip_prefix(b".").or(value.strip_prefix(b",")).filter(|text| text.len() >= digits);
            let text = &text.ok_or(Problem::Bad)?[..digits.min(9)];
            let n = signed(text).ok_or(Problem::Bad)?;
            let n = u32::try_from(n).map_err(|_| Problem::Range("fractional second"))?;
            f.nanos = (text.len()..9).fold(n, |n, _| n * 10);
            &value[digits + 1..]
        }
    };
    Ok(value)
}

/// Exactly this many digits.
fn fixed(value: &[u8], digits: usize) -> Result<(u32, &[u8]), Problem> {
    let text = value.get(..digits).filter(|t| t.iter().all(u8::is_ascii_digit)).ok_or(Problem::Bad)?;
    Ok((text.iter().fold(0, |n, b| n * 10 + u32::from(b - b'0')), &value[digits..]))
}

/// Digits, or none, and maybe a sign before them: Go's `atoi` of packages without `strconv`.
fn signed(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] | digits => (1, digits),
    };
    let all = digits.iter().all(u8::is_ascii_digit);
    all.then(|| sign * digits.iter().fold(0, |n, b| n * 10 + i64::from(b - b'0')))
}

/// One or two digits; two if `fixed_width`.
fn number(value: &[u8], fixed_width: bool) -> Result<(u32, &[u8]), Problem> {
    match fixed(value, 2) {
        Err(_) if !fixed_width => fixed(value, 1),
        result => result,
    }
}

fn named<'a>(value: &'a [u8], names: &[&str], length: usize, mut set: impl FnMut(u32)) -> Result<&'a [u8], Problem> {
    for (i, name) in (0u32..).zip(names) {
        let name = &name[..name.len().min(length)];
        if value.get(..name.len()).is_some_and(|v| v.eq_ignore_ascii_case(name.as_bytes())) {
            set(i);
            return Ok(&value[name.len()..]);
        }
    }
    Err(Problem::Bad)
}

/// Takes `.123` if present; more than nine digits are cut.
fn fraction<'a>(value: &'a [u8], f: &mut Fields) -> &'a [u8] {
    if !matches!(value, [b'.' | b',', b'0'..=b'9', ..]) {
        return value;
    }
    let n = value[1..].iter().take_while(|b| b.is_ascii_digit()).count();
    let nine = value[1..=n].iter().chain(std::iter::repeat(&b'0')).take(9);
    f.nanos = nine.fold(0, |n, b| n * 10 + u32::from(b - b'0'));
    &value[n + 1..]
}

fn offset<'a>(value: &'a [u8], colon: bool, minutes: bool, seconds: bool, f: &mut Fields) -> Result<&'a [u8], Problem> {
    let width = 2 + usize::from(colon);
    let length = 3 + width * (usize::from(minutes) + usize::from(seconds));
    let text = value.get(..length).ok_or(Problem::Bad)?;
    let parts = || text[3..].chunks(width);
    if colon && parts().any(|part| part[0] != b':') {
        return Err(Problem::Bad);
    }
    // A part that cannot be read is 0, and nothing after it is read. A number out of range is reported before that, and
    // before a wrong sign; of several, the last one is reported.
    let mut numbers = [0; 3];
    let mut bad = false;
    for (number, part) in numbers.iter_mut().zip(std::iter::once(&text[1..3]).chain(parts())) {
        let Ok((n, _)) = fixed(&part[part.len() - 2..], 2) else {
            bad = true;
            break;
        };
        *number = n;
    }
    let [hour, minute, second] = numbers;
    let limits = [
        ("time zone offset second", second, 60),
        ("time zone offset minute", minute, 60),
        ("time zone offset hour", hour, 24),
    ];
    if let Some((what, ..)) = limits.into_iter().find(|(_, number, limit)| number > limit) {
        return Err(Problem::Range(what));
    }
    let size = i32::try_from(hour * 3600 + minute * 60 + second).unwrap_or(0);
    f.offset = Some(match text[0] {
        _ if bad => return Err(Problem::Bad),
        b'+' => size,
        b'-' => -size,
        _ => return Err(Problem::Bad),
    });
    Ok(&value[length..])
}

/// The length of a zone's abbreviation, as Go's `parseTimeZone` guesses it.
fn abbreviation(value: &[u8]) -> Option<usize> {
    if value.len() < 3 {
        return None;
    }
    if value.starts_with(b"ChST") || value.starts_with(b"MeST") {
        return Some(4);
    }
    let signed = |rest: &[u8]| -> usize {
        let [b'+' | b'-', rest @ ..] = rest else { return 0 };
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let hours = rest[..digits].iter().fold(0_u32, |n, b| n.saturating_mul(10).saturating_add(u32::from(b - b'0')));
        if digits > 0 && hours <= 23 { digits + 1 } else { 0 }
    };
    if let Some(offset) = value.strip_prefix(b"GMT") {
        return Some(3 + signed(offset));
    }
    if matches!(value, [b'+' | b'-', ..]) {
        return Some(signed(value)).filter(|&n| n > 0);
    }
    let letters = value.iter().take(6).take_while(|b| b.is_ascii_uppercase()).count();
    match letters {
        5 if value[4] == b'T' => Some(5),
        4 if value[3] == b'T' || value.starts_with(b"WITA") => Some(4),
        3 => Some(3),
        _ => None,
    }
}

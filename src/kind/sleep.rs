//! When a release sleeps: its workloads have no pods, and its data stays.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::cron::Cron;
use crate::object::field_error::FieldError;

/// The words between the parts of a schedule.
const UNTIL: &str = " until ";
const IN: &str = " in ";

/// When a release sleeps.
///
/// As text: `true`, `false`, or `SCHEDULE until SCHEDULE`, with ` in ZONE` at the end for another time zone than UTC, such as
/// `0 20 * * 1-5 until 0 7 * * 1-5 in Europe/Berlin`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Sleep {
    #[default]
    Never,
    Always,
    /// From the times of one schedule to those of another.
    Scheduled(Box<Window>),
}

/// Two schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    text: Box<str>,
    sleep: Cron,
    wake: Cron,
}

impl Sleep {
    /// Reads the text.
    pub fn read(text: &str) -> Result<Self, FieldError> {
        match text {
            "true" => return Ok(Self::Always),
            "false" => return Ok(Self::Never),
            _ => {}
        }
        let form = "true, false or a pair of schedules, such as 0 20 * * * until 0 7 * * *";
        let wrong = || FieldError::is_not(format!("{text:?}"), form);
        let (sleep, rest) = text.split_once(UNTIL).ok_or_else(wrong)?;
        let (wake, zone) = rest.rsplit_once(IN).unwrap_or((rest, ""));
        Self::scheduled(sleep, wake, zone)
    }

    /// From the times of the schedule `sleep` to those of `wake`; `zone` is a name of the tz database, empty for UTC.
    pub fn scheduled(sleep: &str, wake: &str, zone: &str) -> Result<Self, FieldError> {
        let parse = |text: &str| match text.trim() {
            every if every.starts_with("@every") => {
                Err(FieldError::clause(format!("{every:?}"), "has no time of the day"))
            }
            text => Cron::parse(text, zone),
        };
        let zone = if zone.is_empty() { String::new() } else { format!("{IN}{zone}") };
        let text = format!("{}{UNTIL}{}{zone}", sleep.trim(), wake.trim()).into();
        Ok(Self::Scheduled(Box::new(Window { text, sleep: parse(sleep)?, wake: parse(wake)? })))
    }

    /// Whether the release never sleeps.
    pub fn is_never(&self) -> bool {
        *self == Self::Never
    }

    /// Whether it sleeps at a time, in seconds since 1970: the next change is then that it wakes. A release whose schedules have no
    /// time that still comes is awake.
    pub fn is_asleep(&self, now: i64) -> bool {
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::Scheduled(window) => match (window.sleep.next(now), window.wake.next(now)) {
                (Some(sleep), Some(wake)) => wake < sleep,
                (None, wake) => wake.is_some(),
                (Some(_), None) => false,
            },
        }
    }

    /// When the schedules are due next after a time, in seconds since 1970.
    pub fn next_change(&self, now: i64) -> Option<i64> {
        let Self::Scheduled(window) = self else { return None };
        window.sleep.next(now).into_iter().chain(window.wake.next(now)).min()
    }
}

impl fmt::Display for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "false",
            Self::Always => "true",
            Self::Scheduled(window) => &window.text,
        })
    }
}

impl From<Sleep> for String {
    fn from(sleep: Sleep) -> Self {
        sleep.to_string()
    }
}

impl TryFrom<String> for Sleep {
    type Error = FieldError;

    fn try_from(text: String) -> Result<Self, FieldError> {
        Self::read(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::Sleep;

    fn at(time: &str) -> i64 {
        time.parse::<jiff::Timestamp>().unwrap().as_second()
    }

    #[test]
    fn a_release_sleeps_between_its_schedules() {
        let sleep = Sleep::read("0 20 * * 1-5 until 0 7 * * 1-5 in Europe/Berlin").unwrap();
        // 2026-11-30 is a Monday. Berlin is an hour ahead of UTC.
        for (time, asleep, change) in [
            ("2026-11-30T05:59:59Z", true, "2026-11-30T06:00:00Z"),
            ("2026-11-30T06:00:00Z", false, "2026-11-30T19:00:00Z"),
            ("2026-11-30T18:59:59Z", false, "2026-11-30T19:00:00Z"),
            ("2026-11-30T19:00:00Z", true, "2026-12-01T06:00:00Z"),
            ("2026-12-05T12:00:00Z", true, "2026-12-07T06:00:00Z"),
        ] {
            assert_eq!((sleep.is_asleep(at(time)), sleep.next_change(at(time))), (asleep, Some(at(change))), "{time}");
        }
        assert_eq!(Sleep::read(&sleep.to_string()), Ok(sleep));
    }

    #[test]
    fn a_release_without_a_time_to_wake_is_awake() {
        let never = Sleep::read("0 20 * * * until 0 7 30 2 *").unwrap();
        assert!(!never.is_asleep(at("2026-11-30T21:00:00Z")));
        assert!(Sleep::Always.is_asleep(0) && !Sleep::Never.is_asleep(0));
        assert_eq!((Sleep::Always.next_change(0), Sleep::Never.next_change(0)), (None, None));
    }

    #[test]
    fn a_text_that_is_not_a_schedule_is_refused() {
        for (text, part) in [
            ("yes", "not true, false or a pair"),
            ("0 20 * * *", "a pair of schedules"),
            ("0 20 * * * until", "a pair of schedules"),
            ("0 20 * * until 0 7 * * *", "has 4 fields"),
            ("@every 1h until 0 7 * * *", "no time of the day"),
            ("0 20 * * * until 0 7 * * * in Mars", "not a time zone"),
        ] {
            let error = Sleep::read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

//! The answers of github.com/robfig/cron v3.0.1, recorded in `tests/data/cron.jsonl`.

use super::Cron;
use serde_json::Value;

fn seconds(time: &Value) -> i64 {
    time.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_second()
}

fn table() -> Vec<Value> {
    let text = include_str!("../../tests/data/cron.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_schedule_is_due_when_the_library_of_kubernetes_says() {
    let mut valid = 0;
    for row in table().iter().filter(|row| row["invalid"] != true) {
        let zone = row["zone"].as_str().unwrap_or_default();
        let cron = Cron::parse(row["schedule"].as_str().unwrap(), zone).unwrap_or_else(|e| panic!("{row}: {e}"));
        let mut at = seconds(&row["after"]);
        for expected in row["next"].as_array().into_iter().flatten() {
            let next = cron.next(at).unwrap_or_else(|| panic!("{row}: none after {at}"));
            assert_eq!(jiff::Timestamp::from_second(next).unwrap().to_string(), expected.as_str().unwrap(), "{row}");
            at = next;
        }
        if row.get("next").is_none() {
            assert_eq!(cron.next(at), None, "{row}");
        }
        valid += 1;
    }
    assert!(valid > 500, "{valid}");
}

#[test]
fn what_that_library_refuses_is_refused() {
    let mut refused = 0;
    for row in table().iter().filter(|row| row["invalid"] == true) {
        let cron = Cron::parse(row["schedule"].as_str().unwrap(), "");
        assert!(cron.is_err(), "{row}");
        refused += 1;
    }
    assert!(refused > 30, "{refused}");
}

#[test]
fn a_refusal_names_the_field_and_what_it_may_be() {
    for (text, zone, expected) in [
        ("* * *", "", r#""* * *" has 3 fields; a schedule has five"#),
        ("61 * * * *", "", r#""61 * * * *": minute "61": it goes from 0 to 59"#),
        ("* * * foo *", "", r#""* * * foo *": month "foo": "foo" is not a number"#),
        ("CRON_TZ=UTC * * * * *", "", r#""CRON_TZ=UTC * * * * *": set the time zone in its own annotation"#),
        ("@hourly", "europe/berlin", r#""europe/berlin" is not a time zone; an example is Europe/Berlin"#),
    ] {
        assert_eq!(Cron::parse(text, zone).unwrap_err().to_string(), expected);
    }
}

/// However long the pause between two passes is, it was due only once.
#[test]
fn the_latest_time_is_found_whatever_was_missed() {
    let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_second();
    let table = [
        ("* * * * *", "2026-11-22T12:00:30Z", "2026-11-22T12:00:59Z", None),
        ("* * * * *", "2026-11-22T12:00:30Z", "2026-11-22T12:01:00Z", Some("2026-11-22T12:01:00Z")),
        ("* * * * *", "2020-01-01T00:00:00Z", "2026-11-22T12:01:59Z", Some("2026-11-22T12:01:00Z")),
        ("0 3 * * *", "2026-11-20T03:00:00Z", "2026-11-22T02:59:59Z", Some("2026-11-21T03:00:00Z")),
        ("0 0 29 2 *", "2023-01-01T00:00:00Z", "2027-12-31T00:00:00Z", Some("2024-02-29T00:00:00Z")),
        ("0 0 30 2 *", "2023-01-01T00:00:00Z", "2027-12-31T00:00:00Z", None),
        ("@every 90s", "2026-11-22T12:00:00Z", "2026-11-22T12:05:00Z", Some("2026-11-22T12:04:30Z")),
    ];
    for (text, after, now, expected) in table {
        let cron = Cron::parse(text, "").unwrap();
        assert_eq!(cron.latest(at(after), at(now)), expected.map(at), "{text} {after} {now}");
    }
}

/// Here the original never ends.
#[test]
fn a_zone_that_leaps_over_a_day_holds_nobody_up() {
    let cron = Cron::parse("0 3 * * sun", "Pacific/Apia").unwrap();
    let _ = cron.next("2011-12-29T05:00:00Z".parse::<jiff::Timestamp>().unwrap().as_second());
}

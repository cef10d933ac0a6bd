//! Which copy and which logs lead to a point in time. A log fits if the writes that have to be before it exist; a log
//! that does not fit shows a gap.

use jiff::Timestamp;

use super::BackupError;
use super::archive::End;
use super::record::{Copy, Log};
use crate::agent::position::Position;
use crate::agent::stored::Until;

/// Whether a restore up to there can begin with a copy.
pub fn fits(copy: &Copy, until: Option<&Until>) -> bool {
    match until {
        None | Some(Until::End) => true,
        Some(Until::Time(time)) => copy.ended.as_second() <= *time,
        Some(Until::Write(write)) => !copy.reached.contains(write),
    }
}

/// The logs that are needed after a copy, in their order. `all` is every good log of its data.
pub fn logs<'a>(
    copy: &Copy,
    all: &'a [(String, Log)],
    end: Option<&End>,
    until: &Until,
) -> Result<Vec<&'a str>, BackupError> {
    let not_good = |why: String| Err(BackupError::NotGood(why));
    let is_wanted = |log: &Log| !matches!(until, Until::Time(time) if log.first.as_second() > *time);
    let mut has = copy.position.clone();
    let mut names = Vec::new();
    let is_over = |has: &Position| matches!(until, Until::Write(write) if has.contains(write));
    while !is_over(&has) {
        let fits = |log: &Log| has.contains(&log.after) && !has.contains(&log.writes) && is_wanted(log);
        let Some((name, log)) = all.iter().find(|(_, log)| fits(log)) else { break };
        names.push(name.as_str());
        has = has.with(&log.writes);
    }
    if is_over(&has) {
        return Ok(names);
    }
    let lost = all.iter().find(|(_, log)| !has.contains(&log.writes) && is_wanted(log));
    if let Some((name, log)) = lost {
        return not_good(format!(
            "the archive has a gap: the writes after {has} and up to {}, where {name} begins, are missing",
            log.after
        ));
    }
    let shown = |time: &Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    match (until, end) {
        (Until::Write(write), _) => not_good(format!("the write {write} is not in the archive, which ends at {has}")),
        (_, None) => not_good("there is no archive of the writes after this copy".to_owned()),
        (Until::Time(time), Some(end)) if end.seen.as_second() < *time => {
            not_good(format!("writes are known until {}: the archive ends there", shown(&end.seen)))
        }
        (_, Some(end)) if !has.contains(&end.has) => {
            // Logs that begin after the time are not needed.
            if matches!(until, Until::Time(_)) {
                Ok(names)
            } else {
                not_good(format!("the archive has a gap: it ends at {}, and its logs lead to {has}", end.has))
            }
        }
        _ => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    use super::{fits, logs};
    use crate::agent::stored::{Form, Until};
    use crate::backup::archive::End;
    use crate::backup::record::{Copy, Log};
    use jiff::Timestamp;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn copy(position: &str, reached: &str, ended: i64) -> Copy {
        Copy {
            form: Form::Physical,
            data: "d".into(),
            database_version: "10.11.19".into(),
            member: "db-1".into(),
            position: position.parse().unwrap(),
            reached: reached.parse().unwrap(),
            ended: at(ended),
            headers: std::collections::BTreeMap::new(),
        }
    }

    fn log(after: &str, writes: &str, first: i64, last: i64) -> (String, Log) {
        let log = Log {
            data: "d".into(),
            after: after.parse().unwrap(),
            writes: writes.parse().unwrap(),
            first: at(first),
            last: at(last),
        };
        (writes.to_owned(), log)
    }

    #[test]
    fn logs_lead_from_the_copy_to_the_target_or_there_is_a_gap() {
        let copy = copy("0-1:1-15", "0-1:1-18", 100);
        let all = [
            log("", "0-1:1-10", 10, 20),
            log("0-1:1-10", "0-1:11-20", 90, 110),
            log("0-1:1-20", "0-1:21-30", 111, 120),
            // The same again, after a run that was killed.
            log("0-1:1-20", "0-1:21-28", 111, 118),
            log("0-1:1-30", "0-2:31-40", 130, 140),
        ];
        let end = End { data: "d".into(), has: "0-1:1-30,0-2:31-40".parse().unwrap(), seen: at(200) };
        let found = |all: &[(String, Log)], until: &Until| match logs(&copy, all, Some(&end), until) {
            Ok(names) => names.join(" "),
            Err(error) => error.to_string(),
        };
        let write = |text: &str| Until::Write(text.parse().unwrap());
        assert_eq!(found(&all, &Until::End), "0-1:11-20 0-1:21-30 0-2:31-40");
        assert_eq!(found(&all, &Until::Time(115)), "0-1:11-20 0-1:21-30");
        assert_eq!(found(&all, &Until::Time(200)), "0-1:11-20 0-1:21-30 0-2:31-40");
        assert_eq!(found(&all, &write("0-1:20")), "0-1:11-20");
        assert_eq!(found(&all, &write("0-2:33")), "0-1:11-20 0-1:21-30 0-2:31-40");
        for (until, error) in [(Until::Time(201), "known until"), (write("0-2:41"), "not in the archive")] {
            assert!(found(&all, &until).contains(error), "{}", found(&all, &until));
        }
        let gap = [all[1].clone(), all[4].clone()];
        assert!(
            found(&gap, &Until::End).contains("after 0-1:1-20 and up to 0-1:1-30, where 0-2:31-40 begins, are missing"),
            "{}",
            found(&gap, &Until::End)
        );
        assert!(found(&gap, &Until::Time(150)).contains("gap") && found(&gap, &write("0-2:31")).contains("gap"));
        assert_eq!(found(&gap, &Until::Time(105)), "0-1:11-20", "what is missing was written later");
        assert!(found(&all[..3], &Until::End).contains("it ends at"), "the last log is gone");
        assert!(logs(&copy, &[], None, &Until::End).is_err());
    }

    #[test]
    fn a_copy_that_may_have_more_than_is_wanted_does_not_fit() {
        let copy = copy("0-1:1-15", "0-1:1-18", 100);
        for (until, expected) in [
            (None, true),
            (Some(Until::End), true),
            (Some(Until::Time(100)), true),
            (Some(Until::Time(99)), false),
            (Some(Until::Write("0-1:19".parse().unwrap())), true),
            (Some(Until::Write("0-1:17".parse().unwrap())), false),
        ] {
            assert_eq!(fits(&copy, until.as_ref()), expected, "{until:?}");
        }
    }
}

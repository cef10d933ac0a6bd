//! Which backups are deleted.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::record::BackupState;
use super::shelf::{Backup, Condition};

/// A process that stores a backup has finished or died after this time.
const UNFINISHED: SignedDuration = SignedDuration::from_hours(24);

/// How long backups are kept. One is deleted when neither keeps it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy {
    /// The newest so many.
    pub last: Option<usize>,
    /// Those that are not older than this.
    pub newer_than: Option<Duration>,
}

/// The backups to delete, of `backups` from new to old:
/// - good ones that the policy does not keep, but never the newest good one of the prefix or of any cluster: if a
///   cluster was lost and an empty one has taken its name, empty backups do not push out the remaining backups of the
///   first;
/// - unfinished ones that no process can still be storing.
///
/// Damaged ones, and those without a record, are for a human to decide on.
pub fn expired(backups: &[Backup], policy: Policy, now: Timestamp) -> Vec<&Backup> {
    let age = |backup: &Backup| backup.time().map_or(SignedDuration::ZERO, |time| now.duration_since(time));
    let mut clusters = BTreeSet::new();
    let mut good = 0;
    let kept = |backup: &&Backup| match (&backup.condition, &backup.record) {
        (Condition::Good, Some(record)) => {
            good += 1;
            let newest_of_cluster = clusters.insert(record.cluster().to_owned());
            let unlimited = policy.last.is_none() && policy.newer_than.is_none();
            let newer =
                policy.newer_than.is_some_and(|newer| age(backup).unsigned_abs() <= newer || age(backup).is_negative());
            newest_of_cluster || unlimited || policy.last.is_some_and(|last| good <= last) || newer
        }
        (Condition::Unfinished, Some(record)) => record.state == BackupState::Verified || age(backup) < UNFINISHED,
        _ => true,
    };
    let mut kept = kept;
    backups.iter().filter(|backup| !kept(backup)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::{SignedDuration, Timestamp};

    use super::{Policy, expired};
    use crate::backup::inspect::{Contents, Sum};
    use crate::backup::record::{BackupState, Record};
    use crate::backup::shelf::{Backup, Condition};

    fn backup(hours: i64, cluster: u64, condition: Condition) -> Backup {
        let contents = Contents { revision: 1, keys: 0, hash: 0, storage_version: None };
        let time = now() - SignedDuration::from_hours(hours);
        let mut record = Record::new(time, &Sum { size: 32, sha256: String::new() }, &contents, "3.6.16", cluster);
        if condition != Condition::Unfinished {
            record.state = BackupState::Verified;
        }
        Backup { name: format!("{hours}"), condition, record: Some(record) }
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).expect("it is a time")
    }

    fn names(backups: &[Backup], policy: Policy) -> Vec<String> {
        expired(backups, policy, now()).into_iter().map(|backup| backup.name.clone()).collect()
    }

    fn last(last: usize) -> Policy {
        Policy { last: Some(last), newer_than: None }
    }

    #[test]
    fn the_newest_good_ones_are_kept() {
        let good: Vec<_> = (1..=4).map(|hours| backup(hours, 7, Condition::Good)).collect();
        assert_eq!(names(&good, last(2)), ["3", "4"]);
        assert_eq!(names(&good, Policy { last: None, newer_than: Some(Duration::from_secs(3 * 3600)) }), ["4"]);
        let both = Policy { last: Some(1), newer_than: Some(Duration::from_secs(2 * 3600)) };
        assert_eq!(names(&good, both), ["3", "4"]);
        assert!(names(&good, Policy::default()).is_empty(), "without a policy nothing goes");
        assert_eq!(names(&good, last(0)), ["2", "3", "4"], "the newest good one stays");
        assert_eq!(names(&good, Policy { last: None, newer_than: Some(Duration::ZERO) }), ["2", "3", "4"]);
    }

    #[test]
    fn only_good_ones_count() {
        let damaged = || Condition::Damaged("it is away".into());
        let all = [
            backup(1, 7, damaged()),
            backup(2, 7, Condition::Unfinished),
            backup(3, 7, Condition::Good),
            backup(4, 7, Condition::Good),
        ];
        assert_eq!(names(&all, last(1)), ["4"]);
        assert!(names(&all[..3], last(1)).is_empty());
    }

    #[test]
    fn the_last_of_another_cluster_is_kept() {
        let all = [
            backup(1, 8, Condition::Good),
            backup(2, 8, Condition::Good),
            backup(3, 7, Condition::Good),
            backup(4, 7, Condition::Good),
        ];
        assert_eq!(names(&all, last(1)), ["2", "4"]);
    }

    #[test]
    fn an_unfinished_one_goes_after_a_day() {
        let all =
            [backup(1, 7, Condition::Good), backup(23, 7, Condition::Unfinished), backup(25, 7, Condition::Unfinished)];
        assert_eq!(names(&all, last(5)), ["25"]);
    }

    #[test]
    fn what_has_no_record_is_not_ours() {
        let foreign = Backup { name: "theirs".into(), condition: Condition::Unknown, record: None };
        assert!(names(&[backup(1, 7, Condition::Good), foreign], last(1)).is_empty());
    }
}

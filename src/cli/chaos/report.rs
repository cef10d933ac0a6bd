//! The report at the end.

use std::fmt::Write;

use crate::chaos::history::Availability;
use crate::chaos::run::ChaosReport;
use crate::cli::common::error::CliError;

/// How writes fared, all in all and with each fault.
pub(super) fn text(report: &ChaosReport, name: &str) -> String {
    let mut text = String::new();
    for (fault, seen) in &report.faults {
        let _ = writeln!(text, "{}: longest gap {:.3?}, {}", fault.words(name), seen.longest_gap, counts(seen));
    }
    let total = &report.total;
    let _ = writeln!(
        text,
        "{} faults; writes: {}; longest gap {:.3?}",
        report.faults.len(),
        counts(total),
        total.longest_gap
    );
    let _ = writeln!(text, "acknowledged writes that are lost: {}", report.recorded.lost.len());
    text
}

fn counts(seen: &Availability) -> String {
    format!("{} acknowledged, {} failed, {} unknown", seen.acknowledged, seen.failed, seen.unknown)
}

/// Whether all is as it should be.
pub(super) fn verdict(report: &ChaosReport) -> Result<(), CliError> {
    let mut wrong = report.trouble.clone();
    match report.recorded.lost.as_slice() {
        [] => {}
        [first, ..] => wrong.push(format!("acknowledged writes are lost, such as {first}")),
    }
    if report.total.acknowledged == 0 {
        wrong.push("no write was acknowledged".into());
    }
    if wrong.is_empty() { Ok(()) } else { Err(CliError(wrong.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::{text, verdict};
    use crate::chaos::history::Availability;
    use crate::chaos::plan::{Fault, FaultKind};
    use crate::chaos::record::Recorded;
    use crate::chaos::run::ChaosReport;
    use std::time::Duration;

    #[test]
    fn a_lost_write_and_members_that_stay_ill_are_failures() {
        let seen = Availability { acknowledged: 12, failed: 1, unknown: 2, longest_gap: Duration::from_millis(1500) };
        let fault = Fault { kind: FaultKind::Pause, members: vec![1], operator: true, lasts: Duration::from_secs(4) };
        let recorded = Recorded { entries: Vec::new(), lost: Vec::new() };
        let mut report = ChaosReport { recorded, faults: vec![(fault, seen)], total: seen, trouble: Vec::new() };
        assert_eq!(
            text(&report, "my"),
            "pause my-1 for 4 s and the operator: longest gap 1.500s, 12 acknowledged, 1 failed, 2 unknown\n\
             1 faults; writes: 12 acknowledged, 1 failed, 2 unknown; longest gap 1.500s\n\
             acknowledged writes that are lost: 0\n"
        );
        assert_eq!(verdict(&report), Ok(()));
        report.trouble.push("not well".into());
        report.recorded.lost.push("a/1".into());
        assert_eq!(verdict(&report), Err("not well; acknowledged writes are lost, such as a/1".into()));
        let silent = ChaosReport { total: Availability::default(), trouble: Vec::new(), ..report };
        assert!(verdict(&silent).unwrap_err().0.contains("no write"));
    }
}

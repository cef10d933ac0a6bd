//! The report as a table.

use super::report::{FleetReport, object, values};
use crate::cli::common::table::table;
use std::fmt::Write as _;

/// Characters of a value.
const LONGEST: usize = 50;

/// The report as a table, with a summary before it and random fields after it.
pub fn text(report: &FleetReport) -> String {
    let mut rows = vec![["EFFECT", "OBJECT", "CUSTOM RESOURCES", "CHANGE"].map(str::to_owned).to_vec()];
    for group in &report.groups {
        let mut head =
            [group.effect.word().to_owned(), object(&group.subject), report.members(&group.members), String::new()];
        for field in &group.fields {
            head[3] = values(field, LONGEST);
            rows.push(head.to_vec());
            head = [const { String::new() }; 4];
        }
    }
    let mut text = report.summary() + "\n";
    if rows.len() > 1 {
        text += "\n";
        text += &table(&rows);
    }
    let left_out = report.left_out();
    if !left_out.is_empty() {
        text += "\n";
    }
    for sentence in left_out {
        let _ = writeln!(text, "{sentence}");
    }
    text
}

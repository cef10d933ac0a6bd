//! The report with all values, as a patch has them.

use super::report::{FleetReport, object};
use crate::cli::common::line::line;
use crate::cli::common::unified::unified;
use crate::fleet::effect::Effect;
use crate::fleet::groups::{FleetGroup, GroupField};
use std::fmt::Write as _;

/// Custom resources that are named.
const NAMED: usize = 20;

/// The report as text.
pub fn text(report: &FleetReport) -> String {
    let mut text = format!("# {}\n", report.summary());
    for group in &report.groups {
        let names = report.names(&group.members, NAMED).join(", ");
        let more = match group.members.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (object, sentence) = (object(&group.subject), group.effect.sentence());
        let _ = writeln!(text, "\n# {}: {object} {sentence}\n# {names}{more}", group.effect.word());
        text += &changes(group);
    }
    for sentence in report.left_out() {
        let _ = writeln!(text, "\n# {sentence}");
    }
    text
}

/// The fields of a group as lines of a patch.
pub fn changes(group: &FleetGroup) -> String {
    let mut text = String::new();
    if let (Effect::Created, Some(body)) = (group.effect, &group.body) {
        for shown in body.lines() {
            let _ = writeln!(text, "+{}", line(shown));
        }
        return text;
    }
    for field in &group.fields {
        write_field(&mut text, field);
    }
    text
}

fn write_field(text: &mut String, field: &GroupField) {
    let path = line(&field.path);
    let has_lines = |side: &Option<String>| side.as_ref().is_some_and(|side| side.trim_end().contains('\n'));
    if has_lines(&field.before) || has_lines(&field.after) {
        let side = |side: &Option<String>| side.clone().unwrap_or_default();
        let _ = writeln!(text, "# {path}");
        for (_, shown) in unified(&side(&field.before), &side(&field.after)) {
            let _ = writeln!(text, "{}", line(&shown));
        }
        return;
    }
    let _ = match (&field.before, &field.after) {
        (None, None) if path.is_empty() => Ok(()),
        (None, None) => writeln!(text, "# {path}"),
        (None, Some(reason)) if path.is_empty() => writeln!(text, "# {}", line(reason)),
        (before, after) => {
            let mut sides =
                [('-', before), ('+', after)].into_iter().filter_map(|(sign, side)| Some((sign, side.as_ref()?)));
            sides.try_for_each(|(sign, side)| writeln!(text, "{sign}{path}: {}", line(side)))
        }
    };
    if field.varies {
        let _ = writeln!(text, "# each custom resource has values of its own for {path}");
    }
}

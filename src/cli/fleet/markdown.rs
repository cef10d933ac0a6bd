//! The report for the comment of a pull request, folded and at most 64 KiB long.

use super::patch::changes;
use super::report::{FleetReport, counted, object};
use crate::cli::common::line::line;
use crate::fleet::groups::FleetGroup;
use std::fmt::Write as _;

/// Bytes of a comment: GitHub takes 65,536 characters.
const MOST: usize = 64 << 10;
/// Bytes that are left for the sentence about changes that do not fit.
const RESERVE: usize = 512;
/// Bytes of the lines of one change.
const LARGEST: usize = 8 << 10;
/// Characters of a line.
const WIDEST: usize = 400;
/// Custom resources that are named.
const NAMED: usize = 20;
/// Notes, and random fields.
const REMARKS: usize = 20;

/// The report as Markdown.
pub fn text(report: &FleetReport) -> String {
    let mut text = format!("**{}**\n", escaped(&report.summary()));
    let (hurting, others): (Vec<&FleetGroup>, Vec<&FleetGroup>) =
        report.groups.iter().partition(|group| group.effect.hurts());
    let mut sections = Vec::new();
    for (title, groups) in [("Changes that hurt", hurting), ("Other changes", others)] {
        for (number, group) in groups.into_iter().enumerate() {
            let title = if number == 0 { format!("\n### {title}\n") } else { String::new() };
            sections.push(title + &section(report, group));
        }
    }
    let remarks = remarks(report);
    let room = MOST - RESERVE - remarks.len();
    let total = sections.len();
    for (number, section) in sections.into_iter().enumerate() {
        if text.len() + section.len() > room {
            let left = counted(total - number, "change");
            let _ = writeln!(text, "\n{left} more: this comment has no room for them. `--output diff` prints all.");
            break;
        }
        text += &section;
    }
    text + &remarks
}

/// One change, folded.
fn section(report: &FleetReport, group: &FleetGroup) -> String {
    let count = counted(group.members.len(), "custom resource");
    let mut text = format!(
        "<details><summary><b>{}</b>: <code>{}</code> {} ({count})</summary>\n\n",
        group.effect.word(),
        escaped(&object(&group.subject)),
        escaped(&group.effect.sentence().replace('`', "")),
    );
    let body = bounded(&changes(group));
    if !body.is_empty() {
        let fence = fence(&body);
        let _ = write!(text, "{fence}diff\n{body}{fence}\n\n");
    }
    let names: Vec<String> =
        report.names(&group.members, NAMED).iter().map(|name| format!("<code>{}</code>", escaped(name))).collect();
    let more = match group.members.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let _ = write!(text, "<p>{}{more}</p>\n</details>\n", names.join(", "));
    text
}

/// The first lines of a change.
fn bounded(text: &str) -> String {
    let mut out = String::new();
    for (number, line) in text.lines().enumerate() {
        if out.len() > LARGEST {
            let _ = writeln!(out, "# {} more", counted(text.lines().count() - number, "line"));
            break;
        }
        out += &super::report::cut(line, WIDEST);
        out.push('\n');
    }
    out
}

/// A fence that is longer than all others in a text.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat((longest + 1).max(3))
}

/// Notes and random fields, of which some are named.
fn remarks(report: &FleetReport) -> String {
    let all: Vec<String> = report.notes.iter().cloned().chain(report.left_out()).collect();
    if all.is_empty() {
        return String::new();
    }
    let mut text = "\n### Notes\n<ul>\n".to_owned();
    for remark in all.iter().take(REMARKS) {
        let _ = writeln!(text, "<li>{}</li>", escaped(&super::report::cut(&line(remark), WIDEST)));
    }
    if let Some(more) = all.len().checked_sub(REMARKS).filter(|more| *more > 0) {
        let _ = writeln!(text, "<li>{more} more: `--output json` prints all</li>");
    }
    text + "</ul>\n"
}

/// A text in HTML, which can neither end a tag nor mention a person.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '@' => out += "&#64;",
            '`' | '*' | '_' | '[' | ']' | '\\' | '|' => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{bounded, escaped, fence};

    #[test]
    fn a_text_of_a_tenant_cannot_leave_its_place() {
        assert_eq!(escaped("</code>@all `x` & [a](b)"), "&lt;/code&gt;&#64;all &#96;x&#96; &amp; &#91;a&#93;(b)");
        assert_eq!(fence("a ```` b ` c"), "`````");
        assert_eq!(fence("a"), "```");
    }

    #[test]
    fn a_long_change_is_cut_and_says_so() {
        let long = bounded(&"x\n".repeat(20_000));
        assert!(long.len() < 10_000 && long.ends_with(" lines more\n"), "{}", long.len());
        assert!(bounded(&"x".repeat(100_000)).chars().count() < 500);
    }
}

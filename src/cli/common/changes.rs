//! The changes of the next pass, as text and as a document.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::line::{line, lines};
use super::unified::{Mark, unified};
use crate::reconcile::preview::{Fate, ObjectChange, Preview};

/// The messages for standard error.
pub fn notes(preview: &Preview) {
    for note in &preview.notes {
        eprintln!("note: {}", line(note));
    }
    if matches!(preview.state.0, "Refused" | "Awaiting" | "Waiting" | "Blocked") {
        eprintln!("note: {}: {}", preview.state.0, line(&preview.state.1));
    }
}

/// The changes as text.
pub fn text(preview: &Preview, color: bool) -> String {
    let mut text = String::new();
    for change in &preview.changes {
        write_change(&mut text, change, color);
    }
    text
}

fn write_change(text: &mut String, change: &ObjectChange, color: bool) {
    let paint = |code: &'static str, line: &str| {
        if color { format!("\u{1b}[{code}m{line}\u{1b}[0m") } else { line.to_owned() }
    };
    let id = line(&change.id.to_string());
    let head = match &change.fate {
        Fate::Recreated(fields) => format!("{id} is recreated, since {} cannot be changed", line(fields)),
        Fate::Refused(why) => format!("{id} is refused: {}", line(why)),
        fate => format!("{id} is {}", fate.word()),
    };
    let _ = writeln!(text, "{}", paint("1", &head));
    let changed = unified(&change.before, &change.after);
    if changed.is_empty() {
        return;
    }
    let _ = writeln!(text, "{}", paint("1", "--- live"));
    let _ = writeln!(text, "{}", paint("1", "+++ after the next pass"));
    for (mark, shown) in changed {
        let shown = line(&shown);
        let shown = match mark {
            Mark::Same => shown,
            Mark::Removed => paint("31", &shown),
            Mark::Added => paint("32", &shown),
            Mark::Place => paint("36", &shown),
        };
        let _ = writeln!(text, "{shown}");
    }
}

/// The same as a document.
pub fn document(preview: &Preview) -> Value {
    let change = |change: &ObjectChange| {
        let diff: Vec<String> = unified(&change.before, &change.after).into_iter().map(|(_, line)| line).collect();
        let why = match &change.fate {
            Fate::Recreated(fields) => Some(fields.clone()),
            Fate::Refused(why) => Some(why.clone()),
            _ => None,
        };
        let id = &change.id;
        json!({"apiVersion": id.gvk.api_version(), "kind": &*id.gvk.kind, "namespace": id.namespace.as_deref(), "name": &*id.name,
            "change": change.fate.word(), "reason": why, "diff": lines(&diff.join("\n"))})
    };
    json!({
        "state": preview.state.0, "message": preview.state.1, "action": format!("{:?}", preview.verb), "revision": preview.revision,
        "changes": preview.changes.iter().map(change).collect::<Vec<_>>(), "unchanged": preview.unchanged, "notes": preview.notes,
        "error": preview.error,
    })
}

#[cfg(test)]
mod tests {
    use super::{Fate, ObjectChange, write_change};
    use crate::object::{Gvk, ObjectId};

    fn change(fate: Fate, before: &str, after: &str) -> ObjectChange {
        let id = ObjectId { gvk: Gvk::new("apps", "v1", "Deployment"), namespace: Some("ns".into()), name: "a".into() };
        ObjectChange { id, fate, before: before.into(), after: after.into(), is_mark: false }
    }

    fn text(change: &ObjectChange, color: bool) -> String {
        let mut text = String::new();
        write_change(&mut text, change, color);
        text
    }

    #[test]
    fn a_change_is_a_unified_diff_and_in_colours_on_a_terminal() {
        let change = change(Fate::Changed, "a: 1\nb: 2\n", "a: 1\nb: 3\n");
        let plain = text(&change, false);
        assert_eq!(
            plain,
            "Deployment a is changed\n--- live\n+++ after the next pass\n@@ -1,2 +1,2 @@\n a: 1\n-b: 2\n+b: 3\n"
        );
        let coloured = text(&change, true);
        assert!(coloured.contains("\u{1b}[31m-b: 2\u{1b}[0m\n") && coloured.contains("\u{1b}[32m+b: 3"), "{coloured}");
    }

    #[test]
    fn what_a_tenant_wrote_moves_no_cursor() {
        let change = change(Fate::Refused("no\u{1b}[2J".into()), "a: \u{1b}[2J\n", "");
        assert!(!text(&change, false).contains('\u{1b}'));
    }
}

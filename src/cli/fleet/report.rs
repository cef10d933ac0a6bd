//! The report about a fleet, and its form as a document.

use super::sides::FleetCase;
use super::work::CaseResult;
use crate::cli::common::line::{line, lines};
use crate::fleet::findings::FleetSubject;
use crate::fleet::groups::{FleetGroup, GroupField, group};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Custom resources that are named one by one.
const NAMED: usize = 3;

/// The effect of a change on all custom resources.
pub struct FleetReport {
    /// The names of the custom resources.
    names: Vec<String>,
    /// Their kinds, namespaces and names.
    ids: Vec<Value>,
    /// The changes, those that hurt first.
    pub groups: Vec<FleetGroup>,
    /// Random fields, which were not compared, each with the number of custom resources.
    pub by_chance: BTreeMap<(FleetSubject, String), usize>,
    /// Facts that a reader has to know.
    pub notes: Vec<String>,
}

impl FleetReport {
    /// The report about these custom resources.
    pub fn new(cases: &[FleetCase], done: Vec<CaseResult>) -> Self {
        let has_one_kind = cases.windows(2).all(|pair| pair[0].gvk.kind_group() == pair[1].gvk.kind_group());
        let name = |case: &FleetCase| {
            let name = format!("{}/{}", case.id.0, case.id.1);
            line(&if has_one_kind { name } else { format!("{} {name}", case.gvk.kind) })
        };
        let id = |case: &FleetCase| json!({"group": &*case.gvk.group, "kind": &*case.gvk.kind, "namespace": &*case.id.0, "name": &*case.id.1});
        let mut noted: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut by_chance: BTreeMap<_, usize> = BTreeMap::new();
        let mut entries = Vec::with_capacity(done.len());
        for (number, result) in done.into_iter().enumerate() {
            for note in result.notes {
                noted.entry(note).or_default().push(number);
            }
            for field in result.by_chance {
                *by_chance.entry(field).or_default() += 1;
            }
            entries.push(result.entries);
        }
        let names = cases.iter().map(name).collect();
        let mut report =
            Self { names, ids: cases.iter().map(id).collect(), groups: group(&entries), by_chance, notes: Vec::new() };
        report.notes =
            noted.into_iter().map(|(note, members)| format!("{}: {note}", report.members(&members))).collect();
        report
    }

    /// The exit code.
    pub fn exit(&self) -> i32 {
        match () {
            () if self.groups.is_empty() => 0,
            () if self.groups.iter().any(|group| group.effect.hurts()) => 3,
            () => 1,
        }
    }

    /// How much changes, in a line.
    pub fn summary(&self) -> String {
        let total = counted(self.names.len(), "custom resource");
        let mut touched = vec![false; self.names.len()];
        self.groups.iter().flat_map(|group| &group.members).for_each(|number| touched[*number] = true);
        let same = touched.iter().filter(|is_touched| !**is_touched).count();
        let hurts = self.groups.iter().filter(|group| group.effect.hurts()).count();
        match self.groups.len() {
            0 => format!("{total}: nothing changes"),
            all if same == 0 => format!("{total}: {}, {hurts} that hurt", counted(all, "change")),
            all => format!("{total}: {}, {hurts} that hurt; {same} without a change", counted(all, "change")),
        }
    }

    /// Some names of custom resources, and how many more there are.
    pub fn members(&self, members: &[usize]) -> String {
        let total = self.names.len();
        if members.len() == total && total > NAMED {
            return format!("all {total}");
        }
        let named: Vec<&str> = members.iter().take(NAMED).map(|number| self.names[*number].as_str()).collect();
        match members.len().saturating_sub(NAMED) {
            0 => named.join(", "),
            more => format!("{} and {more} more", named.join(", ")),
        }
    }

    /// The names of custom resources, at most `most` of them.
    pub fn names(&self, members: &[usize], most: usize) -> Vec<&str> {
        members.iter().take(most).map(|number| self.names[*number].as_str()).collect()
    }

    /// Sentences about random fields.
    pub fn left_out(&self) -> Vec<String> {
        let sentence = |((subject, path), count): (&(FleetSubject, String), &usize)| {
            let of = counted(*count, "custom resource");
            format!("not compared, because it is random: {} {} ({of})", object(subject), line(path))
        };
        self.by_chance.iter().map(sentence).collect()
    }

    /// The report as a document.
    pub fn document(&self) -> Value {
        let field = |field: &GroupField| {
            let side = |text: &Option<String>| text.as_deref().map(lines);
            let (before, after) = (side(&field.before), side(&field.after));
            json!({"path": line(&field.path), "now": before, "then": after, "varies": field.varies})
        };
        let change = |group: &FleetGroup| {
            let FleetSubject { group: api, kind, namespace, name } = &group.subject;
            let members: Vec<&Value> = group.members.iter().map(|number| &self.ids[*number]).collect();
            let fields: Vec<Value> = group.fields.iter().map(field).collect();
            json!({"effect": group.effect.word(), "hurts": group.effect.hurts(),
                "object": {"group": api, "kind": kind, "namespace": namespace, "name": name}, "fields": fields,
                "customResources": members})
        };
        let changes: Vec<Value> = self.groups.iter().map(change).collect();
        let random = |((subject, path), count): (&(FleetSubject, String), &usize)| json!({"object": object(subject), "path": path, "customResources": count});
        let random: Vec<Value> = self.by_chance.iter().map(random).collect();
        json!({"customResources": self.names.len(), "summary": self.summary(), "changes": changes, "random": random,
            "notes": self.notes})
    }
}

/// A number with its noun.
pub fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// The object of a group: its namespace is named if that is not the one of the release.
pub fn object(subject: &FleetSubject) -> String {
    let FleetSubject { kind, namespace, name, .. } = subject;
    line(&match (name.as_str(), namespace.as_str()) {
        ("", _) => kind.clone(),
        (name, "" | "{namespace}" | "{own namespace}") => format!("{kind} {name}"),
        (name, namespace) => format!("{kind} {namespace}/{name}"),
    })
}

/// The two values of a field in one line. A text of several lines is not shown.
pub fn values(field: &GroupField, longest: usize) -> String {
    let side = |text: &Option<String>| match text {
        None => "(none)".to_owned(),
        Some(text) if text.trim_end().contains('\n') => format!("({})", counted(text.lines().count(), "line")),
        Some(text) => cut(&line(text), longest),
    };
    let text = match (&field.before, &field.after) {
        (None, None) => line(&field.path),
        (None, Some(reason)) if field.path.is_empty() => cut(&line(reason), 2 * longest),
        _ => format!("{}: {} → {}", line(&field.path), side(&field.before), side(&field.after)),
    };
    if field.varies { format!("{text} (each its own)") } else { text }
}

/// The beginning of a text.
pub fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::values;
    use crate::fleet::groups::GroupField;

    #[test]
    fn values_are_in_one_line_and_move_no_cursor() {
        let field = |path: &str, before: Option<&str>, after: Option<&str>, varies: bool| GroupField {
            path: path.to_owned(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
            varies,
        };
        for (field, expected) in [
            (field("a.b", Some("1"), Some("2"), false), "a.b: 1 → 2"),
            (field("a", None, Some("\u{1b}[2J"), false), "a: (none) → \\u{1b}[2J"),
            (field("a", Some("x\ny\n"), None, false), "a: (2 lines) → (none)"),
            (field("a", Some("12345678901"), Some("2"), true), "a: 1234567890… → 2 (each its own)"),
            (field("", None, Some("the reason is long text"), false), "the reason is long t…"),
            (field("spec.x", None, None, false), "spec.x"),
        ] {
            assert_eq!(values(&field, 10), expected);
        }
    }
}

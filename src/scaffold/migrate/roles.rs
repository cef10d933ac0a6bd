//! The operator's rights: what its roles leave open of what Tillerman needs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::deployment::{self, Manager};
use super::documents::{self, Document};
use super::{Edit, MigrationReport, Project};
use crate::rbac::Reach;
use crate::rbac::held::Held;
use crate::rbac::own;
use crate::rbac::rules::{Part, Policy, Rule};

/// Where the operator has the rules of a role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Everywhere: a `ClusterRoleBinding`.
    Everywhere,
    /// In its own namespace: a `RoleBinding`, whose namespace kustomize writes.
    Own,
    /// In another namespace.
    Other(String),
}

/// The rights of the operator.
#[derive(Default)]
struct Rights {
    rules: BTreeMap<Place, Vec<Value>>,
    /// The role of each place that rules are added to: the file, and its part.
    roles: BTreeMap<Place, (String, (usize, usize))>,
}

impl Rights {
    fn of(documents: &[Document<'_>], account: &str) -> Self {
        let mut rights = Self::default();
        let home = documents.iter().find(|d| d.kind() == "Deployment").map_or("", |d| d.text("/metadata/namespace"));
        for binding in documents.iter().filter(|d| matches!(d.kind(), "RoleBinding" | "ClusterRoleBinding")) {
            let subjects = binding.value.get("subjects").and_then(Value::as_array).into_iter().flatten();
            let is_ours = |subject: &Value| subject["kind"] == "ServiceAccount" && subject["name"] == account;
            if !subjects.into_iter().any(is_ours) {
                continue;
            }
            let place = match (binding.kind(), binding.text("/metadata/namespace")) {
                ("ClusterRoleBinding", _) => Place::Everywhere,
                (_, namespace) if namespace.is_empty() || namespace == home => Place::Own,
                (_, namespace) => Place::Other(namespace.to_owned()),
            };
            let is_meant = |role: &&Document<'_>| {
                role.kind() == binding.text("/roleRef/kind")
                    && role.text("/metadata/name") == binding.text("/roleRef/name")
            };
            let Some(role) = documents.iter().find(is_meant) else { continue };
            let rules = role.value.get("rules").and_then(Value::as_array).cloned().unwrap_or_default();
            rights.rules.entry(place.clone()).or_default().extend(rules);
            let is_preferred = match place {
                Place::Own => role.path.contains("leader_election"),
                Place::Everywhere | Place::Other(_) => role.path.ends_with("/role.yaml"),
            };
            if is_preferred || !rights.roles.contains_key(&place) {
                rights.roles.insert(place, (role.path.to_owned(), (role.start, role.end)));
            }
        }
        rights
    }

    /// The rights at a place: its own, and those that hold everywhere.
    fn held(&self, place: &Place) -> Held {
        let mut rules = self.rules.get(&Place::Everywhere).cloned().unwrap_or_default();
        if *place != Place::Everywhere {
            rules.extend(self.rules.get(place).cloned().unwrap_or_default());
        }
        Held::read(&json!({"resourceRules": rules}))
    }

    /// The role that gets a rule for a place.
    fn role(&self, place: &Place) -> Option<&(String, (usize, usize))> {
        self.roles.get(place).or_else(|| self.roles.get(&Place::Everywhere))
    }
}

pub fn look(project: &Project<'_>, manager: &Manager<'_>, report: &mut MigrationReport) {
    let documents = documents::used(project.files);
    let rights = Rights::of(&documents, &manager.account);
    let Some((main, _)) = rights.role(&Place::Everywhere).or_else(|| rights.role(&Place::Own)).cloned() else {
        return report.note(
            "config/rbac",
            None,
            &format!("no role is bound to the ServiceAccount {}", manager.account),
            "compare its rights with tillerman rbac --watches watches.yaml",
        );
    };
    let mut seen = BTreeSet::new();
    let mut is_complete = true;
    for rule in
        project.needed.iter().filter(|rule| manager.elects() || rule.reach != Reach::Operator || !is_of_lease(rule))
    {
        let place = match &rule.reach {
            Reach::Operator => Place::Own,
            Reach::Release if manager.is_bounded => Place::Own,
            Reach::Release | Reach::Cluster => Place::Everywhere,
            Reach::Namespace(name) => Place::Other(name.clone()),
        };
        let held = rights.held(&place);
        for lacks in held.lacks(&rule.policy) {
            if !seen.insert((place.clone(), lacks.clone())) {
                continue;
            }
            is_complete &= !needs(&held, rule, &lacks, &rights, &place, (project, report));
        }
    }
    if is_complete {
        report.stays(&main, &format!("the ServiceAccount {} has what Tillerman needs", manager.account));
    }
    let lease_is_new = manager.elects() && report.findings.iter().any(|f| f.is_edited && f.what.contains("leases"));
    if let Some((path, part)) = manager.rolling().filter(|_| lease_is_new) {
        let what = "helm-operator of this version held a ConfigMap and no lease, so two operators run for a moment when the image changes";
        deployment::recreate(project, path, part, what, report);
    }
}

fn is_of_lease(rule: &Rule) -> bool {
    rule.policy.groups.contains("coordination.k8s.io")
}

/// Says what is missing. Returns whether it is needed.
fn needs(
    held: &Held,
    rule: &Rule,
    lacks: &Policy,
    rights: &Rights,
    place: &Place,
    (project, report): (&Project<'_>, &mut MigrationReport),
) -> bool {
    let (why, home) = (rule.why.join("; "), rights.role(place));
    let path = home.map_or("config/rbac", |(path, _)| path.as_str());
    let shown = format!("the role lacks {lacks} ({why})");
    if own::is_for_explanations(rule) {
        report.note(
            path,
            None,
            &shown,
            "nothing, or add the rule: without it, conditions and events say less about why a workload or hook fails",
        );
        return false;
    }
    // The objects of a kind that no rule names were never meant to be made: helm-operator may not make them either.
    let has_some = ["get", "list", "create", "patch", "update", "*"].iter().any(|verb| {
        let mut one = lacks.clone();
        one.verbs = [(*verb).to_owned()].into();
        held.lacks(&one).is_empty()
    });
    if rule.part != Part::Own && !has_some {
        report.note(
            path,
            None,
            &shown,
            "add the rule if the chart needs the object; helm-operator does not have this right either",
        );
        return false;
    }
    let added = home.and_then(|(path, part)| {
        appended(project.files.get(path)?, *part, lacks, &why).map(|(at, edit)| (path, at, edit))
    });
    match added {
        Some((path, at, edit)) => report.edit(path, at, edit, &shown, "add the rule"),
        None => report.change(path, None, &shown, "add the rule"),
    }
    true
}

/// The edit that adds a rule to the list at the end of a role. `None` where something else follows the list, or it is written differently.
fn appended(text: &str, (start, end): (usize, usize), policy: &Policy, why: &str) -> Option<(usize, Edit)> {
    let lines: Vec<(usize, &str)> = text.lines().enumerate().take(end).skip(start).collect();
    let rules = lines.iter().position(|(_, line)| line.trim_end() == "rules:")?;
    let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let behind = &lines[rules + 1..];
    let first = behind.iter().find(|(_, line)| !is_blank(line))?.1;
    let indent = &first[..first.len() - first.trim_start().len()];
    let is_of_list = |line: &str| is_blank(line) || line.starts_with(' ') || line.starts_with('-');
    if !first.trim_start().starts_with("- ") || !behind.iter().all(|(_, line)| is_of_list(line)) {
        return None;
    }
    let (last, _) = behind.iter().rfind(|(_, line)| !is_blank(line))?;
    let mut written = vec![format!("{indent}# {why}")];
    for (nth, (field, texts)) in policy.fields().into_iter().enumerate() {
        let dash = if nth == 0 { "- " } else { "  " };
        written.push(format!("{indent}{dash}{field}:"));
        written.extend(texts.iter().map(|text| format!("{indent}  - {}", crate::rbac::rules::scalar(text))));
    }
    Some((*last, Edit::After(written)))
}

//! Rules of roles: how they are written, and how many become few.

use super::Reach;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A rule of a Role.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Policy {
    /// API groups; an empty text for the core group.
    pub groups: BTreeSet<String>,
    /// Resources and subresources, in the plural.
    pub resources: BTreeSet<String>,
    /// Names of objects; empty for all.
    pub names: BTreeSet<String>,
    /// Paths of the API server that are not resources.
    pub urls: BTreeSet<String>,
    /// Verbs.
    pub verbs: BTreeSet<String>,
}

impl Policy {
    /// A rule for resources of a group.
    pub fn new(group: &str, resources: &[&str], verbs: &[&str]) -> Self {
        let set = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self { groups: set(&[group]), resources: set(resources), verbs: set(verbs), ..Self::default() }
    }

    /// Whether it is of all objects of its resources.
    fn is_plain(&self) -> bool {
        self.names.is_empty() && self.urls.is_empty()
    }

    /// The fields, with their texts in the order in which people write them.
    pub(crate) fn fields(&self) -> Vec<(&'static str, Vec<&str>)> {
        fn list(set: &BTreeSet<String>) -> Vec<&str> {
            set.iter().map(String::as_str).collect()
        }
        fn rank(verb: &str) -> usize {
            const ORDER: [&str; 8] =
                ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
            ORDER.iter().position(|known| *known == verb).unwrap_or(ORDER.len())
        }
        let mut verbs = list(&self.verbs);
        verbs.sort_by_key(|verb| rank(verb));
        let fields = [
            ("apiGroups", list(&self.groups)),
            ("resources", list(&self.resources)),
            ("resourceNames", list(&self.names)),
            ("nonResourceURLs", list(&self.urls)),
            ("verbs", verbs),
        ];
        fields.into_iter().filter(|(_, texts)| !texts.is_empty()).collect()
    }
}

impl fmt::Display for Policy {
    /// In one line of YAML: `{apiGroups: [apps], resources: [deployments], verbs: [get]}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<String> =
            self.fields().iter().map(|(name, texts)| format!("{name}: [{}]", flow(texts))).collect();
        write!(f, "{{{}}}", fields.join(", "))
    }
}

/// Texts as items of a list in YAML's flow style.
pub(super) fn flow(texts: &[&str]) -> String {
    texts.iter().map(|text| scalar(text)).collect::<Vec<_>>().join(", ")
}

/// A text as YAML, in quotes where it could be read as something else.
pub(crate) fn scalar(text: &str) -> String {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let is_plain = starts
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-./".contains(c))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

/// The part of the output that a rule belongs to; rules of different parts are not joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Rights that the operator needs for itself.
    Own,
    /// Objects of the chart.
    Objects,
    /// Lookups of templates.
    Lookups,
    /// Rules that the chart's Roles grant.
    Granted,
}

/// A rule, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Where it is needed.
    pub reach: Reach,
    /// Which part it belongs to.
    pub part: Part,
    /// The rights that it allows.
    pub policy: Policy,
    /// Its purpose, in lines.
    pub why: Vec<String>,
}

/// The rules of one role: what another rule has already is left out, and rules of a part that differ in their resources or groups only are
/// joined.
pub fn merge(mut rules: Vec<Rule>) -> Vec<Rule> {
    rules.sort_by_key(|rule| rule.part);
    let mut merged: Vec<Rule> = Vec::new();
    // The owner of a rule with a verb on a resource.
    let mut covered: BTreeMap<(String, String), BTreeMap<String, usize>> = BTreeMap::new();
    for mut rule in rules {
        let held_by = |group: &str, resource: &str, verb: &str, covered: &BTreeMap<_, BTreeMap<String, usize>>| {
            let groups = [group, "*"];
            let resources = [resource, "*"];
            groups.iter().flat_map(|g| resources.iter().map(move |r| ((*g).to_owned(), (*r).to_owned()))).find_map(
                |key| {
                    let verbs = covered.get(&key)?;
                    verbs.get(verb).or_else(|| verbs.get("*")).copied()
                },
            )
        };
        let policy = &rule.policy;
        let mut holders = BTreeSet::new();
        let is_held = |resource: &String, holders: &mut BTreeSet<usize>| {
            let all = policy.groups.iter().flat_map(|group| policy.verbs.iter().map(move |verb| (group, verb)));
            all.map(|(group, verb)| held_by(group, resource, verb, &covered))
                .collect::<Option<Vec<_>>>()
                .map(|by| holders.extend(by))
        };
        let left: BTreeSet<String> = if policy.urls.is_empty() {
            policy.resources.iter().filter(|resource| is_held(resource, &mut holders).is_none()).cloned().collect()
        } else {
            policy.resources.clone()
        };
        if left.is_empty() && policy.urls.is_empty() {
            // The first that has a part of it says what else it is for.
            if let Some(holder) = holders.first() {
                note(&mut merged[*holder].why, rule.why);
            }
            continue;
        }
        rule.policy.resources = left;
        let same = merged.iter().position(|other| joins(other, &rule));
        let at = same.unwrap_or(merged.len());
        for group in &rule.policy.groups {
            for resource in rule.policy.resources.iter().filter(|_| rule.policy.is_plain()) {
                let verbs = covered.entry((group.clone(), resource.clone())).or_default();
                for verb in &rule.policy.verbs {
                    verbs.entry(verb.clone()).or_insert(at);
                }
            }
        }
        match same {
            Some(at) => {
                merged[at].policy.resources.extend(rule.policy.resources);
                note(&mut merged[at].why, rule.why);
            }
            None => merged.push(rule),
        }
    }
    merged
}

/// Whether two rules become one: they differ in the resources only.
fn joins(a: &Rule, b: &Rule) -> bool {
    let plain = |policy: &Policy| policy.is_plain() && policy.groups.len() == 1;
    a.part == b.part
        && plain(&a.policy)
        && plain(&b.policy)
        && a.policy.groups == b.policy.groups
        && a.policy.verbs == b.policy.verbs
}

fn note(why: &mut Vec<String>, more: Vec<String>) {
    for line in more {
        if !why.contains(&line) {
            why.push(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Part, Policy, Reach, Rule, merge, scalar};

    fn rule(part: Part, group: &str, resource: &str, verbs: &[&str]) -> Rule {
        let why = vec![format!("{part:?} {resource}")];
        Rule { reach: Reach::Release, part, policy: Policy::new(group, &[resource], verbs), why }
    }

    fn shown(rules: Vec<Rule>) -> Vec<String> {
        merge(rules).into_iter().map(|rule| format!("{}: {}", rule.policy, rule.why.join(", "))).collect()
    }

    #[test]
    fn rules_of_a_part_are_joined_and_those_that_another_has_are_left_out() {
        let rules = vec![
            rule(Part::Objects, "apps", "statefulsets", &["get", "patch"]),
            rule(Part::Objects, "", "secrets", &["get"]),
            rule(Part::Own, "", "secrets", &["delete", "get", "list"]),
            rule(Part::Objects, "apps", "deployments", &["get", "patch"]),
            rule(Part::Granted, "apps", "deployments", &["get", "watch"]),
        ];
        assert_eq!(
            shown(rules),
            [
                "{apiGroups: [\"\"], resources: [secrets], verbs: [get, list, delete]}: Own secrets, Objects secrets",
                "{apiGroups: [apps], resources: [deployments, statefulsets], verbs: [get, patch]}: Objects statefulsets, Objects deployments",
                "{apiGroups: [apps], resources: [deployments], verbs: [get, watch]}: Granted deployments",
            ]
        );
    }

    #[test]
    fn a_wildcard_covers_and_a_name_does_not() {
        let mut named = rule(Part::Granted, "", "pods", &["get"]);
        named.policy.names.insert("a".to_owned());
        let rules = vec![named.clone(), rule(Part::Granted, "", "pods", &["get"])];
        assert_eq!(shown(rules).len(), 2, "a rule for one object does not cover all");
        let rules =
            vec![rule(Part::Own, "*", "*", &["*"]), named, rule(Part::Granted, "apps", "deployments", &["get"])];
        assert_eq!(
            shown(rules),
            ["{apiGroups: [\"*\"], resources: [\"*\"], verbs: [\"*\"]}: Own *, Granted pods, Granted deployments"]
        );
    }

    #[test]
    fn texts_that_yaml_would_take_for_something_else_are_quoted() {
        for (text, expected) in [
            ("", "\"\""),
            ("*", "\"*\""),
            ("pods/log", "pods/log"),
            ("on", "\"on\""),
            ("a:b", "\"a:b\""),
            ("1", "\"1\""),
        ] {
            assert_eq!(scalar(text), expected);
        }
    }
}

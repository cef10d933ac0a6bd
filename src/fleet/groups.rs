//! Equal changes of many custom resources, shown once.
//!
//! Entries are equal if they are after the names of the release are replaced by marks. The fields of an object that the same custom
//! resources change make one group. A field that has a value of its own in each custom resource, such as a checksum, makes one
//! entry with an example.

use std::collections::{BTreeMap, HashMap};

use indexmap::IndexMap;

use super::effect::Effect;
use super::findings::{FleetEntry, FleetSubject, WithBody};
use super::placeholders::Placeholders;

/// Values of a field that single custom resources have, and that are shown one by one.
const SINGLE: usize = 3;

/// A field of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupField {
    /// Where it is; empty for a whole object.
    pub path: String,
    /// Its value now.
    pub before: Option<String>,
    /// Its value then.
    pub after: Option<String>,
    /// Each custom resource has values of its own, and these are those of the first.
    pub varies: bool,
}

/// A change, and the custom resources that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetGroup {
    /// What it does.
    pub effect: Effect,
    /// To which object, with marks in place of names.
    pub subject: FleetSubject,
    pub fields: Vec<GroupField>,
    /// The object of the first custom resource as YAML, if it is created.
    pub body: Option<String>,
    /// The custom resources, by their numbers, in ascending order.
    pub members: Vec<usize>,
}

/// The entries of a custom resource.
#[derive(Clone, Debug, Default)]
pub struct CaseEntries {
    /// The names of its release.
    pub placeholders: Placeholders,
    /// The entries, each once.
    pub entries: Vec<WithBody>,
}

/// Joins the entries of custom resources. The groups that hurt are first, the worst before the others.
pub fn group(cases: &[CaseEntries]) -> Vec<FleetGroup> {
    let mut found = Collected::default();
    // A single custom resource is shown with its own names.
    let marked: Vec<Vec<FleetEntry>> = if cases.len() > 1 { cases.iter().map(marked).collect() } else { plain(cases) };
    let raw: Vec<Vec<FleetEntry>> = cases.iter().zip(&marked).map(|(case, marked)| raw(case, marked)).collect();
    let (of_marked, of_raw) = (counts(&marked), counts(&raw));
    for (number, case) in cases.iter().enumerate() {
        for (at, (_, body)) in case.entries.iter().enumerate() {
            let (marked, raw) = (&marked[number][at], &raw[number][at]);
            // A value with a word that is the name of a release by chance is the value of all others.
            let entry = if of_raw[raw] >= of_marked[marked] { raw } else { marked };
            found.add(number, entry, body.as_ref());
        }
    }
    found.into_groups()
}

fn plain(cases: &[CaseEntries]) -> Vec<Vec<FleetEntry>> {
    cases.iter().map(|case| case.entries.iter().map(|(entry, _)| entry.clone()).collect()).collect()
}

/// The entries of a case with marks.
fn marked(case: &CaseEntries) -> Vec<FleetEntry> {
    let put = |text: &String| case.placeholders.put(text).into_owned();
    let mark = |(entry, _): &WithBody| FleetEntry {
        effect: entry.effect,
        subject: FleetSubject {
            name: put(&entry.subject.name),
            namespace: put(&entry.subject.namespace),
            ..entry.subject.clone()
        },
        path: put(&entry.path),
        before: entry.before.as_ref().map(put),
        after: entry.after.as_ref().map(put),
    };
    case.entries.iter().map(mark).collect()
}

/// The entries of a case with marks in the names of objects alone.
fn raw(case: &CaseEntries, marked: &[FleetEntry]) -> Vec<FleetEntry> {
    let both = case.entries.iter().zip(marked);
    both.map(|((entry, _), marked)| FleetEntry { subject: marked.subject.clone(), ..entry.clone() }).collect()
}

fn counts(all: &[Vec<FleetEntry>]) -> HashMap<&FleetEntry, usize> {
    let mut counts = HashMap::new();
    for entry in all.iter().flatten() {
        *counts.entry(entry).or_insert(0) += 1;
    }
    counts
}

/// An effect on an object.
type Target = (Effect, FleetSubject);

/// The custom resources by the change of a field.
type ByField = IndexMap<GroupField, Vec<usize>>;

/// The entries so far.
#[derive(Default)]
struct Collected {
    targets: IndexMap<Target, ByField>,
    bodies: HashMap<Target, String>,
}

impl Collected {
    fn add(&mut self, number: usize, entry: &FleetEntry, body: Option<&String>) {
        let FleetEntry { effect, subject, path, before, after } = entry.clone();
        let target = (effect, subject);
        if let Some(body) = body.filter(|_| effect == Effect::Created) {
            self.bodies.entry(target.clone()).or_insert_with(|| body.clone());
        }
        let field = GroupField { path, before, after, varies: false };
        let members = self.targets.entry(target).or_default().entry(field).or_default();
        if members.last() != Some(&number) {
            members.push(number);
        }
    }

    fn into_groups(mut self) -> Vec<FleetGroup> {
        let mut groups = Vec::new();
        for (target, fields) in self.targets {
            let mut by_members: BTreeMap<Vec<usize>, Vec<GroupField>> = BTreeMap::new();
            for (field, members) in joined(fields) {
                by_members.entry(members).or_default().push(field);
            }
            for (members, mut fields) in by_members {
                fields.sort();
                let (effect, subject) = target.clone();
                groups.push(FleetGroup { effect, subject, fields, body: self.bodies.remove(&target), members });
            }
        }
        groups.sort_by(|one, other| {
            let order = |group: &FleetGroup| (group.effect, group.subject.kind.clone(), group.subject.name.clone());
            order(one).cmp(&order(other)).then(other.members.len().cmp(&one.members.len()))
        });
        groups
    }
}

/// The fields of an object, with one entry for the values that single custom resources have, if there are many of them.
fn joined(fields: ByField) -> Vec<(GroupField, Vec<usize>)> {
    let mut single: HashMap<String, usize> = HashMap::new();
    for (field, _) in fields.iter().filter(|(_, members)| members.len() == 1) {
        *single.entry(field.path.clone()).or_default() += 1;
    }
    let (mut joined, mut varying): (Vec<_>, IndexMap<String, (GroupField, Vec<usize>)>) = (Vec::new(), IndexMap::new());
    for (field, members) in fields {
        let varies = members.len() == 1 && !field.path.is_empty() && single[&field.path] > SINGLE;
        if !varies {
            joined.push((field, members));
            continue;
        }
        let first = || (GroupField { varies, ..field.clone() }, Vec::new());
        varying.entry(field.path.clone()).or_insert_with(first).1.extend(members);
    }
    for (_, (field, mut members)) in varying {
        members.sort_unstable();
        members.dedup();
        joined.push((field, members));
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::{CaseEntries, FleetGroup, group};
    use crate::fleet::effect::Effect;
    use crate::fleet::findings::{FleetEntry, FleetSubject};
    use crate::fleet::placeholders::Placeholders;

    type Change<'a> = (Effect, &'a str, &'a str, &'a str, &'a str);

    fn case(name: &str, changes: &[Change<'_>]) -> CaseEntries {
        let entry = |(effect, object, path, before, after): &Change<'_>| {
            let subject = FleetSubject { kind: "Deployment".into(), name: (*object).into(), ..FleetSubject::default() };
            let side = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            let (before, after) = (side(before), side(after));
            (FleetEntry { effect: *effect, subject, path: (*path).into(), before, after }, None)
        };
        CaseEntries {
            placeholders: Placeholders::new(("ns", name), ("ns", name)),
            entries: changes.iter().map(entry).collect(),
        }
    }

    fn lines(cases: &[CaseEntries]) -> Vec<String> {
        let line = |group: FleetGroup| {
            let fields: Vec<String> = group
                .fields
                .iter()
                .map(|f| {
                    let varies = if f.varies { "~" } else { "" };
                    let side = |text: &Option<String>| text.clone().unwrap_or_default();
                    format!("{varies}{}: {} > {}", f.path, side(&f.before), side(&f.after))
                })
                .collect();
            format!("{} {} {:?} {}", group.effect.word(), group.subject.name, group.members, fields.join("; "))
        };
        group(cases).into_iter().map(line).collect()
    }

    #[test]
    fn the_same_change_is_shown_once_and_what_hurts_is_first() {
        let cases = [
            case("a", &[(Effect::Changed, "a-web", "x", "1", "2"), (Effect::Rolls, "a-web", "image", "r:1", "r:2")]),
            case("b", &[(Effect::Rolls, "b-web", "image", "r:1", "r:2"), (Effect::Deleted, "b-old", "", "", "")]),
        ];
        assert_eq!(
            lines(&cases),
            [
                "deleted {release}-old [1] :  > ",
                "rolls {release}-web [0, 1] image: r:1 > r:2",
                "changed {release}-web [0] x: 1 > 2",
            ]
        );
    }

    #[test]
    fn fields_that_the_same_custom_resources_change_are_one_group() {
        let all = [(Effect::Rolls, "web", "image", "1", "2"), (Effect::Rolls, "web", "args", "x", "y")];
        let more = [all[0], all[1], (Effect::Rolls, "web", "env", "", "v")];
        assert_eq!(
            lines(&[case("a", &all), case("b", &more)]),
            ["rolls web [0, 1] args: x > y; image: 1 > 2", "rolls web [1] env:  > v"]
        );
    }

    #[test]
    fn a_value_with_the_name_of_a_release_in_it_is_equal_to_others_and_by_chance_it_is_not() {
        let host = |name: &str| case(name, &[(Effect::Changed, "web", "host", "", &format!("{name}.example"))]);
        assert_eq!(lines(&[host("a"), host("b")]), ["changed web [0, 1] host:  > {release}.example"]);
        let image = |name: &str| case(name, &[(Effect::Changed, "web", "image", "nginx:1", "nginx:2")]);
        assert_eq!(lines(&[image("nginx"), image("b")]), ["changed web [0, 1] image: nginx:1 > nginx:2"]);
        // A single custom resource has its own names.
        assert_eq!(lines(&[host("a")]), ["changed web [0] host:  > a.example"]);
    }

    #[test]
    fn values_that_all_differ_are_one_entry_with_an_example() {
        let sum = |name: &str| case(name, &[(Effect::Rolls, "web", "sum", &format!("{name}1"), &format!("{name}2"))]);
        let few: Vec<_> = ["a", "b"].iter().map(|name| sum(name)).collect();
        assert_eq!(lines(&few).len(), 2);
        let many: Vec<_> = ["a", "b", "c", "d"].iter().map(|name| sum(name)).collect();
        assert_eq!(lines(&many), ["rolls web [0, 1, 2, 3] ~sum: a1 > a2"]);
    }
}

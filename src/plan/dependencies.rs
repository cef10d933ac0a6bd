//! Custom resources that need others: the values that they take from them, and whether a release waits.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::situation::Refusal;
use crate::bounds;
use crate::kind::depends_on::{Dependency, Taken};
use crate::names;
use crate::object::conditions::Conditions;
use crate::release::status_fields::is_too_long;

/// Reason of conditions: another custom resource is not ready.
pub const NOT_READY: &str = "DependencyNotReady";
/// Reason of conditions: custom resources need each other.
pub const CYCLE: &str = "DependencyCycle";
/// Reason of conditions: all of them are ready.
pub const READY: &str = "DependenciesReady";
/// Custom resources that are checked to find a cycle.
const MAX_VISITED: usize = 200;

/// The facts about a custom resource that a different one needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DependencyState {
    /// Not yet whether it exists.
    Unknown,
    /// It does not exist, or no operator serves it; why, as a sentence.
    Missing(String),
    /// It is being deleted.
    Deleting,
    /// It exists.
    Exists {
        /// `metadata.generation`.
        generation: i64,
        status: Map<String, Value>,
    },
}

/// A dependency of a custom resource, and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Needed {
    /// `Kind.group` of the other.
    pub kind: String,
    pub name: String,
    /// Why it is not ready; `None` if it is.
    pub unready: Option<String>,
    /// The values that are in use, by their targets; `None` if there are none yet.
    pub values: Option<Map<String, Value>>,
    /// Whether it is not known yet whether the other is ready.
    pub unknown: bool,
    /// Whether changes of an installed release wait for it.
    pub upgrade_after: bool,
}

impl Needed {
    /// Decides about one dependency. `before` is the entry of the last status for it, if the release is installed: its values stay in use
    /// while the other is not ready.
    pub fn of(dependency: &Dependency, name: &str, target: &DependencyState, before: Option<&Value>) -> Self {
        let taken = &*dependency.values;
        let last = before.and_then(|entry| entry.get("values")).and_then(Value::as_object);
        let last = last.filter(|values| taken.iter().all(|taken| values.contains_key(&taken.target)));
        let last = last.map(|values| only(values, taken)).filter(|values| !are_too_long(values));
        let (unready, values) = match look(taken, target) {
            Ok(values) => (None, Some(values)),
            // Without values, only the first installation waits.
            Err(why) => (Some(why), last.or_else(|| taken.is_empty().then(Map::new))),
        };
        let (name, unknown) = (name.to_owned(), *target == DependencyState::Unknown);
        Self { kind: dependency.kind_group(), name, unready, values, unknown, upgrade_after: dependency.upgrade_after }
    }

    fn entry(&self) -> Value {
        let values = self.values.clone().unwrap_or_default();
        json!({"kind": self.kind, "name": self.name, "ready": self.unready.is_none(), "values": values})
    }

    fn says(&self) -> Option<String> {
        let kind = self.kind.split('.').next().unwrap_or_default();
        self.unready.as_ref().map(|why| format!("{kind} {}: {why}", self.name))
    }
}

/// The values of these targets, and no others.
fn only(values: &Map<String, Value>, taken: &[Taken]) -> Map<String, Value> {
    let of = |taken: &Taken| Some((taken.target.clone(), values.get(&taken.target)?.clone()));
    taken.iter().filter_map(of).collect()
}

/// The values that a custom resource gives, or why it gives none.
fn look(taken: &[Taken], target: &DependencyState) -> Result<Map<String, Value>, String> {
    let (generation, status) = match target {
        DependencyState::Unknown => return Err("it is not known yet".to_owned()),
        DependencyState::Missing(why) => return Err(why.clone()),
        DependencyState::Deleting => return Err("it is being deleted".to_owned()),
        DependencyState::Exists { generation, status } => (*generation, status),
    };
    if status.get("observedGeneration").and_then(Value::as_i64) != Some(generation) {
        return Err("its last change is not handled yet".to_owned());
    }
    match Conditions::of(status).get("Ready") {
        Some(ready) if ready.is_true() => {}
        // Its message may be of its own dependency. Its reader finds it there.
        Some(ready) => return Err(format!("it is not ready ({})", ready.reason())),
        None => return Err("it has no condition Ready".to_owned()),
    }
    let value = |taken: &Taken| match taken.source.find_in(status) {
        None => Err(format!("it is ready, and has no {taken}")),
        Some(value) if is_too_long(value) => Err(format!("its {taken} is too long")),
        Some(value) => Ok((taken.target.clone(), value.clone())),
    };
    let values: Map<String, Value> = taken.iter().map(value).collect::<Result<_, _>>()?;
    if are_too_long(&values) {
        return Err(format!("its values have more than {} bytes together", bounds::TAKEN_BYTES));
    }
    Ok(values)
}

fn are_too_long(values: &Map<String, Value>) -> bool {
    values.values().map(|value| value.to_string().len()).sum::<usize>() > bounds::TAKEN_BYTES
}

/// The values of all dependencies, by their targets. A release waits if it has not all of them, and, before it is installed, if one is not
/// ready.
pub fn together(needed: &[Needed], is_installed: bool) -> Result<Vec<(String, Value)>, Refusal> {
    let waits = |needed: &&Needed| needed.values.is_none() || !is_installed && needed.unready.is_some();
    let waiting: Vec<String> = needed.iter().filter(waits).filter_map(Needed::says).collect();
    if !waiting.is_empty() {
        return Err(Refusal { reason: NOT_READY, message: format!("waiting for {}", waiting.join("; ")) });
    }
    Ok(needed.iter().filter_map(|needed| needed.values.clone()).flatten().collect())
}

/// The dependencies that changes of an installed release wait for: those with `upgradeAfter` that are not ready.
pub fn hold(needed: &[Needed]) -> Option<Refusal> {
    let waiting: Vec<String> = needed.iter().filter(|needed| needed.upgrade_after).filter_map(Needed::says).collect();
    let message = || {
        format!(
            "the upgrade waits for {}. To upgrade before that, set the annotation {} to another text",
            waiting.join("; "),
            names::RECONCILE_AT
        )
    };
    (!waiting.is_empty()).then(|| Refusal { reason: NOT_READY, message: message() })
}

/// The entry of a status for a dependency.
pub fn before<'s>(status: &'s Map<String, Value>, kind: &str, name: &str) -> Option<&'s Value> {
    let entries = status.get("dependencies")?.as_array()?;
    let is = |entry: &Value, key: &str, wanted: &str| entry.get(key).and_then(Value::as_str) == Some(wanted);
    entries.iter().take(bounds::DEPENDENCIES).find(|entry| is(entry, "kind", kind) && is(entry, "name", name))
}

/// Enters the dependencies into a status. While one is not known, the status stays as it is.
pub fn enter(status: &mut Map<String, Value>, needed: &[Needed]) {
    if needed.iter().any(|needed| needed.unknown) {
        return;
    }
    if needed.is_empty() {
        status.remove("dependencies");
    } else {
        status.insert("dependencies".into(), needed.iter().map(Needed::entry).collect());
    }
}

/// The condition `DependenciesReady`: its status, reason and message. `None`: it stays as it is.
pub fn condition(needed: &[Needed]) -> Option<(bool, &'static str, String)> {
    if needed.iter().any(|needed| needed.unknown) {
        return None;
    }
    let unready: Vec<String> = needed.iter().filter_map(Needed::says).collect();
    Some(if unready.is_empty() { (true, READY, String::new()) } else { (false, NOT_READY, unready.join("; ")) })
}

/// A way from a custom resource over those that it needs back to itself, with it at both ends.
pub fn cycle<K: Ord + Clone>(start: &K, mut needs: impl FnMut(&K) -> Vec<K>) -> Option<Vec<K>> {
    let mut from: BTreeMap<K, K> = BTreeMap::new();
    let mut visited = BTreeSet::from([start.clone()]);
    let mut left = vec![start.clone()];
    while let Some(at) = left.pop() {
        for next in needs(&at) {
            if next == *start {
                let mut way = vec![start.clone()];
                let mut back = &at;
                while back != start {
                    way.push(back.clone());
                    back = from.get(back)?;
                }
                way.push(start.clone());
                way.reverse();
                return Some(way);
            }
            if visited.len() < MAX_VISITED && visited.insert(next.clone()) {
                from.insert(next.clone(), at.clone());
                left.push(next);
            }
        }
    }
    None
}

/// The refusal of a custom resource in a cycle, whose members are named by kind and name.
pub fn refuse_cycle(way: &[String]) -> Refusal {
    let message = format!("{}: each of them waits for the next one. Remove one of these dependencies", way.join(" → "));
    Refusal { reason: CYCLE, message }
}

#[cfg(test)]
mod tests {
    use super::{DependencyState, Needed, before, cycle, enter, hold, together};
    use crate::kind::depends_on::{Dependency, parse};
    use serde_json::{Map, Value, json};

    fn dependency() -> Dependency {
        let list = json!([{"group": "g", "kind": "Database", "name": "d", "values": {"host": "status.endpoint"}}]);
        parse(&list, true).unwrap().remove(0)
    }

    fn target(generation: i64, status: &Value) -> DependencyState {
        DependencyState::Exists { generation, status: status.as_object().unwrap().clone() }
    }

    fn ready(is: &str, endpoint: Option<&str>) -> Value {
        let mut status =
            json!({"observedGeneration": 2, "conditions": [{"type": "Ready", "status": is, "reason": "R"}]});
        if let Some(endpoint) = endpoint {
            status["endpoint"] = endpoint.into();
        }
        status
    }

    #[test]
    fn values_come_from_a_ready_dependency_and_the_last_ones_stay() {
        let dependency = dependency();
        let last = json!({"kind": "Database.g", "name": "d", "ready": true, "values": {"host": "old", "other": 1}});
        let missing = DependencyState::Missing("it does not exist".to_owned());
        for (target, first, later) in [
            (target(2, &ready("True", Some("new"))), Ok("new"), Ok("new")),
            (target(3, &ready("True", Some("new"))), Err("Database d: its last change is not handled yet"), Ok("old")),
            (target(2, &ready("False", Some("new"))), Err("Database d: it is not ready (R)"), Ok("old")),
            (target(2, &ready("True", None)), Err("Database d: it is ready, and has no status.endpoint"), Ok("old")),
            (target(2, &json!({"observedGeneration": 2})), Err("Database d: it has no condition Ready"), Ok("old")),
            (DependencyState::Deleting, Err("Database d: it is being deleted"), Ok("old")),
            (missing, Err("Database d: it does not exist"), Ok("old")),
        ] {
            for (is_installed, last, expected) in
                [(false, None, first), (true, Some(&last), later), (true, None, first)]
            {
                let needed = Needed::of(&dependency, "d", &target, last);
                let found = together(&[needed], is_installed);
                match expected {
                    Ok(value) => assert_eq!(found.unwrap(), [("host".to_owned(), json!(value))], "{target:?}"),
                    Err(why) => assert_eq!(found.unwrap_err().message, format!("waiting for {why}")),
                }
            }
        }
        // One that gives no values holds up the first installation, and nothing later.
        let plain = Dependency { values: Vec::new(), ..dependency.clone() };
        let needed = [Needed::of(&plain, "d", &target(2, &ready("False", None)), None)];
        assert_eq!((together(&needed, false).is_err(), together(&needed, true)), (true, Ok(Vec::new())));
        let needed = Needed::of(&dependency, "d", &target(2, &ready("True", Some("new"))), None);
        let mut status = Map::new();
        enter(&mut status, &[needed]);
        let entry = json!({"kind": "Database.g", "name": "d", "ready": true, "values": {"host": "new"}});
        assert_eq!(before(&status, "Database.g", "d"), Some(&entry));
        assert_eq!(before(&status, "Database.g", "e"), None);
        enter(&mut status, &[]);
        assert_eq!(status, Map::new());
    }

    #[test]
    fn changes_wait_for_a_dependency_with_upgrade_after_that_is_not_ready() {
        let plain = dependency();
        let first = Dependency { upgrade_after: true, ..dependency() };
        let held = |dependency, is| hold(&[Needed::of(dependency, "d", &target(2, &ready(is, Some("e"))), None)]);
        assert_eq!((held(&plain, "False"), held(&first, "True")), (None, None));
        let message = held(&first, "False").unwrap().message;
        assert!(message.starts_with("the upgrade waits for Database d: it is not ready (R). To upgrade"), "{message}");
    }

    #[test]
    fn a_cycle_is_found_from_each_of_its_members_and_from_no_other() {
        let needs = |at: &u8| match at {
            0 | 3 => vec![1],
            1 => vec![4, 2],
            2 => vec![3],
            5 => vec![5],
            _ => vec![],
        };
        assert_eq!(cycle(&1, needs), Some(vec![1, 2, 3, 1]));
        assert_eq!(cycle(&3, needs), Some(vec![3, 1, 2, 3]));
        assert_eq!(cycle(&5, needs), Some(vec![5, 5]));
        assert_eq!(cycle(&0, needs), None);
        assert_eq!(cycle(&4, needs), None);
        // A chain without an end is not followed to its end.
        assert_eq!(cycle(&0_u64, |at| vec![at + 1]), None);
    }
}
